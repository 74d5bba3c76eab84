//! How many events per second of CPU time a simulation handles.
//!
//! `cargo run --profile ci -p tidegate-lab --example sim_speed -- SCENARIO.toml [POLICY [SEED]]`

use std::error::Error;
use std::time::Duration;

use tidegate_lab::measure::{cores, cpu_time, pin_thread};
use tidegate_lab::scenario::Scenario;
use tidegate_lab::sim::policy::Policy;
use tidegate_lab::sim::record::Record;
use tidegate_lab::sim::run;

/// So that the best of them is not the one that was disturbed.
const ROUNDS: u32 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("which scenario?")?;
    let scenario: Scenario = toml::from_str(&std::fs::read_to_string(file)?)?;
    let policy = Policy::named(&args.next().unwrap_or_else(|| Policy::OURS.to_owned()))?;
    let seed = args.next().map_or(Ok(1), |seed| seed.parse())?;
    let me = std::process::id();
    if let Some(&core) = cores()?.last() {
        pin_thread(core)?;
    }

    let mut best = Duration::MAX;
    let mut record = run(&scenario, &policy, seed);
    for _ in 0..ROUNDS {
        let before = cpu_time(me)?;
        record = run(&scenario, &policy, seed);
        best = best.min(cpu_time(me)? - before);
    }
    print(&record);
    println!(
        "{} events in {best:?} of CPU time: {:.2} million per second; hash {:016x}",
        record.events,
        record.events as f64 / best.as_secs_f64() / 1e6,
        record.hash,
    );
    Ok(())
}

/// A line for each tenth of the run.
fn print(record: &Record) {
    for bins in record.bins.chunks(record.bins.len().div_ceil(10)) {
        let sum = |what: fn(&tidegate_lab::sim::record::Bin) -> u32| -> f64 {
            let sum: u32 = bins.iter().map(what).sum();
            f64::from(sum) * 10.0 / bins.len() as f64
        };
        let mut latencies = tidegate_lab::sim::record::Latencies::default();
        bins.iter().for_each(|bin| latencies.merge(&bin.latencies));
        let last = &bins[bins.len() - 1];
        println!(
            "offered {:7.0}/s  good {:7.0}/s  refused {:7.0}/s  late {:6.0}/s  p50 {:?}  limit {:.0}  inside {}",
            sum(|bin| bin.first.iter().chain(&bin.retries).sum()),
            sum(|bin| bin.good.iter().sum()),
            sum(|bin| bin.refused.iter().sum()),
            sum(|bin| bin.timed_out),
            latencies.quantile(0.5).unwrap_or_default(),
            last.limit,
            last.in_flight,
        );
    }
}

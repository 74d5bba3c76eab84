//! How many events per second of CPU time a simulation handles.
//!
//! `cargo run --profile ci -p tidegate-lab --example sim_speed -- SCENARIO.toml [POLICY [SEED]]`

use std::error::Error;
use std::time::Duration;

use tidegate_core::admission::Reason;
use tidegate_lab::measure::{cores, cpu_time, pin_thread};
use tidegate_lab::scenario::Scenario;
use tidegate_lab::sim::policy::Policy;
use tidegate_lab::sim::record::{BIN, Record};
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

/// Some lines for each tenth of the run.
fn print(record: &Record) {
    let tenth = BIN * (record.bins.len() as u32).div_ceil(10);
    for part in 0..10 {
        let window = record.window(tenth * part, tenth * (part + 1));
        let Some(last) = window.bins().last() else {
            break;
        };
        println!(
            "offered {:6.0}/s, good {:6.0}/s, refused {:6.0}/s, late {:6.0}/s, p50 {:?}, limit {}, inside {}",
            window.offered(None),
            window.goodput(None),
            window.refused(None),
            window.timed_out(None),
            window.latencies().quantile(0.5).unwrap_or_default(),
            last.limit,
            last.in_flight,
        );
        for reason in Reason::ALL {
            let refused = window.refused_for(reason);
            if refused > 0.0 {
                println!("    {:18}{refused:7.1}/s", reason.name());
            }
        }
    }
}

//! What a bar measures in a run.

use std::time::Duration;

use tidegate_core::facts::Class;

use crate::scenario::{Bar, Measure, Scenario};
use crate::sim::record::{BIN, Bin, Latencies, Record};

/// Bins per second.
const SECOND: usize = (Duration::from_secs(1).as_nanos() / BIN.as_nanos()) as usize;

/// Goodput is back for good when it is on average of every so many seconds: single seconds of
/// random arrivals are below any line that is worth drawing now and then.
const STEADY_SECONDS: usize = 3;

/// What `bar` measures in `record`, a run of `scenario`.
///
/// `None` where there is nothing to measure, such as the median time of no answers. A recovery
/// that does not happen takes for ever: [`f64::INFINITY`].
pub fn measure(scenario: &Scenario, bar: &Bar, record: &Record) -> Option<f64> {
    let from = bar.from.unwrap_or(scenario.warm_up);
    let to = bar.to.unwrap_or(scenario.length);
    let last = record.bins.len();
    let bins = &record.bins[place(from).min(last)..place(to).min(last)];
    if bins.is_empty() {
        return None;
    }
    let class = bar.class.as_deref().and_then(Class::from_name);
    let seconds = bins.len() as f64 / SECOND as f64;
    let per_second = |count: &dyn Fn(&Bin) -> u32| Some(sum(bins, count) / seconds);
    match bar.measure {
        Measure::Goodput => per_second(&|bin| of(class, &bin.good)),
        Measure::Offered => per_second(&|bin| of(class, &bin.first) + of(class, &bin.retries)),
        Measure::Retries => per_second(&|bin| of(class, &bin.retries)),
        Measure::Refused => per_second(&|bin| of(None, &bin.refused) + bin.failed),
        Measure::Wasted => per_second(&|bin| bin.wasted),
        Measure::Failures => Some(sum(bins, &|bin| {
            of(None, &bin.refused) + bin.failed + bin.timed_out
        })),
        Measure::Share => {
            let first = sum(bins, &|bin| of(class, &bin.first));
            (first > 0.0).then(|| 100.0 * sum(bins, &|bin| of(class, &bin.good)) / first)
        }
        Measure::P50Ms => quantile_ms(bins, 0.5),
        Measure::P99Ms => quantile_ms(bins, 0.99),
        Measure::LimitLeast => limits(bins).reduce(f64::min),
        Measure::LimitMost => limits(bins).reduce(f64::max),
        Measure::ProbeShare => {
            let probing = sum(bins, &|bin| u32::from(bin.probing));
            Some(100.0 * probing / bins.len() as f64)
        }
        Measure::Recovery => Some(recovery(bins, bar.recovered.unwrap_or_default())),
        Measure::Fairness => fairness(record),
        Measure::BaselineSpread => bins.iter().map(spread).reduce(f64::max),
        Measure::QueueMost => bins
            .iter()
            .map(|bin| f64::from(bin.queue_most))
            .reduce(f64::max),
    }
}

const fn place(at: Duration) -> usize {
    (at.as_nanos() / BIN.as_nanos()) as usize
}

fn of(class: Option<Class>, counts: &[u32; Class::COUNT]) -> u32 {
    match class {
        Some(class) => counts[class.index()],
        None => counts.iter().sum(),
    }
}

fn sum(bins: &[Bin], count: &dyn Fn(&Bin) -> u32) -> f64 {
    bins.iter().map(|bin| f64::from(count(bin))).sum()
}

fn quantile_ms(bins: &[Bin], part: f64) -> Option<f64> {
    let mut all = Latencies::default();
    bins.iter().for_each(|bin| all.merge(&bin.latencies));
    all.quantile(part).map(|time| time.as_secs_f64() * 1e3)
}

/// The limit, outside probes.
fn limits(bins: &[Bin]) -> impl Iterator<Item = f64> {
    bins.iter()
        .filter(|bin| !bin.probing)
        .map(|bin| f64::from(bin.limit))
}

/// Whole seconds until goodput is at least `enough` in a second and from then on.
fn recovery(bins: &[Bin], enough: f64) -> f64 {
    let good: Vec<f64> = bins
        .chunks_exact(SECOND)
        .map(|second| sum(second, &|bin| of(None, &bin.good)))
        .collect();
    let steady = STEADY_SECONDS.min(good.len());
    // The last stretch that is not good enough on average has to be over.
    let over = good
        .windows(steady.max(1))
        .rposition(|stretch| stretch.iter().sum::<f64>() < enough * stretch.len() as f64)
        .map_or(0, |last| last + 1);
    let back = good[over..].iter().position(|&second| second >= enough);
    match back {
        // A stretch reaches beyond its beginning, so the end of the window is never judged well
        // because there is nothing left to judge.
        Some(more) if over + steady <= good.len() => (over + more) as f64,
        _ => f64::INFINITY,
    }
}

/// Least to largest goodput of a gateway relative to what it was offered.
fn fairness(record: &Record) -> Option<f64> {
    let parts = || {
        record
            .by_gateway
            .iter()
            .filter(|totals| totals.offered > 0)
            .map(|totals| totals.good as f64 / totals.offered as f64)
    };
    let most = parts().reduce(f64::max)?;
    let least = parts().reduce(f64::min)?;
    (most > 0.0).then_some(least / most)
}

/// The largest difference of a gateway's baseline from the median one, in per cent; a gateway that
/// has none is all wrong.
fn spread(bin: &Bin) -> f64 {
    let mut baselines = bin.baselines_ns.clone();
    baselines.sort_unstable();
    let median = match baselines.get(baselines.len() / 2) {
        Some(&median) if median > 0 => median as f64,
        _ => return 100.0,
    };
    baselines
        .iter()
        .map(|&baseline| 100.0 * (baseline as f64 / median - 1.0).abs())
        .fold(0.0, f64::max)
}

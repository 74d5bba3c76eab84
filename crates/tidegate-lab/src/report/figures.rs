//! The figures of a run that its table shows.

use serde::Serialize;
use tidegate_core::facts::Class;

use super::series::LIMIT_NONE;
use crate::scenario::{Measure, Scenario};
use crate::sim::record::{Record, Window};
use crate::suite::measure;

/// What came of one run, or of several seeds of it, from the end of its warm-up on. Rates are per
/// second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Attempts made.
    pub offered: f64,
    /// Answered well and in time.
    pub goodput: f64,
    /// The part of first attempts of all classes but background that was answered well and in
    /// time, in per cent; retries that succeed count.
    pub users_percent: Option<f64>,
    /// Refused or failed.
    pub refused: f64,
    /// Given up by the client.
    pub timed_out: f64,
    /// Worked on for clients who had gone.
    pub wasted: f64,
    /// Median time of good answers, in milliseconds.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the same.
    pub p99_ms: Option<f64>,
    /// The least limit outside probes; `None` where there is none.
    pub limit_least: Option<f64>,
    /// The largest.
    pub limit_most: Option<f64>,
    /// Time in probes, in per cent.
    pub probe_percent: f64,
    /// The longest queue, the application's own included.
    pub queue_most: f64,
    /// How long goodput took to be back, in seconds, infinity for never; `None` in a scenario that
    /// does not ask.
    pub recovery_s: Option<f64>,
}

impl Figures {
    /// The figures of `record`, a run of `scenario`.
    pub fn of(scenario: &Scenario, record: &Record) -> Self {
        let window = record.window(scenario.warm_up, scenario.length);
        let latencies = window.latencies();
        let ms = |part| {
            let time = latencies.quantile(part)?;
            Some(time.as_secs_f64() * 1e3)
        };
        let limits = window
            .limits()
            .filter(|&(_, most)| most < f64::from(LIMIT_NONE));
        let recovery = scenario
            .bars
            .iter()
            .find(|bar| bar.measure == Measure::Recovery);
        Self {
            offered: window.offered(None),
            goodput: window.goodput(None),
            users_percent: users_percent(window),
            refused: window.refused(None),
            timed_out: window.timed_out(None),
            wasted: window.wasted(),
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
            limit_least: limits.map(|(least, _)| least),
            limit_most: limits.map(|(_, most)| most),
            probe_percent: window.probe_share(),
            queue_most: f64::from(window.queue_most()),
            recovery_s: recovery.and_then(|bar| measure(scenario, bar, record)),
        }
    }

    /// Several seeds in one: means, but the extremes of limits, the longest queue and the longest
    /// recovery.
    pub fn over(seeds: &[Self]) -> Self {
        let mean =
            |of: fn(&Self) -> f64| seeds.iter().map(of).sum::<f64>() / seeds.len().max(1) as f64;
        let mean_known = |of: fn(&Self) -> Option<f64>| {
            let known: Vec<f64> = seeds.iter().filter_map(of).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        let most = |of: fn(&Self) -> Option<f64>| seeds.iter().filter_map(of).reduce(f64::max);
        Self {
            offered: mean(|one| one.offered),
            goodput: mean(|one| one.goodput),
            users_percent: mean_known(|one| one.users_percent),
            refused: mean(|one| one.refused),
            timed_out: mean(|one| one.timed_out),
            wasted: mean(|one| one.wasted),
            p50_ms: mean_known(|one| one.p50_ms),
            p99_ms: mean_known(|one| one.p99_ms),
            limit_least: seeds
                .iter()
                .filter_map(|one| one.limit_least)
                .reduce(f64::min),
            limit_most: most(|one| one.limit_most),
            probe_percent: mean(|one| one.probe_percent),
            queue_most: most(|one| Some(one.queue_most)).unwrap_or_default(),
            recovery_s: most(|one| one.recovery_s),
        }
    }
}

fn users_percent(window: Window<'_>) -> Option<f64> {
    let users = || {
        let all = Class::ALL.into_iter();
        all.filter(|&class| class != Class::Background).map(Some)
    };
    let offered: f64 = users().map(|class| window.offered(class)).sum();
    let retries: f64 = users().map(|class| window.retries(class)).sum();
    let good: f64 = users().map(|class| window.goodput(class)).sum();
    let first = offered - retries;
    (first > 0.0).then(|| 100.0 * good / first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_averaged_but_extremes_stay() {
        let one = Figures {
            goodput: 100.0,
            limit_least: Some(40.0),
            limit_most: Some(60.0),
            queue_most: 5.0,
            ..Figures::default()
        };
        let other = Figures {
            goodput: 300.0,
            limit_least: Some(30.0),
            limit_most: Some(50.0),
            queue_most: 9.0,
            recovery_s: Some(f64::INFINITY),
            ..Figures::default()
        };

        let both = Figures::over(&[one, other]);

        assert_eq!(both.goodput, 200.0);
        assert_eq!(
            (both.limit_least, both.limit_most),
            (Some(30.0), Some(60.0))
        );
        assert_eq!(both.queue_most, 9.0);
        assert_eq!(both.recovery_s, Some(f64::INFINITY));
        assert_eq!(both.p50_ms, None);
    }
}

//! A run over time, in steps that a plot can show.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::sim::record::{BIN, Bin, Record, Window};

/// Rates and latencies are over at least this: shorter, and chance is most of what is seen.
const STEP_LEAST: Duration = Duration::from_secs(1);

/// Rates and latencies are over so many steps at most, whatever the run's length.
const STEPS_MOST: usize = 300;

/// Limits are looked at so often at most.
const LOOKS_MOST: usize = 600;

/// What happened in a run, step by step. For programs it is a list for each quantity.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// One after the other, without gaps.
    pub steps: Vec<Step>,
    /// The limit and what is counted at a moment, more often than that.
    pub looks: Vec<Look>,
    /// When limits were being probed, in seconds.
    pub probes: Vec<(f64, f64)>,
}

/// What happened within one step. Rates are per second, times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// The step's middle, in seconds.
    pub at: f64,
    /// Attempts made.
    pub offered: f64,
    /// The part of them that is retries.
    pub retries: f64,
    /// Let in.
    pub admitted: f64,
    /// Answered well and in time.
    pub good: f64,
    /// Refused by a gateway or the application.
    pub refused: f64,
    /// Failed in the application.
    pub failed: f64,
    /// Given up by the client.
    pub timed_out: f64,
    /// Median time of good answers, where there were any.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the same.
    pub p99_ms: Option<f64>,
    /// How things stood at its end.
    pub end: Look,
}

/// How things stood at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// When, in seconds.
    pub at: f64,
    /// The limit; `None` where there is none.
    pub limit: Option<f64>,
    /// In flight.
    pub in_flight: f64,
    /// Waiting in gateways: the most since the one before.
    pub queued: f64,
    /// Waiting inside the application: the most since the one before.
    pub backlog: f64,
}

/// A limit from here on is none.
pub(super) const LIMIT_NONE: f32 = 1e9;

impl Series {
    /// What `record` tells.
    pub fn of(record: &Record) -> Self {
        let bins = &record.bins;
        let per_step = (STEP_LEAST.as_nanos() / BIN.as_nanos()) as usize;
        let per_step = per_step * bins.len().div_ceil(per_step * STEPS_MOST).max(1);
        let per_look = bins.len().div_ceil(LOOKS_MOST).max(1);
        let steps = (0..bins.len()).step_by(per_step).map(|from| {
            let (from, to) = (time(from), time(from + per_step));
            Step::of(from, record.window(from, to))
        });
        let looks = bins.chunks(per_look).enumerate();
        Self {
            steps: steps.collect(),
            looks: looks
                .map(|(index, bins)| Look::of(time(index * per_look), bins))
                .collect(),
            probes: probes(bins),
        }
    }
}

impl Step {
    fn of(from: Duration, window: Window<'_>) -> Self {
        let latencies = window.latencies();
        let ms = |part| {
            let time = latencies.quantile(part)?;
            Some(time.as_secs_f64() * 1000.0)
        };
        let sum = |count: fn(&Bin) -> u64| window.bins().iter().map(count).sum::<u64>() as f64;
        let length = window.length().as_secs_f64();
        Self {
            at: from.as_secs_f64() + length / 2.0,
            offered: window.offered(None),
            retries: window.retries(None),
            admitted: sum(|bin| u64::from(bin.admitted)) / length,
            good: window.goodput(None),
            refused: window.refused(None),
            failed: sum(|bin| bin.failed.iter().map(|&count| u64::from(count)).sum()) / length,
            timed_out: window.timed_out(None),
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
            end: Look::of(from, window.bins()),
        }
    }
}

impl Serialize for Series {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let column = |of: fn(&Step) -> Option<f64>| -> Vec<Option<f64>> {
            let rounded = |value: f64| (value * 1000.0).round() / 1000.0;
            self.steps
                .iter()
                .map(|step| of(step).map(rounded))
                .collect()
        };
        to.collect_map([
            ("at_s", column(|step| Some(step.at))),
            ("offered", column(|step| Some(step.offered))),
            ("retries", column(|step| Some(step.retries))),
            ("admitted", column(|step| Some(step.admitted))),
            ("good", column(|step| Some(step.good))),
            ("refused", column(|step| Some(step.refused))),
            ("failed", column(|step| Some(step.failed))),
            ("timed_out", column(|step| Some(step.timed_out))),
            ("p50_ms", column(|step| step.p50_ms)),
            ("p99_ms", column(|step| step.p99_ms)),
            ("limit", column(|step| step.end.limit)),
            ("in_flight", column(|step| Some(step.end.in_flight))),
            ("queued", column(|step| Some(step.end.queued))),
            ("backlog", column(|step| Some(step.end.backlog))),
        ])
    }
}

impl Look {
    fn of(from: Duration, bins: &[Bin]) -> Self {
        let most = |of: fn(&Bin) -> u32| f64::from(bins.iter().map(of).max().unwrap_or(0));
        let last = bins.last();
        let limit = last.map_or(0.0, |bin| bin.limit);
        Self {
            at: (from + time(bins.len())).as_secs_f64(),
            limit: (limit < LIMIT_NONE).then_some(f64::from(limit)),
            in_flight: last.map_or(0.0, |bin| f64::from(bin.in_flight)),
            queued: most(|bin| bin.queued),
            backlog: most(|bin| bin.backlog),
        }
    }
}

fn probes(bins: &[Bin]) -> Vec<(f64, f64)> {
    let mut probes: Vec<(f64, f64)> = Vec::new();
    for (index, _) in bins
        .iter()
        .enumerate()
        .filter(|(_, bin)| !bin.probing.is_zero())
    {
        let from = time(index).as_secs_f64();
        let to = time(index + 1).as_secs_f64();
        match probes.last_mut() {
            Some((_, until)) if *until == from => *until = to,
            _ => probes.push((from, to)),
        }
    }
    probes
}

/// Where bin number `index` begins.
fn time(index: usize) -> Duration {
    BIN * u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(bins: usize) -> Record {
        let bin = |index: usize| {
            let mut bin = Bin {
                limit: index as f32,
                probing: BIN * u32::from((3..5).contains(&index)),
                ..Bin::default()
            };
            bin.first[2] = 7;
            bin.retries[2] = 3;
            bin.good[2] = 5;
            bin.latencies.add(Duration::from_millis(50));
            bin
        };
        Record {
            bins: (0..bins).map(bin).collect(),
            hash: 0,
            events: 0,
        }
    }

    #[test]
    fn a_step_is_a_second_and_a_rate_is_per_second() {
        let series = Series::of(&record(30));

        assert_eq!(series.steps.len(), 3);
        assert_eq!(series.steps[0].offered, 100.0);
        assert_eq!(series.steps[0].retries, 30.0);
        assert_eq!(series.steps[2].good, 50.0);
        assert!((series.steps[2].at - 2.5).abs() < 1e-9);
        let p50 = series.steps[1].p50_ms.unwrap();
        assert!((48.0..52.0).contains(&p50), "{p50}");
    }

    #[test]
    fn a_long_run_has_longer_steps_and_not_more_of_them() {
        let series = Series::of(&record(6001));

        assert_eq!(series.steps.len(), 201);
        assert_eq!(series.steps[0].good, 50.0);
        assert_eq!(series.looks.len(), 546);
    }

    #[test]
    fn a_probe_is_marked_from_its_first_bin_to_its_last() {
        let series = Series::of(&record(30));

        assert_eq!(series.probes.len(), 1);
        let (from, until) = series.probes[0];
        assert!((from - 0.3).abs() < 1e-9 && (until - 0.5).abs() < 1e-9);
    }

    #[test]
    fn for_programs_it_is_a_list_for_each_quantity() {
        let json = serde_json::to_value(Series::of(&record(30))).unwrap();

        assert_eq!(json["at_s"], serde_json::json!([0.5, 1.5, 2.5]));
        assert_eq!(json["good"][1], 50.0);
        assert_eq!(json["limit"], serde_json::json!([9.0, 19.0, 29.0]));
        assert_eq!(json["timed_out"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn no_limit_is_no_number() {
        let mut record = record(10);
        record.bins[4].limit = u32::MAX as f32;

        let series = Series::of(&record);

        assert_eq!(series.looks[3].limit, Some(3.0));
        assert_eq!(series.looks[4].limit, None);
    }
}

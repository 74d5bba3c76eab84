//! What one cohort says, held against the baselines.

use std::time::Duration;

use super::baseline::Baselines;
use super::cohort::Cohort;
use crate::time::{Mono, nanos};

/// A limit of which this much was in use at some moment may be in the way.
const SATURATED_SHARE: f64 = 0.9;

/// Requests of known routes from which the spread of latencies can be told.
const SPREAD_AFTER: f64 = 20.0;

/// The figures of one cohort.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// How long ago it was opened.
    pub(super) since_opened: Duration,
    /// Mean latency over all requests, in nanoseconds.
    pub(super) latency_ns: f64,
    /// The mean over the same mix of routes by their baselines, in nanoseconds; `None` while no
    /// route of the cohort has one.
    pub(super) baseline_ns: Option<f64>,
    /// Latencies against baselines, both added up over the same requests.
    pub(super) inflation: f64,
    /// Coefficient of variation of the inflation of single requests.
    pub(super) spread: Option<f64>,
    /// Requests whose route has a baseline.
    pub(super) known: f64,
    /// Whether more would have come in, had the limit been higher.
    pub(super) saturated: bool,
    /// The part of the requests that found at most a few slots free.
    pub(super) full: f64,
    /// Requests turned away for each one that was let in.
    pub(super) refused_per_admitted: f64,
    /// The part that ended because there was too much work.
    pub(super) overloaded: f64,
    /// Requests that worked, and over how many seconds they were counted.
    pub(super) worked: f64,
    pub(super) seconds: f64,
}

impl Reading {
    /// Reads `cohort` at `now`, gathered under `limit` where requests used to take `pace_ns`; `None`
    /// when nothing is left in it.
    pub(super) fn of(
        cohort: &Cohort,
        baselines: &Baselines,
        limit: u32,
        pace_ns: f64,
        now: Mono,
    ) -> Option<Self> {
        let since_opened = now.since(cohort.opened);
        let (mut requests, mut latency_ns) = (0.0, 0.0);
        let (mut known, mut known_latency_ns, mut known_baseline_ns) = (0.0, 0.0, 0.0);
        let (mut finished, mut relative, mut relative_squared) = (0.0, 0.0, 0.0);
        for (index, totals) in cohort.routes().iter().enumerate() {
            let count = f64::from(totals.requests());
            let total_ns = totals.latency_ns_at(since_opened);
            requests += count;
            latency_ns += total_ns;
            if let Some(baseline_ns) = baselines.known_ns(index) {
                known += count;
                known_latency_ns += total_ns;
                known_baseline_ns += count * baseline_ns;
                if baseline_ns > 0.0 {
                    finished += f64::from(totals.finished);
                    relative += totals.latency_ns / baseline_ns;
                    relative_squared += totals.latency_ns_squared / (baseline_ns * baseline_ns);
                }
            }
        }
        if requests == 0.0 && cohort.overloaded == 0 {
            return None;
        }
        let inflation = if known_baseline_ns > 0.0 {
            known_latency_ns / known_baseline_ns
        } else {
            1.0
        };
        let spread = (finished >= SPREAD_AFTER && relative > 0.0).then(|| {
            let mean = relative / finished;
            (relative_squared / finished - mean * mean).max(0.0).sqrt() / mean
        });
        Some(Self {
            since_opened,
            latency_ns: if requests > 0.0 {
                latency_ns / requests
            } else {
                pace_ns
            },
            baseline_ns: (known > 0.0).then(|| known_baseline_ns / known),
            inflation,
            spread,
            known,
            saturated: cohort.refused > 0
                || f64::from(cohort.in_flight_most) >= SATURATED_SHARE * f64::from(limit),
            full: (f64::from(cohort.full) + f64::from(cohort.refused))
                / (f64::from(cohort.admitted) + f64::from(cohort.refused)).max(1.0),
            refused_per_admitted: f64::from(cohort.refused) / f64::from(cohort.admitted.max(1)),
            overloaded: f64::from(cohort.overloaded) / f64::from(cohort.finished.max(1)),
            worked: f64::from(cohort.worked),
            seconds: nanos(now.since(cohort.counted_from)) as f64 / 1e9,
        })
    }

    /// Requests that worked per second.
    pub(super) fn throughput(&self) -> f64 {
        if self.seconds > 0.0 {
            self.worked / self.seconds
        } else {
            0.0
        }
    }
}

//! How long requests take of late, and how much has to be seen of them before anything is decided.

use std::time::Duration;

use super::cohort::Plan;
use super::reading::Reading;

/// Mean latency before there is any, in nanoseconds.
const LATENCY_UNKNOWN_NS: f64 = 100e6;

/// Spread before there is any.
const SPREAD_UNKNOWN: f64 = 0.5;

/// How much a cohort's spread counts against the former ones.
const SPREAD_WEIGHT: f64 = 0.3;

/// After the limit has moved, throughput settles for a mean latency and at least this long.
const SETTLE_LEAST: Duration = Duration::from_millis(20);

/// No cohort is open for less than this.
const SPAN_LEAST: Duration = Duration::from_millis(50);

/// A closed cohort is evaluated after this many mean latencies whatever is unfinished,
const DRAIN_LATENCIES: u32 = 10;

/// ... but is given this long.
const DRAIN_LEAST: Duration = Duration::from_millis(100);

/// What cohorts are gathered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A mean latency.
    Latency,
    /// The response of throughput to a probe.
    Probe,
}

impl Purpose {
    /// For how many mean latencies a cohort is open at least.
    const fn latencies(self) -> f64 {
        match self {
            Self::Latency => 0.5,
            Self::Probe => 3.0,
        }
    }

    /// For how long it is open when requests are few.
    const fn span_long(self) -> Duration {
        match self {
            Self::Latency => Duration::from_secs(1),
            Self::Probe => Duration::from_secs(4),
        }
    }

    /// How many requests it needs where single latencies have `spread`: for a mean that is known to
    /// within 20 %, or for a change of throughput that is known to within 10 %.
    fn requests(self, spread: f64) -> f64 {
        match self {
            Self::Latency => sample_size(spread, 0.2).clamp(40.0, 1500.0),
            Self::Probe => sample_size(spread, 0.1).clamp(150.0, 2000.0),
        }
    }
}

/// Latency as of the last cohorts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The mean, in nanoseconds.
    pub(super) latency_ns: f64,
    /// What the same mix of routes would take without a queue, in nanoseconds.
    pub(super) baseline_ns: Option<f64>,
    /// The one against the other.
    pub(super) inflation: Option<f64>,
    /// Coefficient of variation of single requests.
    pub(super) spread: f64,
}

impl Pace {
    pub(super) const UNKNOWN: Self = Self {
        latency_ns: LATENCY_UNKNOWN_NS,
        baseline_ns: None,
        inflation: None,
        spread: SPREAD_UNKNOWN,
    };

    pub(super) fn see(&mut self, reading: &Reading) {
        self.latency_ns = reading.latency_ns;
        if let Some(baseline_ns) = reading.baseline_ns {
            self.baseline_ns = Some(baseline_ns);
            self.inflation = Some(reading.inflation);
        }
        if let Some(spread) = reading.spread {
            self.spread += SPREAD_WEIGHT * (spread - self.spread);
        }
    }

    /// How a cohort is to be gathered, after the limit has moved by much or not.
    pub(super) fn plan(&self, purpose: Purpose, moved: bool) -> Plan {
        let latency = Duration::from_nanos(self.latency_ns as u64);
        let settle = if moved {
            latency.max(SETTLE_LEAST)
        } else {
            Duration::ZERO
        };
        Plan {
            settle,
            span_least: latency.mul_f64(purpose.latencies()).max(SPAN_LEAST),
            admissions_least: purpose.requests(self.spread) as u32,
            span_long: purpose.span_long(),
            drain_most: latency.saturating_mul(DRAIN_LATENCIES).max(DRAIN_LEAST),
        }
    }
}

/// Requests from whose latencies a mean is known to within `error` of itself, at two standard errors.
pub(super) fn sample_size(spread: f64, error: f64) -> f64 {
    let root = 2.0 * spread / error;
    root * root
}

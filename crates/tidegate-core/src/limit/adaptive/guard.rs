//! What keeps the limit from rising, or from staying up, whatever throughput says.

use std::time::Duration;

use super::reading::Reading;
use crate::time::{Mono, nanos};

/// Half of the time over which the most in flight is remembered.
const HALF: Duration = Duration::from_secs(30);

/// Unused limits come down to this many times the most in flight.
const ROOM: f64 = 2.0;

/// ... within about this time.
const DECAY: Duration = Duration::from_secs(60);

/// What forbids a higher limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guards {
    /// The greatest mean latency that counts as healthy, in nanoseconds.
    healthy_ns: Option<f64>,
    /// The machine under the application has nothing to give.
    pub(super) pressed: bool,
}

impl Guards {
    pub(super) fn new(healthy: Option<Duration>) -> Self {
        Self {
            healthy_ns: healthy.map(|latency| nanos(latency) as f64),
            pressed: false,
        }
    }

    /// The least inflation that is too much for the operator, if that was said.
    pub(super) fn inflation_max(&self, reading: &Reading) -> f64 {
        match (self.healthy_ns, reading.baseline_ns) {
            (Some(healthy_ns), Some(baseline_ns)) if baseline_ns > 0.0 => healthy_ns / baseline_ns,
            _ => f64::INFINITY,
        }
    }

    /// Whether a higher limit is allowed.
    pub(super) fn allow_raise(&self, reading: &Reading) -> bool {
        let healthy = self
            .healthy_ns
            .is_none_or(|healthy_ns| reading.latency_ns <= healthy_ns);
        healthy && !self.pressed
    }
}

/// How much of the limit was used in the last minute.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    recent: u32,
    former: u32,
    turned: Mono,
    /// Halves seen to their end, up to 2.
    halves: u32,
}

impl Usage {
    /// So many were in flight by `now`.
    pub(super) fn see(&mut self, now: Mono, in_flight: u32) {
        if now.since(self.turned) >= HALF {
            self.former = self.recent;
            self.recent = 0;
            self.turned = now;
            self.halves = (self.halves + 1).min(2);
        }
        self.recent = self.recent.max(in_flight);
    }

    /// Where `limit` comes to when `span` passes with no more use than that, though not below
    /// `least`; `None` when it is used well enough or when that is not known yet.
    pub(super) fn decayed(&self, limit: f64, least: f64, span: Duration) -> Option<f64> {
        let room = (ROOM * f64::from(self.recent.max(self.former))).max(least);
        if self.halves < 2 || limit <= room {
            return None;
        }
        let part = (span.as_secs_f64() / DECAY.as_secs_f64()).min(1.0);
        Some(limit + (room - limit) * part)
    }
}

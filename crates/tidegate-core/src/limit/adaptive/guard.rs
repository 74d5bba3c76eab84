//! What keeps the limit from rising, or from staying up, whatever throughput says.

use std::time::Duration;

use super::reading::Reading;
use crate::time::{Mono, nanos};

/// Half of the time over which the most in flight is remembered.
const HALF: Duration = Duration::from_secs(30);

/// Limits that are not reached become this many times the most in flight: room for a burst, or for
/// what piles up while the application pauses.
const ROOM: f64 = 2.0;

/// They rise to that within about this time,
const RISE: Duration = Duration::from_secs(10);

/// ... and come down to it within about this.
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

/// How much of the limit was used in the last minute in which nothing was wrong.
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

    /// Where `limit` comes to when `span` passes in which it is not reached: nearer to twice what
    /// was in flight, though not below `least`. It comes down only when that is known of a minute.
    pub(super) fn drifted(&self, limit: f64, least: f64, span: Duration) -> f64 {
        let room = (ROOM * f64::from(self.recent.max(self.former))).max(least);
        let time = if limit < room {
            RISE
        } else if self.halves == 2 {
            DECAY
        } else {
            return limit;
        };
        let part = (span.as_secs_f64() / time.as_secs_f64()).min(1.0);
        limit + (room - limit) * part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A minute and a half with at most `in_flight` at once.
    fn usage(in_flight: u32) -> Usage {
        let mut usage = Usage::default();
        for second in 0..90 {
            usage.see(Mono::from_millis(1000 * second), in_flight);
        }
        usage
    }

    #[test]
    fn a_limit_that_is_not_reached_drifts_to_twice_what_is_in_flight() {
        let usage = usage(50);

        assert_eq!(usage.drifted(40.0, 20.0, SECOND), 46.0);
        assert_eq!(usage.drifted(700.0, 20.0, SECOND), 690.0);
        assert_eq!(usage.drifted(700.0, 20.0, 600 * SECOND), 100.0);
    }

    #[test]
    fn it_comes_down_to_no_less_than_its_start_and_not_before_a_minute() {
        assert_eq!(usage(2).drifted(700.0, 20.0, 600 * SECOND), 20.0);

        let mut young = Usage::default();
        young.see(Mono::from_millis(40_000), 50);
        young.see(Mono::from_millis(59_000), 50);
        assert_eq!(young.drifted(700.0, 20.0, SECOND), 700.0);
        assert_eq!(young.drifted(40.0, 20.0, SECOND), 46.0);
    }
}

//! How fast a store that has just come back is given what it has missed.

use std::time::{Duration, Instant};

/// Operations in a second at most: about a fifth of what one primary does, for some ten gateways
/// that heal at the same time.
const PER_SECOND_MAX: f64 = 2_000.0;
/// Operations in a second at least, however slow the store is.
const PER_SECOND_MIN: f64 = 50.0;
/// Operations that may be made up for after a pause.
const BURST: f64 = 16.0;
/// A reply that took longer says that the store has enough to do.
const SLOW: Duration = Duration::from_millis(6);

/// The budget of healing. It begins low, rises with every quick reply, and halves with a slow one.
#[derive(Debug)]
pub(super) struct Pace {
    per_second: f64,
    tokens: f64,
    refilled: Instant,
}

impl Pace {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            per_second: PER_SECOND_MIN * 4.0,
            tokens: BURST,
            refilled: now,
        }
    }

    /// Takes one operation; how long to wait before it.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        let elapsed = now.saturating_duration_since(self.refilled);
        self.refilled = self.refilled.max(now);
        self.tokens = BURST.min(self.tokens + elapsed.as_secs_f64() * self.per_second) - 1.0;
        if self.tokens >= 0.0 {
            Duration::ZERO
        } else {
            Duration::from_secs_f64(-self.tokens / self.per_second)
        }
    }

    /// Learns how long an operation took; `None` when it failed.
    pub(super) fn learn(&mut self, took: Option<Duration>) {
        self.per_second = match took {
            Some(took) if took <= SLOW => PER_SECOND_MAX.min(self.per_second + 1.0),
            _ => PER_SECOND_MIN.max(self.per_second / 2.0),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_to_its_rate_which_quick_replies_raise_and_slow_ones_halve() {
        let start = Instant::now();
        let mut now = start;
        let mut pace = Pace::new(start);
        let mut run = |pace: &mut Pace, span: Duration, took: Duration| {
            let (until, mut done) = (now + span, 0u32);
            while now < until {
                now += pace.take(now);
                pace.learn(Some(took));
                done += 1;
            }
            f64::from(done) / span.as_secs_f64()
        };
        let second = Duration::from_secs(1);

        let quick = run(&mut pace, second * 10, Duration::from_millis(1));
        let full = run(&mut pace, second * 10, Duration::from_millis(1));
        let slow = run(&mut pace, second * 10, Duration::from_millis(20));

        assert!(quick < full, "{quick} {full}");
        assert!((1_900.0..2_100.0).contains(&full), "{full}");
        assert!(slow < 100.0, "{slow}");
    }
}

//! What somebody who was let in brings along.

use std::time::Duration;

/// The least that a visitor is taken to bring, in requests per second.
pub const LOAD_MIN: f64 = 0.001;
/// The most.
pub const LOAD_MAX: f64 = 1_000.0;

/// With fewer inside, what they bring says little about visitors.
const ACTIVE_MIN: f64 = 5.0;
/// How fast it follows when visitors bring more than before, and when they bring less. Letting in too many costs more than
/// letting in too few.
const UP: Duration = Duration::from_secs(5);
const DOWN: Duration = Duration::from_secs(20);

/// What a visitor brings, in the unit that the fleet's spare capacity has: requests per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    each: f64,
}

impl Load {
    /// Taken to be `each` until something is learnt; in [`LOAD_MIN`] to [`LOAD_MAX`].
    pub const fn new(each: f64) -> Self {
        Self {
            each: each.clamp(LOAD_MIN, LOAD_MAX),
        }
    }

    /// For `span`, `active` visitors brought `rps` together.
    pub fn learn(&mut self, span: Duration, rps: f64, active: f64) {
        if !(active >= ACTIVE_MIN && rps.is_finite() && rps >= 0.0) {
            return;
        }
        let seen = (rps / active).clamp(LOAD_MIN, LOAD_MAX);
        let lag = if seen > self.each { UP } else { DOWN };
        let weight = 1.0 - (-span.as_secs_f64() / lag.as_secs_f64()).exp();
        self.each += weight * (seen - self.each);
    }

    /// Requests per second that a visitor brings.
    pub const fn each(&self) -> f64 {
        self.each
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(250);

    fn after(seconds: u32, rps: f64, load: &mut Load) -> f64 {
        for _ in 0..4 * seconds {
            load.learn(TICK, rps, 100.0);
        }
        load.each()
    }

    #[test]
    fn twice_the_load_is_known_within_half_a_minute() {
        let mut load = Load::new(1.0);
        after(120, 50.0, &mut load);

        let known = after(30, 100.0, &mut load);

        assert!((0.99..=1.0).contains(&known), "{known}");
        let back = after(30, 50.0, &mut load);
        assert!(back > 0.6, "less is believed more slowly: {back}");
    }

    #[test]
    fn a_handful_of_visitors_teaches_nothing_and_neither_does_nonsense() {
        let mut load = Load::new(1.0);

        load.learn(TICK, 400.0, 4.0);
        load.learn(TICK, f64::NAN, 100.0);
        load.learn(TICK, -5.0, 100.0);
        load.learn(TICK, 5.0, f64::NAN);

        assert_eq!(load.each(), 1.0);
    }

    #[test]
    fn there_is_a_least_and_a_most() {
        let mut load = Load::new(0.0);
        assert_eq!(load.each(), LOAD_MIN);

        assert!(after(600, 1e12, &mut load) <= LOAD_MAX);
        assert!(after(6_000, 0.0, &mut load) >= LOAD_MIN);
    }
}

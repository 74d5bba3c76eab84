//! Those who are called and do not come.

use std::time::Duration;

/// So much of those called may be taken not to come, at most: twice as many are called as may come, never more.
pub const NO_SHOWS_MAX: f64 = 0.5;

/// Over how long they are counted.
const MEMORY: Duration = Duration::from_secs(120);
/// So many are taken to have come before anybody did.
const PRIOR: f64 = 20.0;

/// The share of those called who do not come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NoShows {
    came: f64,
    missed: f64,
}

impl NoShows {
    /// In `span`, so many came and so many did not in time.
    pub fn learn(&mut self, span: Duration, came: u64, missed: u64) {
        let kept = (-span.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        self.came = self.came * kept + came as f64;
        self.missed = self.missed * kept + missed as f64;
    }

    /// How many of those called do not come, 0 to [`NO_SHOWS_MAX`].
    pub fn share(&self) -> f64 {
        let share = self.missed / (self.came + self.missed + PRIOR);
        share.clamp(0.0, NO_SHOWS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_quarter_that_does_not_come_is_known_after_some_minutes() {
        let mut no_shows = NoShows::default();
        assert_eq!(no_shows.share(), 0.0);

        for _ in 0..300 {
            no_shows.learn(SECOND, 15, 5);
        }

        let share = no_shows.share();
        assert!((0.24..=0.25).contains(&share), "{share}");
        for _ in 0..600 {
            no_shows.learn(SECOND, 20, 0);
        }
        assert!(no_shows.share() < 0.01);
    }

    #[test]
    fn never_more_than_twice_as_many_are_called() {
        let mut no_shows = NoShows::default();

        for _ in 0..600 {
            no_shows.learn(SECOND, 0, 1_000);
        }

        assert_eq!(no_shows.share(), NO_SHOWS_MAX);
    }
}

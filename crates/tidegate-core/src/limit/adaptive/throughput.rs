//! How much was done of late.

use std::time::Duration;

use crate::time::Mono;

/// The best of this many seconds counts.
const SECONDS: usize = 5;

/// Throughput is averaged over this many seconds at least.
const AVERAGED: f64 = 1.0;

/// The reference of a probe is an average of about this long.
const REFERENCE: f64 = 2.0;

/// ... or of about so many requests, if that is longer.
const REFERENCE_REQUESTS: f64 = 150.0;

/// The reference is of one limit as long as that moves by no more than this part of itself.
const SAME_LIMIT: f64 = 0.4;

/// The best throughput of the last seconds, each second averaged: single cohorts may finish in
/// bursts.
#[derive(Clone, Debug, Default)]
pub(super) struct Best {
    per_second: [f64; SECONDS],
    second: u64,
    /// What counts as long as there is no average, from an earlier life.
    learnt: f64,
    /// Counted since the last average.
    worked: f64,
    seconds: f64,
}

impl Best {
    /// As an earlier process left it.
    pub(super) fn of(per_second: f64) -> Self {
        Self {
            learnt: per_second,
            ..Self::default()
        }
    }

    /// So many requests worked within the `seconds` before `now`.
    pub(super) fn see(&mut self, now: Mono, worked: f64, seconds: f64) {
        self.turn(now);
        self.worked += worked;
        self.seconds += seconds;
        if self.seconds >= AVERAGED {
            let best = &mut self.per_second[(self.second % SECONDS as u64) as usize];
            *best = best.max(self.worked / self.seconds);
            self.learnt = 0.0;
            self.worked = 0.0;
            self.seconds = 0.0;
        }
    }

    /// The most that was seen in the last five seconds.
    pub(super) fn recent(&mut self, now: Mono) -> f64 {
        self.turn(now);
        self.last()
    }

    /// The same as of the last call that knew the time.
    pub(super) fn last(&self) -> f64 {
        self.per_second
            .iter()
            .fold(self.learnt, |best, &seen| best.max(seen))
    }

    fn turn(&mut self, now: Mono) {
        let second = now.as_nanos() / Duration::from_secs(1).as_nanos() as u64;
        let passed = second.saturating_sub(self.second).min(SECONDS as u64);
        for step in 1..=passed {
            self.per_second[((self.second + step) % SECONDS as u64) as usize] = 0.0;
        }
        self.second = self.second.max(second);
    }
}

/// What a saturated application does at about one limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reference {
    worked: f64,
    seconds: f64,
    limit_seconds: f64,
}

impl Reference {
    /// What was done in `seconds` at `limit`.
    pub(super) const fn of(worked: f64, seconds: f64, limit: f64) -> Self {
        Self {
            worked,
            seconds,
            limit_seconds: limit * seconds,
        }
    }

    /// Takes in what was done in `seconds` at `limit`; forgets what was done at another.
    pub(super) fn see(&mut self, worked: f64, seconds: f64, limit: f64) {
        if (self.limit() - limit).abs() > SAME_LIMIT * limit {
            *self = Self::default();
        }
        let kept = REFERENCE / (REFERENCE + seconds);
        if self.seconds + seconds > REFERENCE && self.worked > REFERENCE_REQUESTS {
            self.worked *= kept;
            self.seconds *= kept;
            self.limit_seconds *= kept;
        }
        self.worked += worked;
        self.seconds += seconds;
        self.limit_seconds += limit * seconds;
    }

    /// Requests counted.
    pub(super) const fn worked(&self) -> f64 {
        self.worked
    }

    /// Requests per second.
    pub(super) fn per_second(&self) -> f64 {
        if self.seconds > 0.0 {
            self.worked / self.seconds
        } else {
            0.0
        }
    }

    /// The limit they were done at, on average.
    pub(super) fn limit(&self) -> f64 {
        if self.seconds > 0.0 {
            self.limit_seconds / self.seconds
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Mono {
        Mono::from_millis(millis)
    }

    #[test]
    fn the_best_of_five_seconds_counts_and_bursts_do_not() {
        let mut best = Best::default();
        best.see(at(100), 200.0, 0.1);
        best.see(at(200), 10.0, 0.1);
        assert_eq!(best.recent(at(200)), 0.0, "nothing was averaged yet");
        best.see(at(1000), 790.0, 0.8);
        best.see(at(2000), 500.0, 1.0);

        assert_eq!(best.recent(at(5900)), 1000.0);
        assert_eq!(best.recent(at(6000)), 500.0);
        assert_eq!(best.recent(at(600_000)), 0.0);
    }

    #[test]
    fn what_an_earlier_life_reached_counts_until_something_is_known() {
        let mut best = Best::of(700.0);
        assert_eq!(best.recent(at(3_600_000)), 700.0);

        best.see(at(3_601_000), 300.0, 1.0);

        assert_eq!(best.recent(at(3_601_000)), 300.0);
    }

    #[test]
    fn a_reference_is_of_one_limit() {
        let mut reference = Reference::default();
        reference.see(100.0, 1.0, 10.0);
        reference.see(140.0, 1.0, 14.0);
        assert_eq!((reference.per_second(), reference.limit()), (120.0, 12.0));

        reference.see(300.0, 1.0, 30.0);
        assert_eq!((reference.per_second(), reference.limit()), (300.0, 30.0));
    }
}

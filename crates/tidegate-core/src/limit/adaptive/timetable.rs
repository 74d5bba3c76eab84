//! When to probe.

use std::time::Duration;

use crate::rng::Rng;
use crate::time::Mono;

/// The time from one probe to the next,
const EVERY: Duration = Duration::from_secs(10);

/// ... which becomes this long where the limit proves right again and again.
const MOST: Duration = Duration::from_secs(40);

/// Probes take one part in so many of the time at most, and in as many more as the time to the next
/// is longer than usual.
const SHARE: u32 = 16;

/// No probe counts for more than this: the clock may have jumped.
const TOOK_MOST: Duration = Duration::from_secs(60);

/// The first probe comes this long after slow start.
const FIRST: Duration = Duration::from_secs(3);

/// The next probe after one that said nothing.
const AGAIN: Duration = Duration::from_secs(2);

/// Probes come early or late by up to this part of the time between them, so that those of several
/// limits do not stay in step.
const JITTER: f64 = 0.2;

/// When the next probe is due.
#[derive(Clone, Debug)]
pub(super) struct Timetable {
    at: Option<Mono>,
    /// Between the last probe and the next, without jitter.
    wait: Duration,
    /// A probe that latency calls for may come from here on.
    early_at: Mono,
    /// Between the last probe and one that latency calls for.
    early: Duration,
    rng: Rng,
}

impl Timetable {
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            at: None,
            wait: AGAIN,
            early_at: Mono::from_nanos(0),
            early: AGAIN,
            rng: Rng::new(seed),
        }
    }

    pub(super) fn is_due(&mut self, now: Mono) -> bool {
        match self.at {
            Some(at) => now >= at,
            None => {
                self.first(now);
                false
            }
        }
    }

    /// Whether there may be a probe that is not due, because latency calls for one.
    pub(super) fn may_be_early(&self, now: Mono) -> bool {
        now >= self.early_at
    }

    /// The limit was found at `now`.
    pub(super) fn first(&mut self, now: Mono) {
        self.at = Some(now + FIRST);
    }

    /// A probe said nothing.
    pub(super) fn again(&mut self, now: Mono) {
        self.set(now, AGAIN);
    }

    /// A probe that lasted for `took` has ended. Whether it `raised` the limit by much, and whether
    /// it `learnt` that the baselines were off, decides on the next one.
    ///
    /// Where something was wrong, that comes soon, though less soon from one to the next. Where
    /// nothing was, there is less and less reason for another. Latency's calls are heeded less and
    /// less often too, as long as it is wrong about the limit being too low.
    pub(super) fn next(&mut self, now: Mono, took: Duration, raised: bool, learnt: bool) {
        let wrong = raised || learnt;
        let calm = self.wait >= EVERY;
        self.wait = match (wrong, calm) {
            (true, true) => AGAIN,
            (true, false) => (self.wait * 2).min(EVERY),
            (false, _) => (self.wait * 2).clamp(EVERY, MOST),
        };
        let next = if wrong {
            self.wait
        } else {
            let longer = self.wait.as_secs_f64() / EVERY.as_secs_f64();
            let share = took.min(TOOK_MOST) * SHARE;
            self.wait.max(share.mul_f64(longer))
        };
        self.early = if raised {
            AGAIN
        } else {
            (self.early * 2).min(next)
        };
        self.early_at = now + self.early;
        self.set(now, next);
    }

    fn set(&mut self, now: Mono, wait: Duration) {
        let jitter = 1.0 - JITTER + 2.0 * JITTER * self.rng.unit();
        self.at = Some(now + wait.mul_f64(jitter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(200);

    /// Seconds from each probe to the next, where each has the outcome that `raised` and `learnt`
    /// say.
    fn waits(outcomes: &[(bool, bool)]) -> Vec<f64> {
        let mut timetable = Timetable::new(1);
        let mut waits = Vec::new();
        for &(raised, learnt) in outcomes {
            timetable.next(Mono::default(), TOOK, raised, learnt);
            let at = timetable.at.unwrap();
            waits.push(at.since(Mono::default()).as_secs_f64());
        }
        waits
    }

    fn about(wait: f64, expected: f64) -> bool {
        (wait / expected - 1.0).abs() <= JITTER
    }

    #[test]
    fn probes_that_find_nothing_wrong_become_rare() {
        let waits = waits(&[(false, false); 4]);

        for (wait, expected) in waits.into_iter().zip([10.0, 20.0, 40.0, 40.0]) {
            assert!(about(wait, expected), "{wait}");
        }
    }

    #[test]
    fn probes_that_find_something_come_again_soon_but_not_for_ever() {
        let waits = waits(&[
            (false, false),
            (false, true),
            (true, false),
            (false, true),
            (false, true),
        ]);

        for (wait, expected) in waits.into_iter().zip([10.0, 2.0, 4.0, 8.0, 10.0]) {
            assert!(about(wait, expected), "{wait}");
        }
    }

    #[test]
    fn long_probes_are_rarer_and_a_clock_that_jumps_does_no_harm() {
        let mut timetable = Timetable::new(1);
        let mut wait = |took| {
            timetable.next(Mono::default(), took, false, false);
            timetable.at.unwrap().since(Mono::default()).as_secs_f64()
        };

        assert!(about(wait(Duration::from_secs(4)), 64.0));
        assert!(wait(Duration::MAX) < 4000.0);
    }

    #[test]
    fn latency_is_heeded_again_at_once_when_it_was_right() {
        let mut timetable = Timetable::new(1);
        let at = Mono::from_millis;

        timetable.next(at(0), TOOK, false, false);
        assert!(!timetable.may_be_early(at(3999)));
        assert!(timetable.may_be_early(at(4000)));

        timetable.next(at(5000), TOOK, true, false);
        assert!(timetable.may_be_early(at(7000)));
    }
}

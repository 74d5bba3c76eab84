//! What a limit remembers, whatever its algorithm, and the one way to ask any of them.

use super::bucket::BucketState;
use super::log::LogState;
use super::window::WindowState;
use super::{Passed, Short, Spec, Tick};

/// What a limit remembers of one key. One of another algorithm than the limit's says nothing, as if there were
/// none: after a change of algorithm that nobody carried over, it begins anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Of a bucket.
    Bucket(BucketState),
    /// Of a log.
    Log(LogState),
    /// Of a window.
    Window(WindowState),
    /// Of a limit that denies everything.
    Deny,
}

impl Spec {
    /// What nobody has taken from yet.
    pub fn full(&self, now: Tick) -> State {
        match self {
            Self::Bucket(spec) => State::Bucket(spec.full(now)),
            Self::Log(_) => State::Log(LogState::default()),
            Self::Window(_) => State::Window(WindowState::default()),
            Self::Deny => State::Deny,
        }
    }

    /// Takes `cost` tokens if they are there; a refusal and a cost of 0 change nothing.
    ///
    /// A cost of 0 passes unless there is debt, or nothing passes at all.
    #[inline]
    pub fn take(&self, state: &mut State, now: Tick, cost: u64) -> Result<Passed, Short> {
        match (self, &mut *state) {
            (Self::Bucket(spec), State::Bucket(state)) => spec.take(state, now, cost),
            (Self::Log(spec), State::Log(state)) => spec.take(state, now, cost),
            (Self::Window(spec), State::Window(state)) => spec.take(state, now, cost),
            (Self::Deny, _) => Err(Short::Never),
            _ => {
                let mut anew = self.full(now);
                let passed = self.take(&mut anew, now, cost)?;
                *state = anew;
                Ok(passed)
            }
        }
    }

    /// Whether [`Self::take`] would take, or why not.
    #[inline]
    pub fn check(&self, state: &State, now: Tick, cost: u64) -> Result<(), Short> {
        match (self, state) {
            (Self::Bucket(spec), State::Bucket(state)) => spec.check(state, now, cost).map(drop),
            (Self::Log(spec), State::Log(state)) => spec.check(state, now, cost),
            (Self::Window(spec), State::Window(state)) => spec.check(state, now, cost).map(drop),
            (Self::Deny, _) => Err(Short::Never),
            _ => self.check(&self.full(now), now, cost),
        }
    }

    /// Puts back `tokens` of what was spent at `spent_at` and not used.
    pub fn give_back(&self, state: &mut State, now: Tick, spent_at: Tick, tokens: u64) {
        match (self, state) {
            (Self::Bucket(spec), State::Bucket(state)) => spec.give_back(state, now, tokens),
            (Self::Log(spec), State::Log(state)) => spec.give_back(state, spent_at, tokens),
            (Self::Window(spec), State::Window(state)) => spec.give_back(state, spent_at, tokens),
            // Nothing is known of the spending either.
            _ => {}
        }
    }

    /// Takes `tokens` whether they are there or not: what has been used already cannot be refused. Leaves at most one
    /// burst, or one limit, of debt.
    pub fn charge(&self, state: &mut State, now: Tick, tokens: u64) {
        match (self, &mut *state) {
            (Self::Bucket(spec), State::Bucket(state)) => spec.charge(state, now, tokens),
            (Self::Log(spec), State::Log(state)) => spec.charge(state, now, tokens),
            (Self::Window(spec), State::Window(state)) => spec.charge(state, now, tokens),
            (Self::Deny, _) => {}
            _ => {
                *state = self.full(now);
                self.charge(state, now, tokens);
            }
        }
    }

    /// Settles a call that `reserved` tokens were taken for at `spent_at` and that used `actual`. To be called once for
    /// each call; one that is never settled has cost what was reserved.
    pub fn commit(&self, state: &mut State, now: Tick, spent_at: Tick, reserved: u64, actual: u64) {
        if actual > reserved {
            self.charge(state, now, actual - reserved);
        } else {
            self.give_back(state, now, spent_at, reserved - actual);
        }
    }

    /// Turns the state of an `old` limit into one of this, with as many tokens used as before.
    pub fn rescale(&self, state: &mut State, now: Tick, old: &Self) {
        match (self, old, &mut *state) {
            (Self::Bucket(spec), Self::Bucket(old), State::Bucket(state)) => {
                spec.rescale(state, old);
            }
            // Each entry counts until its time is over by the new limit.
            (Self::Log(_), Self::Log(_), State::Log(_)) => {}
            // Windows that begin and end as before have what was spent in them.
            (Self::Window(spec), Self::Window(old), State::Window(state))
                if spec.window_us() == old.window_us() =>
            {
                state.current = state.current.min(2 * spec.limit());
                state.previous = state.previous.min(2 * spec.limit());
            }
            _ => {
                let used = old.used(state, now);
                *state = self.full(now);
                self.charge(state, now, used);
            }
        }
    }

    /// Whole tokens that are there; 0 when there is debt.
    pub fn remaining(&self, state: &State, now: Tick) -> u64 {
        match (self, state) {
            (Self::Bucket(spec), State::Bucket(state)) => spec.remaining(state, now),
            (Self::Log(spec), State::Log(state)) => spec.remaining(state, now),
            (Self::Window(spec), State::Window(state)) => spec.remaining(state, now),
            _ => self.most(),
        }
    }

    /// Tokens that count as used, the last one perhaps in part.
    pub fn used(&self, state: &State, now: Tick) -> u64 {
        match (self, state) {
            (Self::Bucket(spec), State::Bucket(state)) => spec.used(state, now),
            (Self::Log(spec), State::Log(state)) => spec.used(state, now),
            (Self::Window(spec), State::Window(state)) => spec.used(state, now),
            _ => 0,
        }
    }

    /// Microseconds until `state` says nothing that no state would not say, if nobody takes any. It may be forgotten
    /// then, and no decision changes.
    pub fn time_to_full_us(&self, state: &State, now: Tick) -> u64 {
        match (self, state) {
            (Self::Bucket(spec), State::Bucket(state)) => spec.time_to_full_us(state, now),
            (Self::Log(spec), State::Log(state)) => spec.time_to_full_us(state, now),
            (Self::Window(spec), State::Window(state)) => spec.time_to_full_us(state, now),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::{Algorithm, PERIOD_US_MAX};

    const SECOND: u64 = 1_000_000;

    fn spec(algorithm: Algorithm, words: &str) -> Spec {
        Spec::new(algorithm, words.parse().unwrap(), None).unwrap()
    }

    #[test]
    fn every_algorithm_takes_waits_gives_back_and_forgets() {
        for algorithm in Algorithm::ALL {
            let (spec, now) = (spec(algorithm, "10/s"), Tick(5_500_000));
            let mut state = spec.full(now);
            let taken = spec.take(&mut state, now, 10);
            assert_eq!(taken, Ok(Passed { remaining: 0 }), "{algorithm:?}");

            let Err(Short::Wait { wait_us }) = spec.take(&mut state, now, 5) else {
                panic!("{algorithm:?} has nothing left");
            };
            assert!(spec.check(&state, now.plus(wait_us - 1), 5).is_err());
            assert!(spec.check(&state, now.plus(wait_us), 5).is_ok());
            let full_us = spec.time_to_full_us(&state, now);
            assert_eq!(spec.used(&state, now.plus(full_us)), 0);
            assert_ne!(spec.used(&state, now.plus(full_us - 1)), 0);

            spec.commit(&mut state, now, now, 10, 4);
            assert_eq!(spec.remaining(&state, now), 6, "{algorithm:?}");
            spec.commit(&mut state, now, now, 4, 9);
            assert_eq!(spec.remaining(&state, now), 1, "{algorithm:?}");
            assert_eq!(spec.take(&mut state, now, 11), Err(Short::Never));
        }
    }

    #[test]
    fn what_denies_never_passes_not_even_a_cost_of_nothing() {
        let deny = spec(Algorithm::Bucket, "0/s");
        let mut state = deny.full(Tick(0));

        assert_eq!(
            deny.take(&mut state, Tick(PERIOD_US_MAX), 0),
            Err(Short::Never)
        );
        assert_eq!(deny.remaining(&state, Tick(0)), 0);
        assert_eq!(deny.time_to_full_us(&state, Tick(0)), 0);
    }

    #[test]
    fn a_changed_algorithm_keeps_the_tokens_used() {
        let now = Tick(7 * SECOND + 250_000);
        for from in Algorithm::ALL {
            for to in Algorithm::ALL {
                let (old, new) = (spec(from, "10/s"), spec(to, "20/s"));
                let mut state = old.full(now);
                old.take(&mut state, now, 7).unwrap();

                new.rescale(&mut state, now, &old);

                assert_eq!(new.remaining(&state, now), 13, "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn a_counter_with_another_limit_has_what_was_spent_in_its_windows() {
        let (old, new) = (
            spec(Algorithm::Window, "10/s"),
            spec(Algorithm::Window, "20/s"),
        );
        let mut state = old.full(Tick(0));
        old.take(&mut state, Tick(500_000), 8).unwrap();

        new.rescale(&mut state, Tick(1_500_000), &old);

        assert_eq!(new.remaining(&state, Tick(1_500_000)), 16);
        assert_eq!(new.remaining(&state, Tick(1_750_000)), 18);
    }

    #[test]
    fn a_state_of_another_algorithm_says_nothing() {
        let (bucket, log) = (
            spec(Algorithm::Bucket, "10/s"),
            spec(Algorithm::Log, "10/s"),
        );
        let mut state = bucket.full(Tick(0));
        bucket.take(&mut state, Tick(0), 10).unwrap();

        assert_eq!(log.remaining(&state, Tick(0)), 10);
        assert_eq!(log.take(&mut state, Tick(0), 11), Err(Short::Never));
        assert!(matches!(state, State::Bucket(_)));
        assert_eq!(
            log.take(&mut state, Tick(0), 4),
            Ok(Passed { remaining: 6 })
        );
        assert!(matches!(state, State::Log(_)));
    }
}

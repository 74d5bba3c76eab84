//! A token bucket that counts in credits, so that nothing is ever rounded.
//!
//! `tokens / period` is seldom a whole number of tokens a microsecond. With the fraction in lowest terms, `a` / `b`, there come
//! `a` credits each microsecond and a token is `b` of them. A bucket in that form never drifts, however often it is
//! asked, and knows to the microsecond how long a wait is. Leaky bucket and GCRA are the same thing in other words.

use super::{PERIOD_US_MAX, Passed, Short, SpecError, Tick};

/// More credits than this no bucket holds, and no more come in a microsecond. A full bucket, as much debt,
/// and the credits of one microsecond too many then stay below 2⁵³.
pub const CREDITS_MAX: u64 = 1 << 51;

/// What a bucket is: how fast it fills, and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BucketSpec {
    /// Credits per microsecond, at least 1.
    a: u64,
    /// Credits per token, at least 1.
    b: u64,
    /// Credits when full, at least `b`.
    cap: i64,
}

/// What is in a bucket. One that has never been used is full, so a full one need not be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BucketState {
    /// Credits at `at`; below zero is debt, at most one burst of it.
    pub credits: i64,
    /// When that was.
    pub at: Tick,
}

impl BucketSpec {
    /// A bucket that `tokens` flow into each `period_us` microseconds, and that holds `burst` tokens.
    pub fn new(tokens: u64, period_us: u64, burst: u64) -> Result<Self, SpecError> {
        if tokens == 0 {
            return Err(SpecError::RateZero);
        }
        if period_us == 0 {
            return Err(SpecError::PeriodZero);
        }
        if period_us > PERIOD_US_MAX {
            return Err(SpecError::PeriodTooLong);
        }
        if burst == 0 {
            return Err(SpecError::BurstZero);
        }
        let common = common_divisor(tokens, period_us);
        let (a, b) = (tokens / common, period_us / common);
        let cap = u128::from(burst) * u128::from(b);
        if cap > u128::from(CREDITS_MAX) || a > CREDITS_MAX {
            return Err(SpecError::TooFine {
                tokens,
                period_us,
                burst,
                burst_max: if a > CREDITS_MAX { 0 } else { CREDITS_MAX / b },
            });
        }
        Ok(Self {
            a,
            b,
            cap: cap as i64,
        })
    }

    /// The same bucket for one of `parts` equal nodes: rational, never rounded up.
    ///
    /// Credits stay as many and a token takes `parts` times as many of them, so what all parts
    /// together let pass is what the whole would have let pass, or less. An error if a part holds less than
    /// one token: nothing would ever pass.
    pub fn divided(self, parts: u32) -> Result<Self, SpecError> {
        let b = u128::from(self.b) * u128::from(parts);
        if b == 0 || b > self.cap as u128 {
            let burst = self.burst();
            return Err(SpecError::ShareBelowOne { burst, parts });
        }
        Ok(Self {
            b: b as u64,
            ..self
        })
    }

    /// The same bucket, counted in `units` of a token: with `units` times as many credits, of which each of them takes as many
    /// as a token did.
    pub fn in_units(self, units: u64) -> Result<Self, SpecError> {
        let a = u128::from(self.a) * u128::from(units);
        let cap = self.cap as u128 * u128::from(units);
        let most = u128::from(CREDITS_MAX);
        if units == 0 || a > most || cap > most {
            let burst_max = CREDITS_MAX / self.b / units.max(1);
            return Err(SpecError::TooFine {
                tokens: self.a,
                period_us: self.b,
                burst: self.burst(),
                burst_max: if a > most { 0 } else { burst_max },
            });
        }
        Ok(Self {
            a: a as u64,
            b: self.b,
            cap: cap as i64,
        })
    }

    /// Credits that come each microsecond.
    pub const fn credits_per_us(&self) -> u64 {
        self.a
    }

    /// Credits that make one token.
    pub const fn credits_per_token(&self) -> u64 {
        self.b
    }

    /// Credits when full.
    pub const fn credits_when_full(&self) -> i64 {
        self.cap
    }

    /// Whole tokens when full: the most that one call may cost.
    pub const fn burst(&self) -> u64 {
        self.cap as u64 / self.b
    }

    /// The most tokens that pass in any `window_us` consecutive microseconds, wherever they begin.
    pub fn worst_in(&self, window_us: u64) -> u64 {
        let Some(later) = window_us.checked_sub(1) else {
            return 0;
        };
        let credits = self.cap as u128 + u128::from(later) * u128::from(self.a);
        u64::try_from(credits / u128::from(self.b)).unwrap_or(u64::MAX)
    }

    /// What nobody has taken from yet.
    pub const fn full(&self, now: Tick) -> BucketState {
        BucketState {
            credits: self.cap,
            at: now,
        }
    }

    /// Takes `cost` tokens if they are there; a refusal and a cost of 0 change nothing.
    ///
    /// A cost of 0 passes unless there is debt.
    #[inline]
    pub fn take(&self, state: &mut BucketState, now: Tick, cost: u64) -> Result<Passed, Short> {
        *state = self.check(state, now, cost)?;
        if cost == 0 {
            let remaining = self.remaining(state, now);
            return Ok(Passed { remaining });
        }
        // What was spent from has been refilled already.
        let remaining = self.whole(state.credits);
        Ok(Passed { remaining })
    }

    /// What [`Self::take`] would make of `state`, or why it would not.
    #[inline]
    pub fn check(&self, state: &BucketState, now: Tick, cost: u64) -> Result<BucketState, Short> {
        let price = u128::from(cost) * u128::from(self.b);
        if price > self.cap as u128 {
            return Err(Short::Never);
        }
        let (price, here) = (price as i64, self.refilled(state, now));
        if here.credits < price {
            // Debt may be as deep as the type: the difference of both always fits 64 bits without a sign.
            let missing = price.abs_diff(here.credits);
            return Err(Short::Wait {
                wait_us: missing.div_ceil(self.a),
            });
        }
        if cost == 0 {
            return Ok(*state);
        }
        Ok(BucketState {
            credits: here.credits - price,
            ..here
        })
    }

    /// Puts `tokens` back that were taken and not used, as far as there is room.
    pub fn give_back(&self, state: &mut BucketState, now: Tick, tokens: u64) {
        let here = self.refilled(state, now);
        let credits = i128::from(here.credits) + self.price(tokens);
        state.credits = credits.min(i128::from(self.cap)) as i64;
        state.at = here.at;
    }

    /// Takes `tokens` whether they are there or not: what has been used already cannot be refused. Leaves at most one
    /// burst of debt.
    pub fn charge(&self, state: &mut BucketState, now: Tick, tokens: u64) {
        let here = self.refilled(state, now);
        let credits = i128::from(here.credits) - self.price(tokens);
        state.credits = credits.max(-i128::from(self.cap)) as i64;
        state.at = here.at;
    }

    /// Settles a call that `reserved` tokens were taken for and that used `actual`. To be called once for each call; one
    /// that is never settled has cost what was reserved.
    pub fn commit(&self, state: &mut BucketState, now: Tick, reserved: u64, actual: u64) {
        if actual > reserved {
            self.charge(state, now, actual - reserved);
        } else {
            self.give_back(state, now, reserved - actual);
        }
    }

    /// Turns the state of an `old` bucket into one of this, with as many tokens used as before: whose limit is raised from 10 to
    /// 20 has 10 more at once, and whose limit is lowered and raised again is where they were. Debt that this makes is at most
    /// one burst.
    ///
    /// Time does not pass in here, so that a state can be turned when it is next used.
    pub fn rescale(&self, state: &mut BucketState, old: &Self) {
        let used = i128::from(old.cap) - i128::from(state.credits);
        let used = u128::try_from(used).unwrap_or(0) * u128::from(self.b);
        let used = used.div_ceil(u128::from(old.b)).min(2 * self.cap as u128);
        state.credits = self.cap - used as i64;
    }

    /// Whole tokens that are there; 0 when there is debt.
    #[inline]
    pub fn remaining(&self, state: &BucketState, now: Tick) -> u64 {
        self.whole(self.refilled(state, now).credits)
    }

    /// How many whole tokens that many credits are; none is in debt.
    #[inline]
    fn whole(&self, credits: i64) -> u64 {
        // Most of those that are refused have none, and a division is what costs most here.
        match u64::try_from(credits) {
            Ok(credits) if credits >= self.b => credits / self.b,
            _ => 0,
        }
    }

    /// Tokens that are missing from a full bucket, the last one perhaps in part.
    pub fn used(&self, state: &BucketState, now: Tick) -> u64 {
        let missing = self.cap.abs_diff(self.refilled(state, now).credits);
        missing.div_ceil(self.b)
    }

    /// Microseconds until it is full, if nobody takes any: after that the state says nothing that no state would not
    /// say.
    pub fn time_to_full_us(&self, state: &BucketState, now: Tick) -> u64 {
        let missing = self.cap.abs_diff(self.refilled(state, now).credits);
        missing.div_ceil(self.a)
    }

    /// The state at `now`, or at its own time when that is later: time never runs backwards in here.
    #[inline]
    fn refilled(&self, state: &BucketState, now: Tick) -> BucketState {
        let gained = u128::from(now.since(state.at)) * u128::from(self.a);
        let credits = i128::from(state.credits) + gained as i128;
        BucketState {
            credits: credits.min(i128::from(self.cap)) as i64,
            at: now.max(state.at),
        }
    }

    fn price(&self, tokens: u64) -> i128 {
        // A token has at most 2⁵¹ credits, so this stays below 2¹¹⁵.
        i128::from(tokens) * i128::from(self.b)
    }
}

/// The greatest common divisor; both are at least 1.
const fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const HOUR: u64 = 3600 * SECOND;

    fn at_ms(ms: u64) -> Tick {
        Tick(ms * 1000)
    }

    fn per_second(tokens: u64, burst: u64) -> BucketSpec {
        BucketSpec::new(tokens, SECOND, burst).unwrap()
    }

    /// How many of `calls` calls of cost 1 pass at once.
    fn pass(spec: &BucketSpec, state: &mut BucketState, now: Tick, calls: u32) -> usize {
        (0..calls)
            .filter(|_| spec.take(state, now, 1).is_ok())
            .count()
    }

    #[test]
    fn the_promised_wait_is_enough_and_one_microsecond_less_is_not() {
        let spec = BucketSpec::new(3, SECOND, 5).unwrap();
        let mut state = spec.full(Tick(0));
        assert_eq!(
            spec.take(&mut state, Tick(0), 4),
            Ok(Passed { remaining: 1 })
        );

        let refused = spec.take(&mut state, Tick(0), 2);

        assert_eq!(refused, Err(Short::Wait { wait_us: 333_334 }));
        let mut later = state;
        assert!(spec.take(&mut later, Tick(333_333), 2).is_err());
        assert_eq!(
            spec.take(&mut later, Tick(333_334), 2),
            Ok(Passed { remaining: 0 })
        );
    }

    #[test]
    fn being_asked_often_costs_nothing() {
        let spec = per_second(10, 1);
        let mut state = spec.full(Tick(0));

        let passed: usize = (0..10_000)
            .map(|poll| pass(&spec, &mut state, at_ms(10 * poll), 1))
            .sum();

        assert_eq!(passed, 1000);
    }

    #[test]
    fn a_slow_limit_is_not_forgotten_over_a_pause() {
        let spec = BucketSpec::new(10, HOUR, 10).unwrap();
        let mut state = spec.full(Tick(0));
        assert_eq!(pass(&spec, &mut state, Tick(0), 20), 10);

        assert_eq!(pass(&spec, &mut state, at_ms(121_000), 20), 0);
        assert_eq!(pass(&spec, &mut state, at_ms(360_000), 20), 1);
    }

    #[test]
    fn there_is_no_boundary_at_which_it_can_be_spent_twice() {
        let spec = per_second(100, 100);
        let mut state = spec.full(Tick(0));

        assert_eq!(pass(&spec, &mut state, at_ms(999), 200), 100);
        assert_eq!(pass(&spec, &mut state, at_ms(1000), 200), 0);
        assert_eq!(pass(&spec, &mut state, at_ms(1009), 200), 1);
    }

    #[test]
    fn a_clock_that_is_set_back_gives_nothing_and_takes_nothing() {
        let spec = per_second(100, 10);
        let mut state = spec.full(at_ms(5000));
        assert_eq!(pass(&spec, &mut state, at_ms(5000), 20), 10);

        let refused = spec.take(&mut state, at_ms(1000), 1);

        assert_eq!(refused, Err(Short::Wait { wait_us: 10_000 }));
        assert_eq!(spec.time_to_full_us(&state, at_ms(1000)), 100_000);
        // Alternating readings are no source of tokens.
        let passed: usize = (0..1000)
            .map(|ms| pass(&spec, &mut state, at_ms(5000 + ms - 500 * (ms % 2)), 1))
            .sum();
        assert_eq!(passed, 99);
    }

    #[test]
    fn a_cost_of_nothing_passes_unless_there_is_debt_and_changes_nothing() {
        let spec = per_second(10, 2);
        let mut state = spec.full(Tick(0));
        pass(&spec, &mut state, Tick(0), 2);
        let empty = state;
        assert_eq!(
            spec.take(&mut state, at_ms(150), 0),
            Ok(Passed { remaining: 1 })
        );
        assert_eq!(state, empty);

        spec.charge(&mut state, Tick(0), 1);

        assert_eq!(
            spec.take(&mut state, Tick(0), 0),
            Err(Short::Wait { wait_us: 100_000 })
        );
        assert_eq!(spec.remaining(&state, Tick(0)), 0);
    }

    #[test]
    fn what_costs_more_than_a_burst_never_passes() {
        let spec = per_second(10, 2);
        let mut state = spec.full(Tick(0));

        assert_eq!(spec.take(&mut state, Tick(0), 3), Err(Short::Never));
        assert_eq!(spec.take(&mut state, Tick(0), u64::MAX), Err(Short::Never));
        assert_eq!(
            spec.take(&mut state, Tick(0), 2),
            Ok(Passed { remaining: 0 })
        );
    }

    #[test]
    fn what_was_not_used_comes_back_and_what_was_used_beyond_is_owed() {
        let spec = per_second(10, 10);
        let mut state = spec.full(Tick(0));
        spec.take(&mut state, Tick(0), 6).unwrap();

        spec.commit(&mut state, Tick(0), 6, 1);
        assert_eq!(spec.remaining(&state, Tick(0)), 9);

        spec.give_back(&mut state, Tick(0), 100);
        assert_eq!(state, spec.full(Tick(0)));

        spec.commit(&mut state, Tick(0), 0, 13);
        let refused = spec.take(&mut state, Tick(0), 1);
        assert_eq!(refused, Err(Short::Wait { wait_us: 400_000 }));

        spec.charge(&mut state, Tick(0), u64::MAX);
        assert_eq!(state.credits, -spec.credits_when_full());
        assert_eq!(spec.time_to_full_us(&state, Tick(0)), 2 * SECOND);
    }

    #[test]
    fn a_changed_limit_keeps_the_tokens_used() {
        let of = |burst| per_second(1, burst);
        let mut state = of(10).full(Tick(0));
        of(10).take(&mut state, Tick(0), 8).unwrap();

        of(20).rescale(&mut state, &of(10));
        assert_eq!(of(20).remaining(&state, Tick(0)), 12);

        of(5).rescale(&mut state, &of(20));
        assert_eq!(
            of(5).take(&mut state, Tick(0), 1),
            Err(Short::Wait {
                wait_us: 4 * SECOND
            })
        );
        of(20).rescale(&mut state, &of(5));
        assert_eq!(of(20).remaining(&state, Tick(0)), 12);
    }

    #[test]
    fn a_raised_rate_is_felt_at_once() {
        let (slow, fast) = (per_second(1, 10), per_second(2, 10));
        let mut state = slow.full(Tick(0));
        slow.take(&mut state, Tick(0), 10).unwrap();

        fast.rescale(&mut state, &slow);

        let refused = fast.take(&mut state, Tick(0), 1);
        assert_eq!(refused, Err(Short::Wait { wait_us: 500_000 }));
    }

    #[test]
    fn parts_together_pass_what_the_whole_would_and_no_more() {
        let whole = per_second(100, 100);
        let part = whole.divided(10).unwrap();

        // 1,000 a second for 10 s, all on one of ten.
        let mut state = part.full(Tick(0));
        let passed: usize = (0..10_000)
            .map(|ms| pass(&part, &mut state, at_ms(ms), 1))
            .sum();

        assert_eq!(passed, 10 + 100 - 1);
        assert_eq!(part.worst_in(10 * SECOND), 109);
        assert_eq!(
            whole.divided(101),
            Err(SpecError::ShareBelowOne {
                burst: 100,
                parts: 101
            })
        );
    }

    #[test]
    fn parts_that_are_no_whole_number_are_not_rounded_up() {
        let part = per_second(10, 10).divided(3).unwrap();
        let mut state = part.full(Tick(0));

        assert_eq!(pass(&part, &mut state, Tick(0), 10), 3);
        // A third of a token was left, and 10/3 a second come.
        let refused = part.take(&mut state, Tick(0), 1);
        assert_eq!(refused, Err(Short::Wait { wait_us: 200_000 }));
    }

    #[test]
    fn rates_that_no_float_holds_are_exact_or_refused() {
        let fast = BucketSpec::new(700_000_000, SECOND, 10).unwrap();
        assert_eq!((fast.credits_per_us(), fast.credits_per_token()), (700, 1));
        let slow = BucketSpec::new(1_000_000, 24 * HOUR, 1_000_000).unwrap();
        assert_eq!(slow.credits_when_full(), 86_400_000_000);

        let coprime = BucketSpec::new(999_983, 86_399_999_993, 999_983);

        assert_eq!(
            coprime,
            Err(SpecError::TooFine {
                tokens: 999_983,
                period_us: 86_399_999_993,
                burst: 999_983,
                burst_max: 26_062
            })
        );
        assert_eq!(BucketSpec::new(0, 1, 1), Err(SpecError::RateZero));
        assert_eq!(BucketSpec::new(1, 0, 1), Err(SpecError::PeriodZero));
        assert_eq!(BucketSpec::new(1, 1, 0), Err(SpecError::BurstZero));
    }

    #[test]
    fn states_that_nobody_made_harm_nobody() {
        let spec = BucketSpec::new(CREDITS_MAX, 1, CREDITS_MAX).unwrap();
        for credits in [i64::MIN, -1, 0, i64::MAX] {
            for at in [0, u64::MAX] {
                for now in [0, u64::MAX] {
                    let mut state = BucketState {
                        credits,
                        at: Tick(at),
                    };
                    let now = Tick(now);

                    let _ = spec.take(&mut state, now, u64::MAX);
                    let _ = spec.take(&mut state, now, 1);
                    spec.charge(&mut state, now, u64::MAX);
                    spec.give_back(&mut state, now, u64::MAX);
                    spec.rescale(&mut state, &spec);

                    assert!(state.credits.abs() <= spec.credits_when_full());
                }
            }
        }
        assert_eq!(spec.worst_in(0), 0);
        assert_eq!(spec.worst_in(u64::MAX), u64::MAX);
    }
}

//! The two-bucket counter: a fixed window and the one before it, which counts by how much of it a window that ends now
//! still covers.
//!
//! Three numbers for any limit, and no double spending at the moment when a window ends. It does not hold a sliding
//! window to the limit: who spends everything in the last moment of a window may spend nearly as much in the course of the
//! next. [`WindowSpec::worst_in`] says how much; where that matters there are the bucket and the log.

use super::{PERIOD_US_MAX, Passed, Short, SpecError, Tick};

/// The most tokens times grains of a window; twice as many still are whole in a double.
const PRODUCT_MAX: u64 = 1 << 52;

/// So many tokens in a window of so many microseconds, more or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowSpec {
    limit: u64,
    /// Grains in a window.
    grains: u64,
    /// Microseconds in a grain: time inside a window is counted in them.
    grain_us: u64,
}

/// What was spent. One in which nothing was need not be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WindowState {
    /// Which window since the origin of the clock.
    pub number: u64,
    /// Tokens spent in it, ...
    pub current: u64,
    /// ... and in the one before.
    pub previous: u64,
}

impl WindowSpec {
    /// `limit` tokens in `window_us` microseconds. Windows begin at multiples of their length.
    ///
    /// Time in a window is counted in grains of 1, 10, 100 … µs, the finest for which all products are exact.
    pub fn new(limit: u64, window_us: u64) -> Result<Self, SpecError> {
        if limit == 0 {
            return Err(SpecError::RateZero);
        }
        if window_us == 0 {
            return Err(SpecError::PeriodZero);
        }
        if window_us > PERIOD_US_MAX {
            return Err(SpecError::PeriodTooLong);
        }
        let mut grain_us = 1;
        while u128::from(limit) * u128::from(window_us / grain_us) > u128::from(PRODUCT_MAX) {
            grain_us *= 10;
            if !window_us.is_multiple_of(grain_us) {
                return Err(SpecError::WindowTooFine { limit, window_us });
            }
        }
        Ok(Self {
            limit,
            grains: window_us / grain_us,
            grain_us,
        })
    }

    /// Tokens in a window: also the most that one call may cost.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The length of a window.
    pub const fn window_us(&self) -> u64 {
        self.grains * self.grain_us
    }

    /// In what steps time is counted inside a window.
    pub const fn grain_us(&self) -> u64 {
        self.grain_us
    }

    /// The most tokens that pass in any `window_us` consecutive microseconds, wherever they begin.
    ///
    /// The worst is to spend all in the last moment of a window and then whatever comes free: `window_us` have that moment,
    /// whole windows after it, and a rest. In each whole one the limit may pass, and in the rest what has
    /// come free of the window before, whatever was spent in that.
    pub fn worst_in(&self, window_us: u64) -> u64 {
        let Some(after) = window_us.checked_sub(1) else {
            return 0;
        };
        let (whole, rest_us) = (after / self.window_us(), after % self.window_us());
        let grain = rest_us.saturating_sub(1) / self.grain_us;
        let rest = u128::from(self.limit) * u128::from(grain) / u128::from(self.grains);
        self.limit
            .saturating_mul(whole.saturating_add(1))
            .saturating_add(rest as u64)
    }

    /// Takes `cost` tokens if they are there; a refusal and a cost of 0 change nothing.
    ///
    /// A cost of 0 passes unless there is debt.
    pub fn take(&self, state: &mut WindowState, now: Tick, cost: u64) -> Result<Passed, Short> {
        *state = self.check(state, now, cost)?;
        Ok(Passed {
            remaining: self.remaining(state, now),
        })
    }

    /// What [`Self::take`] would make of `state`, or why it would not.
    pub fn check(&self, state: &WindowState, now: Tick, cost: u64) -> Result<WindowState, Short> {
        if cost > self.limit {
            return Err(Short::Never);
        }
        let (here, passed_us) = self.at(state, now);
        let grain = passed_us / self.grain_us;
        let fits = self.fits_at(here, cost);
        if fits > grain {
            return Err(Short::Wait {
                wait_us: fits * self.grain_us - passed_us,
            });
        }
        if cost == 0 {
            return Ok(*state);
        }
        Ok(WindowState {
            current: here.current + cost,
            ..here
        })
    }

    /// Puts back `tokens` of what was spent at `spent_at`, unless that no longer counts.
    pub fn give_back(&self, state: &mut WindowState, spent_at: Tick, tokens: u64) {
        let spent_in = spent_at.0 / self.window_us();
        if spent_in >= state.number {
            state.current = state.current.saturating_sub(tokens);
        } else if spent_in.saturating_add(1) == state.number {
            state.previous = state.previous.saturating_sub(tokens);
        }
    }

    /// Takes `tokens` whether they are there or not: what has been used already cannot be refused. Leaves at most one
    /// limit of debt.
    pub fn charge(&self, state: &mut WindowState, now: Tick, tokens: u64) {
        let room = (2 * self.limit).saturating_sub(self.used(state, now));
        (*state, _) = self.at(state, now);
        state.current += tokens.min(room);
    }

    /// Tokens that are there; 0 when there is debt.
    pub fn remaining(&self, state: &WindowState, now: Tick) -> u64 {
        self.limit.saturating_sub(self.used(state, now))
    }

    /// Tokens that count at `now`, the last one perhaps in part.
    pub fn used(&self, state: &WindowState, now: Tick) -> u64 {
        let (here, passed_us) = self.at(state, now);
        let ahead = self.grains - passed_us / self.grain_us;
        here.current + (here.previous * ahead).div_ceil(self.grains)
    }

    /// Microseconds until nothing counts any more, if nobody takes any: after that the state says nothing that no state
    /// would not say.
    pub fn time_to_full_us(&self, state: &WindowState, now: Tick) -> u64 {
        let (here, passed_us) = self.at(state, now);
        let windows = match here {
            WindowState { current: 1.., .. } => 2,
            WindowState { previous: 1.., .. } => 1,
            _ => return 0,
        };
        windows * self.window_us() - passed_us
    }

    /// The state of the window that `now` is in, and the time since its beginning. When that window is over for the
    /// state already, time stands still at the beginning of the state's own.
    fn at(&self, state: &WindowState, now: Tick) -> (WindowState, u64) {
        let (number, passed_us) = (now.0 / self.window_us(), now.0 % self.window_us());
        // Numbers from elsewhere may be anything; the products below must still fit.
        let current = state.current.min(2 * self.limit);
        let previous = state.previous.min(2 * self.limit);
        let (passed_us, current, previous) = match number.checked_sub(state.number) {
            None => (0, current, previous),
            Some(0) => (passed_us, current, previous),
            Some(1) => (passed_us, 0, current),
            Some(_) => (passed_us, 0, 0),
        };
        let number = number.max(state.number);
        let here = WindowState {
            number,
            current,
            previous,
        };
        (here, passed_us)
    }

    /// The first grain, counted from the beginning of the window, in which `cost` fits.
    fn fits_at(&self, here: WindowState, cost: u64) -> u64 {
        // It fits when previous × grains ahead ≤ room × grains.
        if let Some(room) = self.limit.checked_sub(here.current + cost) {
            let over = (here.previous * self.grains).saturating_sub(room * self.grains);
            if over == 0 {
                return 0;
            }
            let grain = over.div_ceil(here.previous);
            if grain < self.grains {
                return grain;
            }
        }
        // Then in the next window, where what is current is previous, or in the one after, where it is nothing.
        let over = (here.current * self.grains).saturating_sub((self.limit - cost) * self.grains);
        if over == 0 {
            return self.grains;
        }
        self.grains + over.div_ceil(here.current).min(self.grains)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const SECOND: u64 = 1_000_000;
    const DAY: u64 = 24 * 3600 * SECOND;

    fn at_ms(ms: u64) -> Tick {
        Tick(ms * 1000)
    }

    fn pass(spec: &WindowSpec, state: &mut WindowState, now: Tick, calls: u32) -> usize {
        (0..calls)
            .filter(|_| spec.take(state, now, 1).is_ok())
            .count()
    }

    #[test]
    fn nothing_is_spent_twice_where_two_windows_meet() {
        let spec = WindowSpec::new(100, SECOND).unwrap();
        let mut state = WindowState::default();

        assert_eq!(pass(&spec, &mut state, at_ms(999), 200), 100);
        assert_eq!(pass(&spec, &mut state, at_ms(1000), 200), 0);
        // One for each hundredth of the window before that no longer counts.
        assert_eq!(pass(&spec, &mut state, Tick(1_009_999), 200), 0);
        assert_eq!(pass(&spec, &mut state, at_ms(1010), 200), 1);
        assert_eq!(pass(&spec, &mut state, at_ms(1020), 200), 1);
    }

    #[test]
    fn what_was_before_counts_by_how_much_of_it_is_covered() {
        let spec = WindowSpec::new(50, 60 * SECOND).unwrap();
        let state = WindowState {
            number: 1,
            current: 18,
            previous: 42,
        };

        // 42 × 0.75 + 18 = 49.5
        let quarter = at_ms(75_000);

        assert_eq!(spec.used(&state, quarter), 50);
        assert_eq!(spec.remaining(&state, quarter), 0);
        // One more fits when 42 × (60 − e) ≤ 31 × 60.
        let wait_us = 15_714_286 - 15_000_000;
        let refused = spec.check(&state, quarter, 1);
        assert_eq!(refused, Err(Short::Wait { wait_us }));
    }

    #[test]
    fn the_promised_wait_is_enough_and_one_microsecond_less_is_not() {
        let mut rng = Rng::new(5);
        for _ in 0..20_000 {
            let limit = 1 + rng.below(20);
            let spec = WindowSpec::new(limit, 1 + rng.below(100)).unwrap();
            let state = WindowState {
                number: 3,
                current: rng.below(2 * limit + 1),
                previous: rng.below(2 * limit + 1),
            };
            let now = Tick(3 * spec.window_us() + rng.below(3 * spec.window_us()));
            let cost = rng.below(limit + 1);

            if let Err(short) = spec.check(&state, now, cost) {
                let Short::Wait { wait_us } = short else {
                    panic!("{cost} of {limit} fits some time");
                };
                for less in 1..=wait_us.min(10) {
                    assert!(spec.check(&state, now.plus(wait_us - less), cost).is_err());
                }
                assert!(spec.check(&state, now.plus(wait_us), cost).is_ok());
            }
        }
    }

    #[test]
    fn large_windows_are_counted_in_coarser_grains() {
        let spec = WindowSpec::new(1_000_000, DAY).unwrap();
        assert_eq!(spec.grain_us(), 100);
        let mut state = WindowState::default();
        spec.take(&mut state, Tick(DAY - 1), 1_000_000).unwrap();

        let refused = spec.take(&mut state, Tick(DAY + 50), 1);

        // A millionth of a day.
        assert_eq!(refused, Err(Short::Wait { wait_us: 86_350 }));
        assert!(spec.take(&mut state, Tick(DAY + 86_399), 1).is_err());
        assert!(spec.take(&mut state, Tick(DAY + 86_400), 1).is_ok());
        let odd = DAY + 1;
        assert_eq!(
            WindowSpec::new(1_000_000, odd),
            Err(SpecError::WindowTooFine {
                limit: 1_000_000,
                window_us: odd
            })
        );
    }

    #[test]
    fn a_clock_that_is_set_back_stands_at_the_beginning_of_the_window() {
        let spec = WindowSpec::new(10, SECOND).unwrap();
        let mut state = WindowState::default();
        assert_eq!(pass(&spec, &mut state, at_ms(5500), 20), 10);

        assert_eq!(pass(&spec, &mut state, at_ms(100), 20), 0);

        let refused = spec.take(&mut state, at_ms(100), 1);
        assert_eq!(refused, Err(Short::Wait { wait_us: 1_100_000 }));
        assert_eq!(spec.time_to_full_us(&state, at_ms(100)), 2 * SECOND);
    }

    #[test]
    fn what_comes_back_is_taken_off_the_window_it_was_spent_in() {
        let spec = WindowSpec::new(10, SECOND).unwrap();
        let mut state = WindowState::default();
        spec.take(&mut state, at_ms(500), 4).unwrap();
        spec.take(&mut state, at_ms(1900), 4).unwrap();

        spec.give_back(&mut state, at_ms(500), 3);
        assert_eq!((state.previous, state.current), (1, 4));
        spec.give_back(&mut state, at_ms(1900), 9);
        assert_eq!((state.previous, state.current), (1, 0));
        spec.charge(&mut state, at_ms(3100), u64::MAX);
        spec.give_back(&mut state, at_ms(500), 3);
        assert_eq!((state.previous, state.current), (0, 20));
    }

    #[test]
    fn states_that_nobody_made_harm_nobody() {
        for (limit, window_us) in [(1, 1), (1 << 52, 1), (1, PERIOD_US_MAX)] {
            let spec = WindowSpec::new(limit, window_us).unwrap();
            for (number, count) in [(0, u64::MAX), (u64::MAX, u64::MAX), (u64::MAX, 0)] {
                for now in [0, 1, u64::MAX] {
                    let mut state = WindowState {
                        number,
                        current: count,
                        previous: count,
                    };
                    let now = Tick(now);

                    let _ = spec.take(&mut state, now, 1);
                    let _ = spec.take(&mut state, now, u64::MAX);
                    spec.charge(&mut state, now, 1);
                    spec.give_back(&mut state, now, u64::MAX);

                    assert!(spec.remaining(&state, now) <= limit);
                    assert!(spec.time_to_full_us(&state, now) <= 2 * window_us);
                }
            }
        }
        assert_eq!(
            WindowSpec::new(1, PERIOD_US_MAX + 1),
            Err(SpecError::PeriodTooLong)
        );
    }
}

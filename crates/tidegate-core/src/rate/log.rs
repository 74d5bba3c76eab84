//! The exact log: remembers when what was spent, so that no window of its length ever has more than its limit.
//!
//! That costs memory for each call that passed, so a limit is [`ENTRIES_MAX`] at most. For more there is the bucket,
//! with a burst and a rate that together stay below the limit.

use std::collections::VecDeque;

use super::{PERIOD_US_MAX, Passed, Short, SpecError, Tick};

/// The highest limit, and the most entries that a state has.
pub const ENTRIES_MAX: u64 = 128;

/// At most so many tokens in any window of so many microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogSpec {
    limit: u64,
    window_us: u64,
}

/// What was spent and when, oldest first. One without entries need not be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    entries: VecDeque<Spending>,
}

/// Tokens that were spent at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spending {
    /// When.
    pub at: Tick,
    /// How many; 0 only in the newest, when they were given back.
    pub tokens: u64,
}

impl LogSpec {
    /// At most `limit` tokens, 1 to [`ENTRIES_MAX`], in any `window_us` consecutive microseconds.
    pub const fn new(limit: u64, window_us: u64) -> Result<Self, SpecError> {
        if limit == 0 {
            return Err(SpecError::RateZero);
        }
        if window_us == 0 {
            return Err(SpecError::PeriodZero);
        }
        if window_us > PERIOD_US_MAX {
            return Err(SpecError::PeriodTooLong);
        }
        if limit > ENTRIES_MAX {
            return Err(SpecError::LogTooLong { limit });
        }
        Ok(Self { limit, window_us })
    }

    /// Tokens in a window: also the most that one call may cost.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The length of the window.
    pub const fn window_us(&self) -> u64 {
        self.window_us
    }

    /// The most tokens that pass in any `window_us` consecutive microseconds, wherever they begin.
    pub const fn worst_in(&self, window_us: u64) -> u64 {
        self.limit
            .saturating_mul(window_us.div_ceil(self.window_us))
    }

    /// Takes `cost` tokens if they are there; a refusal and a cost of 0 change nothing.
    ///
    /// A cost of 0 passes unless there is debt.
    pub fn take(&self, state: &mut LogState, now: Tick, cost: u64) -> Result<Passed, Short> {
        self.check(state, now, cost)?;
        if cost > 0 {
            self.add(state, now, cost);
        }
        Ok(Passed {
            remaining: self.remaining(state, now),
        })
    }

    /// Whether [`Self::take`] would take, or why not.
    pub fn check(&self, state: &LogState, now: Tick, cost: u64) -> Result<(), Short> {
        if cost > self.limit {
            return Err(Short::Never);
        }
        let now = state.later(now);
        let wanted = self.used(state, now).saturating_add(cost);
        let mut missing = wanted.saturating_sub(self.limit);
        if missing == 0 {
            return Ok(());
        }
        // Not when the oldest has gone, but when so many have that this one fits.
        for spending in self.live(state, now) {
            missing = missing.saturating_sub(spending.tokens);
            if missing == 0 {
                return Err(Short::Wait {
                    wait_us: self.window_us - now.since(spending.at),
                });
            }
        }
        unreachable!("no more is missing than what has been spent, or the cost is over the limit")
    }

    /// Puts back `tokens` of what was spent at `spent_at`, unless that no longer counts. What was spent while the clock
    /// was set back is under a later time, and stays spent.
    pub fn give_back(&self, state: &mut LogState, spent_at: Tick, tokens: u64) {
        // Only its own entry: with another one's, something would be forgotten before its time.
        let mut entries = state.entries.iter();
        let Some(index) = entries.position(|entry| entry.at == spent_at) else {
            return;
        };
        let left = state.entries[index].tokens.saturating_sub(tokens);
        state.entries[index].tokens = left;
        // The newest stays without tokens: what was dropped when it came must not be missed at an earlier time.
        if left == 0 && index + 1 < state.entries.len() {
            state.entries.remove(index);
        }
    }

    /// Takes `tokens` whether they are there or not: what has been used already cannot be refused. Leaves at most one
    /// limit of debt.
    pub fn charge(&self, state: &mut LogState, now: Tick, tokens: u64) {
        let used = self.used(state, now);
        let room = (2 * self.limit).saturating_sub(used);
        if tokens.min(room) > 0 {
            self.add(state, now, tokens.min(room));
        }
    }

    /// Tokens that are there; 0 when there is debt.
    pub fn remaining(&self, state: &LogState, now: Tick) -> u64 {
        self.limit.saturating_sub(self.used(state, now))
    }

    /// Tokens that count at `now`.
    pub fn used(&self, state: &LogState, now: Tick) -> u64 {
        let now = state.later(now);
        self.live(state, now).map(|spending| spending.tokens).sum()
    }

    /// Microseconds until nothing counts any more, if nobody takes any: after that the state says nothing that no state
    /// would not say.
    pub fn time_to_full_us(&self, state: &LogState, now: Tick) -> u64 {
        let now = state.later(now);
        let mut newest_first = state.entries.iter().rev();
        let newest = newest_first.find(|spending| spending.tokens > 0);
        newest.map_or(0, |spending| {
            self.window_us.saturating_sub(now.since(spending.at))
        })
    }

    fn live<'a>(&self, state: &'a LogState, now: Tick) -> impl Iterator<Item = &'a Spending> {
        let window_us = self.window_us;
        let entries = state.entries.iter();
        entries.skip_while(move |spending| now.since(spending.at) >= window_us)
    }

    fn add(&self, state: &mut LogState, now: Tick, tokens: u64) {
        let at = state.later(now);
        while let Some(oldest) = state.entries.front()
            && at.since(oldest.at) >= self.window_us
        {
            state.entries.pop_front();
        }
        let full = state.entries.len() as u64 >= ENTRIES_MAX;
        match state.entries.back_mut() {
            // Debt may want more entries than there are; then the newest counts for a little longer.
            Some(newest) if newest.at == at || newest.tokens == 0 || full => {
                newest.at = at;
                newest.tokens += tokens;
            }
            _ => state.entries.push_back(Spending { at, tokens }),
        }
    }
}

impl LogState {
    /// What was spent, oldest first; `None` if no log can be so: times out of order, tokens missing or too many of
    /// anything.
    pub fn from_entries(entries: &[Spending]) -> Option<Self> {
        let ordered = entries.is_sorted_by(|a, b| a.at < b.at);
        let few = entries.iter().all(|entry| entry.tokens <= 2 * ENTRIES_MAX);
        let before = &entries[..entries.len().saturating_sub(1)];
        let spent = before.iter().all(|entry| entry.tokens > 0);
        let sound = ordered && few && spent && entries.len() as u64 <= ENTRIES_MAX;
        sound.then(|| Self {
            entries: entries.iter().copied().collect(),
        })
    }

    /// What was spent, oldest first, and what no longer counts.
    pub fn entries(&self) -> impl Iterator<Item = Spending> {
        self.entries.iter().copied()
    }

    /// The later of `now` and the state's own time.
    fn later(&self, now: Tick) -> Tick {
        self.entries.back().map_or(now, |newest| newest.at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn at_ms(ms: u64) -> Tick {
        Tick(ms * 1000)
    }

    fn pass(spec: &LogSpec, state: &mut LogState, now: Tick, calls: u32) -> usize {
        (0..calls)
            .filter(|_| spec.take(state, now, 1).is_ok())
            .count()
    }

    #[test]
    fn no_window_has_more_than_the_limit_wherever_it_begins() {
        let spec = LogSpec::new(100, SECOND).unwrap();
        let mut state = LogState::default();

        assert_eq!(pass(&spec, &mut state, at_ms(999), 200), 100);
        assert_eq!(pass(&spec, &mut state, at_ms(1000), 200), 0);
        assert_eq!(pass(&spec, &mut state, Tick(1_998_999), 200), 0);
        assert_eq!(pass(&spec, &mut state, Tick(1_999_000), 200), 100);
    }

    #[test]
    fn a_wait_is_until_enough_have_gone_not_until_the_oldest_has() {
        let spec = LogSpec::new(3, SECOND).unwrap();
        let mut state = LogState::default();
        for ms in [0, 100, 200] {
            spec.take(&mut state, at_ms(ms), 1).unwrap();
        }

        let refused = spec.take(&mut state, at_ms(300), 2);

        assert_eq!(refused, Err(Short::Wait { wait_us: 800_000 }));
        assert!(spec.take(&mut state, Tick(1_099_999), 2).is_err());
        assert_eq!(
            spec.take(&mut state, at_ms(1100), 2),
            Ok(Passed { remaining: 0 })
        );
        assert_eq!(spec.take(&mut state, at_ms(1100), 4), Err(Short::Never));
    }

    #[test]
    fn what_comes_back_is_what_was_spent_then() {
        let spec = LogSpec::new(2, SECOND).unwrap();
        let mut state = LogState::default();
        spec.take(&mut state, at_ms(0), 1).unwrap();
        spec.take(&mut state, at_ms(900), 1).unwrap();

        spec.give_back(&mut state, at_ms(0), 1);

        // The other still counts until its own time is over.
        assert_eq!(pass(&spec, &mut state, at_ms(950), 5), 1);
        assert_eq!(pass(&spec, &mut state, at_ms(1800), 5), 0);
        // What no longer counts takes nothing off what does.
        spec.take(&mut state, at_ms(1900), 1).unwrap();
        spec.give_back(&mut state, at_ms(900), 1);
        spec.give_back(&mut state, at_ms(5000), 1);
        assert_eq!(spec.remaining(&state, at_ms(1900)), 0);
    }

    #[test]
    fn what_comes_back_does_not_bring_an_earlier_time_back() {
        let spec = LogSpec::new(2, SECOND).unwrap();
        let mut state = LogState::default();
        spec.take(&mut state, at_ms(0), 2).unwrap();
        spec.take(&mut state, at_ms(1000), 2).unwrap();

        spec.give_back(&mut state, at_ms(1000), 2);

        assert_eq!(spec.time_to_full_us(&state, at_ms(1000)), 0);
        assert_eq!(pass(&spec, &mut state, at_ms(500), 5), 2);
        // They were spent at 1000.
        assert_eq!(pass(&spec, &mut state, at_ms(1999), 5), 0);
        assert_eq!(pass(&spec, &mut state, at_ms(2000), 5), 2);
    }

    #[test]
    fn a_clock_that_is_set_back_spends_at_the_latest_time_known() {
        let spec = LogSpec::new(2, SECOND).unwrap();
        let mut state = LogState::default();
        spec.take(&mut state, at_ms(5000), 1).unwrap();

        assert_eq!(pass(&spec, &mut state, at_ms(0), 5), 1);

        assert_eq!(
            state.entries().collect::<Vec<_>>(),
            [Spending {
                at: at_ms(5000),
                tokens: 2
            }]
        );
        let refused = spec.take(&mut state, at_ms(0), 1);
        assert_eq!(refused, Err(Short::Wait { wait_us: SECOND }));
    }

    #[test]
    fn debt_is_one_limit_at_most_and_goes_with_its_time() {
        let spec = LogSpec::new(2, SECOND).unwrap();
        let mut state = LogState::default();

        spec.charge(&mut state, at_ms(0), u64::MAX);

        assert_eq!(spec.used(&state, at_ms(0)), 4);
        let refused = spec.take(&mut state, at_ms(400), 0);
        assert_eq!(refused, Err(Short::Wait { wait_us: 600_000 }));
        assert_eq!(spec.time_to_full_us(&state, at_ms(400)), 600_000);
        assert_eq!(pass(&spec, &mut state, at_ms(1000), 5), 2);
    }

    #[test]
    fn a_log_never_grows_beyond_its_bound() {
        let spec = LogSpec::new(ENTRIES_MAX, SECOND).unwrap();
        let mut state = LogState::default();

        for ms in 0..500 {
            spec.charge(&mut state, at_ms(ms), 1);
            spec.take(&mut state, at_ms(ms), 0).ok();
        }

        assert_eq!(state.entries().count() as u64, ENTRIES_MAX);
        assert_eq!(spec.used(&state, at_ms(499)), 2 * ENTRIES_MAX);
        assert_eq!(
            LogSpec::new(ENTRIES_MAX + 1, SECOND),
            Err(SpecError::LogTooLong { limit: 129 })
        );
    }

    #[test]
    fn a_log_that_cannot_be_is_none() {
        let entry = |at, tokens| Spending {
            at: Tick(at),
            tokens,
        };

        assert!(LogState::from_entries(&[entry(1, 1), entry(2, 5)]).is_some());
        assert!(LogState::from_entries(&[entry(2, 1), entry(1, 1)]).is_none());
        assert!(LogState::from_entries(&[entry(1, 0), entry(2, 1)]).is_none());
        assert!(LogState::from_entries(&[entry(1, u64::MAX)]).is_none());
        let many: Vec<_> = (0..=ENTRIES_MAX).map(|at| entry(at, 1)).collect();
        assert!(LogState::from_entries(&many).is_none());
    }
}

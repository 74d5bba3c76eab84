//! One key's part of a limit while the store that counts it does not answer.
//!
//! Whoever is asked for a key then knows nothing of it: the store has what was used. So the key begins with all of the
//! part, as a client that has used nothing may expect, and in an outage all parts together let pass what the limit would. What the store had
//! counted just before comes on top of that, one burst for each key and outage at most.

use super::divided::part;
use crate::rate::{BucketSpec, BucketState, Passed, Short, Tick};

/// What is in the part. It outlives the outage: a store that comes and goes gives nobody a second burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart(Option<(BucketState, u32)>);

impl Apart {
    /// Spends `cost` tokens of one part in `parts` of `whole`, 1 at least.
    ///
    /// # Errors
    ///
    /// When they are not there, or the part never holds so many.
    pub fn take(
        &mut self,
        whole: &BucketSpec,
        parts: u32,
        now: Tick,
        cost: u64,
    ) -> Result<Passed, Short> {
        let (spec, mut state) = self.here(whole, parts, now).ok_or(Short::Never)?;
        let passed = spec.take(&mut state, now, cost)?;
        self.0 = Some((state, parts));
        Ok(passed)
    }

    /// Puts `tokens` back that were spent and not used.
    pub fn give_back(&mut self, whole: &BucketSpec, parts: u32, now: Tick, tokens: u64) {
        if let Some((spec, mut state)) = self.here(whole, parts, now) {
            spec.give_back(&mut state, now, tokens);
            self.0 = Some((state, parts));
        }
    }

    /// Takes `tokens` whether they are there or not: what has been used already cannot be refused. Leaves at most as much
    /// debt as the part's burst.
    pub fn charge(&mut self, whole: &BucketSpec, parts: u32, now: Tick, tokens: u64) {
        if let Some((spec, mut state)) = self.here(whole, parts, now) {
            spec.charge(&mut state, now, tokens);
            self.0 = Some((state, parts));
        }
    }

    /// Microseconds until it is full and need not be kept.
    pub fn time_to_full_us(&self, whole: &BucketSpec, parts: u32, now: Tick) -> u64 {
        self.0
            .and_then(|_| self.here(whole, parts, now))
            .map_or(0, |(spec, state)| spec.time_to_full_us(&state, now))
    }

    /// The bucket as one part in `parts`, with the tokens that it has; `None` if the limit is too fine for such parts.
    fn here(&self, whole: &BucketSpec, parts: u32, now: Tick) -> Option<(BucketSpec, BucketState)> {
        let spec = part(whole, parts).ok()?;
        let Some((mut state, then)) = self.0 else {
            return Some((spec, spec.full(now)));
        };
        let credits = i128::from(state.credits) * i128::from(parts);
        state.credits = credits.div_euclid(i128::from(then.max(1))) as i64;
        Some((spec, state))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: u64 = 3_600_000_000;

    fn hourly() -> BucketSpec {
        BucketSpec::new(20, HOUR, 20).unwrap()
    }

    fn passes(apart: &mut Apart, parts: u32, now: Tick, asked: u32) -> usize {
        let whole = hourly();
        let passed = (0..asked).filter(|_| apart.take(&whole, parts, now, 1).is_ok());
        passed.count()
    }

    #[test]
    fn a_client_that_has_used_nothing_has_all_of_the_part() {
        assert_eq!(passes(&mut Apart::default(), 1, Tick(5), 25), 20);
        assert_eq!(passes(&mut Apart::default(), 2, Tick(5), 25), 10);
        // One token at least, or nothing would ever pass.
        assert_eq!(passes(&mut Apart::default(), 100, Tick(5), 25), 1);
    }

    #[test]
    fn a_second_outage_gives_no_second_burst() {
        let mut apart = Apart::default();
        passes(&mut apart, 2, Tick(0), 25);
        let whole = hourly();

        assert!(apart.time_to_full_us(&whole, 2, Tick(1)) > 0);
        assert_eq!(passes(&mut apart, 2, Tick(HOUR / 2), 25), 5);
        assert_eq!(passes(&mut apart, 2, Tick(3 * HOUR), 25), 10);
        assert_eq!(Apart::default().time_to_full_us(&whole, 2, Tick(1)), 0);
    }

    #[test]
    fn what_a_request_did_not_use_is_back_and_what_it_used_more_is_gone() {
        let (mut apart, whole) = (Apart::default(), hourly());
        passes(&mut apart, 1, Tick(0), 10);

        apart.give_back(&whole, 1, Tick(0), 4);
        apart.charge(&whole, 1, Tick(0), 2);

        assert_eq!(passes(&mut apart, 1, Tick(0), 25), 12);
    }

    proptest! {
        #[test]
        fn all_parts_together_let_pass_what_the_limit_would(
            nodes in 1u32..12,
            steps in prop::collection::vec((0usize..12, 0u64..HOUR / 4, 1u64..4), 1..200),
        ) {
            let whole = BucketSpec::new(100, HOUR, 100).unwrap();
            let mut parts = vec![Apart::default(); nodes as usize];
            let (mut now, mut passed) = (0, 0);
            for (node, later, cost) in steps {
                now += later;
                let node = node % parts.len();
                if parts[node].take(&whole, nodes, Tick(now), cost).is_ok() {
                    passed += cost;
                }
                prop_assert!(passed <= whole.worst_in(now.max(1)), "{passed} by {now}");
            }
        }
    }
}

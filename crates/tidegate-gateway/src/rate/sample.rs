//! Which keys a limit is met with most, of however many there are: a bounded number of candidates, in words.
//!
//! The algorithm is space-saving: a key that is no candidate takes the place of the one with the lowest count and
//! counts on from there. So whoever has more than a 32nd of all becomes a candidate and stays one. What is
//! counted fades: it is halved every ten minutes.

use std::sync::{Mutex, PoisonError};

use tidegate_core::rate::Tick;
use tidegate_core::rate::set::Standing;

use super::words::Words;

/// Most candidates.
const CANDIDATES_MAX: usize = 32;
/// After this time a count is half of what it was.
const HALF_LIFE_US: u64 = 600 * 1_000_000;
/// When there are as many candidates as there may be, one of so many others takes the place of one, and counts for all
/// of them: putting a key into words costs more than counting it.
const RARELY: u64 = 16;
/// The golden ratio of 64 bits: its multiples are spread evenly, and in step with nothing.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A sample of the keys that something is counted for.
#[derive(Debug, Default)]
pub(crate) struct Sample(Mutex<Candidates>);

#[derive(Debug, Default)]
struct Candidates {
    /// Their keys, apart from the rest since every request looks through them.
    keys: Vec<u128>,
    rest: Vec<Candidate>,
    /// How often a key was none of them.
    others: u64,
    /// Since when counts were not halved.
    halved_at: Tick,
}

/// A key that is among those that are met most.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) key: u128,
    pub(crate) words: Words,
    pub(crate) standing: Standing,
    /// About how much was counted for it of late.
    pub(crate) count: u64,
    /// At most about so much of that was another key's.
    pub(crate) over: u64,
    /// When that was last.
    pub(crate) last: Tick,
}

impl Sample {
    /// Counts `amount` for `key`, which is `words`. While another thread counts it does not: a sample may miss one, and a
    /// request does not wait for it.
    pub(crate) fn count(
        &self,
        (key, standing): (u128, Standing),
        amount: u64,
        now: Tick,
        words: impl FnOnce() -> Words,
    ) {
        if amount == 0 {
            return;
        }
        let Ok(mut candidates) = self.0.try_lock() else {
            return;
        };
        candidates.fade(now);
        if let Some(at) = candidates.keys.iter().position(|known| *known == key) {
            let candidate = &mut candidates.rest[at];
            candidate.count = candidate.count.saturating_add(amount);
            candidate.last = now;
        } else if let Some((at, amount, over)) = candidates.place(amount) {
            let candidate = Candidate {
                key,
                words: words(),
                standing,
                count: over.saturating_add(amount),
                over,
                last: now,
            };
            candidates.put(at, candidate);
        }
    }

    /// All candidates, the one with the highest count first.
    pub(crate) fn candidates(&self, now: Tick) -> Vec<Candidate> {
        let mut candidates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        candidates.fade(now);
        let mut all = candidates.rest.clone();
        drop(candidates);
        all.sort_by_key(|candidate| std::cmp::Reverse(candidate.count));
        all
    }

    /// Forgets a key.
    pub(crate) fn forget(&self, key: u128) {
        let mut candidates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        candidates.retain(|candidate| candidate.key != key);
    }
}

impl Candidates {
    /// Where one more candidate goes, how much counts for it, and how much of the place's count is not its own. `None` for
    /// most when there is no room.
    fn place(&mut self, amount: u64) -> Option<(usize, u64, u64)> {
        if self.rest.len() < CANDIDATES_MAX {
            return Some((self.rest.len(), amount, 0));
        }
        self.others = self.others.wrapping_add(1);
        if self.others.wrapping_mul(GOLDEN) > u64::MAX / RARELY {
            return None;
        }
        let counts = self.rest.iter().map(|candidate| candidate.count);
        let (at, least) = counts.enumerate().min_by_key(|(_, count)| *count)?;
        Some((at, amount.saturating_mul(RARELY), least))
    }

    fn put(&mut self, at: usize, candidate: Candidate) {
        if at == self.rest.len() {
            self.keys.push(candidate.key);
            self.rest.push(candidate);
        } else {
            self.keys[at] = candidate.key;
            self.rest[at] = candidate;
        }
    }

    /// Halves the counts for each half-life that is over, and forgets those of which nothing is left.
    fn fade(&mut self, now: Tick) {
        let lives = now.since(self.halved_at) / HALF_LIFE_US;
        if lives == 0 {
            return;
        }
        self.halved_at = self.halved_at.plus(lives * HALF_LIFE_US);
        let half =
            |count: u64| u32::try_from(lives).map_or(0, |n| count.checked_shr(n).unwrap_or(0));
        for candidate in &mut self.rest {
            candidate.count = half(candidate.count);
            candidate.over = half(candidate.over);
        }
        self.retain(|candidate| candidate.count > 0);
    }

    fn retain(&mut self, stays: impl Fn(&Candidate) -> bool) {
        self.rest.retain(stays);
        self.keys.clear();
        self.keys
            .extend(self.rest.iter().map(|candidate| candidate.key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Tick = Tick(1_000_000);

    fn words(key: u128) -> Words {
        [Some(key.to_string())].into()
    }

    fn count(sample: &Sample, key: u128, amount: u64, now: Tick) {
        sample.count((key, Standing::Enforced), amount, now, || words(key));
    }

    #[test]
    fn who_is_met_most_is_found_among_any_number_of_others() {
        let sample = Sample::default();

        for round in 0..20_000_u128 {
            count(&sample, 1_000_000 + round, 1, NOW);
            if round % 4 == 0 {
                count(&sample, 7, 1, NOW);
            }
            if round % 8 == 0 {
                count(&sample, 8, 1, NOW);
            }
        }

        let all = sample.candidates(NOW);
        assert_eq!(all.len(), CANDIDATES_MAX);
        assert_eq!((all[0].key, all[1].key), (7, 8));
        assert_eq!(all[0].words, words(7));
        // What it was taken for is within what it may be wrong by, and that is not much.
        let (count, over) = (all[0].count, all[0].over);
        assert!(count >= 5_000 && count - over <= 5_000, "{count} {over}");
        assert!(count <= 6_250, "{count}");
    }

    #[test]
    fn few_keys_are_counted_exactly_and_are_put_into_words_once() {
        let sample = Sample::default();
        let mut put = 0;

        for round in 0..100 {
            let key = round % 3;
            sample.count((key, Standing::Shadow), 2, NOW, || {
                put += 1;
                words(key)
            });
        }

        assert_eq!(put, 3);
        let all = sample.candidates(NOW);
        let counts: Vec<_> = all.iter().map(|it| (it.key, it.count, it.over)).collect();
        assert_eq!(counts, [(0, 68, 0), (1, 66, 0), (2, 66, 0)]);
        sample.forget(0);
        assert_eq!(sample.candidates(NOW).len(), 2);
        count(&sample, 1, 5, NOW);
        assert_eq!(sample.candidates(NOW)[0].count, 71);
    }

    #[test]
    fn what_was_counted_fades() {
        let sample = Sample::default();
        count(&sample, 1, 8, NOW);
        count(&sample, 2, 1, NOW);

        let later = NOW.plus(2 * HALF_LIFE_US);

        let counts = |now| -> Vec<_> {
            let all = sample.candidates(now);
            all.iter().map(|it| (it.key, it.count)).collect()
        };
        assert_eq!(counts(later), [(1, 2)]);
        count(&sample, 3, 4, later);
        assert_eq!(counts(later), [(3, 4), (1, 2)]);
        assert!(counts(later.plus(100 * HALF_LIFE_US)).is_empty());
    }
}

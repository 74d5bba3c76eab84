//! What the limits of this node remember, by key: a hash map in shards, each behind a lock of its own.
//!
//! A request locks the shards of all its keys, always in the same order, decides, and unlocks; so it spends from all its limits
//! or from none, whatever other threads do. A key whose limit is full again says nothing and is forgotten when room is
//! needed. When there is none to be had that way, those go that are nearest to full: forgetting them lets the least
//! too much pass. What is forgotten so is counted.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::rate::set::{self, Member, Refused, Spent, Standing};
use tidegate_core::rate::{Spec, State, Tick};

/// How many shards. Their numbers are bits of one word.
const SHARDS: usize = 64;

/// One limit of a request, and the key that the request has in it.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// The limit's place in the plan.
    pub(crate) limit: u16,
    /// The keyed hash of what it counts by.
    pub(crate) key: u128,
    /// What it allows.
    pub(crate) spec: Spec,
    pub(crate) cost: u64,
    pub(crate) standing: Standing,
}

/// A refusal, and what is left of the limit that binds.
#[derive(Debug)]
pub(crate) struct Denied {
    pub(crate) refused: Refused,
    pub(crate) remaining: u64,
}

pub(crate) struct Table {
    shards: [Mutex<Shard>; SHARDS],
    /// Keys in one shard at most.
    keys_max: usize,
    /// By limit.
    counts: Vec<Counts>,
    specs: Vec<Spec>,
}

/// Keys of one limit.
#[derive(Debug, Default)]
struct Counts {
    kept: AtomicU64,
    evicted: AtomicU64,
}

type Shard = HashMap<u128, Entry, BuildHasherDefault<Given>>;

struct Entry {
    limit: u16,
    state: State,
}

// Twice that at most, as a hash map is half empty after it has grown.
const _: () = assert!(size_of::<(u128, Entry)>() <= 64);

/// The shards of a request, locked.
struct Locked<'t>([Option<MutexGuard<'t, Shard>>; SHARDS]);

impl Table {
    /// An empty table for these limits, with room for `keys_max` keys or a few less.
    pub(crate) fn new(specs: Vec<Spec>, keys_max: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            keys_max: (keys_max / SHARDS).max(1),
            counts: specs.iter().map(|_| Counts::default()).collect(),
            specs,
        }
    }

    /// Spends from all that are `wanted`, or from none.
    pub(crate) fn take(&self, wanted: &[Wanted], now: Tick) -> Result<Spent, Denied> {
        let mut locked = self.lock(wanted);
        let mut states = locked.states(wanted, now);

        let taken = set::take(&mut members(wanted, &mut states), now);

        let remaining = |refused: &Refused| {
            let at = refused.binding;
            wanted[at].spec.remaining(&states[at].0, now)
        };
        let taken = taken.map_err(|refused| Denied {
            remaining: remaining(&refused),
            refused,
        });
        let spent_from = taken
            .as_ref()
            .map_or_else(|_| Default::default(), Spent::from);
        for (place, (wanted, (state, known))) in wanted.iter().zip(states).enumerate() {
            // A refusal leaves no trace, or refused strangers would fill the table.
            if known || spent_from.contains(place) {
                self.keep(&mut locked, wanted, state, known, now);
            }
        }
        taken
    }

    /// Puts back what was `spent` from the limits that were `wanted` then.
    pub(crate) fn give_back(&self, wanted: &[Wanted], spent: Spent, now: Tick) {
        let mut locked = self.lock(wanted);
        let mut states = locked.states(wanted, now);

        spent.give_back(&mut members(wanted, &mut states), now);

        for (wanted, (state, known)) in wanted.iter().zip(states) {
            if known {
                self.keep(&mut locked, wanted, state, known, now);
            }
        }
    }

    /// Keys of `limit` that are remembered.
    pub(crate) fn kept(&self, limit: usize) -> u64 {
        self.counts[limit].kept.load(Ordering::Relaxed)
    }

    /// Keys of `limit` that were forgotten too early, for want of room.
    pub(crate) fn evicted(&self, limit: usize) -> u64 {
        self.counts[limit].evicted.load(Ordering::Relaxed)
    }

    fn lock(&self, wanted: &[Wanted]) -> Locked<'_> {
        let mut shards = wanted
            .iter()
            .fold(0_u64, |all, it| all | 1 << shard_of(it.key));
        let mut locked = Locked([const { None }; SHARDS]);
        while shards != 0 {
            let shard = shards.trailing_zeros() as usize;
            // A panic in here leaves states that each are one that could have been.
            let guard = self.shards[shard].lock();
            locked.0[shard] = Some(guard.unwrap_or_else(PoisonError::into_inner));
            shards &= shards - 1;
        }
        locked
    }

    fn keep(&self, locked: &mut Locked<'_>, wanted: &Wanted, state: State, known: bool, now: Tick) {
        let shard = locked.shard(wanted.key);
        if let Some(entry) = shard.get_mut(&wanted.key) {
            entry.state = state;
            return;
        }
        debug_assert!(
            !known,
            "nothing is removed while the shard is locked, except for room"
        );
        if shard.len() >= self.keys_max {
            self.make_room(shard, now);
        }
        let entry = Entry {
            limit: wanted.limit,
            state,
        };
        shard.insert(wanted.key, entry);
        self.counts[usize::from(wanted.limit)]
            .kept
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Empties an eighth of a full shard, or more, so that it does not come to this at the next key again.
    fn make_room(&self, shard: &mut Shard, now: Tick) {
        let full_us = |entry: &Entry| {
            let spec = &self.specs[usize::from(entry.limit)];
            spec.time_to_full_us(&entry.state, now)
        };
        let mut gone: Vec<(u64, u128)> = shard
            .iter()
            .map(|(key, entry)| (full_us(entry), *key))
            .collect();
        let idle = gone.iter().filter(|(left_us, _)| *left_us == 0).count();
        let wanted = (self.keys_max / 8).max(1).max(idle).min(gone.len());
        if wanted < gone.len() {
            gone.select_nth_unstable(wanted);
            gone.truncate(wanted);
        }
        for (left_us, key) in gone {
            let Some(entry) = shard.remove(&key) else {
                continue;
            };
            let counts = &self.counts[usize::from(entry.limit)];
            counts.kept.fetch_sub(1, Ordering::Relaxed);
            if left_us > 0 {
                counts.evicted.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Locked<'_> {
    fn shard(&mut self, key: u128) -> &mut Shard {
        let guard = self.0[shard_of(key)].as_mut();
        guard.expect("the shards of all keys of the request are locked")
    }

    /// The states of all that are `wanted`, taken out, and whether there was one.
    fn states(&mut self, wanted: &[Wanted], now: Tick) -> Vec<(State, bool)> {
        let states =
            wanted
                .iter()
                .map(|wanted| match self.shard(wanted.key).get_mut(&wanted.key) {
                    Some(entry) => (std::mem::replace(&mut entry.state, State::Deny), true),
                    None => (wanted.spec.full(now), false),
                });
        states.collect()
    }
}

fn members<'a>(wanted: &'a [Wanted], states: &'a mut [(State, bool)]) -> Vec<Member<'a>> {
    let members = wanted
        .iter()
        .zip(states)
        .map(|(wanted, (state, _))| Member {
            spec: &wanted.spec,
            state,
            cost: wanted.cost,
            standing: wanted.standing,
        });
    members.collect()
}

const fn shard_of(key: u128) -> usize {
    (key >> 64) as usize % SHARDS
}

/// The hash of a key that is a keyed hash itself.
#[derive(Default)]
struct Given(u64);

impl Hasher for Given {
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(false, "keys are u128, not {} bytes", bytes.len());
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::rate::Algorithm;

    use super::*;

    const NOW: Tick = Tick(1_000_000);

    fn spec(words: &str) -> Spec {
        Spec::new(Algorithm::Bucket, words.parse().unwrap(), None).unwrap()
    }

    /// Keys spread as hashes do.
    fn key(number: u128) -> u128 {
        (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }

    fn wanted(limit: u16, number: u128, words: &str) -> Wanted {
        Wanted {
            limit,
            key: key(number),
            spec: spec(words),
            cost: 1,
            standing: Standing::Enforced,
        }
    }

    fn table(specs: &[&str], keys_max: usize) -> Table {
        Table::new(specs.iter().map(|words| spec(words)).collect(), keys_max)
    }

    fn spend(table: &Table, wanted: &[Wanted], now: Tick) {
        let _kept = table.take(wanted, now).unwrap();
    }

    #[test]
    fn a_refusal_spends_nothing_and_leaves_no_trace() {
        let table = table(&["2/min", "1/min"], 1_000);
        let both = [wanted(0, 0, "2/min"), wanted(1, 1, "1/min")];
        spend(&table, &both[1..], NOW);

        let denied = table.take(&both, NOW).unwrap_err();

        assert_eq!(denied.refused.by.iter().collect::<Vec<_>>(), [1]);
        assert_eq!(denied.remaining, 0);
        assert_eq!((table.kept(0), table.kept(1)), (0, 1));
        assert!((0..2).all(|_| table.take(&both[..1], NOW).is_ok()));
    }

    #[test]
    fn what_is_given_back_can_be_spent_again() {
        let table = table(&["1/day"], 1_000);
        let one = [wanted(0, 0, "1/day")];

        for _ in 0..3 {
            let spent = table.take(&one, NOW).unwrap();
            assert!(table.take(&one, NOW).is_err());
            table.give_back(&one, spent, NOW);
        }

        assert!(table.take(&one, NOW).is_ok());
    }

    #[test]
    fn threads_together_spend_no_more_than_there_is_and_all_or_nothing() {
        let mut specs = ["900/day"; 17];
        specs[9] = "500/day";
        let table = table(&specs, 10_000);
        let all: Vec<Wanted> = (0..)
            .zip(specs)
            .map(|(limit, words)| wanted(limit, u128::from(limit), words))
            .collect();

        let passed: usize = std::thread::scope(|scope| {
            let run = || (0..1_000).filter(|_| table.take(&all, NOW).is_ok()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).sum()
        });

        assert_eq!(passed, 500);
        for one in all.chunks(1) {
            let left = (0..1_000).filter(|_| table.take(one, NOW).is_ok()).count();
            assert_eq!(left, if one[0].limit == 9 { 0 } else { 400 });
        }
    }

    #[test]
    fn the_table_stays_within_its_bound_and_forgets_what_says_least() {
        let table = table(&["5/day", "5/day"], 64 * 16);
        // Ten strangers that are out of tokens, ...
        for number in 0..10 {
            for _ in 0..5 {
                spend(&table, &[wanted(0, number, "5/day")], NOW);
            }
        }

        // ... and many more that have hardly begun.
        for number in 10..20_000 {
            spend(&table, &[wanted(1, number, "5/day")], NOW);
        }

        assert!(table.kept(0) + table.kept(1) <= 64 * 16);
        assert_eq!((table.kept(0), table.evicted(0)), (10, 0));
        assert_eq!(table.evicted(1) + table.kept(1), 19_990);
        assert!((0..10).all(|number| table.take(&[wanted(0, number, "5/day")], NOW).is_err()));
    }

    #[test]
    fn keys_that_are_full_again_go_without_loss() {
        let table = table(&["100/s"], 64 * 4);

        for number in 0..10_000 {
            let now = Tick(1_000_000 * (number as u64 + 1));
            spend(&table, &[wanted(0, number, "100/s")], now);
        }

        assert_eq!(table.evicted(0), 0);
        assert!(table.kept(0) <= 64 * 4);
    }
}

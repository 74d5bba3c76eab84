//! Seats by key, a bounded number of them, in shards behind a lock each.
//!
//! A seat is not needed for the limit to hold: the store has the state. It is dropped when nobody has asked for a while, and
//! what it had goes back. Where there is no room those go that were not asked for the longest time, but for parts of a
//! divided limit, which are known nowhere else: those stay until they are full again, or until there is nothing else to drop.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::rate::Tick;
use tidegate_core::rng::Rng;

use super::seat::Seat;

/// How many shards.
pub(super) const SHARDS: usize = 64;

/// All seats.
pub(super) struct Table {
    shards: [Mutex<Shard>; SHARDS],
    /// In one shard at most.
    keys_max: usize,
}

/// Some of them.
pub(super) struct Shard {
    pub(super) seats: HashMap<u128, Seat, BuildHasherDefault<Given>>,
    /// For when to report.
    pub(super) rng: Rng,
}

impl Table {
    /// An empty one, with room for `keys_max` keys or a few less.
    pub(super) fn new(keys_max: usize, seed: u64) -> Self {
        let mut seeds = Rng::new(seed);
        Self {
            shards: std::array::from_fn(|_| {
                Mutex::new(Shard {
                    seats: HashMap::default(),
                    rng: Rng::new(seeds.next_u64()),
                })
            }),
            keys_max: (keys_max / SHARDS).max(1),
        }
    }

    /// The shard that has `key`, or would.
    pub(super) fn shard(&self, key: u128) -> MutexGuard<'_, Shard> {
        self.nth((key >> 64) as usize % SHARDS)
    }

    /// Shard number `at`, below [`SHARDS`].
    pub(super) fn nth(&self, at: usize) -> MutexGuard<'_, Shard> {
        // A panic in there leaves seats that each are one that could have been.
        self.shards[at]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `shard` has no room for another key.
    pub(super) fn is_full(&self, shard: &Shard) -> bool {
        shard.seats.len() >= self.keys_max
    }
}

impl Shard {
    /// Takes out an eighth of a full shard, so that the search for them costs little for each new key: those that are not
    /// `needed` before those that are, and of each the longest unasked. Also says how many of them were needed.
    pub(super) fn make_room(&mut self, needed: impl Fn(&Seat) -> bool) -> (Vec<(u128, Seat)>, u64) {
        let mut all: Vec<(bool, Tick, u128)> = self
            .seats
            .iter()
            .map(|(key, seat)| (needed(seat), seat.touched, *key))
            .collect();
        let count = (all.len() / 8).max(1).min(all.len());
        if count < all.len() {
            all.select_nth_unstable(count);
            all.truncate(count);
        }
        let lost = all.iter().filter(|(needed, ..)| *needed).count() as u64;
        let gone = all
            .into_iter()
            .filter_map(|(.., key)| self.seats.remove(&key).map(|seat| (key, seat)));
        (gone.collect(), lost)
    }

    /// Takes out what was not asked since `since` and is not `needed`.
    pub(super) fn idle(
        &mut self,
        since: Tick,
        needed: impl Fn(&Seat) -> bool,
    ) -> Vec<(u128, Seat)> {
        let is_idle = |_: &u128, seat: &mut Seat| seat.touched < since && !needed(seat);
        self.seats.extract_if(is_idle).collect()
    }
}

/// The hash of a key that is a keyed hash itself.
#[derive(Default)]
pub(super) struct Given(u64);

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
    use tidegate_core::rate::Spec;
    use tidegate_core::rate::share::{Life, OnLoss};

    use super::super::plan::{FleetMode, FleetPlan};
    use super::super::seat::Limit;
    use super::*;

    #[test]
    fn without_room_those_go_that_were_not_asked_for_the_longest_time_and_are_not_needed() {
        let table = Table::new(SHARDS * 16, 1);
        let plan = FleetPlan {
            mode: FleetMode::Shared,
            on_loss: OnLoss::Open,
        };
        let limit = Limit::new(Spec::Deny, plan, 1);
        let mut shard = table.nth(0);
        for key in 0..16 {
            let seat = Seat::new(key as u16, &limit, Life(1), Tick(key));
            shard.seats.insert(u128::from(key), seat);
        }
        assert!(table.is_full(&shard));

        let (gone, needed) = shard.make_room(|seat| seat.limit == 0);

        let mut gone: Vec<u128> = gone.into_iter().map(|(key, _)| key).collect();
        gone.sort_unstable();
        assert_eq!((gone, needed), (vec![1, 2], 0));
        let idle = shard.idle(Tick(5), |seat| seat.limit == 0);
        assert_eq!(idle.len(), 2);
    }
}

//! Passes that were verified a moment ago, so that a visitor's next request costs a hash and no signature.
//!
//! Only what was good is kept: what was not would let whoever sends it push others out. An entry is found by half of the
//! SHA-256 of the pass with its key and the room's epoch, so that with another of either it is not found, and it says what
//! has to be asked again each time: when it ends, whether it was taken back, whose it is.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use tidegate_core::room::{Epoch, Tier};
use tidegate_core::time::Wall;

use super::bond::BondTag;
use super::keys::{Key, seconds};
use super::pass::{Claims, LEEWAY_S, PassId};

/// Verified passes, a bounded number of them.
pub(super) struct Verified {
    shards: Box<[Mutex<Box<[Entry]>>]>,
}

/// What is known of a verified pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) id: PassId,
    pub(super) bond: BondTag,
    pub(super) issued: u32,
    pub(super) expires: u32,
    pub(super) absolute: u32,
    pub(super) tier: Tier,
    pub(super) class: u8,
}

/// One place; empty while its pass never ends.
#[derive(Clone, Copy, Default)]
struct Entry {
    key: [u8; 16],
    known: Option<Known>,
}

/// Bytes of an entry.
pub const VERIFIED_ENTRY_BYTES: usize = size_of::<Entry>();
const _: () = assert!(VERIFIED_ENTRY_BYTES <= 64, "an entry has 64 bytes at most");

/// Locks, so that threads seldom wait for each other.
const SHARDS: usize = 16;
/// Places where an entry may be. Of as many neighbours the one that ends first goes.
const WAYS: usize = 16;

impl Verified {
    /// With room for `most` passes, rounded up to a power of two, 256 or more.
    pub(super) fn new(most: usize) -> Self {
        let places = most.max(SHARDS * WAYS).next_power_of_two() / SHARDS;
        let shard = || Mutex::new(vec![Entry::default(); places].into_boxed_slice());
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
        }
    }

    /// What `pass` is found by.
    pub(super) fn key(pass: &str, signer: &Key, epoch: Option<Epoch>) -> [u8; 16] {
        let mut hash = Sha256::new();
        hash.update(signer.print);
        // No epoch is the first one that there can be: nothing is ever in it.
        hash.update(epoch.map_or(0, |epoch| epoch.0).to_be_bytes());
        hash.update(pass);
        super::keys::half(hash.finalize().into())
    }

    /// What is known of the pass that is found by `key`.
    pub(super) fn find(&self, key: &[u8; 16]) -> Option<Known> {
        let (shard, at) = self.place(key);
        let set = &shard[at..at + WAYS];
        let mut filled = set.iter().filter(|entry| entry.known.is_some());
        filled.find(|entry| entry.key == *key)?.known
    }

    /// Keeps what is known of a good pass.
    pub(super) fn keep(&self, key: [u8; 16], known: Known, now: Wall) {
        let (mut shard, at) = self.place(&key);
        let set = &mut shard[at..at + WAYS];
        let same = set.iter().position(|entry| entry.key == key);
        let ended = seconds(now).saturating_sub(LEEWAY_S);
        let worth = |entry: &Entry| {
            let expires = entry.known.map_or(0, |known| known.expires.into());
            if expires <= ended { 0 } else { expires }
        };
        let place = same.or_else(|| (0..WAYS).min_by_key(|way| worth(&set[*way])));
        let known = Some(known);
        set[place.expect("a set has places")] = Entry { key, known };
    }

    /// The shard that `key` is in, and where its set begins there.
    fn place(&self, key: &[u8; 16]) -> (MutexGuard<'_, Box<[Entry]>>, usize) {
        let number = u128::from_le_bytes(*key) as u64;
        // What is in there is whole whatever has panicked.
        let shard = self.shards[number as usize % SHARDS]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let sets = shard.len() / WAYS;
        let at = (number >> 32) as usize % sets * WAYS;
        (shard, at)
    }
}

impl From<&Claims> for Known {
    fn from(claims: &Claims) -> Self {
        Self {
            id: claims.id,
            bond: claims.bond,
            issued: claims.issued,
            expires: claims.expires,
            absolute: claims.absolute,
            tier: claims.tier,
            class: claims.class,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn known(number: u8, expires: u32) -> Known {
        Known {
            id: PassId([number; 16]),
            bond: [number; 16],
            issued: 1,
            expires,
            absolute: expires,
            tier: Tier::Anonymous,
            class: 0,
        }
    }

    /// A key that is in the same set as all others of this kind.
    fn key(number: u8) -> [u8; 16] {
        let mut key = [0; 16];
        key[15] = number;
        key[0] = 16;
        key
    }

    #[test]
    fn a_full_set_loses_what_has_ended_and_then_what_ends_first() {
        let verified = Verified::new(1);
        let now = Wall::from_micros(100_000_000);
        for number in 1..=16 {
            verified.keep(key(number), known(number, 200 + u32::from(number)), now);
        }
        verified.keep(key(3), known(3, 50), now);

        verified.keep(key(17), known(17, 300), now);
        verified.keep(key(18), known(18, 301), now);

        let there = |number| verified.find(&key(number)).is_some();
        assert_eq!((there(3), there(1)), (false, false));
        assert!([2].into_iter().chain(4..=18).all(there));
        assert_eq!(verified.find(&key(17)), Some(known(17, 300)));
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_was_kept_last(
            kept in prop::collection::vec((any::<[u8; 16]>(), 0u8..9, 1_000u32..2_000), 0..400),
        ) {
            let verified = Verified::new(128);
            let mut model = HashMap::new();
            for (key, number, expires) in kept {
                let known = known(number, expires);
                verified.keep(key, known, Wall::default());
                model.insert(key, known);
                prop_assert_eq!(verified.find(&key), Some(known));
            }
            for (key, known) in model {
                let found = verified.find(&key);
                prop_assert!(found.is_none() || found == Some(known));
            }
        }
    }
}

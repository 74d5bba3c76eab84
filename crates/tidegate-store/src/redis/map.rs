//! Which shard has which slot.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::plan::Address;
use super::shard::Shard;
use super::slot::SLOTS;

/// Which shard has which slot. Never changed: a new one takes its place.
#[derive(Default)]
pub(super) struct Map {
    shards: Vec<Arc<Shard>>,
    /// For each slot a position in `shards` and 1 more; 0 for nobody.
    slots: Vec<u16>,
}

/// A shard and the slots that it has.
pub(super) struct Part {
    /// The shard.
    pub(super) shard: Arc<Shard>,
    /// Its slots.
    pub(super) ranges: Vec<RangeInclusive<u16>>,
}

impl Map {
    /// One shard that has everything.
    pub(super) fn of_one(shard: Arc<Shard>) -> Self {
        Self {
            shards: vec![shard],
            slots: vec![1; usize::from(SLOTS)],
        }
    }

    /// These shards.
    pub(super) fn of(parts: Vec<Part>) -> Self {
        let mut slots = vec![0; usize::from(SLOTS)];
        let mut shards = Vec::with_capacity(parts.len());
        for (number, part) in (1..).zip(parts) {
            shards.push(part.shard);
            for slot in part.ranges.into_iter().flatten() {
                if let Some(slot) = slots.get_mut(usize::from(slot)) {
                    *slot = number;
                }
            }
        }
        Self { shards, slots }
    }

    /// The same, but `slot` is where `address` is, if that is the primary of one of the shards.
    pub(super) fn with_moved(&self, slot: u16, address: &Address) -> Option<Self> {
        let number = self.position(address)? + 1;
        let mut slots = self.slots.clone();
        *slots.get_mut(usize::from(slot))? = u16::try_from(number).ok()?;
        Some(Self {
            shards: self.shards.clone(),
            slots,
        })
    }

    /// All shards.
    pub(super) fn shards(&self) -> &[Arc<Shard>] {
        &self.shards
    }

    /// Whether nothing is known yet.
    pub(super) fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// The shard that has `slot`.
    pub(super) fn shard(&self, slot: u16) -> Option<&Arc<Shard>> {
        let number = *self.slots.get(usize::from(slot))?;
        self.shards.get(usize::from(number).checked_sub(1)?)
    }

    /// The shard of which the primary is at `address`.
    pub(super) fn at(&self, address: &Address) -> Option<&Arc<Shard>> {
        self.shards.get(self.position(address)?)
    }

    fn position(&self, address: &Address) -> Option<usize> {
        let there = |shard: &Arc<Shard>| shard.target.borrow().as_ref() == Some(address);
        self.shards.iter().position(there)
    }
}

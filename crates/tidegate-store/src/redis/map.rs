//! Which shard has which slot.

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

impl Map {
    /// One shard that has everything.
    pub(super) fn of_one(shard: Arc<Shard>) -> Self {
        Self {
            shards: vec![shard],
            slots: vec![1; usize::from(SLOTS)],
        }
    }

    /// These shards, each with its ranges of slots (first and last).
    pub(super) fn of(parts: Vec<(Arc<Shard>, Vec<(u16, u16)>)>) -> Self {
        let mut slots = vec![0; usize::from(SLOTS)];
        let mut shards = Vec::with_capacity(parts.len());
        for (number, (shard, ranges)) in (1..).zip(parts) {
            shards.push(shard);
            for (first, last) in ranges {
                let last = last.min(SLOTS - 1);
                if first <= last {
                    slots[usize::from(first)..=usize::from(last)].fill(number);
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

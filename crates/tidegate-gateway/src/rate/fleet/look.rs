//! What an operator is shown of keys of a limit of the fleet, and what becomes of one that is to be reset.

use std::time::Duration;

use tidegate_core::rate::key::Part;
use tidegate_core::rate::set::{LIMITS_MAX, Standing};
use tidegate_core::rate::share::Verdict;
use tidegate_core::rate::{Short, Tick};
use tidegate_store::limits::{Asked, Said};
use tidegate_store::{Call, StoreError};

use super::plan::FleetMode;
use super::{Fleet, Inner, tag_of};

/// An operator waits longer than a request would.
const CALL: Call = Call::within(Duration::from_millis(250));

/// How a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stands {
    /// Whole tokens when nothing is used.
    pub(crate) most: u64,
    /// Whole tokens that are there: in the store, or of this node's part.
    pub(crate) remaining: u64,
    /// How long a request would wait for them; `None` for one that passes.
    pub(crate) short: Option<Short>,
    /// Tokens that this node has ahead.
    pub(crate) ahead: u64,
    /// Tokens that it has spent and the store may not know of.
    pub(crate) unreported: u64,
}

impl Fleet {
    /// The key that these parts have in limit number `limit`; `None` until the store has told what keys are hashed with.
    pub(crate) fn key(&self, limit: u16, standing: Standing, parts: &[Part<'_>]) -> Option<u128> {
        let keys = self.keys();
        keys.are_shared.then(|| keys.key(limit, standing, parts))
    }

    /// How many keys of limit number `limit` this node has something of.
    pub(crate) fn seats(&self, limit: u16) -> u64 {
        let table = &self.inner.table;
        let of_limit = |at| {
            let shard = table.nth(at);
            let seats = shard.seats.values();
            seats.filter(|seat| seat.limit == limit).count() as u64
        };
        (0..super::SHARDS).map(of_limit).sum()
    }

    /// How these keys of limit number `limit` stand, for requests of such a cost, in their order: of this node's part where the
    /// limit is divided, in the store otherwise.
    pub(crate) async fn look(
        &self,
        limit: u16,
        keys: &[(u128, Standing)],
        cost: u64,
    ) -> Result<Vec<Stands>, StoreError> {
        let inner = &*self.inner;
        if inner.limit(limit).plan.mode == FleetMode::Divided {
            let now = inner.now();
            let parts = keys
                .iter()
                .map(|&(key, _)| inner.part(limit, key, cost, now));
            return Ok(parts.collect());
        }
        let mut stand = Vec::with_capacity(keys.len());
        for some in keys.chunks(LIMITS_MAX) {
            stand.extend(inner.in_store(limit, some, cost).await?);
        }
        Ok(stand)
    }

    /// Forgets what was used of a key of limit number `limit`: in the store, and at this node.
    pub(crate) async fn reset(&self, limit: u16, key: u128) -> Result<(), StoreError> {
        let inner = &*self.inner;
        if inner.limit(limit).plan.mode != FleetMode::Divided {
            inner.store.forget(tag_of(key), key, CALL).await?;
        }
        let now = inner.now();
        let mut shard = inner.table.shard(key);
        let Some(mut seat) = shard.seats.remove(&key) else {
            return Ok(());
        };
        seat.dismiss();
        // Tokens that came out of what is there now go back into it. A report is of what is forgotten.
        if seat.has_tokens_of_the_store() {
            inner.part_with(vec![(key, seat)], &mut shard.rng, now);
        }
        Ok(())
    }
}

impl Inner {
    async fn in_store(
        &self,
        limit: u16,
        keys: &[(u128, Standing)],
        cost: u64,
    ) -> Result<Vec<Stands>, StoreError> {
        let spec = &self.limit(limit).spec;
        let asked = keys.iter().map(|&(key, standing)| Asked {
            key,
            tag: tag_of(key),
            spec,
            cost,
            standing,
        });
        let asked: Vec<Asked<'_>> = asked.collect();
        let answer = self.store.ask(&asked, CALL).await?;
        let now = self.now();
        let stands = |(&(key, _), said): (&(u128, Standing), &Said)| {
            let (short, remaining) = match *said {
                Said::Passes { remaining, .. } => (None, remaining),
                Said::Short { short, remaining } => (Some(short), remaining),
                Said::Unasked => unreachable!("all of them were asked"),
            };
            let shard = self.table.shard(key);
            let seat = shard.seats.get(&key);
            Stands {
                most: spec.most(),
                remaining,
                short,
                ahead: seat.map_or(0, |seat| seat.ahead(now)),
                unreported: seat.map_or(0, super::seat::Seat::unreported),
            }
        };
        Ok(keys.iter().zip(&answer.said).map(stands).collect())
    }

    /// How this node's part of a key stands.
    fn part(&self, limit: u16, key: u128, cost: u64, now: Tick) -> Stands {
        let bucket = self.limit(limit).bucket.as_ref();
        let mut state = self
            .table
            .shard(key)
            .seats
            .get(&key)
            .and_then(super::seat::Seat::part);
        let following = self.parts.following();
        let mut stands = Stands {
            most: 0,
            remaining: 0,
            short: Some(Short::Never),
            ahead: 0,
            unreported: 0,
        };
        if let Some(divided) = bucket.and_then(|bucket| bucket.divided.as_ref()) {
            stands.most = divided.most(&following, now);
            stands.remaining = divided.remaining(state.as_ref(), &following, now);
            stands.short = match divided.take(&mut state, &following, now, cost) {
                Verdict::Passed => None,
                Verdict::Short { wait_us } => Some(Short::Wait { wait_us }),
                Verdict::Never | Verdict::Ask | Verdict::Lost => Some(Short::Never),
            };
        }
        stands
    }
}

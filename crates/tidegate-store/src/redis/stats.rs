//! How the servers of one use are, and what was counted about them.

use tidegate_core::breaker::{BreakerState, Trip};
use tidegate_core::time::Mono;

use super::failover::Recovery;
use super::line::Line;
use super::map::Map;
use super::plan::Address;
use super::redo::Ring;
use super::shard::Shard;

/// How the servers of one use are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// The shards; none while a Cluster is not known yet.
    pub shards: Vec<ShardStats>,
    /// The writes that are kept to be done again.
    pub redo: RedoStats,
}

/// What a shard's breaker lets through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passing {
    /// Every call.
    #[default]
    Calls,
    /// Nothing.
    Nothing,
    /// Probes.
    Probes,
}

/// How a shard is, and what was counted since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardStats {
    /// Its primary, as far as is known.
    pub primary: Option<Address>,
    /// What its breaker lets through.
    pub passing: Passing,
    /// Operations under way on the ordinary lanes, now.
    pub fast_in_flight: u32,
    /// Operations under way on the lane for large values and housekeeping, now.
    pub bulk_in_flight: u32,
    /// Connections for writes that wait for replicas, now.
    pub durable_connections: u32,
    /// Calls that were answered.
    pub answered: u64,
    /// Calls that had no answer in time.
    pub timeouts: u64,
    /// Calls whose connection broke.
    pub broken: u64,
    /// Calls that the server was not fit for: a replica, loading, without replicas.
    pub unfit: u64,
    /// Calls that the server refused while it was well.
    pub refused: u64,
    /// Calls that were not sent: the breaker did not let them pass.
    pub away: u64,
    /// Calls that were not sent: too many were under way.
    pub busy: u64,
    /// Calls that were not sent: there was no connection in time.
    pub unconnected: u64,
    /// Connections that were tried.
    pub dials: u64,
    /// Of those: in vain.
    pub dials_failed: u64,
    /// Connections that were given up because they did not answer.
    pub given_up: u64,
    /// How often the breaker tripped, by [`Trip::index`].
    pub trips: [u64; Trip::ALL.len()],
    /// How often it let calls pass again.
    pub passes: u64,
    /// Calls that were sent to another shard.
    pub moved: u64,
    /// Calls that were sent to another shard once, because their slot is moving.
    pub asked: u64,
    /// Calls that were made again because their slot is moving.
    pub tried_again: u64,
    /// Writes that fewer replicas had in time than wanted.
    pub short: u64,
    /// Writes that did not wait for replicas: every connection for that was in use.
    pub unwaited: u64,
    /// How often the primary was lost.
    pub losses: u64,
    /// How the last loss went.
    pub recovery: Option<Recovery>,
}

/// The writes that are kept to be done again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedoStats {
    /// Kept now.
    pub kept: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Dropped before their time because there was no room.
    pub crowded_out: u64,
    /// Done again: the store had lost them.
    pub repaired: u64,
    /// Found to be there.
    pub present: u64,
    /// Refused by the store.
    pub refused: u64,
}

impl StoreStats {
    pub(super) fn of(map: &Map, ring: &Ring, now: Mono) -> Self {
        let (kept, bytes) = ring.size(now);
        let counts = &ring.counts;
        Self {
            shards: map
                .shards()
                .iter()
                .map(|shard| shard_stats(shard))
                .collect(),
            redo: RedoStats {
                kept: kept as u64,
                bytes: bytes as u64,
                crowded_out: counts.crowded_out.read(),
                repaired: counts.repaired.read(),
                present: counts.present.read(),
                refused: counts.refused.read(),
            },
        }
    }
}

fn shard_stats(shard: &Shard) -> ShardStats {
    let counts = &shard.counts;
    let (state, losses, recovery) =
        shard.observe(|state, watch| (state, watch.losses(), watch.last()));
    ShardStats {
        primary: shard.target.borrow().clone(),
        passing: match state {
            BreakerState::Passing => Passing::Calls,
            BreakerState::Tripped { .. } => Passing::Nothing,
            BreakerState::Probing { .. } => Passing::Probes,
        },
        fast_in_flight: shard.fast.iter().map(Line::in_flight).sum(),
        bulk_in_flight: shard.bulk.in_flight(),
        durable_connections: shard.durable.open(),
        answered: counts.answered.read(),
        timeouts: counts.timeouts.read(),
        broken: counts.broken.read(),
        unfit: counts.unfit.read(),
        refused: counts.refused.read(),
        away: counts.away.read(),
        busy: counts.busy.read(),
        unconnected: counts.unconnected.read(),
        dials: counts.dials.read(),
        dials_failed: counts.dials_failed.read(),
        given_up: counts.given_up.read(),
        trips: Trip::ALL.map(|trip| counts.trips[trip.index()].read()),
        passes: counts.passes.read(),
        moved: counts.moved.read(),
        asked: counts.asked.read(),
        tried_again: counts.tried_again.read(),
        short: counts.short.read(),
        unwaited: counts.unwaited.read(),
        losses,
        recovery,
    }
}

//! Metrics of the store's servers: breakers, calls, connections, the last loss.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use tidegate_core::breaker::Trip;
use tidegate_store::redis::{Passing, Recovery, ShardStats, StoreStats};

use super::exposition::{Source, counter, gauge};

/// A label and the count of a shard that has it.
type Part<T> = (&'static str, fn(&ShardStats) -> T);

/// A label and the part of a loss that has it, in seconds.
type LossPart = (&'static str, fn(&Recovery) -> Option<f64>);

/// Calls, by what became of them.
const CALLS: [Part<u64>; 11] = [
    ("answered", |it| it.answered),
    ("timeout", |it| it.timeouts),
    ("broken", |it| it.broken),
    ("unfit", |it| it.unfit),
    ("refused", |it| it.refused),
    ("away", |it| it.away),
    ("busy", |it| it.busy),
    ("unconnected", |it| it.unconnected),
    ("moved", |it| it.moved),
    ("asked", |it| it.asked),
    ("tried_again", |it| it.tried_again),
];

/// Connections, by what became of them.
const CONNECTIONS: [Part<u64>; 3] = [
    ("dialled", |it| it.dials),
    ("failed", |it| it.dials_failed),
    ("given_up", |it| it.given_up),
];

/// Operations under way, by lane.
const IN_FLIGHT: [Part<u32>; 2] = [
    ("fast", |it| it.fast_in_flight),
    ("bulk", |it| it.bulk_in_flight),
];

/// Writes with fewer replicas than wanted: asked in vain, or not asked as every connection for that
/// was in use.
const SHORT: [Part<u64>; 2] = [("short", |it| it.short), ("unwaited", |it| it.unwaited)];

/// The parts of the last loss of a primary, in their order.
const RECOVERY: [LossPart; 4] = [
    ("detect", |it| Some(it.detect.as_secs_f64())),
    ("promote", |it| Some(it.promote.as_secs_f64())),
    ("reconnect", |it| Some(it.reconnect.as_secs_f64())),
    ("rewarm", |it| it.rewarm.map(|span| span.as_secs_f64())),
];

/// What a breaker may let through, with its label.
pub(crate) const PASSING: [(Passing, &str); 3] = [
    (Passing::Calls, "calls"),
    (Passing::Probes, "probes"),
    (Passing::Nothing, "nothing"),
];

impl Source {
    /// Every metric of the store's servers; none where it is in this process.
    pub(super) fn store(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(stats) = self.desk().map(|desk| desk.servers()) else {
            return Ok(());
        };
        if stats.shards.is_empty() {
            return Ok(());
        }
        breakers(&stats, encoder)?;
        calls(&stats, encoder)?;
        losses(&stats, encoder)?;
        redo(&stats, encoder)
    }
}

/// The shards with their labels. Their order is the store's, and their number bounded by it.
fn shards(stats: &StoreStats) -> impl Iterator<Item = (String, &ShardStats)> {
    let shards = stats.shards.iter().enumerate();
    shards.map(|(index, shard)| (index.to_string(), shard))
}

fn breakers(stats: &StoreStats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "1 at what the breaker of a shard lets through: calls, probes or nothing";
    let mut rows = gauge(encoder, "tidegate_store_passing", help)?;
    for (index, shard) in shards(stats) {
        for (passing, lets) in PASSING {
            let labels = [("use", "sessions"), ("shard", &index), ("lets", lets)];
            rows.gauge(&labels, u32::from(shard.passing == passing))?;
        }
    }
    let help = "Times that the breaker of a shard tripped, by reason";
    let mut rows = counter(encoder, "tidegate_store_trips", help)?;
    for (index, shard) in shards(stats) {
        for trip in Trip::ALL {
            let reason = ("reason", trip.name());
            let labels = [("use", "sessions"), ("shard", &index), reason];
            rows.count(&labels, shard.trips[trip.index()])?;
        }
    }
    let help = "Times that the breaker of a shard let calls pass again";
    let mut rows = counter(encoder, "tidegate_store_passes", help)?;
    for (index, shard) in shards(stats) {
        rows.count(&[("use", "sessions"), ("shard", &index)], shard.passes)?;
    }
    Ok(())
}

fn calls(stats: &StoreStats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let families = [
        (
            "tidegate_store_calls",
            "Calls of a shard, by what became of them",
            "outcome",
            &CALLS[..],
        ),
        (
            "tidegate_store_connections",
            "Connections to a shard, by what became of them",
            "outcome",
            &CONNECTIONS,
        ),
        (
            "tidegate_store_short_writes",
            "Writes that fewer replicas have than wanted",
            "why",
            &SHORT,
        ),
    ];
    for (name, help, label, parts) in families {
        let mut rows = counter(encoder, name, help)?;
        for (index, shard) in shards(stats) {
            for (value, of) in parts {
                let labels = [("use", "sessions"), ("shard", &index), (label, value)];
                rows.count(&labels, of(shard))?;
            }
        }
    }
    let help = "Operations under way at a shard, by lane";
    let mut rows = gauge(encoder, "tidegate_store_in_flight", help)?;
    for (index, shard) in shards(stats) {
        for (lane, of) in IN_FLIGHT {
            let labels = [("use", "sessions"), ("shard", &index), ("lane", lane)];
            rows.gauge(&labels, of(shard))?;
        }
    }
    let help = "Connections to a shard for writes that wait for replicas";
    let mut rows = gauge(encoder, "tidegate_store_durable_connections", help)?;
    for (index, shard) in shards(stats) {
        let labels = [("use", "sessions"), ("shard", &index)];
        rows.gauge(&labels, shard.durable_connections)?;
    }
    Ok(())
}

fn losses(stats: &StoreStats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Times that the primary of a shard was lost";
    let mut rows = counter(encoder, "tidegate_store_losses", help)?;
    for (index, shard) in shards(stats) {
        rows.count(&[("use", "sessions"), ("shard", &index)], shard.losses)?;
    }
    let help = "How long the parts of the last loss took; rewarm is absent until caches are warm";
    let mut rows = gauge(encoder, "tidegate_store_recovery_seconds", help)?;
    for (index, shard) in shards(stats) {
        for (part, of) in RECOVERY {
            let labels = [("use", "sessions"), ("shard", &index), ("part", part)];
            if let Some(seconds) = shard.recovery.as_ref().and_then(of) {
                rows.gauge(&labels, seconds)?;
            }
        }
    }
    Ok(())
}

fn redo(stats: &StoreStats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let redo = stats.redo;
    let help = "Writes that are kept to be done again should the store lose them";
    let mut rows = gauge(encoder, "tidegate_store_redo_kept", help)?;
    rows.gauge(&[("use", "sessions")], redo.kept)?;
    let help = "Bytes of those";
    let mut rows = gauge(encoder, "tidegate_store_redo_bytes", help)?;
    rows.gauge(&[("use", "sessions")], redo.bytes)?;
    let help = "What became of them: no room, done again, found to be there, refused";
    let mut rows = counter(encoder, "tidegate_store_redo", help)?;
    for (outcome, count) in [
        ("crowded_out", redo.crowded_out),
        ("repaired", redo.repaired),
        ("present", redo.present),
        ("refused", redo.refused),
    ] {
        rows.count(&[("use", "sessions"), ("outcome", outcome)], count)?;
    }
    Ok(())
}

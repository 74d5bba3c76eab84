//! What is counted about a shard.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::breaker::Trip;

/// Counters of one shard, or of the calls of one use.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) answered: Count,
    pub(super) timeouts: Count,
    pub(super) broken: Count,
    pub(super) unfit: Count,
    pub(super) refused: Count,
    pub(super) away: Count,
    pub(super) busy: Count,
    pub(super) unconnected: Count,
    pub(super) dials: Count,
    pub(super) dials_failed: Count,
    pub(super) given_up: Count,
    pub(super) trips: [Count; Trip::ALL.len()],
    pub(super) passes: Count,
    pub(super) moved: Count,
    pub(super) asked: Count,
    pub(super) tried_again: Count,
    pub(super) short: Count,
    pub(super) unwaited: Count,
}

/// One counter.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    /// Counts one.
    pub(super) fn one(&self) {
        self.add(1);
    }

    /// Counts `more`.
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// What was counted.
    pub(super) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

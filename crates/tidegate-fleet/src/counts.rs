//! What a sidecar counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a running sidecar.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: Count,
    pub(crate) refused: Count,
    pub(crate) busy: Count,
    pub(crate) late: Count,
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests.
    pub requests: u64,
    /// Of those: not read, because they broke a rule.
    pub refused: u64,
    /// Of those: refused because too many were under way.
    pub busy: u64,
    /// Of those: not answered in time.
    pub late: u64,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// One more.
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// So many more.
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many it has counted.
    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counts {
    /// All of them, as they are now.
    pub(crate) fn tally(&self) -> Tally {
        Tally {
            requests: self.requests.read(),
            refused: self.refused.read(),
            busy: self.busy.read(),
            late: self.late.read(),
        }
    }
}

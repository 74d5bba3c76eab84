//! Counters that many threads raise.

use std::sync::atomic::{AtomicU64, Ordering};

use super::stats::Stats;

/// What is counted; each is a field of [`Stats`], where it is explained.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Opened,
    OpenedUnchanged,
    OpenedJoined,
    OpenedTrusted,
    OpenedGone,
    OpenedUnknown,
    OpenedDegraded,
    OpenedAway,
    TimedOut,
    EpochRefused,
    Created,
    Patched,
    PatchRetried,
    PatchRepeated,
    PatchConflicts,
    PatchTooLarge,
    PatchRefused,
    PatchBusy,
    PatchDegraded,
    ShortReplication,
    BlobsWritten,
    BlobsRead,
    SignedIn,
    Resumed,
    Rotated,
    Destroyed,
    SignedOutEverywhere,
    CapsulesWritten,
    SideWritesFailed,
    LostWrites,
    LostWritesRepaired,
}

/// The counters of a desk.
#[derive(Debug)]
pub(crate) struct Counters([AtomicU64; Count::LostWritesRepaired as usize + 1]);

impl Counters {
    pub(super) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; _])
    }

    /// Counts one.
    pub(crate) fn add(&self, what: Count) {
        self.0[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts; how things stand is left at 0.
    pub(super) fn stats(&self) -> Stats {
        let of = |what: Count| self.0[what as usize].load(Ordering::Relaxed);
        Stats {
            opened: of(Count::Opened),
            opened_unchanged: of(Count::OpenedUnchanged),
            opened_joined: of(Count::OpenedJoined),
            opened_trusted: of(Count::OpenedTrusted),
            opened_gone: of(Count::OpenedGone),
            opened_unknown: of(Count::OpenedUnknown),
            opened_degraded: of(Count::OpenedDegraded),
            opened_away: of(Count::OpenedAway),
            timed_out: of(Count::TimedOut),
            epoch_refused: of(Count::EpochRefused),
            created: of(Count::Created),
            patched: of(Count::Patched),
            patch_retried: of(Count::PatchRetried),
            patch_repeated: of(Count::PatchRepeated),
            patch_conflicts: of(Count::PatchConflicts),
            patch_too_large: of(Count::PatchTooLarge),
            patch_refused: of(Count::PatchRefused),
            patch_busy: of(Count::PatchBusy),
            patch_degraded: of(Count::PatchDegraded),
            short_replication: of(Count::ShortReplication),
            blobs_written: of(Count::BlobsWritten),
            blobs_read: of(Count::BlobsRead),
            signed_in: of(Count::SignedIn),
            resumed: of(Count::Resumed),
            rotated: of(Count::Rotated),
            destroyed: of(Count::Destroyed),
            signed_out_everywhere: of(Count::SignedOutEverywhere),
            capsules_written: of(Count::CapsulesWritten),
            side_writes_failed: of(Count::SideWritesFailed),
            lost_writes: of(Count::LostWrites),
            lost_writes_repaired: of(Count::LostWritesRepaired),
            ..Stats::default()
        }
    }
}

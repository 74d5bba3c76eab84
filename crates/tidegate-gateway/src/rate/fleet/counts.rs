//! What is counted of limits over a fleet, beside what is counted of every limit.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the store is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called {
    Shared,
    Lease,
    Aggregate,
    Divided,
    GiveBack,
}

/// What is done without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Without {
    Passed,
    Refused,
    Closed,
}

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Counts {
    calls: [[AtomicU64; 2]; Called::ALL.len()],
    pub(super) evicted: AtomicU64,
    pub(super) give_backs_lost: AtomicU64,
    /// By limit.
    without: Vec<[AtomicU64; Without::ALL.len()]>,
}

impl Called {
    pub(super) const ALL: [Self; 5] = [
        Self::Shared,
        Self::Lease,
        Self::Aggregate,
        Self::Divided,
        Self::GiveBack,
    ];

    const fn label(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Lease => "lease",
            Self::Aggregate => "aggregate",
            Self::Divided => "divided",
            Self::GiveBack => "give_back",
        }
    }
}

impl Without {
    pub(super) const ALL: [Self; 3] = [Self::Passed, Self::Refused, Self::Closed];

    const fn label(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Refused => "refused",
            Self::Closed => "closed",
        }
    }
}

impl Counts {
    /// Of so many limits.
    pub(super) fn new(limits: usize) -> Self {
        Self {
            without: (0..limits).map(|_| Default::default()).collect(),
            ..Self::default()
        }
    }

    /// A call has come back.
    pub(super) fn called(&self, what: Called, answered: bool) {
        let counts = &self.calls[what as usize];
        counts[usize::from(!answered)].fetch_add(1, Ordering::Relaxed);
    }

    /// A request was decided on without the store.
    pub(super) fn without(&self, limit: u16, what: Without) {
        self.without[usize::from(limit)][what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Tokens of so many requests that were not used did not go back.
    pub(super) fn lost(&self, count: u64) {
        self.give_backs_lost.fetch_add(count, Ordering::Relaxed);
    }

    /// Calls by what for and by whether they were answered, with labels.
    pub(super) fn calls(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        Called::ALL.into_iter().flat_map(|what| {
            let counts = &self.calls[what as usize];
            let count = |at: usize| counts[at].load(Ordering::Relaxed);
            [
                (what.label(), "answered", count(0)),
                (what.label(), "failed", count(1)),
            ]
        })
    }

    /// Decisions on limit number `at` without the store, with labels.
    pub(super) fn decided_without(&self, at: usize) -> [(&'static str, u64); Without::ALL.len()] {
        Without::ALL.map(|what| {
            let count = self.without[at][what as usize].load(Ordering::Relaxed);
            (what.label(), count)
        })
    }
}

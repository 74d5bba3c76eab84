//! What is counted of a dependency of the fleet.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the store is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called {
    Acquire,
    Renew,
    Release,
}

/// What is decided without the store.
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
    without: [AtomicU64; Without::ALL.len()],
    pub(super) lost: AtomicU64,
    pub(super) unreturned: AtomicU64,
}

impl Called {
    const ALL: [Self; 3] = [Self::Acquire, Self::Renew, Self::Release];

    const fn label(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
        }
    }
}

impl Without {
    const ALL: [Self; 3] = [Self::Passed, Self::Refused, Self::Closed];

    const fn label(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Refused => "refused",
            Self::Closed => "closed",
        }
    }
}

impl Counts {
    /// A call to the store, which was answered or not.
    pub(super) fn called(&self, what: Called, answered: bool) {
        let outcome = usize::from(!answered);
        self.calls[what as usize][outcome].fetch_add(1, Ordering::Relaxed);
    }

    /// A call that was decided on without the store.
    pub(super) fn decided(&self, what: Without) {
        self.without[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        Called::ALL.into_iter().flat_map(move |what| {
            let outcomes = ["answered", "failed"].into_iter().enumerate();
            outcomes.map(move |(at, outcome)| {
                let count = self.calls[what as usize][at].load(Ordering::Relaxed);
                (what.label(), outcome, count)
            })
        })
    }

    pub(super) fn without(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Without::ALL.into_iter().map(move |what| {
            let count = self.without[what as usize].load(Ordering::Relaxed);
            (what.label(), count)
        })
    }
}

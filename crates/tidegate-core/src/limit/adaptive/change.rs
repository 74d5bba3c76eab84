//! The last changes of a limit and their reasons, for people.

use crate::time::Mono;

/// How many changes are kept.
pub const CHANGES_MAX: usize = 64;

/// Why a limit was changed, or left alone where a change was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Slow start: in use and no queue to be seen, so the limit is multiplied.
    Grown,
    /// In use and no queue to be seen.
    Raised,
    /// Latency says that there is a queue inside the application.
    Cut,
    /// The application said that there was too much work.
    Overloaded,
    /// Far more than anybody used for a minute.
    Unused,
    /// Not reached, but less than twice what was in flight.
    Room,
    /// A probe began.
    Probing,
    /// Probe: throughput follows the limit, so the limit was too low.
    BelowKnee,
    /// Probe: throughput follows the limit by half; the limit is right.
    AtKnee,
    /// Probe: throughput does not depend on the limit, so the limit was too high.
    AboveKnee,
    /// Probe: throughput falls as the limit rises.
    Falling,
    /// Probe: nothing can be said, since too few requests came or the application stood still.
    Inconclusive,
    /// The application stood still: the cohort says nothing about the limit.
    Stalled,
}

impl Verdict {
    /// The name used in status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grown => "grown",
            Self::Raised => "raised",
            Self::Cut => "cut",
            Self::Overloaded => "overloaded",
            Self::Unused => "unused",
            Self::Room => "room",
            Self::Probing => "probing",
            Self::BelowKnee => "below_knee",
            Self::AtKnee => "at_knee",
            Self::AboveKnee => "above_knee",
            Self::Falling => "falling",
            Self::Inconclusive => "inconclusive",
            Self::Stalled => "stalled",
        }
    }
}

/// One change of a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// When.
    pub at: Mono,
    /// The limit before.
    pub from: f64,
    /// The limit since.
    pub to: f64,
    /// Latency against the baseline.
    pub inflation: f64,
    /// The inflation from which on latency means a queue.
    pub threshold: f64,
    /// Relative change of throughput by relative change of the limit; `None` but after a probe.
    pub response: Option<f64>,
    /// Requests finished per second.
    pub throughput: f64,
    /// Why.
    pub verdict: Verdict,
}

/// The last [`CHANGES_MAX`] of them.
#[derive(Clone, Debug)]
pub(super) struct Changes {
    ring: Vec<Change>,
    /// Where the oldest is once the ring is full.
    oldest: usize,
}

impl Changes {
    pub(super) fn new() -> Self {
        Self {
            ring: Vec::with_capacity(CHANGES_MAX),
            oldest: 0,
        }
    }

    /// Keeps `change`, as one with the last where both are steps of the same slow change.
    pub(super) fn push(&mut self, change: Change) {
        let slow = matches!(
            change.verdict,
            Verdict::Unused | Verdict::Room | Verdict::Stalled
        );
        let len = self.ring.len();
        if slow && len > 0 {
            let last = &mut self.ring[(self.oldest + len - 1) % len];
            if last.verdict == change.verdict {
                *last = Change {
                    from: last.from,
                    ..change
                };
                return;
            }
        }
        if self.ring.len() < CHANGES_MAX {
            self.ring.push(change);
        } else {
            self.ring[self.oldest] = change;
            self.oldest = (self.oldest + 1) % CHANGES_MAX;
        }
    }

    /// The oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Change> {
        let (newer, older) = self.ring.split_at(self.oldest);
        older.iter().chain(newer)
    }
}

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
    /// The application says so at any limit: a cut has only cost good answers, and is taken back.
    Anyway,
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
            Self::Anyway => "anyway",
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

/// The last [`CHANGES_MAX`] of them: half for the small steps of every tenth of a second, half for
/// what is rarer and says more.
#[derive(Clone, Debug)]
pub(super) struct Changes {
    steps: Ring,
    turns: Ring,
}

#[derive(Clone, Debug)]
struct Ring {
    changes: Vec<Change>,
    /// Where the oldest is once it is full.
    oldest: usize,
}

impl Changes {
    pub(super) fn new() -> Self {
        Self {
            steps: Ring::new(),
            turns: Ring::new(),
        }
    }

    /// Keeps `change`, as one with the last where both are steps of the same slow change.
    pub(super) fn push(&mut self, change: Change) {
        match change.verdict {
            Verdict::Raised | Verdict::Cut => self.steps.push(change),
            Verdict::Unused | Verdict::Room | Verdict::Stalled => match self.turns.last_mut() {
                Some(last) if last.verdict == change.verdict => {
                    *last = Change {
                        from: last.from,
                        ..change
                    };
                }
                _ => self.turns.push(change),
            },
            _ => self.turns.push(change),
        }
    }

    /// The oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Change> {
        let (mut steps, mut turns) = (self.steps.iter().peekable(), self.turns.iter().peekable());
        std::iter::from_fn(move || match (steps.peek(), turns.peek()) {
            (Some(step), Some(turn)) if step.at < turn.at => steps.next(),
            (_, Some(_)) => turns.next(),
            (_, None) => steps.next(),
        })
    }
}

impl Ring {
    const MOST: usize = CHANGES_MAX / 2;

    fn new() -> Self {
        Self {
            changes: Vec::with_capacity(Self::MOST),
            oldest: 0,
        }
    }

    fn push(&mut self, change: Change) {
        if self.changes.len() < Self::MOST {
            self.changes.push(change);
        } else {
            self.changes[self.oldest] = change;
            self.oldest = (self.oldest + 1) % Self::MOST;
        }
    }

    fn last_mut(&mut self) -> Option<&mut Change> {
        let len = self.changes.len();
        let last = (self.oldest + len).checked_sub(1)?;
        self.changes.get_mut(last % len.max(1))
    }

    fn iter(&self) -> impl Iterator<Item = &Change> {
        let (newer, older) = self.changes.split_at(self.oldest);
        older.iter().chain(newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(millis: u64, verdict: Verdict) -> Change {
        Change {
            at: Mono::from_millis(millis),
            from: 10.0,
            to: 11.0,
            inflation: 1.0,
            threshold: 1.2,
            response: None,
            throughput: 100.0,
            verdict,
        }
    }

    #[test]
    fn small_steps_do_not_push_out_what_a_probe_found() {
        let mut changes = Changes::new();
        changes.push(change(0, Verdict::Probing));
        changes.push(change(1, Verdict::AtKnee));
        (2..200).for_each(|millis| changes.push(change(millis, Verdict::Raised)));

        let kept: Vec<Verdict> = changes.iter().map(|change| change.verdict).collect();

        assert_eq!(kept[..2], [Verdict::Probing, Verdict::AtKnee]);
        assert_eq!(kept.len(), 2 + CHANGES_MAX / 2);
        assert!(changes.iter().is_sorted_by_key(|change| change.at));
    }

    #[test]
    fn a_slow_change_is_one_entry() {
        let mut changes = Changes::new();
        (0..9).for_each(|millis| changes.push(change(millis, Verdict::Unused)));

        assert_eq!(changes.iter().count(), 1);
        assert_eq!(changes.iter().next().unwrap().at, Mono::from_millis(8));
    }
}

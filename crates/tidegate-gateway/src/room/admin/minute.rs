//! What became of requests during the last minute.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tidegate_core::time::Mono;

use crate::room::hall::{Outcome, RoomCounts};

/// How often is noted what was counted.
pub(super) const EVERY: Duration = Duration::from_secs(5);

/// What is meant by a minute.
const MINUTE: Duration = Duration::from_secs(60);

/// What was counted, by [`Outcome`].
pub(super) type Counted = [u64; Outcome::ALL.len()];

/// What was counted at some times of the last minute.
pub(super) struct Minute {
    /// The oldest first: one that is a minute old or older, and those after it.
    notes: VecDeque<(Mono, Counted)>,
}

/// What was counted by now.
pub(super) fn counted(counts: &RoomCounts) -> Counted {
    Outcome::ALL.map(|outcome| counts.outcomes[outcome as usize].value())
}

impl Minute {
    /// One that begins when nothing is counted yet.
    pub(super) fn new(now: Mono) -> Self {
        let nothing = [0; Outcome::ALL.len()];
        Self {
            notes: VecDeque::from([(now, nothing)]),
        }
    }

    /// So much is counted by now.
    pub(super) fn note(&mut self, now: Mono, counted: Counted) {
        self.notes.push_back((now, counted));
        // Of those that are a minute old the youngest is enough.
        while (self.notes.get(1)).is_some_and(|(at, _)| now.since(*at) >= MINUTE) {
            self.notes.pop_front();
        }
    }

    /// How much of what is counted by now was not a minute ago, or when there was nothing yet.
    pub(super) fn since(&self, now: Mono, counted: &Counted) -> BTreeMap<String, u64> {
        let mut notes = self.notes.iter().rev();
        let old = notes.find(|(at, _)| now.since(*at) >= MINUTE);
        let (_, before) = old
            .or_else(|| self.notes.front())
            .expect("there is a first note");
        let each = Outcome::ALL.iter().zip(counted.iter().zip(before));
        each.map(|(outcome, (now, before))| {
            (outcome.label().to_owned(), now.saturating_sub(*before))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_millis(seconds * 1_000)
    }

    fn waits(count: u64) -> Counted {
        let mut counted = [0; Outcome::ALL.len()];
        counted[Outcome::Waits as usize] = count;
        counted
    }

    #[test]
    fn a_minute_is_the_last_one_and_not_all_of_time() {
        let mut minute = Minute::new(at(0));
        // Two a second.
        for seconds in (5..=300).step_by(5) {
            minute.note(at(seconds), waits(2 * seconds));
        }

        let last = minute.since(at(302), &waits(604));

        // What was noted 62 seconds ago is the nearest to a minute.
        assert_eq!(last["waits"], 124);
        assert_eq!(last["passed"], 0);
        assert!(minute.notes.len() <= 14, "{}", minute.notes.len());
    }

    #[test]
    fn the_first_minute_is_what_there_was_of_it() {
        let mut minute = Minute::new(at(0));
        minute.note(at(5), waits(3));

        assert_eq!(minute.since(at(7), &waits(10))["waits"], 10);
    }
}

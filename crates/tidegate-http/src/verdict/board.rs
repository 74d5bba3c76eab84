//! Where the verdict about this node hangs: whoever decides writes it, whoever answers a balancer reads it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Verdict;

/// The verdict about this node, for as long as it holds. Silence means healthy: one that is over is [`Verdict::UNKNOWN`].
///
/// Only the monotonic clock counts, so that no change of the wall clock makes a verdict hold longer or shorter.
#[derive(Debug, Default)]
pub struct Board(Mutex<Option<Posted>>);

#[derive(Clone, Debug)]
struct Posted {
    verdict: Verdict,
    until: Instant,
}

impl Board {
    /// Puts up `verdict`, which holds for `lease` from now on. It replaces what was there.
    pub fn post(&self, verdict: Verdict, lease: Duration) {
        // What would hold longer than the clock goes holds for a day; it is renewed every second anyway.
        let now = Instant::now();
        let until = now.checked_add(lease);
        let until = until.unwrap_or(now + Duration::from_secs(86_400));
        *self.lock() = Some(Posted { verdict, until });
    }

    /// Takes down what is there.
    pub fn clear(&self) {
        *self.lock() = None;
    }

    /// What holds now.
    pub fn current(&self) -> Verdict {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> Verdict {
        let posted = self.lock();
        let holds = posted.as_ref().filter(|posted| now < posted.until);
        holds.map_or(Verdict::UNKNOWN, |posted| posted.verdict.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Posted>> {
        // A verdict is replaced as a whole: no panic can leave half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn saturated() -> Verdict {
        Verdict {
            state: State::Saturated,
            weight: 5,
            ..Verdict::UNKNOWN
        }
    }

    #[test]
    fn nothing_said_is_unknown() {
        assert_eq!(Board::default().current(), Verdict::UNKNOWN);
    }

    #[test]
    fn a_verdict_holds_for_its_lease_and_no_longer() {
        let board = Board::default();
        board.post(saturated(), Duration::from_secs(3));
        let posted = Instant::now();

        assert_eq!(board.at(posted + Duration::from_secs(2)), saturated());
        assert_eq!(board.at(posted + Duration::from_secs(4)), Verdict::UNKNOWN);
    }

    #[test]
    fn what_is_taken_down_is_unknown() {
        let board = Board::default();
        board.post(saturated(), Duration::MAX);
        assert_eq!(board.current(), saturated());

        board.clear();

        assert_eq!(board.current(), Verdict::UNKNOWN);
    }
}

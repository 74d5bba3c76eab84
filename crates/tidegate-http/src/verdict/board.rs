//! Where the verdict about this node hangs: whoever decides writes it, whoever answers a balancer reads it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;

use super::Verdict;

/// The verdict about this node, for as long as it holds. Silence means healthy: one that is over is [`Verdict::UNKNOWN`].
///
/// Only the monotonic clock counts, so that no change of the wall clock makes a verdict hold longer or shorter.
#[derive(Debug, Default)]
pub struct Board(Mutex<Option<Posted>>);

#[derive(Clone, Debug)]
struct Posted {
    verdict: Verdict,
    /// The verdict's own, which many answers carry.
    report: Option<HeaderValue>,
    until: Instant,
}

impl Board {
    /// Puts up `verdict`, which holds for `lease` from now on. It replaces what was there.
    pub fn post(&self, verdict: Verdict, lease: Duration) {
        // What would hold longer than the clock goes holds for a day; it is renewed every second anyway.
        let now = Instant::now();
        let until = now.checked_add(lease);
        let until = until.unwrap_or(now + Duration::from_secs(86_400));
        let report = verdict.report();
        *self.lock() = Some(Posted {
            verdict,
            report,
            until,
        });
    }

    /// Takes down what is there.
    pub fn clear(&self) {
        *self.lock() = None;
    }

    /// What holds now.
    pub fn current(&self) -> Verdict {
        self.at(Instant::now())
    }

    /// The load report of what holds now, as [`super::report_load`] takes it.
    pub fn report(&self) -> Option<HeaderValue> {
        self.report_at(Instant::now())
    }

    fn at(&self, now: Instant) -> Verdict {
        let posted = self.lock();
        let holds = posted.as_ref().filter(|posted| now < posted.until);
        holds.map_or(Verdict::UNKNOWN, |posted| posted.verdict.clone())
    }

    fn report_at(&self, now: Instant) -> Option<HeaderValue> {
        let posted = self.lock();
        let holds = posted.as_ref().filter(|posted| now < posted.until);
        holds.and_then(|posted| posted.report.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Posted>> {
        // A verdict is replaced as a whole: no panic can leave half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Load, State};
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
    fn a_report_is_that_of_the_verdict_and_over_with_it() {
        let board = Board::default();
        assert_eq!(board.report(), None);
        let verdict = Verdict {
            load: Some(Load {
                utilization: 0.5,
                error_ratio: 0.0,
                completed_per_s: 8.0,
            }),
            ..Verdict::UNKNOWN
        };

        board.post(verdict.clone(), Duration::from_secs(3));
        let posted = Instant::now();

        let report = board.report_at(posted + Duration::from_secs(2)).unwrap();
        assert_eq!(Some(&report), verdict.report().as_ref());
        assert_eq!(
            report,
            "TEXT application_utilization=0.500,rps_fractional=80.000"
        );
        assert_eq!(board.report_at(posted + Duration::from_secs(4)), None);
        board.post(saturated(), Duration::from_secs(3));
        assert_eq!(board.report(), None, "nobody has measured a load");
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

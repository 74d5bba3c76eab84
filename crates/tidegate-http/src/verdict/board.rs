//! Where the verdict about this node hangs: whoever decides writes it, whoever answers a balancer reads it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;

use super::Verdict;

/// The verdict about this node, for as long as it holds, and what holds after it. Silence means healthy: when both are over it is
/// [`Verdict::UNKNOWN`].
///
/// Only the monotonic clock counts, so that no change of the wall clock makes a verdict hold longer or shorter.
#[derive(Debug, Default)]
pub struct Board(Mutex<Hanging>);

#[derive(Debug, Default)]
struct Hanging {
    first: Option<Posted>,
    /// What holds when the first is over.
    then: Option<Posted>,
}

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
        let first = Posted::at(Instant::now(), verdict, lease);
        *self.lock() = Hanging {
            first: Some(first),
            then: None,
        };
    }

    /// Puts up `verdict`, which holds for `lease` from now on, and behind it what holds from the moment on when that is over:
    /// `then`, until its own lease is over, which begins now as well. They replace what was there.
    ///
    /// Whoever decides comes by once in a while, and balancers ask in between.
    pub fn post_with(
        &self,
        verdict: Verdict,
        lease: Duration,
        (then, then_lease): (Verdict, Duration),
    ) {
        let now = Instant::now();
        let (first, then) = (
            Posted::at(now, verdict, lease),
            Posted::at(now, then, then_lease),
        );
        *self.lock() = Hanging {
            first: Some(first),
            then: Some(then),
        };
    }

    /// Takes down what is there.
    pub fn clear(&self) {
        *self.lock() = Hanging::default();
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
        let hanging = self.lock();
        hanging
            .at(now)
            .map_or(Verdict::UNKNOWN, |posted| posted.verdict.clone())
    }

    fn report_at(&self, now: Instant) -> Option<HeaderValue> {
        let hanging = self.lock();
        hanging.at(now).and_then(|posted| posted.report.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Hanging> {
        // Both are replaced as a whole: no panic can leave half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hanging {
    fn at(&self, now: Instant) -> Option<&Posted> {
        let mut both = [&self.first, &self.then].into_iter().flatten();
        both.find(|posted| now < posted.until)
    }
}

impl Posted {
    fn at(now: Instant, verdict: Verdict, lease: Duration) -> Self {
        // What would hold longer than the clock goes holds for a day; it is renewed every second anyway.
        let until = now.checked_add(lease);
        Self {
            report: verdict.report(),
            verdict,
            until: until.unwrap_or(now + Duration::from_secs(86_400)),
        }
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
    fn what_is_behind_a_verdict_holds_from_the_moment_on_when_that_is_over() {
        let board = Board::default();
        let own = Verdict {
            state: State::Stressed,
            weight: 70,
            load: Some(Load {
                utilization: 0.5,
                error_ratio: 0.0,
                completed_per_s: 8.0,
            }),
            ..Verdict::UNKNOWN
        };
        let before = Instant::now();
        board.post_with(
            saturated(),
            Duration::from_secs(1),
            (own.clone(), Duration::from_secs(3)),
        );
        let after = Instant::now();
        let ms = Duration::from_millis;

        assert_eq!(board.at(before + ms(999)), saturated());
        assert_eq!(board.at(after + ms(1_000)), own);
        assert_eq!(board.at(before + ms(2_999)), own);
        assert_eq!(board.at(after + ms(3_000)), Verdict::UNKNOWN);
        assert_eq!(board.report_at(before + ms(999)), None);
        assert_eq!(board.report_at(after + ms(1_000)), own.report());
        board.post(saturated(), Duration::from_secs(1));
        let replaced = Instant::now();
        assert_eq!(board.at(replaced + ms(1_000)), Verdict::UNKNOWN);
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

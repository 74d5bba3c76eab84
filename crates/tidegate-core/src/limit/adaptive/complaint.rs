//! Whether cutting helps where the application itself says that there is too much work.
//!
//! Workers that are all taken refuse what comes on top; below their number nobody is refused any more.
//! A feature that is switched off, or a breaker that is open, refuses its part however few are let in.
//! The two are told apart at the floor, the limit that the good answers of the last seconds need: an
//! application that complains even there does so at any limit. Then the limit of before is restored,
//! and complaints are left alone for a while.

use std::time::Duration;

use crate::time::Mono;

/// Requests that ended with too much work, as a part of a cohort, from which on it is a complaint.
const COMPLAINT: f64 = 0.1;

/// Within this part above the floor a limit counts as being there.
const AT_FLOOR: f64 = 0.05;

/// After cuts in vain complaints are left alone for this long,
const QUIET_LEAST: Duration = Duration::from_secs(10);

/// ... twice as long after each further one, up to this.
const QUIET_MOST: Duration = Duration::from_secs(160);

/// What to do about a cohort's complaints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Heed {
    /// Nothing.
    Nothing,
    /// Cut the limit.
    Cut,
    /// Go back to this limit: there are complaints at any.
    Restore(f64),
}

/// The complaints so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Complaints {
    /// The limit at which they began.
    before: Option<f64>,
    quiet_until: Mono,
    quiet: Duration,
}

impl Complaints {
    /// Takes in which part of a cohort `complained` that was gathered under `limit`, where the good
    /// answers of late need `floor`.
    pub(super) fn heed(&mut self, now: Mono, complained: f64, limit: f64, floor: f64) -> Heed {
        if complained <= COMPLAINT {
            self.before = None;
            if now > self.quiet_until + self.quiet {
                self.quiet = Duration::ZERO;
            }
            return Heed::Nothing;
        }
        if now < self.quiet_until {
            return Heed::Nothing;
        }
        let before = *self.before.get_or_insert(limit);
        if limit > floor * (1.0 + AT_FLOOR) {
            return Heed::Cut;
        }
        self.before = None;
        self.quiet = (self.quiet * 2).clamp(QUIET_LEAST, QUIET_MOST);
        self.quiet_until = now + self.quiet;
        Heed::Restore(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_millis(seconds * 1000)
    }

    #[test]
    fn an_application_that_refuses_nobody_at_the_floor_stays_there() {
        let mut complaints = Complaints::default();

        for (second, limit) in [(1, 150.0), (2, 120.0), (3, 96.0)] {
            let heed = complaints.heed(at(second), 0.6, limit, 90.0);
            assert_eq!(heed, Heed::Cut);
        }
        assert_eq!(complaints.heed(at(4), 0.0, 90.0, 90.0), Heed::Nothing);
    }

    #[test]
    fn one_that_complains_at_the_floor_gets_its_limit_back_and_is_left_alone_ever_longer() {
        let mut complaints = Complaints::default();
        let mut heed = |second, limit| complaints.heed(at(second), 0.2, limit, 90.0);

        assert_eq!(heed(1, 110.0), Heed::Cut);
        assert_eq!(heed(2, 90.0), Heed::Restore(110.0));
        assert_eq!(heed(11, 110.0), Heed::Nothing);
        assert_eq!(heed(12, 110.0), Heed::Cut);
        assert_eq!(heed(13, 90.0), Heed::Restore(110.0));
        assert_eq!(heed(32, 110.0), Heed::Nothing);
        assert_eq!(heed(33, 110.0), Heed::Cut);
    }

    #[test]
    fn one_that_answers_nothing_is_cut_to_the_end() {
        let mut complaints = Complaints::default();

        for second in 1..20 {
            let heed = complaints.heed(at(second), 1.0, 100.0 / second as f64, 0.0);
            assert_eq!(heed, Heed::Cut);
        }
    }
}

//! Times in which the application finishes nothing at all: a collector's pause, an outage.

use std::time::Duration;

use super::cohort::Cohort;
use crate::time::{Mono, nanos};

/// A stretch without any ending is a standstill when it is longer than this many mean latencies,
const LATENCIES: f64 = 3.0;

/// ... than this many times the usual time from one ending to the next, which at random happens once
/// in e²⁰ times,
const INTERVALS: f64 = 20.0;

/// ... and than this many nanoseconds.
const LEAST_NS: f64 = 100e6;

/// So many cohorts in a row are passed over as long as they finish anything: an application that
/// always works in fits and starts must not escape the limit.
const IN_A_ROW: u32 = 5;

/// After a standstill latency may speak of a queue for this many times as long: it is what piled up,
const AFTERMATH: u32 = 2;

/// ... but for no longer than this.
const AFTERMATH_MOST: Duration = Duration::from_secs(5);

/// Standstills of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standstills {
    in_a_row: u32,
    /// Requests finished per second when it last finished any.
    usual: f64,
    /// Until then what piled up may have to be worked off.
    aftermath_until: Mono,
}

impl Standstills {
    /// Whether the application stood still within `cohort`, evaluated `now`, where requests usually
    /// take `latency_ns` and `per_second` of them were finished of late.
    pub(super) fn see(
        &mut self,
        now: Mono,
        cohort: &Cohort,
        latency_ns: f64,
        per_second: f64,
    ) -> bool {
        if per_second > 0.0 {
            self.usual = per_second;
        }
        let interval_ns = if self.usual > 0.0 {
            1e9 / self.usual
        } else {
            f64::INFINITY
        };
        let long_ns = (LATENCIES * latency_ns)
            .max(INTERVALS * interval_ns)
            .max(LEAST_NS);
        let stood_still = nanos(cohort.gap) as f64 > long_ns;
        if !stood_still || (cohort.worked > 0 && self.in_a_row >= IN_A_ROW) {
            self.in_a_row = 0;
            return false;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        let aftermath = cohort.gap.saturating_mul(AFTERMATH);
        self.aftermath_until = now + aftermath.min(AFTERMATH_MOST);
        true
    }

    /// Whether what piled up while the application stood still may have to be worked off.
    pub(super) fn is_aftermath(&self, now: Mono) -> bool {
        now < self.aftermath_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY_NS: f64 = 50e6;

    fn cohort(gap_ms: u64, worked: u32) -> Cohort {
        let plan =
            super::super::pace::Pace::UNKNOWN.plan(super::super::pace::Purpose::Latency, false);
        let mut cohort = Cohort::new(Mono::default(), &plan);
        cohort.gap = Duration::from_millis(gap_ms);
        cohort.worked = worked;
        cohort
    }

    fn see(standstills: &mut Standstills, cohort: &Cohort, per_second: f64) -> bool {
        standstills.see(Mono::from_millis(1000), cohort, LATENCY_NS, per_second)
    }

    #[test]
    fn a_pause_is_told_from_requests_that_are_slow_or_few() {
        let mut standstills = Standstills::default();

        assert!(!see(&mut standstills, &cohort(400, 100), 0.0), "unknown");
        assert!(see(&mut standstills, &cohort(400, 100), 1000.0));
        assert!(see(&mut standstills, &cohort(9000, 0), 0.0), "for long");
        assert!(!see(&mut standstills, &cohort(140, 100), 1000.0), "slow");
        assert!(!see(&mut standstills, &cohort(400, 100), 10.0), "few");
    }

    #[test]
    fn an_application_that_pauses_all_the_time_is_not_passed_over_for_ever() {
        let mut standstills = Standstills::default();
        let passed_over = (0..60)
            .filter(|_| see(&mut standstills, &cohort(400, 100), 1000.0))
            .count();

        assert_eq!(passed_over, 50);
        assert!((0..60).all(|_| see(&mut standstills, &cohort(400, 0), 1000.0)));
    }

    #[test]
    fn what_piled_up_is_forgiven_for_twice_as_long_and_five_seconds_at_most() {
        let at = Mono::from_millis;
        let mut standstills = Standstills::default();

        see(&mut standstills, &cohort(400, 100), 1000.0);
        assert!(standstills.is_aftermath(at(1799)));
        assert!(!standstills.is_aftermath(at(1800)));

        see(&mut standstills, &cohort(60_000, 0), 1000.0);
        assert!(standstills.is_aftermath(at(5999)));
        assert!(!standstills.is_aftermath(at(6000)));
    }
}

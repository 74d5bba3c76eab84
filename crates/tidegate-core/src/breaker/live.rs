//! A breaker before something that cannot be asked how it is, such as a dependency of the application: a few of the calls
//! themselves find out whether it answers again.

use std::time::Duration;

use super::{Breaker, BreakerPlan, BreakerState, Change};
use crate::rng::Rng;
use crate::time::Mono;

/// A breaker whose probes are calls.
#[derive(Clone, Debug)]
pub struct LiveBreaker {
    breaker: Breaker,
    /// Calls that probe at the same time at most.
    probes_max: u32,
    probing: u32,
    /// Counts the times that it began to probe: what a call of an earlier time says, probe or not, is of what was then.
    round: u64,
}

/// What a call was let through as. To be given back with its end, whatever that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// One of many.
    Call {
        /// After how many times of probing.
        round: u64,
    },
    /// One that finds out.
    Probe {
        /// In which time of probing.
        round: u64,
    },
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// It was answered, after so long.
    Answered(Duration),
    /// It had no answer, or one that says that nothing can be done.
    Failed,
    /// Nobody waited for it.
    Unknown,
}

impl LiveBreaker {
    /// A breaker that passes calls, and lets up to `probes_max` probe at the same time; 0 counts as 1.
    pub fn new(plan: BreakerPlan, probes_max: u32) -> Self {
        Self {
            breaker: Breaker::new(plan),
            probes_max: probes_max.max(1),
            probing: 0,
            round: 0,
        }
    }

    /// What it lets through.
    pub const fn state(&self) -> BreakerState {
        self.breaker.state()
    }

    /// Lets a call through, or says how long to wait; zero while others probe, which may end at any moment.
    pub fn admit(&mut self, now: Mono) -> (Result<Passage, Duration>, Option<Change>) {
        let change = self.breaker.probe(now);
        if change.is_some() {
            self.round += 1;
            self.probing = 0;
        }
        let passage = match self.breaker.state() {
            BreakerState::Passing => Ok(Passage::Call { round: self.round }),
            BreakerState::Tripped { until } => Err(until.since(now)),
            BreakerState::Probing { .. } if self.probing < self.probes_max => {
                self.probing += 1;
                Ok(Passage::Probe { round: self.round })
            }
            BreakerState::Probing { .. } => Err(Duration::ZERO),
        };
        (passage, change)
    }

    /// A call has ended.
    pub fn ended(
        &mut self,
        now: Mono,
        passage: Passage,
        end: CallEnd,
        rng: &mut Rng,
    ) -> Option<Change> {
        match passage {
            // It says how it was when it began: what is back is not to be tripped by those that waited for it.
            Passage::Call { round } | Passage::Probe { round } if round != self.round => None,
            Passage::Call { .. } => match end {
                CallEnd::Answered(_) => {
                    self.breaker.answered(now);
                    None
                }
                CallEnd::Failed => self.breaker.failed(now, rng),
                CallEnd::Unknown => None,
            },
            Passage::Probe { .. } => {
                self.probing = self.probing.saturating_sub(1);
                match end {
                    CallEnd::Answered(took) => self.breaker.probed(now, Some(took), rng),
                    CallEnd::Failed => self.breaker.probed(now, None, rng),
                    CallEnd::Unknown => None,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Trip;
    use super::*;

    const PLAN: BreakerPlan = BreakerPlan {
        jitter: 0.0,
        ..BreakerPlan::CALLS
    };
    const FIRST: Passage = Passage::Call { round: 0 };
    const QUICK: CallEnd = CallEnd::Answered(Duration::from_millis(5));

    fn at(ms: u64) -> Mono {
        Mono::from_millis(ms)
    }

    /// Tripped at 0 by calls that failed, and probed again from `until` on.
    fn tripped(rng: &mut Rng) -> (LiveBreaker, Mono) {
        let mut breaker = LiveBreaker::new(PLAN, 2);
        let mut change = None;
        for _ in 0..PLAN.failures {
            let (passage, _) = breaker.admit(at(0));
            assert_eq!(passage, Ok(FIRST));
            change = breaker.ended(at(0), FIRST, CallEnd::Failed, rng);
        }
        assert_eq!(change, Some(Change::Tripped(Trip::InARow)));
        (breaker, at(0) + PLAN.tripped_min)
    }

    #[test]
    fn tripped_it_lets_nothing_through_and_says_for_how_long() {
        let (mut breaker, until) = tripped(&mut Rng::new(1));

        assert_eq!(breaker.admit(at(100)), (Err(until.since(at(100))), None));
    }

    #[test]
    fn few_calls_at_a_time_find_out_and_the_others_are_refused() {
        let (mut breaker, until) = tripped(&mut Rng::new(1));

        let (first, change) = breaker.admit(until);
        assert_eq!(
            (first, change),
            (Ok(Passage::Probe { round: 1 }), Some(Change::Probing))
        );
        assert_eq!(breaker.admit(until).0, Ok(Passage::Probe { round: 1 }));
        assert_eq!(breaker.admit(until).0, Err(Duration::ZERO));

        breaker.ended(until, first.unwrap(), QUICK, &mut Rng::new(1));
        assert_eq!(breaker.admit(until).0, Ok(Passage::Probe { round: 1 }));
    }

    #[test]
    fn enough_good_probes_and_it_passes_calls_again() {
        let mut rng = Rng::new(1);
        let (mut breaker, until) = tripped(&mut rng);

        for probe in 1..=PLAN.probes {
            let passage = breaker.admit(until).0.unwrap();
            let change = breaker.ended(until, passage, QUICK, &mut rng);
            assert_eq!(change, (probe == PLAN.probes).then_some(Change::Passing));
        }

        assert_eq!(breaker.admit(until).0, Ok(Passage::Call { round: 1 }));
    }

    #[test]
    fn a_failed_or_slow_probe_trips_it_again() {
        for end in [CallEnd::Failed, CallEnd::Answered(PLAN.probe_within)] {
            let mut rng = Rng::new(1);
            let (mut breaker, until) = tripped(&mut rng);
            let passage = breaker.admit(until).0.unwrap();

            let change = breaker.ended(until, passage, end, &mut rng);

            assert_eq!(change, Some(Change::Tripped(Trip::Probe)));
            assert_eq!(breaker.admit(until).0, Err(PLAN.tripped_min * 2));
        }
    }

    #[test]
    fn a_probe_that_nobody_waited_for_makes_room_for_another() {
        let mut rng = Rng::new(1);
        let (mut breaker, until) = tripped(&mut rng);
        let both = [
            breaker.admit(until).0.unwrap(),
            breaker.admit(until).0.unwrap(),
        ];

        for passage in both {
            breaker.ended(until, passage, CallEnd::Unknown, &mut rng);
        }

        assert!(matches!(breaker.state(), BreakerState::Probing { good: 0 }));
        assert!(breaker.admit(until).0.is_ok());
    }

    #[test]
    fn what_an_earlier_probe_says_comes_too_late() {
        let mut rng = Rng::new(1);
        let (mut breaker, until) = tripped(&mut rng);
        let early = breaker.admit(until).0.unwrap();
        let failed = breaker.admit(until).0.unwrap();
        breaker.ended(until, failed, CallEnd::Failed, &mut rng);
        let again = until + PLAN.tripped_min * 2;
        breaker.admit(again).0.unwrap();

        assert_eq!(breaker.ended(again, early, CallEnd::Failed, &mut rng), None);
        assert_eq!(breaker.ended(again, early, QUICK, &mut rng), None);

        assert!(matches!(breaker.state(), BreakerState::Probing { good: 0 }));
        assert!(breaker.admit(again).0.is_ok());
        assert_eq!(breaker.admit(again).0, Err(Duration::ZERO));
    }

    #[test]
    fn a_late_end_of_a_call_says_nothing_new() {
        let mut rng = Rng::new(1);
        let (mut breaker, until) = tripped(&mut rng);

        assert_eq!(breaker.ended(at(1), FIRST, CallEnd::Failed, &mut rng), None);

        assert_eq!(breaker.admit(at(1)).0, Err(until.since(at(1))));
    }

    #[test]
    fn calls_that_waited_since_before_it_tripped_do_not_trip_it_when_it_is_back() {
        let mut rng = Rng::new(1);
        let (mut breaker, until) = tripped(&mut rng);
        for _ in 0..PLAN.probes {
            let passage = breaker.admit(until).0.unwrap();
            breaker.ended(until, passage, QUICK, &mut rng);
        }

        for _ in 0..100 {
            let change = breaker.ended(until, FIRST, CallEnd::Failed, &mut rng);
            assert_eq!(change, None);
        }

        let passage = breaker.admit(until).0.unwrap();
        assert_eq!(passage, Passage::Call { round: 1 });
        for failure in 1..=PLAN.failures {
            let change = breaker.ended(until, passage, CallEnd::Failed, &mut rng);
            assert_eq!(change.is_some(), failure == PLAN.failures);
        }
    }
}

//! A breaker before what is called: an application, or something that applications depend on.
//!
//! The state is the core's, behind a lock that is held for a moment. A call that was let through is a guard that says
//! how it ended, or, when it is dropped without a word, that nobody knows.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use tidegate_core::breaker::live::{CallEnd, LiveBreaker, Passage};
use tidegate_core::breaker::{BreakerPlan, BreakerState, Change, Trip};
use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;
use tracing::{info, warn};

use crate::context::Clock;
use crate::upstream::UpstreamFailure;

/// Calls that find out at the same time whether there are answers again.
const PROBES_AT_ONCE: u32 = 2;

/// What a breaker does, and by what it judges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallBreakerPlan {
    /// When it trips, and for how long.
    pub breaker: BreakerPlan,
    /// What counts as an answer.
    pub judges: Judges,
}

/// What counts as an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judges {
    /// Any: an application's own 503 is a matter of its limit.
    Answers,
    /// Any but 502, 503 and 504, by which the other side says that it can do nothing.
    Statuses,
}

/// The breaker before one thing that is called.
pub struct CallBreaker {
    /// Who is called.
    name: String,
    judges: Judges,
    /// An answer that has gone on for so long after its head is a stream.
    probe_within: Duration,
    clock: Clock,
    state: Mutex<State>,
    trips: [AtomicU64; Trip::ALL.len()],
}

struct State {
    breaker: LiveBreaker,
    rng: Rng,
}

/// A call that was let through.
pub(crate) struct Call {
    breaker: Arc<CallBreaker>,
    passage: Passage,
    begun: Mono,
    /// When the head of its answer came.
    head: Option<Mono>,
    over: bool,
}

impl CallBreaker {
    /// A breaker before `name` that lets everybody through.
    pub(crate) fn new(name: &str, plan: &CallBreakerPlan, clock: Clock, seed: u64) -> Self {
        Self {
            name: name.to_owned(),
            judges: plan.judges,
            probe_within: plan.breaker.probe_within,
            clock,
            state: Mutex::new(State {
                breaker: LiveBreaker::new(plan.breaker, PROBES_AT_ONCE),
                rng: Rng::new(seed),
            }),
            trips: [const { AtomicU64::new(0) }; Trip::ALL.len()],
        }
    }

    /// What it lets through.
    pub fn state(&self) -> BreakerState {
        self.lock().breaker.state()
    }

    /// What it lets through, in a word: `calls`, `probes` or `nothing`.
    pub fn lets(&self) -> &'static str {
        match self.state() {
            BreakerState::Passing => "calls",
            BreakerState::Probing { .. } => "probes",
            BreakerState::Tripped { .. } => "nothing",
        }
    }

    /// How often it tripped for this reason, since the start.
    pub fn trips(&self, by: Trip) -> u64 {
        self.trips[by.index()].load(Ordering::Relaxed)
    }

    /// How long nobody at all is let through, if so: a look, which takes no probe's place.
    pub(crate) fn refuses_for(&self, now: Mono) -> Option<Duration> {
        match self.state() {
            BreakerState::Tripped { until } => {
                Some(until.since(now)).filter(|wait| !wait.is_zero())
            }
            BreakerState::Passing | BreakerState::Probing { .. } => None,
        }
    }

    /// Lets a call through, or says how long to wait: zero while others find out.
    pub(crate) fn admit(self: &Arc<Self>, now: Mono) -> Result<Call, Duration> {
        let (passage, change) = self.lock().breaker.admit(now);
        self.note(change);
        Ok(Call {
            breaker: Arc::clone(self),
            passage: passage?,
            begun: now,
            head: None,
            over: false,
        })
    }

    fn ended(&self, passage: Passage, end: CallEnd) {
        let now = self.clock.now();
        let change = {
            let State { breaker, rng } = &mut *self.lock();
            breaker.ended(now, passage, end, rng)
        };
        self.note(change);
    }

    fn note(&self, change: Option<Change>) {
        let name = self.name.as_str();
        match change {
            None | Some(Change::Probing) => {}
            Some(Change::Passing) => info!(name, "it answers again: calls pass"),
            Some(Change::Tripped(by)) => {
                self.trips[by.index()].fetch_add(1, Ordering::Relaxed);
                // Each failed probe says the same again.
                if by != Trip::Probe {
                    warn!(
                        name,
                        by = by.name(),
                        "it does not answer: no calls for a while"
                    );
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CallBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallBreaker({} lets {})", self.name, self.lets())
    }
}

impl Call {
    /// The head of its answer is here. The call goes on with the body, unless the head says all: then there is none
    /// left.
    pub(crate) fn began(mut self, now: Mono, status: StatusCode) -> Option<Self> {
        let unable = [
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ];
        if self.breaker.judges == Judges::Statuses && unable.contains(&status) {
            self.failed();
            return None;
        }
        self.head = Some(now);
        Some(self)
    }

    /// More of its answer has come, at `now`, or as much as its client takes for the time being, at whatever time.
    ///
    /// A stream has no end to wait for. A probe that goes on in this way has found out what it was to find out, and
    /// makes room for the next; should its answer break later, that counts as the failure of a call.
    pub(crate) fn goes_on(&mut self, now: Option<Mono>) {
        let Some(head) = self.head else { return };
        let lasts = now.is_none_or(|now| now.since(head) >= self.breaker.probe_within);
        if lasts && let Passage::Probe { round } = self.passage {
            self.breaker
                .ended(self.passage, CallEnd::Answered(head.since(self.begun)));
            self.passage = Passage::Call { round };
        }
    }

    /// The last byte of its answer is here, at `now`.
    pub(crate) fn answered(self, now: Mono) {
        // How long a body takes says how long it is.
        let took = self.head.unwrap_or(now).since(self.begun);
        self.end(CallEnd::Answered(took));
    }

    /// It had no answer, or a part of one.
    pub(crate) fn failed(self) {
        self.end(CallEnd::Failed);
    }

    /// The way to an answer failed.
    pub(crate) fn failed_by(self, failure: UpstreamFailure) {
        match failure {
            // Our own cap: nobody was asked.
            UpstreamFailure::Connections => {}
            _ => self.failed(),
        }
    }

    fn end(mut self, end: CallEnd) {
        self.over = true;
        self.breaker.ended(self.passage, end);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.over {
            self.breaker.ended(self.passage, CallEnd::Unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker(judges: Judges) -> Arc<CallBreaker> {
        let plan = CallBreakerPlan {
            breaker: BreakerPlan {
                failures: 2,
                jitter: 0.0,
                ..BreakerPlan::CALLS
            },
            judges,
        };
        Arc::new(CallBreaker::new("it", &plan, Clock::start(), 1))
    }

    #[test]
    fn calls_that_fail_in_a_row_trip_it_and_those_nobody_knows_of_do_not() {
        let breaker = breaker(Judges::Statuses);
        let now = breaker.clock.now();

        for _ in 0..5 {
            drop(breaker.admit(now));
        }
        assert_eq!(breaker.lets(), "calls");
        for _ in 0..2 {
            let call = breaker.admit(now).ok().unwrap();
            call.failed_by(UpstreamFailure::Connections);
        }
        assert_eq!(breaker.lets(), "calls");

        breaker.admit(now).ok().unwrap().failed();
        let call = breaker.admit(now).ok().unwrap();
        assert!(call.began(now, StatusCode::SERVICE_UNAVAILABLE).is_none());

        assert_eq!(breaker.lets(), "nothing");
        assert_eq!(breaker.trips(Trip::InARow), 1);
        assert!(breaker.refuses_for(now).is_some());
        assert!(breaker.admit(now).is_err());
    }

    #[test]
    fn an_applications_503_is_an_answer() {
        let breaker = breaker(Judges::Answers);
        let now = breaker.clock.now();

        for _ in 0..5 {
            let call = breaker.admit(now).ok().unwrap();
            let call = call.began(now, StatusCode::SERVICE_UNAVAILABLE).unwrap();
            call.answered(now);
        }

        assert_eq!(breaker.lets(), "calls");
    }
    #[test]
    fn an_answer_that_breaks_after_its_head_is_a_failure_and_one_that_is_left_is_nothing() {
        let breaker = breaker(Judges::Statuses);
        let now = breaker.clock.now();
        let begun = || {
            let call = breaker.admit(now).ok().unwrap();
            call.began(now, StatusCode::OK).unwrap()
        };

        for _ in 0..5 {
            drop(begun());
        }
        begun().failed_by(UpstreamFailure::Silent);
        begun().answered(now);
        begun().failed_by(UpstreamFailure::Broken);
        assert_eq!(breaker.lets(), "calls");
        begun().failed_by(UpstreamFailure::Silent);

        assert_eq!(breaker.lets(), "nothing");
    }

    #[test]
    fn a_probe_that_is_a_stream_makes_room_once_it_has_gone_on_for_a_while() {
        let breaker = breaker(Judges::Answers);
        let now = breaker.clock.now();
        for _ in 0..2 {
            breaker.admit(now).ok().unwrap().failed();
        }
        let BreakerState::Tripped { until } = breaker.state() else {
            panic!("it has tripped");
        };
        let stream = || {
            let call = breaker.admit(until).ok().unwrap();
            call.began(until, StatusCode::OK).unwrap()
        };
        let (mut first, mut second) = (stream(), stream());
        let later = until + BreakerPlan::CALLS.probe_within;

        first.goes_on(Some(until));
        assert!(breaker.admit(until).is_err(), "it has only begun");
        first.goes_on(Some(later));
        first.goes_on(Some(later));
        second.goes_on(None);
        assert_eq!(breaker.state(), BreakerState::Probing { good: 2 });
        stream().answered(until);

        assert_eq!(breaker.lets(), "calls");
        first.failed();
        second.failed();
        assert_eq!(breaker.lets(), "nothing", "both broke in the end");
    }
}

//! The adaptive limit.

mod baseline;
mod change;
mod cohort;
mod complaint;
mod control;
mod cuts;
mod guard;
mod learnt;
mod pace;
mod probe;
mod reading;
mod standstill;
mod throughput;
mod timetable;

use std::time::Duration;

use super::{Bounds, Ending, Insight, Limit, Sample};
use crate::facts::RouteId;
use crate::time::Mono;

pub use change::{CHANGES_MAX, Change, Verdict};
pub use cohort::{Cohort, Plan, ROUTES_MAX, RouteTotals};
pub use control::Controller;
pub use learnt::Learnt;

/// What an operator may say about an adaptive limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the limit starts and how far it may go.
    pub bounds: Bounds,
    /// The greatest mean latency, over the mix of routes, that counts as healthy: above it the
    /// limit does not rise, whatever throughput says. None by default.
    pub latency_healthy_max: Option<Duration>,
}

impl Default for Settings {
    /// From 20, at least 4, no healthy latency stated and as good as no hard maximum.
    fn default() -> Self {
        Self {
            bounds: Bounds {
                initial: 20,
                min: 4,
                max: 100_000,
            },
            latency_healthy_max: None,
        }
    }
}

/// How much of the work of an application a limit sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// At least nine tenths of what is in flight.
    Whole,
    /// Less: others send work that it does not see.
    Part,
}

/// The adaptive limit in front of one application, as one gateway runs it.
#[derive(Clone, Debug)]
pub struct Adaptive {
    controller: Controller,
    cohort: Cohort,
    plan: Plan,
    latest: Mono,
    /// The last ending, or when the application began to have something to do.
    progress: Mono,
}

impl Adaptive {
    /// Starts from the initial limit; `seed` feeds the jitter of its probes.
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self::under(Controller::new(settings, seed))
    }

    /// Starts from what an earlier one had learnt.
    pub fn resume(settings: Settings, seed: u64, learnt: &Learnt) -> Self {
        Self::under(Controller::resume(settings, seed, learnt))
    }

    /// Starts from what was learnt, if anything, beside others that send work to the same
    /// application and of which it knows nothing.
    pub fn alone(settings: Settings, seed: u64, learnt: Option<&Learnt>) -> Self {
        let mut controller = match learnt {
            Some(learnt) => Controller::resume(settings, seed, learnt),
            None => Controller::new(settings, seed),
        };
        controller.see(Sight::Part);
        Self::under(controller)
    }

    fn under(controller: Controller) -> Self {
        let plan = controller.plan();
        Self {
            cohort: Cohort::new(Mono::default(), &plan),
            plan,
            controller,
            latest: Mono::default(),
            progress: Mono::default(),
        }
    }

    /// Says whether the machine under the application is at its end: the limit then does not rise.
    pub const fn press(&mut self, pressed: bool) {
        self.controller.press(pressed);
    }

    /// What decides.
    pub const fn controller(&self) -> &Controller {
        &self.controller
    }

    fn advance(&mut self, now: Mono) -> Mono {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Closes the cohort, or evaluates it and opens the next one, if it is time.
    fn step(&mut self, now: Mono) {
        if self.cohort.closed.is_none() {
            if self.cohort.may_close(now, &self.plan) {
                self.cohort.closed = Some(now);
            }
        } else if self.cohort.may_evaluate(now, &self.plan) {
            if self.cohort.finished < self.cohort.admitted {
                self.cohort.gap = self.cohort.gap.max(now.since(self.progress));
            }
            self.controller.evaluate(now, &self.cohort);
            self.plan = self.controller.plan();
            self.cohort.reopen(now, &self.plan);
        }
    }
}

impl Limit for Adaptive {
    fn admitted(&mut self, now: Mono, route: RouteId, in_flight: u32) -> u32 {
        let now = self.advance(now);
        if in_flight <= 1 {
            self.progress = now;
        }
        self.cohort.in_flight_most = self.cohort.in_flight_most.max(in_flight);
        let tag = if self.cohort.closed.is_none() {
            let limit = self.controller.limit();
            self.cohort.admit(now, route, in_flight, limit)
        } else {
            0
        };
        self.step(now);
        tag
    }

    fn finished(&mut self, now: Mono, sample: &Sample) {
        let now = self.advance(now);
        if sample.ending != Ending::Ignored {
            self.cohort.gap = self.cohort.gap.max(now.since(self.progress));
            self.progress = now;
        }
        if sample.ending == Ending::Worked && now >= self.cohort.counted_from {
            self.cohort.worked = self.cohort.worked.saturating_add(1);
        }
        self.cohort.finish(sample);
        self.step(now);
    }

    fn refused(&mut self, now: Mono) {
        let now = self.advance(now);
        if self.cohort.closed.is_none() {
            self.cohort.refused = self.cohort.refused.saturating_add(1);
        }
        self.step(now);
    }

    fn limit(&self) -> u32 {
        self.controller.limit()
    }

    fn insight(&self) -> Insight {
        self.controller.insight()
    }

    fn changes(&self) -> Vec<Change> {
        self.controller.changes().copied().collect()
    }

    fn learnt(&self) -> Option<Learnt> {
        Some(self.controller.learnt())
    }
}

#[cfg(test)]
mod tests;

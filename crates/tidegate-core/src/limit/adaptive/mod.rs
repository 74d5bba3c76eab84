//! The adaptive limit: it watches what latency does, and asks throughput what that means.
//!
//! An application with K workers that take S each does L / S requests per second with L inside as
//! long as L ≤ K, and K / S with any more: the rest waits in a queue that the gateway does not see.
//! The limit wanted is the knee, L = K, and a little above it, so that no worker waits for its next
//! request. Neither K nor S is known, and both change.
//!
//! What others go by is latency alone (TCP Vegas; Netflix's Vegas and Gradient; Envoy): as far as
//! it is above a baseline there is a queue. That fails where latencies differ by nature, where the
//! mix of requests changes, where the service becomes slower for good, and where the baseline was
//! learnt from an application that already had a queue. In here latency only suggests, and makes
//! small moves; throughput decides.
//!
//! # Cohorts
//!
//! Requests are told apart by when they were *admitted*. Those that finish early in any window are
//! the short ones: a route of 200 ms looks like one of 60 ms at first. So a [`Cohort`] takes in
//! everything that is admitted for a while, at least half a mean latency and n requests, and is
//! read when 97 % of it have ended or after ten mean latencies. What has not ended counts at its
//! age (its tag says when it was admitted), plus what is usually still to come: for requests that
//! are met under way that is E\[X²\] / 2E\[X\] (the inspection paradox of renewal theory). Without
//! that, every cohort of a service with a long tail would look shorter than it is, the more so the
//! longer the cohort.
//!
//! n = (2c / 0.2)², where c is the coefficient of variation of single latencies: the mean of n has
//! a standard error of c / √n, so it is known to within 20 % at two of them.
//!
//! # Inflation
//!
//! φ = Σ latency ÷ Σ baseline of each request's route. A shift towards slow routes raises both sums
//! alike, so it is no inflation. Above the knee Little's law gives φ = L / K.
//!
//! φ is tolerated up to 1 + 0.1 + 1/√K + 2c/√n:
//!
//! * 1/√K is the square-root rule of staffing: with K workers the number of requests that wants in
//!   goes up and down by about √K, and an application of 5 workers needs a reserve of two requests
//!   for what one of 100 does with ten. With 100 workers it comes to 1.2, the usual tolerance.
//! * 2c/√n is two standard errors of φ itself, at most 0.6.
//!
//! In use and not inflated: L rises by √L / 2 per cohort, less when φ is within 0.1 of what is
//! tolerated. Inflated: L is multiplied by (1 + half the tolerance) / φ, at least 0.7, and never
//! goes below μS, the limit that the best throughput of the last five seconds needs at the
//! baseline: the lower limit that a cut leads to must not be the reason for the next one.
//!
//! # Slow start
//!
//! At first L doubles per cohort, and quadruples while more than half of the requests are refused,
//! until φ is more than 0.3 above what is tolerated; the cut that ends it may go down to 0.4 L. The
//! same begins again after eight full steps in a row, after an unused limit has come down, and up
//! to 0.7 of the former limit after complaints of the application have ended.
//!
//! # Probes
//!
//! While the limit is in the way, L is now and then multiplied by 0.7 for three mean latencies or
//! more, and throughput is compared: k = (1 − μ₁/μ₀) / (1 − L₁/L₀).
//!
//! * L₀ ≤ K: throughput falls in proportion, k = 1.
//! * L₀ = aK with 1 < a < 1/0.7: μ₁/μ₀ = 0.7a, so k = (1 − 0.7a) / 0.3: 0.6 at a = 1.17 and 0.4 at
//!   a = 1.26.
//! * L₀ > K / 0.7: nothing changes, k = 0. Where throughput *falls* with what is inside (lock
//!   convoys, thrashing), k < 0.
//!
//! So k > 0.6 says that the limit is at the knee or below: it is raised, and if latency was
//! inflated before, that was not a queue but is how long things take: it becomes the baseline (and
//! slow start begins, as nobody knows how much longer the limit has to be). k < 0.4 says that L >
//! 1.26 K: the limit comes down to 1.1 times the knee L₁μ₀/μ₁, and the baseline to the latency of
//! the probe. If nothing at all was lost the knee may lie lower still; then the next probe starts
//! from there at once, which costs nothing as long as it is true. k < −0.2 keeps the lower limit.
//! Between: the limit is right.
//!
//! Below the knee nothing queues, so the latency of a probe that lost something *is* the baseline,
//! whatever was believed before. That is the only place where baselines are learnt under load, and
//! why they do not drift: not up, as an average of all latencies does, and not down, as a minimum
//! does. A search that goes on downwards is needed only until a baseline has been found that way;
//! it is trusted for two minutes.
//!
//! *Noise.* m requests that follow one another in busy workers vary by c√m, so μ₁/μ₀ is off by
//! c√(1/m₀ + 1/m₁) and k by 3.3 times that. A probe has at least 150 requests and (2c / 0.1)² where
//! they differ much; a change counts at two standard errors. c is taken for at least 0.5, as a
//! queue evens out the latencies behind it.
//!
//! *Cost.* A probe below the knee loses 30 % while it lasts. It comes after 10 s, and after 20 and
//! 40 where the last one found nothing wrong; after 2, 4, 8 where it did; and it takes at most a
//! sixteenth of the time. In the simulator's S1 that is 0.7 % of the time and 0.2 % of the work. It
//! says nothing, and is repeated, unless three in five requests find at most a few slots free.
//! Above 5 s mean latency there are none: they would last for minutes.
//!
//! *Cuts are probes too.* A cut of a quarter that costs as much throughput and changes nothing
//! about latency has answered already (k > 0.6): the baseline rises at once. A service that becomes
//! twice as slow costs half a second of throughput that way.
//!
//! # Without saturation
//!
//! What latency is then is how long things take: baselines follow it within about 8 s, both ways.
//! The limit drifts to twice the most in flight of the last minute, up within 10 s and down within
//! 60, but never below its start: room for a burst, for a pause of the application, and for chance
//! (a limit at the knee refuses 2.7 % at 90 % load if there is no queue before it: Erlang's loss
//! formula).
//!
//! # Standstills
//!
//! A stretch with no ending at all, of at least three mean latencies and twenty usual intervals (at
//! random that happens once in e²⁰ times), is a collector's pause or an outage and says nothing
//! about how many may be inside. Its cohort is passed over and the limit of before stands; so does
//! it for twice as long again, while what piled up is worked off, but not against more than five
//! cohorts in a row.
//!
//! # Guards
//!
//! The operator may state a greatest healthy latency and a hard maximum; [`Adaptive::press`]
//! forbids rises while the machine is at its end; fast failures are neither latency nor throughput;
//! the application's own complaints cut the limit as long as that helps.
//!
//! # One state per application
//!
//! Everything above holds for a limit that sees all of the work ([`Sight::Whole`]). One of N equal
//! gateways that probes alone gives up its share to the others: k = (1 − 0.7 / (1 − 0.3/N)) / 0.3
//! well above the knee, which is 0.81 at N = 4, and lies. So several gateways merge their parts of
//! each cohort for one [`Controller`] (see [`pooled`](super::pooled)), and a limit that is left
//! alone beside others ([`Sight::Part`]) does not probe.
//!
//! There is no tick: everything happens inside the calls about requests, in the order of a clock
//! that may repeat itself or jump. The constants were set with the simulator's suite `limiter`, all
//! rows of which hold for seeds 1 to 10. Of twelve moved by about a third, one at a time, six left
//! every row as it was and six missed one row each.

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

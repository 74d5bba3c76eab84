//! Requests admitted in one stretch of time, and what came of them.
//!
//! Who belongs to a cohort is decided when a request is admitted, not when it finishes. Among the
//! requests that finish in some window the short ones are over-represented, the more so the longer
//! the service times differ; among those admitted in a window nobody is.
//!
//! A cohort is a plain summary. Several gateways in front of one application each gather their part
//! of it, and [`Cohort::merge`] makes one of them.

use std::time::Duration;

use crate::facts::RouteId;
use crate::time::{Mono, nanos};

/// Routes with figures of their own; all others share one more.
pub const ROUTES_MAX: usize = 256;

/// A cohort that has been open for this long closes even if it is small.
const SPAN_LONG: Duration = Duration::from_secs(1);

/// ... but never with fewer requests than this.
const FEW: u32 = 8;

/// The part of a cohort, in per cent, that has to be finished before it is evaluated. Waiting for
/// the last ones would make every decision as slow as the slowest request; they enter at their age.
const FINISHED_PERCENT: u64 = 97;

/// How the next cohort is to be gathered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Throughput is counted only from here on, since before that it is the former limit's.
    pub settle: Duration,
    /// The cohort is open for at least this long.
    pub span_least: Duration,
    /// It takes in at least this many requests, or stays open for a second.
    pub admissions_least: u32,
    /// Once closed, it is evaluated after this time whatever is unfinished.
    pub drain_most: Duration,
}

/// What one route contributed to a cohort.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RouteTotals {
    /// Requests admitted.
    pub admitted: u32,
    /// How many of them have ended.
    pub finished: u32,
    /// Their latencies added up, in nanoseconds.
    pub latency_ns: f64,
    /// The squares of their latencies added up, in square nanoseconds.
    pub latency_ns_squared: f64,
}

impl RouteTotals {
    /// Requests that have not ended.
    pub const fn unfinished(&self) -> u32 {
        self.admitted.saturating_sub(self.finished)
    }

    /// Requests that count, ended or not.
    pub const fn requests(&self) -> u32 {
        self.finished.saturating_add(self.unfinished())
    }

    /// Latencies of all requests in nanoseconds, where the unfinished have taken `age_ns` so far.
    pub fn latency_ns_at(&self, age_ns: f64) -> f64 {
        self.latency_ns + f64::from(self.unfinished()) * age_ns
    }

    /// The mean of that; `None` without requests.
    pub fn mean_ns_at(&self, age_ns: f64) -> Option<f64> {
        let requests = self.requests();
        (requests > 0).then(|| self.latency_ns_at(age_ns) / f64::from(requests))
    }

    fn merge(&mut self, other: &Self) {
        self.admitted = self.admitted.saturating_add(other.admitted);
        self.finished = self.finished.saturating_add(other.finished);
        self.latency_ns += other.latency_ns;
        self.latency_ns_squared += other.latency_ns_squared;
    }
}

/// A cohort, or the part of one that a gateway saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Cohort {
    /// When it was opened.
    pub opened: Mono,
    /// When it took in the last request; `None` while it is open.
    pub closed: Option<Mono>,
    /// Requests admitted, over all routes.
    pub admitted: u32,
    /// How many of them have ended.
    pub finished: u32,
    /// How many of them ended because there was too much work.
    pub overloaded: u32,
    /// Requests refused, or made to wait, while it was open.
    pub refused: u32,
    /// Most requests in the application at once, of this cohort or not.
    pub in_flight_most: u32,
    /// Requests that worked since [`Cohort::counted_from`], of this cohort or not: throughput.
    pub worked: u32,
    /// When counting them began.
    pub counted_from: Mono,
    /// The longest stretch without any ending while something was in the application.
    pub gap: Duration,
    routes: Box<[RouteTotals]>,
    /// Routes from here on have seen nothing.
    routes_used: usize,
}

impl Cohort {
    /// An empty cohort, open from `now` on.
    pub fn new(now: Mono, plan: &Plan) -> Self {
        Self {
            opened: now,
            closed: None,
            admitted: 0,
            finished: 0,
            overloaded: 0,
            refused: 0,
            in_flight_most: 0,
            worked: 0,
            counted_from: now + plan.settle,
            gap: Duration::ZERO,
            routes: vec![RouteTotals::default(); ROUTES_MAX + 1].into(),
            routes_used: 0,
        }
    }

    /// Empties it and opens it anew, without allocating.
    pub fn reopen(&mut self, now: Mono, plan: &Plan) {
        self.routes[..self.routes_used].fill(RouteTotals::default());
        let routes = std::mem::take(&mut self.routes);
        *self = Self {
            opened: now,
            closed: None,
            admitted: 0,
            finished: 0,
            overloaded: 0,
            refused: 0,
            in_flight_most: 0,
            worked: 0,
            counted_from: now + plan.settle,
            gap: Duration::ZERO,
            routes,
            routes_used: 0,
        };
    }

    /// Takes in one admitted request of `route`.
    pub fn admit(&mut self, route: RouteId) {
        self.admitted = self.admitted.saturating_add(1);
        let totals = self.route_mut(route);
        totals.admitted = totals.admitted.saturating_add(1);
    }

    /// One of its requests has ended after `latency`.
    pub fn finish(&mut self, route: RouteId, latency: Duration) {
        self.finished = self.finished.saturating_add(1);
        let latency_ns = nanos(latency) as f64;
        let totals = self.route_mut(route);
        totals.finished = totals.finished.saturating_add(1);
        totals.latency_ns += latency_ns;
        totals.latency_ns_squared += latency_ns * latency_ns;
    }

    /// One of its requests has taught nothing: as if it had never been admitted.
    pub fn forget(&mut self, route: RouteId) {
        self.admitted = self.admitted.saturating_sub(1);
        let totals = self.route_mut(route);
        totals.admitted = totals.admitted.saturating_sub(1);
    }

    /// Whether an open cohort has enough to be closed.
    pub fn may_close(&self, now: Mono, plan: &Plan) -> bool {
        let open = now.since(self.opened);
        (self.admitted >= plan.admissions_least && open >= plan.span_least)
            || (self.admitted >= FEW && open >= SPAN_LONG.max(plan.span_least))
    }

    /// Whether a closed cohort has ended far enough to be evaluated.
    pub fn may_evaluate(&self, now: Mono, plan: &Plan) -> bool {
        let Some(closed) = self.closed else {
            return false;
        };
        u64::from(self.finished) * 100 >= u64::from(self.admitted) * FINISHED_PERCENT
            || now.since(closed) >= plan.drain_most
    }

    /// Adds what another gateway gathered for the same cohort.
    ///
    /// The most in flight adds up, as gateways are busy at the same time; an application that
    /// stands still shows the same gap to everybody, so the shortest one counts.
    pub fn merge(&mut self, other: &Self) {
        self.opened = self.opened.min(other.opened);
        self.closed = self.closed.max(other.closed);
        self.admitted = self.admitted.saturating_add(other.admitted);
        self.finished = self.finished.saturating_add(other.finished);
        self.overloaded = self.overloaded.saturating_add(other.overloaded);
        self.refused = self.refused.saturating_add(other.refused);
        self.in_flight_most = self.in_flight_most.saturating_add(other.in_flight_most);
        self.worked = self.worked.saturating_add(other.worked);
        self.counted_from = self.counted_from.min(other.counted_from);
        self.gap = self.gap.min(other.gap);
        self.routes_used = self.routes_used.max(other.routes_used);
        for (mine, theirs) in self.routes.iter_mut().zip(other.routes()) {
            mine.merge(theirs);
        }
    }

    /// What each route contributed, by index; routes that are missing at the end saw nothing.
    pub fn routes(&self) -> &[RouteTotals] {
        &self.routes[..self.routes_used]
    }

    /// How long its unfinished requests have taken by `now`, on average, in nanoseconds.
    pub fn age_ns(&self, now: Mono) -> f64 {
        let closed = self.closed.unwrap_or(now);
        let until_closed = nanos(closed.since(self.opened)) as f64;
        nanos(now.since(closed)) as f64 + until_closed / 2.0
    }

    fn route_mut(&mut self, route: RouteId) -> &mut RouteTotals {
        let index = usize::from(route.0).min(ROUTES_MAX);
        self.routes_used = self.routes_used.max(index + 1);
        &mut self.routes[index]
    }
}

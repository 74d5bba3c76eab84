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
use crate::limit::{Ending, Sample};
use crate::time::{Mono, nanos};

/// Routes with figures of their own; all others share one more.
pub const ROUTES_MAX: usize = 256;

/// Cohorts have at least so many requests, however long that takes.
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
    /// It takes in at least this many requests ...
    pub admissions_least: u32,
    /// ... unless it has been open for this long.
    pub span_long: Duration,
    /// Once closed, it is evaluated after this time whatever is unfinished.
    pub drain_most: Duration,
}

/// A tag holds when in its cohort a request was admitted, in so many nanoseconds (32.8 µs) ...
const TICK_BITS: u32 = 15;

/// ... in so many bits, that is up to 4.3 s; what is admitted later counts as admitted then.
const OFFSET_BITS: u32 = 17;

/// The bits above say which cohort: a request that outlives 16,383 further ones, that is a quarter
/// of an hour at least, may be taken for one of the present cohort.
const NUMBER_MAX: u32 = (1 << (31 - OFFSET_BITS)) - 1;

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
    /// When those that have not ended were admitted, as ticks since the cohort was opened, added up.
    offsets: u64,
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

    /// Latencies of all requests in nanoseconds, the unfinished at their age when the cohort was
    /// opened `since_opened` ago.
    pub fn latency_ns_at(&self, since_opened: Duration) -> f64 {
        let unfinished = f64::from(self.unfinished());
        let offsets_ns = self.offsets as f64 * f64::from(1 << TICK_BITS);
        let ages_ns = unfinished * nanos(since_opened) as f64 - offsets_ns;
        let rest_ns = if self.latency_ns > 0.0 {
            self.latency_ns_squared / (2.0 * self.latency_ns)
        } else {
            0.0
        };
        self.latency_ns + ages_ns.max(0.0) + unfinished * rest_ns
    }

    /// The mean of that; `None` without requests.
    pub fn mean_ns_at(&self, since_opened: Duration) -> Option<f64> {
        let requests = self.requests();
        (requests > 0).then(|| self.latency_ns_at(since_opened) / f64::from(requests))
    }

    /// Adds what is known of a cohort that was opened `later`.
    fn merge(&mut self, other: &Self, later: Duration) {
        self.admitted = self.admitted.saturating_add(other.admitted);
        self.finished = self.finished.saturating_add(other.finished);
        self.latency_ns += other.latency_ns;
        self.latency_ns_squared += other.latency_ns_squared;
        let moved = ticks(later).saturating_mul(u64::from(other.unfinished()));
        self.offsets = self
            .offsets
            .saturating_add(other.offsets)
            .saturating_add(moved);
    }

    /// As if the cohort had been opened `earlier`.
    fn open_earlier(&mut self, earlier: Duration) {
        let moved = ticks(earlier).saturating_mul(u64::from(self.unfinished()));
        self.offsets = self.offsets.saturating_add(moved);
    }
}

/// A cohort, or the part of one that a gateway saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Cohort {
    /// Which one it is, from 1 on, in the tags of its requests.
    number: u32,
    /// When it was opened.
    pub opened: Mono,
    /// When it took in the last request; `None` while it is open.
    pub closed: Option<Mono>,
    /// Requests admitted, over all routes.
    pub admitted: u32,
    /// How many of them took one of the last slots under the limit; see [`Cohort::admit`].
    pub full: u32,
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
            number: 1,
            opened: now,
            closed: None,
            admitted: 0,
            full: 0,
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
            number: self.number % NUMBER_MAX + 1,
            opened: now,
            closed: None,
            admitted: 0,
            full: 0,
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

    /// Takes in one request of `route` that is admitted `now`, with which `in_flight` of `limit` are
    /// inside. Returns the tag by which it is known again: never 0, and below 2³¹.
    pub fn admit(&mut self, now: Mono, route: RouteId, in_flight: u32, limit: u32) -> u32 {
        if self.admitted == 0 {
            self.opened = now;
        }
        self.admitted = self.admitted.saturating_add(1);
        // The last twentieth of the slots: without a queue, a few are free for a moment even when
        // far more requests come than go.
        if u64::from(in_flight) * 20 >= u64::from(limit) * 19 {
            self.full = self.full.saturating_add(1);
        }
        let offset = ticks(now.since(self.opened)).min((1 << OFFSET_BITS) - 1);
        let totals = self.route_mut(route);
        totals.admitted = totals.admitted.saturating_add(1);
        totals.offsets = totals.offsets.saturating_add(offset);
        (self.number << OFFSET_BITS) | offset as u32
    }

    /// A request has ended. If it is one of this cohort's, it counts here; if nothing can be learnt
    /// from it, it is as if it had never been admitted. What ended because there was too much work
    /// is counted, but its latency is that of a refusal or of a timeout, and none of the work's.
    pub fn finish(&mut self, sample: &Sample) {
        if sample.tag >> OFFSET_BITS != self.number {
            return;
        }
        let offset = u64::from(sample.tag & ((1 << OFFSET_BITS) - 1));
        let latency_ns = nanos(sample.latency) as f64;
        let totals = self.route_mut(sample.route);
        totals.offsets = totals.offsets.saturating_sub(offset);
        match sample.ending {
            Ending::Worked => {
                totals.finished = totals.finished.saturating_add(1);
                totals.latency_ns += latency_ns;
                totals.latency_ns_squared += latency_ns * latency_ns;
                self.finished = self.finished.saturating_add(1);
            }
            Ending::Ignored => {
                totals.admitted = totals.admitted.saturating_sub(1);
                self.admitted = self.admitted.saturating_sub(1);
            }
            Ending::Overloaded => {
                totals.admitted = totals.admitted.saturating_sub(1);
                self.finished = self.finished.saturating_add(1);
                self.overloaded = self.overloaded.saturating_add(1);
            }
        }
    }

    /// Whether an open cohort has enough to be closed.
    pub fn may_close(&self, now: Mono, plan: &Plan) -> bool {
        let open = now.since(self.opened);
        (self.admitted >= plan.admissions_least && open >= plan.span_least)
            || (self.admitted >= FEW && open >= plan.span_least.max(plan.span_long))
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
        let opened = self.opened.min(other.opened);
        let (earlier, later) = (self.opened.since(opened), other.opened.since(opened));
        self.opened = opened;
        self.closed = self.closed.max(other.closed);
        self.admitted = self.admitted.saturating_add(other.admitted);
        self.full = self.full.saturating_add(other.full);
        self.finished = self.finished.saturating_add(other.finished);
        self.overloaded = self.overloaded.saturating_add(other.overloaded);
        self.refused = self.refused.saturating_add(other.refused);
        self.in_flight_most = self.in_flight_most.saturating_add(other.in_flight_most);
        self.worked = self.worked.saturating_add(other.worked);
        self.counted_from = self.counted_from.min(other.counted_from);
        self.gap = self.gap.min(other.gap);
        for mine in &mut self.routes[..self.routes_used] {
            mine.open_earlier(earlier);
        }
        self.routes_used = self.routes_used.max(other.routes_used);
        for (mine, theirs) in self.routes.iter_mut().zip(other.routes()) {
            mine.merge(theirs, later);
        }
    }

    /// What each route contributed, by index; routes that are missing at the end saw nothing.
    pub fn routes(&self) -> &[RouteTotals] {
        &self.routes[..self.routes_used]
    }

    fn route_mut(&mut self, route: RouteId) -> &mut RouteTotals {
        let index = usize::from(route.0).min(ROUTES_MAX);
        self.routes_used = self.routes_used.max(index + 1);
        &mut self.routes[index]
    }
}

fn ticks(span: Duration) -> u64 {
    nanos(span) >> TICK_BITS
}

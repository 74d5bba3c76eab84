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
    /// How many of them left at most one slot free, or a twentieth of all.
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
        // Without a queue a few slots are free for a moment even when far more requests come than go.
        if in_flight.saturating_add((limit / 20).max(1)) >= limit {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAN: Plan = Plan {
        settle: Duration::ZERO,
        span_least: Duration::from_millis(50),
        admissions_least: 40,
        span_long: Duration::from_secs(1),
        drain_most: Duration::from_millis(500),
    };

    const fn at(millis: u64) -> Mono {
        Mono::from_millis(millis)
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn end(cohort: &mut Cohort, tag: u32, latency_ms: u64, ending: Ending) {
        cohort.finish(&Sample {
            tag,
            route: RouteId(0),
            latency: ms(latency_ms),
            in_flight: 1,
            ending,
        });
    }

    fn mean_ms(cohort: &Cohort, now: Mono) -> Option<f64> {
        let mean_ns = cohort.routes()[0].mean_ns_at(now.since(cohort.opened));
        mean_ns.map(|mean_ns| mean_ns / 1e6)
    }

    #[test]
    fn unfinished_requests_count_at_their_age_and_what_is_usually_still_to_come() {
        let mut cohort = Cohort::new(at(0), &PLAN);
        let early = cohort.admit(at(100), RouteId(0), 1, 9);
        cohort.admit(at(190), RouteId(0), 2, 9);
        end(&mut cohort, early, 40, Ending::Worked);

        // Where everything takes 40 ms, something that is under way takes 20 more on average.
        let mean = mean_ms(&cohort, at(200)).unwrap();
        assert!((mean - (40.0 + 10.0 + 20.0) / 2.0).abs() < 0.1, "{mean}");
    }

    #[test]
    fn what_teaches_nothing_leaves_no_trace_and_too_much_work_leaves_no_latency() {
        let mut cohort = Cohort::new(at(0), &PLAN);
        let tags: Vec<u32> = (0..3)
            .map(|n| cohort.admit(at(10 * n), RouteId(0), 1, 9))
            .collect();

        end(&mut cohort, tags[0], 1, Ending::Ignored);
        end(&mut cohort, tags[1], 1, Ending::Overloaded);
        end(&mut cohort, tags[2], 30, Ending::Worked);

        assert_eq!(
            (cohort.admitted, cohort.finished, cohort.overloaded),
            (2, 2, 1)
        );
        assert_eq!(mean_ms(&cohort, at(900)), Some(30.0));
    }

    #[test]
    fn a_request_of_an_earlier_cohort_is_none_of_this_one() {
        let mut cohort = Cohort::new(at(0), &PLAN);
        let earlier = cohort.admit(at(0), RouteId(0), 1, 9);
        cohort.reopen(at(50), &PLAN);
        let mine = cohort.admit(at(60), RouteId(0), 1, 9);

        end(&mut cohort, earlier, 90, Ending::Worked);
        end(&mut cohort, 0, 90, Ending::Worked);
        assert_eq!(cohort.finished, 0);

        end(&mut cohort, mine, 20, Ending::Worked);
        assert_eq!(mean_ms(&cohort, at(100)), Some(20.0));
    }

    #[test]
    fn a_cohort_closes_by_number_or_after_a_while_and_is_read_when_all_but_few_have_ended() {
        let mut cohort = Cohort::new(at(0), &PLAN);
        let mut tags = Vec::new();
        for n in 0..40 {
            assert!(!cohort.may_close(at(n), &PLAN));
            tags.push(cohort.admit(at(n), RouteId(0), 1, 9));
        }
        assert!(!cohort.may_close(at(49), &PLAN));
        assert!(cohort.may_close(at(50), &PLAN));
        cohort.closed = Some(at(50));

        for tag in &tags[..38] {
            end(&mut cohort, *tag, 20, Ending::Worked);
        }
        assert!(!cohort.may_evaluate(at(60), &PLAN), "38 of 40 are 95 %");
        end(&mut cohort, tags[38], 20, Ending::Worked);
        assert!(cohort.may_evaluate(at(60), &PLAN));

        let mut small = Cohort::new(at(0), &PLAN);
        for n in 0..8 {
            assert!(!small.may_close(at(5000), &PLAN), "never with less than 8");
            small.admit(at(n), RouteId(0), 1, 9);
        }
        assert!(!small.may_close(at(999), &PLAN));
        assert!(small.may_close(at(1000), &PLAN));
    }

    #[test]
    fn routes_beyond_the_last_share_one() {
        let mut cohort = Cohort::new(at(0), &PLAN);
        for route in [255, 256, 300, u16::MAX] {
            cohort.admit(at(0), RouteId(route), 1, 9);
        }

        let admitted = |index: usize| cohort.routes()[index].admitted;
        assert_eq!((admitted(255), admitted(ROUTES_MAX)), (1, 3));
    }

    proptest! {
        #[test]
        fn parts_of_several_gateways_make_the_cohort_that_one_would_have_seen(
            requests in prop::collection::vec((0usize..3, 0u64..60, 0u16..4, 1u64..80), 1..200),
        ) {
            let mut requests = requests;
            requests.sort_by_key(|&(_, admitted, ..)| admitted);
            let mut whole = Cohort::new(at(0), &PLAN);
            let mut parts: Vec<Cohort> = (0..3).map(|_| Cohort::new(at(0), &PLAN)).collect();
            for &(gateway, admitted, route, latency) in &requests {
                for cohort in [&mut whole, &mut parts[gateway]] {
                    let tag = cohort.admit(at(admitted), RouteId(route), 1, 9);
                    if admitted + latency < 100 {
                        let latency = ms(latency);
                        let ending = Ending::Worked;
                        cohort.finish(&Sample { tag, route: RouteId(route), latency, in_flight: 1, ending });
                    }
                }
            }
            let merged = parts
                .into_iter()
                .filter(|part| part.admitted > 0)
                .reduce(|mut merged, part| {
                    merged.merge(&part);
                    merged
                })
                .unwrap();

            prop_assert_eq!((merged.admitted, merged.finished), (whole.admitted, whole.finished));
            prop_assert_eq!(merged.opened, whole.opened);
            for (mine, theirs) in merged.routes().iter().zip(whole.routes()) {
                let age = at(100).since(whole.opened);
                let (mine, theirs) = (mine.mean_ns_at(age), theirs.mean_ns_at(age));
                let off = mine.unwrap_or(0.0) - theirs.unwrap_or(0.0);
                prop_assert!(off.abs() < 0.2e6, "{mine:?} {theirs:?}");
            }
        }
    }
}

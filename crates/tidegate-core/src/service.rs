//! How long the application takes, learnt from what it finished: the mean over everything, and a
//! 95th percentile per route for the margin that a deadline needs.

use std::time::Duration;

use crate::facts::RouteId;
use crate::time::{Mono, nanos};

/// Samples after which the mean forgets: it is an average of about this many.
const MEAN_SPAN: u32 = 256;

/// Samples of a route before its percentile is believed.
const TRUSTED_AFTER: u32 = 8;

/// At this many samples a route's histogram is halved, so that old ones fade.
const HALVED_AT: u32 = 1024;

/// A percentile is worked out anew after this many further samples.
const REFRESHED_EVERY: u32 = 16;

/// An application that finishes nothing for this many mean times stands still, ...
const STANDSTILL_MEANS: u32 = 3;

/// ... if it has at least so many requests to finish: one alone may just take long. At random,
/// four would all take this long once in 160,000 times.
const STANDSTILL_REQUESTS: u32 = 4;

/// Steps per doubling of the time: a percentile is at most 1/8 too high.
const STEPS_BITS: u32 = 3;

/// Doublings covered, from 1 µs: the last bucket holds everything over two minutes.
const DOUBLINGS: usize = 27;

const BUCKETS: usize = DOUBLINGS << STEPS_BITS;

/// Learnt service times of one application.
#[derive(Debug)]
pub(crate) struct ServiceTimes {
    mean_ns: f64,
    samples: u32,
    routes: Vec<RouteTimes>,
    last_end: Mono,
    /// When the application last stood still, from and to.
    standstill: (Mono, Mono),
}

#[derive(Clone, Debug)]
struct RouteTimes {
    /// Allocated at the first sample: most configured routes of a large file see none.
    counts: Vec<u16>,
    mean_ns: f64,
    total: u32,
    until_refresh: u32,
    p95: Option<Duration>,
}

impl ServiceTimes {
    /// Nothing learnt yet, for route ids below `routes`; others share the last one.
    pub(crate) fn new(routes: u16) -> Self {
        let route = RouteTimes {
            counts: Vec::new(),
            mean_ns: 0.0,
            total: 0,
            until_refresh: 0,
            p95: None,
        };
        Self {
            mean_ns: 0.0,
            samples: 0,
            routes: vec![route; usize::from(routes.max(1))],
            last_end: Mono::default(),
            standstill: (Mono::default(), Mono::default()),
        }
    }

    fn learn(&mut self, route: RouteId, took: Duration) {
        self.samples = (self.samples + 1).min(MEAN_SPAN);
        self.mean_ns += (nanos(took) as f64 - self.mean_ns) / f64::from(self.samples);
        let index = self.index(route);
        self.routes[index].learn(took);
    }

    /// Learns from a request that was in a slot from `started` to `now`, where `in_flight` were,
    /// itself included. A time in which the application stood still is no service time: it says
    /// nothing about how many can be worked off once it goes on.
    pub(crate) fn finished(&mut self, now: Mono, started: Mono, in_flight: u32, route: RouteId) {
        let from = started.max(self.last_end);
        self.last_end = now;
        let stood_still = self
            .mean()
            .is_some_and(|mean| now.since(from) > mean * STANDSTILL_MEANS);
        if stood_still && in_flight >= STANDSTILL_REQUESTS {
            self.standstill = (from, now);
        }
        let (from, to) = self.standstill;
        let still = to.since(from.max(started));
        self.learn(route, now.since(started).saturating_sub(still));
    }

    /// The mean time in a slot of the requests of `route`, or over all routes while none of its own
    /// is known; zero before the first sample.
    pub(crate) fn mean_of(&self, route: RouteId) -> Duration {
        let route = &self.routes[self.index(route)];
        let mean_ns = if route.total > 0 {
            route.mean_ns
        } else {
            self.mean_ns
        };
        Duration::from_nanos(mean_ns as u64)
    }

    /// The mean time in a slot; `None` before the first sample.
    pub(crate) fn mean(&self) -> Option<Duration> {
        (self.samples > 0).then(|| Duration::from_nanos(self.mean_ns as u64))
    }

    /// The time within which 95 % of the requests of `route` are done, or the mean over all routes
    /// while too few are known; zero before the first sample.
    pub(crate) fn margin(&self, route: RouteId) -> Duration {
        let p95 = self.routes[self.index(route)].p95;
        p95.or_else(|| self.mean()).unwrap_or_default()
    }

    fn index(&self, route: RouteId) -> usize {
        usize::from(route.0).min(self.routes.len() - 1)
    }
}

impl RouteTimes {
    fn learn(&mut self, took: Duration) {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        self.counts[bucket(took)] += 1;
        self.total += 1;
        let samples = self.total.min(MEAN_SPAN);
        self.mean_ns += (nanos(took) as f64 - self.mean_ns) / f64::from(samples);
        if self.total >= HALVED_AT {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().map(|&count| u32::from(count)).sum();
        }
        if self.until_refresh > 0 {
            self.until_refresh -= 1;
        } else if self.total >= TRUSTED_AFTER {
            self.until_refresh = REFRESHED_EVERY.min(self.total / 4);
            self.p95 = Some(self.percentile_95());
        }
    }

    fn percentile_95(&self) -> Duration {
        // From the top, since only a twentieth lies above.
        let mut above = self.total / 20;
        for (index, &count) in self.counts.iter().enumerate().rev() {
            if u32::from(count) > above {
                return upper_edge(index);
            }
            above -= u32::from(count);
        }
        Duration::ZERO
    }
}

/// Log-linear buckets as in HdrHistogram: the position of the highest bit, then the next three.
fn bucket(took: Duration) -> usize {
    let micros = took.as_micros().clamp(1, 1 << (DOUBLINGS - 1)) as u64;
    let doubling = micros.ilog2();
    let steps = if doubling >= STEPS_BITS {
        (micros >> (doubling - STEPS_BITS)) & ((1 << STEPS_BITS) - 1)
    } else {
        (micros << (STEPS_BITS - doubling)) & ((1 << STEPS_BITS) - 1)
    };
    ((doubling as usize) << STEPS_BITS) + steps as usize
}

fn upper_edge(bucket: usize) -> Duration {
    let doubling = (bucket >> STEPS_BITS) as u32;
    let steps = (bucket & ((1 << STEPS_BITS) - 1)) as u64;
    Duration::from_nanos(((((1 << STEPS_BITS) + steps + 1) * 1000) << doubling) >> STEPS_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_margin_is_the_routes_own_95th_percentile() {
        let mut times = ServiceTimes::new(2);
        for n in 0..1000 {
            times.learn(RouteId(0), if n % 10 == 0 { ms(400) } else { ms(10) });
            times.learn(RouteId(1), ms(20));
        }

        let slow = times.margin(RouteId(0));
        let steady = times.margin(RouteId(1));

        assert!((ms(400)..ms(450)).contains(&slow), "{slow:?}");
        assert!((ms(20)..ms(23)).contains(&steady), "{steady:?}");
    }

    #[test]
    fn a_standstill_is_no_service_time() {
        let mut times = ServiceTimes::new(1);
        let at = Mono::from_millis;
        let mut finish = |from, to, in_flight| {
            times.finished(at(to), at(from), in_flight, RouteId(0));
            times.mean().unwrap()
        };
        for n in 0..300 {
            finish(n * 10, n * 10 + 50, 5);
        }

        let stood_still = finish(3000, 3550, 5);
        let waited_meanwhile = finish(3400, 3560, 4);
        let alone = finish(3600, 4200, 1);

        for mean in [stood_still, waited_meanwhile] {
            assert!((ms(49)..=ms(50)).contains(&mean), "{mean:?}");
        }
        assert!(alone > ms(51), "{alone:?}");
    }

    #[test]
    fn a_route_without_samples_borrows_the_mean() {
        let mut times = ServiceTimes::new(2);
        assert_eq!(
            (times.mean(), times.margin(RouteId(1))),
            (None, Duration::ZERO)
        );

        times.learn(RouteId(0), ms(30));

        assert_eq!(times.margin(RouteId(1)), ms(30));
        assert_eq!(times.margin(RouteId(700)), ms(30));
    }

    #[test]
    fn a_service_that_became_faster_is_believed_after_a_few_thousand_requests() {
        let mut times = ServiceTimes::new(1);
        (0..2000).for_each(|_| times.learn(RouteId(0), ms(900)));
        (0..4000).for_each(|_| times.learn(RouteId(0), ms(9)));

        assert!(
            times.margin(RouteId(0)) < ms(12),
            "{:?}",
            times.margin(RouteId(0))
        );
        assert!(times.mean().unwrap() < ms(10));
    }

    #[test]
    fn every_time_has_a_bucket_whose_edge_lies_just_above_it() {
        for micros in [0, 1, 2, 7, 8, 9, 1000, 51_234, 1_000_000, 60_000_000] {
            let edge = upper_edge(bucket(Duration::from_micros(micros))).as_nanos() as f64;
            let exact = micros.max(1) as f64 * 1000.0;
            assert!(edge > exact && edge <= exact * 1.126, "{micros} µs: {edge}");
        }
        assert!(bucket(Duration::MAX) < BUCKETS);
    }
}

//! Vegas as in Netflix's concurrency-limits, where it is the default: the queue is estimated from
//! the latency against the smallest one seen (after Brakmo and Peterson's TCP Vegas, 1995).
//!
//! Its known fault is kept, since it stands here for comparison: variance alone looks like a queue,
//! so service times that merely differ drive it to single digits.

use super::{Bounds, Ending, Limit, Sample};
use crate::facts::RouteId;
use crate::rng::Rng;
use crate::time::{Mono, nanos};

/// The smallest latency is learnt anew after about this many times the limit in samples.
const PROBE_EVERY: f64 = 30.0;

/// A limit that keeps a small estimated queue.
#[derive(Clone, Debug)]
pub struct Vegas {
    bounds: Bounds,
    limit: f64,
    /// 0 before the first sample.
    least_ns: u64,
    samples: f64,
    jitter: f64,
    rng: Rng,
}

impl Vegas {
    /// Starts at the initial limit of `bounds`; `seed` feeds the jitter of its probes.
    pub const fn new(bounds: Bounds, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let jitter = 0.5 + 0.5 * rng.unit();
        Self {
            bounds,
            limit: bounds.initial() as f64,
            least_ns: 0,
            samples: 0.0,
            jitter,
            rng,
        }
    }
}

impl Limit for Vegas {
    fn admitted(&mut self, _: Mono, _: RouteId, _: u32) -> u32 {
        0
    }

    fn finished(&mut self, _: Mono, sample: &Sample) {
        if sample.ending == Ending::Ignored {
            return;
        }
        let latency_ns = nanos(sample.latency).max(1);
        self.samples += 1.0;
        if self.samples >= self.jitter * PROBE_EVERY * self.limit {
            self.samples = 0.0;
            self.jitter = 0.5 + 0.5 * self.rng.unit();
            self.least_ns = latency_ns;
            return;
        }
        if self.least_ns == 0 || latency_ns < self.least_ns {
            self.least_ns = latency_ns;
            return;
        }

        let step = self.limit.log10().floor().max(1.0);
        let wanted = if sample.ending == Ending::Overloaded {
            self.limit - step
        } else if 2.0 * f64::from(sample.in_flight) < self.limit {
            return;
        } else {
            let queue = (self.limit * (1.0 - self.least_ns as f64 / latency_ns as f64)).ceil();
            if queue <= step {
                self.limit + 6.0 * step
            } else if queue < 3.0 * step {
                self.limit + step
            } else if queue > 6.0 * step {
                self.limit - step
            } else {
                return;
            }
        };
        self.limit = self.bounds.clamp(wanted);
    }

    fn refused(&mut self, _: Mono) {}

    fn limit(&self) -> u32 {
        self.limit as u32
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn feed(limit: &mut Vegas, latency_us: u64, ending: Ending) -> u32 {
        let latency = Duration::from_micros(latency_us);
        let in_flight = limit.limit();
        let sample = Sample {
            tag: 0,
            route: RouteId(0),
            latency,
            in_flight,
            ending,
        };
        limit.finished(Mono::default(), &sample);
        limit.limit()
    }

    #[test]
    fn the_estimated_queue_moves_it_up_or_down() {
        let mut limit = Vegas::new(Bounds::new(20, 1, 1000).unwrap(), 1);

        assert_eq!(feed(&mut limit, 50_000, Ending::Worked), 20);
        assert_eq!(feed(&mut limit, 50_000, Ending::Worked), 26);
        assert_eq!(feed(&mut limit, 54_000, Ending::Worked), 27);
        assert_eq!(feed(&mut limit, 90_000, Ending::Worked), 26);
        assert_eq!(feed(&mut limit, 50_000, Ending::Overloaded), 25);
    }

    #[test]
    fn the_smallest_latency_is_forgotten_after_a_while() {
        let mut limit = Vegas::new(Bounds::new(20, 1, 1000).unwrap(), 1);
        feed(&mut limit, 10_000, Ending::Worked);
        for _ in 0..2000 {
            feed(&mut limit, 50_000, Ending::Worked);
        }

        assert!(limit.limit() > 20, "{}", limit.limit());
    }
}

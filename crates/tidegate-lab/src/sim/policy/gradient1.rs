//! The first gradient of Netflix's concurrency-limits (`GradientLimit` with its defaults): the
//! smallest latency seen against the present one.
//!
//! The smallest latency is forgotten every thousand to two thousand samples, and the limit falls to
//! its queue's size to see a new one.

use tidegate_core::facts::RouteId;
use tidegate_core::limit::{Ending, Limit, Sample};
use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;

const INITIAL: f64 = 50.0;
const LEAST: f64 = 1.0;
const MOST: f64 = 1000.0;
/// The present latency may be this many times the smallest before the limit falls.
const TOLERANCE: f64 = 2.0;
/// Room for a queue: the limit's root, and at least this.
const QUEUE_LEAST: f64 = 4.0;
/// How fast the limit falls; it rises at once.
const SMOOTHING: f64 = 0.2;
const BACKOFF: f64 = 0.9;
/// Samples until the smallest latency is forgotten: this many and up to twice that.
const FORGET_AFTER: u64 = 1000;

/// A limit that follows the ratio of smallest to present latency.
pub(super) struct Gradient1 {
    limit: f64,
    least_ns: Option<f64>,
    until_forgotten: u64,
    rng: Rng,
}

impl Gradient1 {
    pub(super) const fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            limit: INITIAL,
            least_ns: None,
            until_forgotten: FORGET_AFTER + rng.below(FORGET_AFTER),
            rng,
        }
    }
}

impl Limit for Gradient1 {
    fn admitted(&mut self, _: Mono, _: RouteId, _: u32) -> u32 {
        0
    }

    fn finished(&mut self, _: Mono, sample: &Sample) {
        if sample.ending == Ending::Ignored {
            return;
        }
        let queue = self.limit.floor().sqrt().floor().max(QUEUE_LEAST);
        if self.until_forgotten == 0 {
            self.until_forgotten = FORGET_AFTER + self.rng.below(FORGET_AFTER);
            self.limit = queue.max(LEAST);
            self.least_ns = None;
            return;
        }
        self.until_forgotten -= 1;

        let latency_ns = (sample.latency.as_nanos() as f64).max(1.0);
        let least_ns = self
            .least_ns
            .map_or(latency_ns, |least| least.min(latency_ns));
        self.least_ns = Some(least_ns);
        let gradient = (TOLERANCE * least_ns / latency_ns).clamp(0.5, 1.0);
        let wanted = if sample.ending == Ending::Overloaded {
            self.limit * BACKOFF
        } else if f64::from(sample.in_flight) < self.limit / 2.0 {
            return;
        } else {
            self.limit * gradient + queue
        };
        let wanted = if wanted < self.limit {
            (self.limit * (1.0 - SMOOTHING) + wanted * SMOOTHING).max(LEAST)
        } else {
            wanted
        };
        self.limit = wanted.min(MOST).max(queue);
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

    fn feed(limit: &mut Gradient1, latency_ms: u64, in_flight: u32, ending: Ending) -> u32 {
        let sample = Sample {
            tag: 0,
            route: RouteId(0),
            latency: Duration::from_millis(latency_ms),
            in_flight,
            ending,
        };
        limit.finished(Mono::default(), &sample);
        limit.limit()
    }

    #[test]
    fn it_rises_by_its_queue_and_falls_smoothly_past_twice_the_smallest_latency() {
        let mut limit = Gradient1::new(1);

        assert_eq!(feed(&mut limit, 50, 50, Ending::Worked), 57);
        assert_eq!(feed(&mut limit, 100, 57, Ending::Worked), 64);
        // 0.8 × 64 + 0.2 × (0.5 × 64 + 8)
        assert_eq!(feed(&mut limit, 200, 64, Ending::Worked), 59);
        assert_eq!(feed(&mut limit, 50, 10, Ending::Worked), 59);
        // 0.8 × 59.2 + 0.2 × 0.9 × 59.2
        assert_eq!(feed(&mut limit, 50, 59, Ending::Overloaded), 58);
    }

    #[test]
    fn the_smallest_latency_is_forgotten_with_the_limit() {
        let mut limit = Gradient1::new(1);
        let mut least = u32::MAX;
        for _ in 0..2001 {
            least = least.min(feed(&mut limit, 50, 1000, Ending::Worked));
        }

        assert_eq!(least, 31, "the root of the most it had risen to");
    }
}

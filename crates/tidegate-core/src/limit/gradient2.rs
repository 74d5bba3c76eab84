//! Gradient2 of Netflix's concurrency-limits: the latest latency against a long average of it.
//!
//! Its known faults are kept, since it stands here for comparison: the long average swallows a steady
//! overload as the new normal, and drops teach it nothing.

use super::{Bounds, Ending, Limit, Sample};
use crate::facts::RouteId;
use crate::time::{Mono, nanos};

/// Room for a queue that is always allowed for.
const QUEUE: f64 = 4.0;
const SMOOTHING: f64 = 0.2;
/// The latest latency may be this many times the long average before the limit falls.
const TOLERANCE: f64 = 1.5;
const LONG_WINDOW: f64 = 600.0;
/// Samples of which the long average is a plain mean.
const WARM_UP: u32 = 10;

/// A limit that follows the ratio of long-term to present latency.
#[derive(Clone, Debug)]
pub struct Gradient2 {
    bounds: Bounds,
    limit: f64,
    long_ns: f64,
    samples: u32,
}

impl Gradient2 {
    /// Starts at the initial limit of `bounds`.
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            limit: bounds.initial() as f64,
            long_ns: 0.0,
            samples: 0,
        }
    }

    fn follow(&mut self, short_ns: f64) {
        if self.samples < WARM_UP {
            self.samples += 1;
            self.long_ns += (short_ns - self.long_ns) / f64::from(self.samples);
        } else {
            self.long_ns += (short_ns - self.long_ns) * 2.0 / (LONG_WINDOW + 1.0);
        }
        // After an overload the average is far too high: let it come down faster than it would.
        if self.long_ns > 2.0 * short_ns {
            self.long_ns *= 0.95;
        }
    }
}

impl Limit for Gradient2 {
    fn admitted(&mut self, _: Mono, _: RouteId, _: u32) -> u32 {
        0
    }

    fn finished(&mut self, _: Mono, sample: &Sample) {
        if sample.ending == Ending::Ignored {
            return;
        }
        let short_ns = nanos(sample.latency).max(1) as f64;
        self.follow(short_ns);
        if 2.0 * f64::from(sample.in_flight) < self.limit {
            return;
        }
        let gradient = (TOLERANCE * self.long_ns / short_ns).clamp(0.5, 1.0);
        let wanted = gradient * self.limit + QUEUE;
        self.limit = self
            .bounds
            .clamp(self.limit * (1.0 - SMOOTHING) + wanted * SMOOTHING);
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

    fn feed(limit: &mut Gradient2, latency_ms: u64, in_flight: u32, times: u32) -> u32 {
        let latency = Duration::from_millis(latency_ms);
        let sample = Sample {
            tag: 0,
            route: RouteId(0),
            latency,
            in_flight,
            ending: Ending::Worked,
        };
        (0..times).for_each(|_| limit.finished(Mono::default(), &sample));
        limit.limit()
    }

    #[test]
    fn it_grows_by_its_queue_at_the_baseline_and_only_while_used() {
        let mut limit = Gradient2::new(Bounds::new(20, 20, 200).unwrap());

        assert_eq!(feed(&mut limit, 50, 9, 50), 20);
        assert_eq!(feed(&mut limit, 50, 20, 10), 28);
        assert_eq!(feed(&mut limit, 50, 200, 1000), 200);
    }

    #[test]
    fn it_falls_when_latency_leaves_the_long_average() {
        let mut limit = Gradient2::new(Bounds::new(100, 20, 200).unwrap());
        feed(&mut limit, 50, 1, 20);

        assert!(feed(&mut limit, 200, 100, 20) < 40);
    }
}

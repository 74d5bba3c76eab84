//! Additive increase, multiplicative decrease, with the constants of Netflix's concurrency-limits.

use std::time::Duration;

use super::{Bounds, Ending, Limit, Sample};
use crate::facts::RouteId;
use crate::time::Mono;

/// A latency beyond this counts as overload.
const LATENCY_MAX: Duration = Duration::from_secs(5);

const BACKOFF: f64 = 0.9;

/// Grows by one per answer while at least half used, shrinks by a tenth per overload.
#[derive(Clone, Debug)]
pub struct Aimd {
    bounds: Bounds,
    limit: f64,
}

impl Aimd {
    /// Starts at the initial limit of `bounds`.
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            limit: bounds.initial() as f64,
        }
    }
}

impl Limit for Aimd {
    fn admitted(&mut self, _: Mono, _: RouteId, _: u32) -> u32 {
        0
    }

    fn finished(&mut self, _: Mono, sample: &Sample) {
        let wanted = match sample.ending {
            Ending::Ignored => return,
            Ending::Overloaded => (self.limit * BACKOFF).floor(),
            Ending::Worked if sample.latency > LATENCY_MAX => (self.limit * BACKOFF).floor(),
            Ending::Worked if 2.0 * f64::from(sample.in_flight) >= self.limit => self.limit + 1.0,
            Ending::Worked => return,
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
    use super::*;

    fn sample(in_flight: u32, ending: Ending) -> Sample {
        let latency = Duration::from_millis(50);
        Sample {
            tag: 0,
            route: RouteId(0),
            latency,
            in_flight,
            ending,
        }
    }

    #[test]
    fn it_grows_only_while_used_and_shrinks_by_a_tenth() {
        let mut limit = Aimd::new(Bounds::new(100, 20, 200).unwrap());

        limit.finished(Mono::default(), &sample(49, Ending::Worked));
        assert_eq!(limit.limit(), 100);
        limit.finished(Mono::default(), &sample(50, Ending::Worked));
        assert_eq!(limit.limit(), 101);
        limit.finished(Mono::default(), &sample(50, Ending::Ignored));
        assert_eq!(limit.limit(), 101);
        limit.finished(Mono::default(), &sample(1, Ending::Overloaded));
        assert_eq!(limit.limit(), 90);
    }
}

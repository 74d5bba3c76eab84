//! What a limit has learnt, in a form that outlives its process.

use std::time::Duration;

use crate::facts::RouteId;

/// What was learnt longer ago than this is trusted by half.
const FRESH_FOR: Duration = Duration::from_secs(3600);

/// Samples that a half trusted baseline counts for: new ones outweigh them soon.
const DOUBTED_SAMPLES: u32 = 50;

/// What a restarted process may start from, so that it need not learn its baselines from an
/// application that is overloaded at that very moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Learnt {
    /// The limit.
    pub limit: f64,
    /// Requests finished per second, the most of late.
    pub throughput: f64,
    /// Baseline of each known route, and how many samples it counts for.
    pub baselines: Vec<(RouteId, Duration, u32)>,
}

impl Learnt {
    /// The same with half the trust where that is due: when it is older than an hour, or when it
    /// was learnt from another build of the application. The limit is then halved and new samples
    /// outweigh the baselines soon.
    #[must_use]
    pub fn weighed(mut self, age: Duration, same_build: bool) -> Self {
        if same_build && age <= FRESH_FOR {
            return self;
        }
        self.limit /= 2.0;
        self.throughput /= 2.0;
        for (_, _, samples) in &mut self.baselines {
            *samples = DOUBTED_SAMPLES.min(*samples);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt() -> Learnt {
        let ms = Duration::from_millis;
        Learnt {
            limit: 120.0,
            throughput: 2000.0,
            baselines: vec![(RouteId(0), ms(50), 900), (RouteId(3), ms(200), 12)],
        }
    }

    #[test]
    fn what_is_fresh_and_of_the_same_build_is_believed() {
        assert_eq!(learnt().weighed(FRESH_FOR, true), learnt());
    }

    #[test]
    fn what_is_old_or_of_another_build_is_believed_by_half() {
        let other = learnt().weighed(Duration::ZERO, false);
        let old = learnt().weighed(FRESH_FOR + Duration::from_nanos(1), true);

        assert_eq!(other, old);
        assert_eq!((old.limit, old.throughput), (60.0, 1000.0));
        let samples: Vec<u32> = old.baselines.iter().map(|&(.., samples)| samples).collect();
        assert_eq!(samples, [50, 12]);
    }
}

//! How big the shop is and how fast.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The shop's workers and their speed.
#[derive(Clone, Debug)]
pub struct ShopPlan {
    /// Jobs done at once. All others wait in one queue without a bound, first come first served.
    pub slots: u32,
    /// Mean time of one job.
    pub service: Duration,
    /// How the times of jobs are spread.
    pub law: ServiceLaw,
    /// By how much `/recommend` jobs take longer than the rest, since their dependency is slow.
    pub recommend_factor: f64,
    /// Bytes of an ordinary answer's body.
    pub answer_bytes: usize,
    /// Replays the same service times.
    pub seed: u64,
    /// Whether it keeps how long each slot was held, for [`/times`](super).
    pub times_kept: bool,
}

impl Default for ShopPlan {
    /// 100 slots × 50 ms: about 2,000 jobs per second.
    fn default() -> Self {
        Self {
            slots: 100,
            service: Duration::from_millis(50),
            law: ServiceLaw::Fixed,
            recommend_factor: 1.0,
            answer_bytes: 256,
            seed: 1,
            times_kept: false,
        }
    }
}

/// How the times of jobs are spread around their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceLaw {
    /// All the same.
    Fixed,
    /// The sum of four exponential stages.
    Erlang4,
    /// Exponential.
    Exponential,
}

//! How many requests may be inside the application at once.
//!
//! One trait of four methods, after quinn's congestion controller: what was admitted, what came of
//! it, what was turned away, and the limit that follows.

pub mod adaptive;
mod aimd;
mod fixed;
mod gradient2;
pub mod pooled;
mod vegas;

use std::num::NonZeroU32;
use std::time::Duration;

use crate::facts::RouteId;
use crate::time::Mono;

pub use adaptive::{Adaptive, Change, Learnt};
pub use aimd::Aimd;
pub use fixed::Static;
pub use gradient2::Gradient2;
pub use vegas::Vegas;

/// How the work of one admitted request ended, as far as the limit learns from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The application answered; its latency is a sample.
    Worked,
    /// Nothing is to be learnt: the request never reached the application, or failed at once.
    Ignored,
    /// The application, or a timeout on its answer, says that there was too much work.
    Overloaded,
}

/// What one finished request teaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What [`Limit::admitted`] returned for this request.
    pub tag: u32,
    /// The route, for baselines of its own.
    pub route: RouteId,
    /// From admission to the first byte of the answer.
    pub latency: Duration,
    /// Requests inside the application when this one ended, itself included.
    pub in_flight: u32,
    /// How it ended.
    pub ending: Ending,
}

/// A concurrency limit that learns.
///
/// Calls come in the order of time; `now` may repeat but a reading older than the last is treated
/// as the last. The limit is at least 1 whatever comes in.
pub trait Limit: Send {
    /// A request was admitted and `in_flight` are inside now, itself included. The tag comes back
    /// with its sample.
    fn admitted(&mut self, now: Mono, route: RouteId, in_flight: u32) -> u32;

    /// An admitted request has ended.
    fn finished(&mut self, now: Mono, sample: &Sample);

    /// A request was refused, or had to wait, because the limit was reached.
    fn refused(&mut self, now: Mono);

    /// How many requests may be inside the application now. Never 0.
    fn limit(&self) -> u32;

    /// What it has learnt, for people.
    fn insight(&self) -> Insight {
        Insight::default()
    }

    /// Its last changes and what led to them, the oldest first; for people.
    fn changes(&self) -> Vec<Change> {
        Vec::new()
    }

    /// What a later limit of the same kind may start from, if there is such a thing.
    fn learnt(&self) -> Option<Learnt> {
        None
    }

    /// Itself, where it is a gateway's share of a limit that several gateways have in common.
    fn pooled(&mut self) -> Option<&mut pooled::Leaf> {
        None
    }
}

/// What a limit has learnt, as far as it learns such things.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Insight {
    /// Whether the limit is being moved on purpose, to see what throughput does.
    pub probing: bool,
    /// The mean latency that it takes for the one without a queue.
    pub baseline: Option<Duration>,
    /// Present latency against that.
    pub inflation: Option<f64>,
    /// How many gateways share the limit; `None` where it is one gateway's own.
    pub gateways: Option<u32>,
}

/// Bounds of a limit that learns: 1 ≤ `min` ≤ `initial` ≤ `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    initial: u32,
    min: u32,
    max: u32,
}

/// Bounds that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundsError;

impl std::fmt::Display for BoundsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a limit needs 1 <= min <= initial <= max")
    }
}

impl std::error::Error for BoundsError {}

impl Bounds {
    /// A limit that starts at `initial` and stays between `min` and `max`.
    pub const fn new(initial: u32, min: u32, max: u32) -> Result<Self, BoundsError> {
        if 1 <= min && min <= initial && initial <= max {
            Ok(Self { initial, min, max })
        } else {
            Err(BoundsError)
        }
    }

    /// Where the limit starts.
    pub const fn initial(self) -> u32 {
        self.initial
    }

    /// The least it may become.
    pub const fn min(self) -> u32 {
        self.min
    }

    /// The most it may become.
    pub const fn max(self) -> u32 {
        self.max
    }

    /// `limit` brought inside; a limit that is no number becomes the least.
    const fn clamp(self, limit: f64) -> f64 {
        if limit.is_nan() {
            self.min as f64
        } else {
            limit.clamp(self.min as f64, self.max as f64)
        }
    }
}

/// Which algorithm to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A fixed number: the application's workers.
    Static(NonZeroU32),
    /// Additive increase, multiplicative decrease.
    Aimd(Bounds),
    /// Queue estimate against the smallest latency seen.
    Vegas(Bounds),
    /// Short-term latency against a long average.
    Gradient2(Bounds),
    /// Cohorts, baselines and the response of throughput.
    Adaptive(adaptive::Settings),
}

impl Kind {
    /// A fresh limit of this kind; `seed` feeds whatever it draws.
    pub fn build(self, seed: u64) -> Box<dyn Limit> {
        match self {
            Self::Static(limit) => Box::new(Static::new(limit)),
            Self::Aimd(bounds) => Box::new(Aimd::new(bounds)),
            Self::Vegas(bounds) => Box::new(Vegas::new(bounds, seed)),
            Self::Gradient2(bounds) => Box::new(Gradient2::new(bounds)),
            Self::Adaptive(settings) => Box::new(Adaptive::new(settings, seed)),
        }
    }

    /// A limit of this kind that starts from what an earlier one had learnt, where the kind can.
    pub fn resume(self, seed: u64, learnt: &Learnt) -> Box<dyn Limit> {
        match self {
            Self::Adaptive(settings) => Box::new(Adaptive::resume(settings, seed, learnt)),
            _ => self.build(seed),
        }
    }

    /// The name used in configuration and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Static(_) => "static",
            Self::Aimd(_) => "aimd",
            Self::Vegas(_) => "vegas",
            Self::Gradient2(_) => "gradient2",
            Self::Adaptive(_) => "adaptive",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bounds_that_contradict_each_other_do_not_exist() {
        assert!(Bounds::new(20, 20, 200).is_ok());
        assert_eq!(Bounds::new(0, 0, 5), Err(BoundsError));
        assert_eq!(Bounds::new(9, 1, 5), Err(BoundsError));
        assert_eq!(Bounds::new(1, 2, 5), Err(BoundsError));
    }

    fn endings() -> impl Strategy<Value = Ending> {
        prop_oneof![
            Just(Ending::Worked),
            Just(Ending::Ignored),
            Just(Ending::Overloaded)
        ]
    }

    fn latencies() -> impl Strategy<Value = Duration> {
        prop_oneof![
            Just(Duration::ZERO),
            Just(Duration::MAX),
            (0u64..10_000_000_000).prop_map(Duration::from_nanos)
        ]
    }

    proptest! {
        #[test]
        fn no_sample_takes_a_limit_out_of_its_bounds(
            samples in prop::collection::vec((endings(), latencies(), any::<u32>(), any::<u64>()), 1..400),
        ) {
            let bounds = Bounds::new(20, 4, 300).unwrap();
            let settings = adaptive::Settings { bounds, latency_healthy_max: None };
            for kind in [
                Kind::Aimd(bounds),
                Kind::Vegas(bounds),
                Kind::Gradient2(bounds),
                Kind::Adaptive(settings),
            ] {
                let mut limit = kind.build(1);
                for &(ending, latency, in_flight, at) in &samples {
                    let now = Mono::from_nanos(at);
                    let tag = limit.admitted(now, RouteId(0), in_flight);
                    limit.refused(now);
                    limit.finished(now, &Sample { tag, route: RouteId(0), latency, in_flight, ending });
                    prop_assert!((4..=300).contains(&limit.limit()), "{kind:?}: {}", limit.limit());
                }
            }
        }
    }
}

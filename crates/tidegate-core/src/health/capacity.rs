//! How much a node can do, from what it does and how full that makes it.

use std::time::Duration;

use super::signal::{Dimension, Signal};
use super::smoothing::Smoothing;
use crate::time::Mono;

/// How long an estimate counts: three ticks of a second. After that the fleet's median stands for it.
pub const CAPACITY_AGE_MAX: Duration = Duration::from_secs(3);
/// Below this utilisation nothing can be told from what a node does: the reading is mostly grain.
const UTILISATION_MIN: f64 = 0.02;
/// Below this an estimate is the less worth the less there is to do: one request more or less inside is a large part of it then.
/// With few to share out it also matters least who gets them.
const EFFORT_FULL: f64 = 0.2;

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Requests that came, per second.
    pub offered_rps: f64,
    /// Requests that were answered, per second. At the end of a node's capacity what comes says nothing about what it can.
    pub completed_rps: f64,
    /// The share of the answers that were errors, 0 to 1.
    pub error_ratio: f64,
    /// How full that makes the node, 0 to 1, in proportion to load; see [`utilisation`].
    pub utilisation: f64,
    /// When it was measured.
    pub at: Mono,
}

/// How full a node is in proportion to its load, 0 to 1, when `signals` tell: the most of busy workers, requests inside and
/// the processor. A caller who knows a pool's connections in use may take the more of the two.
///
/// Latency, queues, collections of garbage and whatever begins to count only above a threshold are not in proportion to
/// load, and would turn an estimate of capacity back into a gain.
pub fn utilisation(signals: &[Signal], now: Mono) -> Option<f64> {
    signals
        .iter()
        .filter(|signal| {
            matches!(
                signal.dimension,
                Dimension::Threads | Dimension::Inflight | Dimension::Cpu
            )
        })
        .filter_map(|signal| signal.ratio(now))
        .map(|ratio| ratio.min(1.0))
        .reduce(f64::max)
}

impl Load {
    /// The requests per second that the node would complete when full, if the load is enough to tell.
    ///
    /// Errors count like utilisation: a node that fails fast has little to do, and would otherwise draw the traffic of all.
    pub fn capacity_rps(&self) -> Option<f64> {
        let effort = self.effort();
        let tells = self.completed_rps.is_finite()
            && self.completed_rps > 0.0
            && self.utilisation >= UTILISATION_MIN
            && effort.is_finite();
        tells.then(|| self.completed_rps / effort)
    }

    fn effort(&self) -> f64 {
        self.utilisation.min(1.0) + self.error_ratio.clamp(0.0, 1.0)
    }

    /// How much is to be made of what a node is believed to be able to do while it does no more than this, 0 to 1.
    pub(super) fn worth(&self) -> f64 {
        (self.effort() / EFFORT_FULL).min(1.0)
    }
}

/// What a node is believed to be able to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Requests per second at full utilisation.
    pub rps: f64,
    /// When the load was measured that it comes from.
    pub at: Mono,
}

impl Estimate {
    /// `before` with what `load` says at `now`. What is too old is none, and neither is a load that was seen already.
    pub fn learn(
        before: Option<Self>,
        smoothing: &Smoothing,
        now: Mono,
        load: Option<&Load>,
    ) -> Option<Self> {
        let before = before.filter(|it| now.since(it.at) <= CAPACITY_AGE_MAX);
        let fresh = load
            .filter(|load| now.since(load.at) <= CAPACITY_AGE_MAX)
            .filter(|load| before.is_none_or(|it| it.at < load.at));
        match fresh.and_then(|load| Some((load.capacity_rps()?, load.at))) {
            Some((rps, at)) => Some(Self {
                rps: smoothing.step(before.map(|it| it.rps), rps),
                at,
            }),
            None => before,
        }
    }
}

/// The middle of `values`, which are put in order; the lower one of two. `None` of nothing.
pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let (_, &mut middle, _) = values.select_nth_unstable_by(last / 2, f64::total_cmp);
    Some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(completed_rps: f64, utilisation: f64, error_ratio: f64, ms: u64) -> Load {
        Load {
            offered_rps: completed_rps,
            completed_rps,
            error_ratio,
            utilisation,
            at: Mono::from_millis(ms),
        }
    }

    #[test]
    fn a_node_that_fails_fast_is_no_bigger_for_it() {
        let fails = load(100.0, 0.05, 1.0, 0).capacity_rps().unwrap();
        let works = load(100.0, 0.6, 0.0, 0).capacity_rps().unwrap();

        assert!(fails < works, "{fails} {works}");
    }

    #[test]
    fn an_idle_node_tells_nothing() {
        assert_eq!(load(0.0, 0.0, 0.0, 0).capacity_rps(), None);
        assert_eq!(load(3.0, 0.01, 0.0, 0).capacity_rps(), None);
        assert_eq!(load(f64::NAN, 0.5, 0.0, 0).capacity_rps(), None);
        assert_eq!(load(3.0, f64::NAN, 0.0, 0).capacity_rps(), None);
    }

    #[test]
    fn an_estimate_lives_three_seconds_longer_than_its_load() {
        let smoothing = Smoothing::default();
        let at = |ms| Mono::from_millis(ms);
        let learnt = Estimate::learn(
            None,
            &smoothing,
            at(1_000),
            Some(&load(50.0, 0.5, 0.0, 1_000)),
        );

        assert_eq!(learnt.unwrap().rps, 100.0);
        let idle = load(0.0, 0.0, 0.0, 4_000);
        assert_eq!(
            Estimate::learn(learnt, &smoothing, at(4_000), Some(&idle)),
            learnt
        );
        assert_eq!(
            Estimate::learn(learnt, &smoothing, at(4_001), Some(&idle)),
            None
        );
    }

    #[test]
    fn a_load_is_learnt_from_once() {
        let smoothing = Smoothing::default();
        let now = Mono::from_millis(2_000);
        let before = Estimate::learn(None, &smoothing, now, Some(&load(50.0, 0.5, 0.0, 1_000)));
        let worse = load(20.0, 0.5, 0.0, 2_000);

        let once = Estimate::learn(before, &smoothing, now, Some(&worse));

        assert!((once.unwrap().rps - 64.0).abs() < 1e-9);
        assert_eq!(Estimate::learn(once, &smoothing, now, Some(&worse)), once);
    }

    #[test]
    fn the_less_a_node_does_the_less_is_made_of_it() {
        let worth = |utilisation, error_ratio| load(10.0, utilisation, error_ratio, 0).worth();

        assert_eq!((worth(0.8, 0.0), worth(0.2, 0.0)), (1.0, 1.0));
        assert_eq!((worth(0.1, 0.0), worth(0.0, 0.0)), (0.5, 0.0));
        assert_eq!(worth(0.02, 0.5), 1.0, "who fails everything is believed");
    }

    #[test]
    fn utilisation_is_of_what_grows_with_load() {
        let now = Mono::from_millis(1_000);
        let read = |dimension, value, limit| Signal::read(dimension, value, limit, now);

        let most = utilisation(
            &[
                read(Dimension::Threads, 30.0, 100.0),
                read(Dimension::Inflight, 70.0, 50.0),
                read(Dimension::Gc, 5.0, 1.0),
            ],
            now,
        );

        assert_eq!(most, Some(1.0));
        assert_eq!(
            utilisation(&[read(Dimension::Latency, 1.0, 1.0)], now),
            None
        );
    }

    #[test]
    fn the_median_of_two_is_the_lower_one() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0, 1.0]), Some(1.0));
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
    }
}

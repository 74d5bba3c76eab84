//! A deliberate change of the limit, and what throughput makes of it.

use super::reading::Reading;
use super::throughput::Reference;
use crate::time::Mono;

/// The limit during a probe downwards, relative to before.
pub(super) const DOWN: f64 = 0.7;

/// The same for a probe upwards.
pub(super) const UP: f64 = 1.5;

/// From this response on, throughput follows the limit.
pub(super) const FOLLOWS: f64 = 0.6;

/// Up to this response, throughput does not depend on the limit.
const INDEPENDENT: f64 = 0.4;

/// Below this, throughput falls as the limit rises.
const FALLS: f64 = -0.2;

/// A change of throughput counts when it is this many standard errors.
const SIGMAS: f64 = 2.0;

/// Where no more than this part of the throughput is lost, or than may be chance, the knee may lie
/// below the limit that was tried.
const LOST: f64 = 0.04;

/// Throughput answers to the limit only when the application is full: this part of the requests
/// takes the last few slots, or finds none.
pub(super) const FULL: f64 = 0.6;

/// The least relative variance that is reckoned with.
const LEAST_VARIANCE: f64 = 0.25;

/// A probe that is running.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// When.
    pub(super) began: Mono,
    /// The limit before it.
    pub(super) before: f64,
    /// The limit that is tried.
    pub(super) tried: f64,
    /// Whether latency spoke of a queue before it.
    pub(super) inflated: bool,
    /// What was done at the limit before.
    pub(super) reference: Reference,
}

/// What a probe says about the limit before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Answer {
    /// Throughput follows the limit.
    Below,
    /// Something between.
    At,
    /// Throughput does not depend on the limit.
    Above,
    /// Throughput falls as the limit rises.
    Falling,
    /// Nothing.
    Nothing,
}

impl Probe {
    /// Compares throughput before with `reading`, and also returns the response k: the relative
    /// change of throughput by the relative change of the limit.
    pub(super) fn answer(&self, reading: &Reading, spread: f64) -> (Answer, Option<f64>) {
        let before = self.reference.per_second();
        let limit_before = self.reference.limit();
        let step = self.tried.floor() / limit_before - 1.0;
        if reading.full < FULL || before <= 0.0 || reading.worked <= 0.0 || step.abs() < 0.05 {
            return (Answer::Nothing, None);
        }
        let change = reading.throughput() / before - 1.0;
        let response = change / step;

        let certain = change.abs() > SIGMAS * self.error(reading, spread);
        let answer = if response > FOLLOWS && certain {
            Answer::Below
        } else if response < FALLS && certain {
            Answer::Falling
        } else if response < INDEPENDENT {
            Answer::Above
        } else {
            Answer::At
        };
        (answer, Some(response))
    }

    /// The next probe down from the limit that was tried; `None` when that is too little to go down
    /// from.
    pub(super) fn lower(&self, now: Mono, reading: &Reading, least: f64) -> Option<Self> {
        let tried = (self.tried * DOWN).max(least);
        let deeper = tried.floor() < self.tried.floor();
        deeper.then(|| Self {
            began: now,
            before: self.tried,
            tried,
            inflated: false,
            reference: Reference::of(reading.worked, reading.seconds, self.tried.floor()),
        })
    }

    /// The limit at which throughput stops to follow, if it follows in proportion up to there: as
    /// much as the throughput before needs at the latency of the limit that was tried.
    pub(super) fn knee(&self, reading: &Reading) -> f64 {
        let least = (self.tried / self.before).min(1.0);
        self.tried.floor() / self.kept(reading).clamp(least, 1.0)
    }

    /// Whether the knee may lie below the limit that was tried.
    pub(super) fn may_lie_lower(&self, reading: &Reading, spread: f64) -> bool {
        1.0 - self.kept(reading) <= LOST.max(SIGMAS * self.error(reading, spread))
    }

    /// The standard error of the relative change of throughput: requests that follow one another in
    /// the same slots vary as their service times do.
    fn error(&self, reading: &Reading, spread: f64) -> f64 {
        let variance = (spread * spread).max(LEAST_VARIANCE);
        let worked = |count: f64| variance / count.max(1.0);
        (worked(reading.worked) + worked(self.reference.worked())).sqrt()
    }

    /// The part of the throughput that is left at the limit that was tried.
    fn kept(&self, reading: &Reading) -> f64 {
        let before = self.reference.per_second();
        if before > 0.0 {
            reading.throughput() / before
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SPREAD: f64 = 0.5;

    /// A probe from 100 to `tried` in an application that did 2000 per second.
    fn probe(tried: f64) -> Probe {
        Probe {
            began: Mono::default(),
            before: 100.0,
            tried,
            inflated: false,
            reference: Reference::of(4000.0, 2.0, 100.0),
        }
    }

    /// What was read when so many per second were done, for half a second.
    fn reading(per_second: f64, full: f64) -> Reading {
        Reading {
            since_opened: Duration::from_secs(1),
            latency_ns: 50e6,
            baseline_ns: Some(50e6),
            inflation: 1.0,
            spread: None,
            known: 100.0,
            saturated: true,
            full,
            refused_per_admitted: 1.0,
            overloaded: 0.0,
            worked: per_second / 2.0,
            seconds: 0.5,
        }
    }

    fn answer(tried: f64, per_second: f64) -> Answer {
        probe(tried).answer(&reading(per_second, 1.0), SPREAD).0
    }

    #[test]
    fn the_answer_is_how_throughput_follows_the_limit() {
        assert_eq!(answer(70.0, 1400.0), Answer::Below);
        assert_eq!(answer(70.0, 1700.0), Answer::At);
        assert_eq!(answer(70.0, 1950.0), Answer::Above);
        assert_eq!(answer(70.0, 2300.0), Answer::Falling);
        assert_eq!(answer(150.0, 3000.0), Answer::Below);
        assert_eq!(answer(150.0, 2050.0), Answer::Above);
        assert_eq!(answer(150.0, 1500.0), Answer::Falling);
    }

    #[test]
    fn without_pressure_throughput_or_a_step_there_is_no_answer() {
        let with = |tried, reading| probe(tried).answer(&reading, SPREAD).0;

        assert_eq!(with(70.0, reading(1400.0, 0.3)), Answer::Nothing);
        assert_eq!(with(70.0, reading(0.0, 1.0)), Answer::Nothing);
        assert_eq!(with(98.0, reading(1400.0, 1.0)), Answer::Nothing);
    }

    #[test]
    fn the_knee_is_where_throughput_stops_to_follow() {
        let knee = |per_second| probe(70.0).knee(&reading(per_second, 1.0));

        assert!((knee(1750.0) - 80.0).abs() < 1e-9);
        assert!(
            (knee(2500.0) - 70.0).abs() < 1e-9,
            "no lower than what was tried"
        );
        assert!((knee(0.0) - 100.0).abs() < 1e-9, "no higher than before");
    }

    #[test]
    fn the_knee_may_lie_lower_unless_more_is_lost_than_chance_explains() {
        let lower = |per_second| probe(70.0).may_lie_lower(&reading(per_second, 1.0), SPREAD);

        assert!(lower(2000.0));
        assert!(lower(1930.0));
        assert!(!lower(1800.0));
    }
}

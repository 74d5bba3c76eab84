//! A deliberate change of the limit, and what throughput makes of it.

use std::time::Duration;

use super::reading::Reading;
use super::throughput::Reference;
use crate::rng::Rng;
use crate::time::Mono;

/// The time from one probe to the next.
const EVERY: Duration = Duration::from_secs(10);

/// Probes take one part in so many of the time at most.
const SHARE: u32 = 20;

/// The first probe comes this long after slow start.
const FIRST: Duration = Duration::from_secs(3);

/// The next probe after one that said nothing.
const AGAIN: Duration = Duration::from_secs(2);

/// Probes come early or late by up to this part of the time between them, so that those of several
/// limits do not stay in step.
const JITTER: f64 = 0.2;

/// The limit during a probe downwards, relative to before.
pub(super) const DOWN: f64 = 0.7;

/// The same for a probe upwards.
pub(super) const UP: f64 = 1.5;

/// From this response on, throughput follows the limit.
const FOLLOWS: f64 = 0.6;

/// Up to this response, throughput does not depend on the limit.
const INDEPENDENT: f64 = 0.4;

/// Below this, throughput falls as the limit rises.
const FALLS: f64 = -0.2;

/// A change of throughput counts when it is this many standard errors.
const SIGMAS: f64 = 2.0;

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
        if !reading.saturated || before <= 0.0 || reading.worked <= 0.0 || step.abs() < 0.05 {
            return (Answer::Nothing, None);
        }
        let change = reading.throughput() / before - 1.0;
        let response = change / step;

        // Requests that follow one another in the same slots vary as their service times do.
        let variance = (spread * spread).max(1.0);
        let error = (variance / reading.worked + variance / self.reference.worked()).sqrt();
        let certain = change.abs() > SIGMAS * error;
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
}

/// When the next probe is due.
#[derive(Clone, Debug)]
pub(super) struct Timetable {
    at: Option<Mono>,
    up: bool,
    rng: Rng,
}

impl Timetable {
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            at: None,
            up: true,
            rng: Rng::new(seed),
        }
    }

    pub(super) fn is_due(&mut self, now: Mono) -> bool {
        match self.at {
            Some(at) => now >= at,
            None => {
                self.first(now);
                false
            }
        }
    }

    /// Whether the next probe that may go either way goes up; they take turns.
    pub(super) const fn turn(&mut self) -> bool {
        self.up = !self.up;
        self.up
    }

    /// The limit was found at `now`.
    pub(super) fn first(&mut self, now: Mono) {
        self.at = Some(now + FIRST);
    }

    /// A probe said nothing.
    pub(super) fn again(&mut self, now: Mono) {
        self.set(now, AGAIN);
    }

    /// A probe that lasted for `took` has its answer.
    pub(super) fn next(&mut self, now: Mono, took: Duration) {
        self.set(now, EVERY.max(took.saturating_mul(SHARE)));
    }

    fn set(&mut self, now: Mono, wait: Duration) {
        let jitter = 1.0 - JITTER + 2.0 * JITTER * self.rng.unit();
        self.at = Some(now + wait.mul_f64(jitter));
    }
}

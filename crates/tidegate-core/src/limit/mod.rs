//! How many requests may be inside the application at once.
//!
//! One trait of four methods, after quinn's congestion controller: what was admitted, what came of
//! it, what was turned away, and the limit that follows.

use std::time::Duration;

use crate::facts::RouteId;
use crate::time::Mono;

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
}

mod skeleton {}
/// A limit that never moves.
#[derive(Clone, Debug)]
pub struct Static(pub std::num::NonZeroU32);
/// Bounds of an adaptive limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// start
    pub initial: u32,
    /// least, at least 1
    pub min: u32,
    /// most
    pub max: u32,
}
/// Which algorithm, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// fixed
    Static(std::num::NonZeroU32),
    /// Netflix AIMD
    Aimd(Bounds),
    /// Netflix Vegas
    Vegas(Bounds),
    /// Netflix Gradient2 on raw samples
    Gradient2(Bounds),
}
impl Kind {
    /// Builds the limiter.
    pub fn build(self, _seed: u64) -> Box<dyn Limit> {
        todo!()
    }
}

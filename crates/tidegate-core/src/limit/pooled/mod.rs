//! One limit for many gateways in front of one application.
//!
//! Gateways that each run a limit of their own do not work. Each learns a baseline that contains the
//! queue of the others, and each is lied to by its probes: a gateway that sees one part in N of the
//! traffic and lowers its limit gives up throughput to the others even where the application has
//! far too much to do, so that it concludes from the loss that its limit was too low. So there is
//! one [`Hub`] with one controller, and each gateway runs a [`Leaf`] that obeys.
//!
//! ```text
//!  Leaf ── Report: what was asked, what came of the cohort, which share is held ──▶ Hub
//!  Leaf ◀── Share: part of the limit, its generation, whether to gather a cohort ── Hub
//! ```
//!
//! **Generations.** Every limit has a number, and so has every cohort gathered under one. A cohort
//! is opened only when every leaf has said that it holds the limit it is about; without that, the
//! requests of a leaf that still works under the former limit would count for the new one, and the
//! limit runs away (measured with shares every second: a median of 245 ms instead of 57 ms). A leaf
//! marks what it admits with the cohort it gathers, and reports sums over it since it was opened:
//! a report that is lost, comes twice or comes late does no harm, since the next one says it all.
//!
//! **Shares.** Nine tenths of the limit follow demand, one tenth is the same for everybody. A share
//! is handed out only from what nobody may be using: a part taken from one leaf goes to another
//! once the first has said that it gave it up, so that together they never hold more than the
//! limit, whatever happens to the messages. They are counted in thousandths of a slot; a leaf with
//! 7.5 slots uses 7 and 8 in turns, so at any moment all of them may use one slot per leaf more
//! than the limit. A leaf always has at least one slot, however small its share.
//!
//! **Losing each other.** A leaf that hears nothing keeps its share for a while ([`Pooling::grace`])
//! and then goes on alone: with the same controller, from what the hub had learnt, never below its
//! last share and never above twice that, and without concluding from a probe that the limit is too
//! low. A hub that hears nothing of a leaf drops it ([`Pooling::silence`]), before the leaf goes
//! alone. A new hub has a higher term than the one before; leaves take no share of a lower term,
//! and a hub that is told of a higher one falls silent.

mod demand;
mod granted;
mod hub;
mod leaf;

use std::time::Duration;

use super::Insight;
use super::adaptive::{Cohort, Learnt};
use crate::time::Mono;

pub use hub::{Hub, LEAVES_MAX, LeafId};
pub use leaf::Leaf;

/// The time between two shares, in which a hub hears from and speaks to everybody once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling {
    refresh: Duration,
}

impl Pooling {
    /// Hands out shares every `refresh`; 100 to 250 ms work well, and less than 1 ms counts as that.
    pub fn every(refresh: Duration) -> Self {
        Self {
            refresh: refresh.max(Duration::from_millis(1)),
        }
    }

    /// The time between two shares.
    pub const fn refresh(self) -> Duration {
        self.refresh
    }

    /// A leaf that was not heard of for this long is no longer waited for, and its share goes to
    /// the others.
    pub fn silence(self) -> Duration {
        (self.refresh * 5).max(Duration::from_secs(1))
    }

    /// A leaf that has not got a share for this long goes on alone.
    pub fn grace(self) -> Duration {
        self.silence() * 2
    }
}

impl Default for Pooling {
    fn default() -> Self {
        Self::every(Duration::from_millis(100))
    }
}

/// Which limit, or which cohort gathered under one. Never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation {
    /// Of the hub: higher for each one that takes over.
    pub term: u64,
    /// Counts up within a term, from 1.
    pub number: u64,
}

/// What a hub tells a leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Which limit it is a part of.
    pub generation: Generation,
    /// Counts up with the shares of a term, whoever they are for.
    pub sequence: u64,
    /// The part, in thousandths of a slot.
    pub milli: u64,
    /// What the part would be if the limit were not being probed: what to go on with alone.
    pub steady_milli: u64,
    /// Whether requests admitted from now on are the cohort of this generation.
    pub gather: Option<Gather>,
    /// How many gateways share the limit.
    pub gateways: u32,
    /// What the hub has learnt, for people.
    pub insight: Insight,
    /// What the hub has learnt, for going on alone and for restarts. Now and then only.
    pub learnt: Option<Learnt>,
}

/// How to gather a cohort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// Throughput counts only after this time.
    pub settle: Duration,
    /// Requests are taken in for this long.
    pub span: Duration,
    /// Counts up when that was too short: `span` then begins anew.
    pub round: u32,
}

/// What a leaf tells its hub.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Higher for each restart of the gateway.
    pub life: u64,
    /// Counts up with the reports of a life.
    pub sequence: u64,
    /// When it was written, by the clock of the leaf; it is compared with times of the same leaf
    /// only.
    pub at: Mono,
    /// The generation of the share it holds; none is [`Generation::default`].
    pub generation: Generation,
    /// The number of that share.
    pub held: u64,
    /// Thousandths of a slot in use: that share, or what it allows itself without one.
    pub milli: u64,
    /// Counts since the start of this life.
    pub totals: Totals,
    /// The last cohort it was told to gather.
    pub part: Option<Part>,
}

/// A leaf's part of a cohort.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Which cohort.
    pub generation: Generation,
    /// What came of it so far.
    pub cohort: Cohort,
}

/// Counts of a leaf since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that were admitted, refused or made to wait. One that waits and is admitted then
    /// counts twice, with every leaf.
    pub asked: u64,
    /// Requests that ended, except for those that taught nothing.
    pub finished: u64,
    /// Their latencies added up, in microseconds.
    pub latency_us: u64,
}

//! What happened in a run, in bins of time.

use std::time::Duration;

use tidegate_core::facts::Class;

/// The width of a bin.
pub const BIN: Duration = Duration::from_millis(100);

/// How often the state of things is looked at; a whole part of [`BIN`].
pub const LOOK: Duration = Duration::from_millis(10);

/// How an attempt ended, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A good answer within patience.
    Good,
    /// Refused by a gateway.
    Refused,
    /// The application refused it or failed.
    Failed,
    /// No answer within patience.
    TimedOut,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Record {
    /// One per [`BIN`] of simulated time.
    pub bins: Vec<Bin>,
    /// Good answers and attempts by gateway, over the measured window.
    pub by_gateway: Vec<GatewayTotals>,
    /// A hash over every event in order.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
}

/// What happened within one bin. An attempt counts in the bin in which it ended, an arrival in the
/// one in which it was made.
#[derive(Clone, Debug, Default)]
pub struct Bin {
    /// First attempts by class index.
    pub first: [u32; Class::COUNT],
    /// Attempts that are retries, by class index.
    pub retries: [u32; Class::COUNT],
    /// Attempts let in by a gateway.
    pub admitted: u32,
    /// Good answers by class index.
    pub good: [u32; Class::COUNT],
    /// Refusals by a gateway, by class index.
    pub refused: [u32; Class::COUNT],
    /// Failures and refusals of the application.
    pub failed: u32,
    /// Attempts whose client gave up.
    pub timed_out: u32,
    /// Work the application finished for clients who had gone.
    pub wasted: u32,
    /// Times of good answers.
    pub latencies: Latencies,
    /// The limit at the bin's end, over all gateways.
    pub limit: f32,
    /// Whether a limit was being probed at any [`LOOK`] into the bin.
    pub probing: bool,
    /// In flight at the bin's end, over all gateways.
    pub in_flight: u32,
    /// Time spent in the application, summed over all attempts inside: divided by [`BIN`] it is the
    /// mean number in flight.
    pub occupied: Duration,
    /// The most that waited at one moment, in gateways and inside the application together.
    pub queue_most: u32,
    /// Waiting in gateways at the bin's end.
    pub queued: u32,
    /// Waiting inside the application at the bin's end.
    pub backlog: u32,
    /// Learnt baseline of each gateway at the bin's end, in nanoseconds; 0 for none.
    pub baselines_ns: Vec<u64>,
}

/// What one gateway got and gave.
#[derive(Clone, Copy, Debug, Default)]
pub struct GatewayTotals {
    /// Attempts sent to it.
    pub offered: u64,
    /// Good answers through it.
    pub good: u64,
}

/// A histogram of times that is empty for free.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Counts by bucket; see [`Latencies::add`].
    counts: Vec<u32>,
}

/// Buckets per doubling of the time.
const STEPS: f64 = 32.0;

impl Latencies {
    /// Counts one time.
    pub fn add(&mut self, took: Duration) {
        let micros = took.as_micros().max(1) as f64;
        let bucket = (micros.log2() * STEPS) as usize;
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
    }

    /// Adds what `other` counted.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    /// The time below which `part` (0 to 1) of what was counted lies, within 2.2 %; `None` when
    /// nothing was.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let total: u64 = self.counts.iter().map(|&count| u64::from(count)).sum();
        let wanted = (part * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            total > 0 && seen >= wanted
        })?;
        let micros = ((bucket as f64 + 0.5) / STEPS).exp2();
        Some(Duration::from_nanos((micros * 1000.0) as u64))
    }
}

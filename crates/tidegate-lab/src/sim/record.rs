//! What happened in a run, in bins of time.

use std::time::Duration;

use tidegate_core::admission::Reason;
use tidegate_core::facts::Class;

pub use super::latencies::Latencies;
pub use super::window::Window;

/// The width of a bin.
pub const BIN: Duration = Duration::from_millis(100);

/// How often the state of things is looked at; a whole part of [`BIN`].
pub const LOOK: Duration = Duration::from_millis(10);

/// One run.
#[derive(Clone, Debug)]
pub struct Record {
    /// One per [`BIN`] of simulated time.
    pub bins: Vec<Bin>,
    /// A hash over every event in order.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
}

/// Attempts by class index.
pub type ByClass = [u32; Class::COUNT];

/// What happened within one bin. An arrival counts in the bin in which it was made, an ending in
/// the one in which the client was told or gave up.
#[derive(Clone, Debug, Default)]
pub struct Bin {
    /// First attempts.
    pub first: ByClass,
    /// Attempts that are retries.
    pub retries: ByClass,
    /// Attempts let in by a gateway.
    pub admitted: u32,
    /// Good answers.
    pub good: ByClass,
    /// Refusals by a gateway.
    pub refused: ByClass,
    /// The same by reason, in the order of [`Reason::ALL`].
    pub reasons: [u32; Reason::ALL.len()],
    /// Refusals by the application.
    pub turned_away: ByClass,
    /// Failures of the application, and connections that broke off.
    pub failed: ByClass,
    /// Attempts whose client gave up.
    pub timed_out: ByClass,
    /// Work the application finished for clients who had gone.
    pub wasted: u32,
    /// Times of good answers, from the attempt's arrival.
    pub latencies: Latencies,
    /// The limit at the bin's end, over all gateways.
    pub limit: f32,
    /// Time in which a limit was being probed, in whole [`LOOK`]s.
    pub probing: Duration,
    /// In flight at the bin's end, over all gateways.
    pub in_flight: u32,
    /// Time spent in the application, summed over all attempts inside: divided by [`BIN`] it is the
    /// mean number in flight.
    pub occupied: Duration,
    /// Waiting in gateways at the bin's end.
    pub queued: u32,
    /// Waiting inside the application at the bin's end.
    pub backlog: u32,
    /// The most that waited at one moment, in gateways and inside the application together.
    pub queue_most: u32,
    /// By gateway; empty where there is only one.
    pub by_gateway: Vec<GatewayCounts>,
    /// Learnt baseline of each gateway at the bin's end, in nanoseconds; 0 for none.
    pub baselines_ns: Vec<u64>,
}

/// What one gateway got and gave within a bin.
#[derive(Clone, Copy, Debug, Default)]
pub struct GatewayCounts {
    /// Attempts sent to it.
    pub offered: u32,
    /// Good answers through it.
    pub good: u32,
}

impl Record {
    /// What happened from `from` on and before `to`, to the bin.
    pub fn window(&self, from: Duration, to: Duration) -> Window<'_> {
        let bin = |at: Duration| (at.as_nanos() / BIN.as_nanos()) as usize;
        let to = bin(to).min(self.bins.len());
        Window::new(&self.bins[bin(from).min(to)..to])
    }
}

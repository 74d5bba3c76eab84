//! Writes down what happens while it does.

use std::time::Duration;

use tidegate_core::admission::Reason;
use tidegate_core::facts::Class;
use tidegate_core::time::Mono;

use super::record::{BIN, Bin, GatewayCounts, LOOK, Record};
use super::trace::{Event, Trace};
use crate::scenario::Scenario;

/// Builds a [`Record`].
#[derive(Debug)]
pub(super) struct Recorder {
    bins: Vec<Bin>,
    trace: Trace,
    inside: u32,
    queued: u32,
    /// Up to when the time in the application is written down.
    since: Mono,
}

impl Recorder {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let bins = scenario.length.as_nanos().div_ceil(BIN.as_nanos()) as usize;
        let doors = match scenario.gateways.count {
            0 | 1 => 0,
            several => several as usize,
        };
        let bin = Bin {
            by_gateway: vec![GatewayCounts::default(); doors],
            ..Bin::default()
        };
        Self {
            bins: vec![bin; bins.max(1)],
            trace: Trace::default(),
            inside: 0,
            queued: 0,
            since: Mono::default(),
        }
    }

    pub(super) const fn event(&mut self, now: Mono, event: Event, whom: u32, how: u16) {
        self.trace.push(now, event, whom, how);
    }

    pub(super) fn arrived(&mut self, now: Mono, class: Class, attempt: u32, door: u16) {
        let bin = self.bin(now);
        if attempt == 1 {
            bin.first[class.index()] += 1;
        } else {
            bin.retries[class.index()] += 1;
        }
        if let Some(gateway) = bin.by_gateway.get_mut(usize::from(door)) {
            gateway.offered += 1;
        }
    }

    /// `more` wait in gateways than before, and `inside` more in the application.
    pub(super) fn moved(&mut self, now: Mono, more: i32, inside: i32) {
        self.occupied(now);
        self.queued = self.queued.wrapping_add_signed(more);
        self.inside = self.inside.wrapping_add_signed(inside);
        if inside > 0 {
            self.bin(now).admitted += 1;
        }
    }

    /// The longest queue, with the `backlog` that is inside the application.
    pub(super) fn queue(&mut self, now: Mono, backlog: u32) {
        let waiting = self.queued + backlog;
        let bin = self.bin(now);
        bin.queue_most = bin.queue_most.max(waiting);
    }

    pub(super) fn good(&mut self, now: Mono, class: Class, took: Duration, door: u16) {
        let bin = self.bin(now);
        bin.good[class.index()] += 1;
        bin.latencies.add(took);
        if let Some(gateway) = bin.by_gateway.get_mut(usize::from(door)) {
            gateway.good += 1;
        }
    }

    pub(super) fn refused(&mut self, now: Mono, class: Class, reason: Reason) {
        let bin = self.bin(now);
        bin.refused[class.index()] += 1;
        bin.reasons[reason as usize] += 1;
    }

    pub(super) fn turned_away(&mut self, now: Mono, class: Class) {
        self.bin(now).turned_away[class.index()] += 1;
    }

    pub(super) fn failed(&mut self, now: Mono, class: Class) {
        self.bin(now).failed[class.index()] += 1;
    }

    /// A client gave up at `at`, which may be some time ago.
    pub(super) fn timed_out(&mut self, at: Mono, class: Class) {
        self.bin(at).timed_out[class.index()] += 1;
    }

    pub(super) fn wasted(&mut self, now: Mono) {
        self.bin(now).wasted += 1;
    }

    /// How things stand at the end of what lies before `now`: limit, whether it is being probed,
    /// and baseline of each gateway.
    pub(super) fn look(
        &mut self,
        now: Mono,
        gateways: impl Iterator<Item = (u32, bool, Option<Duration>)>,
        backlog: u32,
    ) {
        self.occupied(now);
        let (inside, queued) = (self.inside, self.queued);
        let bin = self.bin(now.minus(Duration::from_nanos(1)));
        bin.in_flight = inside;
        bin.queued = queued;
        bin.backlog = backlog;
        bin.queue_most = bin.queue_most.max(queued + backlog);
        bin.limit = 0.0;
        bin.baselines_ns.clear();
        let mut any_probing = false;
        for (limit, probing, baseline) in gateways {
            bin.limit += limit as f32;
            any_probing |= probing;
            let baseline = baseline.unwrap_or_default().as_nanos();
            bin.baselines_ns.push(baseline as u64);
        }
        if any_probing {
            bin.probing += LOOK;
        }
    }

    pub(super) fn finish(self) -> Record {
        Record {
            bins: self.bins,
            hash: self.trace.hash(),
            events: self.trace.events(),
        }
    }

    /// The time since the last change belongs to one bin, as somebody looks at the end of each.
    fn occupied(&mut self, now: Mono) {
        let inside = self.inside;
        let since = std::mem::replace(&mut self.since, now);
        if inside > 0 {
            self.bin(since).occupied += now.since(since) * inside;
        }
    }

    fn bin(&mut self, now: Mono) -> &mut Bin {
        let index = (now.as_nanos() / BIN.as_nanos() as u64) as usize;
        let last = self.bins.len() - 1;
        &mut self.bins[index.min(last)]
    }
}

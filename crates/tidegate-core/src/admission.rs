//! skeleton
use crate::bulkhead::Bulkheads;
use crate::facts::{Class, Facts, GroupId};
use crate::limit::{Ending, Limit};
use crate::queue::Discipline;
use crate::time::Mono;
use std::time::Duration;

/// Configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The longest time in the queue plus service that is aimed at.
    pub hold: Duration,
    /// Most entries in the queue, whatever the bound works out to.
    pub queue_max: u32,
    /// Most bytes that queued requests may hold together.
    pub queue_bytes_max: u64,
    /// Order and dropping.
    pub discipline: Discipline,
    /// Reserves and shares.
    pub bulkheads: Bulkheads,
    /// Number of routes (RouteId < routes).
    pub routes: u16,
}

/// One request known to an [`Admission`]; stale tickets are recognised and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    index: u32,
    generation: u32,
}
impl Ticket {
    /// Dense index, < number of requests ever known at once; the shell keeps its own table by it.
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// Why a request was refused by admission (at the door or later).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Its deadline had passed when it arrived.
    ExpiredOnArrival,
    /// It could not be done before its deadline, given the queue ahead of it.
    DeadlineEnqueue,
    /// The queue is full and nothing lower was in it.
    QueueFull,
    /// The queue's byte budget is spent.
    QueueBytes,
    /// The queue share of its bulkhead is full.
    GroupFull,
    /// A higher class took its place in the queue.
    Displaced,
    /// It had waited as long as anything may wait.
    QueueTime,
    /// Its deadline came too near while it waited.
    ExpiredInQueue,
    /// CoDel dropped it.
    CoDel,
}
impl Reason {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::ExpiredOnArrival,
        Self::DeadlineEnqueue,
        Self::QueueFull,
        Self::QueueBytes,
        Self::GroupFull,
        Self::Displaced,
        Self::QueueTime,
        Self::ExpiredInQueue,
        Self::CoDel,
    ];
    /// Metric label.
    pub const fn name(self) -> &'static str {
        "x"
    }
}

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It holds a slot from now on; end it with [`Admission::done`].
    Admitted(Ticket),
    /// It waits; an [`Action`] ends the wait. Call [`Admission::poll`] at `leave_at` at the latest.
    Queued {
        /// ticket
        ticket: Ticket,
        /// when it leaves the queue at the latest
        leave_at: Mono,
    },
    /// No.
    Refused(Reason),
}

/// What the shell must do for a queued request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It holds a slot from now on.
    Start {
        /// ticket
        ticket: Ticket,
        /// time spent in the queue
        waited: Duration,
    },
    /// It is out of the queue; refuse it. The ticket is void.
    Evict {
        /// ticket
        ticket: Ticket,
        /// why
        reason: Reason,
        /// time spent in the queue
        waited: Duration,
    },
}

/// Gauges for metrics and status.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// limit
    pub limit: u32,
    /// in flight in all
    pub in_flight: u32,
    /// by class
    pub in_flight_by_class: [u32; Class::COUNT],
    /// by group
    pub in_flight_by_group: Vec<u32>,
    /// queued in all
    pub queued: u32,
    /// by class
    pub queued_by_class: [u32; Class::COUNT],
    /// bytes held by queued requests
    pub queued_bytes: u64,
    /// bound of the queue now
    pub queue_bound: u32,
    /// longest wait now (W)
    pub wait_max: Duration,
    /// learnt mean slot time; None before the first
    pub service_mean: Option<Duration>,
    /// learnt completions per second
    pub throughput: f64,
}

/// The decision who may enter an application, who waits, and who is turned away.
pub struct Admission {
    _l: Box<dyn Limit>,
}
impl Admission {
    /// New.
    pub fn new(_config: Config, limit: Box<dyn Limit>) -> Self {
        Self { _l: limit }
    }
    /// Why an arrival of this class would be refused now whatever else it carries; None = might be let in.
    pub fn peek(&self, _now: Mono, _class: Class, _group: GroupId) -> Option<Reason> {
        todo!()
    }
    /// A request arrives. Others may be displaced: see `out`.
    pub fn arrive(&mut self, _now: Mono, _facts: &Facts, _out: &mut Vec<Action>) -> Arrival {
        todo!()
    }
    /// Shadow mode: a request arrives and is let in whatever the verdict; the verdict is returned beside.
    pub fn arrive_shadow(&mut self, _now: Mono, _facts: &Facts) -> (Ticket, Verdict) {
        todo!()
    }
    /// The first byte of the answer is here: the latency the limiter learns from.
    pub fn first_byte(&mut self, _now: Mono, _ticket: Ticket) {
        todo!()
    }
    /// The slot is free again.
    pub fn done(&mut self, _now: Mono, _ticket: Ticket, _ending: Ending, _out: &mut Vec<Action>) {
        todo!()
    }
    /// A queued request's client has gone. Returns how long it had waited; None if it was not queued any more.
    pub fn cancel(
        &mut self,
        _now: Mono,
        _ticket: Ticket,
        _out: &mut Vec<Action>,
    ) -> Option<Duration> {
        todo!()
    }
    /// Time has passed.
    pub fn poll(&mut self, _now: Mono, _out: &mut Vec<Action>) {
        todo!()
    }
    /// When `poll` must be called at the latest.
    pub fn next_deadline(&self) -> Option<Mono> {
        todo!()
    }
    /// How long it takes to work off what is queued now; base of Retry-After.
    pub fn drain(&self) -> Duration {
        todo!()
    }
    /// Gauges.
    pub fn snapshot(&self) -> Snapshot {
        todo!()
    }
}
/// What enforcing would have done with a request that was let in by shadow mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// let in at once
    Admit,
    /// made to wait
    Wait,
    /// refused
    Refuse(Reason),
}

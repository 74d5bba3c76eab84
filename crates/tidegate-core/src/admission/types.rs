//! What goes into and comes out of admission.

use std::time::Duration;

use super::{Level, Ticket};
use crate::bulkhead::Bulkheads;
use crate::facts::Class;
use crate::limit::Insight;
use crate::queue::Discipline;
use crate::time::Mono;

/// How one application is protected.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The longest time in queue and service together that is aimed at. The longest wait is what
    /// the mean service time leaves of it, and at least half of it.
    pub hold: Duration,
    /// Most requests in the queue, whatever its bound works out to; 0 for no queue at all.
    pub queue_max: u32,
    /// Most bytes that queued requests may hold together.
    pub queue_bytes_max: u64,
    /// Order and dropping inside a class.
    pub discipline: Discipline,
    /// Reserves of classes and shares of groups.
    pub bulkheads: Bulkheads,
    /// How many routes have service times of their own; route ids stay below it.
    pub routes: u16,
    /// Whether overload that feeds itself is looked for and escaped from.
    pub escape: bool,
    /// Whether users are admitted by their cohort, so that under shedding a user is served as a
    /// whole or not at all. Needs [`Facts::cohort`](crate::facts::Facts::cohort).
    pub level: bool,
}

/// Why a request was refused, at the door or while it waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Its deadline had passed when it arrived.
    ExpiredOnArrival,
    /// With what is ahead of it, it could not be done before its deadline.
    DeadlineEnqueue,
    /// The queue is full, and not of anything lower.
    QueueFull,
    /// The queue may not hold as many bytes.
    QueueBytes,
    /// The part of the queue that its group may use is full.
    GroupFull,
    /// A higher class took its place in the queue.
    Displaced,
    /// It had waited for as long as anything may wait.
    QueueTime,
    /// While it waited, its deadline came too near to be met.
    ExpiredInQueue,
    /// CoDel dropped it at the head of a standing queue.
    CoDel,
    /// Its class, or its part of the users, is over the admission level.
    Level,
    /// During an escape from overload that feeds itself its class is not let in.
    Escape,
    /// During an escape it found no free slot, and it is another try.
    RetryFirst,
    /// As an escape began it waited without a chance to be done before its deadline.
    Flush,
    /// The whole fleet lets in less than usual; see [`Slowdown`](super::Slowdown).
    Fleet,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 14] = [
        Self::ExpiredOnArrival,
        Self::DeadlineEnqueue,
        Self::QueueFull,
        Self::QueueBytes,
        Self::GroupFull,
        Self::Displaced,
        Self::QueueTime,
        Self::ExpiredInQueue,
        Self::CoDel,
        Self::Level,
        Self::Escape,
        Self::RetryFirst,
        Self::Flush,
        Self::Fleet,
    ];

    /// The name used in metrics and headers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExpiredOnArrival => "expired",
            Self::DeadlineEnqueue => "deadline_enqueue",
            Self::QueueFull => "queue_full",
            Self::QueueBytes => "queue_bytes",
            Self::GroupFull => "group_full",
            Self::Displaced => "displaced",
            Self::QueueTime => "queue_time",
            Self::ExpiredInQueue => "expired_in_queue",
            Self::CoDel => "codel",
            Self::Level => "level",
            Self::Escape => "escape",
            Self::RetryFirst => "retry_first",
            Self::Flush => "flush",
            Self::Fleet => "fleet",
        }
    }
}

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an admitted request holds a slot until it is done"]
pub enum Arrival {
    /// It holds a slot from now on.
    Admitted(Ticket),
    /// It waits until an [`Action`] says what became of it.
    Queued {
        /// What the action will name.
        ticket: Ticket,
        /// When it leaves the queue at the latest.
        leave_at: Mono,
    },
    /// It does not come in.
    Refused(Reason),
}

/// What became of a request that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It holds a slot from now on.
    Start {
        /// Which request.
        ticket: Ticket,
        /// Time in the queue.
        waited: Duration,
    },
    /// It is out of the queue and is to be refused; its ticket is void.
    Evict {
        /// Which request.
        ticket: Ticket,
        /// Why.
        reason: Reason,
        /// Time in the queue.
        waited: Duration,
    },
}

/// What would have been done with a request that shadow mode let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Started at once.
    Admit,
    /// Made to wait.
    Wait,
    /// Refused.
    Refuse(Reason),
}

/// What began an escape from overload that feeds itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// Most of the finished work came too late, for two windows.
    Waste,
    /// The same for one window, after a time in which nothing finished at all.
    Stall,
}

impl Trigger {
    /// Every trigger.
    pub const ALL: [Self; 2] = [Self::Waste, Self::Stall];

    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Position in [`Trigger::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name used in metrics and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waste => "waste",
            Self::Stall => "stall",
        }
    }
}

/// What was done so far against overload that feeds itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recovery {
    /// What began the escape that is under way.
    pub escaping: Option<Trigger>,
    /// Escapes begun, by trigger index.
    pub begun: [u64; Trigger::COUNT],
    /// Time spent in them, the present one included.
    pub lasted: Duration,
    /// Requests that were taken out of the queue as they began.
    pub flushed: u64,
    /// How often one at a time was let in, to drain a queue inside the application.
    pub drains: u64,
}

/// Figures at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// How many may be inside.
    pub limit: u32,
    /// What the limit has learnt.
    pub insight: Insight,
    /// How many are inside.
    pub in_flight: u32,
    /// The same by class index.
    pub in_flight_by_class: [u32; Class::COUNT],
    /// The same by group id.
    pub in_flight_by_group: Vec<u32>,
    /// How many wait.
    pub queued: u32,
    /// The same by class index.
    pub queued_by_class: [u32; Class::COUNT],
    /// Bytes that may be held by those who wait.
    pub queued_bytes: u64,
    /// How many may wait.
    pub queue_bound: u32,
    /// The longest wait.
    pub wait_max: Duration,
    /// Mean time in a slot; `None` before anything has finished.
    pub service_mean: Option<Duration>,
    /// Requests finished per second, over the last whole second that saw one.
    pub throughput: f64,
    /// The part of the work that was in time, over the last one to two seconds in which any ended or
    /// was given up by its caller; `None` before any has.
    pub in_time: Option<f64>,
    /// Who is let in.
    pub level: Level,
    /// What was done against overload that feeds itself.
    pub recovery: Recovery,
}

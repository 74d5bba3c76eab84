//! Who may enter an application, who waits, and who is turned away.
//!
//! Events come in as method calls with the time; what to do comes out as an [`Arrival`] for the
//! caller itself and as [`Action`]s for requests that were waiting. Calling order for one request:
//! [`Admission::arrive`]; while queued, [`Admission::poll`] at the stated time at the latest, or
//! [`Admission::cancel`] when its client leaves; once it holds a slot, [`Admission::first_byte`] and
//! then [`Admission::done`], exactly once.
//!
//! What holds after every call: a request that could start does not wait; nothing starts beyond the
//! limit; nobody waits longer than the longest wait or past the point where the deadline could
//! still be met.

mod ticket;
mod types;

use std::time::Duration;

use crate::bulkhead::Occupancy;
use crate::codel::CoDel;
use crate::facts::{Class, Facts, GroupId};
use crate::limit::{Ending, Limit, Sample};
use crate::queue::{Discipline, Entry, Key, Queue};
use crate::service::ServiceTimes;
use crate::time::Mono;

pub use ticket::Ticket;
use ticket::{Running, State, Tickets, Waiting};
pub use types::{Action, Arrival, Config, Reason, Snapshot, Verdict};

/// The bound of the queue before a service time is known; deadlines still apply.
const BOUND_UNKNOWN: u32 = 1024;

/// The bound of the queue is never less, unless it is configured to be, so that chance alone refuses
/// nobody on a small application.
pub const BOUND_MIN: u32 = 4;

/// CoDel's interval, in longest waits.
const CODEL_INTERVAL: u32 = 5;

/// The state of one application's admission.
pub struct Admission {
    config: Config,
    limit: Box<dyn Limit>,
    occupancy: Occupancy,
    queue: Queue,
    service: ServiceTimes,
    tickets: Tickets,
    codel: CoDel,
    throughput: Throughput,
    latest: Mono,
}

impl Admission {
    /// An idle application under `limit`.
    pub fn new(config: Config, limit: Box<dyn Limit>) -> Self {
        let occupancy = Occupancy::new(config.bulkheads.clone());
        Self {
            queue: Queue::new(occupancy.groups()),
            service: ServiceTimes::new(config.routes),
            config,
            limit,
            occupancy,
            tickets: Tickets::default(),
            codel: CoDel::default(),
            throughput: Throughput::default(),
            latest: Mono::default(),
        }
    }

    /// Why a request of `class` in `group` would be refused now whatever else it carries; `None`
    /// when it may have a chance. For refusing before anything is spent on a request.
    pub fn peek(&mut self, now: Mono, class: Class, group: GroupId) -> Option<Reason> {
        let now = self.advance(now);
        let reason = if self.occupancy.admits(now, self.limit.limit(), class, group) {
            None
        } else {
            self.room_for(class, group).err()
        };
        if reason.is_some() {
            self.occupancy.see(now, class);
            self.limit.refused(now);
        }
        reason
    }

    /// A request arrives: it starts, waits, or is refused. Lower classes may have to leave the
    /// queue for it; `out` says so.
    pub fn arrive(&mut self, now: Mono, facts: &Facts, out: &mut Vec<Action>) -> Arrival {
        let now = self.advance(now);
        self.occupancy.see(now, facts.class);
        if facts.deadline <= now {
            return Arrival::Refused(Reason::ExpiredOnArrival);
        }
        self.settle(now, out);

        if self
            .occupancy
            .admits(now, self.limit.limit(), facts.class, facts.group)
        {
            let running = self.start(now, facts);
            return Arrival::Admitted(self.tickets.issue(*facts, State::Running(running)));
        }
        self.limit.refused(now);
        match self.make_room(now, facts, out) {
            Ok(()) => self.enqueue(now, facts),
            Err(reason) => Arrival::Refused(reason),
        }
    }

    /// A request arrives that is let in whatever the verdict: shadow mode.
    ///
    /// What is in flight above the limit stands for the queue, as it waits inside the application
    /// instead of in front of it; a class counts only what is not below it.
    pub fn arrive_shadow(&mut self, now: Mono, facts: &Facts) -> (Ticket, Verdict) {
        let now = self.advance(now);
        self.occupancy.see(now, facts.class);
        let limit = self.limit.limit();
        let by_class = self.occupancy.by_class();
        let before: u32 = by_class[..=facts.class.index()].iter().sum();
        let ahead = before.saturating_sub(limit);

        let verdict = if facts.deadline <= now {
            Verdict::Refuse(Reason::ExpiredOnArrival)
        } else if self.occupancy.admits(now, limit, facts.class, facts.group) {
            Verdict::Admit
        } else if ahead >= self.bound() {
            Verdict::Refuse(Reason::QueueFull)
        } else if now + self.work_off(ahead) + self.service.margin(facts.route) > facts.deadline {
            Verdict::Refuse(Reason::DeadlineEnqueue)
        } else {
            Verdict::Wait
        };
        if verdict != Verdict::Admit {
            self.limit.refused(now);
        }
        let running = self.start(now, facts);
        (self.tickets.issue(*facts, State::Running(running)), verdict)
    }

    /// The first byte of the answer is there: the latency that the limit learns from. Later calls
    /// for the same request change nothing.
    pub fn first_byte(&mut self, now: Mono, ticket: Ticket) {
        let now = self.advance(now);
        if let Some(State::Running(running)) = self.tickets.state_mut(ticket) {
            running.first_byte.get_or_insert(now);
        }
    }

    /// The request no longer uses its slot; whoever waits may start.
    pub fn done(&mut self, now: Mono, ticket: Ticket, ending: Ending, out: &mut Vec<Action>) {
        let now = self.advance(now);
        let Some((facts, running)) = self.tickets.running(ticket) else {
            debug_assert!(false, "a request is done once, and only after it started");
            return;
        };
        self.tickets.void(ticket);

        self.limit.finished(
            now,
            &Sample {
                tag: running.tag,
                route: facts.route,
                latency: running.first_byte.unwrap_or(now).since(running.started),
                in_flight: self.occupancy.total(),
                ending,
            },
        );
        if ending != Ending::Ignored {
            self.service.learn(facts.route, now.since(running.started));
            self.throughput.count(now);
        }
        self.occupancy.leave(facts.class, facts.group);
        self.settle(now, out);
    }

    /// The client of a queued request has gone. Returns how long the request had waited, or `None`
    /// when it is not in the queue any more.
    pub fn cancel(&mut self, now: Mono, ticket: Ticket, out: &mut Vec<Action>) -> Option<Duration> {
        let now = self.advance(now);
        let key = self.tickets.waiting(ticket)?.key;
        let entry = self.queue.remove(key);
        self.tickets.void(ticket);
        self.settle(now, out);
        Some(now.since(entry.entered))
    }

    /// Time has passed: whoever has waited for too long leaves.
    pub fn poll(&mut self, now: Mono, out: &mut Vec<Action>) {
        let now = self.advance(now);
        self.settle(now, out);
    }

    /// When [`Admission::poll`] must be called at the latest; `None` while nobody waits.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.queue.first_leave().map(|(at, _)| at)
    }

    /// How long it takes to work off what is queued now: the basis of `Retry-After`.
    pub fn drain(&self) -> Duration {
        self.work_off(self.queue.len())
    }

    /// How many may be inside now.
    pub fn limit(&self) -> u32 {
        self.limit.limit()
    }

    /// Whether `ticket` holds a slot.
    pub(crate) fn is_inside(&self, ticket: Ticket) -> bool {
        self.tickets.running(ticket).is_some()
    }

    /// The figures for metrics and status.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            limit: self.limit.limit(),
            insight: self.limit.insight(),
            in_flight: self.occupancy.total(),
            in_flight_by_class: self.occupancy.by_class(),
            in_flight_by_group: self.occupancy.by_group().to_vec(),
            queued: self.queue.len(),
            queued_by_class: self.queue.len_by_class(),
            queued_bytes: self.queue.bytes(),
            queue_bound: self.bound(),
            wait_max: self.wait_max(),
            service_mean: self.service.mean(),
            throughput: self.throughput.per_second,
        }
    }

    /// Time never runs backwards in here, whatever the callers' readings say.
    fn advance(&mut self, now: Mono) -> Mono {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Lets those leave who must, and those start who can.
    fn settle(&mut self, now: Mono, out: &mut Vec<Action>) {
        while let Some((at, key)) = self.queue.first_leave() {
            if at > now {
                break;
            }
            self.evict(now, key, None, out);
        }
        while let Some(key) = self.next_to_start(now) {
            let entry = *self.queue.entry(key);
            let waited = now.since(entry.entered);
            let facts = self.tickets.facts(entry.owner);
            if now + self.service.margin(facts.route) > facts.deadline {
                self.evict(now, key, Some(Reason::ExpiredInQueue), out);
            } else if self.codel_drops(now, waited) {
                self.evict(now, key, Some(Reason::CoDel), out);
            } else {
                self.queue.remove(key);
                let running = self.start(now, &facts);
                let ticket = self.tickets.set(entry.owner, State::Running(running));
                out.push(Action::Start { ticket, waited });
            }
        }
    }

    /// Whose turn it is, if anybody's: a class below its reserve first, then by class; inside a
    /// class by discipline.
    fn next_to_start(&self, now: Mono) -> Option<Key> {
        let limit = self.limit.limit();
        if self.occupancy.total() >= limit || self.queue.len() == 0 {
            return None;
        }
        let owed = Class::ALL
            .into_iter()
            .filter(|&class| self.occupancy.is_owed(limit, class));
        owed.chain(Class::ALL).find_map(|class| {
            let open = |group| self.occupancy.admits(now, limit, class, group);
            let oldest = self.queue.oldest(class, open)?;
            if self.newest_first(now, oldest) {
                self.queue.newest(class, open)
            } else {
                Some(oldest)
            }
        })
    }

    /// Only the lowest class that waits is the one there is too much of. A higher one is served by
    /// then or soon; newest first would starve a few of it for as long as a burst lasts, and serve
    /// the class below afterwards.
    fn newest_first(&self, now: Mono, oldest: Key) -> bool {
        let Entry { class, entered, .. } = *self.queue.entry(oldest);
        self.config.discipline == Discipline::AdaptiveLifo
            && now.since(entered) > self.wait_max() / 2
            && self.queue.lowest_class(|_| true) == Some(class)
    }

    fn codel_drops(&mut self, now: Mono, waited: Duration) -> bool {
        let wait_max = self.wait_max();
        self.config.discipline == Discipline::CoDel
            && self
                .codel
                .drops(now, waited, wait_max / 2, wait_max * CODEL_INTERVAL)
    }

    fn start(&mut self, now: Mono, facts: &Facts) -> Running {
        self.occupancy.enter(facts.class, facts.group);
        let tag = self
            .limit
            .admitted(now, facts.route, self.occupancy.total());
        Running {
            started: now,
            first_byte: None,
            tag,
        }
    }

    fn enqueue(&mut self, now: Mono, facts: &Facts) -> Arrival {
        let patience_ends = now + self.wait_max();
        let too_late = facts.deadline.minus(self.service.margin(facts.route));
        let leave_at = patience_ends.min(too_late);
        let owner = self.tickets.reserve(*facts);
        let key = self.queue.push(Entry {
            owner,
            class: facts.class,
            group: facts.group,
            entered: now,
            leave_at,
            bytes: facts.bytes,
        });
        let expires = too_late < patience_ends;
        let ticket = self
            .tickets
            .set(owner, State::Waiting(Waiting { key, expires }));
        Arrival::Queued { ticket, leave_at }
    }

    /// Makes sure that `facts` may wait, at the cost of lower classes if need be.
    fn make_room(&mut self, now: Mono, facts: &Facts, out: &mut Vec<Action>) -> Result<(), Reason> {
        let wait = self.estimated_wait(now, facts);
        if now + wait + self.service.margin(facts.route) > facts.deadline {
            return Err(Reason::DeadlineEnqueue);
        }
        let bytes = u64::from(facts.bytes);
        let bytes_max = self.config.queue_bytes_max;
        let kept = self.queue.bytes() - self.queue.bytes_below(facts.class);
        if kept.saturating_add(bytes) > bytes_max {
            return Err(Reason::QueueBytes);
        }

        if let Some(displaced) = self.room_for(facts.class, facts.group)? {
            self.evict(now, displaced, Some(Reason::Displaced), out);
        }
        while self.queue.bytes() + bytes > bytes_max {
            let Some(displaced) = self.oldest_of_lowest(|_| true) else {
                break;
            };
            self.evict(now, displaced, Some(Reason::Displaced), out);
        }
        Ok(())
    }

    /// Whether one more of `class` in `group` may wait, and who has to leave for it.
    fn room_for(&self, class: Class, group: GroupId) -> Result<Option<Key>, Reason> {
        let displace = |key: Option<Key>, reason| match key {
            Some(key) if self.queue.entry(key).class.is_below(class) => Ok(Some(key)),
            _ => Err(reason),
        };
        let bound = self.bound();
        if self
            .group_bound(bound, group)
            .is_some_and(|most| self.queue.len_in_group(group) >= most)
        {
            return displace(
                self.oldest_of_lowest(|other| other == group),
                Reason::GroupFull,
            );
        }
        if self.queue.len() >= bound {
            return displace(self.oldest_of_lowest(|_| true), Reason::QueueFull);
        }
        Ok(None)
    }

    fn oldest_of_lowest(&self, within: impl Fn(GroupId) -> bool) -> Option<Key> {
        let lowest = self.queue.lowest_class(&within)?;
        self.queue.oldest(lowest, within)
    }

    fn evict(&mut self, now: Mono, key: Key, reason: Option<Reason>, out: &mut Vec<Action>) {
        let entry = self.queue.remove(key);
        let ticket = self.tickets.ticket(entry.owner);
        let expires = self
            .tickets
            .waiting(ticket)
            .is_some_and(|waiting| waiting.expires);
        let timed = if expires {
            Reason::ExpiredInQueue
        } else {
            Reason::QueueTime
        };
        self.tickets.void(ticket);
        let waited = now.since(entry.entered);
        out.push(Action::Evict {
            ticket,
            reason: reason.unwrap_or(timed),
            waited,
        });
    }

    /// W: the longest time in the queue. At least half of `hold`, also for an application whose
    /// service time leaves nothing of it: without any queue, chance alone would refuse many.
    fn wait_max(&self) -> Duration {
        let hold = self.config.hold;
        let left = self
            .service
            .mean()
            .map_or(Duration::ZERO, |mean| hold.saturating_sub(mean));
        left.max(hold / 2)
    }

    /// Q: as many as can be worked off within the longest wait. limit ÷ mean service time is the
    /// throughput at the limit (Little's law), also while the application is idle and a count of
    /// completions would say next to nothing.
    fn bound(&self) -> u32 {
        let bound = self.service.mean().map_or(BOUND_UNKNOWN, |mean| {
            let mean_ns = mean.as_nanos().max(1);
            let bound = u128::from(self.limit.limit()) * self.wait_max().as_nanos() / mean_ns;
            u32::try_from(bound).unwrap_or(u32::MAX).max(BOUND_MIN)
        });
        bound.min(self.config.queue_max)
    }

    /// A capped group's part of the queue is its part of the slots: it could not work off more in
    /// time. `None` for a group that may use every slot.
    fn group_bound(&self, bound: u32, group: GroupId) -> Option<u32> {
        let limit = self.limit.limit();
        let cap = self.occupancy.cap(limit, group);
        let part = (u64::from(bound) * u64::from(cap)).div_ceil(u64::from(limit));
        (cap < limit).then_some(part as u32)
    }

    /// How long a request would wait behind those that go first.
    fn estimated_wait(&self, now: Mono, facts: &Facts) -> Duration {
        let by_class = self.queue.len_by_class();
        let higher: u32 = by_class[..facts.class.index()].iter().sum();
        let overtakes = self
            .queue
            .oldest(facts.class, |_| true)
            .is_some_and(|oldest| self.newest_first(now, oldest));
        let same = if overtakes {
            0
        } else {
            by_class[facts.class.index()]
        };
        self.work_off(higher + same)
    }

    fn work_off(&self, requests: u32) -> Duration {
        let mean = self.service.mean().unwrap_or_default();
        mean.mul_f64(f64::from(requests) / f64::from(self.limit.limit()))
    }
}

/// Completions per second, counted over whole seconds.
#[derive(Debug, Default)]
struct Throughput {
    since: Mono,
    count: u32,
    per_second: f64,
}

impl Throughput {
    fn count(&mut self, now: Mono) {
        let elapsed = now.since(self.since).as_secs_f64();
        if elapsed >= 1.0 {
            self.per_second = f64::from(self.count) / elapsed;
            self.count = 0;
            self.since = now;
        }
        self.count = self.count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests;

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

mod demand;
mod escape;
mod level;
mod slowdown;
mod surplus;
mod throughput;
mod ticket;
mod types;
mod waiting;
mod watch;
mod worth;

use std::time::Duration;

use crate::bulkhead::Occupancy;
use crate::codel::CoDel;
use crate::facts::{Class, Facts};
use crate::limit::pooled::{Report, Share};
use crate::limit::{Change, Ending, Learnt, Limit, Sample};
use crate::queue::{Discipline, Key, Queue};
use crate::service::ServiceTimes;
use crate::time::Mono;

use escape::Escape;
pub use level::Level;
use level::Leveller;
pub use slowdown::Slowdown;
use surplus::Surplus;
use throughput::Throughput;
pub use ticket::Ticket;
use ticket::{Running, Tickets};
pub use types::{Action, Arrival, Config, Reason, Recovery, Snapshot, Trigger, Verdict};
pub use waiting::BOUND_MIN;
use worth::Worth;

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
    worth: Worth,
    escape: Option<Escape>,
    leveller: Option<Leveller>,
    surplus: Surplus,
    /// No more than so many may be inside, until then.
    cap: Option<(u32, Mono)>,
    latest: Mono,
    /// Time in slots until then, of all who are or were inside.
    occupied: Duration,
}

impl Admission {
    /// An idle application under `limit`.
    pub fn new(config: Config, limit: Box<dyn Limit>) -> Self {
        let occupancy = Occupancy::new(config.bulkheads.clone());
        Self {
            queue: Queue::new(occupancy.groups()),
            service: ServiceTimes::new(config.routes),
            limit,
            occupancy,
            tickets: Tickets::new(),
            codel: CoDel::default(),
            throughput: Throughput::default(),
            worth: Worth::default(),
            escape: config.escape.then(Escape::new),
            leveller: config.level.then(Leveller::new),
            surplus: Surplus::default(),
            cap: None,
            latest: Mono::default(),
            occupied: Duration::ZERO,
            config,
        }
    }

    /// Why a request like `facts` would be refused now; `None` when it may have a chance. For refusing
    /// before anything is spent on a request: what is not known of it yet is to be given as what is best
    /// for it. A refusal counts like one on arrival. A limit that rises with it lets those who wait start
    /// with the next other call.
    pub fn peek(&mut self, now: Mono, facts: &Facts) -> Option<Reason> {
        let now = self.advance(now);
        let reason = self.hindrance(now, facts)?;
        self.occupancy.see(now, facts.class);
        if reason == Reason::ExpiredOnArrival {
            return Some(reason);
        }
        self.asked(facts);
        match reason {
            Reason::Escape => {}
            Reason::Level => self.limit_is_short(now),
            _ => {
                self.full(now, facts.group);
                self.turn_away(now, facts, reason);
            }
        }
        Some(reason)
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

        self.asked(facts);
        if self.keeps_out(facts.class) {
            return Arrival::Refused(Reason::Escape);
        }
        let slots = self.slots();
        if !self.level().admits(facts.class, facts.cohort) {
            self.limit_is_short(now);
            self.settle_risen(now, slots, out);
            return Arrival::Refused(Reason::Level);
        }
        if let Some(ticket) = self.admit(now, facts) {
            self.settle_risen(now, slots, out);
            return Arrival::Admitted(ticket);
        }
        self.full(now, facts.group);
        if self.settle_risen(now, slots, out)
            && let Some(ticket) = self.admit(now, facts)
        {
            return Arrival::Admitted(ticket);
        }
        if facts.retry && self.is_escaping() {
            return Arrival::Refused(Reason::RetryFirst);
        }
        match self.make_room(now, facts, out) {
            Ok(()) => self.enqueue(now, facts),
            Err(reason) => {
                self.turn_away(now, facts, reason);
                Arrival::Refused(reason)
            }
        }
    }

    /// A request arrives that is let in whatever the verdict: shadow mode.
    ///
    /// What is in flight above the limit stands for the queue, as it waits inside the application
    /// instead of in front of it; a class counts only what is not below it.
    pub fn arrive_shadow(&mut self, now: Mono, facts: &Facts) -> (Ticket, Verdict) {
        let now = self.advance(now);
        self.occupancy.see(now, facts.class);
        let limit = self.slots();
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
        (self.tickets.admit(running), verdict)
    }

    /// The first byte of the answer is there: the latency that the limit learns from. Later calls
    /// for the same request change nothing.
    pub fn first_byte(&mut self, now: Mono, ticket: Ticket) {
        let now = self.advance(now);
        if let Some(running) = self.tickets.running_mut(ticket) {
            running.first_byte.get_or_insert(now);
        }
    }

    /// Nobody waits any more for the answer to a request that is inside: its client has left, or was
    /// told that it takes too long. Its slot stays taken until [`Admission::done`].
    pub fn abandoned(&mut self, now: Mono, ticket: Ticket) {
        let now = self.advance(now);
        if let Some(running) = self.tickets.running_mut(ticket)
            && !std::mem::replace(&mut running.abandoned, true)
        {
            // It may stay inside for long, and what it was worth is known now.
            self.worth.ended(now, false);
        }
    }

    /// The request no longer uses its slot; whoever waits may start.
    pub fn done(&mut self, now: Mono, ticket: Ticket, ending: Ending, out: &mut Vec<Action>) {
        let now = self.advance(now);
        let Some(running) = self.tickets.finish(ticket) else {
            debug_assert!(false, "a request is done once, and only after it started");
            return;
        };
        let facts = running.facts;

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
            let in_flight = self.occupancy.total();
            self.service
                .finished(now, running.started, in_flight, facts.route);
            self.throughput.count(now);
        }
        self.judge(now, &running, ending);
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

    /// The limit is one that several gateways have in common, and this is our share of it now. Those
    /// who wait may start. Changes nothing where the limit is our own.
    pub fn share(&mut self, now: Mono, share: Share, out: &mut Vec<Action>) {
        let now = self.advance(now);
        if let Some(leaf) = self.limit.pooled() {
            leaf.take(now, share);
            self.settle(now, out);
        }
    }

    /// No more than `most` may be inside until `until`, whatever the limit is; at least one. Those who wait may start
    /// when that is more than before.
    pub fn cap(&mut self, now: Mono, most: u32, until: Mono, out: &mut Vec<Action>) {
        let now = self.advance(now);
        self.cap = Some((most.max(1), until));
        self.settle(now, out);
    }

    /// What to tell the hub of a limit that several gateways have in common; `None` where it is our
    /// own.
    pub fn report(&mut self, now: Mono) -> Option<Report> {
        let now = self.advance(now);
        self.limit.pooled().map(|leaf| leaf.report(now))
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
        self.slots()
    }

    /// Whether `ticket` holds a slot.
    pub(crate) fn is_inside(&self, ticket: Ticket) -> bool {
        self.tickets.is_running(ticket)
    }

    /// The last changes of the limit and what led to them, the oldest first.
    pub fn limit_changes(&self) -> Vec<Change> {
        self.limit.changes()
    }

    /// What the limit of a later admission may start from.
    pub fn learnt(&self) -> Option<Learnt> {
        self.limit.learnt()
    }

    /// Who is let in. Whoever stands in front may refuse by it before anything is spent.
    pub fn level(&self) -> Level {
        (self.leveller.as_ref()).map_or(Level::EVERYBODY, Leveller::level)
    }

    /// Time in slots until `now`, added up over all who are or were inside. What it grew by in a time, through that time, is how
    /// many were inside in the mean, between looks as well: one look a second at requests that come by the second would see
    /// always the same of them.
    pub fn occupied(&self, now: Mono) -> Duration {
        let since = now.since(self.latest);
        let inside = since.saturating_mul(self.occupancy.total());
        self.occupied.saturating_add(inside)
    }

    /// The figures for metrics and status.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            limit: self.slots(),
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
            in_time: self.worth.part_in_time(),
            level: self.level(),
            recovery: (self.escape.as_ref())
                .map_or_else(Recovery::default, |escape| escape.recovery(self.latest)),
        }
    }

    /// Time never runs backwards in here, whatever the callers' readings say.
    fn advance(&mut self, now: Mono) -> Mono {
        self.occupied = self.occupied(now);
        self.latest = self.latest.max(now);
        self.latest
    }

    /// A limit may rise with what it was just told: then others may start. Whether that is so.
    fn settle_risen(&mut self, now: Mono, slots: u32, out: &mut Vec<Action>) -> bool {
        let risen = self.slots() > slots;
        if risen {
            self.settle(now, out);
        }
        risen
    }

    /// A slot for a request that waits for nobody, if there is one.
    fn admit(&mut self, now: Mono, facts: &Facts) -> Option<Ticket> {
        let Facts { class, group, .. } = *facts;
        self.occupancy
            .admits(now, self.slots(), class, group)
            .then(|| {
                let running = self.start(now, facts);
                self.tickets.admit(running)
            })
    }

    /// Lets those leave who must, and those start who can.
    fn settle(&mut self, now: Mono, out: &mut Vec<Action>) {
        self.review(now, out);
        while let Some((at, key)) = self.queue.first_leave() {
            if at > now {
                break;
            }
            self.evict(now, key, None, out);
        }
        while let Some(key) = self.next_to_start(now) {
            let entry = *self.queue.entry(key);
            let waited = now.since(entry.entered);
            let facts = entry.facts;
            if now + self.service.margin(facts.route) > facts.deadline {
                self.evict(now, key, Some(Reason::ExpiredInQueue), out);
            } else if self.codel_drops(now, waited) {
                self.evict(now, key, Some(Reason::CoDel), out);
            } else {
                self.queue.remove(key);
                let running = self.start(now, &facts);
                let ticket = self.tickets.start(entry.owner, running);
                out.push(Action::Start { ticket, waited });
            }
        }
    }

    /// Whose turn it is, if anybody's: a class below its reserve first, then by class; inside a
    /// class by discipline.
    fn next_to_start(&self, now: Mono) -> Option<Key> {
        let limit = self.slots();
        if self.occupancy.total() >= limit || self.queue.len() == 0 {
            return None;
        }
        let owed = Class::ALL
            .into_iter()
            .filter(|&class| self.occupancy.is_owed(limit, class));
        owed.chain(Class::ALL).find_map(|class| {
            let open = |group| self.occupancy.admits(now, limit, class, group);
            let oldest = self.queue.oldest(class, open)?;
            if self.newest_first(now, class) {
                self.queue.newest(class, open)
            } else {
                Some(oldest)
            }
        })
    }

    /// Newest first is for the class there is lastingly too much of: its requests then wait for
    /// nearly nothing or leave, instead of all for as long as anybody may. In an escape it holds for
    /// all: there, the oldest have left. While the level cuts it holds for none: who is let in then
    /// is to be served.
    fn newest_first(&self, now: Mono, class: Class) -> bool {
        self.is_escaping()
            || self.config.discipline == Discipline::AdaptiveLifo
                && self.level() == Level::EVERYBODY
                && self.surplus.is_of(now, class, self.wait_max())
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
        self.surplus.started(now, facts.class);
        let in_flight = self.occupancy.total();
        if let Some(escape) = &mut self.escape {
            escape.started(now, in_flight);
        }
        Running {
            facts: *facts,
            started: now,
            first_byte: None,
            tag: self.limit.admitted(now, facts.route, in_flight),
            abandoned: false,
        }
    }
}

#[cfg(test)]
mod tests;

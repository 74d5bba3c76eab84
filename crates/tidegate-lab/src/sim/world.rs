//! The loop: whatever happens next, and what follows from it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_core::admission::{Action, Arrival, Reason};
use tidegate_core::facts::Class;
use tidegate_core::limit::Ending;
use tidegate_core::retry::Slots;
use tidegate_core::time::Mono;

use super::attempts::{Attempt, Attempts, Call, Id, Place};
use super::backend::{Backend, Finished, Job, Outcome};
use super::clients::Clients;
use super::gateways::{self, Gateway};
use super::hub::{Pool, Task};
use super::policy::Policy;
use super::record::{LOOK, Record};
use super::recorder::Recorder;
use super::seeds::{self, Concern};
use super::trace::Event;
use crate::scenario::Scenario;

/// A client that will try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Again {
    at: Mono,
    /// Counts up, so that of two at one instant the one decided first goes first.
    order: u64,
    call: Call,
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Next {
    Look,
    Restart,
    Pool,
    Backend,
    Poll(usize),
    GiveUp(usize, Id),
    First(usize),
    Retry,
}

/// Everything there is in a run.
pub(super) struct World<'a> {
    scenario: &'a Scenario,
    policy: &'a Policy,
    seed: u64,
    now: Mono,
    looks: Mono,
    restart: Mono,
    /// What the gateways have in common, if anything.
    pool: Option<Pool>,
    clients: Vec<Clients>,
    gateways: Vec<Gateway>,
    backend: Backend,
    attempts: Attempts,
    retries: BinaryHeap<Reverse<Again>>,
    order: u64,
    slots: Option<Slots>,
    recorder: Recorder,
    /// Both are empty between events.
    actions: Vec<Action>,
    finished: Vec<Finished>,
}

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, policy: &'a Policy, seed: u64) -> Self {
        let app = &scenario.app;
        let clients = |(number, traffic)| Clients::new(number, traffic, app, seed);
        let backend = seeds::of(seed, Concern::Backend, 0);
        let restart = scenario.gateways.restarted_at;
        let mut pool = Pool::of(scenario, policy.pooled(scenario), seed);
        let per_second = scenario.protection.retry_slots.and_then(NonZeroU32::new);
        Self {
            scenario,
            policy,
            seed,
            now: Mono::default(),
            looks: Mono::default() + LOOK,
            restart: restart.map_or(Mono::MAX, |at| Mono::default() + at),
            clients: scenario.traffic.iter().enumerate().map(clients).collect(),
            gateways: gateways::build(scenario, policy, seed, &mut pool),
            pool,
            backend: Backend::new(app, &scenario.faults, backend),
            attempts: Attempts::default(),
            retries: BinaryHeap::new(),
            order: 0,
            slots: per_second.map(Slots::new),
            recorder: Recorder::new(scenario),
            actions: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// Runs to the end; `watch` is told the simulated time now and then.
    pub(super) fn run(mut self) -> Record {
        let end = Mono::default() + self.scenario.length;
        loop {
            let (at, next) = self.next();
            if at >= end {
                break;
            }
            self.now = at;
            match next {
                Next::Look => self.look(),
                Next::Restart => self.restart(),
                Next::Pool => self.pool(),
                Next::Backend => self.backend.advance(at, &mut self.finished),
                Next::Poll(gateway) => {
                    self.gateways[gateway].poll(at, &mut self.actions);
                    self.act(gateway);
                }
                Next::GiveUp(traffic, id) => self.give_up(traffic, id),
                Next::First(traffic) => {
                    let doors = self.doors();
                    let (call, door) = self.clients[traffic].first(at, doors);
                    self.attempt(call, door);
                }
                Next::Retry => self.retry(),
            }
            self.work_off();
        }
        self.now = end;
        self.look();
        self.give_up_late(end);
        self.recorder.finish()
    }

    /// Of what is due at one instant, the first in this order: answers come before patience ends,
    /// both before anything new, and first attempts before retries.
    fn next(&mut self) -> (Mono, Next) {
        let mut first = (self.looks, Next::Look);
        let mut sooner = |at: Mono, next: Next| {
            if at < first.0 {
                first = (at, next);
            }
        };
        sooner(self.restart, Next::Restart);
        if let Some(pool) = &self.pool {
            sooner(pool.due(), Next::Pool);
        }
        if let Some(at) = self.backend.next_event() {
            sooner(at, Next::Backend);
        }
        for (number, gateway) in self.gateways.iter().enumerate() {
            sooner(gateway.due, Next::Poll(number));
        }
        for (number, clients) in self.clients.iter_mut().enumerate() {
            let living = |id| self.attempts.living(id).is_some();
            if let Some((at, id)) = clients.next_to_give_up(living) {
                sooner(at, Next::GiveUp(number, id));
            }
        }
        for (number, clients) in self.clients.iter().enumerate() {
            sooner(clients.next, Next::First(number));
        }
        if let Some(Reverse(again)) = self.retries.peek() {
            sooner(again.at, Next::Retry);
        }
        first
    }

    fn retry(&mut self) {
        if let Some(Reverse(again)) = self.retries.pop() {
            let doors = self.doors();
            let clients = &mut self.clients[usize::from(again.call.traffic)];
            let door = clients.door(doors);
            self.attempt(again.call, door);
        }
    }

    /// A client asks, for the first time or again.
    fn attempt(&mut self, call: Call, door: u16) {
        let now = self.now;
        let state = self.state_behind(door);
        let clients = &self.clients[usize::from(call.traffic)];
        let (class, mut facts) = (clients.class, clients.facts(now, call));
        if !self.policy.heeds_class() {
            facts.class = Class::Anonymous;
        }
        self.recorder.arrived(now, class, call.attempt, door);

        let arrival = self.gateways[state].arrive(now, &facts, &mut self.actions);
        self.act(state);
        let (ticket, place, event) = match arrival {
            Arrival::Admitted(ticket) => (ticket, Place::Inside(ticket), Event::Admitted),
            Arrival::Queued { ticket, .. } => (ticket, Place::Queued(ticket), Event::Queued),
            Arrival::Refused(reason) => {
                self.recorder
                    .event(now, Event::Refused, call.user, reason as u16);
                self.refused(state, call, reason);
                return;
            }
        };
        let id = self.attempts.begin(Attempt {
            call,
            gateway: door,
            left: false,
            place,
            arrived: now,
        });
        self.recorder
            .event(now, event, call.user, call.attempt as u16);
        self.gateways[state].owned_by(ticket, id.index());
        self.clients[usize::from(call.traffic)].waits(now, call, id);
        match place {
            Place::Queued(_) => {
                self.recorder.moved(now, 1, 0);
                self.recorder.queue(now, self.backend.waiting());
            }
            Place::Inside(_) | Place::Orphaned => self.enter(id.index()),
        }
    }

    /// An attempt that holds a slot reaches the application.
    fn enter(&mut self, index: u32) {
        let route = self.attempts.at(index).call.route;
        self.recorder.moved(self.now, 0, 1);
        self.backend
            .offer(self.now, Job(index), usize::from(route), &mut self.finished);
        self.recorder.queue(self.now, self.backend.waiting());
    }

    /// Does what gateway state `state` has said about those who wait.
    fn act(&mut self, state: usize) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Start { ticket, .. } => {
                    let index = self.gateways[state].owner(ticket);
                    self.attempts.at(index).place = Place::Inside(ticket);
                    self.recorder.event(self.now, Event::Started, index, 0);
                    self.recorder.moved(self.now, -1, 0);
                    self.enter(index);
                }
                Action::Evict { ticket, reason, .. } => {
                    let index = self.gateways[state].owner(ticket);
                    let attempt = self.attempts.end(index);
                    self.recorder
                        .event(self.now, Event::Evicted, index, reason as u16);
                    self.recorder.moved(self.now, -1, 0);
                    self.refused(state, attempt.call, reason);
                }
            }
        }
        self.actions = actions;
    }

    /// Ends what the application is done with. Each may let another one start, whose work may be
    /// done at once.
    fn work_off(&mut self) {
        let mut next = 0;
        while let Some(&finished) = self.finished.get(next) {
            next += 1;
            self.finish(finished);
        }
        self.finished.clear();
    }

    fn finish(&mut self, finished: Finished) {
        let now = self.now;
        let attempt = self.attempts.end(finished.job.0);
        let outcome = finished.outcome;
        self.recorder
            .event(now, Event::Finished, finished.job.0, outcome as u16);
        self.recorder.moved(now, 0, -1);

        let call = attempt.call;
        let clients = &self.clients[usize::from(call.traffic)];
        let gives_up = clients.gives_up(attempt.arrived);
        if attempt.left || now > gives_up {
            if outcome == Outcome::Answered {
                self.recorder.wasted(now);
            }
            if !attempt.left {
                self.recorder.timed_out(gives_up, clients.class);
            }
        } else if outcome == Outcome::Answered {
            let took = now.since(attempt.arrived);
            self.recorder
                .good(now, clients.class, took, attempt.gateway);
        } else {
            if outcome == Outcome::Refused {
                self.recorder.turned_away(now, clients.class);
            } else {
                self.recorder.failed(now, clients.class);
            }
            let invited = self.slots.as_mut().map(|slots| slots.invite(now));
            self.again(call, invited);
        }

        if let Place::Inside(ticket) = attempt.place {
            let ending = match outcome {
                Outcome::Answered => Ending::Worked,
                Outcome::FailedFast => Ending::Ignored,
                Outcome::Refused => Ending::Overloaded,
            };
            let state = self.state_behind(attempt.gateway);
            self.gateways[state].done(now, ticket, ending, &mut self.actions);
            self.act(state);
        }
    }

    /// A client that tries again has waited for as long as it does. What the application has begun
    /// for it goes on, and its slot stays taken.
    fn give_up(&mut self, traffic: usize, id: Id) {
        let now = self.now;
        let attempt = self.attempts.at(id.index());
        attempt.left = true;
        let Attempt {
            call,
            place,
            gateway,
            ..
        } = *attempt;
        self.clients[traffic].gave_up();
        self.recorder
            .event(now, Event::GaveUp, id.index(), call.attempt as u16);
        self.recorder.timed_out(now, self.clients[traffic].class);
        self.again(call, None);
        if let Place::Queued(ticket) = place {
            self.attempts.end(id.index());
            self.recorder.moved(now, -1, 0);
            let state = self.state_behind(gateway);
            self.gateways[state].cancel(now, ticket, &mut self.actions);
            self.act(state);
        }
    }

    fn refused(&mut self, state: usize, call: Call, reason: Reason) {
        let clients = &self.clients[usize::from(call.traffic)];
        let heeds = clients.heed_retry_after();
        self.recorder.refused(self.now, clients.class, reason);
        let asked = heeds.then(|| match &mut self.slots {
            Some(slots) => slots.invite(self.now),
            None => self.gateways[state].retry_after(),
        });
        self.again(call, asked);
    }

    fn again(&mut self, call: Call, retry_after: Option<Duration>) {
        let clients = &mut self.clients[usize::from(call.traffic)];
        if let Some(at) = clients.again(self.now, call, retry_after) {
            self.order += 1;
            self.retries.push(Reverse(Again {
                at,
                order: self.order,
                call: Call {
                    attempt: call.attempt + 1,
                    ..call
                },
            }));
        }
    }

    /// The first gateway loses what it holds: its clients see their connections break, the
    /// application works on.
    fn restart(&mut self) {
        self.restart = Mono::MAX;
        self.recorder.event(self.now, Event::Restarted, 0, 0);
        let lost: Vec<u32> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| self.state_behind(attempt.gateway) == 0)
            .filter(|(_, attempt)| attempt.place != Place::Orphaned)
            .map(|(index, _)| index)
            .collect();
        for index in lost {
            let attempt = self.attempts.at(index);
            let (call, place) = (attempt.call, attempt.place);
            let told = std::mem::replace(&mut attempt.left, true);
            attempt.place = Place::Orphaned;
            if let Place::Queued(_) = place {
                self.attempts.end(index);
                self.recorder.moved(self.now, -1, 0);
            }
            if !told {
                let class = self.clients[usize::from(call.traffic)].class;
                self.recorder.failed(self.now, class);
                self.again(call, None);
            }
        }
        let seed = seeds::of(self.seed, Concern::Policy, self.gateways.len());
        let admission = gateways::admission(self.scenario, self.policy, seed, &mut self.pool);
        self.gateways[0].restart(admission);
        self.report(0);
    }

    /// The control plane has something for the gateways.
    fn pool(&mut self) {
        let now = self.now;
        if let Some(pool) = &mut self.pool {
            pool.advance(now);
        }
        while let Some(task) = self.pool.as_mut().and_then(Pool::task) {
            match task {
                Task::Ask(gateway) => self.report(gateway),
                Task::Deliver(gateway, share) => {
                    self.gateways[gateway].share(now, share, &mut self.actions);
                    self.act(gateway);
                    self.report(gateway);
                }
            }
        }
    }

    fn report(&mut self, gateway: usize) {
        let report = self.gateways[gateway].report(self.now);
        if let (Some(pool), Some(report)) = (&mut self.pool, report) {
            pool.send(self.now, gateway, report);
        }
    }

    fn look(&mut self) {
        self.looks = self.now + LOOK;
        let gateways = self.gateways.iter().map(Gateway::look);
        self.recorder
            .look(self.now, gateways, self.backend.waiting());
    }

    /// Those whose patience ended before the run did, and whose work did not end.
    fn give_up_late(&mut self, end: Mono) {
        for (_, attempt) in self.attempts.iter() {
            let clients = &self.clients[usize::from(attempt.call.traffic)];
            let gives_up = clients.gives_up(attempt.arrived);
            if !attempt.left && gives_up < end {
                self.recorder.timed_out(gives_up, clients.class);
            }
        }
    }

    /// Which state of admission decides for the gateway at `door`.
    const fn state_behind(&self, door: u16) -> usize {
        if self.gateways.len() == 1 {
            0
        } else {
            door as usize
        }
    }

    fn doors(&self) -> u32 {
        self.scenario.gateways.count.max(1)
    }
}

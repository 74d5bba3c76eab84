//! The control plane between gateways that have one limit in common: a hub, and a wire to each.
//!
//! Half a refresh is the way of a message, so that what a gateway answers to a share is there at
//! the next refresh.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_core::limit::adaptive::{Learnt, Settings};
use tidegate_core::limit::pooled::{Hub, Leaf, LeafId, Pooling, Report, Share};
use tidegate_core::time::Mono;

use super::seeds::{self, Concern};
use crate::scenario::{Arrangement, Scenario};

/// What is on its way.
#[derive(Debug)]
enum Message {
    Share(Share),
    Report(Report),
}

#[derive(Debug)]
struct Sent {
    arrives: Mono,
    gateway: usize,
    message: Message,
}

/// What the world has to do.
#[derive(Debug)]
pub(super) enum Task {
    /// Hand a share to a gateway, and what it reports then back to the pool.
    Deliver(usize, Share),
    /// Ask a gateway for a report that no share has called for.
    Ask(usize),
}

/// The control plane.
#[derive(Debug)]
pub(super) struct Pool {
    settings: Settings,
    pooling: Pooling,
    seed: u64,
    hub: Hub,
    term: u64,
    lives: u64,
    /// When a gateway last reported.
    reported: Vec<Option<Mono>>,
    /// In the order of arrival, as every way takes the same time.
    wire: VecDeque<Sent>,
    refresh_at: Mono,
    lost_at: Mono,
    hub_restarts_at: Mono,
    /// What the control plane has written down, for whoever is restarted.
    stored: Option<Learnt>,
    shares: Vec<(LeafId, Share)>,
    tasks: VecDeque<Task>,
}

impl Pool {
    /// The control plane of `scenario`, where its gateways have a limit in common.
    pub(super) fn of(scenario: &Scenario, settings: Option<Settings>, seed: u64) -> Option<Self> {
        let gateways = &scenario.gateways;
        let settings = settings.filter(|_| gateways.arrangement == Arrangement::Pooled)?;
        let pooling = Pooling::every(gateways.refresh);
        let seed = seeds::of(seed, Concern::Hub, 0);
        let at = |when: Option<Duration>| when.map_or(Mono::MAX, |at| Mono::default() + at);
        Some(Self {
            settings,
            pooling,
            seed,
            hub: Hub::new(settings, pooling, 1, seed, None),
            term: 1,
            lives: 0,
            reported: vec![None; gateways.count.max(1) as usize],
            wire: VecDeque::new(),
            refresh_at: Mono::default(),
            lost_at: at(gateways.lost_at),
            hub_restarts_at: at(gateways.hub_restarted_at),
            stored: None,
            shares: Vec::new(),
            tasks: VecDeque::new(),
        })
    }

    /// The limit of a gateway that is started now.
    pub(super) fn leaf(&mut self, seed: u64) -> Leaf {
        self.lives += 1;
        let learnt = self.stored.clone();
        Leaf::new(self.settings, self.pooling, self.lives, seed, learnt)
    }

    /// When [`Pool::advance`] has something to do.
    pub(super) fn due(&self) -> Mono {
        let arrives = self.wire.front().map_or(Mono::MAX, |sent| sent.arrives);
        let restart = self.hub_restarts_at;
        arrives.min(self.refresh_at).min(restart).min(self.lost_at)
    }

    /// Does what is due at `now`.
    pub(super) fn advance(&mut self, now: Mono) {
        if self.lost_at <= now {
            self.wire.clear();
            (self.refresh_at, self.lost_at) = (Mono::MAX, Mono::MAX);
            self.hub_restarts_at = Mono::MAX;
            return;
        }
        if self.hub_restarts_at <= now {
            self.hub_restarts_at = Mono::MAX;
            self.term += 1;
            let learnt = self.stored.as_ref();
            self.hub = Hub::new(self.settings, self.pooling, self.term, self.seed, learnt);
        }
        while self.wire.front().is_some_and(|sent| sent.arrives <= now) {
            if let Some(sent) = self.wire.pop_front() {
                self.arrive(now, sent);
            }
        }
        if self.refresh_at <= now {
            self.refresh(now);
        }
    }

    /// The next thing for the world to do.
    pub(super) fn task(&mut self) -> Option<Task> {
        self.tasks.pop_front()
    }

    /// A gateway has written a report.
    pub(super) fn send(&mut self, now: Mono, gateway: usize, report: Report) {
        self.reported[gateway] = Some(now);
        self.post(now, gateway, Message::Report(report));
    }

    fn arrive(&mut self, now: Mono, sent: Sent) {
        match sent.message {
            Message::Share(share) => self.tasks.push_back(Task::Deliver(sent.gateway, share)),
            Message::Report(report) => self.hub.report(now, LeafId(sent.gateway as u64), report),
        }
    }

    fn refresh(&mut self, now: Mono) {
        self.refresh_at = now + self.pooling.refresh();
        self.hub.refresh(now, &mut self.shares);
        let shares = std::mem::take(&mut self.shares);
        for (LeafId(gateway), share) in shares {
            if share.learnt.is_some() {
                self.stored.clone_from(&share.learnt);
            }
            self.post(now, gateway as usize, Message::Share(share));
        }
        let refresh = self.pooling.refresh();
        for (gateway, reported) in self.reported.iter().enumerate() {
            if reported.is_none_or(|at| now.since(at) >= refresh) {
                self.tasks.push_back(Task::Ask(gateway));
            }
        }
    }

    fn post(&mut self, now: Mono, gateway: usize, message: Message) {
        if self.refresh_at != Mono::MAX {
            self.wire.push_back(Sent {
                arrives: now + self.pooling.refresh() / 2,
                gateway,
                message,
            });
        }
    }
}

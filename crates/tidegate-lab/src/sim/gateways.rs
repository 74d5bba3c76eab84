//! What stands in front of the application: the production admission, once or several times.

use std::time::Duration;

use tidegate_core::admission::{Action, Admission, Arrival, Ticket};
use tidegate_core::deadline;
use tidegate_core::facts::Facts;
use tidegate_core::limit::Ending;
use tidegate_core::limit::pooled::{Report, Share};
use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;

use super::hub::Pool;
use super::policy::Policy;
use super::seeds::{self, Concern};
use crate::scenario::{Arrangement, Scenario};

/// One state of admission, with whose each of its tickets is.
pub(super) struct Gateway {
    admission: Admission,
    owners: Vec<u32>,
    /// When it has to be polled; [`Mono::MAX`] for never.
    pub(super) due: Mono,
    retry_after: Rng,
}

/// The states of admission in front of the application of `scenario`.
pub(super) fn build(
    scenario: &Scenario,
    policy: &Policy,
    seed: u64,
    pool: &mut Option<Pool>,
) -> Vec<Gateway> {
    let states = match scenario.gateways.arrangement {
        Arrangement::Node => 1,
        Arrangement::Alone | Arrangement::Pooled => scenario.gateways.count.max(1) as usize,
    };
    (0..states)
        .map(|number| {
            let seed = |concern| seeds::of(seed, concern, number);
            Gateway {
                admission: admission(scenario, policy, seed(Concern::Policy), pool),
                owners: Vec::new(),
                due: Mono::MAX,
                retry_after: Rng::new(seed(Concern::RetryAfter)),
            }
        })
        .collect()
}

/// A fresh state of admission, whose limit is a share of the pool's where there is one.
pub(super) fn admission(
    scenario: &Scenario,
    policy: &Policy,
    seed: u64,
    pool: &mut Option<Pool>,
) -> Admission {
    match pool {
        Some(pool) => Admission::new(policy.config(scenario), Box::new(pool.leaf(seed))),
        None => policy.admission(scenario, seed),
    }
}

impl Gateway {
    /// What becomes of an attempt; what becomes of others for its sake is in `out`.
    pub(super) fn arrive(&mut self, now: Mono, facts: &Facts, out: &mut Vec<Action>) -> Arrival {
        let arrival = self.admission.arrive(now, facts, out);
        self.look_ahead();
        arrival
    }

    /// `ticket` is attempt `owner`'s.
    pub(super) fn owned_by(&mut self, ticket: Ticket, owner: u32) {
        let index = ticket.index();
        if self.owners.len() <= index {
            self.owners.resize(index + 1, 0);
        }
        self.owners[index] = owner;
    }

    /// Whose `ticket` is, or was until just now.
    pub(super) fn owner(&self, ticket: Ticket) -> u32 {
        self.owners[ticket.index()]
    }

    /// The application is done with the attempt. It answers in one piece, so the first byte of the
    /// answer is told together with its end.
    pub(super) fn done(
        &mut self,
        now: Mono,
        ticket: Ticket,
        ending: Ending,
        out: &mut Vec<Action>,
    ) {
        self.admission.first_byte(now, ticket);
        self.admission.done(now, ticket, ending, out);
        self.look_ahead();
    }

    pub(super) fn cancel(&mut self, now: Mono, ticket: Ticket, out: &mut Vec<Action>) {
        self.admission.cancel(now, ticket, out);
        self.look_ahead();
    }

    pub(super) fn poll(&mut self, now: Mono, out: &mut Vec<Action>) {
        self.admission.poll(now, out);
        self.look_ahead();
    }

    /// Takes a share of the pool's limit.
    pub(super) fn share(&mut self, now: Mono, share: Share, out: &mut Vec<Action>) {
        self.admission.share(now, share, out);
        self.look_ahead();
    }

    /// What to tell the pool.
    pub(super) fn report(&mut self, now: Mono) -> Option<Report> {
        self.admission.report(now)
    }

    /// When a refused client should come back, as the gateway says it.
    pub(super) fn retry_after(&mut self) -> Duration {
        let seconds = deadline::retry_after(self.admission.drain(), &mut self.retry_after);
        Duration::from_secs(seconds)
    }

    /// Limit, whether it is being probed, and the baseline, if there is one.
    pub(super) fn look(&self) -> (u32, bool, Option<Duration>) {
        let snapshot = self.admission.snapshot();
        (
            snapshot.limit,
            snapshot.insight.probing,
            snapshot.insight.baseline,
        )
    }

    /// Another state takes its place, with nothing in it.
    pub(super) fn restart(&mut self, admission: Admission) {
        self.admission = admission;
        self.look_ahead();
    }

    fn look_ahead(&mut self) {
        self.due = self.admission.next_deadline().unwrap_or(Mono::MAX);
    }
}

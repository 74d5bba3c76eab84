//! The store's side of a lease.

use std::collections::BTreeMap;

use super::super::Life;
use super::{Ask, Grant, LeasePlan};
use crate::rate::{BucketSpec, BucketState, Short, Tick};

/// Nodes whose last ask is remembered for each limit. Those beyond get tokens as well, and cannot give any back.
pub const ASKERS_MAX: usize = 4_096;

/// The bucket of one limit, and who has what of it.
#[derive(Clone, Debug)]
pub struct Lessor {
    whole: BucketSpec,
    plan: LeasePlan,
    state: BucketState,
    askers: BTreeMap<Life, Asker>,
}

#[derive(Clone, Copy, Debug)]
struct Asker {
    at: Tick,
    answer: Grant,
    /// Tokens of the last ask and of the one before it: no more can come back.
    given: u64,
    given_before: u64,
}

impl Lessor {
    /// A bucket that nobody has used.
    pub const fn new(whole: BucketSpec, plan: LeasePlan, now: Tick) -> Self {
        Self {
            whole,
            plan,
            state: whole.full(now),
            askers: BTreeMap::new(),
        }
    }

    /// Answers an ask; `None` for one that was overtaken by a later one of the same node, which has its answer or
    /// gave up.
    pub fn ask(&mut self, now: Tick, ask: &Ask) -> Option<Grant> {
        let kept_us = self.plan.ttl_us.saturating_mul(2);
        self.askers.retain(|_, asker| now.since(asker.at) < kept_us);
        let known = self.askers.get(&ask.life).copied();
        if let Some(asker) = known
            && ask.seq <= asker.answer.seq
        {
            return (ask.seq == asker.answer.seq).then_some(asker.answer);
        }

        // Nobody gives back what this bucket did not give: a store that has lost its memory starts with a full one.
        let given = known.map_or(0, |asker| asker.given.saturating_add(asker.given_before));
        let returned = ask.returned.min(given);
        self.whole.give_back(&mut self.state, now, returned);
        let tokens = self.part_for(now, ask);
        // It is no more than what remains.
        let _ = self.whole.take(&mut self.state, now, tokens);
        let answer = Grant {
            seq: ask.seq,
            tokens,
            again_us: self.again_us(now, ask, tokens),
        };
        if known.is_some() || self.askers.len() < ASKERS_MAX {
            let asker = Asker {
                at: now,
                answer,
                given: tokens,
                given_before: known.map_or(0, |asker| asker.given),
            };
            self.askers.insert(ask.life, asker);
        }
        Some(answer)
    }

    /// Tokens that nobody has.
    pub fn remaining(&self, now: Tick) -> u64 {
        self.whole.remaining(&self.state, now)
    }

    /// All that it wants while there is twice as much, and else half of what there is.
    fn part_for(&self, now: Tick, ask: &Ask) -> u64 {
        let there = self.whole.remaining(&self.state, now);
        if there < ask.least {
            return 0;
        }
        there.div_ceil(2).max(ask.least).min(ask.wanted)
    }

    /// Who did not get what it wanted waits until there would be a part for each that asks, but not for longer than a
    /// horizon, unless there is nothing at all for longer than that.
    fn again_us(&self, now: Tick, ask: &Ask, tokens: u64) -> u64 {
        if tokens >= ask.wanted {
            return 0;
        }
        let (flow, token) = (self.whole.credits_per_us(), self.whole.credits_per_token());
        let (flow, token) = (u128::from(flow), u128::from(token));
        let known = usize::from(!self.askers.contains_key(&ask.life));
        let nodes = (self.askers.len() + known) as u128;
        let horizon = u128::from(self.plan.horizon_us);

        // A bucket that is full loses what would flow in, so nobody waits for more than half of it.
        let fair = (flow * horizon / token / nodes).min(u128::from(self.whole.burst() / 2));
        let part = fair
            .min(u128::from(ask.wanted))
            .max(u128::from(ask.least.max(1)));
        let round = (nodes * part * token).div_ceil(flow).min(horizon) as u64;
        let least = match self.whole.check(&self.state, now, ask.least.max(1)) {
            Err(Short::Wait { wait_us }) => wait_us,
            Ok(_) | Err(Short::Never) => 0,
        };
        round.max(least).max(1)
    }
}

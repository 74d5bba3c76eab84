//! The node's side of a lease.

use super::super::{Life, Verdict};
use super::{Ask, Grant, LeasePlan};
use crate::rate::{BucketSpec, Tick};

/// What a node has of one limit.
#[derive(Clone, Debug)]
pub struct Lessee {
    plan: LeasePlan,
    life: Life,
    /// Of the last ask.
    seq: u64,
    burst: u64,
    /// The one in use, and the next.
    chunks: [Chunk; 2],
    /// Tokens to give back.
    unused: u64,
    asked: Option<Asked>,
    /// To ask before this is no use.
    again: Tick,
    dear: Dear,
    demand: Demand,
    /// What calls asked for that could not be decided here: all together, and the most expensive.
    missing: u64,
    dearest: u64,
    closed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    tokens: u64,
    until: Tick,
}

/// What costs so much or more is not to be had before then. That says nothing of what costs less.
#[derive(Clone, Copy, Debug, Default)]
struct Dear {
    cost: u64,
    until: Tick,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    ask: Ask,
    first: Tick,
    lost: bool,
}

impl Lessee {
    /// A node that has nothing of the limit `whole`.
    pub fn new(whole: &BucketSpec, plan: LeasePlan, life: Life) -> Self {
        Self {
            plan,
            life,
            seq: 0,
            burst: whole.burst(),
            chunks: [Chunk::default(); 2],
            unused: 0,
            asked: None,
            again: Tick(0),
            dear: Dear::default(),
            demand: Demand::default(),
            missing: 0,
            dearest: 0,
            closed: false,
        }
    }

    /// What [`Self::take`] would say.
    pub fn check(&self, now: Tick, cost: u64) -> Verdict {
        if cost > self.burst {
            return Verdict::Never;
        }
        if cost <= self.remaining(now) {
            return Verdict::Passed;
        }
        if self.asked.is_some_and(|asked| asked.lost) {
            return Verdict::Lost;
        }
        if self.closed {
            return Verdict::Lost;
        }
        let again = match self.dear.cost <= cost {
            true => self.again.max(self.dear.until),
            false => self.again,
        };
        match again.since(now) {
            0 => Verdict::Ask,
            wait_us => Verdict::Short { wait_us },
        }
    }

    /// Spends `cost` tokens. [`Verdict::Ask`] is to be taken again after the next [`Self::granted`] or
    /// [`Self::lost`]; whatever it says, [`Self::ask`] may have a message.
    pub fn take(&mut self, now: Tick, cost: u64) -> Verdict {
        self.expire(now);
        let verdict = self.check(now, cost);
        match verdict {
            Verdict::Passed => {
                self.demand.add(now, self.plan.horizon_us, cost);
                let mut left = cost;
                for chunk in &mut self.chunks {
                    let spent = left.min(chunk.tokens);
                    chunk.tokens -= spent;
                    left -= spent;
                }
            }
            Verdict::Short { .. } => self.demand.add(now, self.plan.horizon_us, cost),
            Verdict::Ask => {
                self.missing = self.missing.saturating_add(cost);
                self.dearest = self.dearest.max(cost);
            }
            Verdict::Never | Verdict::Lost => {}
        }
        verdict
    }

    /// Puts `tokens` back that were spent and not used.
    pub fn give_back(&mut self, now: Tick, tokens: u64) {
        let closed = self.closed;
        let mut chunks = self.chunks.iter_mut();
        match chunks.find(|chunk| now < chunk.until && !closed) {
            Some(chunk) => chunk.tokens = chunk.tokens.saturating_add(tokens),
            None => self.unused = self.unused.saturating_add(tokens),
        }
    }

    /// Tokens that the node has.
    pub fn remaining(&self, now: Tick) -> u64 {
        let live = self.chunks.iter().filter(|chunk| now < chunk.until);
        live.map(|chunk| chunk.tokens).fold(0, u64::saturating_add)
    }

    /// What to send to the store now, if anything. To be asked after each [`Self::take`], and at [`Self::due_at`].
    pub fn ask(&mut self, now: Tick) -> Option<Ask> {
        self.expire(now);
        if let Some(asked) = &mut self.asked {
            let again = asked.lost.then_some(asked.ask);
            asked.lost = false;
            return again;
        }
        // Unless what has come since is enough for it.
        if self.dearest > self.remaining(now) {
            self.make_room();
        }
        let need = self.demand.recent(now, self.plan.horizon_us);
        let wants = self.wants(now, need);
        if !wants && self.unused == 0 {
            return None;
        }
        let most = self.plan.chunk_max.max(self.plan.chunk_min);
        let wanted = need.max(self.missing).clamp(self.plan.chunk_min, most);
        let wanted = wanted.max(self.dearest).min(self.burst);
        self.seq += 1;
        let ask = Ask {
            life: self.life,
            seq: self.seq,
            wanted: if wants { wanted } else { 0 },
            least: self.plan.chunk_min.max(self.dearest).min(wanted),
            returned: std::mem::take(&mut self.unused),
        };
        (self.missing, self.dearest) = (0, 0);
        self.asked = Some(Asked {
            ask,
            first: now,
            lost: false,
        });
        Some(ask)
    }

    /// The store's answer. One to an earlier ask says nothing any more.
    pub fn granted(&mut self, now: Tick, grant: &Grant) {
        let Some(asked) = self.asked.take_if(|asked| asked.ask.seq == grant.seq) else {
            return;
        };
        self.hear_when(now, asked.ask.least, grant);
        let chunk = Chunk {
            tokens: grant.tokens,
            until: asked.first.plus(self.plan.ttl_us),
        };
        self.expire(now);
        if self.closed || chunk.until <= now {
            self.unused = self.unused.saturating_add(chunk.tokens);
        } else if chunk.tokens > 0 {
            if self.chunks[0].tokens == 0 {
                self.chunks.swap(0, 1);
            }
            // Asked for only when a place was free, and nothing else fills one.
            let place = usize::from(self.chunks[0].tokens > 0);
            self.chunks[place] = chunk;
        }
    }

    /// The ask on its way was not answered in time. Whether the store has seen it nobody knows, so it
    /// is asked again as it is.
    pub fn lost(&mut self, seq: u64) {
        if let Some(asked) = &mut self.asked
            && asked.ask.seq == seq
        {
            asked.lost = true;
        }
    }

    /// Gives everything back: the node leaves, or goes on without a lease. [`Self::ask`] has the last message.
    pub fn close(&mut self) {
        self.closed = true;
        for chunk in &mut self.chunks {
            self.unused = self.unused.saturating_add(chunk.tokens);
            chunk.tokens = 0;
        }
    }

    /// When a chunk's time is over, so that there is something to give back.
    pub fn due_at(&self) -> Option<Tick> {
        let held = self.chunks.iter().filter(|chunk| chunk.tokens > 0);
        held.map(|chunk| chunk.until).min()
    }

    /// Notes when to ask again is of use, by the answer to an ask with such a `least`.
    fn hear_when(&mut self, now: Tick, least: u64, grant: &Grant) {
        self.again = match grant.again_us {
            0 => Tick(0),
            again_us => now.plus(again_us),
        };
        // The wait is for as much as the dearest call takes. Of less there may be some, and that is asked for apart.
        if least > self.plan.chunk_min && grant.again_us > 0 {
            self.dear = Dear {
                cost: least,
                until: self.again,
            };
            self.again = match grant.tokens {
                0 => now,
                _ => now.plus(grant.again_us.min(self.plan.horizon_us)),
            };
        }
    }

    /// Makes one chunk of both, to be used as long as the one that ends first: a call costs more than there is in them.
    fn make_room(&mut self) {
        let [first, next] = &mut self.chunks;
        if next.tokens > 0 {
            first.tokens = first.tokens.saturating_add(next.tokens);
            first.until = first.until.min(next.until);
            *next = Chunk::default();
        }
    }

    fn wants(&self, now: Tick, need: u64) -> bool {
        let again = match self.missing {
            0 => self.again.max(self.dear.until),
            _ => self.again,
        };
        if self.closed || now < again || self.chunks[1].tokens > 0 {
            return false;
        }
        let (have, need) = (u128::from(self.remaining(now)), u128::from(need));
        let lasts = have * u128::from(self.plan.horizon_us);
        self.missing > 0 || lasts < need * u128::from(self.plan.ahead_us)
    }

    fn expire(&mut self, now: Tick) {
        for chunk in &mut self.chunks {
            if chunk.until <= now {
                self.unused = self.unused.saturating_add(chunk.tokens);
                chunk.tokens = 0;
            }
        }
        if self.chunks[0].tokens == 0 {
            self.chunks.swap(0, 1);
        }
    }
}

/// Tokens that were asked for in about the last horizon: those of this one, and as much of those of the
/// one before as is still in reach.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    number: u64,
    current: u64,
    before: u64,
}

impl Demand {
    fn add(&mut self, now: Tick, horizon_us: u64, tokens: u64) {
        *self = self.turned(now, horizon_us);
        self.current = self.current.saturating_add(tokens);
    }

    fn recent(&self, now: Tick, horizon_us: u64) -> u64 {
        let here = self.turned(now, horizon_us);
        let left = horizon_us.max(1) - now.0 % horizon_us.max(1);
        let before = u128::from(here.before) * u128::from(left) / u128::from(horizon_us.max(1));
        here.current.saturating_add(before as u64)
    }

    fn turned(self, now: Tick, horizon_us: u64) -> Self {
        let number = now.0 / horizon_us.max(1);
        match number.saturating_sub(self.number) {
            0 => self,
            1 => Self {
                number,
                current: 0,
                before: self.current,
            },
            _ => Self {
                number,
                current: 0,
                before: 0,
            },
        }
    }
}

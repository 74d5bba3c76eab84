//! A limit whose tokens are paid for after they were used: a node decides by what it knows, and reports what it spent
//! several times a second.
//!
//! What a node knows is the store's bucket as it was told, less what it has spent since. What it does not know is
//! what the others have spent since their last report that the answer to its own has in it, so by that, and no
//! more, the limit can be passed ([`AggregatePlan::overshoot`]). It is owed: the store's bucket is then below empty,
//! and nothing passes until it has been paid off. Over a long time the limit holds. What a node that dies has not
//! reported is not owed: that is at most what it may leave unreported.
//!
//! A [`Report`] has a number. There is one on its way at a time; it is sent again as it is until it is
//! answered, and counts once.

use std::collections::BTreeMap;

use super::{Life, Verdict};
use crate::rate::{BucketSpec, BucketState, Short, Tick};
use crate::rng::Rng;

/// Nodes whose last report is remembered for each limit. A report of those beyond may count twice, which
/// makes the limit tighter.
pub const REPORTERS_MAX: usize = 4_096;
/// Credits that a bucket can owe. A full one with the credits of a microsecond added stays below 2⁵³.
const OWED_MAX: i64 = 1 << 52;
/// Reports are sent early at the earliest after this part of the usual time.
const GAP_PARTS: u64 = 8;

/// How nodes report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AggregatePlan {
    /// The time between two reports of a node, in microseconds, 1 or more.
    pub every_us: u64,
    /// How much shorter or longer each may be, in thousandths of it, 0 to 500: nodes are not to report together.
    pub jitter_milli: u64,
    /// Tokens that a node may have spent and not reported: with more it waits.
    pub unreported_max: u64,
    /// Whether to report before the time when half of that is unreported, or when four fifths of the burst are used up.
    pub early: bool,
    /// With reports unanswered for longer than this, in microseconds, the store counts as lost.
    pub silence_us: u64,
    /// How long the store remembers a node that does not report, in microseconds: longer than any report can be on
    /// its way.
    pub kept_us: u64,
}

/// What a node reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Who reports.
    pub life: Life,
    /// Counts up with the reports of a life, from 1.
    pub seq: u64,
    /// Tokens spent since the report before.
    pub spent: u64,
    /// Tokens given back since then.
    pub returned: u64,
}

/// What the store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Which report is in it.
    pub seq: u64,
    /// Credits in the bucket; below zero they are owed.
    pub credits: i64,
}

impl AggregatePlan {
    /// What suits a limit with this burst: ten reports a second, a tenth longer or shorter, and up to the burst
    /// unreported.
    pub const fn usual(burst: u64) -> Self {
        Self {
            every_us: 100_000,
            jitter_milli: 100,
            unreported_max: burst,
            early: true,
            silence_us: 1_000_000,
            kept_us: 60_000_000,
        }
    }

    /// By how much `nodes` nodes can pass the limit when `offered_per_s` tokens are asked for each second, spread evenly, and a
    /// report and its answer together take up to `delay_us`.
    ///
    /// A node's answer is used until the next has come; what another spent is in it up to that one's last
    /// report. So what a node does not know is up to twice the time between reports old, and once the delay. What another
    /// has spent in that time is no more than it may leave unreported, once for each report in it.
    pub fn overshoot(&self, nodes: u32, offered_per_s: u64, delay_us: u64) -> u64 {
        let others = u128::from(nodes.saturating_sub(1));
        let every = u128::from(self.longest_us());
        let unknown_us = 2 * every + u128::from(delay_us);
        let offered = u128::from(offered_per_s) * unknown_us * others;
        let by_traffic = offered.div_ceil(1_000_000 * u128::from(nodes.max(1)));
        let reports = 2 + (every + u128::from(delay_us)) / u128::from(self.gap_us());
        let by_plan = others * reports * u128::from(self.unreported_max);
        u64::try_from(by_traffic.min(by_plan)).unwrap_or(u64::MAX)
    }

    /// Reports a second that reach the store from `nodes` busy nodes, without early ones.
    pub const fn reports_per_s(&self, nodes: u32) -> u64 {
        (nodes as u64 * 1_000_000).div_ceil(self.every_us)
    }

    const fn longest_us(&self) -> u64 {
        self.every_us + self.every_us * self.jitter_milli / 1_000
    }

    /// The shortest time between two reports.
    fn gap_us(&self) -> u64 {
        let shortest = self.every_us - self.every_us * self.jitter_milli.min(500) / 1_000;
        let early = self.every_us / GAP_PARTS;
        if self.early {
            early.max(1)
        } else {
            shortest.max(1)
        }
    }
}

/// The most tokens that `nodes` nodes together let pass in any `window_us` microseconds: what the bucket would, and the
/// [overshoot](AggregatePlan::overshoot) of these arguments.
pub fn worst_in(whole: &BucketSpec, overshoot: u64, window_us: u64) -> u64 {
    match window_us {
        0 => 0,
        _ => whole.worst_in(window_us).saturating_add(overshoot),
    }
}

/// The node's side of one limit.
#[derive(Clone, Debug)]
pub struct Reporter {
    whole: BucketSpec,
    plan: AggregatePlan,
    life: Life,
    /// Of the last report.
    seq: u64,
    /// The store's bucket as far as it is known here.
    known: BucketState,
    /// Since the last report.
    spent: u64,
    returned: u64,
    /// Whether anybody has asked since then.
    asked: bool,
    sent: Option<Sent>,
    cut: Tick,
    due: Tick,
    /// Whether the bucket was well filled at the last answer, so that it is news if it is not.
    well_filled: bool,
    /// The store has said what is in it.
    heard: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    report: Report,
    first: Tick,
    /// It was not answered in time. Stays so while it is on its way once more: the store is no more there for that.
    lost: bool,
    /// It is to be sent once more.
    again: bool,
}

impl Reporter {
    /// A node that knows nothing of the limit: it takes the bucket to be full, and reports at the first request.
    pub const fn new(whole: BucketSpec, plan: AggregatePlan, life: Life, now: Tick) -> Self {
        Self {
            whole,
            plan,
            life,
            seq: 0,
            known: whole.full(now),
            spent: 0,
            returned: 0,
            asked: false,
            sent: None,
            cut: now,
            due: now,
            well_filled: false,
            heard: false,
        }
    }

    /// Whether the store has ever said what is in the bucket. Before that it is taken to be full.
    pub const fn has_heard(&self) -> bool {
        self.heard
    }

    /// What [`Self::take`] would say.
    pub fn check(&self, now: Tick, cost: u64) -> Verdict {
        let unreported = self.unreported().saturating_add(cost);
        let full = unreported > self.plan.unreported_max && cost > 0;
        if let Some(sent) = self.sent
            && sent.lost
            && (full || now.since(sent.first) >= self.plan.silence_us)
        {
            return Verdict::Lost;
        }
        match self.whole.check(&self.known, now, cost) {
            Err(Short::Never) => Verdict::Never,
            Err(Short::Wait { wait_us }) => Verdict::Short { wait_us },
            Ok(_) if cost > self.plan.unreported_max => Verdict::Never,
            Ok(_) if full => Verdict::Short {
                wait_us: self.due.since(now).max(1),
            },
            Ok(_) => Verdict::Passed,
        }
    }

    /// Spends `cost` tokens. Whatever it says, [`Self::report`] may have a message.
    pub fn take(&mut self, now: Tick, cost: u64) -> Verdict {
        self.asked = true;
        let verdict = self.check(now, cost);
        if matches!(verdict, Verdict::Passed) {
            owe(&self.whole, &mut self.known, now, i128::from(cost));
            self.spent = self.spent.saturating_add(cost);
        }
        verdict
    }

    /// Somebody asks who is not to pass before the store has said something: a report is due, though there may be nothing
    /// in it.
    pub fn hurry(&mut self, now: Tick) {
        self.asked = true;
        self.due = self.due.min(now);
    }

    /// Puts `tokens` back that were spent and not used.
    pub fn give_back(&mut self, now: Tick, tokens: u64) {
        self.whole.give_back(&mut self.known, now, tokens);
        // What is not reported yet need not be: it is no more that a node may leave unreported.
        let unreported = tokens.min(self.spent);
        self.spent -= unreported;
        self.returned = self.returned.saturating_add(tokens - unreported);
    }

    /// Takes `tokens` whether they are there or not: what has been used already cannot be refused.
    pub fn charge(&mut self, now: Tick, tokens: u64) {
        owe(&self.whole, &mut self.known, now, i128::from(tokens));
        self.spent = self.spent.saturating_add(tokens);
    }

    /// Whole tokens that are there, as far as is known here.
    pub fn remaining(&self, now: Tick) -> u64 {
        self.whole.remaining(&self.known, now)
    }

    /// What to send to the store now, if anything. To be asked after each [`Self::take`], and at
    /// [`Self::due_at`].
    pub fn report(&mut self, now: Tick, rng: &mut Rng) -> Option<Report> {
        if let Some(sent) = &mut self.sent {
            return std::mem::take(&mut sent.again).then_some(sent.report);
        }
        // Who only refuses reports as well, to hear when the bucket has filled.
        let news = self.asked || self.spent > 0 || self.returned > 0;
        if !news || (now < self.due && !self.is_early(now)) {
            return None;
        }
        self.seq += 1;
        let report = Report {
            life: self.life,
            seq: self.seq,
            spent: std::mem::take(&mut self.spent),
            returned: std::mem::take(&mut self.returned),
        };
        let jitter = self.plan.every_us * self.plan.jitter_milli.min(500) / 1_000;
        let early = rng.below(2 * jitter + 1);
        self.cut = now;
        self.due = now.plus(self.plan.every_us + jitter - early);
        self.asked = false;
        self.well_filled = false;
        self.sent = Some(Sent {
            report,
            first: now,
            lost: false,
            again: false,
        });
        Some(report)
    }

    /// The store's answer. One to an earlier report says nothing any more.
    pub fn told(&mut self, now: Tick, told: &Told) {
        if self
            .sent
            .take_if(|sent| sent.report.seq == told.seq)
            .is_none()
        {
            return;
        }
        self.known = BucketState {
            credits: told.credits,
            at: now,
        };
        let since = i128::from(self.spent) - i128::from(self.returned);
        owe(&self.whole, &mut self.known, now, since);
        self.well_filled = self.is_well_filled(now);
        self.heard = true;
    }

    /// The report on its way was not answered in time. Whether the store has seen it nobody knows, so it
    /// is sent again as it is.
    pub fn lost(&mut self, seq: u64) {
        if let Some(sent) = &mut self.sent
            && sent.report.seq == seq
        {
            sent.lost = true;
            sent.again = true;
        }
    }

    /// When to ask for a report though nobody takes anything; `None` when there is nothing to report.
    pub fn due_at(&self) -> Option<Tick> {
        (self.sent.is_none() && (self.spent > 0 || self.returned > 0)).then_some(self.due)
    }

    /// Tokens that the store may not know of.
    pub fn unreported(&self) -> u64 {
        let sent = self.sent.map_or(0, |sent| sent.report.spent);
        self.spent.saturating_add(sent)
    }

    fn is_early(&self, now: Tick) -> bool {
        let pressing = self.spent >= self.plan.unreported_max.div_ceil(2)
            || (self.well_filled && !self.is_well_filled(now));
        self.plan.early && pressing && now.since(self.cut) >= self.plan.gap_us()
    }

    fn is_well_filled(&self, now: Tick) -> bool {
        self.remaining(now) > self.whole.burst() / 5
    }
}

/// The store's side: the bucket of one limit, and whose reports are in it.
#[derive(Clone, Debug)]
pub struct Tally {
    whole: BucketSpec,
    kept_us: u64,
    state: BucketState,
    seen: BTreeMap<Life, (u64, Tick)>,
}

impl Tally {
    /// A bucket that nobody has used.
    pub const fn new(whole: BucketSpec, plan: &AggregatePlan, now: Tick) -> Self {
        Self {
            whole,
            kept_us: plan.kept_us,
            state: whole.full(now),
            seen: BTreeMap::new(),
        }
    }

    /// Takes a report in, once, and says what is in the bucket.
    pub fn report(&mut self, now: Tick, report: &Report) -> Told {
        let kept_us = self.kept_us;
        self.seen.retain(|_, &mut (_, at)| now.since(at) < kept_us);
        let seen = self.seen.get(&report.life).map_or(0, |&(seq, _)| seq);
        let mut tokens = 0;
        if seen < report.seq {
            tokens = i128::from(report.spent) - i128::from(report.returned);
            if seen > 0 || self.seen.len() < REPORTERS_MAX {
                self.seen.insert(report.life, (report.seq, now));
            }
        }
        owe(&self.whole, &mut self.state, now, tokens);
        Told {
            seq: report.seq,
            credits: self.state.credits,
        }
    }
}

/// Takes `tokens` out whether they are there or not, or puts them in when there are fewer than none. Other than for
/// a call that cost more than was thought, all of it stays owed: who could have others forget a part of
/// it by spending more would get past the limit.
fn owe(whole: &BucketSpec, state: &mut BucketState, now: Tick, tokens: i128) {
    whole.give_back(state, now, 0);
    let credits = tokens.saturating_mul(i128::from(whole.credits_per_token()));
    let credits = i128::from(state.credits).saturating_sub(credits);
    let most = i128::from(whole.credits_when_full());
    state.credits = credits.clamp(-i128::from(OWED_MAX), most) as i64;
}

#[cfg(test)]
mod tests;

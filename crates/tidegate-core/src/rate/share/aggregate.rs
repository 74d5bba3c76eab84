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
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    report: Report,
    first: Tick,
    lost: bool,
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
        }
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

    /// Puts `tokens` back that were spent and not used.
    pub fn give_back(&mut self, now: Tick, tokens: u64) {
        self.whole.give_back(&mut self.known, now, tokens);
        self.returned = self.returned.saturating_add(tokens);
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
            let again = sent.lost.then_some(sent.report);
            sent.lost = false;
            return again;
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
    }

    /// The report on its way was not answered in time. Whether the store has seen it nobody knows, so it
    /// is sent again as it is.
    pub fn lost(&mut self, seq: u64) {
        if let Some(sent) = &mut self.sent
            && sent.report.seq == seq
        {
            sent.lost = true;
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
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn hundred() -> BucketSpec {
        BucketSpec::new(100, SECOND, 100).unwrap()
    }

    fn plan() -> AggregatePlan {
        AggregatePlan {
            jitter_milli: 0,
            early: false,
            ..AggregatePlan::usual(100)
        }
    }

    fn reporter(life: u64) -> Reporter {
        Reporter::new(hundred(), plan(), Life(life), Tick(0))
    }

    fn tally() -> Tally {
        Tally::new(hundred(), &plan(), Tick(0))
    }

    /// Reports and is answered at once.
    fn flush(reporter: &mut Reporter, tally: &mut Tally, now: u64) -> Report {
        let report = reporter.report(Tick(now), &mut Rng::new(1)).unwrap();
        let told = tally.report(Tick(now), &report);
        reporter.told(Tick(now), &told);
        report
    }

    #[test]
    fn a_node_knows_what_it_spent_itself_and_hears_of_the_others() {
        let (mut one, mut two, mut tally) = (reporter(1), reporter(2), tally());
        one.take(Tick(0), 40);
        two.take(Tick(0), 30);
        assert_eq!((one.remaining(Tick(0)), two.remaining(Tick(0))), (60, 70));

        flush(&mut one, &mut tally, 0);
        flush(&mut two, &mut tally, 0);

        assert_eq!((one.remaining(Tick(0)), two.remaining(Tick(0))), (60, 30));
        one.take(Tick(100_000), 1);
        flush(&mut one, &mut tally, 100_000);
        assert_eq!(one.remaining(Tick(100_000)), 39);
    }

    #[test]
    fn what_was_used_beyond_what_was_taken_is_owed_and_reported() {
        let (mut one, mut tally) = (reporter(1), tally());
        assert_eq!(one.take(Tick(0), 40), Verdict::Passed);

        one.charge(Tick(0), 90);

        assert_eq!(one.take(Tick(0), 1), Verdict::Short { wait_us: 310_000 });
        assert_eq!(flush(&mut one, &mut tally, 0).spent, 130);
        assert_eq!(one.take(Tick(0), 1), Verdict::Short { wait_us: 310_000 });
    }

    #[test]
    fn what_was_spent_while_a_report_was_on_its_way_is_not_forgotten() {
        let (mut one, mut tally) = (reporter(1), tally());
        one.take(Tick(0), 40);
        let report = one.report(Tick(0), &mut Rng::new(1)).unwrap();
        one.take(Tick(0), 5);

        let told = tally.report(Tick(0), &report);
        one.told(Tick(0), &told);

        assert_eq!(one.remaining(Tick(0)), 55);
        assert_eq!(flush(&mut one, &mut tally, 100_000).spent, 5);
    }

    #[test]
    fn a_report_counts_once_however_often_it_comes() {
        let (mut one, mut tally) = (reporter(1), tally());
        one.take(Tick(0), 40);
        let report = one.report(Tick(0), &mut Rng::new(1)).unwrap();
        tally.report(Tick(0), &report);

        one.lost(report.seq);
        assert_eq!(one.report(Tick(1), &mut Rng::new(1)), Some(report));
        let told = tally.report(Tick(1), &report);
        one.told(Tick(1), &told);
        one.told(Tick(1), &told);

        assert_eq!(one.remaining(Tick(1)), 60);
    }

    #[test]
    fn what_passed_beyond_the_limit_is_owed_to_the_last_token() {
        let mut tally = tally();
        for life in 1..=5 {
            let mut node = reporter(life);
            assert_eq!(node.take(Tick(0), 100), Verdict::Passed);
            flush(&mut node, &mut tally, 0);
        }

        // 500 of 100 were spent, so in four seconds the bucket is at nothing.
        let mut node = reporter(9);
        node.take(Tick(0), 0);
        flush(&mut node, &mut tally, 0);
        assert_eq!(node.take(Tick(0), 1), Verdict::Short { wait_us: 4_010_000 });
        assert_eq!(node.remaining(Tick(4_010_000)), 1);
    }

    #[test]
    fn no_more_is_left_unreported_than_may_be() {
        let plan = AggregatePlan {
            unreported_max: 10,
            ..plan()
        };
        let mut one = Reporter::new(hundred(), plan, Life(1), Tick(0));
        let mut tally = tally();
        assert_eq!(one.take(Tick(0), 11), Verdict::Never);
        assert_eq!(one.take(Tick(0), 10), Verdict::Passed);
        let report = one.report(Tick(0), &mut Rng::new(1)).unwrap();

        assert_eq!(one.take(Tick(1), 1), Verdict::Short { wait_us: 99_999 });
        one.lost(report.seq);
        assert_eq!(one.take(Tick(1), 1), Verdict::Lost);

        let told = tally.report(Tick(1), &report);
        one.told(Tick(2), &told);
        assert_eq!(one.take(Tick(2), 1), Verdict::Passed);
    }

    #[test]
    fn a_store_that_does_not_answer_counts_as_lost_after_a_while() {
        let mut one = reporter(1);
        one.take(Tick(0), 1);
        let report = one.report(Tick(0), &mut Rng::new(1)).unwrap();
        one.lost(report.seq);

        assert_eq!(one.take(Tick(SECOND - 1), 1), Verdict::Passed);
        assert_eq!(one.take(Tick(SECOND), 1), Verdict::Lost);
    }

    #[test]
    fn reports_come_at_their_time_and_not_when_there_is_nothing_to_tell() {
        let (mut one, mut tally) = (reporter(1), tally());
        let mut rng = Rng::new(1);
        assert_eq!(one.report(Tick(0), &mut rng), None);
        one.take(Tick(0), 1);
        flush(&mut one, &mut tally, 0);

        one.take(Tick(50_000), 1);
        assert_eq!(one.report(Tick(99_999), &mut rng), None);
        assert_eq!(one.due_at(), Some(Tick(100_000)));
        flush(&mut one, &mut tally, 100_000);

        assert_eq!(one.report(Tick(SECOND), &mut rng), None);
        assert_eq!(one.due_at(), None);
    }

    #[test]
    fn what_is_given_back_is_reported_as_well() {
        let (mut one, mut tally) = (reporter(1), tally());
        one.take(Tick(0), 40);
        flush(&mut one, &mut tally, 0);

        one.give_back(Tick(1), 40);
        assert_eq!(one.remaining(Tick(1)), 100);
        let report = flush(&mut one, &mut tally, 100_000);

        assert_eq!((report.spent, report.returned), (0, 40));
        assert_eq!(one.remaining(Tick(100_000)), 100);
    }

    #[test]
    fn a_node_that_nears_the_end_reports_early_and_once() {
        let plan = AggregatePlan {
            early: true,
            unreported_max: 1_000,
            ..plan()
        };
        let (mut one, mut tally) = (Reporter::new(hundred(), plan, Life(1), Tick(0)), tally());
        let mut rng = Rng::new(1);
        one.take(Tick(0), 1);
        flush(&mut one, &mut tally, 0);

        one.take(Tick(20_000), 70);
        assert_eq!(one.report(Tick(20_000), &mut rng), None);
        one.take(Tick(20_000), 15);
        flush(&mut one, &mut tally, 20_000);
        one.take(Tick(60_000), 1);

        assert_eq!(one.report(Tick(60_000), &mut rng), None);
    }

    #[test]
    fn the_bound_is_the_smaller_of_what_is_asked_for_and_what_may_be_unreported() {
        let plan = plan();

        // Nine tenths of a thousand a second, for twice 100 ms and 10 ms.
        assert_eq!(plan.overshoot(10, 1_000, 10_000), 189);
        // Nine nodes with a hundred unreported each, and what is reported in 110 ms.
        assert_eq!(plan.overshoot(10, 1_000_000, 10_000), 2_700);
        assert_eq!(plan.overshoot(1, 1_000, 10_000), 0);
        assert_eq!(worst_in(&hundred(), 189, SECOND), 199 + 189);
    }
}

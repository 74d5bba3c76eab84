//! The controller's end of a pooled limit.

use std::collections::BTreeMap;
use std::time::Duration;

use super::demand::{self, Demand};
use super::granted::Granted;
use super::{Gather, Generation, Part, Pooling, Report, Share};
use crate::limit::Insight;
use crate::limit::adaptive::{Cohort, Controller, Learnt, Plan, Settings, Sight};
use crate::time::{Mono, nanos};

/// Most leaves of one hub; reports of more are not taken.
pub const LEAVES_MAX: usize = 1024;

const SLOT: u64 = 1000;

/// A cohort is gathered for no longer than this before its size is looked at.
const SPAN_MOST: Duration = Duration::from_secs(1);

/// Nearly all requests have ended after so many mean latencies.
const DRAIN: u32 = 3;

/// What was learnt goes out to a leaf this often.
const LEARNT_EVERY: Duration = Duration::from_secs(1);

/// A new hub listens for this many refreshes before it speaks: a share for those who happened to
/// report first would be at the cost of those who are a moment later.
const CENSUS: u32 = 2;

/// A leaf that fell silent may go on alone for all we know. If it had more than a tenth of the
/// limit, the hub does not see the whole for this long.
const SIGHT_AFTER: Duration = Duration::from_secs(60);

/// A gateway, by a number that is its own also after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeafId(pub u64);

/// One limit for all gateways of an application. See the [module](super) for how it works.
///
/// [`Hub::report`] what leaves say, and send what [`Hub::refresh`] says every [`Pooling::refresh`].
#[derive(Debug)]
pub struct Hub {
    pooling: Pooling,
    controller: Controller,
    plan: Plan,
    generation: Generation,
    phase: Phase,
    /// Of the last share.
    sequence: u64,
    leaves: BTreeMap<LeafId, Member>,
    /// When it began to listen.
    since: Option<Mono>,
    partly_blind_until: Mono,
    deposed: bool,
    latest: Mono,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The limit is on its way to the leaves, since this moment.
    Settling { since: Mono },
    /// A cohort is being gathered or waited for.
    Gathering(Gather),
}

#[derive(Debug)]
struct Member {
    life: u64,
    /// Of its last report.
    sequence: u64,
    heard: Mono,
    /// What it holds.
    generation: Generation,
    granted: Granted,
    demand: Demand,
    /// When it wrote its last report, by its own clock.
    reported_at: Mono,
    part: Option<Part>,
    /// When it was last told what was learnt.
    told_at: Option<Mono>,
}

impl Hub {
    /// A hub with the given `term`, which is higher than that of any before it. It starts from
    /// what was `learnt` before, so that it need not learn baselines from an application that is
    /// overloaded at this very moment.
    pub fn new(
        settings: Settings,
        pooling: Pooling,
        term: u64,
        seed: u64,
        learnt: Option<&Learnt>,
    ) -> Self {
        let controller = match learnt {
            Some(learnt) => Controller::resume(settings, seed, learnt),
            None => Controller::new(settings, seed),
        };
        Self {
            pooling,
            plan: controller.plan(),
            controller,
            generation: Generation { term, number: 1 },
            phase: Phase::Settling {
                since: Mono::default(),
            },
            sequence: 0,
            leaves: BTreeMap::new(),
            since: None,
            partly_blind_until: Mono::default(),
            deposed: false,
            latest: Mono::default(),
        }
    }

    /// What a leaf says. Reports that come late or twice, or from a process that has been
    /// restarted since, change nothing.
    pub fn report(&mut self, now: Mono, from: LeafId, report: Report) {
        let now = self.advance(now);
        if report.generation.term > self.generation.term {
            self.deposed = true;
            return;
        }
        if !self.leaves.contains_key(&from) {
            if self.leaves.len() >= LEAVES_MAX {
                return;
            }
            self.leaves.insert(from, Member::new(now, &report));
        }
        let own = self.generation.term;
        if let Some(member) = self.leaves.get_mut(&from) {
            member.take(now, own, report);
        }
    }

    /// Time for shares: what to send to whom is put into `out`.
    pub fn refresh(&mut self, now: Mono, out: &mut Vec<(LeafId, Share)>) {
        let now = self.advance(now);
        let since = *self.since.get_or_insert(now);
        if self.deposed || now.since(since) < self.pooling.refresh() * CENSUS {
            return;
        }
        self.drop_silent(now);
        if !self.leaves.is_empty() {
            self.step(now);
            self.hand_out(now, out);
        }
    }

    /// The limit of all leaves together.
    pub const fn limit(&self) -> u32 {
        self.controller.limit()
    }

    /// How many gateways share it.
    pub fn gateways(&self) -> u32 {
        self.leaves.len() as u32
    }

    /// Whether there is a hub with a higher term, so that this one has nothing to say any more.
    pub const fn is_deposed(&self) -> bool {
        self.deposed
    }

    /// What it has learnt, for people.
    pub fn insight(&self) -> Insight {
        Insight {
            gateways: Some(self.gateways()),
            ..self.controller.insight()
        }
    }

    /// What decides.
    pub const fn controller(&self) -> &Controller {
        &self.controller
    }

    fn advance(&mut self, now: Mono) -> Mono {
        self.latest = self.latest.max(now);
        self.latest
    }

    fn drop_silent(&mut self, now: Mono) {
        let silence = self.pooling.silence();
        let mut lost = 0;
        self.leaves.retain(|_, member| {
            let living = now.since(member.heard) <= silence;
            if !living {
                lost += member.granted.most();
            }
            living
        });
        if lost * 10 > u64::from(self.controller.limit()) * SLOT {
            self.partly_blind_until = now + SIGHT_AFTER;
        }
        self.controller.see(if now < self.partly_blind_until {
            Sight::Part
        } else {
            Sight::Whole
        });
    }

    /// Opens a cohort when everybody holds the limit; evaluates it when it has ended.
    fn step(&mut self, now: Mono) {
        match self.phase {
            Phase::Settling { since } => {
                let mut leaves = self.leaves.values();
                if leaves.all(|member| member.generation == self.generation) {
                    self.open(now.since(since));
                }
            }
            Phase::Gathering(gather) => {
                let Some(cohort) = self.merged(now) else {
                    return;
                };
                if !cohort.may_close(now, &self.plan) {
                    self.phase = Phase::Gathering(Gather {
                        span: self.span(),
                        round: gather.round + 1,
                        ..gather
                    });
                } else if cohort.may_evaluate(now, &self.plan) {
                    self.evaluate(now, &cohort);
                }
            }
        }
    }

    fn open(&mut self, settled: Duration) {
        self.generation.number += 1;
        self.phase = Phase::Gathering(Gather {
            // Half of the time was the way to the leaves.
            settle: self.plan.settle.saturating_sub(settled / 2),
            span: self.span(),
            round: 0,
        });
    }

    /// How long to take requests in: for as long as it should take to gather a cohort, and then
    /// until its last request is likely to end with a refresh. What came of it is told only then,
    /// and a larger cohort is a better one.
    fn span(&self) -> Duration {
        let leaves = self.leaves.values();
        let per_second: f64 = leaves.map(|leaf| leaf.demand.finished_per_second()).sum();
        let needed = f64::from(self.plan.admissions_least) / per_second;
        let needed = Duration::try_from_secs_f64(needed).unwrap_or(SPAN_MOST);
        let needed = needed.min(SPAN_MOST).max(self.plan.span_least);
        let latency = demand::mean_latency(self.leaves.values().map(|leaf| &leaf.demand));
        let drain = latency.saturating_mul(DRAIN);
        let refresh = nanos(self.pooling.refresh());
        let told = nanos(needed.saturating_add(drain))
            .div_ceil(refresh)
            .saturating_mul(refresh);
        needed.max(Duration::from_nanos(told).saturating_sub(drain))
    }

    fn evaluate(&mut self, now: Mono, cohort: &Cohort) {
        let before = self.controller.limit();
        self.controller.evaluate(now, cohort);
        self.plan = self.controller.plan();
        if self.controller.limit() == before {
            self.open(Duration::MAX);
        } else {
            self.generation.number += 1;
            self.phase = Phase::Settling { since: now };
        }
    }

    /// The cohort of this generation, once everybody has closed its part of it.
    fn merged(&self, now: Mono) -> Option<Cohort> {
        let mut parts = Vec::with_capacity(self.leaves.len());
        for member in self.leaves.values() {
            let part = member.part.as_ref()?;
            if part.generation != self.generation || part.cohort.closed.is_none() {
                return None;
            }
            parts.push(as_of(now, member.reported_at, &part.cohort));
        }
        // Some have counted for longer than others, as their reports are of different moments.
        let counted = |part: &Cohort| now.since(part.counted_from).as_secs_f64();
        let longest = parts.iter().map(counted).fold(0.0, f64::max);
        parts
            .into_iter()
            .map(|mut part| {
                let seconds = counted(&part);
                if seconds > 0.0 {
                    part.worked = (f64::from(part.worked) * longest / seconds).round() as u32;
                }
                part
            })
            .reduce(|mut merged, part| {
                merged.merge(&part);
                merged
            })
    }

    fn hand_out(&mut self, now: Mono, out: &mut Vec<(LeafId, Share)>) {
        let whole = u64::from(self.controller.limit()) * SLOT;
        let demands = self.leaves.values().map(|member| &member.demand);
        let wanted = demand::divide(whole, demands);

        // What a leaf may be using is not free before it has said that it gave it up.
        let used: u64 = self
            .leaves
            .values()
            .map(|member| member.granted.most())
            .sum();
        let free = whole.saturating_sub(used);
        let raises = self.leaves.values().zip(&wanted);
        let raises: u64 = raises
            .map(|(member, &wanted)| wanted.saturating_sub(member.granted.most()))
            .sum();

        let learnt = self.controller.learnt();
        let steady = learnt.limit.max(0.0) / f64::from(self.controller.limit().max(1));
        let insight = self.insight();
        let gather = match self.phase {
            Phase::Settling { .. } => None,
            Phase::Gathering(gather) => Some(gather),
        };
        for ((&id, member), wanted) in self.leaves.iter_mut().zip(wanted) {
            let most = member.granted.most();
            let raise = wanted.saturating_sub(most);
            let raise = (u128::from(raise) * u128::from(free.min(raises)))
                .checked_div(u128::from(raises))
                .unwrap_or_default() as u64;
            let milli = wanted.min(most + raise);
            self.sequence += 1;
            member.granted.send(self.sequence, milli);
            let tell = member
                .told_at
                .is_none_or(|at| now.since(at) >= LEARNT_EVERY);
            if tell {
                member.told_at = Some(now);
            }
            let share = Share {
                generation: self.generation,
                sequence: self.sequence,
                milli,
                steady_milli: (milli as f64 * steady) as u64,
                gather,
                gateways: insight.gateways.unwrap_or_default(),
                insight,
                learnt: tell.then(|| learnt.clone()),
            };
            out.push((id, share));
        }
    }
}

impl Member {
    fn new(now: Mono, report: &Report) -> Self {
        Self {
            life: report.life,
            sequence: 0,
            heard: now,
            generation: Generation::default(),
            granted: Granted::using(report.milli),
            demand: Demand::default(),
            reported_at: report.at,
            part: None,
            told_at: None,
        }
    }

    fn take(&mut self, now: Mono, term: u64, report: Report) {
        if report.life > self.life {
            // What was on its way to the process before is void.
            self.life = report.life;
            self.sequence = 0;
            self.generation = Generation::default();
            self.granted = Granted::using(report.milli);
            self.demand.restart();
            self.part = None;
            self.told_at = None;
        }
        if report.life < self.life || report.sequence <= self.sequence {
            return;
        }
        self.sequence = report.sequence;
        self.heard = now;
        self.generation = report.generation;
        let held = if report.generation.term == term {
            report.held
        } else {
            0
        };
        self.granted.acknowledge(held, report.milli);
        self.demand.see(report.at, &report.totals);
        self.reported_at = report.at;
        self.part = report.part;
    }
}

/// `cohort`, of which a leaf told at `at` by its own clock, as if it had told now: only how long ago
/// things were is known of its clock.
fn as_of(now: Mono, at: Mono, cohort: &Cohort) -> Cohort {
    let moved = |time: Mono| now.minus(at.since(time)) + time.since(at);
    let mut cohort = cohort.clone();
    cohort.opened = moved(cohort.opened);
    cohort.closed = cohort.closed.map(moved);
    cohort.counted_from = moved(cohort.counted_from);
    cohort
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::RouteId;
    use crate::limit::Limit;
    use crate::limit::pooled::Leaf;

    const REFRESH_MS: u64 = 100;

    fn at(ms: u64) -> Mono {
        Mono::from_millis(ms)
    }

    fn hub(term: u64) -> Hub {
        Hub::new(Settings::default(), Pooling::default(), term, 1, None)
    }

    fn leaf(life: u64) -> Leaf {
        Leaf::new(Settings::default(), Pooling::default(), life, 1, None)
    }

    /// `leaves` report, and get their shares at the same moment.
    fn exchange(hub: &mut Hub, ms: u64, leaves: &mut [&mut Leaf]) -> Vec<Share> {
        for (id, leaf) in leaves.iter_mut().enumerate() {
            hub.report(at(ms), LeafId(id as u64), leaf.report(at(ms)));
        }
        let mut out = Vec::new();
        hub.refresh(at(ms), &mut out);
        for (LeafId(id), share) in &out {
            if let Some(leaf) = leaves.get_mut(*id as usize) {
                leaf.take(at(ms), share.clone());
            }
        }
        out.into_iter().map(|(_, share)| share).collect()
    }

    #[test]
    fn a_cohort_is_opened_only_when_everybody_holds_the_limit() {
        let (mut hub, mut first, mut second) = (hub(1), leaf(1), leaf(2));
        for round in 0..2 {
            exchange(&mut hub, round * REFRESH_MS, &mut [&mut first, &mut second]);
        }

        let gathers = |shares: Vec<Share>| shares.iter().any(|share| share.gather.is_some());

        let limits = exchange(&mut hub, 200, &mut [&mut first, &mut second]);
        assert!(!gathers(limits));
        for ms in [300, 400] {
            // The second one has got its share, but has not said so.
            assert!(!gathers(exchange(&mut hub, ms, &mut [&mut first])));
        }
        assert!(gathers(exchange(
            &mut hub,
            500,
            &mut [&mut first, &mut second]
        )));
    }

    #[test]
    fn what_a_silent_leaf_held_goes_to_the_others_after_a_while() {
        let (mut hub, mut first, mut second) = (hub(1), leaf(1), leaf(2));
        for round in 0..10 {
            exchange(&mut hub, round * REFRESH_MS, &mut [&mut first, &mut second]);
        }
        assert_eq!((first.limit(), second.limit()), (10, 10));
        assert_eq!(first.insight().gateways, Some(2));

        for round in 10..30 {
            exchange(&mut hub, round * REFRESH_MS, &mut [&mut first]);
        }

        assert_eq!(first.limit(), 20);
        assert_eq!((hub.gateways(), first.insight().gateways), (1, Some(1)));
        assert!(second.report(at(3000)).milli <= 10_000);
    }

    #[test]
    fn a_new_leaf_gets_only_what_others_have_given_up() {
        let (mut hub, mut first, mut second) = (hub(1), leaf(1), leaf(2));
        for round in 0..5 {
            exchange(&mut hub, round * REFRESH_MS, &mut [&mut first]);
        }
        assert_eq!(first.limit(), 20);
        second.take(
            at(450),
            Share {
                milli: 0,
                ..exchange(&mut hub, 450, &mut [&mut first])[0].clone()
            },
        );

        let shares = exchange(&mut hub, 500, &mut [&mut first, &mut second]);
        let milli: Vec<u64> = shares.iter().map(|share| share.milli).collect();
        assert_eq!(
            milli,
            [10_000, 0],
            "the first one has not said that it knows"
        );

        let shares = exchange(&mut hub, 600, &mut [&mut first, &mut second]);
        let milli: Vec<u64> = shares.iter().map(|share| share.milli).collect();
        assert_eq!(milli, [10_000, 10_000]);
    }

    #[test]
    fn a_new_hub_listens_first_and_starts_from_what_was_learnt() {
        let learnt = Learnt {
            limit: 120.0,
            throughput: 2000.0,
            baselines: vec![(RouteId(0), Duration::from_millis(50), 200)],
        };
        let settings = Settings::default();
        let mut hub = Hub::new(settings, Pooling::default(), 2, 1, Some(&learnt));
        let (mut first, mut second) = (leaf(1), leaf(2));

        assert_eq!(exchange(&mut hub, 0, &mut [&mut first]), []);
        assert_eq!(exchange(&mut hub, 100, &mut [&mut first]), []);
        let shares = exchange(&mut hub, 200, &mut [&mut first, &mut second]);

        let milli: Vec<u64> = shares.iter().map(|share| share.milli).collect();
        assert_eq!(milli, [60_000, 60_000]);
        assert_eq!(Limit::learnt(&first), Some(learnt));
    }

    #[test]
    fn a_hub_that_was_replaced_falls_silent() {
        let (mut old, mut new, mut leaf) = (hub(1), hub(2), leaf(1));
        for round in 0..5 {
            exchange(&mut new, round * REFRESH_MS, &mut [&mut leaf]);
        }

        assert_eq!(exchange(&mut old, 0, &mut [&mut leaf]), []);
        assert_eq!(exchange(&mut old, 900, &mut [&mut leaf]), []);
        assert!(old.is_deposed() && !new.is_deposed());
    }

    #[test]
    fn a_report_that_comes_late_or_from_an_earlier_process_changes_nothing() {
        let (mut hub, mut old) = (hub(1), leaf(1));
        for round in 0..5 {
            exchange(&mut hub, round * REFRESH_MS, &mut [&mut old]);
        }
        let late = old.report(at(450));
        exchange(&mut hub, 500, &mut [&mut old]);
        let held = hub.leaves[&LeafId(0)].generation;

        hub.report(at(510), LeafId(0), late);
        assert_eq!(hub.leaves[&LeafId(0)].heard, at(500));

        let mut restarted = leaf(2);
        hub.report(at(600), LeafId(0), restarted.report(at(600)));
        assert_eq!(hub.leaves[&LeafId(0)].generation, Generation::default());
        hub.report(at(610), LeafId(0), old.report(at(610)));
        assert_ne!(hub.leaves[&LeafId(0)].generation, held);
    }

    #[test]
    fn more_leaves_than_the_most_are_not_taken_in() {
        let mut hub = hub(1);

        for id in 0..=LEAVES_MAX as u64 {
            hub.report(at(0), LeafId(id), leaf(1).report(at(0)));
        }

        assert_eq!(hub.gateways() as usize, LEAVES_MAX);
    }
}

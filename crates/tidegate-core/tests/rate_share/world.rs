//! Nodes before one store, with messages that take their time and get lost, in whole microseconds. The same plan and
//! seed are the same run.

use std::collections::BTreeMap;

use tidegate_core::rate::share::aggregate::{AggregatePlan, Report, Reporter, Tally, Told};
use tidegate_core::rate::share::divided::{Divided, PartState};
use tidegate_core::rate::share::following::{Epoch, Following, Membership, Roll};
use tidegate_core::rate::share::lease::{Ask, Grant, LeasePlan, Lessee, Lessor};
use tidegate_core::rate::share::{Life, Verdict};
use tidegate_core::rate::{BucketSpec, BucketState, Tick};
use tidegate_core::rng::Rng;

pub(crate) const SECOND: u64 = 1_000_000;
/// When requests begin; the store and the first nodes are there before.
const START: u64 = 100 * SECOND;
/// Leases of members, and how often they renew.
const LEASE_US: u64 = 3 * SECOND;
const RENEW_US: u64 = SECOND;
/// A message without an answer counts as lost after this.
const TIMEOUT_US: u64 = 8_000;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// Each node has the whole limit to itself.
    Alone,
    /// The store is asked for each request.
    Shared,
    Divided,
    Lease(LeasePlan),
    Aggregate(AggregatePlan),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Start,
    /// The node that has been there the longest stops and says goodbye.
    Leave,
    /// The node that has been there the longest is killed.
    Kill,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) way: Way,
    pub(crate) whole: BucketSpec,
    /// A node each, and which part of the requests comes to it; those that start later get as much as
    /// the last of these.
    pub(crate) weights: Vec<u64>,
    pub(crate) offered_per_s: u64,
    pub(crate) span_us: u64,
    /// For a message to arrive.
    pub(crate) delay_us: u64,
    /// Of a thousand messages so many get lost.
    pub(crate) lost_milli: u64,
    /// From the first request on.
    pub(crate) changes: Vec<(u64, Change)>,
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// When requests passed, from the first request on, in order.
    pub(crate) passed: Vec<u64>,
    /// Requests that had no answer of the store.
    pub(crate) lost: u64,
    /// Questions and reports that reached the store.
    pub(crate) operations: u64,
    /// Of those the asks that got tokens.
    pub(crate) grants: u64,
    /// How often a node asked the store who is there.
    pub(crate) renewals: u64,
}

impl Plan {
    /// So many nodes with as many requests each.
    pub(crate) fn even(
        way: Way,
        whole: BucketSpec,
        nodes: usize,
        offered_per_s: u64,
        span_us: u64,
    ) -> Self {
        Self {
            way,
            whole,
            weights: vec![1; nodes],
            offered_per_s,
            span_us,
            delay_us: 0,
            lost_milli: 0,
            changes: Vec::new(),
            seed: 1,
        }
    }

    pub(crate) fn run(&self) -> Outcome {
        let mut world = World::new(self);
        while let Some(((at, _), event)) = world.queue.pop_first() {
            if at >= START + self.span_us {
                break;
            }
            world.now = at;
            world.handle(event);
        }
        world.outcome
    }
}

impl Outcome {
    pub(crate) fn total(&self) -> u64 {
        self.passed.len() as u64
    }

    /// The most that passed in any so many microseconds.
    pub(crate) fn most_in(&self, window_us: u64) -> u64 {
        let (mut first, mut most) = (0, 0);
        for (last, &at) in self.passed.iter().enumerate() {
            while self.passed[first] + window_us <= at {
                first += 1;
            }
            most = most.max(last + 1 - first);
        }
        most as u64
    }
}

enum Event {
    Arrive(u64),
    Renew(usize),
    Due(usize),
    Timeout(usize, u64),
    Change(Change),
    Renewal(usize, Tick, Epoch),
    Followed(usize, Tick, Membership),
    Question,
    Ask(usize, Ask),
    Grant(usize, Grant),
    Report(usize, Report),
    Told(usize, Told),
}

struct Node {
    life: Life,
    weight: u64,
    /// For taking turns by weight.
    turn: i128,
    alive: bool,
    alone: BucketState,
    following: Following,
    bucket: Option<PartState>,
    lessee: Lessee,
    reporter: Reporter,
    /// Requests that wait for the store's answer.
    waiting: u64,
    due: Option<u64>,
}

struct World<'a> {
    plan: &'a Plan,
    now: u64,
    queue: BTreeMap<(u64, u64), Event>,
    numbered: u64,
    nodes: Vec<Node>,
    rng: Rng,
    divided: Divided,
    shared: BucketState,
    roll: Roll,
    lessor: Lessor,
    tally: Tally,
    outcome: Outcome,
}

/// Any plan, for those ways that need none.
fn plans(way: Way) -> (LeasePlan, AggregatePlan) {
    let (lease, aggregate) = (LeasePlan::usual(1), AggregatePlan::usual(1));
    match way {
        Way::Lease(lease) => (lease, aggregate),
        Way::Aggregate(aggregate) => (lease, aggregate),
        Way::Alone | Way::Shared | Way::Divided => (lease, aggregate),
    }
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan) -> Self {
        let (lease, aggregate) = plans(plan.way);
        let start = Tick(START);
        let mut world = Self {
            plan,
            now: START - 10 * SECOND,
            queue: BTreeMap::new(),
            numbered: 0,
            nodes: Vec::new(),
            rng: Rng::new(plan.seed),
            divided: Divided::new(plan.whole, 100).expect("coarse enough"),
            shared: plan.whole.full(start),
            roll: Roll::new(Tick(0)),
            lessor: Lessor::new(plan.whole, lease, start),
            tally: Tally::new(plan.whole, &aggregate, start),
            outcome: Outcome::default(),
        };
        for &weight in &plan.weights {
            world.start(weight);
        }
        world.at(START, Event::Arrive(0));
        for &(after, change) in &plan.changes {
            world.at(START + after, Event::Change(change));
        }
        world
    }

    fn start(&mut self, weight: u64) {
        let (lease, aggregate) = plans(self.plan.way);
        let life = Life(self.nodes.len() as u64 + 1);
        let clock = Tick(self.now.max(START) + offset(life));
        let whole = self.plan.whole;
        self.nodes.push(Node {
            life,
            weight,
            turn: 0,
            alive: true,
            alone: whole.full(clock),
            following: Following::new(life, LEASE_US),
            bucket: None,
            lessee: Lessee::new(&whole, lease, life),
            reporter: Reporter::new(whole, aggregate, life, clock),
            waiting: 0,
            due: None,
        });
        if matches!(self.plan.way, Way::Divided) {
            // Not all at the same time.
            let later = self.rng.below(RENEW_US);
            self.at(self.now + later, Event::Renew(self.nodes.len() - 1));
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive(number) => {
                if let Some(node) = self.turn() {
                    self.request(node);
                }
                let number = number + 1;
                let at = START + number * SECOND / self.plan.offered_per_s;
                self.at(at, Event::Arrive(number));
            }
            Event::Due(node) => {
                self.nodes[node].due = None;
                self.talk(node);
            }
            Event::Timeout(node, seq) => {
                let it = &mut self.nodes[node];
                it.lessee.lost(seq);
                it.reporter.lost(seq);
                self.retake(node);
            }
            Event::Change(change) => self.change(change),
            Event::Renew(node) if self.nodes[node].alive => {
                let follows = self.nodes[node].following.follows();
                self.send(Event::Renewal(node, self.clock(node), follows));
                self.at(self.now + RENEW_US, Event::Renew(node));
            }
            Event::Renew(_) => {}
            Event::Renewal(node, asked, follows) => {
                let now = Tick(self.now);
                self.outcome.renewals += 1;
                let life = self.nodes[node].life;
                assert!(self.roll.renew(now, life, follows, LEASE_US));
                let membership = self.roll.membership(now);
                self.send(Event::Followed(node, asked, membership));
            }
            Event::Followed(node, asked, membership) => {
                let now = self.clock(node);
                let _ = self.nodes[node].following.take(asked, now, &membership);
            }
            Event::Question => {
                self.outcome.operations += 1;
                let passed = self.plan.whole.take(&mut self.shared, Tick(self.now), 1);
                if passed.is_ok() {
                    self.outcome.passed.push(self.now - START);
                }
            }
            Event::Ask(node, ask) => {
                self.outcome.operations += 1;
                if let Some(grant) = self.lessor.ask(Tick(self.now), &ask) {
                    self.outcome.grants += u64::from(grant.tokens > 0);
                    self.send(Event::Grant(node, grant));
                }
            }
            Event::Report(node, report) => {
                self.outcome.operations += 1;
                let told = self.tally.report(Tick(self.now), &report);
                self.send(Event::Told(node, told));
            }
            Event::Grant(node, grant) => {
                let now = self.clock(node);
                self.nodes[node].lessee.granted(now, &grant);
                self.retake(node);
            }
            Event::Told(node, told) => {
                let now = self.clock(node);
                self.nodes[node].reporter.told(now, &told);
                self.talk(node);
            }
        }
    }

    fn request(&mut self, node: usize) {
        let now = self.clock(node);
        let it = &mut self.nodes[node];
        let verdict = match self.plan.way {
            Way::Alone => match self.plan.whole.take(&mut it.alone, now, 1) {
                Ok(_) => Verdict::Passed,
                Err(_) => Verdict::Short { wait_us: 1 },
            },
            Way::Shared => {
                self.send(Event::Question);
                return;
            }
            Way::Divided => self.divided.take(&mut it.bucket, &it.following, now, 1),
            Way::Lease(_) => it.lessee.take(now, 1),
            Way::Aggregate(_) => it.reporter.take(now, 1),
        };
        match verdict {
            Verdict::Passed => self.outcome.passed.push(self.now - START),
            Verdict::Ask => it.waiting += 1,
            Verdict::Lost => self.outcome.lost += 1,
            Verdict::Short { .. } | Verdict::Never => {}
        }
        self.talk(node);
    }

    /// Decides again what waited for an answer.
    fn retake(&mut self, node: usize) {
        for _ in 0..std::mem::take(&mut self.nodes[node].waiting) {
            if self.nodes[node].alive {
                self.request(node);
            }
        }
        self.talk(node);
    }

    /// Sends what the node has to say, and comes back when it has more.
    fn talk(&mut self, node: usize) {
        if !self.nodes[node].alive {
            return;
        }
        let clock = self.clock(node);
        let it = &mut self.nodes[node];
        let (seq, event, due) = match self.plan.way {
            Way::Lease(_) => {
                let ask = it.lessee.ask(clock);
                let event = ask.map(|ask| Event::Ask(node, ask));
                (ask.map(|ask| ask.seq), event, it.lessee.due_at())
            }
            Way::Aggregate(_) => {
                let report = it.reporter.report(clock, &mut self.rng);
                let event = report.map(|report| Event::Report(node, report));
                (report.map(|report| report.seq), event, it.reporter.due_at())
            }
            Way::Alone | Way::Shared | Way::Divided => return,
        };
        let due = due
            .map(|due| due.0 - offset(it.life))
            .filter(|&due| self.now < due);
        if let Some(due) = due.filter(|&due| it.due.is_none_or(|known| due < known)) {
            it.due = Some(due);
            self.at(due, Event::Due(node));
        }
        if let (Some(seq), Some(event)) = (seq, event) {
            self.at(self.now + TIMEOUT_US, Event::Timeout(node, seq));
            self.send(event);
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Start => self.start(self.plan.weights.last().copied().unwrap_or(1)),
            Change::Leave | Change::Kill => {
                let Some(node) = self.nodes.iter().position(|node| node.alive) else {
                    return;
                };
                if matches!(change, Change::Leave) {
                    let it = &mut self.nodes[node];
                    it.following.leave();
                    self.roll.leave(Tick(self.now), it.life);
                    it.lessee.close();
                    self.talk(node);
                }
                self.nodes[node].alive = false;
            }
        }
    }

    /// Whose turn it is, so that each gets its part as evenly as can be.
    fn turn(&mut self) -> Option<usize> {
        let all: u64 = self
            .nodes
            .iter()
            .filter(|node| node.alive)
            .map(|node| node.weight)
            .sum();
        for node in self.nodes.iter_mut().filter(|node| node.alive) {
            node.turn += i128::from(node.weight);
        }
        let alive = self
            .nodes
            .iter_mut()
            .enumerate()
            .filter(|(_, node)| node.alive);
        let (which, node) = alive.max_by_key(|(which, node)| (node.turn, usize::MAX - which))?;
        node.turn -= i128::from(all);
        Some(which)
    }

    fn send(&mut self, event: Event) {
        if self.rng.below(1_000) >= self.plan.lost_milli {
            self.at(self.now + self.plan.delay_us, event);
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.numbered += 1;
        self.queue.insert((at, self.numbered), event);
    }

    fn clock(&self, node: usize) -> Tick {
        Tick(self.now + offset(self.nodes[node].life))
    }
}

/// Clocks of nodes show other times than the store's.
const fn offset(life: Life) -> u64 {
    life.0 * 1_234_567
}

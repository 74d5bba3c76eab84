//! A fleet as a flow, in ticks of a second: load divides by weight, a node completes what it can, and what is measured takes
//! its time to become a weight. What steers it is either the core, or one of two usual ways to do it.

use std::collections::VecDeque;

use tidegate_core::health::{
    Dimension, Estimate, Fleet, Load, NodeId, Pull, Readings, Report, Scales, Settings, Signal,
    Smoothing, State,
};
use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;

/// What one node does in one tick.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    pub(crate) offered: f64,
    pub(crate) capacity: f64,
}

impl Flow {
    pub(crate) fn completed(&self) -> f64 {
        self.offered.min(self.capacity)
    }

    /// What is asked of the node, of what it can do; above 1 when it is too much.
    pub(crate) fn asked(&self) -> f64 {
        self.offered / self.capacity
    }

    /// Busy workers of those there are.
    pub(crate) fn busy(&self) -> f64 {
        self.asked().min(1.0)
    }

    /// What is measured of it. What a node completes is counted; how busy it is is looked at now and then, and is off by
    /// this factor.
    pub(crate) fn measured(&self, off: f64) -> Measured {
        Measured {
            offered: self.offered,
            completed: self.completed(),
            busy: (self.busy() * off).min(1.0),
        }
    }
}

/// What is known of one node's tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    offered: f64,
    completed: f64,
    busy: f64,
}

/// `offered` divided by `weights` among nodes of these capacities; nobody gets anything when nobody has a weight.
pub(crate) fn divide(offered: f64, weights: &[f64], capacities: &[f64]) -> Vec<Flow> {
    let all: f64 = weights.iter().sum();
    weights
        .iter()
        .zip(capacities)
        .map(|(&weight, &capacity)| Flow {
            offered: if all > 0.0 {
                offered * weight / all
            } else {
                0.0
            },
            capacity,
        })
        .collect()
}

pub(crate) fn at(tick: usize) -> Mono {
    Mono::from_millis(1_000 * (tick as u64 + 1))
}

/// A way to make weights of what was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Law {
    /// By what a node can do: the core's.
    Capacity,
    /// By what it has left: the usual one.
    Headroom,
}

/// A loop whose every parameter is said: four nodes, one of which can do half of what the others can.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loop {
    pub(crate) law: Law,
    /// What is offered, of what the four can do together.
    pub(crate) utilisation: f64,
    /// The weight of the latest value in the average, the same in both directions.
    pub(crate) alpha: f64,
    /// Ticks from a measurement to the weights that come of it.
    pub(crate) delay: usize,
}

const LOOP_NODES: [f64; 4] = [100.0, 100.0, 100.0, 50.0];
/// By headroom a node keeps so much at least, or it would never be heard of again.
const WEIGHT_MIN: f64 = 0.01;
const LOOP_TICKS: usize = 400;
/// When a loop has had all the time it needs.
const LOOP_TAIL: usize = 300;

impl Loop {
    /// How far what is asked of a node goes up and down in the end, at the node where it is most; 0 is calm.
    pub(crate) fn tail_spread(self) -> f64 {
        let offered = self.utilisation * LOOP_NODES.iter().sum::<f64>();
        let mut steered = Steered::new(self);
        let mut weights = vec![1.0; LOOP_NODES.len()];
        let mut on_its_way = VecDeque::new();
        let mut ends = [(f64::MAX, f64::MIN); LOOP_NODES.len()];
        for tick in 0..LOOP_TICKS {
            let flows = divide(offered, &weights, &LOOP_NODES);
            for (end, flow) in ends.iter_mut().zip(&flows).filter(|_| tick >= LOOP_TAIL) {
                *end = (end.0.min(flow.asked()), end.1.max(flow.asked()));
            }
            on_its_way.push_back(flows);
            if on_its_way.len() == self.delay {
                let measured = on_its_way.pop_front().unwrap_or_default();
                steered.step(at(tick), &measured, &mut weights);
            }
        }
        ends.iter().map(|end| end.1 - end.0).fold(0.0, f64::max)
    }
}

struct Steered {
    law: Law,
    alpha: f64,
    smoothing: Smoothing,
    nodes: [Kept; LOOP_NODES.len()],
}

/// What is kept of a node, by either law.
#[derive(Clone, Copy, Default)]
struct Kept {
    left: f64,
    estimate: Option<Estimate>,
    pull: Pull,
}

impl Steered {
    fn new(plan: Loop) -> Self {
        Self {
            law: plan.law,
            alpha: plan.alpha,
            smoothing: Smoothing::new(plan.alpha, plan.alpha).expect("a weight"),
            nodes: [Kept {
                left: 1.0 - plan.utilisation,
                ..Kept::default()
            }; LOOP_NODES.len()],
        }
    }

    fn step(&mut self, now: Mono, measured: &[Flow], weights: &mut [f64]) {
        for ((flow, weight), node) in measured.iter().zip(weights).zip(&mut self.nodes) {
            match self.law {
                Law::Headroom => {
                    node.left += self.alpha * (1.0 - flow.asked() - node.left);
                    *weight = node.left.max(WEIGHT_MIN);
                }
                Law::Capacity => {
                    let (before, load) = (node.estimate, load(now, &flow.measured(1.0)));
                    node.estimate = Estimate::learn(before, &self.smoothing, now, Some(&load));
                    if let Some(estimate) = node.estimate {
                        node.pull.step(estimate.rps);
                    }
                    *weight = node.pull.rps.unwrap_or(*weight);
                }
            }
        }
    }
}

fn load(now: Mono, measured: &Measured) -> Load {
    Load {
        offered_rps: measured.offered,
        completed_rps: measured.completed,
        error_ratio: 0.0,
        utilisation: measured.busy,
        at: now,
    }
}

/// What nodes tell of themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tells {
    /// What they do, and how busy that makes their workers.
    Workers,
    /// What they do, and that they are well: only the weights move.
    Calm,
}

/// A fleet that is steered, by the core or as it usually is, while something happens to it.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    /// Requests per second, until a tick.
    pub(crate) offered: f64,
    /// And so many from that tick on.
    pub(crate) later: (usize, f64),
    /// Of each node before and after.
    pub(crate) capacities: Vec<f64>,
    /// This node can do so much of it, from one tick to another.
    pub(crate) loss: Loss,
    pub(crate) delay: usize,
    /// How far off at most it is measured how busy a node is, in both directions.
    pub(crate) noise: f64,
    pub(crate) seed: u64,
    pub(crate) ticks: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub(crate) node: usize,
    pub(crate) to: f64,
    pub(crate) from_tick: usize,
    pub(crate) to_tick: usize,
}

/// What happened in a tick.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) flows: Vec<Flow>,
    /// What was decided in it.
    pub(crate) states: Vec<State>,
}

impl Moment {
    /// Of what came, what was completed; nothing when there was nobody to send it to.
    pub(crate) fn good(&self) -> f64 {
        let completed: f64 = self.flows.iter().map(Flow::completed).sum();
        let offered: f64 = self.flows.iter().map(|flow| flow.offered).sum();
        if offered > 0.0 {
            completed / offered
        } else {
            0.0
        }
    }

    /// The share of the traffic that `node` has.
    pub(crate) fn share(&self, node: usize) -> f64 {
        let offered: f64 = self.flows.iter().map(|flow| flow.offered).sum();
        self.flows[node].offered / offered
    }

    /// How far what is asked of a node is from `utilisation`, as a part of it, at the node where that is most.
    pub(crate) fn off(&self, utilisation: f64) -> f64 {
        let off = |flow: &Flow| (flow.asked() / utilisation - 1.0).abs();
        self.flows.iter().map(off).fold(0.0, f64::max)
    }

    /// Nodes that are out.
    pub(crate) fn out(&self) -> usize {
        let is_out = |state: &&State| **state == State::Saturated;
        self.states.iter().filter(is_out).count()
    }
}

impl Story {
    fn capacities(&self, tick: usize) -> Vec<f64> {
        let mut capacities = self.capacities.clone();
        if (self.loss.from_tick..self.loss.to_tick).contains(&tick) {
            capacities[self.loss.node] *= self.loss.to;
        }
        capacities
    }

    /// Plays it with the core's decisions.
    pub(crate) fn with_tidegate(&self, tells: Tells) -> Vec<Moment> {
        let mut fleet = Fleet::new(Settings::default());
        let mut decisions = Vec::new();
        self.play(|now, measured| {
            for (node, measured) in (0..).zip(measured) {
                let report = report(now, measured, tells);
                fleet.report(now, NodeId(node), report).expect("few nodes");
            }
            fleet.tick(now, &mut decisions);
            let outcomes = decisions.iter().map(|it| it.outcome);
            let weights = outcomes.clone().map(|it| f64::from(it.weight)).collect();
            (weights, outcomes.map(|it| it.to).collect())
        })
    }

    /// Plays it with weights by what nodes have left, smoothed as ours.
    pub(crate) fn with_headroom(&self) -> Vec<Moment> {
        let mut left = vec![None; self.capacities.len()];
        self.play(|_, measured| {
            for (left, measured) in left.iter_mut().zip(measured) {
                *left = Some(Smoothing::default().step(*left, 1.0 - measured.busy));
            }
            let weights = left.iter().map(|left| left.unwrap_or(1.0).max(WEIGHT_MIN));
            (weights.collect(), vec![State::Healthy; left.len()])
        })
    }

    /// Plays it with two states: a node is in, or after the same evidence by which ours is saturated it is out, and comes
    /// back when it has recovered.
    pub(crate) fn with_two_states(&self) -> Vec<Moment> {
        let mut nodes = vec![TwoStates::default(); self.capacities.len()];
        self.play(|_, measured| {
            for (node, measured) in nodes.iter_mut().zip(measured) {
                node.observe(1.0 - measured.busy);
            }
            let weights = nodes.iter().map(|it| f64::from(u8::from(!it.is_out)));
            let states = nodes.iter().map(|it| match it.is_out {
                true => State::Saturated,
                false => State::Healthy,
            });
            (weights.collect(), states.collect())
        })
    }

    fn play(
        &self,
        mut decide: impl FnMut(Mono, &[Measured]) -> (Vec<f64>, Vec<State>),
    ) -> Vec<Moment> {
        let mut rng = Rng::new(self.seed);
        let mut weights = vec![100.0; self.capacities.len()];
        let mut states = vec![State::Healthy; weights.len()];
        let mut on_its_way = VecDeque::new();
        let mut moments = Vec::new();
        for tick in 0..self.ticks {
            let offered = if tick < self.later.0 {
                self.offered
            } else {
                self.later.1
            };
            let flows = divide(offered, &weights, &self.capacities(tick));
            let mut off = || 1.0 + self.noise * (2.0 * rng.unit() - 1.0);
            let measured: Vec<Measured> = flows.iter().map(|it| it.measured(off())).collect();
            on_its_way.push_back(measured);
            if on_its_way.len() == self.delay {
                let measured = on_its_way.pop_front().unwrap_or_default();
                (weights, states) = decide(at(tick), &measured);
            }
            moments.push(Moment {
                flows,
                states: states.clone(),
            });
        }
        moments
    }
}

fn report(now: Mono, measured: &Measured, tells: Tells) -> Report {
    let busy = match tells {
        Tells::Workers => measured.busy,
        Tells::Calm => 0.1,
    };
    let signals = [Signal::read(Dimension::Threads, busy, 1.0, now)];
    Report {
        readings: Readings::of(&Scales::default(), &signals, now),
        load: Some(load(now, measured)),
        keeps_sessions: false,
    }
}

/// Out below 0.20 twice, in above 0.55 six times, and smoothed as ours.
#[derive(Clone, Default)]
struct TwoStates {
    is_out: bool,
    left: Option<f64>,
    ticks: u32,
}

impl TwoStates {
    fn observe(&mut self, left: f64) {
        let left = Smoothing::default().step(self.left, left);
        self.left = Some(left);
        let (turns, after) = if self.is_out {
            (left > 0.55, 6)
        } else {
            (left < 0.20, 2)
        };
        self.ticks = if turns { self.ticks + 1 } else { 0 };
        if self.ticks == after {
            self.is_out = !self.is_out;
            self.ticks = 0;
        }
    }
}

/// After how many ticks, counted from `from`, what is asked of each node is within `band` of `utilisation` for good.
pub(crate) fn settled(moments: &[Moment], from: usize, utilisation: f64, band: f64) -> usize {
    let last = moments.iter().rposition(|it| it.off(utilisation) > band);
    last.map_or(0, |last| (last + 1).saturating_sub(from))
}

/// How often the states of nodes changed.
pub(crate) fn changes(moments: &[Moment]) -> usize {
    let differ = |pair: &[Moment]| {
        let states = pair[0].states.iter().zip(&pair[1].states);
        states.filter(|(before, after)| before != after).count()
    };
    moments.windows(2).map(differ).sum()
}

/// Six nodes of which one can do half from tick 40 on, measured with 10 % of noise and acted on three ticks later.
pub(crate) fn half_gone(utilisation: f64, seed: u64) -> Story {
    Story {
        offered: utilisation * 550.0,
        later: (usize::MAX, 0.0),
        capacities: vec![100.0; 6],
        loss: Loss {
            node: 2,
            to: 0.5,
            from_tick: HALF_GONE_AT,
            to_tick: usize::MAX,
        },
        delay: 3,
        noise: 0.1,
        seed,
        ticks: 160,
    }
}

/// When it happens.
pub(crate) const HALF_GONE_AT: usize = 40;

/// Two nodes, half full; one of them loses 40 % of what it can do for two minutes. Afterwards there is less to do.
pub(crate) fn two_fifths_gone(delay: usize) -> Story {
    Story {
        offered: 100.0,
        later: (170, 80.0),
        capacities: vec![100.0; 2],
        loss: Loss {
            node: 1,
            to: 0.6,
            from_tick: 30,
            to_tick: 150,
        },
        delay,
        noise: 0.0,
        seed: 1,
        ticks: 260,
    }
}

/// Twelve nodes, all of them as full as said, for ten minutes.
pub(crate) fn all_hot(utilisation: f64, delay: usize) -> Story {
    Story {
        offered: utilisation * 1_200.0,
        later: (usize::MAX, 0.0),
        capacities: vec![100.0; 12],
        loss: Loss {
            node: 0,
            to: 1.0,
            from_tick: 0,
            to_tick: 0,
        },
        delay,
        noise: 0.1,
        seed: 7,
        ticks: 600,
    }
}

/// The points at which weights by headroom are known to swing.
pub(crate) const SWINGING: [(f64, f64, usize); 4] =
    [(0.55, 1.0, 1), (0.8, 0.5, 1), (0.8, 0.3, 3), (0.9, 0.1, 3)];

/// The most that any loop by capacity swings, over loads from 0.3 to 0.9, smoothing and delay.
pub(crate) fn capacity_swings() -> f64 {
    let mut most: f64 = 0.0;
    for tenths in 3..=9_u8 {
        for alpha in [0.1, 0.3, 0.5, 1.0] {
            for delay in [1, 3] {
                let utilisation = f64::from(tenths) / 10.0;
                let law = Law::Capacity;
                let plan = Loop {
                    law,
                    utilisation,
                    alpha,
                    delay,
                };
                most = most.max(plan.tail_spread());
            }
        }
    }
    most
}

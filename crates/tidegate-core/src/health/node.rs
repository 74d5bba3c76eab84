//! What is remembered of one node, and what becomes of it in a tick.

use super::capacity::{CAPACITY_AGE_MAX, Estimate, Load};
use super::guard::{Case, Hold, Ruling};
use super::headroom::Headroom;
use super::settings::Settings;
use super::signal::Dimension;
use super::state::{Evidence, Reason, State, Transition};
use super::weight::{Pull, STRESSED_FACTOR, WEIGHT_MAX, WEIGHT_MIN, is_change};
use crate::time::Mono;

/// What a tick is told of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    /// What it has left.
    pub headroom: Headroom,
    /// Whether that is news since the last tick. A reading counts once, however often it is looked at.
    pub is_news: bool,
    /// What it does, as last heard.
    pub load: Option<Load>,
    /// Whether sessions live in its heap.
    pub keeps_sessions: bool,
}

/// What a tick tells a node of its fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Context {
    /// What the guard says.
    pub ruling: Ruling,
    /// Whether weights follow capacity alone, and not who is stressed.
    pub is_frozen: bool,
    /// The median of what nodes can do, in requests per second; `None` when nobody knows.
    pub median: Option<f64>,
    /// The largest part of the traffic that a node has, in requests per second; 0 when there is none.
    pub top: f64,
}

/// What is remembered of a node from tick to tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// What its own readings say.
    pub evidence: Evidence,
    /// What it can do.
    pub estimate: Option<Estimate>,
    /// Its part of the traffic.
    pub pull: Pull,
    /// The state that it was told, after the guard.
    pub state: State,
    /// Since when.
    pub since: Mono,
    /// Whether it has no part of the traffic, or the least: it returns as if it were new.
    pub is_away: bool,
    /// When the fleet needed it back while it was saturated.
    pub put_back: Option<Mono>,
    /// The weight that it was told, 0 to 100; `None` for a node that was told none.
    pub weight: Option<u8>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            evidence: Evidence {
                state: State::Unknown,
                ..Evidence::default()
            },
            estimate: None,
            pull: Pull::default(),
            state: State::Unknown,
            since: Mono::default(),
            is_away: false,
            put_back: None,
            weight: None,
        }
    }
}

/// What was decided on a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// What is left of it, smoothed, 0 to 1; `None` when nothing is known.
    pub left: Option<f64>,
    /// What there is least of.
    pub binding: Option<Dimension>,
    /// The share of what is looked for that is known, 0 to 1.
    pub confidence: f64,
    /// The state before.
    pub from: State,
    /// The state now.
    pub to: State,
    /// Why it changed; `None` when it did not.
    pub reason: Option<Reason>,
    /// The weight that holds from now on, 0 to 100; 0 when it is saturated.
    pub weight: u8,
    /// Why a saturated node is in.
    pub guard: Option<Hold>,
    /// Whether balancers are to be told: the state or the weight is another one.
    pub applied: bool,
}

impl Memory {
    /// That of a node which joins a fleet whose nodes can do `median`.
    pub(super) fn joining(median: Option<f64>) -> Self {
        Self {
            pull: median.map_or_else(Pull::default, Pull::arriving),
            ..Self::default()
        }
    }

    /// Takes in what is told of the node itself.
    pub(super) fn observe(
        &mut self,
        settings: &Settings,
        now: Mono,
        input: &Input,
    ) -> Option<Transition> {
        let smoothing = &settings.smoothing;
        self.estimate = Estimate::learn(self.estimate, smoothing, now, input.load.as_ref());
        if !input.is_news && input.headroom.binding().is_some() {
            return None;
        }
        self.evidence.observe(settings, now, &input.headroom)
    }

    /// The node as the guard sees it.
    pub(super) fn case(
        &self,
        settings: &Settings,
        now: Mono,
        input: &Input,
        median: Option<f64>,
    ) -> Case {
        // Without any load told, every node counts as one.
        let capacity = self.capacity(median).unwrap_or(1.0);
        Case {
            state: self.evidence.state,
            left: self.evidence.left_hard.unwrap_or(1.0),
            capacity: if self.is_heard() { capacity } else { 0.0 },
            out: self.is_out(),
            keeps_sessions: input.keeps_sessions,
            rests: (self.put_back).is_some_and(|since| now.since(since) < settings.turns.dwell),
        }
    }

    /// What comes to it, in requests per second; `None` when nobody counts.
    pub(super) fn offered(&self, now: Mono, input: &Input) -> Option<f64> {
        let load = input.load?;
        let is_fresh = now.since(load.at) <= CAPACITY_AGE_MAX;
        is_fresh.then(|| load.offered_rps.max(load.completed_rps).max(0.0))
    }

    /// What it can do, or is taken to, in requests per second.
    pub(super) fn capacity(&self, median: Option<f64>) -> Option<f64> {
        self.estimate.map(|estimate| estimate.rps).or(median)
    }

    /// What it is given traffic for: the less it does, the more it is taken to be as the others are in the middle. What is read of a
    /// node that does little is grain; and by a low estimate alone it would go on doing little.
    fn pulls(&self, input: &Input, median: Option<f64>) -> Option<f64> {
        let capacity = self.capacity(median)?;
        let worth = input.load.map_or(1.0, |load| load.worth());
        let usual = median.unwrap_or(capacity);
        Some(usual + worth * (capacity - usual))
    }

    /// Moves its part of the traffic by one tick.
    pub(super) fn draw(&mut self, input: &Input, context: &Context) {
        let is_away = matches!(context.ruling, Ruling::Out | Ruling::Floor(_));
        let was_away = std::mem::replace(&mut self.is_away, is_away);
        let capacity = self.pulls(input, context.median);
        let Some(capacity) = capacity.filter(|_| !is_away && self.is_heard()) else {
            self.pull = Pull::default();
            return;
        };
        if was_away {
            self.pull = Pull::arriving(context.median.unwrap_or(capacity));
        }
        self.pull.step(capacity * self.factor(context));
    }

    /// Says what holds from now on. `turn` is what [`Memory::observe`] had to say.
    pub(super) fn settle(
        &mut self,
        now: Mono,
        input: &Input,
        context: &Context,
        turn: Option<Transition>,
    ) -> Outcome {
        let (from, to) = (self.state, self.state_by(context.ruling));
        let returns = from == State::Saturated && to != State::Saturated;
        if returns && self.evidence.state == State::Saturated {
            self.put_back = Some(now);
        }
        let wanted = self.weight_by(context);
        let applied = from != to || self.weight.is_none_or(|before| is_change(before, wanted));
        if applied {
            self.weight = Some(wanted);
        }
        if from != to {
            self.state = to;
            self.since = now;
        }
        Outcome {
            left: self.evidence.left,
            binding: input.headroom.binding().map(|it| it.dimension),
            confidence: input.headroom.confidence(),
            from,
            to,
            reason: (from != to).then(|| match turn {
                Some(turn) if turn.to == to => turn.reason,
                _ => Reason::Fleet,
            }),
            weight: self.weight.unwrap_or(wanted),
            guard: context.ruling.hold(),
            applied,
        }
    }

    /// Whether anything is known of it.
    pub(super) fn is_heard(&self) -> bool {
        self.evidence.state != State::Unknown
    }

    pub(super) const fn is_out(&self) -> bool {
        matches!(self.state, State::Saturated)
    }

    const fn state_by(&self, ruling: Ruling) -> State {
        match (ruling, self.evidence.state) {
            (Ruling::Out, _) => State::Saturated,
            (_, State::Saturated) => State::Stressed,
            (_, state) => state,
        }
    }

    fn weight_by(&self, context: &Context) -> u8 {
        match context.ruling {
            Ruling::Out => 0,
            Ruling::Floor(_) => WEIGHT_MIN,
            Ruling::Open => WEIGHT_MAX,
            _ if !self.is_heard() => WEIGHT_MAX,
            _ if self.pull.rps.is_some() => self.pull.weight(context.top),
            _ => (f64::from(WEIGHT_MAX) * self.factor(context)).round() as u8,
        }
    }

    fn factor(&self, context: &Context) -> f64 {
        match self.evidence.state {
            State::Stressed | State::Saturated if !context.is_frozen => STRESSED_FACTOR,
            _ => 1.0,
        }
    }
}

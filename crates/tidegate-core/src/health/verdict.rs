//! What a node is told, for as long as it holds. Silence means healthy.

use std::time::Duration;

use super::decision::Decision;
use super::guard::Hold;
use super::headroom::Headroom;
use super::settings::Settings;
use super::signal::Dimension;
use super::state::{Evidence, State};
use super::weight::{STRESSED_FACTOR, WEIGHT_MAX};
use crate::time::Mono;

/// How long a verdict holds: three ticks of a second.
pub const VERDICT_LEASE: Duration = Duration::from_secs(3);

/// What a balancer is to be told of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The state.
    pub state: State,
    /// Of 100; 0 when saturated.
    pub weight: u8,
    /// What is left, 0 to 1; `None` when nothing is known.
    pub left: Option<f64>,
    /// What there is least of.
    pub binding: Option<Dimension>,
    /// The share of what is looked for that is known, 0 to 1.
    pub confidence: f64,
    /// Why a saturated node is in.
    pub guard: Option<Hold>,
    /// Until when it holds. Afterwards it is [`Verdict::UNKNOWN`].
    pub valid_until: Mono,
}

impl Verdict {
    /// What holds when nobody says anything: in, with full weight, and said to be unknown.
    pub const UNKNOWN: Self = Self {
        state: State::Unknown,
        weight: WEIGHT_MAX,
        left: None,
        binding: None,
        confidence: 0.0,
        guard: None,
        valid_until: Mono::MAX,
    };

    /// What `decision` says, for three ticks.
    pub fn of(decision: &Decision) -> Self {
        let outcome = &decision.outcome;
        Self {
            state: outcome.to,
            weight: outcome.weight,
            left: outcome.left,
            binding: outcome.binding,
            confidence: outcome.confidence,
            guard: outcome.guard,
            valid_until: decision.at + VERDICT_LEASE,
        }
    }

    /// What it says at `now`, as long as it holds.
    pub fn at(&self, now: Mono) -> Option<&Self> {
        (now < self.valid_until).then_some(self)
    }
}

/// What a node says of itself while the control plane is silent: at most that it is stressed. Alone it cannot know whether
/// there is anybody else.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local {
    evidence: Evidence,
}

impl Local {
    /// Takes in what is left at `now`, once a tick, whether or not the control plane is silent.
    pub fn observe(&mut self, settings: &Settings, now: Mono, headroom: &Headroom) -> Verdict {
        self.evidence.observe(settings, now, headroom);
        let (state, weight) = match self.evidence.state {
            State::Stressed | State::Saturated => {
                let points = f64::from(WEIGHT_MAX) * STRESSED_FACTOR;
                (State::Stressed, points.round() as u8)
            }
            state => (state, WEIGHT_MAX),
        };
        Verdict {
            state,
            weight,
            left: self.evidence.left,
            binding: headroom.binding().map(|it| it.dimension),
            confidence: headroom.confidence(),
            guard: None,
            valid_until: now + VERDICT_LEASE,
        }
    }
}

/// What is to be told at `now`: what the control plane said last while that holds, then what the node says itself, and
/// without either that nothing is known.
pub fn prevailing(control: Option<&Verdict>, local: Option<&Verdict>, now: Mono) -> Verdict {
    let holding = control.and_then(|verdict| verdict.at(now));
    *holding
        .or_else(|| local.and_then(|verdict| verdict.at(now)))
        .unwrap_or(&Verdict::UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::super::headroom::Readings;
    use super::super::scale::Scales;
    use super::super::signal::Signal;
    use super::*;

    fn full(now: Mono) -> Headroom {
        let signal = Signal::read(Dimension::Threads, 200.0, 200.0, now);
        Readings::of(&Scales::default(), &[signal], now).headroom(now)
    }

    #[test]
    fn alone_a_node_is_at_most_stressed() {
        let mut local = Local::default();
        let at = |second: u64| Mono::from_millis(1000 * second);

        let verdicts: Vec<Verdict> = (1..60)
            .map(|second| local.observe(&Settings::default(), at(second), &full(at(second))))
            .collect();

        for verdict in verdicts {
            assert_eq!(verdict.state, State::Stressed);
            assert_eq!(verdict.weight, 70);
            assert_eq!(verdict.binding, Some(Dimension::Threads));
        }
    }

    #[test]
    fn silence_goes_from_the_control_plane_to_the_node_to_healthy() {
        let at = |ms| Mono::from_millis(ms);
        let control = Verdict {
            state: State::Saturated,
            weight: 0,
            valid_until: at(4_000),
            ..Verdict::UNKNOWN
        };
        let local = Verdict {
            state: State::Stressed,
            weight: 70,
            valid_until: at(6_000),
            ..Verdict::UNKNOWN
        };
        let state = |ms| prevailing(Some(&control), Some(&local), at(ms)).state;

        assert_eq!(state(3_999), State::Saturated);
        assert_eq!(state(4_000), State::Stressed);
        assert_eq!(state(6_000), State::Unknown);
        assert_eq!(prevailing(None, None, at(0)).weight, 100);
    }
}

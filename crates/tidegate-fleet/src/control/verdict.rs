//! What a leader publishes: about each node, and about the fleet.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::health::{Dimension, Freeze, Hold, Pulse, State, Verdict};
use tidegate_core::time::Mono;
use tidegate_store::VERDICT_BYTES_MAX;

use super::kept::Kept;

/// What was decided about a node. Times are how long something has lasted, so that no two clocks are compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// The state's name.
    #[serde(rename = "s")]
    pub(super) state: String,
    /// Of 100.
    #[serde(rename = "w")]
    pub weight: u8,
    /// What is left, 0 to 1.
    #[serde(rename = "h", default, skip_serializing_if = "Option::is_none")]
    pub left: Option<f64>,
    /// What there is least of.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<Bound>,
    /// The share of what is looked for that is known, 0 to 1.
    #[serde(rename = "c", default)]
    pub confidence: f64,
    /// Why a saturated node is in.
    #[serde(rename = "g", default, skip_serializing_if = "Option::is_none")]
    pub(super) guard: Option<String>,
    /// For how long it has been in the state, in milliseconds.
    #[serde(rename = "f", default)]
    pub for_ms: u64,
    /// Age of its beacon, in milliseconds; `None` for a node that is known by an operator's order alone.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// What else is remembered of it, for whoever leads next.
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub(super) kept: Option<Kept>,
    /// An operator's order to drain it.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drained>,
}

/// What there is least of, as it was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The dimension's name.
    #[serde(rename = "d")]
    pub dimension: String,
    /// How much, in the dimension's unit, if that is still known.
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Of how much.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// For how long it has been the least, in milliseconds.
    #[serde(rename = "f", default)]
    pub for_ms: u64,
}

/// Who drains a node, and for how long yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    /// Who.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// For how long it has been ordered, in milliseconds; earlier releases do not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// In milliseconds; `None` until it is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
    /// Whether it is carried out: never for the last node.
    pub is_done: bool,
}

/// What is said of the whole fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Word {
    /// Who leads.
    #[serde(rename = "by", default)]
    pub leader: String,
    /// Nodes there are.
    #[serde(default)]
    pub nodes: usize,
    /// Nodes that are heard of.
    #[serde(default)]
    pub heard: usize,
    /// Nodes that are out.
    #[serde(default)]
    pub out: usize,
    /// Nodes that are drained.
    #[serde(default)]
    pub drained: usize,
    /// What could come in addition, in requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare_rps: Option<f64>,
    /// What the fleet can do, in requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_rps: Option<f64>,
    /// How full the fleet is, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// Which part of the usual admission should let in what it lets in, 0 to 1.
    #[serde(default = "all")]
    pub admission: f64,
    /// How much of what follows the fleet's headroom holds, 0 to 1; `None` when nobody knows what is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<f64>,
    /// How much of what follows what is left of a dependency holds, 0 to 1, by its name; all of it where nothing is said.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub budgets: BTreeMap<String, f64>,
    /// Why weights follow capacity alone: `stressed`, `dependency`, or what the guard says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freeze: Option<String>,
    /// What many nodes suffer from together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<Suffered>,
}

/// What many nodes suffer from together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suffered {
    /// The dimension's name.
    pub dimension: String,
    /// For how long, in milliseconds.
    pub for_ms: u64,
}

/// Nodes of a fleet, counted. Those that are drained are nodes, and are heard of or not as all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes there are: all that have been heard of within the time after which one is forgotten.
    pub nodes: usize,
    /// Of them, those whose beacon counts.
    pub heard: usize,
    /// Of them, those that are drained.
    pub drained: usize,
}

const fn all() -> f64 {
    1.0
}

impl Told {
    /// The verdict that it is, which holds until `valid_until`.
    pub fn verdict(&self, valid_until: Mono) -> Verdict {
        Verdict {
            state: self.state(),
            weight: self.weight.min(100),
            left: self.left,
            binding: self.dimension(),
            confidence: self.confidence,
            guard: self.guard(),
            valid_until,
        }
    }

    /// Of a node in `state` with `weight`.
    pub fn of(state: State, weight: u8) -> Self {
        Self {
            state: state.name().to_owned(),
            weight,
            ..Self::default()
        }
    }

    /// The same, held in by `guard`.
    pub fn held(self, guard: Option<Hold>) -> Self {
        let guard = guard.map(|guard| guard.name().to_owned());
        Self { guard, ..self }
    }

    /// The state. One of a later release counts as unknown, which is healthy.
    pub fn state(&self) -> State {
        State::named(&self.state).unwrap_or(State::Unknown)
    }

    /// Why a saturated node is in.
    pub fn guard(&self) -> Option<Hold> {
        self.guard.as_deref().and_then(Hold::named)
    }

    /// What there is least of.
    pub fn dimension(&self) -> Option<Dimension> {
        Dimension::named(&self.binding.as_ref()?.dimension)
    }

    /// Whether an operator's order to drain it is carried out.
    pub fn is_drained(&self) -> bool {
        self.drain.as_ref().is_some_and(|drain| drain.is_done)
    }

    /// As it is published: [`VERDICT_BYTES_MAX`] at most, or no verdict of any node could be. Beside an order with much to
    /// escape in it there is no room for what the next leader would like to know.
    pub fn encode(&self) -> Vec<u8> {
        let encode = |told: &Self| serde_json::to_vec(told).unwrap_or_default();
        let bytes = encode(self);
        if bytes.len() <= VERDICT_BYTES_MAX {
            return bytes;
        }
        encode(&Self {
            kept: None,
            ..self.clone()
        })
    }

    /// What was published; `None` for what makes no sense, which is as if nothing was.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

impl Word {
    /// What `pulse` says, with `for_ms` as the time that what many suffer from has lasted, and `counts` of nodes.
    pub fn of(leader: &str, pulse: &Pulse, for_ms: u64, counts: Counts) -> Self {
        Self {
            leader: leader.to_owned(),
            nodes: counts.nodes,
            heard: counts.heard,
            out: pulse.out,
            drained: counts.drained,
            spare_rps: pulse.spare.rps,
            capacity_rps: pulse.spare.capacity_rps,
            utilisation: pulse.spare.utilisation,
            admission: pulse.admission,
            room: None,
            budgets: BTreeMap::new(),
            freeze: pulse.freeze.map(|freeze| {
                let name = match freeze {
                    Freeze::Guard(hold) => hold.name(),
                    Freeze::Stressed => "stressed",
                    Freeze::Dependency => "dependency",
                };
                name.to_owned()
            }),
            shared: pulse.shared.map(|shared| Suffered {
                dimension: shared.dimension.name().to_owned(),
                for_ms,
            }),
        }
    }

    /// As it is published.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// What was published; `None` for what makes no sense.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// Whole milliseconds of `span`.
pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

//! What a leader remembers of a node, as it is published beside the verdict, for whoever leads next.
//!
//! A leader that knew nothing would begin with everybody anew: a node that is out would be in, a streak would be counted
//! from nothing, and weights would jump, because somebody else counts and for no other reason. Times are ages, as everywhere.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::health::{Estimate, Evidence, Memory, Pull, State};
use tidegate_core::time::Mono;

use super::beacon::short;
use super::verdict::millis;

/// No estimate that is taken over is older: it was not when it was published, nobody led meanwhile, and nothing else is
/// known. What comes next is younger.
const ESTIMATE_AGE_MAX: Duration = Duration::from_millis(2_500);

/// What is remembered of a node, beside what its verdict says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The life of the node.
    #[serde(rename = "l")]
    pub(super) life: u64,
    #[serde(rename = "e")]
    evidence: String,
    #[serde(rename = "ef", default)]
    evidence_for_ms: u64,
    #[serde(rename = "h", default, skip_serializing_if = "Option::is_none")]
    left: Option<f64>,
    #[serde(rename = "hh", default, skip_serializing_if = "Option::is_none")]
    left_hard: Option<f64>,
    /// Ticks in a row with too little, and with enough.
    #[serde(rename = "n", default)]
    ticks: [u8; 2],
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    capacity_rps: Option<f64>,
    #[serde(rename = "cf", default)]
    capacity_for_ms: u64,
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pull_rps: Option<f64>,
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    ramp_rps: Option<f64>,
    #[serde(rename = "y", default, skip_serializing_if = "std::ops::Not::not")]
    is_away: bool,
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    put_back_ms: Option<u64>,
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    weight: Option<u8>,
}

impl Kept {
    /// What `memory` of a node in such a `life` is at `now`.
    pub(super) fn of(memory: &Memory, life: u64, now: Mono) -> Self {
        let evidence = &memory.evidence;
        let age = |at: Mono| millis(now.since(at));
        Self {
            life,
            evidence: evidence.state.name().to_owned(),
            evidence_for_ms: age(evidence.since),
            left: evidence.left.map(short),
            left_hard: evidence.left_hard.map(short),
            ticks: [evidence.low_ticks, evidence.good_ticks],
            capacity_rps: memory.estimate.map(|it| short(it.rps)),
            capacity_for_ms: memory.estimate.map_or(0, |it| age(it.at)),
            pull_rps: memory.pull.rps.map(short),
            ramp_rps: memory.pull.ramp.map(short),
            is_away: memory.is_away,
            put_back_ms: memory.put_back.map(age),
            weight: memory.weight,
        }
    }

    /// The memory of a node in `state` for `for_ms`, all of it as it was `age` before `now`.
    pub(super) fn memory(&self, state: State, for_ms: u64, now: Mono, age: Duration) -> Memory {
        let ago = |ms: u64| now.minus(age.saturating_add(Duration::from_millis(ms)));
        Memory {
            evidence: Evidence {
                state: State::named(&self.evidence).unwrap_or(State::Unknown),
                since: ago(self.evidence_for_ms),
                left: self.left,
                left_hard: self.left_hard,
                low_ticks: self.ticks[0],
                good_ticks: self.ticks[1],
            },
            estimate: self.capacity_rps.map(|rps| Estimate {
                rps,
                at: ago(self.capacity_for_ms).max(now.minus(ESTIMATE_AGE_MAX)),
            }),
            pull: Pull {
                rps: self.pull_rps,
                ramp: self.ramp_rps,
            },
            state,
            since: ago(for_ms),
            is_away: self.is_away,
            put_back: self.put_back_ms.map(ago),
            weight: self.weight,
        }
    }
}

//! A decision as a line of JSON, with all that it came from, and taken again.
//!
//! A line stands for itself: `before` is what was remembered of the node, so a log that begins in the middle, or has
//! lost lines, is replayed all the same.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::health::{
    Bands, Context, Decision, Dimension, Estimate, Evidence, Headroom, Hold, Input, Load, Memory,
    NodeId, Outcome, Pull, Reason, Ruling, Settings, Smoothing, State, Turns, replay,
};
use tidegate_core::time::Mono;

/// The version of what is written here.
const VERSION: u32 = 1;

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// It is no decision.
    #[error("it is no decision: {0}")]
    Odd(String),
    /// It has a name that is none.
    #[error("\"{value}\" is no {what}")]
    Name {
        /// Of what.
        what: &'static str,
        /// The name.
        value: String,
    },
    /// A later release wrote it.
    #[error("it is of version {0}, and this release knows {VERSION}")]
    Later(u32),
}

/// What became of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum LineKind {
    /// The same came out again.
    Reproduced {
        /// About which node.
        node: String,
        /// The state it was told.
        to: State,
        /// Whether it is another one than before.
        is_turn: bool,
    },
    /// Something else came out: for each part that differs, its name, what the line says and what came out.
    Differs {
        /// About which node.
        node: String,
        /// When, in milliseconds since 1970 by the store's clock.
        ts: u64,
        /// What differs.
        parts: Vec<(&'static str, String, String)>,
    },
}

/// What is looked at first: a later version may have other fields.
#[derive(Deserialize)]
struct Version {
    v: u32,
}

#[derive(Serialize, Deserialize)]
struct Line {
    v: u32,
    /// Milliseconds since 1970, by the store's clock.
    ts: u64,
    fence: u64,
    node: String,
    headroom: Option<f64>,
    dims: BTreeMap<String, f64>,
    binding: Option<String>,
    confidence: f64,
    state_from: String,
    state_to: String,
    reason: Option<String>,
    weight: u8,
    guard: Option<String>,
    applied: bool,
    came_from: CameFrom,
}

/// What is only of interest to who takes the decision again.
#[derive(Serialize, Deserialize)]
struct CameFrom {
    at_ns: u64,
    id: u32,
    watched: Vec<String>,
    hard: Vec<String>,
    is_news: bool,
    keeps_sessions: bool,
    load: Option<LineLoad>,
    before: LineMemory,
    ruling: String,
    is_frozen: bool,
    median: Option<f64>,
    top: f64,
    /// How nodes are judged, where an operator has set something else than usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settings: Option<LineSettings>,
}

/// Of the settings, what a decision about one node goes by.
#[derive(Serialize, Deserialize)]
struct LineSettings {
    /// Saturated below, stressed below, recovered above.
    bands: [f64; 3],
    saturated_ticks: u8,
    recover_ticks: u8,
    dwell_ns: u64,
    /// For what is worse, and for what is better.
    smoothing: [f64; 2],
}

#[derive(Serialize, Deserialize)]
struct LineLoad {
    offered_rps: f64,
    completed_rps: f64,
    error_ratio: f64,
    utilisation: f64,
    at_ns: u64,
}

#[derive(Serialize, Deserialize)]
struct LineMemory {
    evidence_state: String,
    evidence_since_ns: u64,
    left: Option<f64>,
    left_hard: Option<f64>,
    low_ticks: u8,
    good_ticks: u8,
    capacity_rps: Option<f64>,
    capacity_at_ns: Option<u64>,
    pull_rps: Option<f64>,
    ramp_rps: Option<f64>,
    state: String,
    since_ns: u64,
    is_away: bool,
    put_back_ns: Option<u64>,
    weight: Option<u8>,
}

/// `decision` about `node` as a line, without its end. `ts` is milliseconds since 1970 by the store's clock, `fence`
/// the leader's.
pub(super) fn line(
    ts: u64,
    fence: u64,
    node: &str,
    decision: &Decision,
    settings: &Settings,
) -> String {
    let (input, outcome) = (&decision.input, &decision.outcome);
    let used = input.headroom.used();
    let dims = Dimension::ALL
        .iter()
        .filter_map(|it| Some((it.name().to_owned(), used[it.index()]?)));
    let line = Line {
        v: VERSION,
        ts,
        fence,
        node: node.to_owned(),
        headroom: outcome.left,
        dims: dims.collect(),
        binding: outcome.binding.map(|it| it.name().to_owned()),
        confidence: outcome.confidence,
        state_from: outcome.from.name().to_owned(),
        state_to: outcome.to.name().to_owned(),
        reason: outcome.reason.map(reason_name),
        weight: outcome.weight,
        guard: outcome.guard.map(|it| it.name().to_owned()),
        applied: outcome.applied,
        came_from: CameFrom {
            at_ns: decision.at.as_nanos(),
            id: decision.node.0,
            watched: names(input.headroom.watched()),
            hard: names(input.headroom.hard()),
            is_news: input.is_news,
            keeps_sessions: input.keeps_sessions,
            load: input.load.as_ref().map(LineLoad::of),
            before: LineMemory::of(&decision.before),
            ruling: ruling_name(decision.context.ruling),
            is_frozen: decision.context.is_frozen,
            median: decision.context.median,
            top: decision.context.top,
            settings: LineSettings::of(settings),
        },
    };
    serde_json::to_string(&line).expect("its maps have texts for keys")
}

/// Takes the decision of `line` again.
///
/// # Errors
///
/// When it is no decision that this release can read.
pub fn replay_line(line: &str) -> Result<LineKind, BadLine> {
    let odd = |error: serde_json::Error| BadLine::Odd(error.to_string());
    let Version { v } = serde_json::from_str(line).map_err(odd)?;
    if v > VERSION {
        return Err(BadLine::Later(v));
    }
    let line: Line = serde_json::from_str(line).map_err(odd)?;
    let decision = line.decision()?;
    let settings = line.came_from.settings.as_ref();
    let settings = settings.map_or_else(|| Ok(Settings::default()), LineSettings::settings)?;
    let again = replay(&settings, &decision);
    let parts = differences(&decision.outcome, &again);
    if parts.is_empty() {
        return Ok(LineKind::Reproduced {
            node: line.node,
            to: again.to,
            is_turn: again.from != again.to,
        });
    }
    Ok(LineKind::Differs {
        node: line.node,
        ts: line.ts,
        parts,
    })
}

impl Line {
    fn decision(&self) -> Result<Decision, BadLine> {
        let from = &self.came_from;
        let mut used = [None; Dimension::COUNT];
        for (name, share) in &self.dims {
            used[dimension(name)?.index()] = Some(*share);
        }
        let headroom = Headroom::from_parts(used, bits(&from.watched)?, bits(&from.hard)?);
        Ok(Decision {
            at: Mono::from_nanos(from.at_ns),
            node: NodeId(from.id),
            input: Input {
                headroom,
                is_news: from.is_news,
                load: from.load.as_ref().map(LineLoad::load),
                keeps_sessions: from.keeps_sessions,
            },
            before: from.before.memory()?,
            context: Context {
                ruling: ruling(&from.ruling)?,
                is_frozen: from.is_frozen,
                median: from.median,
                top: from.top,
            },
            outcome: Outcome {
                left: self.headroom,
                binding: self.binding.as_deref().map(dimension).transpose()?,
                confidence: self.confidence,
                from: state(&self.state_from)?,
                to: state(&self.state_to)?,
                reason: self.reason.as_deref().map(reason).transpose()?,
                weight: self.weight,
                guard: self.guard.as_deref().map(hold).transpose()?,
                applied: self.applied,
            },
        })
    }
}

impl LineSettings {
    fn of(settings: &Settings) -> Option<Self> {
        let Settings {
            bands,
            turns,
            smoothing,
            ..
        } = settings;
        (*settings != Settings::default()).then(|| Self {
            bands: [
                bands.saturated_below(),
                bands.stressed_below(),
                bands.recover_above(),
            ],
            saturated_ticks: turns.saturated_ticks,
            recover_ticks: turns.recover_ticks,
            dwell_ns: u64::try_from(turns.dwell.as_nanos()).unwrap_or(u64::MAX),
            smoothing: [smoothing.worsening(), smoothing.improving()],
        })
    }

    fn settings(&self) -> Result<Settings, BadLine> {
        let [saturated, stressed, recover] = self.bands;
        let [worsening, improving] = self.smoothing;
        Ok(Settings {
            bands: Bands::new(saturated, stressed, recover)
                .map_err(|error| BadLine::Odd(error.to_string()))?,
            turns: Turns {
                saturated_ticks: self.saturated_ticks,
                recover_ticks: self.recover_ticks,
                dwell: Duration::from_nanos(self.dwell_ns),
            },
            smoothing: Smoothing::new(worsening, improving)
                .map_err(|error| BadLine::Odd(error.to_string()))?,
            ..Settings::default()
        })
    }
}

impl LineLoad {
    const fn of(load: &Load) -> Self {
        Self {
            offered_rps: load.offered_rps,
            completed_rps: load.completed_rps,
            error_ratio: load.error_ratio,
            utilisation: load.utilisation,
            at_ns: load.at.as_nanos(),
        }
    }

    const fn load(&self) -> Load {
        Load {
            offered_rps: self.offered_rps,
            completed_rps: self.completed_rps,
            error_ratio: self.error_ratio,
            utilisation: self.utilisation,
            at: Mono::from_nanos(self.at_ns),
        }
    }
}

impl LineMemory {
    fn of(memory: &Memory) -> Self {
        let evidence = &memory.evidence;
        Self {
            evidence_state: evidence.state.name().to_owned(),
            evidence_since_ns: evidence.since.as_nanos(),
            left: evidence.left,
            left_hard: evidence.left_hard,
            low_ticks: evidence.low_ticks,
            good_ticks: evidence.good_ticks,
            capacity_rps: memory.estimate.map(|it| it.rps),
            capacity_at_ns: memory.estimate.map(|it| it.at.as_nanos()),
            pull_rps: memory.pull.rps,
            ramp_rps: memory.pull.ramp,
            state: memory.state.name().to_owned(),
            since_ns: memory.since.as_nanos(),
            is_away: memory.is_away,
            put_back_ns: memory.put_back.map(Mono::as_nanos),
            weight: memory.weight,
        }
    }

    fn memory(&self) -> Result<Memory, BadLine> {
        let estimate = self.capacity_rps.zip(self.capacity_at_ns);
        Ok(Memory {
            evidence: Evidence {
                state: state(&self.evidence_state)?,
                since: Mono::from_nanos(self.evidence_since_ns),
                left: self.left,
                left_hard: self.left_hard,
                low_ticks: self.low_ticks,
                good_ticks: self.good_ticks,
            },
            estimate: estimate.map(|(rps, at)| Estimate {
                rps,
                at: Mono::from_nanos(at),
            }),
            pull: Pull {
                rps: self.pull_rps,
                ramp: self.ramp_rps,
            },
            state: state(&self.state)?,
            since: Mono::from_nanos(self.since_ns),
            is_away: self.is_away,
            put_back: self.put_back_ns.map(Mono::from_nanos),
            weight: self.weight,
        })
    }
}

fn differences(said: &Outcome, again: &Outcome) -> Vec<(&'static str, String, String)> {
    let share =
        |value: Option<f64>| value.map_or_else(|| "nothing".to_owned(), |it| it.to_string());
    let name = |name: Option<&'static str>| name.unwrap_or("nothing").to_owned();
    let parts = [
        ("headroom", share(said.left), share(again.left)),
        (
            "binding",
            name(said.binding.map(Dimension::name)),
            name(again.binding.map(Dimension::name)),
        ),
        (
            "confidence",
            said.confidence.to_string(),
            again.confidence.to_string(),
        ),
        (
            "state_from",
            said.from.name().to_owned(),
            again.from.name().to_owned(),
        ),
        (
            "state_to",
            said.to.name().to_owned(),
            again.to.name().to_owned(),
        ),
        (
            "reason",
            said.reason.map_or_else(|| name(None), reason_name),
            again.reason.map_or_else(|| name(None), reason_name),
        ),
        ("weight", said.weight.to_string(), again.weight.to_string()),
        (
            "guard",
            name(said.guard.map(Hold::name)),
            name(again.guard.map(Hold::name)),
        ),
        (
            "applied",
            said.applied.to_string(),
            again.applied.to_string(),
        ),
    ];
    let differing = parts.into_iter().filter(|(_, said, again)| said != again);
    differing.collect()
}

fn names(bits: u16) -> Vec<String> {
    let those = Dimension::ALL.into_iter();
    those
        .filter(|it| bits & (1 << it.index()) != 0)
        .map(|it| it.name().to_owned())
        .collect()
}

fn bits(names: &[String]) -> Result<u16, BadLine> {
    names
        .iter()
        .try_fold(0, |bits, name| Ok(bits | 1 << dimension(name)?.index()))
}

fn dimension(name: &str) -> Result<Dimension, BadLine> {
    Dimension::named(name).ok_or_else(|| bad("dimension", name))
}

fn state(name: &str) -> Result<State, BadLine> {
    State::named(name).ok_or_else(|| bad("state", name))
}

fn hold(name: &str) -> Result<Hold, BadLine> {
    Hold::named(name).ok_or_else(|| bad("reason to keep a node in", name))
}

fn reason_name(reason: Reason) -> String {
    match reason {
        Reason::Low(dimension) => format!("low {}", dimension.name()),
        Reason::Recovered => "recovered".to_owned(),
        Reason::Silent => "silent".to_owned(),
        Reason::Heard => "heard".to_owned(),
        Reason::Fleet => "fleet".to_owned(),
    }
}

fn reason(name: &str) -> Result<Reason, BadLine> {
    Ok(match name {
        "recovered" => Reason::Recovered,
        "silent" => Reason::Silent,
        "heard" => Reason::Heard,
        "fleet" => Reason::Fleet,
        _ => {
            let low = name.strip_prefix("low ");
            Reason::Low(dimension(low.ok_or_else(|| bad("reason", name))?)?)
        }
    })
}

fn ruling_name(ruling: Ruling) -> String {
    match ruling {
        Ruling::In => "in".to_owned(),
        Ruling::Out => "out".to_owned(),
        Ruling::Open => "open".to_owned(),
        Ruling::Floor(hold) => format!("floor {}", hold.name()),
        Ruling::Share(hold) => format!("share {}", hold.name()),
    }
}

fn ruling(name: &str) -> Result<Ruling, BadLine> {
    Ok(match name.split_once(' ') {
        None if name == "in" => Ruling::In,
        None if name == "out" => Ruling::Out,
        None if name == "open" => Ruling::Open,
        Some(("floor", why)) => Ruling::Floor(hold(why)?),
        Some(("share", why)) => Ruling::Share(hold(why)?),
        _ => return Err(bad("ruling", name)),
    })
}

fn bad(what: &'static str, value: &str) -> BadLine {
    BadLine::Name {
        what,
        value: value.to_owned(),
    }
}

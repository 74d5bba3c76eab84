//! All nodes as an operator sees them: what the store says, put together.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::session::Name;
use tidegate_core::time::{Mono, Wall};
use tidegate_store::{Beacons, Issue};

use super::beacon::Said;
use super::order::Drain;
use super::verdict::{Drained, Told, Word, millis};

/// The fleet.
#[derive(Clone, Debug, Serialize)]
pub struct Outlook {
    /// What the leader says of it; `None` when nobody leads.
    pub fleet: Option<Fleetwide>,
    /// Every node that is heard of, or was lately, or has an order, by name.
    pub nodes: Vec<NodeView>,
}

/// What the leader says of the fleet.
#[derive(Clone, Debug, Serialize)]
pub struct Fleetwide {
    /// When it was said, in milliseconds ago by the store's clock.
    pub age_ms: u64,
    /// What.
    #[serde(flatten)]
    pub word: Word,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeView {
    /// Its name.
    pub node: String,
    /// The state's name.
    pub state: &'static str,
    /// Who says so: `control`, or `local` when nobody leads or the leader does not know it.
    pub source: &'static str,
    /// Of 100.
    pub weight: u8,
    /// What is left, 0 to 1.
    pub headroom: Option<f64>,
    /// What there is least of.
    pub dimension: Option<String>,
    /// How much of it is used, in its unit.
    pub value: Option<f64>,
    /// Of how much.
    pub limit: Option<f64>,
    /// For how long that has been what there is least of, in milliseconds.
    pub binding_for_ms: Option<u64>,
    /// For how long it has been in the state, in milliseconds; `None` when only the node itself knows.
    pub for_ms: Option<u64>,
    /// The share of what is looked for that is known, 0 to 1.
    pub confidence: Option<f64>,
    /// Why a saturated node is in.
    pub guard: Option<&'static str>,
    /// Age of its beacon in milliseconds; `None` for a node that is silent.
    pub beacon_age_ms: Option<u64>,
    /// Requests inside its application.
    pub inflight: Option<u32>,
    /// Requests that it completes, per second.
    pub completed_rps: Option<f64>,
    /// The share of its answers that are errors.
    pub error_ratio: Option<f64>,
    /// What it runs.
    pub release: Option<String>,
    /// An operator's order to drain it.
    pub drain: Option<Drained>,
}

/// The fleet as `issue` and `read`, read together, have it.
pub fn view(issue: Option<&Issue>, read: &Beacons) -> Outlook {
    let now = read.now;
    let issue = issue.filter(|issue| now < issue.stamp.until);
    let word = issue.and_then(|issue| Word::decode(&issue.fleet));
    let told: BTreeMap<&Name, Told> = issue
        .into_iter()
        .flat_map(|issue| &issue.verdicts)
        .filter_map(|(name, bytes)| Some((name, Told::decode(bytes)?)))
        .collect();
    // Ages are by the store's clock here: nothing is decided by them.
    let at = Mono::from_millis(3_600_000);
    let said: BTreeMap<&Name, (Wall, Option<Said>)> = (read.beacons.iter())
        .map(|beacon| {
            (
                &beacon.node.id,
                (beacon.at, Said::decode(&beacon.said, at).ok()),
            )
        })
        .collect();
    let drains: BTreeMap<&Name, Drain> = (read.orders.iter())
        .filter_map(|order| Some((&order.node, Drain::of(order, now)?)))
        .collect();
    let mut names: Vec<&Name> = told
        .keys()
        .chain(said.keys())
        .chain(drains.keys())
        .copied()
        .collect();
    names.sort();
    names.dedup();
    let nodes = names.into_iter().map(|name| {
        let mut view = NodeView::of(name, told.get(name), said.get(name), now, at);
        if view.drain.is_none() {
            view.drain = drains.get(name).map(|drain| Drained {
                by: drain.by.clone(),
                why: drain.why.clone(),
                left_ms: drain.left.map(millis),
                // Ordered, and nobody has carried it out yet.
                is_done: false,
            });
        } else if !drains.contains_key(name) {
            view.drain = None;
        }
        view
    });
    Outlook {
        nodes: nodes.collect(),
        fleet: word.zip(issue).map(|(word, issue)| Fleetwide {
            age_ms: millis(now.since(issue.stamp.at)),
            word,
        }),
    }
}

impl NodeView {
    fn of(
        name: &Name,
        told: Option<&Told>,
        heard: Option<&(Wall, Option<Said>)>,
        now: Wall,
        at: Mono,
    ) -> Self {
        let said = heard.and_then(|(_, said)| said.as_ref());
        let binding = told.and_then(|told| told.binding.as_ref());
        let read = told
            .and_then(Told::dimension)
            .and_then(|dimension| said?.worst_of(dimension, at));
        let own = said.map_or("unknown", |said| said.state.name());
        let load = said.and_then(|said| said.load);
        Self {
            node: name.to_string(),
            state: told.map_or(own, |told| told.state().name()),
            source: if told.is_some() { "control" } else { "local" },
            weight: told.map_or(100, |told| told.weight),
            headroom: told.and_then(|told| told.left),
            dimension: binding.map(|bound| bound.dimension.clone()),
            value: read.map(|it| it.value).or_else(|| binding?.value),
            limit: read.map(|it| it.limit).or_else(|| binding?.limit),
            binding_for_ms: binding.map(|bound| bound.for_ms),
            for_ms: told.map(|told| told.for_ms),
            confidence: told.map(|told| told.confidence),
            guard: told.and_then(Told::guard).map(|guard| guard.name()),
            beacon_age_ms: heard.map(|(at, _)| millis(now.since(*at))),
            inflight: said.and_then(|said| said.inflight),
            completed_rps: load.map(|load| load.completed_rps),
            error_ratio: load.map(|load| load.error_ratio),
            release: said.map(|said| said.release.clone()),
            drain: told.and_then(|told| told.drain.clone()),
        }
    }
}

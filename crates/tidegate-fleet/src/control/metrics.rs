//! What control says in metrics. Names of nodes are labels; they come from configurations, never from clients.

use std::collections::BTreeMap;

use tidegate_core::health::{Hold, State};
use tidegate_core::time::Mono;

use super::follower::Source;
use super::station::{Post, Station};
use super::view::DRAINED;

/// A metric with its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge {
    /// Its name; of a counter with `_total`.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
    /// Whether it only grows.
    pub is_counter: bool,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// A row: its labels, and its value.
pub type Row = (Vec<(&'static str, String)>, f64);

/// What `station` says at `now`: of its own node always, of all nodes while it leads.
pub fn gauges(station: &Station, now: Mono) -> Vec<Gauge> {
    let mut all = own(station, now);
    all.extend(of_all(station, now));
    all
}

fn own(station: &Station, now: Mono) -> Vec<Gauge> {
    let standing = station.standing(now);
    let source = [Source::Control, Source::Local, Source::Nobody].map(|source| {
        let label = vec![("source", source.name().to_owned())];
        (label, flag(standing.source == source))
    });
    let posts = Post::ALL.map(|post| {
        let label = vec![("result", post.name().to_owned())];
        (label, station.posts(post) as f64)
    });
    let unreadable = [
        ("entry", station.odd()),
        ("beacon", station.plane().unreadable()),
    ]
    .map(|(what, count)| (vec![("what", what.to_owned())], count as f64));
    vec![
        Gauge {
            name: "tidegate_fleet_unreadable_total",
            help: "Entries of the store, and what nodes say in theirs, that made no sense to this node while it led, each once a second",
            is_counter: true,
            rows: unreadable.to_vec(),
        },
        Gauge {
            name: "tidegate_verdict_source",
            help: "Who says what holds for this node: 1 for the leader, the node itself, or nobody",
            is_counter: false,
            rows: source.to_vec(),
        },
        Gauge {
            name: "tidegate_beacon_posts_total",
            help: "Beacons of this node, by what became of them",
            is_counter: true,
            rows: posts.to_vec(),
        },
        Gauge {
            name: "tidegate_lead_failures_total",
            help: "Seconds in which this node led and the store did not answer",
            is_counter: true,
            rows: vec![(Vec::new(), station.failures() as f64)],
        },
        Gauge {
            name: "tidegate_leads",
            help: "Whether this node decides for its fleet",
            is_counter: false,
            rows: vec![(Vec::new(), flag(station.judged(now).is_some()))],
        },
    ]
}

fn of_all(station: &Station, now: Mono) -> Vec<Gauge> {
    let Some(judged) = station.judged(now) else {
        return Vec::new();
    };
    let mut rows: BTreeMap<&'static str, Vec<Row>> = BTreeMap::new();
    for (name, told) in &judged.nodes {
        let node = || ("node", name.to_string());
        let mut add = |metric, labels, value| {
            let rows: &mut Vec<Row> = rows.entry(metric).or_default();
            rows.push((labels, value));
        };
        if let Some(left) = told.left {
            add(HEADROOM.0, vec![node()], left);
        }
        let is_drained = told.is_drained();
        for state in State::ALL {
            let labels = vec![node(), ("state", state.name().to_owned())];
            add(STATE.0, labels, flag(told.state() == state && !is_drained));
        }
        let labels = vec![node(), ("state", DRAINED.to_owned())];
        add(STATE.0, labels, flag(is_drained));
        if let Some(bound) = &told.binding {
            let labels = vec![node(), ("dimension", bound.dimension.clone())];
            add(BINDING.0, labels, bound.for_ms as f64 / 1_000.0);
        }
        add(WEIGHT.0, vec![node()], f64::from(told.weight));
        // A drained node may be switched off, and nobody need be told that it is silent then.
        if let Some(age_ms) = told.age_ms.filter(|_| !is_drained) {
            add(AGE.0, vec![node()], age_ms as f64 / 1_000.0);
        }
    }
    for (name, to, dimension, count) in station.plane().transitions() {
        let labels = vec![
            ("node", name.to_string()),
            ("to", to.to_owned()),
            ("dimension", dimension.to_owned()),
        ];
        let rows = rows.entry(TRANSITIONS.0).or_default();
        rows.push((labels, count as f64));
    }
    let word = &judged.word;
    for reason in Hold::ALL.map(Hold::name).into_iter().chain(["stressed"]) {
        let labels = vec![("reason", reason.to_owned())];
        let is_active = word.freeze.as_deref() == Some(reason);
        let rows = rows.entry(GUARD.0).or_default();
        rows.push((labels, flag(is_active)));
    }
    for (metric, value) in [
        (SPARE.0, word.spare_rps),
        (UTILISATION.0, word.utilisation),
        (ADMISSION.0, Some(word.admission)),
    ] {
        let row = value.map(|value| (Vec::new(), value));
        rows.entry(metric).or_default().extend(row);
    }
    ALL.iter()
        .filter_map(|&(name, help)| {
            Some(Gauge {
                name,
                help,
                is_counter: name == TRANSITIONS.0,
                rows: rows.remove(name).filter(|rows| !rows.is_empty())?,
            })
        })
        .collect()
}

type Named = (&'static str, &'static str);

const HEADROOM: Named = (
    "tidegate_node_headroom_ratio",
    "What is left of a node, 0 to 1, smoothed: the least over its dimensions",
);
const STATE: Named = (
    "tidegate_node_state",
    "Whether a node is in a state: 1 for the one that it is in",
);
const BINDING: Named = (
    "tidegate_node_binding_seconds",
    "For how long a dimension has been what a node has least of",
);
const WEIGHT: Named = ("tidegate_node_weight", "The weight of a node, 0 to 100");
const AGE: Named = (
    "tidegate_beacon_age_seconds",
    "Time since a node was heard of last",
);
const TRANSITIONS: Named = (
    "tidegate_node_state_transitions_total",
    "Changes of a node's state, by where to and by what there was least of",
);
const GUARD: Named = (
    "tidegate_fleet_guard_active",
    "Whether weights follow capacity alone, and why",
);
const SPARE: Named = (
    "tidegate_fleet_spare_requests_per_second",
    "What could come to the fleet in addition",
);
const UTILISATION: Named = (
    "tidegate_fleet_utilisation_ratio",
    "How full the fleet is, 0 to 1, for an autoscaler",
);
const ADMISSION: Named = (
    "tidegate_fleet_admission_ratio",
    "Which part of the usual admission should let in what it lets in",
);
const ALL: [Named; 10] = [
    HEADROOM,
    STATE,
    BINDING,
    WEIGHT,
    AGE,
    TRANSITIONS,
    GUARD,
    SPARE,
    UTILISATION,
    ADMISSION,
];

fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

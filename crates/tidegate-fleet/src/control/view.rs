//! All nodes as an operator sees them: what the store says, put together.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tidegate_core::health::{FORGOTTEN_AFTER, STRESSED_FACTOR, State, WEIGHT_MAX};
use tidegate_core::session::Name;
use tidegate_core::time::{Mono, Wall};
use tidegate_store::{Beacons, Issue};

use super::beacon::Said;
use super::order::Drain;
use super::verdict::{Drained, Told, Word, millis};

/// The state of a node that an operator has drained, in JSON and metrics: whatever it reads, it gets nothing new.
pub(super) const DRAINED: &str = "drained";

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
    /// The state's name, or `drained`.
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
    /// For how long a node that is silent has been so, in milliseconds, if anybody remembers.
    pub silent_for_ms: Option<u64>,
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

impl Outlook {
    /// What takes new requests when the node `name` is drained: all others that are heard of and have no order.
    pub fn without(&self, name: &str) -> Vec<&NodeView> {
        let others = self.nodes.iter().filter(|node| node.node != name);
        others
            .filter(|node| node.beacon_age_ms.is_some() && node.drain.is_none())
            .collect()
    }
}

impl NodeView {
    /// Whether it has room, as far as anybody knows. What is full is out, or the guard keeps it in.
    pub fn has_room(&self) -> bool {
        self.state != State::Saturated.name() && self.guard.is_none()
    }
}

/// The weight that a node gives itself while nobody decides about it.
fn own_weight(said: Option<&Said>) -> u8 {
    match said.map(|said| said.state) {
        Some(State::Stressed | State::Saturated) => {
            (f64::from(WEIGHT_MAX) * STRESSED_FACTOR).round() as u8
        }
        _ => WEIGHT_MAX,
    }
}

/// The fleet as `issue` and `read`, read together, have it.
pub fn view(issue: Option<&Issue>, read: &Beacons) -> Outlook {
    let now = read.now;
    let valid = issue.filter(|issue| now < issue.stamp.until);
    // Ages are by the store's clock here: nothing is decided by them.
    let at = Mono::from_millis(3_600_000);
    let mut all: BTreeMap<&Name, Known> = BTreeMap::new();
    for (name, bytes) in issue.into_iter().flat_map(|issue| &issue.verdicts) {
        all.entry(name).or_default().last = Told::decode(bytes);
    }
    for beacon in &read.beacons {
        let known = all.entry(&beacon.node.id).or_default();
        known.heard = Some(beacon.at);
        known.said = Said::decode(&beacon.said, at).ok();
    }
    for order in &read.orders {
        all.entry(&order.node).or_default().drain = Drain::of(order, now);
    }
    let since = issue.map_or(Duration::ZERO, |issue| now.since(issue.stamp.at));
    let nodes = all.into_iter().filter_map(|(name, mut known)| {
        known.is_valid = valid.is_some();
        known.silent_for = known.silence(since);
        // What nobody publishes any more is only good for knowing whom there was a minute ago.
        let is_known = known.is_valid && known.last.is_some()
            || known.heard.is_some()
            || known.drain.is_some()
            || (known.silent_for).is_some_and(|silent| silent <= FORGOTTEN_AFTER);
        is_known.then(|| known.view(name, now, at))
    });
    let nodes = nodes.collect();
    let word = valid.and_then(|issue| Word::decode(&issue.fleet));
    Outlook {
        nodes,
        fleet: word.zip(valid).map(|(word, issue)| Fleetwide {
            age_ms: millis(now.since(issue.stamp.at)),
            word,
        }),
    }
}

/// What there is to know of a node.
#[derive(Default)]
struct Known {
    /// What was decided about it last, and whether that still holds.
    last: Option<Told>,
    is_valid: bool,
    /// When its beacon came, if it counts, and what it says, if that can be read.
    heard: Option<Wall>,
    said: Option<Said>,
    silent_for: Option<Duration>,
    /// An order that holds.
    drain: Option<Drain>,
}

impl Known {
    /// For how long it has been silent, if it is and anybody remembers; `since` is how long ago the last was published.
    fn silence(&self, since: Duration) -> Option<Duration> {
        let age_ms = self.last.as_ref()?.age_ms?;
        let silent = Duration::from_millis(age_ms).saturating_add(since);
        self.heard.is_none().then_some(silent)
    }

    /// Whether its order is carried out. It is an operator's word: it holds though nobody leads. Where nobody has heard of
    /// the node it is carried out when it comes.
    fn is_drained(&self) -> bool {
        let is_done = match &self.last {
            Some(told) if self.is_valid || told.is_drained() => told.is_drained(),
            _ => self.heard.is_none(),
        };
        self.drain.is_some() && is_done
    }

    fn view(&self, name: &Name, now: Wall, at: Mono) -> NodeView {
        let is_drained = self.is_drained();
        let said = self.said.as_ref();
        // What was told of a drained node whose order was taken back a moment ago says nothing any more.
        let told = self
            .last
            .as_ref()
            .filter(|told| self.is_valid && (self.drain.is_some() || !told.is_drained()));
        let binding = told.and_then(|told| told.binding.as_ref());
        let read = told
            .and_then(Told::dimension)
            .and_then(|dimension| said?.worst_of(dimension, at));
        let own = said.map_or("unknown", |said| said.state.name());
        let load = said.and_then(|said| said.load);
        let drain = self.drain.as_ref();
        NodeView {
            node: name.to_string(),
            state: if is_drained {
                DRAINED
            } else {
                told.map_or(own, |told| told.state().name())
            },
            source: if told.is_some() { "control" } else { "local" },
            weight: if is_drained {
                0
            } else {
                told.map_or_else(|| own_weight(said), |told| told.weight)
            },
            headroom: told.and_then(|told| told.left),
            dimension: binding.map(|bound| bound.dimension.clone()),
            value: read.map(|it| it.value).or_else(|| binding?.value),
            limit: read.map(|it| it.limit).or_else(|| binding?.limit),
            binding_for_ms: binding.map(|bound| bound.for_ms),
            for_ms: match drain.filter(|_| is_drained) {
                Some(drain) => Some(millis(drain.since)),
                None => told.map(|told| told.for_ms),
            },
            confidence: told.map(|told| told.confidence),
            guard: told.and_then(Told::guard).map(|guard| guard.name()),
            beacon_age_ms: self.heard.map(|heard| millis(now.since(heard))),
            silent_for_ms: self.silent_for.map(millis),
            inflight: said.and_then(|said| said.inflight),
            completed_rps: load.map(|load| load.completed_rps),
            error_ratio: load.map(|load| load.error_ratio),
            release: said.map(|said| said.release.clone()),
            drain: drain.map(|drain| Drained {
                by: drain.by.clone(),
                why: drain.why.clone(),
                since_ms: Some(millis(drain.since)),
                left_ms: drain.left.map(millis),
                is_done: is_drained,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::health::{Dimension, Hold, Signal};
    use tidegate_store::{Beacon, Fence, Node, Order, Stamp};

    use super::super::verdict::Bound;
    use super::*;

    fn wall(ms: u64) -> Wall {
        Wall::from_micros(1_790_000_000_000_000 + ms * 1_000)
    }

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    /// What a leader published at 0, of these nodes.
    fn issue(told: &[(&str, Told)]) -> Issue {
        Issue {
            now: wall(0),
            stamp: Stamp {
                fence: Fence(1),
                generation: 1,
                at: wall(0),
                until: wall(3_000),
            },
            fleet: Word::default().encode(),
            verdicts: (told.iter())
                .map(|(node, told)| (name(node), told.encode()))
                .collect(),
        }
    }

    fn read(now: Wall, heard: &[&str], ordered: &[&str]) -> Beacons {
        let at = Mono::from_millis(5_000);
        let said = Said {
            signals: vec![Signal::read(Dimension::Threads, 3.0, 10.0, at)],
            ..Said::nothing()
        };
        Beacons {
            now,
            beacons: (heard.iter())
                .map(|node| Beacon {
                    node: Node {
                        id: name(node),
                        incarnation: 1,
                    },
                    at: now,
                    said: said.encode(at),
                })
                .collect(),
            orders: (ordered.iter())
                .map(|node| Order {
                    node: name(node),
                    since: wall(0),
                    until: None,
                    said: Drain::encode("kim", Some("new disk")),
                })
                .collect(),
            odd: Vec::new(),
        }
    }

    fn drained() -> Told {
        Told {
            age_ms: Some(400),
            binding: Some(Bound {
                dimension: "threads".to_owned(),
                value: Some(2.0),
                limit: Some(10.0),
                for_ms: 700,
            }),
            drain: Some(Drained {
                by: "kim".to_owned(),
                why: None,
                since_ms: Some(0),
                left_ms: None,
                is_done: true,
            }),
            ..Told::of(State::Unknown, 0)
        }
    }

    #[test]
    fn a_drained_node_is_shown_as_that_with_what_it_still_reads() {
        for now in [wall(1_000), wall(40_000)] {
            let seen = view(
                Some(&issue(&[("a", drained())])),
                &read(now, &["a"], &["a"]),
            );

            let node = &seen.nodes[0];
            assert_eq!((node.state, node.weight), (DRAINED, 0));
            let drain = node.drain.as_ref().unwrap();
            assert_eq!((drain.by.as_str(), drain.is_done), ("kim", true));
            assert_eq!(drain.since_ms, node.for_ms);
        }
        let seen = view(
            Some(&issue(&[("a", drained())])),
            &read(wall(1_000), &["a"], &["a"]),
        );
        let node = &seen.nodes[0];
        assert_eq!(node.dimension.as_deref(), Some("threads"));
        assert_eq!((node.value, node.limit), (Some(3.0), Some(10.0)));
    }

    #[test]
    fn an_order_that_was_taken_back_drains_nobody_any_more() {
        let seen = view(
            Some(&issue(&[("a", drained())])),
            &read(wall(500), &["a"], &[]),
        );

        let node = &seen.nodes[0];
        assert_eq!((node.state, node.weight), ("unknown", 100));
        assert_eq!(node.drain, None);
    }

    #[test]
    fn who_is_silent_is_listed_with_since_when_also_when_nobody_leads() {
        let silent = Told {
            age_ms: Some(2_000),
            ..Told::of(State::Unknown, 100)
        };
        let issue = issue(&[("a", silent)]);

        let led = view(Some(&issue), &read(wall(1_000), &["b"], &[]));
        let unled = view(Some(&issue), &read(wall(10_000), &["b"], &[]));
        let later = view(Some(&issue), &read(wall(59_000), &["b"], &[]));

        let of = |seen: &Outlook| {
            let nodes = seen.nodes.iter();
            let nodes = nodes.map(|node| (node.node.clone(), node.silent_for_ms));
            nodes.collect::<Vec<_>>()
        };
        let other = ("b".to_owned(), None);
        assert_eq!(of(&led), [("a".to_owned(), Some(3_000)), other.clone()]);
        assert_eq!(of(&unled), [("a".to_owned(), Some(12_000)), other.clone()]);
        assert!(led.fleet.is_some() && unled.fleet.is_none());
        assert_eq!(of(&later), [other]);
    }

    #[test]
    fn a_node_that_nobody_decides_about_has_the_weight_that_it_gives_itself() {
        for (state, weight) in [(State::Stressed, 70), (State::Healthy, 100)] {
            let mut all = read(wall(0), &["a"], &[]);
            let said = Said {
                state,
                ..Said::nothing()
            };
            all.beacons[0].said = said.encode(Mono::default());

            let seen = view(None, &all);

            let node = &seen.nodes[0];
            assert_eq!((node.state, node.source), (state.name(), "local"));
            assert_eq!(node.weight, weight);
        }
    }

    #[test]
    fn what_remains_without_a_node_is_what_is_heard_of_and_not_ordered_away() {
        let full = Told {
            age_ms: Some(100),
            ..Told::of(State::Saturated, 0)
        };
        let kept = Told {
            age_ms: Some(100),
            ..Told::of(State::Saturated, 100)
        }
        .held(Some(Hold::Last));
        let silent = Told {
            age_ms: Some(9_000),
            ..Told::of(State::Unknown, 100)
        };
        let issue = issue(&[("full", full), ("kept", kept), ("silent", silent)]);
        let heard = ["full", "kept", "leaving", "new"];

        let seen = view(Some(&issue), &read(wall(100), &heard, &["leaving"]));

        let remains = seen.without("new");
        let remains: Vec<_> = (remains.iter())
            .map(|node| (node.node.as_str(), node.has_room()))
            .collect();
        assert_eq!(remains, [("full", false), ("kept", false)]);
        let with_room: Vec<_> = (seen.without("full").iter())
            .filter(|node| node.has_room())
            .map(|node| node.node.clone())
            .collect();
        assert_eq!(with_room, ["new"]);
    }

    #[test]
    fn an_order_for_a_node_that_is_not_up_is_carried_out_when_it_comes() {
        let seen = view(None, &read(wall(0), &[], &["a"]));

        let node = &seen.nodes[0];
        assert_eq!((node.state, node.weight), (DRAINED, 0));
        assert_eq!((node.beacon_age_ms, node.silent_for_ms), (None, None));
    }
}

//! The leader's tick: all beacons in, a verdict for each node out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_core::health::{
    Decision, Dimension, FORGOTTEN_AFTER, Fleet, NODES_MAX, NodeId, Outcome, Pace, Pulse, Readings,
    Report, Scales, Settings, Shared, State, VERDICT_LEASE, room,
};
use tidegate_core::session::Name;
use tidegate_core::time::Mono;
use tidegate_store::{Beacon, Beacons, Decided, Fence, Issue, Node};

use super::beacon::Said;
use super::budgets::Budgets;
use super::kept::Kept;
use super::order::Drain;
use super::verdict::{Bound, Counts, Drained, Told, Word, millis};

/// Decides about all nodes, for as long as its station leads. It reads no clock: a beacon is as old as the time since
/// its sequence was first seen here, whatever the store's clock or the node's says.
pub struct Plane {
    leader: Name,
    settings: Settings,
    scales: [Scales; 2],
    fleet: Fleet,
    nodes: BTreeMap<Name, Known>,
    /// Nodes that only a former leader has heard of: when that was read here, and how long they were silent by then.
    absent: BTreeMap<Name, (Mono, Duration)>,
    next_id: u32,
    generation: u64,
    ticked: Option<Mono>,
    decisions: Vec<Decision>,
    /// Changes of state, by node, to where, and by what.
    transitions: BTreeMap<(Name, &'static str, &'static str), u64>,
    unreadable: u64,
    /// Where what follows the fleet's headroom is, and where admission is.
    paces: Paces,
    budgets: Budgets,
}

/// What moves at a pace of its own.
#[derive(Clone, Copy, Debug)]
struct Paces {
    room: Pace,
    admission: Pace,
}

impl Paces {
    const ALL: Self = Self {
        room: Pace::ALL,
        admission: Pace::ALL,
    };
}

/// A node that has been heard of.
struct Known {
    id: NodeId,
    life: u64,
    sequence: u64,
    heard: Mono,
    begun: Mono,
    said: Said,
    /// What there is least of, and since when.
    binding: Option<(Dimension, Mono)>,
    /// Whether an operator has it drained, which it has been since.
    drained: Option<Mono>,
}

/// What a tick decided.
#[derive(Clone, Debug)]
pub struct Judged {
    /// To be published.
    pub decided: Decided,
    /// What of it balancers are to be told anew, with what it came from.
    pub decisions: Vec<(Name, Decision)>,
    /// What was decided about each node.
    pub nodes: BTreeMap<Name, Told>,
    /// What is said of the fleet.
    pub word: Word,
}

impl Plane {
    /// A plane that knows nobody yet, of the node `leader`.
    pub fn new(leader: Name, settings: Settings) -> Self {
        Self {
            leader,
            settings,
            scales: [Scales::default(), Scales::in_container()],
            fleet: Fleet::new(settings),
            nodes: BTreeMap::new(),
            absent: BTreeMap::new(),
            next_id: 0,
            generation: 0,
            ticked: None,
            decisions: Vec::new(),
            transitions: BTreeMap::new(),
            unreadable: 0,
            paces: Paces::ALL,
            budgets: Budgets::default(),
        }
    }

    /// Whether it knows nothing at `now`, or nothing any more: somebody else led meanwhile.
    pub fn is_new(&self, now: Mono) -> bool {
        (self.ticked).is_none_or(|ticked| now.since(ticked) > VERDICT_LEASE)
    }

    /// Goes on at `now` from what the leader before it has published, if that was lately. A change of the leader is
    /// no reason for anything else to change.
    ///
    /// What is not known afterwards is who got worse in the last three ticks: many that get worse alike are noticed again
    /// after as long.
    pub fn resume(&mut self, now: Mono, issue: Option<&Issue>) {
        self.begin_anew();
        self.ticked = Some(now);
        let Some(issue) = issue else { return };
        let age = issue.now.since(issue.stamp.at);
        if issue.now < issue.stamp.at {
            return;
        }
        let is_recent = age <= RESUMED_WITHIN;
        for (name, said) in issue.verdicts.iter().take(NODES_MAX) {
            if let Some(told) = Told::decode(said) {
                self.take_over(now, age, name, &told, is_recent);
            }
        }
        if !is_recent {
            return;
        }
        let Some(word) = Word::decode(&issue.fleet) else {
            return;
        };
        let moved = |share: f64| Pace {
            share: share.clamp(0.0, 1.0),
            // Nobody knows when it fell. It rests once more.
            fell: (share < 1.0).then_some(now),
        };
        self.paces = Paces {
            room: word.room.map_or(Pace::ALL, moved),
            admission: moved(word.admission),
        };
        self.budgets = Budgets::resumed(now, &word.budgets);
        let shared = word.shared.as_ref();
        self.fleet.resume_shared(shared.and_then(|shared| {
            let lasted = Duration::from_millis(shared.for_ms).saturating_add(age);
            Some(Shared {
                dimension: Dimension::named(&shared.dimension)?,
                since: now.minus(lasted),
            })
        }));
    }

    /// Goes on with a node that the leader before had heard of. Where what it knew of it `counts` no more, or was nothing, the node is
    /// known by name alone: one that died with that leader would be in no list otherwise.
    fn take_over(&mut self, now: Mono, age: Duration, name: &Name, told: &Told, counts: bool) {
        let Some(age_ms) = told.age_ms else { return };
        let silent = Duration::from_millis(age_ms).saturating_add(age);
        let heard = now.minus(silent);
        if silent > FORGOTTEN_AFTER {
            return;
        }
        let Some(kept) = told.kept.as_ref().filter(|_| counts) else {
            self.absent.insert(name.clone(), (now, silent));
            return;
        };
        let memory = kept.memory(told.state(), told.for_ms, now, age);
        let binding = told.dimension().zip(told.binding.as_ref());
        let node = Known {
            id: self.next_id(),
            life: kept.life,
            // That of what was said before is not published: whatever comes is news.
            sequence: 0,
            heard,
            begun: memory.since,
            said: Said::nothing(),
            binding: binding.map(|(dimension, bound)| {
                let lasted = Duration::from_millis(bound.for_ms).saturating_add(age);
                (dimension, now.minus(lasted))
            }),
            drained: None,
        };
        self.fleet.resume(heard, node.id, memory);
        self.nodes.insert(name.clone(), node);
    }

    const fn next_id(&mut self) -> NodeId {
        let id = NodeId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        id
    }

    /// Decides at `now` on what was `read`, for a leader whose lease has `fence`.
    ///
    /// What was known is forgotten when the plane has rested for three ticks: somebody else led meanwhile. [`Plane::resume`]
    /// comes before that.
    pub fn tick(&mut self, now: Mono, fence: Fence, read: &Beacons) -> Judged {
        if self.is_new(now) {
            self.begin_anew();
        }
        self.ticked = Some(now);
        self.generation += 1;
        for beacon in &read.beacons {
            self.hear(now, beacon);
        }
        let orders = self.drains(now, read);
        self.report(now);
        let mut decisions = std::mem::take(&mut self.decisions);
        let pulse = self.fleet.tick(now, &mut decisions);
        let outcomes: BTreeMap<NodeId, Outcome> = decisions
            .iter()
            .map(|decision| (decision.node, decision.outcome))
            .collect();
        let mut nodes = BTreeMap::new();
        for (name, node) in &mut self.nodes {
            let outcome = outcomes.get(&node.id);
            let memory = self.fleet.memory(node.id);
            let mut told = match node.drained {
                Some(since) => node.told_drained(now, since, &self.scales),
                None => node.told(now, outcome, memory.map(|memory| memory.since)),
            };
            told.kept = memory.map(|memory| Kept::of(memory, node.life, now));
            if let Some(outcome) = outcome.filter(|outcome| outcome.from != outcome.to) {
                let binding = outcome.binding.map_or("none", Dimension::name);
                let key = (name.clone(), outcome.to.name(), binding);
                *self.transitions.entry(key).or_default() += 1;
            }
            nodes.insert(name.clone(), told);
        }
        self.tell_of_others(now, &orders, &mut nodes);
        for (name, drain) in orders {
            if let Some(told) = nodes.get_mut(&name) {
                told.drain = Some(drain);
            }
        }
        let applied = self.applied(&decisions);
        self.decisions = decisions;
        self.pace(now, &pulse);
        let word = self.word(now, &pulse, &nodes);
        Judged {
            decided: Decided {
                fence,
                generation: self.generation,
                fleet: word.encode(),
                verdicts: (nodes.iter())
                    .map(|(name, told)| (name.clone(), told.encode()))
                    .collect(),
            },
            decisions: applied,
            nodes,
            word,
        }
    }

    /// Changes of state since the plane began: node, to where, by what dimension, how many.
    pub fn transitions(&self) -> impl Iterator<Item = (&Name, &'static str, &'static str, u64)> {
        let all = self.transitions.iter();
        all.map(|((name, to, dimension), count)| (name, *to, *dimension, *count))
    }

    /// Beacons that could not be read since the plane began.
    pub const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    fn begin_anew(&mut self) {
        self.fleet = Fleet::new(self.settings);
        self.nodes.clear();
        self.absent.clear();
        self.transitions.clear();
        self.paces = Paces::ALL;
        self.budgets = Budgets::default();
    }

    /// Takes in a beacon, unless it has been seen.
    fn hear(&mut self, now: Mono, beacon: &Beacon) {
        let Node { id: name, .. } = &beacon.node;
        self.absent.remove(name);
        let life = beacon.node.incarnation;
        let Ok(said) = Said::decode(&beacon.said, now) else {
            // As if it were silent: unknown is healthy.
            self.unreadable += 1;
            return;
        };
        if said.is_leaving {
            self.forget(name);
            return;
        }
        if let Some(node) = self.nodes.get_mut(name) {
            if (node.life, node.sequence) == (life, said.sequence) {
                return;
            }
            if node.life != life {
                // Another process, whose caches are cold: it begins with a part of the traffic, as a new one does.
                self.fleet.forget(node.id);
                node.life = life;
            }
            node.sequence = said.sequence;
            node.heard = now;
            node.said = said;
            return;
        }
        if self.nodes.len() >= NODES_MAX {
            return;
        }
        let node = Known {
            id: self.next_id(),
            life,
            sequence: said.sequence,
            heard: now,
            begun: now,
            said,
            binding: None,
            drained: None,
        };
        self.nodes.insert(name.clone(), node);
    }

    fn forget(&mut self, name: &Name) {
        if let Some(node) = self.nodes.remove(name) {
            self.fleet.forget(node.id);
            self.transitions.retain(|(other, ..), _| other != name);
        }
    }

    /// What of the orders to drain is carried out: all but one that would leave nobody. A drained node is none of the
    /// fleet that the guard counts: what remains has to be enough without it.
    fn drains(&mut self, now: Mono, read: &Beacons) -> BTreeMap<Name, Drained> {
        let mut asked: Vec<(Name, Drain)> = read
            .orders
            .iter()
            .filter_map(|order| Some((order.node.clone(), Drain::of(order, read.now)?)))
            .collect();
        // First come, first served; those that are drained stay so.
        asked.sort_by_key(|(_, drain)| std::cmp::Reverse(drain.since));
        let is_heard = |node: &Known| now.since(node.heard) < VERDICT_LEASE;
        let mut remaining = self.nodes.values().filter(|node| is_heard(node)).count();
        let mut drained = BTreeMap::new();
        let mut done = BTreeSet::new();
        for (name, drain) in asked {
            let counts = self.nodes.get(&name).is_some_and(is_heard);
            let is_done = !counts || remaining > 1;
            if is_done && counts {
                remaining -= 1;
            }
            if is_done {
                done.insert(name.clone());
            }
            let entry = Drained {
                by: drain.by,
                why: drain.why,
                since_ms: Some(millis(drain.since)),
                left_ms: drain.left.map(millis),
                is_done,
            };
            drained.insert(name, entry);
        }
        for (name, node) in &mut self.nodes {
            match (done.contains(name), node.drained) {
                (true, None) => {
                    node.drained = Some(now);
                    self.fleet.forget(node.id);
                }
                (false, Some(_)) => node.drained = None,
                _ => {}
            }
        }
        drained
    }

    /// Tells the core what is news, and forgets who has been silent for long.
    fn report(&mut self, now: Mono) {
        let gone: Vec<Name> = (self.nodes.iter())
            .filter(|(_, node)| now.since(node.heard) > FORGOTTEN_AFTER)
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.forget(&name);
        }
        self.absent
            .retain(|_, (at, silent)| now.since(*at) + *silent <= FORGOTTEN_AFTER);
        for node in self.nodes.values() {
            if node.heard != now || node.drained.is_some() {
                continue;
            }
            let scales = &self.scales[usize::from(node.said.in_container)];
            let report = Report {
                readings: Readings::of(scales, &node.said.signals, now),
                load: node.said.load,
                keeps_sessions: node.said.keeps_sessions,
            };
            // There are no more nodes here than the core takes.
            let _ = self.fleet.report(now, node.id, report);
        }
    }

    fn applied(&self, decisions: &[Decision]) -> Vec<(Name, Decision)> {
        let names: BTreeMap<NodeId, &Name> = (self.nodes.iter())
            .map(|(name, node)| (node.id, name))
            .collect();
        let applied = decisions.iter().filter(|it| it.outcome.applied);
        applied
            .filter_map(|decision| {
                let name = *names.get(&decision.node)?;
                Some((name.clone(), *decision))
            })
            .collect()
    }

    /// Puts beside what is told of `nodes` that nobody hears of those that a former leader knew, and that those that were
    /// ordered away are so, also when they are switched off meanwhile: whoever sets balancers has to know.
    fn tell_of_others(
        &self,
        now: Mono,
        orders: &BTreeMap<Name, Drained>,
        nodes: &mut BTreeMap<Name, Told>,
    ) {
        let absent = self.absent.iter().map(|(name, (at, silent))| {
            let age_ms = millis(now.since(*at) + *silent);
            (name, Some(age_ms), age_ms)
        });
        let ordered = orders
            .iter()
            .map(|(name, order)| (name, None, order.since_ms.unwrap_or_default()));
        for (name, age_ms, for_ms) in absent.chain(ordered) {
            if nodes.len() >= NODES_MAX {
                return;
            }
            let is_drained = orders.get(name).is_some_and(|order| order.is_done);
            let weight = if is_drained { 0 } else { 100 };
            nodes.entry(name.clone()).or_insert_with(|| Told {
                for_ms,
                age_ms,
                ..Told::of(State::Unknown, weight)
            });
        }
    }

    /// Moves what follows the fleet by a tick.
    fn pace(&mut self, now: Mono, pulse: &Pulse) {
        let left = pulse.spare.utilisation.map(|used| 1.0 - used);
        let room = left.map(|left| room(left, &self.settings.bands));
        self.paces = Paces {
            room: self.paces.room.step(now, room),
            admission: match pulse.spare.utilisation {
                Some(_) => self.paces.admission.step(now, Some(pulse.admission)),
                // All of them were started again, say: what slowed the fleet down is known to nobody.
                None => self.paces.admission.open(),
            },
        };
        let heard = self.nodes.values();
        let heard = heard.filter(|node| now.since(node.heard) < VERDICT_LEASE);
        let calls = heard.flat_map(|node| &node.said.calls);
        self.budgets.step(now, &self.settings.bands, calls);
    }

    fn word(&self, now: Mono, pulse: &Pulse, told: &BTreeMap<Name, Told>) -> Word {
        let is_heard = |node: &&Known| now.since(node.heard) < VERDICT_LEASE;
        let counts = Counts {
            nodes: told.len(),
            heard: self.nodes.values().filter(is_heard).count(),
            drained: told.values().filter(|told| told.is_drained()).count(),
        };
        let for_ms = pulse.shared.map_or(0, |shared| millis(shared.lasts(now)));
        let is_known = pulse.spare.utilisation.is_some();
        Word {
            admission: to_thousandths(self.paces.admission.share),
            room: is_known.then(|| to_thousandths(self.paces.room.share)),
            budgets: self.budgets.shares(),
            ..Word::of(self.leader.as_str(), pulse, for_ms, counts)
        }
    }
}

impl Known {
    /// What is said of it: what the core decided, or that it is unknown and in.
    fn told(&mut self, now: Mono, outcome: Option<&Outcome>, since: Option<Mono>) -> Told {
        let age_ms = Some(millis(now.since(self.heard)));
        let Some(outcome) = outcome else {
            return Told {
                for_ms: millis(now.since(self.heard)),
                age_ms,
                ..Told::of(State::Unknown, 100)
            };
        };
        let since = since.unwrap_or_default().max(self.begun);
        Told {
            left: outcome.left.map(to_thousandths),
            binding: self.bound(now, outcome.binding),
            confidence: to_thousandths(outcome.confidence),
            for_ms: millis(now.since(since)),
            age_ms,
            ..Told::of(outcome.to, outcome.weight)
        }
        .held(outcome.guard)
    }

    /// What is said of it while it is drained, which it has been `since`: nothing is decided about it, but what it reads
    /// shows when it has finished what it had.
    fn told_drained(&mut self, now: Mono, since: Mono, scales: &[Scales; 2]) -> Told {
        let scales = &scales[usize::from(self.said.in_container)];
        let headroom = Readings::of(scales, &self.said.signals, now).headroom(now);
        let binding = headroom.binding();
        Told {
            left: binding.map(|binding| to_thousandths(binding.left)),
            binding: self.bound(now, binding.map(|binding| binding.dimension)),
            confidence: to_thousandths(headroom.confidence()),
            for_ms: millis(now.since(since)),
            age_ms: Some(millis(now.since(self.heard))),
            ..Told::of(State::Unknown, 0)
        }
    }

    /// What there is least of at `now`, with what was read of it.
    fn bound(&mut self, now: Mono, binding: Option<Dimension>) -> Option<Bound> {
        self.binding = match (binding, self.binding) {
            (Some(dimension), Some((before, since))) if before == dimension => {
                Some((dimension, since))
            }
            (binding, _) => binding.map(|dimension| (dimension, now)),
        };
        let (dimension, since) = self.binding?;
        let read = self.said.worst_of(dimension, now);
        Some(Bound {
            dimension: dimension.name().to_owned(),
            value: read.map(|signal| signal.value),
            limit: read.map(|signal| signal.limit),
            for_ms: millis(now.since(since)),
        })
    }
}

fn to_thousandths(share: f64) -> f64 {
    (share * 1_000.0).round() / 1_000.0
}

/// How old may be what a new leader goes on from. Later each node has gone by its own evidence for long.
const RESUMED_WITHIN: Duration = Duration::from_secs(10);

/// How long a verdict of a plane counts.
pub(super) const VALID: Duration = VERDICT_LEASE;

#[cfg(test)]
#[path = "plane/resume_tests.rs"]
mod resume_tests;
#[cfg(test)]
#[path = "plane/tests.rs"]
mod tests;

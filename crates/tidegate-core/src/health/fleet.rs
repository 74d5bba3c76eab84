//! All nodes together, once a tick: what each of them is told, and what those are told who let requests in.
//!
//! [`Fleet::report`] takes in what a node says, [`Fleet::tick`] decides. A second is a tick.

use std::time::Duration;

use super::capacity::{Load, median};
use super::correlation::{Shared, Tally, Trail};
use super::decision::Decision;
use super::guard::{self, Case, Hold, Ruling};
use super::headroom::{Headroom, Readings};
use super::node::{Context, Input, Memory};
use super::scale::Scales;
use super::settings::Settings;
use super::spare::{Share, Spare};
use super::state::{State, Transition};
use crate::time::Mono;

/// The most nodes there are in a fleet.
pub const NODES_MAX: usize = 4096;
/// A node that has not been heard of for so long is no longer one of the fleet.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// For so long after nodes have suffered from something together none is taken out: what is known of one that recovers a
/// little later than the others is still of that time.
const AFTERMATH: Duration = Duration::from_secs(10);
/// Admission is never told to let in less than this part.
const ADMISSION_MIN: f64 = 0.1;

/// A node, by a number that its caller chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// What a node says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// What it has left.
    pub readings: Readings,
    /// What it does, if that is measured.
    pub load: Option<Load>,
    /// Whether sessions live in its heap.
    pub keeps_sessions: bool,
}

/// The fleet is full, and a node that is not known cannot join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetFull;

impl std::fmt::Display for FleetFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a fleet has at most {NODES_MAX} nodes")
    }
}

impl std::error::Error for FleetFull {}

/// Why weights follow capacity alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Freeze {
    /// The guard keeps somebody in.
    Guard(Hold),
    /// More than half of what the fleet can do is stressed.
    Stressed,
    /// Many became worse in the same way.
    Dependency,
}

/// What a tick says of the whole fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pulse {
    /// What there is to spare.
    pub spare: Spare,
    /// Why moving load from node to node does not help now, if so. The pressure goes to admission.
    pub freeze: Option<Freeze>,
    /// What many nodes suffer from together.
    pub shared: Option<Shared>,
    /// Which part of the usual admission should let in what it lets in, 0.1 to 1: below 1 only while weights are frozen.
    pub admission: f64,
    /// Nodes there are, and nodes heard of among them.
    pub nodes: usize,
    /// Nodes that are heard of.
    pub heard: usize,
    /// Nodes that are out.
    pub out: usize,
}

struct Entry {
    id: NodeId,
    report: Report,
    heard: Mono,
    memory: Memory,
    trail: Trail,
    tick: Tick,
}

/// What is only of interest during a tick.
struct Tick {
    is_news: bool,
    headroom: Headroom,
    before: Memory,
    turn: Option<Transition>,
}

impl Entry {
    const fn input(&self) -> Input {
        Input {
            headroom: self.tick.headroom,
            is_news: self.tick.is_news,
            load: self.report.load,
            keeps_sessions: self.report.keeps_sessions,
        }
    }
}

/// The fleet.
pub struct Fleet {
    settings: Settings,
    /// In the order of their ids.
    entries: Vec<Entry>,
    shared: Option<Shared>,
    /// When the last thing of that kind was over.
    shared_ended: Option<Mono>,
    median: Option<f64>,
    // Room to work in, so that a tick allocates nothing.
    numbers: Vec<f64>,
    cases: Vec<Case>,
    order: Vec<usize>,
    rulings: Vec<Ruling>,
}

impl Fleet {
    /// A fleet without nodes.
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            entries: Vec::new(),
            shared: None,
            shared_ended: None,
            median: None,
            numbers: Vec::new(),
            cases: Vec::new(),
            order: Vec::new(),
            rulings: Vec::new(),
        }
    }

    /// How its nodes are judged.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes in what `node` says at `now`. A node that is not known joins; where others have their parts of the traffic
    /// already, it begins with a tenth of their median.
    pub fn report(&mut self, now: Mono, node: NodeId, report: Report) -> Result<(), FleetFull> {
        match self.entries.binary_search_by_key(&node, |it| it.id) {
            Ok(at) => {
                let entry = &mut self.entries[at];
                entry.report = report;
                entry.heard = now;
                entry.tick.is_news = true;
                Ok(())
            }
            Err(_) if self.entries.len() == NODES_MAX => Err(FleetFull),
            Err(at) => {
                let memory = Memory::joining(self.median);
                let tick = Tick {
                    is_news: true,
                    headroom: report.readings.headroom(now),
                    before: memory,
                    turn: None,
                };
                let entry = Entry {
                    id: node,
                    report,
                    heard: now,
                    memory,
                    trail: Trail::default(),
                    tick,
                };
                self.entries.insert(at, entry);
                Ok(())
            }
        }
    }

    /// What another fleet knew of `node`, which was heard of last at `heard`: it goes on as it was there, and what it reads
    /// is still to be reported. To be said before the first tick; later, or of a node that is known, it is passed over.
    pub fn resume(&mut self, heard: Mono, node: NodeId, memory: Memory) {
        let Err(at) = self.entries.binary_search_by_key(&node, |it| it.id) else {
            return;
        };
        if self.entries.len() == NODES_MAX {
            return;
        }
        let readings = Readings::none(&Scales::default());
        let entry = Entry {
            id: node,
            report: Report {
                readings,
                load: None,
                keeps_sessions: false,
            },
            heard,
            memory,
            trail: Trail::default(),
            tick: Tick {
                is_news: false,
                headroom: readings.headroom(heard),
                before: memory,
                turn: None,
            },
        };
        self.entries.insert(at, entry);
    }

    /// What many nodes suffered from together in another fleet goes on as it was there.
    pub const fn resume_shared(&mut self, shared: Option<Shared>) {
        self.shared = shared;
    }

    /// `node` has left, and is not one of the fleet any more.
    pub fn forget(&mut self, node: NodeId) {
        self.entries.retain(|entry| entry.id != node);
    }

    /// What is remembered of `node`.
    pub fn memory(&self, node: NodeId) -> Option<&Memory> {
        let at = self.entries.binary_search_by_key(&node, |it| it.id).ok()?;
        Some(&self.entries[at].memory)
    }

    /// Decides on every node at `now`, into `decisions` in the order of their ids.
    pub fn tick(&mut self, now: Mono, decisions: &mut Vec<Decision>) -> Pulse {
        decisions.clear();
        self.entries
            .retain(|entry| now.since(entry.heard) <= FORGOTTEN_AFTER);
        self.observe(now);
        self.rule(now);
        let freeze = self.freeze();
        let mut context = Context {
            ruling: Ruling::In,
            is_frozen: freeze.is_some(),
            median: self.median,
            top: 0.0,
        };
        for (entry, &ruling) in self.entries.iter_mut().zip(&self.rulings) {
            let input = entry.input();
            entry.memory.draw(&input, &Context { ruling, ..context });
            context.top = context.top.max(entry.memory.pull.rps.unwrap_or(0.0));
        }
        for (entry, &ruling) in self.entries.iter_mut().zip(&self.rulings) {
            let (input, turn) = (entry.input(), entry.tick.turn);
            let context = Context { ruling, ..context };
            let outcome = entry.memory.settle(now, &input, &context, turn);
            entry.tick.is_news = false;
            decisions.push(Decision {
                at: now,
                node: entry.id,
                input,
                before: entry.tick.before,
                context,
                outcome,
            });
        }
        self.pulse(freeze)
    }

    /// Each node by itself, and what many have in common.
    fn observe(&mut self, now: Mono) {
        let mut tally = Tally::default();
        self.numbers.clear();
        for entry in &mut self.entries {
            entry.tick.headroom = entry.report.readings.headroom(now);
            entry.tick.before = entry.memory;
            let input = entry.input();
            entry.tick.turn = entry.memory.observe(&self.settings, now, &input);
            tally.count(&entry.trail, &entry.tick.headroom);
            entry.trail.push(&entry.tick.headroom);
            if entry.memory.is_heard() {
                let estimate = entry.memory.estimate;
                self.numbers.extend(estimate.map(|it| it.rps));
            }
        }
        let before = self.shared;
        self.shared = Shared::next(before, now, &tally);
        if before.is_some() && self.shared.is_none() {
            self.shared_ended = Some(now);
        }
        self.median = median(&mut self.numbers);
    }

    fn rule(&mut self, now: Mono) {
        self.cases.clear();
        for entry in &self.entries {
            let input = entry.input();
            let case = entry.memory.case(&self.settings, now, &input, self.median);
            self.cases.push(case);
        }
        let offered = match self.median {
            Some(median) => self.offered(now, median),
            None => self.offered_unmeasured(),
        };
        guard::rule(
            self.settings.out_percent_max,
            &self.cases,
            offered,
            self.is_shared(now),
            &mut self.order,
            &mut self.rulings,
        );
    }

    /// Whether it may be what nodes share, or shared a moment ago, that makes one bad.
    fn is_shared(&self, now: Mono) -> bool {
        let ended = self.shared_ended;
        self.shared.is_some() || ended.is_some_and(|ended| now.since(ended) < AFTERMATH)
    }

    /// What comes to all of them, in requests per second, where nodes can do `median`.
    ///
    /// Not every node counts: an agent alone sees no requests, and a node that is stuck completes none of which anything could
    /// be told. Something comes to them all the same, and whoever is asked to do without them has to carry it: what comes to
    /// the others in the mean.
    fn offered(&self, now: Mono, median: f64) -> f64 {
        let (mut told, mut leaving, mut tell, mut silent) = (0.0, 0.0, 0.0, 0.0);
        for entry in &self.entries {
            let is_in = !entry.memory.is_out();
            match entry.memory.offered(now, &entry.input()) {
                Some(rps) if is_in => {
                    told += rps;
                    tell += 1.0;
                }
                Some(rps) => leaving += rps,
                None if is_in && entry.memory.is_heard() => silent += 1.0,
                None => {}
            }
        }
        if tell > 0.0 {
            told + leaving + silent * told / tell
        } else {
            leaving + self.offered_unmeasured() * median
        }
    }

    /// What comes to all of them in nodes' worth, where nobody measures requests: how much of them is used. A full node says
    /// nothing of what comes to it, as it may be full of what it no longer finishes: to it comes what comes to the others.
    fn offered_unmeasured(&self) -> f64 {
        let (mut used, mut known, mut full) = (0.0, 0.0, 0.0);
        for entry in &self.entries {
            match entry.memory.evidence.left {
                _ if entry.memory.is_out() => {}
                Some(_) if entry.memory.evidence.state == State::Saturated => full += 1.0,
                Some(left) => {
                    used += 1.0 - left;
                    known += 1.0;
                }
                None => {}
            }
        }
        let each = if known > 0.0 { used / known } else { 1.0 };
        used + full * each
    }

    fn freeze(&self) -> Option<Freeze> {
        if self.shared.is_some() {
            return Some(Freeze::Dependency);
        }
        let held = self.rulings.iter().filter_map(|ruling| ruling.hold());
        if let Some(hold) = held.into_iter().find(|hold| hold.is_guard()) {
            return Some(Freeze::Guard(hold));
        }
        // Weights move load between nodes that are in: who is out is no part of it.
        let (mut stressed, mut all) = (0.0, 0.0);
        let ruled = self.cases.iter().zip(&self.rulings);
        for (case, _) in ruled.filter(|(_, ruling)| **ruling != Ruling::Out) {
            all += case.capacity;
            if matches!(case.state, State::Stressed | State::Saturated) {
                stressed += case.capacity;
            }
        }
        (stressed > all / 2.0).then_some(Freeze::Stressed)
    }

    fn pulse(&self, freeze: Option<Freeze>) -> Pulse {
        let shares = self.entries.iter().filter_map(|entry| {
            let left = entry.memory.evidence.left?;
            (!entry.memory.is_out()).then_some(Share {
                used: 1.0 - left,
                capacity: entry.memory.capacity(self.median),
            })
        });
        let target = self.settings.target_used;
        let spare = Spare::of(shares, target);
        let admission = match (freeze, spare.utilisation) {
            (Some(_), Some(used)) if used > target => (target / used).max(ADMISSION_MIN),
            _ => 1.0,
        };
        let count = |is: fn(&Memory) -> bool| {
            let those = self.entries.iter().filter(|entry| is(&entry.memory));
            those.count()
        };
        Pulse {
            spare,
            freeze,
            shared: self.shared,
            admission,
            nodes: self.entries.len(),
            heard: count(Memory::is_heard),
            out: count(Memory::is_out),
        }
    }
}

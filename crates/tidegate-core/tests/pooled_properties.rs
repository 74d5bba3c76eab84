//! What a pooled limit promises, whatever becomes of its messages: they are lost, come twice, come
//! late and in any order, gateways and hub are restarted, and all of that at any moment.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::admission::{Action, Admission, Arrival, Config, Ticket};
use tidegate_core::bulkhead::Bulkheads;
use tidegate_core::facts::{Class, Facts, GroupId, RouteId};
use tidegate_core::limit::adaptive::Settings;
use tidegate_core::limit::pooled::{Hub, Leaf, LeafId, Pooling, Report, Share};
use tidegate_core::limit::{Bounds, Ending, Limit, Sample};
use tidegate_core::queue::Discipline;
use tidegate_core::time::Mono;

const LEAVES: usize = 4;
const INITIAL: u32 = 10;
const MOST: u32 = 500;
const SLOT: u64 = 1000;

fn settings() -> Settings {
    Settings {
        bounds: Bounds::new(INITIAL, 4, MOST).expect("in order"),
        ..Settings::default()
    }
}

#[derive(Clone, Debug)]
enum Event {
    /// A request at a leaf, or one that has to be refused there.
    Arrive(usize),
    /// One of the requests inside ends.
    End(usize, Ending),
    Report(usize),
    Refresh,
    /// One of the messages that are on their way arrives; it may arrive again later.
    Deliver(usize, bool),
    Lose(usize),
    RestartLeaf(usize),
    RestartHub,
    /// Time goes on, for some by less.
    Pass(u64),
}

fn events(longest_ms: u64) -> impl Strategy<Value = Vec<Event>> {
    let ending = prop_oneof![
        8 => Just(Ending::Worked),
        1 => Just(Ending::Ignored),
        1 => Just(Ending::Overloaded)
    ];
    let event = prop_oneof![
        60 => (0..LEAVES).prop_map(Event::Arrive),
        50 => (any::<usize>(), ending).prop_map(|(which, ending)| Event::End(which, ending)),
        20 => (0..LEAVES).prop_map(Event::Report),
        15 => Just(Event::Refresh),
        80 => (any::<usize>(), prop::bool::weighted(0.1))
            .prop_map(|(which, again)| Event::Deliver(which, again)),
        5 => any::<usize>().prop_map(Event::Lose),
        1 => (0..LEAVES).prop_map(Event::RestartLeaf),
        1 => Just(Event::RestartHub),
        30 => (0..longest_ms).prop_map(Event::Pass),
    ];
    prop::collection::vec(event, 1..2000)
}

#[derive(Clone, Debug)]
enum Message {
    Share(usize, Share),
    Report(usize, Report),
}

/// Gateways, a hub, and everything that is on its way between them.
struct Fleet {
    now: Mono,
    hub: Hub,
    terms: u64,
    lives: u64,
    leaves: Vec<Leaf>,
    inside: Vec<(usize, u32, Mono)>,
    wire: Vec<Message>,
    /// The largest limit of any hub so far.
    limit_most: u64,
}

impl Fleet {
    fn new() -> Self {
        let pooling = Pooling::default();
        let leaf = |life| Leaf::new(settings(), pooling, life, life, None);
        Self {
            now: Mono::from_millis(1),
            hub: Hub::new(settings(), pooling, 1, 1, None),
            terms: 1,
            lives: LEAVES as u64,
            leaves: (1..=LEAVES as u64).map(leaf).collect(),
            inside: Vec::new(),
            wire: Vec::new(),
            limit_most: u64::from(INITIAL),
        }
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Arrive(leaf) => self.arrive(leaf),
            Event::End(which, ending) => self.end(which, ending),
            Event::Report(leaf) => {
                let report = self.leaves[leaf].report(self.now);
                self.wire.push(Message::Report(leaf, report));
            }
            Event::Refresh => {
                let mut shares = Vec::new();
                self.hub.refresh(self.now, &mut shares);
                let sum: u64 = shares.iter().map(|(_, share)| share.milli).sum();
                assert!(sum <= u64::from(self.hub.limit()) * SLOT, "{sum}");
                for (LeafId(leaf), share) in shares {
                    self.wire.push(Message::Share(leaf as usize, share));
                }
            }
            Event::Deliver(which, again) => {
                if !self.wire.is_empty() {
                    let which = which % self.wire.len();
                    let message = if again {
                        self.wire[which].clone()
                    } else {
                        self.wire.swap_remove(which)
                    };
                    self.deliver(message);
                }
            }
            Event::Lose(which) => {
                if !self.wire.is_empty() {
                    self.wire.swap_remove(which % self.wire.len());
                }
            }
            Event::RestartLeaf(leaf) => {
                self.lives += 1;
                let learnt = self.leaves[leaf].learnt();
                let (life, pooling) = (self.lives, Pooling::default());
                self.leaves[leaf] = Leaf::new(settings(), pooling, life, life, learnt);
                self.inside.retain(|&(at, ..)| at != leaf);
            }
            Event::RestartHub => {
                self.terms += 1;
                let learnt = self.hub.controller().learnt();
                let (term, pooling) = (self.terms, Pooling::default());
                self.hub = Hub::new(settings(), pooling, term, term, Some(&learnt));
            }
            Event::Pass(ms) => self.now = self.now + Duration::from_millis(ms),
        }
        self.limit_most = self.limit_most.max(u64::from(self.hub.limit()));
    }

    fn arrive(&mut self, leaf: usize) {
        let in_flight = self.inside.iter().filter(|&&(at, ..)| at == leaf).count() as u32;
        let limit = &mut self.leaves[leaf];
        if in_flight < limit.limit() {
            let tag = limit.admitted(self.now, RouteId(0), in_flight + 1);
            self.inside.push((leaf, tag, self.now));
        } else {
            limit.refused(self.now);
        }
    }

    fn end(&mut self, which: usize, ending: Ending) {
        if self.inside.is_empty() {
            return;
        }
        let (leaf, tag, since) = self.inside.swap_remove(which % self.inside.len());
        let in_flight = self.inside.iter().filter(|&&(at, ..)| at == leaf).count() as u32 + 1;
        let sample = Sample {
            tag,
            route: RouteId(0),
            latency: self.now.since(since),
            in_flight,
            ending,
        };
        self.leaves[leaf].finished(self.now, &sample);
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Share(leaf, share) => {
                self.leaves[leaf].take(self.now, share);
            }
            Message::Report(leaf, report) => {
                self.hub.report(self.now, LeafId(leaf as u64), report);
            }
        }
    }

    /// What each leaf says it holds: generation and number of the share, and thousandths in use.
    fn held(&mut self) -> Vec<Report> {
        let now = self.now;
        let reports = self.leaves.iter_mut().map(|leaf| leaf.report(now));
        reports.collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn limits_stay_within_bounds_and_generations_never_go_back(events in events(800)) {
        let mut fleet = Fleet::new();
        let mut before: BTreeMap<u64, _> = BTreeMap::new();
        for event in &events {
            fleet.apply(event);

            prop_assert!((4..=MOST).contains(&fleet.hub.limit()));
            for leaf in &fleet.leaves {
                prop_assert!((1..=MOST * 2).contains(&leaf.limit()), "{}", leaf.limit());
            }
            for report in fleet.held() {
                let held = (report.generation, report.held);
                let last = before.insert(report.life, held).unwrap_or_default();
                prop_assert!(held >= last, "{last:?} then {held:?}");
            }
        }
    }

    #[test]
    fn leaves_never_hold_more_than_the_largest_limit_so_far(
        // Too short for anybody to be taken for lost, and without restarts: whoever is restarted
        // does not know its share, and whoever goes alone allows itself more.
        events in events(4),
    ) {
        let mut fleet = Fleet::new();
        let calm = |event: &&Event| !matches!(event, Event::RestartLeaf(_) | Event::RestartHub);
        for event in (0..LEAVES).map(Event::Report).collect::<Vec<_>>() {
            fleet.apply(&event);
        }
        while !fleet.wire.is_empty() {
            fleet.apply(&Event::Deliver(0, false));
        }
        for event in events.iter().filter(calm) {
            fleet.apply(event);

            let sum: u64 = fleet.held().iter().map(|report| report.milli).sum();
            let before_any = u64::from(INITIAL) * LEAVES as u64;
            prop_assert!(sum <= fleet.limit_most.max(before_any) * SLOT, "{sum}");
        }
    }

    #[test]
    fn once_everything_has_arrived_the_shares_are_the_limit(
        arrivals in prop::collection::vec(0..LEAVES, 0..200),
    ) {
        let mut fleet = Fleet::new();
        for (number, &leaf) in arrivals.iter().enumerate() {
            fleet.apply(&Event::Arrive(leaf));
            if number % 3 == 0 {
                fleet.apply(&Event::End(number, Ending::Ignored));
            }
        }
        for _ in 0..20 {
            (0..LEAVES).for_each(|leaf| fleet.apply(&Event::Report(leaf)));
            while !fleet.wire.is_empty() {
                fleet.apply(&Event::Deliver(0, false));
            }
            fleet.apply(&Event::Pass(100));
            fleet.apply(&Event::Refresh);
        }

        let limit = u64::from(fleet.hub.limit()) * SLOT;
        while !fleet.wire.is_empty() {
            fleet.apply(&Event::Deliver(0, false));
        }
        let sum: u64 = fleet.held().iter().map(|report| report.milli).sum();
        // Each share is rounded down to a thousandth.
        prop_assert!(limit - LEAVES as u64 <= sum && sum <= limit, "{sum} of {limit}");
    }

    #[test]
    fn admission_conserves_permits_while_its_share_changes(
        steps in prop::collection::vec((0u8..4, any::<usize>(), 0u64..8000, 0u64..60), 1..300),
    ) {
        let leaf = Leaf::new(settings(), Pooling::default(), 1, 1, None);
        let mut gate = Admission::new(config(), Box::new(leaf));
        let mut running: Vec<Ticket> = Vec::new();
        let mut queued: Vec<Ticket> = Vec::new();
        let (mut now, mut out) = (Mono::from_millis(1), Vec::new());
        let template = first_share();
        for (number, (what, which, milli, ms)) in steps.into_iter().enumerate() {
            now = now + Duration::from_millis(ms);
            match what {
                0 | 1 => match gate.arrive(now, &facts(), &mut out) {
                    Arrival::Admitted(ticket) => running.push(ticket),
                    Arrival::Queued { ticket, .. } => queued.push(ticket),
                    Arrival::Refused(_) => {}
                },
                2 if !running.is_empty() => {
                    let ticket = running.swap_remove(which % running.len());
                    gate.done(now, ticket, Ending::Worked, &mut out);
                }
                _ => {
                    let mut share = template.clone();
                    share.sequence += number as u64;
                    share.milli = milli;
                    gate.share(now, share, &mut out);
                }
            }
            for action in out.drain(..) {
                match action {
                    Action::Start { ticket, .. } => {
                        queued.retain(|&other| other != ticket);
                        running.push(ticket);
                    }
                    Action::Evict { ticket, .. } => {
                        queued.retain(|&other| other != ticket);
                    }
                }
            }
            let snapshot = gate.snapshot();
            prop_assert_eq!(snapshot.in_flight as usize, running.len());
            prop_assert_eq!(snapshot.queued as usize, queued.len());
            // Whoever could start has started in the same call.
            prop_assert!(queued.is_empty() || snapshot.in_flight >= snapshot.limit);
        }
    }
}

fn config() -> Config {
    Config {
        hold: Duration::from_millis(200),
        queue_max: 50,
        queue_bytes_max: u64::MAX,
        discipline: Discipline::AdaptiveLifo,
        bulkheads: Bulkheads::default(),
        routes: 1,
        escape: false,
        level: false,
    }
}

fn facts() -> Facts {
    Facts {
        class: Class::Anonymous,
        route: RouteId(0),
        group: GroupId(0),
        deadline: Mono::MAX,
        bytes: 0,
        cohort: 0,
        retry: false,
    }
}

/// A share as a hub would hand it out.
fn first_share() -> Share {
    let mut hub = Hub::new(settings(), Pooling::default(), 1, 1, None);
    let mut leaf = Leaf::new(settings(), Pooling::default(), 1, 1, None);
    let mut shares = Vec::new();
    for ms in [0, 100, 200, 300] {
        let now = Mono::from_millis(ms);
        hub.report(now, LeafId(0), leaf.report(now));
        hub.refresh(now, &mut shares);
    }
    shares.remove(0).1
}

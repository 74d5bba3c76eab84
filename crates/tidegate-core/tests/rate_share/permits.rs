//! Permits: whatever becomes of messages, holders and the store's memory, what is held never adds up to more than there
//! is.

use proptest::prelude::*;
use tidegate_core::facts::Class;
use tidegate_core::rate::Tick;
use tidegate_core::rate::permits::{
    Afterwards, Answer, HELD_MAX, Holder, Keep, Message, Outcome, PermitId, Permits, Terms,
};
use tidegate_core::rate::share::Life;

const ALL: u64 = 10;
const LEASE_US: u64 = 1_000_000;
const NODES: usize = 4;
const CLASSES: [Class; 2] = [Class::Critical, Class::Anonymous];
/// Of which so many are kept for the first of these.
const RESERVE: u64 = 3;

#[derive(Clone, Debug)]
enum Event {
    Acquire(usize, u64, usize),
    Release(usize, usize),
    Tick(usize),
    Deliver(usize, bool),
    Lose(usize),
    Kill(usize),
    Pass(u64),
    /// The store loses its memory.
    Forget,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        20 => (0..NODES, 1u64..6, 0..CLASSES.len())
            .prop_map(|(node, weight, class)| Event::Acquire(node, weight, class)),
        10 => (0..NODES, any::<usize>()).prop_map(|(node, which)| Event::Release(node, which)),
        20 => (0..NODES).prop_map(Event::Tick),
        80 => (any::<usize>(), prop::bool::weighted(0.1))
            .prop_map(|(which, again)| Event::Deliver(which, again)),
        8 => any::<usize>().prop_map(Event::Lose),
        1 => (0..NODES).prop_map(Event::Kill),
        30 => (0u64..200_000).prop_map(Event::Pass),
        1 => Just(Event::Forget),
    ];
    prop::collection::vec(event, 1..800)
}

#[derive(Clone, Copy)]
enum Wire {
    Up(usize, Tick, Message),
    Down(usize, Tick, PermitId, Answer),
}

struct Fleet {
    now: u64,
    lives: u64,
    terms: Terms,
    store: Permits,
    nodes: Vec<(Holder, Vec<PermitId>)>,
    wire: Vec<Wire>,
    /// Whether the store has forgotten something within a lease.
    forgot: Option<u64>,
}

impl Fleet {
    fn new() -> Self {
        let mut terms = Terms::of(ALL, LEASE_US);
        terms.keeps[Class::Critical.index()] = Keep {
            reserve: RESERVE,
            idle: RESERVE,
        };
        Self {
            now: 5_000_000,
            lives: NODES as u64,
            terms,
            store: Permits::unused(),
            nodes: (1..=NODES as u64).map(node).collect(),
            wire: Vec::new(),
            forgot: None,
        }
    }

    /// Clocks of nodes differ, and those of odd ones gain a hundredth.
    fn clock(&self, node: usize) -> Tick {
        let node = node as u64;
        Tick(self.now + node * 999_999 + self.now / 100 * (node % 2))
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Acquire(node, weight, class) => {
                let now = self.clock(node);
                let (holder, ids) = &mut self.nodes[node];
                if let Some(asking) = holder.acquire(now, weight, CLASSES[class], 3 * LEASE_US) {
                    ids.push(asking.id);
                    self.wire
                        .push(Wire::Up(node, now, Message::Acquire(asking)));
                }
            }
            Event::Release(node, which) => {
                let now = self.clock(node);
                let (holder, ids) = &mut self.nodes[node];
                if !ids.is_empty() {
                    let id = ids.swap_remove(which % ids.len());
                    if holder.release(id) {
                        self.wire.push(Wire::Up(node, now, Message::Release(id)));
                    }
                }
            }
            Event::Tick(node) => {
                let now = self.clock(node);
                let (mut renew, mut lost) = (Vec::new(), Vec::new());
                let (holder, _) = &mut self.nodes[node];
                holder.tick(now, HELD_MAX, &mut renew, &mut lost);
                assert!(lost.iter().all(|&id| !holder.holds(now, id)));
                let renew = renew.into_iter().map(Message::Renew);
                self.wire.extend(renew.map(|it| Wire::Up(node, now, it)));
            }
            Event::Deliver(which, again) if !self.wire.is_empty() => {
                let which = which % self.wire.len();
                let message = self.wire[which];
                if !again {
                    self.wire.swap_remove(which);
                }
                self.deliver(message);
            }
            Event::Lose(which) if !self.wire.is_empty() => {
                self.wire.swap_remove(which % self.wire.len());
            }
            Event::Deliver(..) | Event::Lose(_) => {}
            Event::Kill(at) => {
                self.lives += 1;
                self.nodes[at] = node(self.lives);
            }
            Event::Pass(us) => self.now += us,
            Event::Forget => {
                self.store = Permits::new();
                self.forgot = Some(self.now);
            }
        }
    }

    fn deliver(&mut self, message: Wire) {
        match message {
            Wire::Up(node, asked, message) => {
                let id = match message {
                    Message::Acquire(asking) => asking.id,
                    Message::Renew(renewal) => renewal.id,
                    Message::Release(id) => id,
                };
                let answer = self.store.handle(Tick(self.now), &self.terms, &message);
                self.wire.push(Wire::Down(node, asked, id, answer));
            }
            Wire::Down(node, asked, id, answer) => {
                let now = self.clock(node);
                let (holder, _) = &mut self.nodes[node];
                let outcome = holder.answered(asked, now, id, answer);
                let held = matches!(outcome, Outcome::Held { .. });
                assert_eq!(held, holder.holds(now, id));
            }
        }
    }

    fn held(&self) -> u64 {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .map(|(node, (holder, _))| holder.weight(self.clock(node)))
            .sum()
    }

    fn used(&mut self) -> u64 {
        self.store.used(Tick(self.now)).iter().sum()
    }
}

fn node(life: u64) -> (Holder, Vec<PermitId>) {
    let holder = Holder::new(Life(life), LEASE_US, Afterwards::Lost);
    (holder, Vec::new())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_held_never_adds_up_to_more_than_there_is(events in events()) {
        let mut fleet = Fleet::new();

        for event in &events {
            fleet.apply(event);

            let (held, used) = (fleet.held(), fleet.used());
            prop_assert!(held <= ALL && used <= ALL, "{held} and {used} after {event:?}");
            // What a store has forgotten it knows again, or it is over, when a lease is.
            if fleet.forgot.is_none_or(|at| fleet.now >= at + LEASE_US) {
                prop_assert!(held <= used, "{held} of {used} after {event:?}");
            }
        }

        // Whoever dies gives everything back within a lease.
        fleet.now += LEASE_US;
        prop_assert_eq!(fleet.used(), 0);
    }
}

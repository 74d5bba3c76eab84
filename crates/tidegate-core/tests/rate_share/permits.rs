//! Permits: whatever becomes of messages and holders, what is held never adds up to more than there is.

use proptest::prelude::*;
use tidegate_core::rate::Tick;
use tidegate_core::rate::permits::{Answer, Holder, Message, Outcome, PermitId, Permits};
use tidegate_core::rate::share::Life;

const ALL: u64 = 10;
const LEASE_US: u64 = 1_000_000;
const NODES: usize = 4;

#[derive(Clone, Debug)]
enum Event {
    Acquire(usize, u64),
    Release(usize, usize),
    Tick(usize),
    Deliver(usize, bool),
    Lose(usize),
    Kill(usize),
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        20 => (0..NODES, 1u64..6).prop_map(|(node, weight)| Event::Acquire(node, weight)),
        10 => (0..NODES, any::<usize>()).prop_map(|(node, which)| Event::Release(node, which)),
        20 => (0..NODES).prop_map(Event::Tick),
        80 => (any::<usize>(), prop::bool::weighted(0.1))
            .prop_map(|(which, again)| Event::Deliver(which, again)),
        8 => any::<usize>().prop_map(Event::Lose),
        1 => (0..NODES).prop_map(Event::Kill),
        30 => (0u64..200_000).prop_map(Event::Pass),
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
    store: Permits,
    nodes: Vec<(Holder, Vec<PermitId>)>,
    wire: Vec<Wire>,
}

impl Fleet {
    fn new() -> Self {
        let holder = |life| (Holder::new(Life(life), LEASE_US), Vec::new());
        Self {
            now: 5_000_000,
            lives: NODES as u64,
            store: Permits::new(ALL),
            nodes: (1..=NODES as u64).map(holder).collect(),
            wire: Vec::new(),
        }
    }

    /// Clocks of nodes differ, and those of odd ones gain a hundredth.
    fn clock(&self, node: usize) -> Tick {
        let node = node as u64;
        Tick(self.now + node * 999_999 + self.now / 100 * (node % 2))
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Acquire(node, weight) => {
                let now = self.clock(node);
                if let Some(message) = self.nodes[node].0.acquire(now, weight, 3 * LEASE_US) {
                    if let Message::Acquire { id, .. } = message {
                        self.nodes[node].1.push(id);
                    }
                    self.wire.push(Wire::Up(node, now, message));
                }
            }
            Event::Release(node, which) => {
                let now = self.clock(node);
                let (holder, ids) = &mut self.nodes[node];
                if !ids.is_empty() {
                    let id = ids.swap_remove(which % ids.len());
                    let message = holder.release(id);
                    self.wire
                        .extend(message.map(|message| Wire::Up(node, now, message)));
                }
            }
            Event::Tick(node) => {
                let now = self.clock(node);
                let (mut renew, mut lost) = (Vec::new(), Vec::new());
                self.nodes[node].0.tick(now, &mut renew, &mut lost);
                self.wire
                    .extend(renew.into_iter().map(|it| Wire::Up(node, now, it)));
                assert!(lost.iter().all(|&id| !self.nodes[node].0.holds(now, id)));
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
            Event::Kill(node) => {
                self.lives += 1;
                self.nodes[node] = (Holder::new(Life(self.lives), LEASE_US), Vec::new());
            }
            Event::Pass(us) => self.now += us,
        }
    }

    fn deliver(&mut self, message: Wire) {
        match message {
            Wire::Up(node, asked, message) => {
                let id = match message {
                    Message::Acquire { id, .. }
                    | Message::Renew { id, .. }
                    | Message::Release { id } => id,
                };
                let answer = self.store.handle(Tick(self.now), &message);
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
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_held_never_adds_up_to_more_than_there_is(events in events()) {
        let mut fleet = Fleet::new();

        for event in &events {
            fleet.apply(event);

            let (held, now) = (fleet.held(), Tick(fleet.now));
            let used = fleet.store.used(now);
            prop_assert!(held <= used && used <= ALL, "{held} of {used} after {event:?}");
        }

        // Whoever dies gives everything back within a lease.
        fleet.now += LEASE_US;
        prop_assert_eq!(fleet.store.used(Tick(fleet.now)), 0);
    }
}

//! Parts of a limit: nodes come and go, are killed and paused, the store loses its memory, messages are lost, late, and in any
//! order, and at no moment do the parts add up to more than the whole.

use proptest::prelude::*;
use tidegate_core::rate::Tick;
use tidegate_core::rate::share::Life;
use tidegate_core::rate::share::following::{
    Epoch, Following, MEMBERS_MAX, Membership, Part, Roll,
};

const LEASE_US: u64 = 3_000_000;
const NODES_MAX: usize = 20;
/// All numbers up to `NODES_MAX` divide it.
const WHOLE: u64 = 232_792_560;

#[derive(Clone, Debug)]
enum Event {
    Start,
    /// Stops, and says goodbye.
    Leave(usize),
    Kill(usize),
    Renew(usize),
    /// One of the messages that are on their way arrives.
    Deliver(usize),
    Lose(usize),
    LoseMemory,
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => Just(Event::Start),
        2 => any::<usize>().prop_map(Event::Leave),
        2 => any::<usize>().prop_map(Event::Kill),
        40 => any::<usize>().prop_map(Event::Renew),
        80 => any::<usize>().prop_map(Event::Deliver),
        6 => any::<usize>().prop_map(Event::Lose),
        1 => Just(Event::LoseMemory),
        40 => (0u64..400_000).prop_map(Event::Pass),
    ];
    prop::collection::vec(event, 1..1_500)
}

struct Node {
    following: Following,
    life: Life,
    /// Its clock shows so much more than the store's, and gains a hundredth.
    ahead_us: u64,
}

enum Message {
    Renewal {
        life: Life,
        follows: Epoch,
        asked: Tick,
    },
    Goodbye(Life),
    Reply {
        life: Life,
        asked: Tick,
        membership: Membership,
    },
}

struct Fleet {
    now: u64,
    roll: Roll,
    nodes: Vec<Node>,
    wire: Vec<Message>,
    lives: u64,
    /// The most that had a part at the same time.
    most: usize,
}

impl Node {
    fn clock(&self, now: u64) -> Tick {
        Tick(now + self.ahead_us + now / 100 * (self.life.0 % 2))
    }
}

impl Fleet {
    fn new() -> Self {
        Self {
            now: 10_000_000,
            roll: Roll::new(Tick(0)),
            nodes: Vec::new(),
            wire: Vec::new(),
            lives: 0,
            most: 0,
        }
    }

    fn apply(&mut self, event: &Event) {
        let pick = |which: usize, of: usize| (of > 0).then(|| which % of);
        match *event {
            Event::Start if self.nodes.len() < NODES_MAX => {
                self.lives += 1;
                let life = Life(self.lives);
                self.nodes.push(Node {
                    following: Following::new(life, LEASE_US),
                    life,
                    ahead_us: self.lives * 7_777_777,
                });
            }
            Event::Start => {}
            Event::Leave(which) => {
                if let Some(which) = pick(which, self.nodes.len()) {
                    let mut node = self.nodes.swap_remove(which);
                    node.following.leave();
                    self.wire.push(Message::Goodbye(node.life));
                }
            }
            Event::Kill(which) => {
                if let Some(which) = pick(which, self.nodes.len()) {
                    self.nodes.swap_remove(which);
                }
            }
            Event::Renew(which) => {
                if let Some(which) = pick(which, self.nodes.len()) {
                    let node = &self.nodes[which];
                    self.wire.push(Message::Renewal {
                        life: node.life,
                        follows: node.following.follows(),
                        asked: node.clock(self.now),
                    });
                }
            }
            Event::Deliver(which) => {
                if let Some(which) = pick(which, self.wire.len()) {
                    let message = self.wire.swap_remove(which);
                    self.deliver(message);
                }
            }
            Event::Lose(which) => {
                if let Some(which) = pick(which, self.wire.len()) {
                    self.wire.swap_remove(which);
                }
            }
            Event::LoseMemory => {
                self.now += 1_000;
                self.roll = Roll::new(Tick(self.now));
            }
            Event::Pass(us) => self.now += us,
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Renewal {
                life,
                follows,
                asked,
            } => {
                assert!(self.roll.renew(Tick(self.now), life, follows, LEASE_US));
                let membership = self.roll.membership(Tick(self.now));
                assert!(membership.members.len() <= MEMBERS_MAX);
                self.wire.push(Message::Reply {
                    life,
                    asked,
                    membership,
                });
            }
            Message::Goodbye(life) => self.roll.leave(Tick(self.now), life),
            Message::Reply {
                life,
                asked,
                membership,
            } => {
                let now = self.now;
                if let Some(node) = self.nodes.iter_mut().find(|node| node.life == life) {
                    let clock = node.clock(now);
                    let _ = node.following.take(asked, clock, &membership);
                }
            }
        }
    }

    fn parts(&mut self) -> u64 {
        let parts =
            self.nodes
                .iter()
                .filter_map(|node| match node.following.part(node.clock(self.now)) {
                    Part::OneIn(parts) => Some(u64::from(parts)),
                    Part::Joining { .. } | Part::Out => None,
                });
        let parts: Vec<_> = parts.collect();
        self.most = self.most.max(parts.len());
        // Rounded up, so that a part in more than all of `WHOLE` would not go unnoticed.
        parts.iter().map(|&parts| WHOLE.div_ceil(parts)).sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn parts_never_add_up_to_more_than_the_whole(events in events()) {
        let mut fleet = Fleet::new();

        for event in &events {
            fleet.apply(event);

            let parts = fleet.parts();
            prop_assert!(parts <= WHOLE + NODES_MAX as u64, "{parts} after {event:?}");
        }
    }
}

/// Nodes that renew each second and lose nothing, for `seconds`.
fn run(fleet: &mut Fleet, seconds: u64) {
    for _ in 0..seconds {
        for which in 0..fleet.nodes.len() {
            fleet.apply(&Event::Renew(which));
            while !fleet.wire.is_empty() {
                fleet.apply(&Event::Deliver(0));
            }
            assert!(fleet.parts() <= WHOLE);
        }
        fleet.apply(&Event::Pass(1_000_000));
    }
}

#[test]
fn undisturbed_all_of_it_is_used_three_renewals_after_a_start_or_a_goodbye() {
    let mut fleet = Fleet::new();
    for _ in 0..10 {
        fleet.apply(&Event::Start);
    }

    run(&mut fleet, 3);
    assert_eq!((fleet.parts(), fleet.most), (WHOLE, 10));

    for _ in 0..2 {
        fleet.apply(&Event::Start);
    }
    run(&mut fleet, 3);
    assert_eq!((fleet.parts(), fleet.most), (WHOLE, 12));

    for _ in 0..6 {
        fleet.apply(&Event::Leave(0));
    }
    run(&mut fleet, 3);
    assert_eq!(fleet.parts(), WHOLE);
    assert_eq!(fleet.nodes.len(), 6);
}

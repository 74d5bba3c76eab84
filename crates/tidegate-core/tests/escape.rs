//! Escaping from overload that feeds itself, before a small model of an application: workers with a
//! queue of their own, which Tidegate does not see, and clients who leave.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_core::admission::{Action, Admission, Arrival, Config, Reason, Recovery, Ticket};
use tidegate_core::bulkhead::Bulkheads;
use tidegate_core::facts::{Class, Facts, GroupId, RouteId};
use tidegate_core::limit::{Ending, Kind};
use tidegate_core::queue::Discipline;
use tidegate_core::time::Mono;

const WORKERS: u32 = 100;
/// A limit that holds nothing back.
const FAR_TOO_MANY: u32 = 3000;
const SERVICE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(1);

/// What becomes of a slot when its client leaves.
#[derive(Clone, Copy, PartialEq)]
enum Slots {
    Held,
    /// They are given back, although the application goes on working.
    Freed,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives,
    Leaves(u32),
    Works(Option<u32>),
}

struct World {
    admission: Admission,
    slots: Slots,
    per_second: u64,
    now: Mono,
    events: BinaryHeap<Reverse<(Mono, Event)>>,
    /// The requests that wait, by ticket, and the tickets of all that are known, by request.
    waiting: HashMap<Ticket, u32>,
    tickets: HashMap<u32, Ticket>,
    gone: HashSet<u32>,
    asked: u32,
    backlog: VecDeque<Option<u32>>,
    busy: u32,
    stalled_until: Mono,
    /// Good answers by second.
    good: Vec<u32>,
    refused: HashMap<Reason, u32>,
    out: Vec<Action>,
}

impl World {
    fn new(escape: bool, limit: u32, slots: Slots, per_second: u64) -> Self {
        let config = Config {
            hold: Duration::from_millis(200),
            queue_max: 10_000,
            queue_bytes_max: u64::MAX,
            discipline: Discipline::AdaptiveLifo,
            bulkheads: Bulkheads::default(),
            routes: 1,
            escape,
            level: false,
        };
        let limit = Kind::Static(NonZeroU32::new(limit).expect("above 0"));
        let mut world = Self {
            admission: Admission::new(config, limit.build(1)),
            slots,
            per_second,
            now: Mono::default(),
            events: BinaryHeap::new(),
            waiting: HashMap::new(),
            tickets: HashMap::new(),
            gone: HashSet::new(),
            asked: 0,
            backlog: VecDeque::new(),
            busy: 0,
            stalled_until: Mono::default(),
            good: Vec::new(),
            refused: HashMap::new(),
            out: Vec::new(),
        };
        world.at(Mono::default(), Event::Arrives);
        world
    }

    fn at(&mut self, when: Mono, event: Event) {
        self.events.push(Reverse((when, event)));
    }

    fn run(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while let Some(&Reverse((when, event))) = self.events.peek() {
            let poll = self.admission.next_deadline().filter(|&at| at < when);
            self.now = poll.unwrap_or(when).max(self.now);
            if self.now >= end {
                break;
            }
            if poll.is_some() {
                self.admission.poll(self.now, &mut self.out);
            } else {
                self.events.pop();
                match event {
                    Event::Arrives => self.arrives(),
                    Event::Leaves(request) => self.leaves(request),
                    Event::Works(job) => self.works(job),
                }
            }
            self.follow();
        }
        self.now = end;
    }

    /// Jobs of somebody else's appear in the application's own queue.
    fn backlog(&mut self, jobs: u32) {
        self.backlog.extend((0..jobs).map(|_| None));
        self.take_up();
    }

    fn arrives(&mut self) {
        let nanos = 1_000_000_000 / self.per_second;
        self.at(self.now + Duration::from_nanos(nanos), Event::Arrives);
        let request = self.asked;
        self.asked += 1;
        let facts = Facts {
            class: if request % 10 < 3 {
                Class::Background
            } else {
                Class::Anonymous
            },
            route: RouteId(0),
            group: GroupId(0),
            deadline: self.now + PATIENCE,
            bytes: 0,
            cohort: 0,
            retry: request % 10 == 9,
        };
        match self.admission.arrive(self.now, &facts, &mut self.out) {
            Arrival::Refused(reason) => *self.refused.entry(reason).or_default() += 1,
            Arrival::Admitted(ticket) => {
                self.at(facts.deadline, Event::Leaves(request));
                self.starts(request, ticket);
            }
            Arrival::Queued { ticket, .. } => {
                self.at(facts.deadline, Event::Leaves(request));
                // Others leave before the newcomer may take a ticket of theirs.
                self.follow();
                self.waiting.insert(ticket, request);
                self.tickets.insert(request, ticket);
            }
        }
    }

    fn starts(&mut self, request: u32, ticket: Ticket) {
        self.tickets.insert(request, ticket);
        self.backlog.push_back(Some(request));
        self.take_up();
    }

    fn take_up(&mut self) {
        while self.busy < WORKERS && !self.backlog.is_empty() {
            let job = self.backlog.pop_front().flatten();
            self.busy += 1;
            let end = self.now.max(self.stalled_until) + SERVICE;
            self.at(end, Event::Works(job));
        }
    }

    fn works(&mut self, job: Option<u32>) {
        self.busy -= 1;
        self.take_up();
        let Some(request) = job else { return };
        if !self.gone.contains(&request) {
            let second = (self.now.as_nanos() / 1_000_000_000) as usize;
            let seconds = self.good.len().max(second + 1);
            self.good.resize(seconds, 0);
            self.good[second] += 1;
        }
        if let Some(ticket) = self.tickets.remove(&request) {
            self.admission
                .done(self.now, ticket, Ending::Worked, &mut self.out);
        }
    }

    fn leaves(&mut self, request: u32) {
        self.gone.insert(request);
        let Some(&ticket) = self.tickets.get(&request) else {
            return;
        };
        if self.waiting.remove(&ticket).is_some() {
            self.tickets.remove(&request);
            self.admission.cancel(self.now, ticket, &mut self.out);
            return;
        }
        self.admission.abandoned(self.now, ticket);
        if self.slots == Slots::Freed {
            self.tickets.remove(&request);
            self.admission
                .done(self.now, ticket, Ending::Ignored, &mut self.out);
        }
    }

    fn follow(&mut self) {
        for action in std::mem::take(&mut self.out) {
            let (Action::Start { ticket, .. } | Action::Evict { ticket, .. }) = action;
            let request = self.waiting.remove(&ticket).expect("it waits");
            match action {
                Action::Start { .. } => self.starts(request, ticket),
                Action::Evict { reason, .. } => {
                    self.tickets.remove(&request);
                    *self.refused.entry(reason).or_default() += 1;
                }
            }
        }
    }

    /// Good answers per second, from second `from` on and before second `to`.
    fn goodput(&self, from: usize, to: usize) -> u32 {
        let good: u32 = self.good[from.min(self.good.len())..to.min(self.good.len())]
            .iter()
            .sum();
        good / (to - from) as u32
    }

    fn recovery(&self) -> Recovery {
        self.admission.snapshot().recovery
    }
}

#[test]
fn half_as_much_again_as_there_is_room_for_is_no_reason_to_escape() {
    let mut world = World::new(true, WORKERS, Slots::Held, 3000);

    world.run(60);

    assert!(world.goodput(5, 60) > 1990, "{}", world.goodput(5, 60));
    assert_eq!(world.recovery().begun, [0, 0]);
}

#[test]
fn pauses_of_half_a_second_are_no_reason_to_escape() {
    let mut world = World::new(true, WORKERS, Slots::Held, 1500);

    for pause in 1..=6 {
        world.run(10);
        world.stalled_until = Mono::from_millis(pause * 10_000 + 500);
    }

    assert_eq!(world.recovery().begun, [0, 0]);
}

/// Clients who leave give their slots back while the application goes on with what they asked for,
/// so the queue inside it is fed as fast as it is worked off.
#[test]
fn a_queue_behind_us_that_feeds_itself_stays_for_ever_and_is_drained_by_escaping() {
    let run = |escape| {
        let mut world = World::new(escape, FAR_TOO_MANY, Slots::Freed, 2000);
        world.run(20);
        world.backlog(10_000);
        world.run(100);
        world
    };
    let (without, with) = (run(false), run(true));

    assert!(without.goodput(15, 20) > 1990);
    assert!(
        without.goodput(60, 120) < 100,
        "{}",
        without.goodput(60, 120)
    );
    assert!(with.goodput(40, 120) > 1950, "{}", with.goodput(40, 120));
    let recovery = with.recovery();
    assert_eq!(recovery.escaping, None);
    assert_eq!((recovery.begun, recovery.drains), ([1, 0], 1));
    assert!(
        recovery.lasted < Duration::from_secs(20),
        "{:?}",
        recovery.lasted
    );
}

#[test]
fn an_escape_refuses_the_lowest_classes_and_other_tries_first() {
    let mut world = World::new(true, FAR_TOO_MANY, Slots::Freed, 2000);
    world.run(20);
    world.backlog(10_000);
    world.run(10);

    let refused = |reason| world.refused.get(&reason).copied().unwrap_or_default();

    assert!(refused(Reason::Escape) > 0);
    assert!(refused(Reason::RetryFirst) > 0);
}

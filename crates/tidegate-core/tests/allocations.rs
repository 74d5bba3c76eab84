//! What deciding takes in memory: nothing once warm, and little for each request that waits.

use std::num::NonZeroU32;
use std::time::Duration;

use allocation_counter::measure;
use tidegate_core::admission::{Action, Admission, Arrival, Config, Ticket};
use tidegate_core::bulkhead::{Bulkheads, Loan, Portion, Reserve};
use tidegate_core::facts::{COHORTS, Class, Facts, GroupId, RouteId};
use tidegate_core::health::{
    self, Dimension, Fleet, Load, NodeId, Readings, Report, Scales, Signal,
};
use tidegate_core::limit::adaptive::Settings;
use tidegate_core::limit::{Bounds, Ending, Kind};
use tidegate_core::queue::Discipline;
use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;

const ROUTES: u16 = 4;

/// Bytes that a waiting request may take, what comes in and goes out apart.
const WAITING_BYTES_MAX: u64 = 96;

fn config() -> Config {
    let mut bulkheads = Bulkheads {
        groups: vec![Portion::Share(0.3)],
        ..Bulkheads::default()
    };
    bulkheads.reserves[Class::Critical.index()] = Some(Reserve {
        portion: Portion::Share(0.1),
        loan: Loan::Lent,
    });
    Config {
        hold: Duration::from_millis(200),
        queue_max: 1_000,
        queue_bytes_max: 50_000,
        discipline: Discipline::AdaptiveLifo,
        bulkheads,
        routes: ROUTES,
        escape: true,
        level: true,
    }
}

fn kinds() -> [Kind; 5] {
    let bounds = Bounds::new(20, 4, 60).expect("in order");
    [
        Kind::Static(NonZeroU32::new(20).expect("above 0")),
        Kind::Aimd(bounds),
        Kind::Vegas(bounds),
        Kind::Gradient2(bounds),
        Kind::Adaptive(Settings::default()),
    ]
}

/// Overload with everything in it: waits, displacement, departures, work that is late.
struct World {
    admission: Admission,
    rng: Rng,
    now: Mono,
    inside: Vec<Ticket>,
    waiting: Vec<Ticket>,
    out: Vec<Action>,
}

impl World {
    fn new(kind: Kind) -> Self {
        Self {
            admission: Admission::new(config(), kind.build(1)),
            rng: Rng::new(1),
            now: Mono::from_millis(1),
            inside: Vec::with_capacity(4_000),
            waiting: Vec::with_capacity(4_000),
            out: Vec::with_capacity(4_000),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.rng.next_u64() % bound
    }

    /// An arrival or two, and something for one that is inside.
    fn step(&mut self, patience_ms: u64) {
        self.now = self.now + Duration::from_micros(200 + self.below(800));
        for _ in 0..=self.below(2) {
            self.arrive(patience_ms);
        }
        match self.below(8) {
            0 if !self.waiting.is_empty() => {
                let which = self.below(self.waiting.len() as u64) as usize;
                let ticket = self.waiting.swap_remove(which);
                self.admission.cancel(self.now, ticket, &mut self.out);
            }
            1 => self.admission.poll(self.now, &mut self.out),
            _ if !self.inside.is_empty() => {
                let which = self.below(self.inside.len() as u64) as usize;
                let ticket = self.inside.swap_remove(which);
                self.admission.first_byte(self.now, ticket);
                self.admission
                    .done(self.now, ticket, Ending::Worked, &mut self.out);
            }
            _ => {}
        }
        self.follow();
    }

    fn arrive(&mut self, patience_ms: u64) {
        let facts = Facts {
            class: Class::ALL[self.below(5) as usize],
            route: RouteId(self.below(ROUTES.into()) as u16),
            group: GroupId(self.below(2) as u16),
            deadline: self.now + Duration::from_millis(1 + self.below(patience_ms)),
            bytes: self.below(200) as u32,
            cohort: self.below(COHORTS.into()) as u8,
            retry: self.below(5) == 0,
        };
        let arrival = self.admission.arrive(self.now, &facts, &mut self.out);
        self.follow();
        match arrival {
            Arrival::Admitted(ticket) => self.inside.push(ticket),
            Arrival::Queued { ticket, .. } => self.waiting.push(ticket),
            Arrival::Refused(_) => {}
        }
    }

    fn follow(&mut self) {
        for action in self.out.drain(..) {
            let (Action::Start { ticket, .. } | Action::Evict { ticket, .. }) = action;
            self.waiting.retain(|&other| other != ticket);
            if matches!(action, Action::Start { .. }) {
                self.inside.push(ticket);
            }
        }
    }
}

#[test]
fn deciding_and_releasing_allocate_nothing_once_everything_has_been_seen() {
    for kind in kinds() {
        let mut world = World::new(kind);
        // No queue is as long later as one in front of an application that nothing is known of.
        (0..2_000).for_each(|_| world.arrive(400));
        for _ in 0..2 {
            // Now and then nearly all of it is late, so that escaping is among what is seen.
            (0..60_000).for_each(|_| world.step(400));
            (0..20_000).for_each(|_| world.step(4));
        }

        let taken = measure(|| {
            (0..60_000).for_each(|_| world.step(400));
            (0..20_000).for_each(|_| world.step(4));
        });

        assert_eq!(taken.count_total, 0, "{}: {taken:?}", kind.name());
        println!("{}: {:?}", kind.name(), world.admission.snapshot().recovery);
    }
}

#[test]
fn a_request_that_waits_takes_little_memory() {
    const WAITING: u64 = 10_000;
    let config = Config {
        hold: Duration::from_secs(3600),
        queue_max: u32::MAX,
        queue_bytes_max: u64::MAX,
        bulkheads: Bulkheads::default(),
        level: false,
        ..config()
    };
    let limit = Kind::Static(NonZeroU32::MIN).build(1);
    let mut admission = Admission::new(config, limit);
    let mut out = Vec::new();
    let facts = Facts {
        class: Class::Anonymous,
        route: RouteId(0),
        group: GroupId(0),
        deadline: Mono::MAX,
        bytes: 0,
        cohort: 0,
        retry: false,
    };
    let now = Mono::from_millis(1);
    let Arrival::Admitted(ticket) = admission.arrive(now, &facts, &mut out) else {
        panic!("it is empty");
    };
    let after = now + Duration::from_millis(100);
    admission.done(after, ticket, Ending::Worked, &mut out);
    let Arrival::Admitted(_) = admission.arrive(after, &facts, &mut out) else {
        panic!("it is empty");
    };

    let taken = measure(|| {
        for _ in 0..WAITING {
            let arrival = admission.arrive(after, &facts, &mut out);
            assert!(matches!(arrival, Arrival::Queued { .. }));
        }
    });

    let each = taken.bytes_current as u64 / WAITING;
    println!("{each} B for each of {WAITING} that wait");
    assert!(each <= WAITING_BYTES_MAX, "{each} B");
    assert_eq!(admission.snapshot().queued, WAITING as u32);
}

/// A second in the life of a fleet of a hundred, some of whom are full or silent.
fn second(fleet: &mut Fleet, rng: &mut Rng, now: Mono) {
    for node in 0..100 {
        let busy = rng.unit();
        if busy < 0.1 {
            continue;
        }
        let busy = if node % 10 == 0 { 1.0 } else { busy };
        let signals = [Dimension::Threads, Dimension::Pool, Dimension::Gc]
            .map(|dimension| Signal::read(dimension, busy, 1.0, now));
        let report = Report {
            readings: Readings::of(&Scales::default(), &signals, now),
            load: Some(Load {
                offered_rps: 100.0 * busy,
                completed_rps: 100.0 * busy,
                error_ratio: 0.0,
                utilisation: busy,
                at: now,
            }),
            keeps_sessions: node % 7 == 0,
        };
        (fleet.report(now, NodeId(node), report)).expect("there is room for a hundred");
    }
}

#[test]
fn deciding_on_a_fleet_allocates_nothing_once_all_nodes_are_known() {
    let mut fleet = Fleet::new(health::Settings::default());
    let mut rng = Rng::new(1);
    let mut decisions = Vec::new();
    let mut go = |from: u64, to: u64| {
        for tick in from..to {
            let now = Mono::from_millis(1_000 * tick);
            second(&mut fleet, &mut rng, now);
            fleet.tick(now, &mut decisions);
        }
    };
    go(1, 100);

    let taken = measure(|| go(100, 400));

    assert_eq!(taken.count_total, 0, "{taken:?}");
}

//! What a decision costs: `cargo bench -p tidegate-core`. Prints nanoseconds, asserts nothing.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use tidegate_core::admission::{Action, Admission, Arrival, Config, Ticket};
use tidegate_core::bulkhead::{Bulkheads, Loan, Portion, Reserve};
use tidegate_core::facts::{Class, Facts, GroupId, RouteId};
use tidegate_core::journal::{Encoder, Event, Header, Outcome};
use tidegate_core::limit::adaptive::Settings;
use tidegate_core::limit::{Ending, Kind};
use tidegate_core::queue::Discipline;
use tidegate_core::time::{Mono, Wall};

const ROUNDS: usize = 31;
const REPEATS: u32 = 200_000;
const WAITING: u32 = 10_000;

fn main() {
    let pair = |mut world: World| {
        world.time(|world| {
            let ticket = world.arrive(Class::Anonymous).expect("slots are free");
            world.finish(ticket);
        })
    };
    report("admit and release, slots free", || pair(World::new(100, 0)));
    report("the same under a limit that learns", || {
        let learns = Kind::Adaptive(Settings::default());
        pair(World::of(config(0), learns))
    });
    report("the same with an admission level", || {
        let level = Config {
            level: true,
            ..config(0)
        };
        pair(World::of(level, workers(100)))
    });
    report("refuse, queue full", || {
        let mut world = World::new(100, 100);
        world.time(|world| assert!(world.arrive(Class::Background).is_none()))
    });
    report("displace, start and release among 10,000 waiting", || {
        let mut world = World::new(100, WAITING);
        world.time(|world| {
            world.arrive(Class::SignedIn);
            let ticket = world.inside.pop().expect("slots are taken");
            world.finish(ticket);
            world.out.clear();
        })
    });
    report("write an admission and a release down", || {
        let mut world = World::new(100, 0);
        let mut log = Vec::new();
        let mut encoder = Encoder::begin(&header(), &mut log);
        world.time(|world| {
            let facts = world.facts(Class::Anonymous);
            let arrival = world.admission.arrive(world.now, &facts, &mut world.out);
            let Arrival::Admitted(ticket) = arrival else {
                unreachable!("slots are free");
            };
            let (event, outcome) = (Event::Arrive(facts), Outcome::Arrived(arrival));
            let limit = world.admission.limit();
            encoder.record(world.now, &event, &outcome, &world.out, limit, &mut log);
            world.finish(ticket);
            let done = Event::Done(ticket, Ending::Worked);
            encoder.record(
                world.now,
                &done,
                &Outcome::Nothing,
                &world.out,
                limit,
                &mut log,
            );
            if log.len() > 64 * 1024 {
                log.clear();
            }
        })
    });
}

/// The median round and the fastest, as one line: on a machine that is busy they differ.
fn report(what: &str, mut round: impl FnMut() -> Duration) {
    let mut rounds: Vec<Duration> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort();
    let nanos = |round: Duration| round.as_nanos() as f64 / f64::from(REPEATS);
    let (median, fastest) = (nanos(rounds[ROUNDS / 2]), nanos(rounds[0]));
    println!("{what:<50} {median:>8.1} ns, at best {fastest:.1} ns");
}

fn workers(slots: u32) -> Kind {
    Kind::Static(NonZeroU32::new(slots).expect("more than none"))
}

/// A beginning for a log; what it says does not matter.
fn header() -> Header {
    Header {
        writer: String::new(),
        app: String::new(),
        started: Wall::default(),
        config: config(0),
        limit: Kind::Static(NonZeroU32::MIN),
        seed: 1,
        learnt: None,
    }
}

fn config(waiting: u32) -> Config {
    let mut bulkheads = Bulkheads::default();
    bulkheads.reserves[Class::Critical.index()] = Some(Reserve {
        portion: Portion::Share(0.1),
        loan: Loan::Lent,
    });
    Config {
        hold: Duration::from_secs(3600),
        queue_max: waiting,
        queue_bytes_max: u64::MAX,
        discipline: Discipline::AdaptiveLifo,
        bulkheads,
        routes: 8,
        escape: true,
        level: false,
    }
}

struct World {
    admission: Admission,
    inside: Vec<Ticket>,
    out: Vec<Action>,
    now: Mono,
}

impl World {
    /// Full slots and `waiting` requests in the queue, of every class but the highest in turn.
    fn of(config: Config, limit: Kind) -> Self {
        Self {
            admission: Admission::new(config, limit.build(1)),
            inside: Vec::new(),
            out: Vec::new(),
            now: Mono::from_millis(1),
        }
    }

    /// So many slots, and if anybody waits, they are all taken.
    fn new(slots: u32, waiting: u32) -> Self {
        let mut world = Self::of(config(waiting), workers(slots));
        if waiting > 0 {
            for n in 0..slots + waiting {
                let class = if n < slots + 10 {
                    Class::SignedIn
                } else {
                    Class::ALL[1 + n as usize % 4]
                };
                if let Some(ticket) = world.arrive(class) {
                    world.inside.push(ticket);
                }
            }
        }
        world
    }

    fn time(&mut self, mut step: impl FnMut(&mut Self)) -> Duration {
        let start = Instant::now();
        for _ in 0..REPEATS {
            step(self);
        }
        start.elapsed()
    }

    fn facts(&mut self, class: Class) -> Facts {
        self.now = self.now + Duration::from_nanos(100);
        Facts {
            class,
            route: RouteId(3),
            group: GroupId(0),
            deadline: self.now + Duration::from_secs(7200),
            bytes: 0,
            cohort: 0,
            retry: false,
        }
    }

    fn arrive(&mut self, class: Class) -> Option<Ticket> {
        let facts = self.facts(class);
        match self
            .admission
            .arrive(self.now, black_box(&facts), &mut self.out)
        {
            Arrival::Admitted(ticket) => Some(ticket),
            Arrival::Queued { .. } | Arrival::Refused(_) => None,
        }
    }

    fn finish(&mut self, ticket: Ticket) {
        self.now = self.now + Duration::from_nanos(100);
        self.admission
            .done(self.now, ticket, Ending::Worked, &mut self.out);
        self.inside
            .extend(self.out.iter().filter_map(|action| match action {
                Action::Start { ticket, .. } => Some(*ticket),
                Action::Evict { .. } => None,
            }));
    }
}

//! What admission promises, whatever the order of events: a thousand random histories per rule.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::admission::{Action, Admission, Arrival, Config, Level, Snapshot, Ticket};
use tidegate_core::bulkhead::{Bulkheads, Loan, Portion, Reserve};
use tidegate_core::facts::{COHORTS, Class, Facts, GroupId, RouteId};
use tidegate_core::limit::adaptive::Settings;
use tidegate_core::limit::pooled::{Generation, Leaf, Pooling, Share};
use tidegate_core::limit::{Bounds, Ending, Insight, Kind, Limit, Sample};
use tidegate_core::queue::Discipline;
use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;

#[derive(Clone, Debug)]
enum Event {
    Arrive {
        class: usize,
        group: u16,
        route: u16,
        patience_ms: u64,
        bytes: u32,
        cohort: u8,
        retry: bool,
    },
    FirstByte(usize),
    Abandoned(usize),
    Done(usize, Ending),
    Cancel(usize),
    Poll,
    /// A share of a limit that several gateways have in common, in thousandths of a slot.
    Share(u32),
    /// Time goes on, or back.
    Pass(i64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let ending = prop_oneof![
        6 => Just(Ending::Worked),
        1 => Just(Ending::Ignored),
        1 => Just(Ending::Overloaded)
    ];
    let arrival = (
        (0..Class::COUNT, 0u16..3, 0u16..3),
        0u64..600,
        0u32..50,
        0..COHORTS,
        prop::bool::weighted(0.2),
    );
    let event = prop_oneof![
        8 => arrival.prop_map(|((class, group, route), patience_ms, bytes, cohort, retry)| {
            Event::Arrive { class, group, route, patience_ms, bytes, cohort, retry }
        }),
        1 => any::<usize>().prop_map(Event::FirstByte),
        1 => any::<usize>().prop_map(Event::Abandoned),
        5 => (any::<usize>(), ending).prop_map(|(which, ending)| Event::Done(which, ending)),
        2 => any::<usize>().prop_map(Event::Cancel),
        1 => Just(Event::Poll),
        1 => (0u32..20_000).prop_map(Event::Share),
        4 => (-5i64..80).prop_map(Event::Pass),
        // Long enough for most work to be late, which is what an escape begins with.
        1 => (300i64..900).prop_map(Event::Pass),
    ];
    prop::collection::vec(event, 1..300)
}

/// A limit that remembers the highest that was told. One that learns may fall with the very request
/// that it has let in.
struct Watched {
    limit: Box<dyn Limit>,
    most: Arc<AtomicU32>,
}

impl Limit for Watched {
    fn admitted(&mut self, now: Mono, route: RouteId, in_flight: u32) -> u32 {
        self.limit.admitted(now, route, in_flight)
    }

    fn finished(&mut self, now: Mono, sample: &Sample) {
        self.limit.finished(now, sample);
    }

    fn refused(&mut self, now: Mono) {
        self.limit.refused(now);
    }

    fn limit(&self) -> u32 {
        let limit = self.limit.limit();
        self.most.fetch_max(limit, Ordering::Relaxed);
        limit
    }

    fn pooled(&mut self) -> Option<&mut Leaf> {
        self.limit.pooled()
    }
}

/// A limit of our own, or a share of one.
#[derive(Clone, Debug)]
enum Limits {
    Own(Kind),
    Shared,
}

impl Limits {
    fn build(&self) -> Box<dyn Limit> {
        match self {
            Self::Own(kind) => kind.build(7),
            Self::Shared => {
                let (settings, pooling) = (Settings::default(), Pooling::default());
                Box::new(Leaf::new(settings, pooling, 1, 7, None))
            }
        }
    }
}

fn configs() -> impl Strategy<Value = (Config, Kind)> {
    let reserve = prop_oneof![
        Just(None),
        (0.05f64..0.4).prop_map(|share| Some(Reserve {
            portion: Portion::Share(share),
            loan: Loan::Strict,
        })),
        (0u32..6).prop_map(|slots| Some(Reserve {
            portion: Portion::Slots(slots),
            loan: Loan::Lent,
        })),
    ];
    let discipline = prop_oneof![
        Just(Discipline::AdaptiveLifo),
        Just(Discipline::Fifo),
        Just(Discipline::CoDel)
    ];
    let kind = prop_oneof![
        (1u32..12).prop_map(|n| Kind::Static(NonZeroU32::new(n).expect("above 0"))),
        Just(Kind::Aimd(Bounds::new(6, 1, 20).expect("in order"))),
        Just(Kind::Vegas(Bounds::new(4, 1, 20).expect("in order"))),
        Just(Kind::Gradient2(Bounds::new(4, 2, 20).expect("in order"))),
        Just(Kind::Adaptive(Settings::default())),
    ];
    let options = any::<(bool, bool)>();
    (reserve, discipline, kind, 0u32..20, 0.1f64..0.9, options).prop_map(
        |(reserve, discipline, kind, queue_max, share, (escape, level))| {
            let mut bulkheads = Bulkheads {
                groups: vec![Portion::Share(share), Portion::Slots(2)],
                ..Bulkheads::default()
            };
            bulkheads.reserves[Class::Critical.index()] = reserve;
            let config = Config {
                hold: Duration::from_millis(200),
                queue_max,
                queue_bytes_max: 200,
                discipline,
                bulkheads,
                routes: 2,
                escape,
                level,
            };
            (config, kind)
        },
    )
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Waiting,
    Inside,
}

/// The world around an admission: what each living ticket is entitled to.
struct World {
    admission: Admission,
    living: HashMap<Ticket, (Place, Facts)>,
    order: Vec<Ticket>,
    now: Mono,
    queue_max: u32,
    shares: u64,
    /// The highest limit of its own that the admission was told during the last event.
    most: Arc<AtomicU32>,
    /// Before it: the limit, and whether an escape was under way.
    before: (u32, bool),
    trace: Vec<String>,
}

impl World {
    fn new(config: &Config, limits: &Limits) -> Self {
        let most = Arc::new(AtomicU32::new(0));
        let limit = Watched {
            limit: limits.build(),
            most: Arc::clone(&most),
        };
        Self {
            admission: Admission::new(config.clone(), Box::new(limit)),
            most,
            before: (0, false),
            living: HashMap::new(),
            order: Vec::new(),
            now: Mono::from_millis(1000),
            queue_max: config.queue_max,
            shares: 0,
            trace: Vec::new(),
        }
    }

    fn pick(&self, which: usize, place: Place) -> Option<Ticket> {
        let there: Vec<Ticket> = self
            .order
            .iter()
            .copied()
            .filter(|ticket| self.living[ticket].0 == place)
            .collect();
        (!there.is_empty()).then(|| there[which % there.len()])
    }

    fn end(&mut self, ticket: Ticket) {
        assert!(self.living.remove(&ticket).is_some(), "a ticket ends once");
        self.order.retain(|other| *other != ticket);
    }

    fn step(&mut self, event: &Event) {
        let before = self.admission.snapshot();
        self.before = (before.limit, before.recovery.escaping.is_some());
        self.most.store(0, Ordering::Relaxed);
        let mut out = Vec::new();
        match *event {
            Event::Arrive {
                class,
                group,
                route,
                patience_ms,
                bytes,
                cohort,
                retry,
            } => {
                let facts = Facts {
                    class: Class::ALL[class],
                    route: RouteId(route),
                    group: GroupId(group),
                    deadline: self.now + Duration::from_millis(patience_ms),
                    bytes,
                    cohort,
                    retry,
                };
                return self.arrive(&facts);
            }
            Event::FirstByte(which) => {
                if let Some(ticket) = self.pick(which, Place::Inside) {
                    self.admission.first_byte(self.now, ticket);
                }
            }
            Event::Abandoned(which) => {
                if let Some(ticket) = self.pick(which, Place::Inside) {
                    self.admission.abandoned(self.now, ticket);
                }
            }
            Event::Done(which, ending) => {
                if let Some(ticket) = self.pick(which, Place::Inside) {
                    self.admission.done(self.now, ticket, ending, &mut out);
                    self.end(ticket);
                }
            }
            Event::Cancel(which) => {
                if let Some(ticket) = self.pick(which, Place::Waiting) {
                    assert!(self.admission.cancel(self.now, ticket, &mut out).is_some());
                    self.end(ticket);
                }
            }
            Event::Poll => self.admission.poll(self.now, &mut out),
            Event::Share(milli) => {
                let share = self.share(milli);
                self.admission.share(self.now, share, &mut out);
            }
            Event::Pass(millis) => {
                let span = Duration::from_millis(millis.unsigned_abs());
                self.now = if millis < 0 {
                    self.now.minus(span)
                } else {
                    self.now + span
                };
                return;
            }
        }
        let starts = self.follow(&out);
        self.check(starts);
    }

    fn share(&mut self, milli: u32) -> Share {
        self.shares += 1;
        Share {
            generation: Generation {
                term: 1,
                number: self.shares,
            },
            sequence: self.shares,
            milli: milli.into(),
            steady_milli: milli.into(),
            gather: None,
            gateways: 3,
            insight: Insight::default(),
            learnt: None,
        }
    }

    fn arrive(&mut self, facts: &Facts) {
        let mut out = Vec::new();
        let arrival = self.admission.arrive(self.now, facts, &mut out);
        self.trace.push(format!("{arrival:?}"));
        // Others leave, and start, before the newcomer may take a place of theirs.
        let mut starts = self.follow(&out);
        let (ticket, place) = match arrival {
            Arrival::Admitted(ticket) => (ticket, Place::Inside),
            Arrival::Queued { ticket, .. } => (ticket, Place::Waiting),
            Arrival::Refused(_) => return self.check(starts),
        };
        assert!(
            self.living.insert(ticket, (place, *facts)).is_none(),
            "tickets are unique"
        );
        self.order.push(ticket);
        if place == Place::Waiting {
            assert!(self.admission.snapshot().queued <= self.queue_max);
        }
        starts |= place == Place::Inside;
        self.check(starts);
    }

    /// Does what `out` says; returns whether anything started.
    fn follow(&mut self, out: &[Action]) -> bool {
        let mut starts = false;
        for action in out {
            self.trace.push(format!("{action:?}"));
            match *action {
                Action::Start { ticket, .. } => {
                    starts = true;
                    let (place, _) = self.living.get_mut(&ticket).expect("only the living start");
                    assert_eq!(*place, Place::Waiting, "a ticket starts once");
                    *place = Place::Inside;
                }
                Action::Evict { ticket, .. } => {
                    assert_eq!(
                        self.living[&ticket].0,
                        Place::Waiting,
                        "only who waits is evicted"
                    );
                    self.end(ticket);
                }
            }
        }
        starts
    }

    fn check(&self, starts: bool) {
        let snapshot = self.admission.snapshot();
        if starts {
            let (limit, escaped) = self.before;
            let most = if escaped && snapshot.recovery.escaping.is_some() {
                limit.max(snapshot.limit)
            } else {
                self.most.load(Ordering::Relaxed)
            };
            assert!(
                snapshot.in_flight <= most,
                "nothing starts beyond the limit"
            );
        }
        assert!(snapshot.limit >= 1);
        self.check_counts(&snapshot);
    }

    /// Permits are conserved: the gauges are the living tickets, nothing else.
    fn check_counts(&self, snapshot: &Snapshot) {
        let count = |place, class: Option<Class>| {
            let fits = |facts: &Facts| class.is_none_or(|class| facts.class == class);
            self.living
                .values()
                .filter(|(at, facts)| *at == place && fits(facts))
                .count() as u32
        };
        assert_eq!(snapshot.in_flight, count(Place::Inside, None));
        assert_eq!(snapshot.queued, count(Place::Waiting, None));
        for class in Class::ALL {
            assert_eq!(
                snapshot.in_flight_by_class[class.index()],
                count(Place::Inside, Some(class))
            );
            assert_eq!(
                snapshot.queued_by_class[class.index()],
                count(Place::Waiting, Some(class))
            );
        }
        let bytes = |(place, facts): &(Place, Facts)| {
            if *place == Place::Waiting {
                u64::from(facts.bytes)
            } else {
                0
            }
        };
        assert_eq!(
            snapshot.queued_bytes,
            self.living.values().map(bytes).sum::<u64>()
        );
        assert!(snapshot.queued_bytes <= 200);
    }
}

/// Without reserves and groups the rules about who starts are simple enough to state whole.
fn plain(mut config: Config) -> Config {
    config.bulkheads = Bulkheads {
        groups: vec![Portion::Share(1.0); 2],
        ..Bulkheads::default()
    };
    config
}

fn ten() -> Kind {
    Kind::Static(NonZeroU32::new(10).expect("above 0"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn permits_are_conserved_and_bounds_hold(
        (config, kind) in configs(),
        shared in prop::bool::weighted(0.2),
        events in events(),
    ) {
        let limits = if shared { Limits::Shared } else { Limits::Own(kind) };
        let mut world = World::new(&config, &limits);
        for event in &events {
            world.step(event);
        }
        // Whatever happened, the application comes to rest: every slot is given back, nobody waits.
        while let Some(ticket) = world.pick(0, Place::Inside) {
            let mut out = Vec::new();
            world.admission.done(world.now, ticket, Ending::Worked, &mut out);
            world.end(ticket);
            let starts = world.follow(&out);
            world.check(starts);
        }
        world.now = world.now + Duration::from_secs(3600);
        world.step(&Event::Poll);
        let rest = world.admission.snapshot();
        prop_assert_eq!((rest.in_flight, rest.queued), (0, 0));
    }

    #[test]
    fn nobody_waits_beside_a_free_slot_and_no_lower_class_goes_first(
        (config, kind) in configs(),
        events in events(),
    ) {
        let mut world = World::new(&plain(config), &Limits::Own(kind));
        for event in &events {
            let waiting: Vec<(Ticket, Class)> = world
                .living
                .iter()
                .filter(|(_, (place, _))| *place == Place::Waiting)
                .map(|(ticket, (_, facts))| (*ticket, facts.class))
                .collect();
            world.step(event);
            let snapshot = world.admission.snapshot();
            if !matches!(event, Event::Pass(_)) {
                prop_assert!(snapshot.queued == 0 || snapshot.in_flight >= snapshot.limit);
            }
            let place = |ticket: &Ticket| world.living.get(ticket).map(|(place, _)| *place);
            for (started, class) in waiting.iter().filter(|(t, _)| place(t) == Some(Place::Inside)) {
                let passed_over = waiting
                    .iter()
                    .any(|(t, other)| class.is_below(*other) && place(t) == Some(Place::Waiting));
                prop_assert!(!passed_over, "{started:?} of {class:?} overtook a higher class");
            }
        }
    }

    #[test]
    fn a_strict_reserve_is_never_touched_by_another_class(
        (mut config, _) in configs(),
        events in events(),
    ) {
        let strict = Reserve { portion: Portion::Slots(3), loan: Loan::Strict };
        config.bulkheads.reserves[Class::Critical.index()] = Some(strict);
        let mut world = World::new(&config, &Limits::Own(ten()));
        for event in &events {
            world.step(event);
            let snapshot = world.admission.snapshot();
            let others = snapshot.in_flight - snapshot.in_flight_by_class[Class::Critical.index()];
            prop_assert!(others <= 7);
            prop_assert!(snapshot.in_flight_by_group[2] <= 2);
        }
    }

    #[test]
    fn the_same_events_give_the_same_decisions((config, kind) in configs(), events in events()) {
        let run = || {
            let mut world = World::new(&config, &Limits::Own(kind));
            events.iter().for_each(|event| world.step(event));
            world.trace
        };
        prop_assert_eq!(run(), run());
    }
}

/// Random histories as above are too short for an escape or a level most of the time; this one is
/// long, and most of its work is late now and then.
#[test]
fn all_of_that_holds_through_escapes_and_levels() {
    let config = Config {
        hold: Duration::from_millis(200),
        queue_max: 20,
        queue_bytes_max: 200,
        discipline: Discipline::AdaptiveLifo,
        bulkheads: Bulkheads {
            groups: vec![Portion::Share(0.5), Portion::Slots(2)],
            ..Bulkheads::default()
        },
        routes: 2,
        escape: true,
        level: true,
    };
    let mut world = World::new(&config, &Limits::Own(ten()));
    let mut rng = Rng::new(3);
    let mut cut = 0;

    for step in 0..200_000 {
        let late = step % 20_000 > 15_000;
        let which = rng.next_u64() as usize;
        let event = match rng.below(12) {
            0..5 => Event::Arrive {
                class: which % Class::COUNT,
                group: [0, 0, 0, 0, 0, 0, 1, 2][which >> 8 & 7],
                route: (which >> 16) as u16 % 3,
                patience_ms: if late { 30 } else { 600 },
                bytes: (which >> 24) as u32 % 50,
                cohort: (which >> 32) as u8 % COHORTS,
                retry: which >> 40 & 7 == 0,
            },
            5..9 => Event::Done(which, Ending::Worked),
            9 => Event::Cancel(which),
            10 => Event::Abandoned(which),
            _ => Event::Pass(rng.below(60) as i64),
        };
        world.step(&event);
        cut += u32::from(world.admission.level() != Level::EVERYBODY);
    }

    let recovery = world.admission.snapshot().recovery;
    assert!(recovery.begun.iter().sum::<u64>() >= 3, "{recovery:?}");
    assert!(cut > 1000, "{cut}");
}

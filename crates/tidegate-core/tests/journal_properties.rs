//! What a decision log promises: what is written is read, and every decision in it comes out again.

use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::admission::{Action, Admission, Arrival, Config, Ticket};
use tidegate_core::bulkhead::{Bulkheads, Loan, Portion, Reserve};
use tidegate_core::facts::{COHORTS, Class, Facts, GroupId, RouteId};
use tidegate_core::journal::{
    Decoder, Difference, Encoder, End, Event, Fault, FaultKind, Got, Header, Item, Outcome, Record,
    Replay,
};
use tidegate_core::limit::adaptive::Settings;
use tidegate_core::limit::{Bounds, Ending, Kind, Learnt};
use tidegate_core::queue::Discipline;
use tidegate_core::time::{Mono, Wall};

/// What the world does next; tickets are chosen among those that are there.
#[derive(Clone, Debug)]
enum Step {
    Peek(usize, u16, bool),
    Arrive {
        /// Class, route, group.
        facts: (usize, u16, u16),
        patience: Option<u64>,
        bytes: u32,
        cohort: u8,
        retry: bool,
        shadow: bool,
    },
    FirstByte(usize),
    Abandoned(usize),
    Done(usize, Ending),
    Cancel(usize),
    Poll,
    Pass(i64),
}

fn endings() -> impl Strategy<Value = Ending> {
    prop_oneof![
        6 => Just(Ending::Worked),
        1 => Just(Ending::Ignored),
        1 => Just(Ending::Overloaded)
    ]
}

fn steps(count: usize) -> impl Strategy<Value = Vec<Step>> {
    let arrival = (
        (0..Class::COUNT, 0u16..3, 0u16..3),
        prop::option::weighted(0.9, 0u64..600_000_000),
        0u32..50,
        0..COHORTS,
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.3),
    );
    let step = prop_oneof![
        2 => (0..Class::COUNT, 0u16..3, any::<bool>())
            .prop_map(|(class, group, retry)| Step::Peek(class, group, retry)),
        8 => arrival.prop_map(|(facts, patience, bytes, cohort, retry, shadow)| {
            Step::Arrive { facts, patience, bytes, cohort, retry, shadow }
        }),
        2 => any::<usize>().prop_map(Step::FirstByte),
        1 => any::<usize>().prop_map(Step::Abandoned),
        6 => (any::<usize>(), endings()).prop_map(|(which, ending)| Step::Done(which, ending)),
        2 => any::<usize>().prop_map(Step::Cancel),
        1 => Just(Step::Poll),
        5 => (-2_000_000i64..80_000_000).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..count)
}

fn kinds() -> impl Strategy<Value = Kind> {
    let bounds = Bounds::new(4, 2, 20).expect("in order");
    prop_oneof![
        (1u32..12).prop_map(|n| Kind::Static(NonZeroU32::new(n).expect("above 0"))),
        Just(Kind::Aimd(bounds)),
        Just(Kind::Vegas(bounds)),
        Just(Kind::Gradient2(bounds)),
        prop::option::of((0u64..500).prop_map(Duration::from_millis)).prop_map(move |latency| {
            Kind::Adaptive(Settings {
                bounds,
                latency_healthy_max: latency,
            })
        }),
    ]
}

fn headers() -> impl Strategy<Value = Header> {
    let portion = || {
        prop_oneof![
            (0.05f64..0.4).prop_map(Portion::Share),
            (0u32..6).prop_map(Portion::Slots),
        ]
    };
    let loan = prop_oneof![Just(Loan::Strict), Just(Loan::Lent)];
    let reserve = (portion(), loan).prop_map(|(portion, loan)| Reserve { portion, loan });
    let reserves = prop::array::uniform5(prop::option::weighted(0.3, reserve));
    let groups = prop::collection::vec(portion(), 2);
    let discipline = prop_oneof![
        Just(Discipline::AdaptiveLifo),
        Just(Discipline::Fifo),
        Just(Discipline::CoDel)
    ];
    let options = any::<(bool, bool)>();
    let config = (reserves, groups, discipline, 0u32..20, options).prop_map(
        |(reserves, groups, discipline, queue_max, (escape, level))| Config {
            hold: Duration::from_micros(200_001),
            queue_max,
            queue_bytes_max: 200,
            discipline,
            bulkheads: Bulkheads { reserves, groups },
            routes: 2,
            escape,
            level,
        },
    );
    let baseline = (0u16..3, 0u64..100_000_000, 0u32..300);
    let learnt =
        (0.0f64..50.0, prop::collection::vec(baseline, 0..4)).prop_map(|(limit, baselines)| {
            Learnt {
                limit,
                throughput: 10.0 * limit,
                baselines: (baselines.into_iter())
                    .map(|(route, nanos, n)| (RouteId(route), Duration::from_nanos(nanos), n))
                    .collect(),
            }
        });
    let made = (config, kinds(), any::<u64>(), prop::option::of(learnt));
    (made, "[a-zé]{0,12}").prop_map(|((config, limit, seed, learnt), name)| Header {
        writer: format!("test {name}"),
        app: name,
        started: Wall::from_micros(seed >> 8),
        config,
        limit,
        seed,
        learnt,
    })
}

/// A world that writes a log while it happens.
struct World {
    admission: Admission,
    encoder: Encoder,
    log: Vec<u8>,
    records: Vec<Record>,
    now: Mono,
    waiting: Vec<Ticket>,
    inside: Vec<Ticket>,
}

impl World {
    fn new(header: &Header) -> Self {
        let mut log = Vec::new();
        Self {
            admission: header.admission(),
            encoder: Encoder::begin(header, &mut log),
            log,
            records: Vec::new(),
            now: Mono::from_millis(1000),
            waiting: Vec::new(),
            inside: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        let event = match *step {
            Step::Pass(nanos) => {
                let span = Duration::from_nanos(nanos.unsigned_abs());
                self.now = if nanos < 0 {
                    self.now.minus(span)
                } else {
                    self.now + span
                };
                return;
            }
            Step::Peek(class, group, retry) => Event::Peek(Facts {
                class: Class::ALL[class],
                route: RouteId(0),
                group: GroupId(group),
                deadline: self.now + Duration::from_millis(500),
                bytes: 0,
                cohort: 0,
                retry,
            }),
            Step::Arrive {
                facts: (class, route, group),
                patience,
                bytes,
                cohort,
                retry,
                shadow,
            } => {
                let facts = Facts {
                    class: Class::ALL[class],
                    route: RouteId(route),
                    group: GroupId(group),
                    deadline: patience
                        .map_or(Mono::MAX, |nanos| self.now + Duration::from_nanos(nanos)),
                    bytes,
                    cohort,
                    retry,
                };
                if shadow {
                    Event::ArriveShadow(facts)
                } else {
                    Event::Arrive(facts)
                }
            }
            Step::FirstByte(which) if !self.inside.is_empty() => {
                Event::FirstByte(self.inside[which % self.inside.len()])
            }
            Step::Abandoned(which) if !self.inside.is_empty() => {
                Event::Abandoned(self.inside[which % self.inside.len()])
            }
            Step::Done(which, ending) if !self.inside.is_empty() => {
                let which = which % self.inside.len();
                Event::Done(self.inside.swap_remove(which), ending)
            }
            Step::Cancel(which) if !self.waiting.is_empty() => {
                let which = which % self.waiting.len();
                Event::Cancel(self.waiting.swap_remove(which))
            }
            Step::FirstByte(_)
            | Step::Abandoned(_)
            | Step::Done(..)
            | Step::Cancel(_)
            | Step::Poll => Event::Poll,
        };
        self.happen(event);
    }

    fn happen(&mut self, event: Event) {
        let mut actions = Vec::new();
        let outcome = event.apply(&mut self.admission, self.now, &mut actions);
        let limit = self.admission.limit();
        let record = Record {
            offset: self.log.len() as u64,
            now: self.now,
            event,
            outcome,
            actions,
            limit,
        };
        self.encoder.record(
            self.now,
            &event,
            &outcome,
            &record.actions,
            limit,
            &mut self.log,
        );
        for action in &record.actions {
            let (Action::Start { ticket, .. } | Action::Evict { ticket, .. }) = action;
            self.waiting.retain(|other| other != ticket);
            if let Action::Start { .. } = action {
                self.inside.push(*ticket);
            }
        }
        match outcome {
            Outcome::Arrived(Arrival::Admitted(ticket)) | Outcome::Shadowed(ticket, _) => {
                self.inside.push(ticket);
            }
            Outcome::Arrived(Arrival::Queued { ticket, .. }) => self.waiting.push(ticket),
            _ => {}
        }
        self.records.push(record);
    }

    fn end(mut self, end: End) -> (Vec<u8>, Vec<Record>) {
        self.encoder.end(end, &mut self.log);
        (self.log, self.records)
    }
}

fn written(header: &Header, steps: &[Step]) -> (Vec<u8>, Vec<Record>) {
    let mut world = World::new(header);
    steps.iter().for_each(|step| world.step(step));
    world.end(End::Finished)
}

/// All of `log`, read in pieces of `piece` bytes, and how it ended.
fn read(log: &[u8], piece: usize) -> (Vec<Item>, Result<(), Fault>) {
    let mut decoder = Decoder::default();
    let mut items = Vec::new();
    for piece in log.chunks(piece) {
        decoder.push(piece);
        loop {
            match decoder.read() {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(fault) => return (items, Err(fault)),
            }
        }
    }
    (items, decoder.finish())
}

/// Runs what was read; the first difference, if there is one.
fn replayed(items: &[Item]) -> Result<u64, Box<Difference>> {
    let [Item::Header(header), records @ ..] = items else {
        panic!("a log begins with its header");
    };
    let mut replay = Replay::new(header);
    for item in records {
        if let Item::Record(record) = item {
            replay.step(record)?;
        }
    }
    Ok(replay.events())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_is_written_is_read_whatever_the_pieces(
        header in headers(),
        steps in steps(200),
        piece in 1usize..300,
    ) {
        let (log, records) = written(&header, &steps);

        let (items, ended) = read(&log, piece);

        prop_assert_eq!(ended, Ok(()));
        let expected: Vec<Item> = std::iter::once(Item::Header(Box::new(header)))
            .chain(records.into_iter().map(Item::Record))
            .chain([Item::End(End::Finished)])
            .collect();
        prop_assert_eq!(items, expected);
    }

    #[test]
    fn every_decision_comes_out_again(header in headers(), steps in steps(400)) {
        let (log, records) = written(&header, &steps);

        let (items, _) = read(&log, log.len());

        prop_assert_eq!(replayed(&items), Ok(records.len() as u64));
    }

    #[test]
    fn a_log_that_breaks_off_is_good_up_to_its_last_whole_record(
        header in headers(),
        steps in steps(12),
    ) {
        let (log, records) = written(&header, &steps);
        let starts: Vec<usize> = records.iter().map(|record| record.offset as usize).collect();

        for length in 0..log.len() {
            let (items, ended) = read(&log[..length], 7);

            let whole = items.len().saturating_sub(1);
            let end = log.len() - 10;
            let ends = |at: usize| starts.get(at + 1).copied().unwrap_or(end);
            let expected = (0..starts.len()).filter(|&at| ends(at) <= length).count();
            prop_assert_eq!(whole, expected, "length {}", length);
            if items.is_empty() {
                prop_assert_eq!(ended, Err(Fault { offset: 0, kind: FaultKind::CutOff }));
                continue;
            }
            prop_assert_eq!(replayed(&items), Ok(expected as u64));
            let next = starts.get(expected).copied().unwrap_or(end);
            let cut_off = Fault { offset: next as u64, kind: FaultKind::CutOff };
            let wanted = if length == next { Ok(()) } else { Err(cut_off) };
            prop_assert_eq!(ended, wanted, "length {}", length);
        }
    }

    #[test]
    fn a_changed_byte_is_noticed(
        header in headers(),
        steps in steps(60),
        at in any::<prop::sample::Index>(),
        flip in 1u8..,
    ) {
        let (mut log, _) = written(&header, &steps);
        *at.get_mut(&mut log) ^= flip;

        let (items, ended) = read(&log, log.len());

        prop_assert!(ended.is_err() || replayed(&items).is_err());
    }

    #[test]
    fn no_bytes_make_the_reader_fall_over(
        header in headers(),
        noise in prop::collection::vec(any::<u8>(), 0..300),
        piece in 1usize..20,
    ) {
        let (log, _) = written(&header, &[]);
        let (items, ended) = read(&noise, piece);
        prop_assert!(items.is_empty() && ended.is_err());

        let begun = &log[..log.len() - 10];
        let (items, _) = read(&[begun, &noise].concat(), piece);

        // Whatever passed for a record: running it is harmless too.
        drop(replayed(&items));
    }
}

fn small() -> Header {
    Header {
        writer: "test".to_owned(),
        app: "shop".to_owned(),
        started: Wall::default(),
        config: Config {
            hold: Duration::from_millis(200),
            queue_max: 10,
            queue_bytes_max: 1000,
            discipline: Discipline::Fifo,
            bulkheads: Bulkheads::default(),
            routes: 1,
            escape: true,
            level: false,
        },
        limit: Kind::Static(NonZeroU32::MIN),
        seed: 1,
        learnt: None,
    }
}

fn arrival(cohort: u8) -> Step {
    Step::Arrive {
        facts: (1, 0, 0),
        patience: None,
        bytes: 0,
        cohort,
        retry: false,
        shadow: false,
    }
}

#[test]
fn the_first_difference_is_told_with_its_place() {
    let steps = [arrival(1), arrival(2), Step::Done(0, Ending::Worked)];
    let (_, records) = written(&small(), &steps);
    let mut changed = records[1].clone();
    changed.outcome = Outcome::Arrived(Arrival::Refused(
        tidegate_core::admission::Reason::QueueFull,
    ));
    let mut replay = Replay::new(&small());
    replay.step(&records[0]).unwrap();

    let difference = replay.step(&changed).unwrap_err();

    assert_eq!(difference.number, 2);
    assert_eq!(
        difference.to_string(),
        format!(
            "event 2, at byte {}: arrive class=signed-in route=0 group=0 deadline=none bytes=0 cohort=2\n  \
             expected: refused queue_full; limit=1\n  \
             got:      queued 1.0 until=1.100000000; limit=1",
            records[1].offset
        )
    );
}

#[test]
fn an_event_that_cannot_happen_is_told_and_not_tried() {
    let (_, records) = written(&small(), &[arrival(1), Step::Done(0, Ending::Worked)]);
    let mut replay = Replay::new(&small());

    let difference = replay.step(&records[1]).unwrap_err();

    assert_eq!(difference.got, Got::Impossible);
}

#[test]
fn an_event_reads_as_one_line() {
    let steps = [arrival(1), arrival(2), Step::Done(0, Ending::Worked)];

    let (_, records) = written(&small(), &steps);

    assert_eq!(
        records[2].to_string(),
        "1.000000000 done 0.0 worked; start 1.0 waited=0ns; limit=1"
    );
}

#[test]
fn a_log_ends_once() {
    let (mut log, _) = written(&small(), &[]);
    log.push(0);

    let (items, ended) = read(&log, log.len());

    assert_eq!(items.last(), Some(&Item::End(End::Finished)));
    let goes_on = Fault {
        offset: log.len() as u64 - 1,
        kind: FaultKind::GoesOn,
    };
    assert_eq!(ended, Err(goes_on));
}

#[test]
fn another_version_is_no_damage() {
    let (mut log, _) = written(&small(), &[]);
    log[7] = 9;

    let (_, ended) = read(&log, 3);

    assert_eq!(ended.unwrap_err().kind, FaultKind::Version(9));
}

#[test]
fn a_request_takes_about_forty_bytes() {
    let mut world = World::new(&small());
    let before = world.log.len();
    for _ in 0..1000 {
        world.step(&arrival(77));
        world.step(&Step::Pass(50_000_000));
        world.step(&Step::Done(0, Ending::Worked));
    }
    let bytes = (world.log.len() - before) / 1000;
    assert!(bytes <= 40, "{bytes}");
}

//! Rules that a session keeps whatever is done to it.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::{
    Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use tidegate_core::session::{
    Birth, Ceilings, Expect, Fields, Format, Found, Lifetimes, MergePolicy, Name, Op, OpSeq,
    Patched, Record, Rotation, Value, Version, Writer, layout, merge,
};
use tidegate_core::time::Wall;

const START_MICROS: u64 = 1_795_000_000_000_000;
const LIFETIMES: Lifetimes = Lifetimes {
    idle: Duration::from_secs(60),
    absolute: Duration::from_secs(300),
};
/// Small enough that sequences of a few patches reach them.
const CEILINGS: Ceilings = Ceilings {
    value: 24,
    session: 150,
    count: 5,
};

/// One thing done to a session.
#[derive(Clone, Debug)]
enum Step {
    Patch { ops: Vec<Op>, number: u64 },
    Touch,
    Habit,
    Privilege,
}

fn name(at: u8) -> Name {
    Name::new(["a", "bb", "ccc", "dddd", "eeeee", "ffffff"][usize::from(at)]).expect("it is plain")
}

fn names() -> impl Strategy<Value = Name> {
    (0u8..6).prop_map(name)
}

fn expects() -> impl Strategy<Value = Expect> {
    prop_oneof![
        4 => Just(Expect::Any),
        1 => Just(Expect::Absent),
        1 => (0u64..200_000_000).prop_map(|later| Expect::At(Version(START_MICROS + later))),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    let value = prop::collection::vec(any::<u8>(), 0..30).prop_map(|bytes| Value {
        format: Format::Bytes,
        bytes,
    });
    prop_oneof![
        (names(), value, expects()).prop_map(|(name, value, expect)| Op::Set {
            name,
            value,
            expect
        }),
        (names(), expects()).prop_map(|(name, expect)| Op::Delete { name, expect }),
        (names(), any::<i64>()).prop_map(|(name, by)| Op::Increment { name, by }),
        (names(), any::<i64>()).prop_map(|(name, to)| Op::Max { name, to }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        8 => (prop::collection::vec(ops(), 0..5), 1u64..40)
            .prop_map(|(ops, number)| Step::Patch { ops, number }),
        2 => Just(Step::Touch),
        1 => Just(Step::Habit),
        1 => Just(Step::Privilege),
    ];
    prop::collection::vec((0u64..20_000_000, step), 0..40)
}

fn fresh() -> Record {
    Record::create(
        Wall::from_micros(START_MICROS),
        Birth {
            lifetimes: LIFETIMES,
            principal: None,
            attributes: &[],
            counters: &[],
        },
    )
}

fn seq(number: u64) -> OpSeq {
    let writer = Writer {
        incarnation: 7,
        lane: 0,
    };
    OpSeq { writer, number }
}

fn weight(found: &Found) -> (usize, usize) {
    let attributes = found.attributes.iter();
    let bytes = attributes.map(|(name, it)| name.as_str().len() + it.value.bytes.len() + 16);
    let counters = found
        .counters
        .iter()
        .map(|(name, _)| name.as_str().len() + 20);
    (
        bytes.chain(counters).sum(),
        found.attributes.len() + found.counters.len(),
    )
}

/// What the record's own fields say about its bytes and its count.
fn written(record: &Record) -> (usize, usize) {
    let fields: BTreeMap<_, _> = record.to_fields().into_iter().collect();
    let number = |field: &str| {
        let text = std::str::from_utf8(&fields[field]).expect("it is digits");
        text.parse().expect("it is digits")
    };
    (number(layout::BYTES), number(layout::COUNT))
}

fn take(record: &mut Record, now: Wall, step: &Step) -> Option<Patched> {
    match step {
        Step::Patch { ops, number } => {
            Some(record.patch(now, ops, Some(seq(*number)), CEILINGS, None))
        }
        Step::Touch => {
            record.touch(now, Duration::from_secs(1));
            None
        }
        Step::Habit | Step::Privilege => {
            let tombstone = Duration::from_secs(60);
            let rotation = match step {
                Step::Habit => Rotation::Habit {
                    successor: vec![],
                    tombstone,
                },
                _ => Rotation::Privilege {
                    principal: None,
                    lifetimes: LIFETIMES,
                    carry: vec![name(0), name(1), name(2)],
                    tombstone,
                },
            };
            if let Ok(rotated) = record.clone().rotate(now, &rotation) {
                *record = rotated;
            }
            None
        }
    }
}

proptest! {
    #[test]
    fn whatever_is_done_to_a_session_its_rules_hold(steps in steps(), backwards in any::<bool>()) {
        let mut record = fresh();
        let mut now = START_MICROS;
        for (later, step) in steps {
            // A store's clock may be set back; versions may not.
            now = if backwards && later % 7 == 0 { now - 1_000_000 } else { now + later };
            let before = record.clone();

            let patched = take(&mut record, Wall::from_micros(now), &step);

            let (head, found) = (record.head(), record.found(&Fields::All));
            prop_assert_eq!(written(&record), weight(&found));
            prop_assert!(head.bytes <= CEILINGS.session);
            prop_assert!(weight(&found).1 <= CEILINGS.count as usize);
            prop_assert!(head.deadline <= head.absolute);
            prop_assert!(record.version() >= before.version());
            prop_assert!(record.version() > before.version() || found == before.found(&Fields::All));
            if !matches!(patched, None | Some(Patched::Applied { .. })) {
                prop_assert_eq!(&record, &before);
            }
            for (name, _) in &found.counters {
                prop_assert!(found.attributes.iter().all(|(other, _)| other != name));
            }
            let fields = record.to_fields();
            let pairs = fields.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
            prop_assert_eq!(Record::from_fields(pairs), Ok(record.clone()));
        }
    }

    #[test]
    fn a_patch_delivered_again_is_as_one_delivered_once(
        patches in prop::collection::vec(prop::collection::vec(ops(), 0..4), 1..16),
        again in any::<prop::sample::Index>(),
    ) {
        let (mut once, mut twice) = (fresh(), fresh());
        let again = again.index(patches.len());
        let mut replies = Vec::new();
        for (at, ops) in patches.iter().enumerate() {
            let now = Wall::from_micros(START_MICROS + at as u64);
            let first = once.patch(now, ops, Some(seq(at as u64 + 1)), CEILINGS, None);
            twice.patch(now, ops, Some(seq(at as u64 + 1)), CEILINGS, None);
            replies.push(first);
        }

        let now = Wall::from_micros(START_MICROS + 1_000);
        let delivered = seq(again as u64 + 1);
        let applied = matches!(replies[again], Patched::Applied { .. });
        if applied {
            let reply = twice.patch(now, &patches[again], Some(delivered), CEILINGS, None);
            let known = matches!(reply, Patched::AlreadyApplied { .. });
            prop_assert!(known, "{:?}", reply);
        }

        prop_assert_eq!(once, twice);
    }

    #[test]
    fn patches_under_way_delivered_in_any_order_lose_nothing(
        order in Just((1u64..=16).collect::<Vec<_>>()).prop_shuffle(),
        doubled in prop::collection::vec(0usize..16, 0..8),
    ) {
        let mut record = fresh();
        let wide = Ceilings::default();
        let deliveries = order.iter().chain(doubled.iter().map(|&at| &order[at]));
        for (at, &number) in deliveries.enumerate() {
            let ops = [
                Op::Increment { name: name(0), by: 1 << number },
                Op::Set {
                    name: Name::new(&format!("own-{number}")).unwrap(),
                    value: Value { format: Format::Text, bytes: vec![] },
                    expect: Expect::Any,
                },
            ];
            let now = Wall::from_micros(START_MICROS + at as u64);
            record.patch(now, &ops, Some(seq(number)), wide, None);
        }

        let found = record.found(&Fields::All);
        prop_assert_eq!(found.counters, [(name(0), (1 << 17) - 2)]);
        prop_assert_eq!(found.attributes.len(), 16);
    }

    #[test]
    fn two_histories_of_counters_add_up_in_the_store(
        here in prop::collection::vec((0u8..3, -50i64..50), 0..20),
        there in prop::collection::vec((0u8..3, -50i64..50), 0..20),
    ) {
        let mut store = fresh();
        let wide = Ceilings::default();
        let now = Wall::from_micros(START_MICROS + 1);
        let add = |&(at, by): &(u8, i64)| Op::Increment { name: name(at), by };
        for change in &there {
            store.patch(now, &[add(change)], None, wide, None);
        }
        for change in &here {
            let op = add(change);
            let merged = merge::merge(&op, now, Version::NONE, None, MergePolicy::Newest);
            prop_assert_eq!(merged, merge::Merged::Send(op.clone()));
            store.patch(now, &[op], None, wide, None);
        }

        for (counter, sum) in store.found(&Fields::All).counters {
            let all = here.iter().chain(&there);
            let wanted: i64 = all.filter(|(at, _)| name(*at) == counter).map(|(_, by)| by).sum();
            prop_assert_eq!(sum, wanted);
        }
    }
}

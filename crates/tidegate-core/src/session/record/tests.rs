use super::*;
use crate::session::{Uid, Writer};

const START: Wall = Wall::from_micros(1_795_000_000_000_000);
const LIFETIMES: Lifetimes = Lifetimes {
    idle: Duration::from_secs(60),
    absolute: Duration::from_secs(150),
};

fn after(millis: u64) -> Wall {
    Wall::from_micros(START.as_micros() + millis * 1_000)
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn text(bytes: &str) -> Value {
    Value {
        format: Format::Text,
        bytes: bytes.as_bytes().to_vec(),
    }
}

fn set(to: &str, bytes: &str, expect: Expect) -> Op {
    Op::Set {
        name: name(to),
        value: text(bytes),
        expect,
    }
}

fn add(to: &str, by: i64) -> Op {
    Op::Increment { name: name(to), by }
}

fn delete(from: &str) -> Op {
    Op::Delete {
        name: name(from),
        expect: Expect::Any,
    }
}

fn fresh() -> Record {
    Record::create(
        START,
        Birth {
            lifetimes: LIFETIMES,
            principal: None,
            attributes: &[(name("cart"), text("apple"))],
            counters: &[(name("items"), 1)],
        },
    )
}

fn patch(record: &mut Record, millis: u64, ops: &[Op]) -> Patched {
    record.patch(after(millis), ops, None, Ceilings::default(), None)
}

fn seq(number: u64) -> OpSeq {
    let writer = Writer {
        incarnation: 1,
        lane: 0,
    };
    OpSeq { writer, number }
}

#[test]
fn a_session_begins_at_the_stores_clock_with_what_it_is_given() {
    let head = fresh().head();

    assert_eq!(head.version, Version(START.as_micros()));
    assert_eq!(head.created, START);
    assert_eq!(head.deadline, after(60_000));
    assert_eq!(head.absolute, after(150_000));
    assert_eq!(head.bytes, (4 + 5 + 16) + (5 + 20));
}

#[test]
fn it_ends_by_its_idle_time_and_by_its_absolute_deadline_however_it_is_used() {
    let mut record = fresh();
    let second = Duration::from_secs(1);

    assert!(!record.touch(after(999), second));
    assert!(record.touch(after(1_000), second));
    assert_eq!(record.deadline(), after(61_000));
    for at in (2_000..150_000).step_by(1_000) {
        assert!(record.touch(after(at), second));
    }

    assert_eq!(record.deadline(), after(150_000));
    assert!(!record.is_over(after(149_999)));
    assert!(record.is_over(after(150_000)));
    assert!(!record.touch(after(150_000), second));
    assert_eq!(
        record.open(after(150_000), Version::NONE, &Fields::All),
        Opened::Gone(Gone::Missing)
    );
    assert_eq!(
        patch(&mut record, 150_000, &[add("items", 1)]),
        Patched::Gone(Gone::Missing)
    );
}

#[test]
fn who_knows_its_version_is_told_nothing_else_and_a_touch_changes_no_version() {
    let mut record = fresh();
    let known = record.version();
    record.touch(after(5_000), Duration::ZERO);

    let opened = record.open(after(5_000), known, &Fields::All);

    assert!(matches!(opened, Opened::Unchanged { deadline, .. } if deadline == after(65_000)));
}

#[test]
fn only_what_is_asked_for_is_found() {
    let wanted = Fields::Only([name("items"), name("none")].into());

    let found = fresh().found(&wanted);

    assert!(found.attributes.is_empty());
    assert_eq!(found.counters, [(name("items"), 1)]);
}

#[test]
fn changes_of_one_patch_see_those_before_them() {
    let mut record = fresh();
    let max = Op::Max {
        name: name("peak"),
        to: -5,
    };

    let ops = [add("items", 2), add("items", 3), max, delete("cart")];
    let Patched::Applied {
        version, counters, ..
    } = patch(&mut record, 1, &ops)
    else {
        panic!("it was refused");
    };

    assert_eq!(version, Version(after(1).as_micros()));
    assert_eq!(counters, [(name("items"), 6), (name("peak"), -5)]);
    assert!(record.found(&Fields::All).attributes.is_empty());
}

#[test]
fn a_conflict_shows_what_is_there_and_changes_nothing() {
    let mut record = fresh();
    let before = record.clone();
    let stale = Version(7);

    let ops = [
        set("other", "x", Expect::Absent),
        set("cart", "pear", Expect::At(stale)),
        set("items", "x", Expect::Absent),
        set("none", "x", Expect::At(stale)),
    ];
    let refused = patch(&mut record, 1, &ops);

    let Patched::Conflict { version, current } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(version, before.version());
    assert_eq!(current.len(), 3);
    let shown = |at: usize| {
        current[at]
            .1
            .as_ref()
            .map(|it| (it.version, &*it.value.bytes))
    };
    assert_eq!(shown(0), Some((before.version(), &b"apple"[..])));
    assert_eq!(shown(1), Some((Version::NONE, &b"1"[..])));
    assert_eq!(shown(2), None);
    assert_eq!(record, before);
}

#[test]
fn every_change_is_checked_before_the_first_is_made() {
    let ceilings = Ceilings {
        value: 10,
        session: 150,
        count: 5,
    };
    let too_large = |name, size, ceiling| Patched::TooLarge {
        name,
        size,
        ceiling,
    };
    let (items, big) = (name("items"), name("big"));
    let long = set("big", &"x".repeat(11), Expect::Any);
    let refusals = [
        (vec![long], too_large(Some(big), 11, 10)),
        (
            vec![add("cart", 1)],
            Patched::WrongKind { name: name("cart") },
        ),
        (
            vec![add("items", i64::MAX)],
            Patched::Overflow { name: items },
        ),
        (
            vec![add(&"a".repeat(40), 1), add(&"b".repeat(40), 1)],
            too_large(None, 170, 150),
        ),
        (
            vec![add("a", 1), add("b", 1), add("c", 1), add("d", 1)],
            too_large(None, 6, 5),
        ),
    ];
    for (mut ops, refusal) in refusals {
        let mut record = fresh();
        ops.insert(0, add("items", 1));
        let refused = record.patch(after(1), &ops, Some(seq(1)), ceilings, None);
        assert_eq!(refused, refusal);
        assert_eq!(record, fresh());
    }
}

#[test]
fn what_adds_nothing_passes_though_the_ceiling_was_lowered() {
    let none = Ceilings {
        value: 10,
        session: 0,
        count: 0,
    };
    let mut record = fresh();

    let shrinks = [delete("cart"), add("items", 1)];

    let done = record.patch(after(1), &shrinks, None, none, None);
    assert!(matches!(done, Patched::Applied { .. }), "{done:?}");
}

#[test]
fn a_second_delivery_changes_nothing_and_a_late_one_is_dropped() {
    let mut record = fresh();
    let ceilings = Ceilings::default();
    let ops = [add("items", 1)];
    let first = record.patch(after(1), &ops, Some(seq(1)), ceilings, Some(after(1)));
    assert!(matches!(first, Patched::Applied { .. }), "{first:?}");
    let version = record.version();

    let again = record.patch(after(9), &ops, Some(seq(1)), ceilings, Some(after(1)));
    let late = record.patch(after(9), &ops, Some(seq(2)), ceilings, Some(after(8)));

    assert_eq!(again, Patched::AlreadyApplied { version });
    assert_eq!(late, Patched::Late);
    assert_eq!(record.found(&Fields::All).counters, [(name("items"), 2)]);
}

#[test]
fn a_name_is_an_attribute_or_a_counter() {
    let mut record = fresh();

    patch(&mut record, 1, &[set("items", "x", Expect::Any)]);
    assert!(record.found(&Fields::All).counters.is_empty());
    patch(&mut record, 2, &[delete("items"), add("items", 7)]);

    let found = record.found(&Fields::All);
    assert_eq!(found.counters, [(name("items"), 7)]);
    assert_eq!(found.attributes.len(), 1);
}

#[test]
fn a_change_of_rights_carries_only_what_is_listed_and_begins_anew() {
    let mut planted = fresh();
    patch(&mut planted, 1, &[set("admin", "yes", Expect::Any)]);
    let principal = Principal {
        uid: Uid::new("ann").unwrap(),
        tier: None,
        epoch: 2,
    };
    let rotation = Rotation::Privilege {
        principal: Some(principal.clone()),
        lifetimes: LIFETIMES,
        carry: vec![name("cart")],
        tombstone: Duration::from_secs(60),
    };

    let signed_in = planted.clone().rotate(after(50_000), &rotation).unwrap();

    let head = signed_in.head();
    assert_eq!(head.principal, Some(principal));
    assert_eq!(head.absolute, after(200_000));
    assert!(head.version > planted.version());
    let found = signed_in.found(&Fields::All);
    assert_eq!(found.attributes.len(), 1);
    assert_eq!(found.attributes[0].0, name("cart"));
    assert!(found.counters.is_empty());
    assert_eq!(planted.rotate(after(60_000), &rotation), Err(Gone::Missing));
}

#[test]
fn a_habitual_change_of_id_keeps_everything_but_the_version() {
    let rotation = Rotation::Habit {
        successor: vec![1],
        tombstone: Duration::from_secs(60),
    };
    let before = fresh();

    let rotated = before.clone().rotate(after(5_000), &rotation).unwrap();

    assert_eq!(rotated.found(&Fields::All), before.found(&Fields::All));
    assert_eq!(rotated.deadline(), before.deadline());
    assert!(rotated.version() > before.version());
}

#[test]
fn a_session_known_in_part_goes_on_and_the_rest_of_it_still_counts() {
    let mut whole = fresh();
    patch(
        &mut whole,
        1,
        &[set("notes", &"x".repeat(100), Expect::Any)],
    );
    let found = whole.found(&Fields::Only([name("cart")].into()));

    let mut known = Record::known(&whole.head(), &found);

    assert_eq!(known.head(), whole.head());
    let done = patch(&mut known, 2, &[add("items", 1)]);
    assert!(matches!(done, Patched::Applied { .. }), "{done:?}");
    assert_eq!(known.bytes(), whole.bytes() + 5 + 20);
}

#[test]
fn an_epoch_is_adopted_by_the_signed_in_and_never_goes_back() {
    let mut nobody = fresh();
    assert!(!nobody.adopt_epoch(after(1), 4));

    let mut record = fresh();
    record.principal = Some(Principal {
        uid: Uid::new("ann").unwrap(),
        tier: None,
        epoch: 2,
    });
    let version = record.version();
    assert!(record.adopt_epoch(after(1), 4));
    assert!(record.adopt_epoch(after(1), 3));

    assert_eq!(record.head().principal.unwrap().epoch, 4);
    assert!(record.version() > version);
    assert!(!record.adopt_epoch(after(60_000), 5));
}

//! What becomes of a change made while the store was away, once the store is back.
//!
//! Counters commute, so their changes are always made. An attribute that the store has as it was
//! known here is changed as wanted. Where the store's was written meanwhile as well, the
//! attribute's [`MergePolicy`] decides. A session that was ended on purpose never comes back.

use super::json;
use super::op::{Expect, Op};
use super::policy::MergePolicy;
use super::reply::Gone;
use super::value::{Attribute, Format, Name, Value, Version};
use crate::time::Wall;

/// What to do about a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// To send this. An attribute's change expects what was compared with: after a conflict, merge
    /// again with what is there by then.
    Send(Op),
    /// Nothing.
    Drop(Dropped),
}

/// Why a change is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// The store's attribute was written later.
    StoreNewer,
    /// The store's attribute counts, whenever it was written.
    StoreWins,
    /// The store has an attribute where this counts.
    WrongKind,
    /// What it takes away is not there.
    Moot,
}

/// What to do about a session used here that the store does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// To create it: it began while the store was away.
    Create,
    /// To create it again from what is known here: the store lost it, or could not know that it was
    /// in use.
    Recreate,
    /// To forget it: it ended, or its time is over.
    Forget,
}

/// What to do about the change `op` made at `made`, a time of the store's clock, of an attribute
/// known then as `base`, now that the store has `current`.
pub fn merge(
    op: &Op,
    made: Wall,
    base: Version,
    current: Option<&Attribute>,
    policy: MergePolicy,
) -> Merged {
    let is_counter = current.is_some_and(|it| it.version == Version::NONE);
    let newer = current.is_some_and(|it| it.version.0 > made.as_micros());
    let changed = current.is_some_and(|it| it.version != base && !is_counter);
    match op {
        Op::Increment { .. } | Op::Max { .. } if current.is_some() && !is_counter => {
            Merged::Drop(Dropped::WrongKind)
        }
        Op::Increment { .. } | Op::Max { .. } => Merged::Send(op.clone()),
        _ if changed && policy == MergePolicy::StoreWins => Merged::Drop(Dropped::StoreWins),
        Op::Set { name, value, .. } => {
            let united = (changed && policy == MergePolicy::Union)
                .then(|| current.and_then(|it| union(&it.value, value, newer)))
                .flatten();
            match united {
                Some(value) => set(name, value, current),
                None if changed && newer => Merged::Drop(Dropped::StoreNewer),
                None => set(name, value.clone(), current),
            }
        }
        Op::Delete { .. } if changed && newer => Merged::Drop(Dropped::StoreNewer),
        Op::Delete { .. } if current.is_none() => Merged::Drop(Dropped::Moot),
        Op::Delete { name, .. } => Merged::Send(Op::Delete {
            name: name.clone(),
            expect: expected(current),
        }),
    }
}

/// What to do about a session used here of which the store says `gone`. `born` says that it began
/// while the store was away, `alive` that by its use here its time is not over.
pub const fn missing(gone: &Gone, born: bool, alive: bool) -> Missing {
    match gone {
        Gone::Missing if born && alive => Missing::Create,
        // An ending on purpose and a change of id are remembered for longer than this. So the store
        // lost it, or took it for unused, as nobody could say that it was in use.
        Gone::Missing if alive => Missing::Recreate,
        // Under another id by habit: who has that one reads it in the store; what was written under
        // the old one here has nowhere to go.
        Gone::Missing | Gone::Destroyed | Gone::Replaced | Gone::Rotated { .. } => Missing::Forget,
    }
}

/// The union of the store's value and one set here; `None` when they are not of a kind.
pub(super) fn union(store: &Value, here: &Value, store_newer: bool) -> Option<Value> {
    if store.format != Format::Json || here.format != Format::Json {
        return None;
    }
    let (base, winner) = if store_newer {
        (&here.bytes, &store.bytes)
    } else {
        (&store.bytes, &here.bytes)
    };
    Some(Value {
        format: Format::Json,
        bytes: json::union(base, winner)?,
    })
}

fn set(name: &Name, value: Value, current: Option<&Attribute>) -> Merged {
    Merged::Send(Op::Set {
        name: name.clone(),
        value,
        expect: expected(current),
    })
}

/// That it is still what was compared with; a counter has nothing to compare.
fn expected(current: Option<&Attribute>) -> Expect {
    match current {
        None => Expect::Absent,
        Some(it) if it.version == Version::NONE => Expect::Any,
        Some(it) => Expect::At(it.version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE: Wall = Wall::from_micros(100);

    fn name() -> Name {
        Name::new("cart").unwrap()
    }

    fn value(format: Format, text: &str) -> Value {
        Value {
            format,
            bytes: text.as_bytes().to_vec(),
        }
    }

    fn json(text: &str) -> Value {
        value(Format::Json, text)
    }

    fn set_op(value: Value, expect: Expect) -> Op {
        Op::Set {
            name: name(),
            value,
            expect,
        }
    }

    fn delete_op(expect: Expect) -> Op {
        Op::Delete {
            name: name(),
            expect,
        }
    }

    fn there(version: u64, value: Value) -> Attribute {
        Attribute {
            version: Version(version),
            value,
        }
    }

    fn merged(op: &Op, base: u64, current: Option<&Attribute>, policy: MergePolicy) -> Merged {
        merge(op, MADE, Version(base), current, policy)
    }

    #[test]
    fn what_the_store_has_as_it_was_known_is_changed_as_wanted_by_every_policy() {
        let current = there(50, json("[1]"));
        for policy in [
            MergePolicy::Newest,
            MergePolicy::Union,
            MergePolicy::StoreWins,
        ] {
            let set = merged(
                &set_op(json("[2]"), Expect::Any),
                50,
                Some(&current),
                policy,
            );
            let delete = merged(&delete_op(Expect::Any), 50, Some(&current), policy);

            let at = Expect::At(Version(50));
            assert_eq!(set, Merged::Send(set_op(json("[2]"), at)));
            assert_eq!(delete, Merged::Send(delete_op(at)));
        }
    }

    #[test]
    fn of_two_that_were_changed_the_later_stays() {
        let (older, newer) = (there(99, json("1")), there(101, json("1")));
        let (set, delete) = (set_op(json("2"), Expect::Any), delete_op(Expect::Any));
        let newest = |op, current| merged(op, 50, Some(current), MergePolicy::Newest);

        let at = Expect::At(Version(99));
        assert_eq!(newest(&set, &older), Merged::Send(set_op(json("2"), at)));
        assert_eq!(newest(&delete, &older), Merged::Send(delete_op(at)));
        let dropped = Merged::Drop(Dropped::StoreNewer);
        assert_eq!(newest(&set, &newer), dropped);
        assert_eq!(newest(&delete, &newer), dropped);
    }

    #[test]
    fn lists_and_objects_are_put_together_and_the_later_wins_a_key() {
        let united = |version, store: &str, here: &str| {
            let current = there(version, json(store));
            let op = set_op(json(here), Expect::Any);
            match merged(&op, 50, Some(&current), MergePolicy::Union) {
                Merged::Send(Op::Set { value, expect, .. }) => {
                    assert_eq!(expect, Expect::At(Version(version)));
                    String::from_utf8(value.bytes).unwrap()
                }
                other => panic!("{other:?}"),
            }
        };

        assert_eq!(united(99, "[1]", "[2]"), "[1,2]");
        assert_eq!(united(101, "[1]", "[2]"), "[2,1]");
        assert_eq!(united(99, r#"{"a":1}"#, r#"{"a":2}"#), r#"{"a":2}"#);
        assert_eq!(united(101, r#"{"a":1}"#, r#"{"a":2}"#), r#"{"a":1}"#);
    }

    #[test]
    fn what_cannot_be_put_together_goes_by_its_time() {
        let op = set_op(json("[2]"), Expect::Any);
        for odd in [value(Format::Text, "[1]"), json("{}"), json("[")] {
            let current = there(101, odd);
            let dropped = merged(&op, 50, Some(&current), MergePolicy::Union);
            assert_eq!(dropped, Merged::Drop(Dropped::StoreNewer));
        }
    }

    #[test]
    fn what_decides_about_rights_stays_as_the_store_has_it() {
        let current = there(60, json("1"));
        for op in [set_op(json("2"), Expect::Any), delete_op(Expect::Any)] {
            let dropped = merged(&op, 50, Some(&current), MergePolicy::StoreWins);
            assert_eq!(dropped, Merged::Drop(Dropped::StoreWins));
        }
    }

    #[test]
    fn counters_commute_unless_an_attribute_took_the_name() {
        let add = Op::Increment {
            name: name(),
            by: 2,
        };
        let counter = there(0, value(Format::Integer, "7"));
        let attribute = there(60, json("1"));
        let newest = |current| merged(&add, 0, current, MergePolicy::Newest);

        assert_eq!(newest(None), Merged::Send(add.clone()));
        assert_eq!(newest(Some(&counter)), Merged::Send(add.clone()));
        assert_eq!(newest(Some(&attribute)), Merged::Drop(Dropped::WrongKind));
    }

    #[test]
    fn what_is_not_there_is_set_and_need_not_be_deleted() {
        let set = merged(
            &set_op(json("2"), Expect::At(Version(9))),
            9,
            None,
            MergePolicy::Newest,
        );
        let delete = merged(&delete_op(Expect::Any), 9, None, MergePolicy::Newest);

        assert_eq!(set, Merged::Send(set_op(json("2"), Expect::Absent)));
        assert_eq!(delete, Merged::Drop(Dropped::Moot));
    }

    #[test]
    fn what_was_ended_on_purpose_never_comes_back() {
        for gone in [
            Gone::Destroyed,
            Gone::Replaced,
            Gone::Rotated { successor: vec![] },
        ] {
            for (born, alive) in [(false, false), (false, true), (true, false), (true, true)] {
                assert_eq!(missing(&gone, born, alive), Missing::Forget);
            }
        }
    }

    #[test]
    fn what_is_missing_and_in_use_here_comes_back_and_what_is_not_is_forgotten() {
        assert_eq!(missing(&Gone::Missing, true, true), Missing::Create);
        assert_eq!(missing(&Gone::Missing, false, true), Missing::Recreate);
        assert_eq!(missing(&Gone::Missing, true, false), Missing::Forget);
        assert_eq!(missing(&Gone::Missing, false, false), Missing::Forget);
    }
}

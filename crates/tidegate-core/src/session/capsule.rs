//! What a user left behind in their last session meets the session that they sign in with.

use super::merge::union;
use super::op::{Expect, Op};
use super::policy::ResumePolicy;
use super::reply::Found;
use super::value::Name;

/// The changes by which a session with the content `session` takes up what `capsule` holds.
/// `policy` says how for each name; what it says nothing about stays behind.
///
/// Counters have no time of their own: one that the session has stays, except that a union takes
/// the larger.
pub fn adopt(
    session: &Found,
    capsule: &Found,
    policy: impl Fn(&Name) -> Option<ResumePolicy>,
) -> Vec<Op> {
    let counter = |name: &Name| session.counters.iter().any(|(other, _)| other == name);
    let attribute = |name: &Name| {
        let mut attributes = session.attributes.iter();
        attributes.find(|(other, _)| other == name)
    };
    let mut ops = Vec::new();
    for (name, left) in &capsule.attributes {
        let Some(policy) = policy(name) else { continue };
        let set = |value, expect| Op::Set {
            name: name.clone(),
            value,
            expect,
        };
        match (attribute(name), policy) {
            _ if counter(name) => {}
            (None, _) => ops.push(set(left.value.clone(), Expect::Absent)),
            (Some(_), ResumePolicy::KeepSession) => {}
            (Some((_, own)), policy) => {
                let own_newer = own.version >= left.version;
                let united = (policy == ResumePolicy::Union && own.value != left.value)
                    .then(|| union(&own.value, &left.value, own_newer))
                    .flatten();
                match united {
                    Some(value) => ops.push(set(value, Expect::At(own.version))),
                    None if own_newer => {}
                    None => ops.push(set(left.value.clone(), Expect::At(own.version))),
                }
            }
        }
    }
    for (name, left) in &capsule.counters {
        let Some(policy) = policy(name) else { continue };
        let stays = counter(name) && policy != ResumePolicy::Union;
        if attribute(name).is_none() && !stays {
            ops.push(Op::Max {
                name: name.clone(),
                to: *left,
            });
        }
    }
    ops
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Attribute, Format, Value, Version};

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn json(text: &str) -> Value {
        Value {
            format: Format::Json,
            bytes: text.as_bytes().to_vec(),
        }
    }

    fn holding(version: u64, attributes: &[(&str, &str)], counters: &[(&str, i64)]) -> Found {
        let attribute = |text: &str| Attribute {
            version: Version(version),
            value: json(text),
        };
        let attributes = attributes.iter();
        Found {
            attributes: attributes
                .map(|(key, text)| (name(key), attribute(text)))
                .collect(),
            counters: counters.iter().map(|&(key, to)| (name(key), to)).collect(),
        }
    }

    fn set(to: &str, text: &str, expect: Expect) -> Op {
        Op::Set {
            name: name(to),
            value: json(text),
            expect,
        }
    }

    #[test]
    fn what_the_session_lacks_is_taken_up_and_what_is_not_listed_stays_behind() {
        let capsule = holding(5, &[("cart", "[1]"), ("role", "1")], &[("items", 1)]);

        let ops = adopt(&Found::default(), &capsule, |at| {
            (at.as_str() != "role").then_some(ResumePolicy::KeepSession)
        });

        let max = Op::Max {
            name: name("items"),
            to: 1,
        };
        assert_eq!(ops, [set("cart", "[1]", Expect::Absent), max]);
    }

    #[test]
    fn what_both_have_goes_by_its_policy() {
        let capsule = holding(5, &[("cart", "[1]")], &[("items", 1)]);
        let (older, newer) = (
            holding(4, &[("cart", "[2]")], &[("items", 0)]),
            holding(6, &[("cart", "[2]")], &[("items", 0)]),
        );
        let with = |session, policy| adopt(session, &capsule, |_| Some(policy));
        let at = |version| Expect::At(Version(version));
        let max = Op::Max {
            name: name("items"),
            to: 1,
        };

        assert_eq!(
            with(&older, ResumePolicy::Newest),
            [set("cart", "[1]", at(4))]
        );
        assert_eq!(with(&newer, ResumePolicy::Newest), []);
        assert_eq!(with(&older, ResumePolicy::KeepSession), []);
        assert_eq!(
            with(&newer, ResumePolicy::Union),
            [set("cart", "[1,2]", at(6)), max]
        );
    }

    #[test]
    fn what_has_changed_its_kind_stays_the_sessions() {
        let capsule = holding(5, &[("a", "1")], &[("b", 1)]);
        let session = holding(4, &[("b", "2")], &[("a", 2)]);

        assert_eq!(adopt(&session, &capsule, |_| Some(ResumePolicy::Union)), []);
    }
}

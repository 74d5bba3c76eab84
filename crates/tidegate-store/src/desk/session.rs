//! A session as it was read: its head, and what was asked for of its content.

use tidegate_core::session::{Attribute, Fields, Found, Head, Name, Op, Uid, Version};

/// A session as it was read. Never changes: a write makes another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its head. The deadline is the one at the time of reading.
    pub head: Head,
    /// Which attributes and counters were asked for: at least those of the call.
    pub fields: Fields,
    /// Those of them that there are.
    pub found: Found,
}

impl Session {
    /// The version of its content.
    pub const fn version(&self) -> Version {
        self.head.version
    }

    /// Whose it is.
    pub fn uid(&self) -> Option<&Uid> {
        self.head.principal.as_ref().map(|principal| &principal.uid)
    }

    /// How the application ranks its user.
    pub fn tier(&self) -> Option<&Name> {
        self.head.principal.as_ref()?.tier.as_ref()
    }

    /// An attribute that was asked for and is there.
    pub fn attribute(&self, name: &Name) -> Option<&Attribute> {
        let mut attributes = self.found.attributes.iter();
        attributes.find(|(its, _)| its == name).map(|(_, it)| it)
    }

    /// A counter that was asked for and is there.
    pub fn counter(&self, name: &Name) -> Option<i64> {
        let mut counters = self.found.counters.iter();
        counters.find(|(its, _)| its == name).map(|(_, it)| *it)
    }

    /// This session after `ops`, which the store made: they gave it `version`, and `counters` are
    /// what its changed counters have come to. What was not asked for stays unknown. The head
    /// keeps its version.
    pub(super) fn after(&self, ops: &[Op], version: Version, counters: &[(Name, i64)]) -> Self {
        let mut session = self.clone();
        for op in ops.iter().filter(|op| has(&self.fields, op.name())) {
            let name = op.name();
            match op {
                Op::Set { value, .. } => {
                    session.forget(name);
                    let value = value.clone();
                    let attribute = Attribute { version, value };
                    session.found.attributes.push((name.clone(), attribute));
                }
                Op::Delete { .. } => session.forget(name),
                Op::Increment { .. } | Op::Max { .. } => {
                    if let Some(result) = counters.iter().find(|(its, _)| its == name) {
                        session.forget(name);
                        session.found.counters.push(result.clone());
                    }
                }
            }
        }
        session
    }

    /// About how many bytes of memory it takes.
    pub(super) fn weight(&self) -> usize {
        const PER_SESSION: usize = 512;
        const PER_ENTRY: usize = 64;
        let attributes = self.found.attributes.iter();
        let attributes = attributes.map(|(_, attribute)| PER_ENTRY + attribute.value.bytes.len());
        attributes.sum::<usize>() + PER_ENTRY * self.found.counters.len() + PER_SESSION
    }

    fn forget(&mut self, name: &Name) {
        self.found.attributes.retain(|(its, _)| its != name);
        self.found.counters.retain(|(its, _)| its != name);
    }
}

/// Whether `name` is among `fields`.
pub(super) fn has(fields: &Fields, name: &Name) -> bool {
    match fields {
        Fields::All => true,
        Fields::Only(names) => names.contains(name),
    }
}

/// Whether who asked for `known` has what `wanted` asks for.
pub(super) fn covers(known: &Fields, wanted: &Fields) -> bool {
    match (known, wanted) {
        (Fields::All, _) => true,
        (Fields::Only(_), Fields::All) => false,
        (Fields::Only(known), Fields::Only(wanted)) => {
            wanted.iter().all(|name| known.contains(name))
        }
    }
}

/// What asks for both.
pub(super) fn union(one: &Fields, other: &Fields) -> Fields {
    /// More names than these are everything.
    const NAMES_MAX: usize = 64;
    let (Fields::Only(names), Fields::Only(more)) = (one, other) else {
        return Fields::All;
    };
    let mut names = names.to_vec();
    for name in more.iter() {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    if names.len() > NAMES_MAX {
        Fields::All
    } else {
        Fields::Only(names.into())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_core::session::{Expect, Format, Value};
    use tidegate_core::time::Wall;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn only(names: &[&str]) -> Fields {
        Fields::Only(names.iter().map(|text| name(text)).collect())
    }

    fn session(fields: Fields) -> Session {
        Session {
            head: Head {
                version: Version(1),
                created: Wall::default(),
                last_used: Wall::default(),
                idle: Duration::from_secs(60),
                deadline: Wall::default(),
                absolute: Wall::default(),
                principal: None,
                bytes: 0,
            },
            fields,
            found: Found {
                attributes: Vec::new(),
                counters: vec![(name("seen"), 1)],
            },
        }
    }

    fn set(to: &str) -> Op {
        Op::Set {
            name: name(to),
            value: Value {
                format: Format::Text,
                bytes: b"x".to_vec(),
            },
            expect: Expect::Any,
        }
    }

    #[test]
    fn a_change_is_seen_only_where_the_field_was_asked_for() {
        let before = session(only(&["cart", "seen"]));
        let count = Op::Increment {
            name: name("seen"),
            by: 4,
        };

        let ops = [set("cart"), set("other"), count];
        let after = before.after(&ops, Version(9), &[(name("seen"), 5)]);

        assert_eq!(after.attribute(&name("cart")).unwrap().version, Version(9));
        assert_eq!(after.attribute(&name("other")), None);
        assert_eq!(after.counter(&name("seen")), Some(5));
        assert_eq!(after.version(), Version(1));
    }

    #[test]
    fn a_counter_that_becomes_an_attribute_is_a_counter_no_more() {
        let after = session(Fields::All).after(&[set("seen")], Version(2), &[]);

        assert_eq!(after.counter(&name("seen")), None);
        assert!(after.attribute(&name("seen")).is_some());
    }

    #[test]
    fn fields_cover_what_they_contain() {
        let both = union(&only(&["a"]), &only(&["b", "a"]));

        assert_eq!(both, only(&["a", "b"]));
        assert!(covers(&both, &only(&["b"])));
        assert!(!covers(&both, &only(&["c"])));
        assert!(!covers(&both, &Fields::All));
        assert!(covers(&Fields::All, &both));
    }
}

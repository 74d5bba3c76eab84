//! What the store has of a session that is being healed.

use std::collections::BTreeMap;

use tidegate_core::session::{Attribute, Format, Found, Name, Op, Value, Version};

/// What the store has under the names that are to be changed. A counter is shown as a whole number
/// at no version.
#[derive(Debug, Default)]
pub(super) struct Current(BTreeMap<Name, Attribute>);

impl Current {
    pub(super) fn of(found: Found) -> Self {
        let counters = found.counters.into_iter();
        let counters = counters.map(|(name, count)| (name, counter(&count.to_string())));
        Self(counters.chain(found.attributes).collect())
    }

    pub(super) fn get(&self, name: &Name) -> Option<&Attribute> {
        self.0.get(name)
    }

    pub(super) fn take(&mut self, name: &Name) -> Option<Attribute> {
        self.0.remove(name)
    }

    pub(super) fn put(&mut self, name: Name, attribute: Option<Attribute>) {
        match attribute {
            Some(attribute) => self.0.insert(name, attribute),
            None => self.0.remove(&name),
        };
    }

    /// The versions of what there is.
    pub(super) fn versions(&self) -> impl Iterator<Item = (Name, Version)> {
        let all = self.0.iter();
        all.map(|(name, there)| (name.clone(), there.version))
    }

    /// Notes that `ops` were made, under `version`; returns the versions of what they set.
    pub(super) fn follow(&mut self, ops: &[Op], version: Version) -> BTreeMap<Name, Version> {
        let mut versions = BTreeMap::new();
        for op in ops {
            let name = op.name().clone();
            match op {
                Op::Set { value, .. } => {
                    let value = value.clone();
                    versions.insert(name.clone(), version);
                    self.0.insert(name, Attribute { version, value });
                }
                Op::Delete { .. } => {
                    self.0.remove(&name);
                }
                // What it has come to is of no interest, only that it counts.
                Op::Increment { .. } | Op::Max { .. } => {
                    self.0.insert(name, counter(""));
                }
            }
        }
        versions
    }
}

fn counter(text: &str) -> Attribute {
    Attribute {
        version: Version::NONE,
        value: Value {
            format: Format::Integer,
            bytes: text.as_bytes().to_vec(),
        },
    }
}

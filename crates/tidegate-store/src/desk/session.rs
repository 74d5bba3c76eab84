//! A session as it was read: its head, and what was asked for of its content.

use tidegate_core::session::{Attribute, Fields, Found, Head, Name, Uid, Version};

/// A session as it was read. Never changes: a write makes another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its head. The deadline is the one at the time of reading.
    pub head: Head,
    /// Which attributes and counters were asked for.
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
}

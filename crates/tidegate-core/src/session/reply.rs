//! What comes of it.

use super::op::Principal;
use super::value::{Attribute, Name, Version};
use crate::time::Wall;
use std::time::Duration;

/// What is known of a session without its attributes. Times are the store's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its content.
    pub version: Version,
    /// When it began.
    pub created: Wall,
    /// When it was last used, to the grain of a touch.
    pub last_used: Wall,
    /// How long it lives without use.
    pub idle: Duration,
    /// When it ends unless it is used.
    pub deadline: Wall,
    /// When it ends whatever happens.
    pub absolute: Wall,
    /// Who it belongs to; `None` for nobody yet.
    pub principal: Option<Principal>,
    /// Bytes of its attributes and counters, as the ceilings count them.
    pub bytes: u32,
}

/// Attributes and counters that were asked for and are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Attributes, by name.
    pub attributes: Vec<(Name, Attribute)>,
    /// Counters, by name.
    pub counters: Vec<(Name, i64)>,
}

/// Why there is no such session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It never was, or its time is over, or the store has lost it.
    Missing,
    /// It was ended on purpose.
    Destroyed,
    /// A change of rights gave it another id, which this one does not lead to.
    Replaced,
    /// It has another id now.
    Rotated {
        /// What the gateway sealed for the holder of the old id.
        successor: Vec<u8>,
    },
}

/// The reply to a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// There it is.
    Created {
        /// The store's clock.
        now: Wall,
        /// What it begins as.
        head: Head,
    },
    /// The id is taken, or was.
    Taken,
}

/// The reply to an opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The content is the one that the caller knows.
    Unchanged {
        /// The store's clock.
        now: Wall,
        /// When the session ends unless it is used.
        deadline: Wall,
    },
    /// The content, as far as it was asked for.
    Found {
        /// The store's clock.
        now: Wall,
        /// The session.
        head: Head,
        /// Its content.
        found: Found,
    },
    /// There is none.
    Gone(Gone),
}

/// The reply to a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patched {
    /// Every change was made.
    Applied {
        /// The store's clock.
        now: Wall,
        /// The session's version before: who had the content of that one has, with these changes,
        /// the content of `version`.
        before: Version,
        /// The session's version, which the attributes set have as well.
        version: Version,
        /// The counters that changed, as they are now.
        counters: Vec<(Name, i64)>,
    },
    /// This very patch had been applied before.
    AlreadyApplied {
        /// The session's version.
        version: Version,
    },
    /// Some attribute is not the one expected; nothing was changed.
    Conflict {
        /// The session's version.
        version: Version,
        /// What is there instead, for each attribute that differs. A counter, which has no version
        /// of its own, shows as a whole number at [`Version::NONE`].
        current: Vec<(Name, Option<Attribute>)>,
    },
    /// It would pass a ceiling; nothing was changed.
    TooLarge {
        /// The value that is too large; `None` when the session would be.
        name: Option<Name>,
        /// What it would have come to, in bytes, or in attributes for the count.
        size: u64,
        /// The ceiling.
        ceiling: u32,
    },
    /// A counter would leave the range of 64 bits; nothing was changed.
    Overflow {
        /// The counter.
        name: Name,
    },
    /// A counter was to be changed, and there is an attribute of that name; nothing was changed.
    WrongKind {
        /// The attribute.
        name: Name,
    },
    /// So many later patches of the same writer were applied that it cannot be told whether this
    /// one was; nothing was changed.
    TooOld,
    /// The caller's time was over; nothing was changed.
    Late,
    /// There is no such session.
    Gone(Gone),
}

impl Patched {
    /// Whether the patch was made, or may have been: under another reply it was not and never will
    /// be.
    pub const fn may_stand(&self) -> bool {
        matches!(
            self,
            Self::Applied { .. } | Self::AlreadyApplied { .. } | Self::TooOld
        )
    }
}

/// The reply to a change of id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rotated {
    /// The session has its new id.
    Rotated {
        /// The store's clock.
        now: Wall,
        /// The session.
        head: Head,
    },
    /// The new id is taken.
    Taken,
    /// There is no session under the old id; perhaps somebody rotated it first.
    Gone(Gone),
}

/// The reply to an ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destroyed {
    /// Whether there was one to end.
    pub existed: bool,
    /// Who it belonged to.
    pub principal: Option<Principal>,
}

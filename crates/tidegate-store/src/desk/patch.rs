//! A change of a session and what comes of it.

use tidegate_core::session::{Attribute, Gone, Name, Op, Patched, Replication, Version};
use tidegate_core::time::Wall;

use super::opened::Standing;

/// A change of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The changes, made together or not at all.
    pub ops: Vec<Op>,
    /// The client's name for this patch: sent again to this desk under the same name within a minute
    /// it changes nothing, and other changes under that name are refused. At most
    /// [`Patch::KEY_LEN_MAX`] bytes count.
    pub key: Option<String>,
}

/// What comes of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeskPatched {
    /// Every change was made.
    Applied {
        /// The store's clock.
        now: Wall,
        /// The session's version, which the attributes set have as well.
        version: Version,
        /// The counters that changed, as they are now.
        counters: Vec<(Name, i64)>,
        /// Where it was made: in the store, or in a copy until the store is back.
        standing: Standing,
        /// How many replicas have it.
        replication: Replication,
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
        /// What is there instead, for each attribute that differs.
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
    /// It counts on what is an attribute; nothing was changed.
    WrongKind {
        /// The attribute.
        name: Name,
    },
    /// The client has called other changes by the name of this patch; nothing was changed.
    KeyReused,
    /// So many later patches were made that it cannot be told whether this one was; nothing was
    /// changed.
    TooOld,
    /// The budget was over before its turn came; nothing was changed.
    Late,
    /// There is no such session.
    Gone(Gone),
}

impl DeskPatched {
    /// What a record's `reply` comes to: where the change was made, and who has it.
    pub(super) fn of(reply: Patched, standing: Standing, replication: Replication) -> Self {
        match reply {
            Patched::Applied {
                now,
                version,
                counters,
                ..
            } => Self::Applied {
                now,
                version,
                counters,
                standing,
                replication,
            },
            Patched::AlreadyApplied { version } => Self::AlreadyApplied { version },
            Patched::Conflict { version, current } => Self::Conflict { version, current },
            Patched::TooLarge {
                name,
                size,
                ceiling,
            } => Self::TooLarge {
                name,
                size,
                ceiling,
            },
            Patched::Overflow { name } => Self::Overflow { name },
            Patched::WrongKind { name } => Self::WrongKind { name },
            Patched::TooOld => Self::TooOld,
            Patched::Late => Self::Late,
            Patched::Gone(gone) => Self::Gone(gone),
        }
    }
}

impl Patch {
    /// Longest name of a patch, in bytes.
    pub const KEY_LEN_MAX: usize = 128;

    /// These changes, without a name.
    pub const fn of(ops: Vec<Op>) -> Self {
        Self { ops, key: None }
    }
}

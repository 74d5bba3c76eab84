//! What may be asked of a session.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::id::Uid;
use super::value::{Name, Value, Version};

/// One change of one attribute or counter. The changes of a patch happen together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Gives an attribute a value.
    Set {
        /// Its name.
        name: Name,
        /// The value.
        value: Value,
        /// What must be there now.
        expect: Expect,
    },
    /// Takes an attribute away, or a counter.
    Delete {
        /// Its name.
        name: Name,
        /// What must be there now.
        expect: Expect,
    },
    /// Adds to a counter; one that is not there begins at 0.
    Increment {
        /// Its name.
        name: Name,
        /// What is added.
        by: i64,
    },
    /// Raises a counter to at least this.
    Max {
        /// Its name.
        name: Name,
        /// The least it is afterwards.
        to: i64,
    },
}

/// What a change requires of the attribute as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expect {
    /// Nothing: the last writer wins.
    Any,
    /// That it is not there.
    Absent,
    /// That it is the one that was read.
    At(Version),
}

/// Who writes: one lane of one life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer {
    /// Drawn anew whenever the process starts.
    pub incarnation: u64,
    /// The lane: all patches of one session go over one, in order.
    pub lane: u8,
}

/// Names a patch, so that a second delivery of it changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpSeq {
    /// Who wrote it.
    pub writer: Writer,
    /// Its number among the writer's, from 1 on.
    pub number: u64,
}

/// Which attributes and counters are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fields {
    /// Every one.
    All,
    /// These.
    Only(Arc<[Name]>),
}

/// How large things in a session may get. An attribute counts the bytes of its name and value and
/// 16 for its version; a counter the bytes of its name and 20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceilings {
    /// Bytes of one value.
    pub value: u32,
    /// Bytes of all attributes and counters together.
    pub session: u32,
    /// Attributes and counters together.
    pub count: u32,
}

/// Who a session belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The user.
    pub uid: Uid,
    /// How the application ranks them, if it does: 1 to 32 characters like a [`Name`]'s.
    pub tier: Option<Name>,
    /// How often the user had signed out everywhere by this sign-in.
    pub epoch: u64,
}

/// A change of id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// At a change of rights: the old id is dead for everybody at once, and only the attributes and
    /// counters in `carry` come along.
    Privilege {
        /// Who it belongs to from now on; `None` for nobody.
        principal: Option<Principal>,
        /// Its life begins anew.
        lifetimes: super::Lifetimes,
        /// What comes along.
        carry: Vec<Name>,
        /// How long the old id is remembered as replaced.
        tombstone: Duration,
    },
    /// As a habit: everything comes along, and for a while the old id leads to the new one.
    Habit {
        /// What the holder of the old id needs to learn the new one, sealed by the gateway.
        successor: Vec<u8>,
        /// How long.
        tombstone: Duration,
    },
}

impl Writer {
    /// The writer written as `text`: the incarnation in hex, a point, the lane.
    pub fn parse(text: &str) -> Option<Self> {
        let (incarnation, lane) = text.split_once('.')?;
        Some(Self {
            incarnation: u64::from_str_radix(incarnation, 16).ok()?,
            lane: lane.parse().ok()?,
        })
    }
}

/// The form in the store.
impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{}", self.incarnation, self.lane)
    }
}

impl Op {
    /// The attribute or counter that changes.
    pub const fn name(&self) -> &Name {
        match self {
            Self::Set { name, .. }
            | Self::Delete { name, .. }
            | Self::Increment { name, .. }
            | Self::Max { name, .. } => name,
        }
    }
}

impl Default for Ceilings {
    fn default() -> Self {
        Self {
            value: 4 * 1024,
            session: 64 * 1024,
            count: 128,
        }
    }
}

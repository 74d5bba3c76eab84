//! What a desk is started with.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_core::session::{Ceilings, Durability, Lifetimes, Name, ResumePolicy, WriteClass};

use super::attributes::{AttributePlan, Attributes};
use crate::redis::RedisPlan;

/// Everything about sessions that is configured. `Default` is what holds when nothing is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeskPlan {
    /// Where sessions are kept.
    pub backend: Backend,
    /// How long they live.
    pub lives: SessionLives,
    /// How large what is in them may get.
    pub ceilings: Ceilings,
    /// Largest value that goes out of line when it is over its ceiling, in bytes; 0 for none.
    pub blob_bytes_max: u32,
    /// What holds for each attribute.
    pub attributes: Attributes,
    /// How safe a write is, by [`WriteClass::index`].
    pub durability: [Durability; WriteClass::ALL.len()],
    /// Bytes of local copies.
    pub l1_bytes: u64,
    /// How long a local copy is used without asking the store. Zero, unless an operator wants it:
    /// for so long a gateway does not see what another one wrote, or that a session was ended.
    pub trust: Duration,
    /// What a returning user finds again.
    pub resume: Resume,
    /// How long ids are remembered that are not valid any more.
    pub tombstones: Tombstones,
    /// Longest wait for an ordinary operation, at most 10 ms.
    pub operation: Duration,
    /// Longest wait for a value out of line.
    pub blob: Duration,
    /// Bytes of writes that are kept while the store is away.
    pub op_log_bytes: u64,
}

/// Where sessions are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// In this process and in a file in this folder, which is made when it is not there; `None`
    /// for no file.
    Embedded(Option<PathBuf>),
    /// In Redis or Valkey.
    Redis(RedisPlan),
}

/// How long sessions live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLives {
    /// Those that belong to nobody.
    pub anonymous: Lifetimes,
    /// Those that belong to a user.
    pub signed_in: Lifetimes,
}

/// What a returning user finds again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// How long after their last activity.
    pub window: Duration,
    /// Sessions of one user that the index knows; beyond it the ones idle longest are forgotten.
    pub sessions_max: u32,
}

/// How long ids are remembered that are not valid any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstones {
    /// After an ending on purpose: as long as a gateway may be cut off from the store.
    pub destroyed: Duration,
    /// After a sign-in or another change of rights.
    pub privilege: Duration,
    /// After a change of id as a habit.
    pub habit: Duration,
}

impl DeskPlan {
    /// How safe a write of `class` is.
    pub const fn durability(&self, class: WriteClass) -> Durability {
        self.durability[class.index()]
    }
}

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

impl Default for DeskPlan {
    fn default() -> Self {
        Self {
            backend: Backend::Embedded(None),
            lives: SessionLives::default(),
            ceilings: Ceilings::default(),
            blob_bytes_max: 1024 * 1024,
            attributes: usual_attributes(),
            durability: WriteClass::ALL.map(WriteClass::usual),
            l1_bytes: 64 * 1024 * 1024,
            trust: Duration::ZERO,
            resume: Resume::default(),
            tombstones: Tombstones::default(),
            operation: Duration::from_millis(8),
            blob: Duration::from_millis(50),
            op_log_bytes: 64 * 1024 * 1024,
        }
    }
}

/// The cart and the language come along at a sign-in and are in the ticket; the cart is kept for
/// the user's next session.
fn usual_attributes() -> Attributes {
    let name = |text| Name::new(text).expect("it is plain");
    let carried = AttributePlan {
        carry: true,
        ticket: true,
        ..AttributePlan::default()
    };
    let cart = AttributePlan {
        merge: tidegate_core::session::MergePolicy::Union,
        resume: Some(ResumePolicy::Union),
        ..carried
    };
    let named = [(name("cart"), cart), (name("locale"), carried)];
    Attributes::new(named.into(), AttributePlan::default())
}

impl Default for SessionLives {
    fn default() -> Self {
        Self {
            anonymous: Lifetimes {
                idle: minutes(30),
                absolute: minutes(7 * 24 * 60),
            },
            signed_in: Lifetimes {
                idle: minutes(30),
                absolute: minutes(12 * 60),
            },
        }
    }
}

impl Default for Resume {
    fn default() -> Self {
        Self {
            window: minutes(24 * 60),
            sessions_max: 1000,
        }
    }
}

impl Default for Tombstones {
    fn default() -> Self {
        Self {
            destroyed: minutes(24 * 60),
            privilege: minutes(1),
            habit: minutes(1),
        }
    }
}

//! Signing in, and out everywhere.

use tidegate_core::session::{Name, SessionId, Uid};
use tidegate_core::time::Wall;

/// A sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignIn {
    /// The session that the visitor had, if any.
    pub old: Option<SessionId>,
    /// The id that they get; on the slot tag of `old`.
    pub new: SessionId,
    /// Who they are.
    pub uid: Uid,
    /// How the application ranks them.
    pub tier: Option<Name>,
}

/// A session in the list of its user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The session.
    pub id: SessionId,
    /// When it was last used, to a few seconds.
    pub last_used: Wall,
}

/// What came of signing out everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedOutEverywhere {
    /// Sessions of an earlier epoch are not valid any more.
    pub epoch: u64,
    /// Sessions that the index had; others end by their epoch.
    pub ended: u32,
    /// Whether the store is away, so that other gateways learn of it when it is back.
    pub pending: bool,
}

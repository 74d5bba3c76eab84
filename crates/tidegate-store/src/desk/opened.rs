//! What comes of opening a session.

use std::sync::Arc;

use tidegate_core::session::{Gone, SessionId};
use tidegate_core::time::Wall;

use super::session::Session;

/// What comes of opening a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visit {
    /// There it is.
    Open(Seen),
    /// It is not valid any more, or never was.
    Gone(Gone),
    /// The store is away and nothing here vouches for it.
    Away,
}

/// A session as somebody sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its id: another than the one asked for after a sign-in or a rotation.
    pub id: SessionId,
    /// What is in it.
    pub session: Arc<Session>,
    /// Who vouches for it.
    pub standing: Standing,
    /// The store's clock; this machine's where no store is asked.
    pub now: Wall,
    /// When it ends unless it is used.
    pub deadline: Wall,
}

/// Who vouches for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// The store, just now (or within the plan's `trust`).
    Live,
    /// The local copy: the store is away.
    Cached,
    /// The ticket that a gateway sealed: the store is away.
    FromTicket,
    /// Nobody else: it began here while the store is away.
    Local,
    /// The store, which had lost it and was given it again.
    Recovered,
}

impl Standing {
    /// Whether the store was away.
    pub const fn is_degraded(self) -> bool {
        matches!(self, Self::Cached | Self::FromTicket | Self::Local)
    }

    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Cached => "cached",
            Self::FromTicket => "ticket",
            Self::Local => "local",
            Self::Recovered => "recovered",
        }
    }
}

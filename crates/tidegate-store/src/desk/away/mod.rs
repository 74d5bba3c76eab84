//! What happens while the store is away.

use std::sync::Arc;

use tidegate_core::session::{Fields, Op, OpSeq, SessionId, Uid};
use tidegate_core::time::Wall;

use super::error::DeskError;
use super::l1::LocalCopy;
use super::opened::{Seen, Standing, Visit};
use super::patch::DeskPatched;
use super::sign_in::{SignIn, SignedOutEverywhere};
use super::stats::Stats;
use super::ticket::Ticket;
use crate::{NewSession, Reason};

/// What a desk has of its own while the store is away.
#[derive(Default)]
pub(super) struct Away {}

/// What is known here of a session when the store does not answer.
pub(super) struct Known<'a> {
    /// The store's clock.
    pub(super) now: Wall,
    /// The session.
    pub(super) id: &'a SessionId,
    /// What the visitor carries.
    pub(super) ticket: Option<&'a Ticket>,
    /// The local copy.
    pub(super) copy: Option<Arc<LocalCopy>>,
}

#[allow(unused_variables, clippy::unused_self)]
impl Away {
    /// Whether there are writes to this session here that the store has not seen, so that only what
    /// is here is right.
    pub(super) fn holds(&self, id: &SessionId) -> bool {
        false
    }

    /// Whether this session was ended here and the store does not know yet.
    pub(super) fn denies(&self, id: &SessionId) -> bool {
        false
    }

    /// Opens a session from what is here: the copy, even one that lacks some of `fields`, else what
    /// the ticket says.
    pub(super) fn open(&self, known: &Known<'_>, fields: &Fields) -> Visit {
        if let Some(copy) = &known.copy
            && known.now < copy.deadline()
        {
            return Visit::Open(Seen {
                id: *known.id,
                session: copy.session.clone(),
                standing: Standing::Cached,
                now: known.now,
                deadline: copy.deadline(),
            });
        }
        match known.ticket {
            Some(ticket) if known.now < ticket.deadline => Visit::Open(Seen {
                id: *known.id,
                session: Arc::new(ticket.session()),
                standing: Standing::FromTicket,
                now: known.now,
                deadline: ticket.deadline,
            }),
            _ => Visit::Away,
        }
    }

    /// Creates a session here.
    pub(super) fn create(&self, now: Wall, new: NewSession) -> Result<Seen, DeskError> {
        Err(DeskError::Away)
    }

    /// Changes a session here, to change it in the store later under the same name `seq`: it may
    /// have been changed there already.
    pub(super) fn patch(
        &self,
        known: &Known<'_>,
        ops: Vec<Op>,
        seq: OpSeq,
    ) -> Result<DeskPatched, DeskError> {
        Err(DeskError::Away)
    }

    /// Gives a user a session here, under a fresh id; the old id is dead here at once. It may be
    /// that the store has done this already.
    pub(super) fn sign_in(
        &self,
        known: Option<&Known<'_>>,
        now: Wall,
        sign_in: &SignIn,
    ) -> Result<Seen, DeskError> {
        Err(DeskError::Away)
    }

    /// Ends a session here at once, and in the store later; whether there was one, as far as is
    /// known.
    pub(super) fn destroy(&self, known: &Known<'_>, reason: Reason) -> Result<bool, DeskError> {
        Err(DeskError::Away)
    }

    /// Ends all sessions of a user here at once, and in the store later.
    pub(super) fn sign_out_everywhere(
        &self,
        now: Wall,
        uid: &Uid,
        except: Option<&SessionId>,
    ) -> Result<SignedOutEverywhere, DeskError> {
        Err(DeskError::Away)
    }

    /// Puts in how things stand here.
    pub(super) fn tell(&self, stats: &mut Stats) {}
}

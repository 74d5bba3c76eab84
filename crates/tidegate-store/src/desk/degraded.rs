//! Going on without the store.

use tidegate_core::session::{Fields, Op, OpSeq, Principal, SessionId};

use super::Shared;
use super::away::Known;
use super::counters::Count;
use super::error::DeskError;
use super::opened::Visit;
use super::patch::DeskPatched;
use super::ticket::Ticket;

impl Shared {
    /// What is known here of a session.
    pub(super) fn known<'a>(&self, id: &'a SessionId, ticket: Option<&'a Ticket>) -> Known<'a> {
        // Neither does one from before a sign-out everywhere that is known here, nor such a copy.
        let stands = |principal: &Option<Principal>| {
            let principal = principal.as_ref();
            principal.is_none_or(|its| its.epoch >= self.epochs.at_last(&its.uid))
        };
        Known {
            now: self.clock.now(),
            id,
            // A ticket of another session says nothing of this one.
            ticket: ticket.filter(|ticket| ticket.id == *id && stands(&ticket.principal)),
            copy: self
                .l1
                .any(id)
                .filter(|copy| stands(&copy.session.head.principal)),
        }
    }

    pub(super) fn open_away(
        &self,
        id: &SessionId,
        ticket: Option<&Ticket>,
        fields: &Fields,
    ) -> Visit {
        if let Some(gone) = self.dead.gone(id) {
            return self.gone(gone);
        }
        let visit = self.away.open(&self.known(id, ticket), fields);
        self.counters.add(match &visit {
            Visit::Open(_) => Count::OpenedDegraded,
            Visit::Gone(_) => Count::OpenedGone,
            Visit::Away => Count::OpenedAway,
        });
        visit
    }

    pub(super) fn patch_away(
        &self,
        id: &SessionId,
        ticket: Option<&Ticket>,
        ops: Vec<Op>,
        seq: OpSeq,
    ) -> Result<DeskPatched, DeskError> {
        if let Some(gone) = self.dead.gone(id) {
            return Ok(DeskPatched::Gone(gone));
        }
        let patched = self.away.patch(&self.known(id, ticket), ops, seq)?;
        if let DeskPatched::Applied { .. } = &patched {
            self.counters.add(Count::PatchDegraded);
        }
        Ok(patched)
    }
}

//! Signing in with an id that is not its session's any more.
//!
//! Two clicks are two sign-ins with one cookie. The first gives the session its new id and leaves
//! nothing under the old one; the second begins a session of its own, and the browser keeps the
//! cookie of either. So what came along to the first, which is the heir of the old id, comes along
//! to the second as well: for the same user, within the time that a change of rights is remembered.
//! Somebody else with the same id, who may have planted it, gets nothing.

use std::sync::Arc;
use std::time::Instant;

use tidegate_core::session::{
    Fields, Format, Gone, Name, Opened, Principal, SessionId, Uid, Value, Version,
};

use super::Shared;
use super::patching::only;
use crate::{Fate, StoreError};

/// Changes of id that are followed from one id.
const MOVES_MAX: u32 = 4;

/// What an id leads to that a visitor signs in with.
pub(super) enum Led {
    /// To nothing: there never was a session, or it has ended.
    Nowhere,
    /// To a session, under this id or the one that it has got as a habit since.
    To {
        /// Its id now.
        id: SessionId,
        /// Whose it is.
        owner: Option<Uid>,
    },
    /// To nothing any more: somebody signed in with this id.
    Replaced(SessionId),
}

/// What comes along to a session that begins.
#[derive(Default)]
pub(super) struct Brought {
    pub(super) attributes: Vec<(Name, Value)>,
    pub(super) counters: Vec<(Name, i64)>,
}

impl Brought {
    pub(super) const fn is_empty(&self) -> bool {
        self.attributes.is_empty() && self.counters.is_empty()
    }
}

impl Shared {
    /// What `old` leads to.
    pub(super) async fn led(
        &self,
        old: Option<&SessionId>,
        until: Instant,
    ) -> Result<Led, StoreError> {
        let Some(old) = old else {
            return Ok(Led::Nowhere);
        };
        let nothing = Fields::Only(Arc::new([]));
        let mut id = *old;
        for _ in 0..=MOVES_MAX {
            let call = self.call(until);
            let opened = self.store.open(&id, Version::NONE, &nothing, None, call);
            match self.heard(&id, opened.await)? {
                Opened::Found { head, .. } => {
                    let owner = head.principal.map(|principal| principal.uid);
                    return Ok(Led::To { id, owner });
                }
                Opened::Gone(Gone::Replaced) => return Ok(Led::Replaced(id)),
                Opened::Gone(Gone::Rotated { .. }) => match self.moved(&id, until).await? {
                    Some(to) => id = to,
                    None => return Ok(Led::Nowhere),
                },
                Opened::Gone(_) | Opened::Unchanged { .. } => return Ok(Led::Nowhere),
            }
        }
        Ok(Led::Nowhere)
    }

    /// What comes along to the session `new` of `principal` from the heir of `old`, if that is the
    /// same user's and began lately.
    pub(super) async fn inherited(
        &self,
        old: &SessionId,
        new: &SessionId,
        principal: &Principal,
        until: Instant,
    ) -> Result<Brought, StoreError> {
        let wanted = only(self.carry.clone());
        let mut heir = *old;
        for _ in 0..MOVES_MAX {
            let Some(to) = self.moved(&heir, until).await? else {
                break;
            };
            heir = to;
            let call = self.call(until);
            let opened = self.store.open(&heir, Version::NONE, &wanted, None, call);
            let (now, head, found) = match self.heard(&heir, opened.await)? {
                Opened::Found { now, head, found } => (now, head, found),
                // It has moved on itself.
                Opened::Gone(Gone::Replaced | Gone::Rotated { .. }) => continue,
                Opened::Gone(_) | Opened::Unchanged { .. } => break,
            };
            self.dead.note_replaced(*old, Some(heir));
            let theirs = head
                .principal
                .is_some_and(|owner| owner.uid == principal.uid && owner.epoch >= principal.epoch);
            if !theirs || now.since(head.created) > self.plan.tombstones.privilege {
                break;
            }
            let mut brought = Brought {
                attributes: Vec::with_capacity(found.attributes.len()),
                counters: found.counters,
            };
            for (name, attribute) in found.attributes {
                let mut value = attribute.value;
                // What lies beside the heir goes when that one does not want it any more.
                if value.format == Format::Pointer {
                    let copied = self.copy_large(&heir, new, &name, &mut value, until);
                    if copied.await.is_err() {
                        continue;
                    }
                }
                brought.attributes.push((name, value));
            }
            return Ok(brought);
        }
        Ok(Brought::default())
    }

    /// The session that somebody signed in to with `old`, as far as it is known here.
    pub(super) fn heir(&self, old: &SessionId) -> Option<SessionId> {
        let next = |id: &SessionId| self.away.heir(id).or_else(|| self.dead.heir(id));
        let mut heir = next(old)?;
        for _ in 1..MOVES_MAX {
            let Some(further) = next(&heir) else { break };
            heir = further;
        }
        Some(heir)
    }

    /// What is told to who comes with an id that is dead here.
    pub(super) fn gone_here(&self, id: &SessionId) -> Gone {
        let gone = self.away.gone(id).or_else(|| self.dead.gone(id));
        gone.unwrap_or(Gone::Destroyed)
    }

    /// The id that `id` was changed for.
    async fn moved(&self, id: &SessionId, until: Instant) -> Result<Option<SessionId>, StoreError> {
        let fate = self.store.fate(id, self.call(until)).await;
        Ok(match self.heard(id, fate)? {
            Fate::Moved { to } => Some(to),
            Fate::Lives { .. } | Fate::Expired { .. } | Fate::Ended { .. } | Fate::Missing => None,
        })
    }
}

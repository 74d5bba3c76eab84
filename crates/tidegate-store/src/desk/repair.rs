//! What becomes of a write that the store acknowledged and then does not know any more: its primary
//! died before a replica had it, and the replica took its place.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::session::{
    Created, Expect, Fields, Gone, Lifetimes, Op, Opened, Patched, SessionId, Version,
};

use super::Shared;
use super::counters::Count;
use super::errands::Errand;
use super::flights::Landed;
use super::l1::LocalCopy;
use super::opened::Standing;
use super::opening::fresh;
use super::session::Session;
use crate::{Call, NewSession};

/// A session that the store does not know is brought back from a copy that it vouched for so lately.
/// Later, the store might have forgotten as well that the session was ended elsewhere.
const RECOVER_WITHIN: Duration = Duration::from_secs(30);

impl Shared {
    /// Writes again what the copy has and the store has lost. Counters are left alone: what was
    /// added to them may be on its way again from another gateway.
    pub(super) async fn repair(&self, id: &SessionId, copy: &LocalCopy, until: Instant) -> Landed {
        self.counters.add(Count::LostWrites);
        tracing::warn!(session = ?id, "the store has lost a write that it had acknowledged");
        let fields = copy.session.fields.clone();
        let call = self.call(until);
        let opened = self.store.open(id, Version::NONE, &fields, None, call);
        let (now, head, found) = match self.heard(id, opened.await)? {
            Opened::Found { now, head, found } => (now, head, found),
            Opened::Gone(gone) => return Ok(self.ended(id, gone)),
            Opened::Unchanged { .. } => return Ok(self.ended(id, Gone::Missing)),
        };
        let mut session = Session {
            head,
            fields,
            found,
        };
        let ops = lost(copy, &session);
        if !ops.is_empty() {
            let patched = self.rewrite(id, &ops, call).await;
            if let Some((version, before)) = patched {
                self.counters.add(Count::LostWritesRepaired);
                let stored = session.version();
                session = session.after(&ops, version, &[]);
                if before == stored {
                    session.head.version = version;
                }
            }
        }
        let session = Arc::new(session);
        self.l1.correct(*id, session.clone());
        self.admit(fresh(id, session, now), false, call).await
    }

    async fn rewrite(&self, id: &SessionId, ops: &[Op], call: Call) -> Option<(Version, Version)> {
        let seq = Some(self.next_seq());
        let patched = self
            .store
            .patch(id, ops, seq, self.plan.ceilings, None, call);
        match patched.await.ok()?.reply {
            Patched::Applied {
                before, version, ..
            } => Some((version, before)),
            // Somebody else was quicker, or it is not to be.
            _ => None,
        }
    }

    /// Creates a session again that the store has lost, if nothing else can have become of it.
    pub(super) async fn recover(&self, id: &SessionId, copy: &LocalCopy, until: Instant) -> Landed {
        let now = self.clock.now();
        let tombstones = &self.plan.tombstones;
        // Past that, the store may have forgotten whither the session went.
        let within = RECOVER_WITHIN
            .min(tombstones.privilege / 2)
            .min(tombstones.habit / 2);
        if self.l1.age(copy) > within || copy.deadline() <= now {
            return Ok(self.ended(id, Gone::Missing));
        }
        self.counters.add(Count::LostWrites);
        tracing::warn!(session = ?id, "the store has lost a session before its time");
        let head = &copy.session.head;
        let found = &copy.session.found;
        let attributes = found.attributes.iter();
        let new = NewSession {
            id: *id,
            lifetimes: Lifetimes {
                idle: head.idle,
                absolute: head.absolute.since(now),
            },
            principal: head.principal.clone(),
            attributes: attributes
                .map(|(name, attribute)| (name.clone(), attribute.value.clone()))
                .collect(),
            counters: found.counters.clone(),
        };
        let call = self.call(until);
        let created = self.store.create(&new, call).await;
        match self.heard(id, created)?.reply {
            Created::Created { now, head } => {
                self.counters.add(Count::LostWritesRepaired);
                let session = Arc::new(Session {
                    head,
                    // Of what was not asked for nothing is left.
                    fields: Fields::All,
                    found: copy.session.found.clone(),
                });
                self.l1.forget(id);
                self.errands.send(Errand::Arm {
                    id: *id,
                    deadline: session.head.deadline,
                });
                let mut seen = fresh(id, session, now);
                seen.standing = Standing::Recovered;
                self.admit(seen, true, call).await
            }
            Created::Taken => self.look_again(id, call).await,
        }
    }

    /// What there is after all: another gateway has brought the session back, or it was ended.
    async fn look_again(&self, id: &SessionId, call: Call) -> Landed {
        let opened = self.store.open(id, Version::NONE, &Fields::All, None, call);
        match self.heard(id, opened.await)? {
            Opened::Found { now, head, found } => {
                let session = Arc::new(Session {
                    head,
                    fields: Fields::All,
                    found,
                });
                self.l1.correct(*id, session.clone());
                self.admit(fresh(id, session, now), false, call).await
            }
            Opened::Gone(gone) => Ok(self.ended(id, gone)),
            Opened::Unchanged { .. } => Ok(self.ended(id, Gone::Missing)),
        }
    }
}

/// What was written to the copy after the version that the store has come back with.
fn lost(copy: &LocalCopy, stored: &Session) -> Vec<Op> {
    let attributes = copy.session.found.attributes.iter();
    let lost = attributes.filter(|(_, attribute)| attribute.version > stored.version());
    let set = lost.map(|(name, attribute)| Op::Set {
        name: name.clone(),
        value: attribute.value.clone(),
        expect: stored
            .attribute(name)
            .map_or(Expect::Absent, |there| Expect::At(there.version)),
    });
    set.collect()
}

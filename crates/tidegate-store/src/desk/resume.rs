//! What a user left behind in their last session.

use std::time::Instant;

use tidegate_core::session::{Fields, Format, Found, Op, Opened, SessionId, Uid, Version, capsule};

use super::Shared;
use super::errands::Errand;
use super::opened::Seen;
use crate::StoreError;

/// The newest sessions of a user that are looked at for one that still exists.
const SESSIONS_TRIED_MAX: u32 = 16;

/// What a user left behind.
#[derive(Default)]
pub(super) struct Legacy {
    found: Found,
    /// The session that it is in; `None` when it is in the capsule.
    session: Option<SessionId>,
}

impl Shared {
    /// What a user left behind: in the newest of their sessions that still exists and was used
    /// within the window, else in the capsule, which lives as long as the window.
    pub(super) async fn legacy(&self, uid: &Uid, until: Instant) -> Result<Legacy, StoreError> {
        if matches!(&self.resumed, Fields::Only(names) if names.is_empty()) {
            return Ok(Legacy::default());
        }
        let call = self.call(until);
        let (sessions, capsule) = tokio::join!(
            self.store.sessions_of(uid, SESSIONS_TRIED_MAX, call),
            self.store.capsule(uid, call),
        );
        let mut dead = Vec::new();
        let mut legacy = Legacy {
            found: capsule?,
            session: None,
        };
        for (id, _) in sessions? {
            let call = self.call(until);
            let opened = self
                .store
                .open(&id, Version::NONE, &self.resumed, None, call)
                .await;
            // Another part of the store is away. The sign-in goes on without that session.
            let Ok(opened) = opened else { break };
            match opened {
                Opened::Found { now, head, found } => {
                    let is_theirs = head
                        .principal
                        .is_some_and(|principal| principal.uid == *uid);
                    if is_theirs && now.since(head.last_used) <= self.plan.resume.window {
                        legacy = Legacy {
                            found,
                            session: Some(id),
                        };
                        break;
                    }
                }
                Opened::Gone(_) | Opened::Unchanged { .. } => dead.push(id),
            }
        }
        if !dead.is_empty() {
            let uid = uid.clone();
            self.errands.send(Errand::Unindex { uid, ids: dead });
        }
        Ok(legacy)
    }

    /// The changes by which a session takes up what its user left behind.
    pub(super) async fn adopted(&self, seen: &Seen, legacy: Legacy, until: Instant) -> Vec<Op> {
        if legacy.session == Some(seen.id) {
            return Vec::new();
        }
        let policy = |name: &_| self.plan.attributes.of(name).resume;
        let mut ops = capsule::adopt(&seen.session.found, &legacy.found, policy);
        let from = legacy.session.unwrap_or(seen.id);
        let mut fetched = Vec::with_capacity(ops.len());
        for mut op in ops.drain(..) {
            // What lies beside another session goes when that one does not want it any more.
            if let Op::Set { name, value, .. } = &mut op
                && value.format == Format::Pointer
                && self
                    .copy_large(&from, &seen.id, name, value, until)
                    .await
                    .is_err()
            {
                continue;
            }
            fetched.push(op);
        }
        fetched
    }
}

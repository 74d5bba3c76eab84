//! Sessions that end on purpose.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::session::{Fields, Gone, Opened, SessionId, Uid, Version, WriteClass};
use tokio::task::JoinSet;

use super::Shared;
use super::counters::Count;
use super::errands::Errand;
use super::error::DeskError;
use super::route::Route;
use super::sign_in::{Listed, SignedOutEverywhere};
use crate::{Acked, Ended, Reason, SignedOut, StoreError};

/// Sessions of a user that are asked about at a time.
const ASKED_AT_A_TIME_MAX: usize = 16;
/// An epoch is kept for so long after the last session that could be of an earlier one is over.
const EPOCH_GRACE: Duration = Duration::from_secs(60 * 60);

impl Shared {
    pub(super) async fn destroy(
        &self,
        id: &SessionId,
        reason: Reason,
        budget: Duration,
    ) -> Result<bool, DeskError> {
        let until = Instant::now() + budget;
        match self.route(id) {
            Route::Live => {}
            Route::Away => return self.destroy_away(id, reason),
            Route::Denied => return Ok(false),
        }
        let call = self.write_call(WriteClass::SignOut, until);
        let keep = self.plan.tombstones.destroyed;
        let destroyed = self.store.destroy(id, reason, keep, call).await;
        let Ok(acked) = self.heard(id, destroyed) else {
            return self.destroy_away(id, reason);
        };
        self.l1.forget(id);
        self.dead.note(*id);
        self.counters.add(Count::Destroyed);
        let ended = acked.reply;
        if ended.existed {
            self.errands.send(Errand::Tell(Ended {
                session: *id,
                uid: ended.principal.map(|principal| principal.uid),
                reason,
            }));
        }
        self.check_replication(WriteClass::SignOut, acked.replication)?;
        Ok(ended.existed)
    }

    fn destroy_away(&self, id: &SessionId, reason: Reason) -> Result<bool, DeskError> {
        let existed = self.away.destroy(&self.known(id, None), reason)?;
        self.l1.forget(id);
        self.counters.add(Count::Destroyed);
        Ok(existed)
    }

    pub(super) async fn sign_out_everywhere(
        &self,
        uid: &Uid,
        except: Option<&SessionId>,
        budget: Duration,
    ) -> Result<SignedOutEverywhere, DeskError> {
        let until = Instant::now() + budget;
        self.counters.add(Count::SignedOutEverywhere);
        let Ok(acked) = self.leave(uid, except, until).await else {
            return self.away.sign_out_everywhere(self.clock.now(), uid, except);
        };
        let signed_out = acked.reply;
        let others = signed_out.sessions.iter();
        let others: Vec<_> = others.filter(|id| Some(*id) != except).copied().collect();
        for id in &others {
            self.l1.forget(id);
            self.dead.note_outdated(*id);
            self.errands.send(Errand::Destroy {
                id: *id,
                uid: Some(uid.clone()),
                reason: Reason::SignedOutEverywhere,
            });
        }
        if let Some(spared) = except {
            // The index went with the others.
            let (id, uid) = (*spared, uid.clone());
            self.errands.send(Errand::Index { id, uid });
        }
        self.check_replication(WriteClass::SignOut, acked.replication)?;
        Ok(SignedOutEverywhere {
            epoch: signed_out.epoch,
            ended: u32::try_from(others.len()).unwrap_or(u32::MAX),
            pending: false,
        })
    }

    /// Begins the user's next epoch. The session that is spared is moved into it first: between
    /// the two it would be turned away wherever it is used.
    pub(super) async fn leave(
        &self,
        uid: &Uid,
        except: Option<&SessionId>,
        until: Instant,
    ) -> Result<Acked<SignedOut>, StoreError> {
        let next = match except {
            Some(spared) => {
                let next = self.store.epoch(uid, self.call(until)).await? + 1;
                self.spare(spared, next, until).await?;
                next
            }
            None => 0,
        };
        let lives = &self.plan.lives;
        let keep = lives.anonymous.absolute.max(lives.signed_in.absolute) + EPOCH_GRACE;
        let asked = Instant::now();
        let call = self.write_call(WriteClass::SignOut, until);
        let acked = self.store.sign_out(uid, keep, call).await?;
        let epoch = acked.reply.epoch;
        self.epochs.note(uid, epoch, asked);
        if let Some(spared) = except.filter(|_| epoch > next) {
            // Somebody else signed out everywhere at the same time. When this fails, the session
            // ends with the others: nobody stays who should not.
            let _ = self.spare(spared, epoch, until).await;
        }
        Ok(acked)
    }

    async fn spare(&self, id: &SessionId, epoch: u64, until: Instant) -> Result<(), StoreError> {
        let call = self.write_call(WriteClass::SignOut, until);
        let moved = self.store.adopt_epoch(id, epoch, call).await;
        self.heard(id, moved).map(drop)
    }

    pub(super) async fn sessions_of(
        self: &Arc<Self>,
        uid: &Uid,
        budget: Duration,
    ) -> Result<Vec<Listed>, DeskError> {
        let until = Instant::now() + budget;
        let most = self.plan.resume.sessions_max;
        let call = self.call(until);
        self.refresh_epoch(Some(uid), call).await?;
        let epoch = self.epochs.at_last(uid);
        let indexed = self.store.sessions_of(uid, most, call).await?;
        let mut listed = Vec::new();
        let mut dead = Vec::new();
        for some in indexed.chunks(ASKED_AT_A_TIME_MAX) {
            let mut asked = JoinSet::new();
            for (id, _) in some {
                let (desk, id) = (self.clone(), *id);
                asked.spawn(async move { (id, desk.last_used(&id, until).await) });
            }
            for (id, said) in asked.join_all().await {
                match said? {
                    Some((at, theirs, last_used)) if theirs == *uid && at >= epoch => {
                        listed.push(Listed { id, last_used });
                    }
                    _ => dead.push(id),
                }
            }
        }
        if !dead.is_empty() {
            let uid = uid.clone();
            self.errands.send(Errand::Unindex { uid, ids: dead });
        }
        listed.sort_by_key(|listed| std::cmp::Reverse(listed.last_used));
        Ok(listed)
    }

    /// The epoch, the user and the last use of a session that belongs to somebody.
    async fn last_used(
        &self,
        id: &SessionId,
        until: Instant,
    ) -> Result<Option<(u64, Uid, tidegate_core::time::Wall)>, StoreError> {
        let nothing = Fields::Only(Arc::new([]));
        let call = self.call(until);
        let opened = self.store.open(id, Version::NONE, &nothing, None, call);
        Ok(match opened.await? {
            Opened::Found { head, .. } => head
                .principal
                .map(|principal| (principal.epoch, principal.uid, head.last_used)),
            Opened::Unchanged { .. } => None,
            Opened::Gone(Gone::Missing | Gone::Destroyed | Gone::Replaced) => None,
            Opened::Gone(Gone::Rotated { .. }) => None,
        })
    }
}

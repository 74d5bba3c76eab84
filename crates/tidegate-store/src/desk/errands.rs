//! What a desk does after a call, without anybody waiting: keeping indexes and capsules up, cleaning
//! up after an ending.
//!
//! Nothing here decides whether a session is valid. What is lost (the process dies, the store is
//! away for too long) is made good by time: indexes are trimmed, ends are found by the janitor.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::session::{Fields, Opened, SessionId, Uid, Version, WriteClass};
use tidegate_core::time::Wall;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Shared;
use super::counters::{Count, Counters};
use crate::{Call, Ended, Reason, StoreError};

/// Errands that may wait to be begun.
const WAITING_MAX: usize = 8192;
/// Errands under way at a time.
const UNDER_WAY_MAX: usize = 64;
/// How often an errand is tried.
const TRIES_MAX: u32 = 4;
/// The pause after the first failure; it doubles.
const PAUSE: Duration = Duration::from_millis(250);
/// A session's capsule is written at most so often.
const CAPSULE_EVERY: Duration = Duration::from_secs(5);
/// Sessions whose last capsule is remembered; those of others are written at once.
const CAPSULES_MAX: usize = 65_536;
/// Events of a bucket that are kept for listeners.
pub(super) const EVENTS_KEPT: u32 = 10_000;

/// Something to be done.
#[derive(Clone, Debug)]
pub(super) enum Errand {
    /// A user's session was used: it is moved up in their index, and what is kept for their next
    /// session is kept for longer.
    Used { id: SessionId, uid: Uid },
    /// What is kept for the user's next session has changed.
    Capsule { id: SessionId },
    /// A session is to be in its user's index.
    Index { id: SessionId, uid: Uid },
    /// Sessions are not to be in their user's index any more.
    Unindex { uid: Uid, ids: Vec<SessionId> },
    /// A session is to be in the expiry index.
    Arm { id: SessionId, deadline: Wall },
    /// A session is in the expiry index under the id that it had.
    Rearm {
        from: SessionId,
        to: SessionId,
        deadline: Wall,
    },
    /// A session is to end.
    Destroy {
        id: SessionId,
        uid: Option<Uid>,
        reason: Reason,
    },
    /// A session has ended; its listeners are to be told.
    Tell(Ended),
    /// Nothing points to a large value any more.
    DropBlob { place: SessionId, blob: String },
}

enum Order {
    Run(Errand),
    /// Everything that is held back is to be done now.
    Flush(oneshot::Sender<()>),
}

/// Where errands are handed in.
pub(super) struct Errands {
    orders: mpsc::Sender<Order>,
    counters: Arc<Counters>,
}

/// Where errands come out.
pub(super) struct Inbox(mpsc::Receiver<Order>);

impl Errands {
    pub(super) fn new(counters: Arc<Counters>) -> (Self, Inbox) {
        let (orders, inbox) = mpsc::channel(WAITING_MAX);
        (Self { orders, counters }, Inbox(inbox))
    }

    /// Hands an errand in; when too many wait already it is dropped and counted.
    pub(super) fn send(&self, errand: Errand) {
        if self.orders.try_send(Order::Run(errand)).is_err() {
            self.counters.add(Count::SideWritesFailed);
        }
    }

    /// Waits until all errands handed in so far are done, with those that are held back.
    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.orders.send(Order::Flush(done)).await.is_ok() {
            // An error means that the thread has ended: there is nothing to wait for.
            let _ = flushed.await;
        }
    }
}

/// Runs errands until the desk is gone.
pub(super) async fn run(desk: Weak<Shared>, mut inbox: Inbox) {
    let mut under_way = JoinSet::new();
    let mut capsules = Capsules::default();
    let mut flushing = Vec::new();
    loop {
        let due = capsules.due_at();
        let errand = tokio::select! {
            order = inbox.0.recv(), if under_way.len() < UNDER_WAY_MAX => match order {
                Some(Order::Run(errand)) => capsules.hold_back(errand, Instant::now()),
                Some(Order::Flush(done)) => {
                    flushing.push(done);
                    capsules.hurry(Instant::now());
                    None
                }
                None => return,
            },
            () = sleep_until(due), if due.is_some() && under_way.len() < UNDER_WAY_MAX => {
                capsules.next(Instant::now()).map(|id| Errand::Capsule { id })
            }
            _ = under_way.join_next(), if !under_way.is_empty() => None,
        };
        if let Some(errand) = errand {
            let Some(desk) = desk.upgrade() else { return };
            under_way.spawn(perform(desk, errand));
        }
        // One errand may have sent another.
        if under_way.is_empty() && capsules.due_at().is_none() && inbox.0.is_empty() {
            for done in flushing.drain(..) {
                // Whoever waited may have given up.
                let _ = done.send(());
            }
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    if let Some(due) = due {
        tokio::time::sleep_until(due).await;
    }
}

async fn perform(desk: Arc<Shared>, errand: Errand) {
    let mut pause = PAUSE;
    for attempt in 1..=TRIES_MAX {
        match desk.perform(&errand).await {
            Ok(()) => return,
            Err(error) if attempt == TRIES_MAX => {
                tracing::debug!(?errand, %error, "given up");
                desk.counters.add(Count::SideWritesFailed);
            }
            Err(_) => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
        }
    }
}

impl Shared {
    async fn perform(&self, errand: &Errand) -> Result<(), StoreError> {
        let call = Call::within(self.plan.operation);
        let store = &self.store;
        match errand {
            Errand::Used { id, uid } => {
                self.index(uid, id, call).await?;
                self.keep_capsule(id, false).await
            }
            Errand::Capsule { id } => self.keep_capsule(id, true).await,
            Errand::Index { id, uid } => self.index(uid, id, call).await,
            Errand::Unindex { uid, ids } => store.unindex(uid, ids, call).await,
            Errand::Arm { id, deadline } => store.arm(id, *deadline, call).await,
            Errand::Rearm { from, to, deadline } => {
                // The old id may never have got there; an end told twice is better than none.
                if !store.rearm(from, to, *deadline, call).await? {
                    store.arm(to, *deadline, call).await?;
                }
                Ok(())
            }
            Errand::Destroy { id, uid, reason } => self.clean_up(id, uid.clone(), *reason).await,
            Errand::Tell(ended) => {
                store.finish(ended, EVENTS_KEPT, call).await?;
                match &ended.uid {
                    Some(uid) => store.unindex(uid, &[ended.session], call).await,
                    None => Ok(()),
                }
            }
            Errand::DropBlob { place, blob } => store.drop_blob(place, blob, call).await,
        }
    }

    pub(super) async fn index(
        &self,
        uid: &Uid,
        id: &SessionId,
        call: Call,
    ) -> Result<(), StoreError> {
        let resume = &self.plan.resume;
        let indexed = self
            .store
            .index(uid, id, resume.window, resume.sessions_max, call);
        indexed.await
    }

    async fn clean_up(
        &self,
        id: &SessionId,
        uid: Option<Uid>,
        reason: Reason,
    ) -> Result<(), StoreError> {
        let mut call = Call::within(self.plan.operation);
        call.redo = self.plan.durability(WriteClass::SignOut).redo;
        let keep = self.plan.tombstones.destroyed;
        let destroyed = self.store.destroy(id, reason, keep, call).await?.reply;
        let ended = Ended {
            session: *id,
            uid: destroyed.principal.map(|principal| principal.uid).or(uid),
            reason,
        };
        self.errands.send(Errand::Tell(ended));
        Ok(())
    }

    /// Writes what is kept for the user's next session, from the session itself: the copy may lack
    /// some of it. When nothing has changed, a session with nothing to keep leaves alone what an
    /// earlier one has left behind.
    async fn keep_capsule(&self, id: &SessionId, has_changed: bool) -> Result<(), StoreError> {
        let Fields::Only(names) = &self.resumed else {
            return Ok(());
        };
        if names.is_empty() {
            return Ok(());
        }
        let call = Call::within(self.plan.operation);
        let opened = self
            .store
            .open(id, Version::NONE, &self.resumed, None, call);
        let Opened::Found { now, head, found } = opened.await? else {
            return Ok(());
        };
        let is_empty = found.attributes.is_empty() && found.counters.is_empty();
        let Some(principal) = head.principal.filter(|_| has_changed || !is_empty) else {
            return Ok(());
        };
        let mut call = call;
        call.redo = self.plan.durability(WriteClass::Capsule).redo;
        let window = self.plan.resume.window;
        // When it was read: somebody may have read and written something newer since.
        let version = Version(now.as_micros());
        let put = self
            .store
            .put_capsule(&principal.uid, &found, version, window, call);
        if put.await?.reply {
            self.counters.add(Count::CapsulesWritten);
        }
        Ok(())
    }
}

/// When capsules were written and when they are to be written next.
#[derive(Default)]
struct Capsules {
    written: HashMap<SessionId, Instant>,
    due: BTreeSet<(Instant, SessionId)>,
}

impl Capsules {
    /// The errand, unless it is a capsule that has to wait.
    fn hold_back(&mut self, errand: Errand, now: Instant) -> Option<Errand> {
        let Errand::Capsule { id } = errand else {
            return Some(errand);
        };
        match self.written.get(&id) {
            Some(&written) if now.duration_since(written) < CAPSULE_EVERY => {
                self.due.insert((written + CAPSULE_EVERY, id));
                None
            }
            _ => {
                self.note(id, now);
                Some(errand)
            }
        }
    }

    fn due_at(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// A capsule that is due.
    fn next(&mut self, now: Instant) -> Option<SessionId> {
        let (_, id) = self.due.first().filter(|(due, _)| *due <= now)?;
        let id = *id;
        self.due.pop_first();
        self.note(id, now);
        Some(id)
    }

    /// Makes everything due.
    fn hurry(&mut self, now: Instant) {
        let due = std::mem::take(&mut self.due);
        self.due = due.into_iter().map(|(_, id)| (now, id)).collect();
    }

    fn note(&mut self, id: SessionId, now: Instant) {
        if self.written.len() >= CAPSULES_MAX {
            self.written
                .retain(|_, written| now.duration_since(*written) < CAPSULE_EVERY);
        }
        if self.written.len() < CAPSULES_MAX {
            self.written.insert(id, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::session::SlotTag;

    use super::*;

    #[test]
    fn a_sessions_capsule_is_written_at_once_and_then_once_in_a_while() {
        let id = SessionId::new(SlotTag::from_bits(7), *b"ABCDEFGHIJKLMNOPQRSTUV").unwrap();
        let mut capsules = Capsules::default();
        let start = Instant::now();
        let mut ask = |after| {
            let now = start + Duration::from_secs(after);
            let errand = capsules.hold_back(Errand::Capsule { id }, now);
            (errand.is_some(), capsules.due_at())
        };

        assert_eq!(ask(0), (true, None));
        let due = start + CAPSULE_EVERY;
        assert_eq!(ask(1), (false, Some(due)));
        assert_eq!(ask(2), (false, Some(due)));

        assert_eq!(capsules.next(start + Duration::from_secs(4)), None);
        assert_eq!(capsules.next(due), Some(id));
        assert_eq!(capsules.due_at(), None);
    }
}

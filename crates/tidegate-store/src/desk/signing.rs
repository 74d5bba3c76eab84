//! Sessions that begin: for nobody, for a user, under another id.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::session::{
    Attribute, Created, Fields, Found, Gone, Head, Name, Opened, Patched, Principal, Rotated,
    Rotation, SessionId, Uid, Value, Version, WriteClass,
};
use tidegate_core::time::Wall;

use super::Shared;
use super::counters::Count;
use super::errands::Errand;
use super::error::DeskError;
use super::large::NotOutside;
use super::opened::{Seen, Visit};
use super::opening::fresh;
use super::resume::Legacy;
use super::route::Route;
use super::session::Session;
use super::sign_in::SignIn;
use crate::{NewSession, StoreError};

/// How a step of a sign-in ends without a session.
pub(super) enum Failed {
    /// Told to the caller.
    Told(DeskError),
    /// The store does not answer.
    Store,
}

impl From<StoreError> for Failed {
    fn from(_: StoreError) -> Self {
        Self::Store
    }
}

impl Shared {
    pub(super) async fn create(
        &self,
        id: SessionId,
        mut attributes: Vec<(Name, Value)>,
        counters: Vec<(Name, i64)>,
        budget: Duration,
    ) -> Result<Seen, DeskError> {
        let until = Instant::now() + budget;
        let route = self.route(&id);
        if route == Route::Live {
            for (name, value) in &mut attributes {
                match self.point(&id, name, value, until).await {
                    Ok(()) => {}
                    Err(NotOutside::Oversized(value)) => {
                        return Err(DeskError::TooLarge {
                            name: Some(value.name),
                            size: value.bytes as u64,
                            ceiling: self.plan.blob_bytes_max,
                        });
                    }
                    Err(NotOutside::Forged) => {
                        let what = "a pointer is not an application's to set";
                        return Err(DeskError::Odd(what.to_owned()));
                    }
                    Err(NotOutside::Store(_)) => break,
                }
            }
        }
        self.check_ceilings(&attributes, &counters)?;
        let new = NewSession {
            id,
            lifetimes: self.plan.lives.anonymous,
            principal: None,
            attributes,
            counters,
        };
        if route == Route::Live && self.route(&id) == Route::Live {
            match self.begin(&new, WriteClass::Work, until).await {
                Ok(seen) => return Ok(seen),
                Err(Failed::Told(error)) => return Err(error),
                Err(Failed::Store) => {}
            }
        }
        self.away.create(self.clock.now(), new)
    }

    /// Whether a new session keeps the ceilings; the store does not check that.
    fn check_ceilings(
        &self,
        attributes: &[(Name, Value)],
        counters: &[(Name, i64)],
    ) -> Result<(), DeskError> {
        let ceilings = &self.plan.ceilings;
        let too_large = |name: Option<&Name>, size: u64, ceiling| {
            Err(DeskError::TooLarge {
                name: name.cloned(),
                size,
                ceiling,
            })
        };
        // As `Ceilings` counts them.
        let mut bytes = 0;
        for (name, value) in attributes {
            let size = value.bytes.len() as u64;
            if size > u64::from(ceilings.value) {
                return too_large(Some(name), size, ceilings.value);
            }
            bytes += size + name.as_str().len() as u64 + 16;
        }
        bytes += counters
            .iter()
            .map(|(name, _)| name.as_str().len() as u64 + 20)
            .sum::<u64>();
        let count = (attributes.len() + counters.len()) as u64;
        if bytes > u64::from(ceilings.session) {
            return too_large(None, bytes, ceilings.session);
        }
        if count > u64::from(ceilings.count) {
            return too_large(None, count, ceilings.count);
        }
        Ok(())
    }

    /// Creates a session in the store, in the expiry index, and in its user's index. The indexes
    /// come along rather than after: one that has a session too many does no harm.
    async fn begin(
        &self,
        new: &NewSession,
        class: WriteClass,
        until: Instant,
    ) -> Result<Seen, Failed> {
        let id = &new.id;
        let call = self.call(until);
        let deadline = after(self.clock.now(), new.lifetimes.idle);
        let (created, armed, indexed) = tokio::join!(
            self.store.create(new, self.write_call(class, until)),
            self.store.arm(id, deadline, call),
            async {
                match &new.principal {
                    Some(principal) => self.index(&principal.uid, id, call).await,
                    None => Ok(()),
                }
            },
        );
        let acked = self.heard(id, created)?;
        let (now, head) = match acked.reply {
            Created::Created { now, head } => (now, head),
            Created::Taken => return Err(Failed::Told(DeskError::Taken)),
        };
        self.clock.note(now);
        if armed.is_err() {
            let deadline = head.deadline;
            self.errands.send(Errand::Arm { id: *id, deadline });
        }
        if let Some(principal) = new.principal.as_ref().filter(|_| indexed.is_err()) {
            let uid = principal.uid.clone();
            self.errands.send(Errand::Index { id: *id, uid });
        }
        self.counters.add(Count::Created);
        let seen = fresh(id, Arc::new(born(head, new)), now);
        self.keep(&seen);
        self.check_replication(class, acked.replication)
            .map_err(Failed::Told)?;
        Ok(seen)
    }

    /// Keeps a copy of a session that has just begun.
    fn keep(&self, seen: &Seen) {
        self.unknown.forget(&seen.id);
        self.l1.offer(seen.id, seen.session.clone());
    }

    pub(super) async fn sign_in(
        &self,
        sign_in: SignIn,
        budget: Duration,
    ) -> Result<Seen, DeskError> {
        let mut sign_in = sign_in;
        // What was ended here brings nothing along.
        sign_in.old = sign_in.old.filter(|old| self.route(old) != Route::Denied);
        let old = sign_in.old.as_ref();
        if old.is_some_and(|old| old.tag() != sign_in.new.tag()) {
            let what = "the new id is not on the slot tag of the old one";
            return Err(DeskError::Odd(what.to_owned()));
        }
        let until = Instant::now() + budget;
        // What was changed here in the old session must not be left behind.
        let is_live = |id: &SessionId| self.route(id) == Route::Live;
        if is_live(&sign_in.new) && old.is_none_or(is_live) {
            match self.sign_in_live(&sign_in, until).await {
                Ok(seen) => {
                    self.counters.add(Count::SignedIn);
                    return Ok(seen);
                }
                Err(Failed::Told(error)) => return Err(error),
                Err(Failed::Store) => {}
            }
        }
        let known = old.map(|old| self.known(old, None));
        let epoch = self.epochs.known(&sign_in.uid);
        let seen = self
            .away
            .sign_in(known.as_ref(), self.clock.now(), &sign_in, epoch)?;
        self.counters.add(Count::SignedIn);
        if let Some(old) = old {
            self.l1.forget(old);
        }
        Ok(seen)
    }

    async fn sign_in_live(&self, sign_in: &SignIn, until: Instant) -> Result<Seen, Failed> {
        let SignIn {
            old,
            new,
            uid,
            tier,
        } = sign_in;
        let call = self.call(until);
        let asked = Instant::now();
        // Everything that is read comes first, at once; then what is written, in its order.
        let (epoch, legacy, before) = tokio::join!(
            self.store.epoch(uid, call),
            self.legacy(uid, until),
            self.owner(old.as_ref(), until),
        );
        let epoch = self.heard(new, epoch)?;
        self.epochs.note(uid, epoch, asked);
        let principal = Principal {
            uid: uid.clone(),
            tier: tier.clone(),
            epoch,
        };
        // A user's things do not come along to another's session, whoever shares the browser.
        let carry = match before? {
            Some(owner) if owner.as_ref().is_none_or(|owner| *owner == *uid) => self.carry.clone(),
            _ => Vec::new(),
        };
        let legacy = legacy?;
        let rotated = match old {
            Some(old) => {
                self.change_rights(old, new, &principal, carry, until)
                    .await?
            }
            None => None,
        };
        let seen = match rotated {
            Some(seen) => seen,
            // There was nothing, or somebody signed in with it first.
            None => {
                let begin = NewSession {
                    id: *new,
                    lifetimes: self.plan.lives.signed_in,
                    principal: Some(principal),
                    attributes: Vec::new(),
                    counters: Vec::new(),
                };
                self.begin(&begin, WriteClass::SignIn, until).await?
            }
        };
        let seen = self.take_up(seen, legacy, until).await?;
        if let Some(uid) = seen.session.uid() {
            self.errands.send(Errand::Used {
                id: seen.id,
                uid: uid.clone(),
            });
        }
        Ok(seen)
    }

    /// Whose the session `old` is: `None` when there is none.
    async fn owner(
        &self,
        old: Option<&SessionId>,
        until: Instant,
    ) -> Result<Option<Option<Uid>>, StoreError> {
        let Some(old) = old else { return Ok(None) };
        let nothing = Fields::Only(Arc::new([]));
        let call = self.call(until);
        let opened = self.store.open(old, Version::NONE, &nothing, None, call);
        Ok(match self.heard(old, opened.await)? {
            Opened::Found { head, .. } => Some(head.principal.map(|principal| principal.uid)),
            Opened::Unchanged { .. } | Opened::Gone(_) => None,
        })
    }

    /// Moves a session to a new id that belongs to `principal`; `None` when there is none under the
    /// old one.
    async fn change_rights(
        &self,
        old: &SessionId,
        new: &SessionId,
        principal: &Principal,
        carry: Vec<Name>,
        until: Instant,
    ) -> Result<Option<Seen>, Failed> {
        let rotation = Rotation::Privilege {
            principal: Some(principal.clone()),
            lifetimes: self.plan.lives.signed_in,
            carry,
            tombstone: self.plan.tombstones.privilege,
        };
        let call = self.write_call(WriteClass::SignIn, until);
        let (rotated, indexed) = tokio::join!(
            self.store.rotate(old, new, &rotation, call),
            self.index(&principal.uid, new, self.call(until)),
        );
        let acked = self.heard(new, rotated)?;
        self.l1.forget(old);
        match acked.reply {
            Rotated::Rotated { now, head } => {
                self.clock.note(now);
                self.unknown.forget(new);
                if indexed.is_err() {
                    let uid = principal.uid.clone();
                    self.errands.send(Errand::Index { id: *new, uid });
                }
                self.errands.send(Errand::Rearm {
                    from: *old,
                    to: *new,
                    deadline: head.deadline,
                });
                self.check_replication(WriteClass::SignIn, acked.replication)
                    .map_err(Failed::Told)?;
                let session = self.read(new, until).await?;
                Ok(Some(fresh(new, Arc::new(session), now)))
            }
            Rotated::Taken => Err(Failed::Told(DeskError::Taken)),
            Rotated::Gone(_) => Ok(None),
        }
    }

    /// What is in a session of what may have come along or can be taken up.
    async fn read(&self, id: &SessionId, until: Instant) -> Result<Session, Failed> {
        let call = self.call(until);
        let opened = self.store.open(id, Version::NONE, &Fields::All, None, call);
        match self.heard(id, opened.await)? {
            Opened::Found { head, found, .. } => Ok(Session {
                head,
                fields: Fields::All,
                found,
            }),
            // It began a moment ago.
            Opened::Unchanged { .. } | Opened::Gone(_) => Err(Failed::Store),
        }
    }

    /// Makes the changes by which a session takes up what its user left behind.
    pub(super) async fn take_up(
        &self,
        seen: Seen,
        legacy: Legacy,
        until: Instant,
    ) -> Result<Seen, Failed> {
        let ops = self.adopted(&seen, legacy, until).await;
        if ops.is_empty() {
            self.keep(&seen);
            return Ok(seen);
        }
        let call = self.write_call(WriteClass::Work, until);
        let seq = Some(self.next_seq());
        let ceilings = self.plan.ceilings;
        let patched = self
            .store
            .patch(&seen.id, &ops, seq, ceilings, None, call)
            .await;
        // The user is signed in. What could not be taken up is still there for the next time.
        let patched = self.heard(&seen.id, patched).map(|acked| acked.reply);
        let Ok(Patched::Applied {
            version, counters, ..
        }) = patched
        else {
            self.keep(&seen);
            return Ok(seen);
        };
        self.counters.add(Count::Resumed);
        let mut session = seen.session.after(&ops, version, &counters);
        session.head.version = version;
        let seen = Seen {
            session: Arc::new(session),
            ..seen
        };
        self.keep(&seen);
        Ok(seen)
    }

    pub(super) async fn rotate(
        &self,
        old: &SessionId,
        new: SessionId,
        successor: Vec<u8>,
        budget: Duration,
    ) -> Result<Visit, DeskError> {
        let until = Instant::now() + budget;
        match self.route(old) {
            Route::Live => {}
            // A habit can wait.
            Route::Away => return Err(DeskError::Away),
            Route::Denied => return Ok(Visit::Gone(Gone::Destroyed)),
        }
        let rotation = Rotation::Habit {
            successor,
            tombstone: self.plan.tombstones.habit,
        };
        let call = self.write_call(WriteClass::SignIn, until);
        let rotated = self.store.rotate(old, &new, &rotation, call).await;
        let acked = self.heard(old, rotated)?;
        self.l1.forget(old);
        let (now, head) = match acked.reply {
            Rotated::Rotated { now, head } => (now, head),
            Rotated::Taken => return Err(DeskError::Taken),
            Rotated::Gone(gone) => return Ok(Visit::Gone(gone)),
        };
        self.clock.note(now);
        self.unknown.forget(&new);
        self.counters.add(Count::Rotated);
        self.errands.send(Errand::Rearm {
            from: *old,
            to: new,
            deadline: head.deadline,
        });
        if let Some(principal) = head.principal {
            let uid = principal.uid;
            self.errands.send(Errand::Index {
                id: new,
                uid: uid.clone(),
            });
            let ids = vec![*old];
            self.errands.send(Errand::Unindex { uid, ids });
        }
        self.check_replication(WriteClass::SignIn, acked.replication)?;
        match self.read(&new, until).await {
            Ok(session) => {
                let seen = fresh(&new, Arc::new(session), now);
                self.keep(&seen);
                Ok(Visit::Open(seen))
            }
            Err(_) => Err(DeskError::Away),
        }
    }
}

/// A session as it begins.
fn born(head: Head, new: &NewSession) -> Session {
    let version = head.version;
    let attributes = new.attributes.iter().map(|(name, value)| {
        let value = value.clone();
        (name.clone(), Attribute { version, value })
    });
    Session {
        found: Found {
            attributes: attributes.collect(),
            counters: new.counters.clone(),
        },
        fields: Fields::All,
        head,
    }
}

fn after(now: Wall, span: Duration) -> Wall {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    Wall::from_micros(now.as_micros().saturating_add(micros))
}

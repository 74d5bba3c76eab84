//! Sessions that begin for a user.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::session::{Name, Patched, Principal, Rotated, Rotation, SessionId, WriteClass};

use super::Shared;
use super::away::Before;
use super::births::Failed;
use super::counters::Count;
use super::errands::Errand;
use super::error::DeskError;
use super::heirs::{Brought, Led};
use super::opened::Seen;
use super::opening::fresh;
use super::resume::Legacy;
use super::route::Route;
use super::sign_in::SignIn;
use super::ticket::Ticket;
use crate::NewSession;

/// How often it is looked at what the old id leads to, when others sign in with it meanwhile.
const LOOKS_MAX: u32 = 2;

impl Shared {
    pub(super) async fn sign_in(
        &self,
        sign_in: SignIn,
        ticket: Option<&Ticket>,
        budget: Duration,
    ) -> Result<Seen, DeskError> {
        let mut sign_in = sign_in;
        // What was ended here brings nothing along, unless it was a sign-in that ended it.
        sign_in.old = sign_in
            .old
            .filter(|old| self.route(old) != Route::Denied || self.heir(old).is_some());
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
        let heir = old.and_then(|old| self.heir(old));
        let before = match (&heir, old) {
            (Some(heir), _) => Before::Heir(self.known(heir, None)),
            (None, Some(old)) => Before::Session(self.known(old, ticket)),
            (None, None) => Before::Nothing,
        };
        let epoch = self.epochs.known(&sign_in.uid);
        let now = self.clock.now();
        let seen = self.away.sign_in(&before, now, &sign_in, epoch)?;
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
        let (epoch, legacy, led) = tokio::join!(
            self.store.epoch(uid, call),
            self.legacy(uid, until),
            self.led(old.as_ref(), until),
        );
        let epoch = self.heard(new, epoch)?;
        self.epochs.note(uid, epoch, asked);
        let principal = Principal {
            uid: uid.clone(),
            tier: tier.clone(),
            epoch,
        };
        let (mut led, legacy) = (led?, legacy?);
        let mut rotated = None;
        for _ in 0..LOOKS_MAX {
            let Led::To { id, owner } = &led else { break };
            // A user's things do not come along to another's session, whoever shares the browser.
            let carry = match owner {
                Some(owner) if owner != uid => Vec::new(),
                _ => self.carry.clone(),
            };
            rotated = self
                .change_rights(id, new, &principal, carry, until)
                .await?;
            if rotated.is_some() {
                break;
            }
            // Somebody was quicker.
            led = self.led(old.as_ref(), until).await?;
        }
        let seen = match rotated {
            Some(seen) => seen,
            None => {
                let brought = match &led {
                    Led::Replaced(id) => self.inherited(id, new, &principal, until).await?,
                    Led::Nowhere | Led::To { .. } => Brought::default(),
                };
                let begin = NewSession {
                    id: *new,
                    lifetimes: self.plan.lives.signed_in,
                    principal: Some(principal),
                    attributes: brought.attributes,
                    counters: brought.counters,
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
                self.dead.note_replaced(*old, Some(*new));
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
}

//! Opening a session while the store is there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::session::{Fields, Gone, Lifetimes, Opened, Principal, SessionId, Uid, Version};
use tidegate_core::time::Wall;

use super::Shared;
use super::counters::Count;
use super::errands::Errand;
use super::flights::{Landed, Lead, Seat};
use super::l1::LocalCopy;
use super::opened::{Seen, Standing, Visit};
use super::route::Route;
use super::session::{Session, covers, union};
use super::ticket::Ticket;
use crate::{Call, Reason, StoreError};

/// How often a place is sought in a flight whose leader leaves.
const FLIGHTS_TRIED_MAX: usize = 3;

impl Shared {
    pub(super) async fn open(
        &self,
        id: &SessionId,
        ticket: Option<&Ticket>,
        fields: &Fields,
        budget: Duration,
    ) -> Visit {
        let until = Instant::now() + budget;
        match self.route(id) {
            Route::Live => {}
            Route::Away => return self.open_away(id, ticket, fields),
            Route::Denied => return self.gone(self.gone_here(id)),
        }
        if let Some(gone) = self.dead.gone_for_all(id) {
            return self.gone(gone);
        }
        if self.unknown.has(id) {
            self.counters.add(Count::OpenedUnknown);
            return self.gone(Gone::Missing);
        }
        if let Some(seen) = self.trusted(id, fields) {
            self.counters.add(Count::OpenedTrusted);
            return Visit::Open(seen);
        }
        match self.fly(id, ticket, fields, until).await {
            Ok(visit) => visit,
            Err(_) => self.open_away(id, ticket, fields),
        }
    }

    /// The session as a copy has it that the plan trusts without asking.
    fn trusted(&self, id: &SessionId, fields: &Fields) -> Option<Seen> {
        if self.plan.trust.is_zero() {
            return None;
        }
        let copy = self.l1.any(id)?;
        let now = self.clock.now();
        let principal = copy.session.head.principal.as_ref();
        let stands = self.l1.age(&copy) < self.plan.trust
            && now < copy.deadline()
            && covers(&copy.session.fields, fields)
            && principal
                .is_none_or(|principal| principal.epoch >= self.epochs.at_last(&principal.uid));
        stands.then(|| seen(id, &copy, Standing::Live, now))
    }

    /// Asks the store, or joins who is about to.
    async fn fly(
        &self,
        id: &SessionId,
        ticket: Option<&Ticket>,
        fields: &Fields,
        until: Instant,
    ) -> Landed {
        for _ in 0..FLIGHTS_TRIED_MAX {
            match self.flights.board(id, fields) {
                Seat::Lead(lead) => return self.lead(lead, id, ticket, until).await,
                Seat::Join(join) => {
                    let landed = tokio::time::timeout_at(until.into(), join.landed()).await;
                    match landed {
                        Ok(Some(landed)) => {
                            self.counters.add(Count::OpenedJoined);
                            return landed;
                        }
                        Ok(None) => {}
                        Err(_) => return Err(StoreError::Timeout),
                    }
                }
                Seat::None => return Err(StoreError::Busy),
            }
        }
        Err(StoreError::Busy)
    }

    async fn lead(
        &self,
        mut lead: Lead,
        id: &SessionId,
        ticket: Option<&Ticket>,
        until: Instant,
    ) -> Landed {
        let fields = lead.depart().await?;
        let landed = self.ask(id, ticket, fields, until).await;
        lead.land(landed.clone());
        landed
    }

    /// Asks the store about a session, and how often its user has signed out everywhere.
    async fn ask(
        &self,
        id: &SessionId,
        ticket: Option<&Ticket>,
        fields: Fields,
        until: Instant,
    ) -> Landed {
        let copy = self.l1.young(id);
        let (known, fields) = question(copy.as_deref(), fields);
        let principal = match &copy {
            Some(copy) => copy.session.head.principal.as_ref(),
            None => ticket.and_then(|ticket| ticket.principal.as_ref()),
        };
        let touch_after = self.touch_after(copy.as_deref());
        let call = self.call(until);
        let uid = principal.map(|principal| &principal.uid);
        // When the user is known beforehand, both questions are under way at once.
        let (opened, _) = tokio::join!(
            self.store.open(id, known, &fields, Some(touch_after), call),
            self.refresh_epoch(uid, call),
        );
        let opened = self.heard(id, opened)?;
        self.counters.add(Count::Opened);
        match opened {
            Opened::Unchanged { now, deadline } => {
                self.clock.note(now);
                let copy = copy.ok_or_else(|| {
                    StoreError::Odd("a session is unchanged that was not known".to_owned())
                })?;
                if copy.acked > known {
                    return self.repair(id, &copy, until).await;
                }
                self.counters.add(Count::OpenedUnchanged);
                let is_touched = deadline > copy.deadline();
                self.l1.vouch(&copy, deadline);
                let seen = seen(id, &copy, Standing::Live, now);
                self.admit(seen, is_touched, call).await
            }
            Opened::Found { now, head, found } => {
                self.clock.note(now);
                let session = Arc::new(Session {
                    head,
                    fields,
                    found,
                });
                if let Some(copy) = copy.filter(|copy| copy.acked > session.version()) {
                    return self.repair(id, &copy, until).await;
                }
                self.l1.offer(*id, session.clone());
                let is_touched = millis(session.head.last_used) == millis(now);
                let seen = fresh(id, session, now);
                self.admit(seen, is_touched, call).await
            }
            Opened::Gone(gone) => match copy {
                Some(copy) if gone == Gone::Missing => self.recover(id, &copy, until).await,
                _ => Ok(self.ended(id, gone)),
            },
        }
    }

    /// Lets a session in, or turns it away because its user has signed out everywhere since.
    pub(super) async fn admit(&self, mut seen: Seen, is_touched: bool, call: Call) -> Landed {
        let Some(principal) = seen.session.head.principal.clone() else {
            return Ok(Visit::Open(seen));
        };
        if self
            .refresh_epoch(Some(&principal.uid), call)
            .await
            .is_err()
        {
            // The user's part of the store is away though the session's is not. What is known here
            // decides; the session itself ends with a sign-out as well, if its index has it.
            seen.standing = Standing::Cached;
        }
        if self.away.denies_user(&seen.id, &seen.session.head) {
            return Ok(self.ended(&seen.id, Gone::Destroyed));
        }
        let epoch = self.epochs.at_last(&principal.uid);
        if principal.epoch < epoch && self.is_outdated(&seen.id, epoch, call).await? {
            return Ok(self.turn_away(&seen.id, principal));
        }
        if is_touched {
            self.errands.send(Errand::Used {
                id: seen.id,
                uid: principal.uid,
            });
        }
        Ok(Visit::Open(seen))
    }

    /// Whether a session is of an earlier epoch for certain: it may have been moved into the new one
    /// between the two questions, to be spared.
    async fn is_outdated(
        &self,
        id: &SessionId,
        epoch: u64,
        call: Call,
    ) -> Result<bool, StoreError> {
        let nothing = Fields::Only(Arc::new([]));
        let opened = self.store.open(id, Version::NONE, &nothing, None, call);
        Ok(match self.heard(id, opened.await)? {
            Opened::Found { head, .. } => head
                .principal
                .is_some_and(|principal| principal.epoch < epoch),
            Opened::Unchanged { .. } | Opened::Gone(_) => true,
        })
    }

    fn turn_away(&self, id: &SessionId, principal: Principal) -> Visit {
        self.counters.add(Count::EpochRefused);
        // The index has missed it, or it would not be there any more.
        self.errands.send(Errand::Destroy {
            id: *id,
            uid: Some(principal.uid),
            reason: Reason::SignedOutEverywhere,
        });
        self.l1.forget(id);
        self.dead.note_outdated(*id);
        self.gone(Gone::Destroyed)
    }

    /// Makes sure that the epoch of `uid` is known that holds now.
    pub(super) async fn refresh_epoch(
        &self,
        uid: Option<&Uid>,
        call: Call,
    ) -> Result<(), StoreError> {
        let Some(uid) = uid.filter(|uid| self.epochs.lately(uid).is_none()) else {
            return Ok(());
        };
        let asked = Instant::now();
        let epoch = self.store.epoch(uid, call).await?;
        self.epochs.note(uid, epoch, asked);
        Ok(())
    }

    /// Notes that a session is not there any more.
    pub(super) fn ended(&self, id: &SessionId, gone: Gone) -> Visit {
        self.l1.forget(id);
        match gone {
            Gone::Missing => self.unknown.note(*id),
            Gone::Destroyed => self.dead.note(*id),
            Gone::Replaced => self.dead.note_replaced(*id, None),
            Gone::Rotated { .. } => {}
        }
        self.gone(gone)
    }

    pub(super) fn gone(&self, gone: Gone) -> Visit {
        self.counters.add(Count::OpenedGone);
        Visit::Gone(gone)
    }

    /// How old a touch may be before another is written.
    fn touch_after(&self, copy: Option<&LocalCopy>) -> Duration {
        let lives = &self.plan.lives;
        match copy {
            Some(copy) => {
                let head = &copy.session.head;
                Lifetimes {
                    idle: head.idle,
                    absolute: head.absolute.since(head.created),
                }
                .touch_after()
            }
            // Whose it is is not known yet: the finer grain.
            None => lives
                .anonymous
                .touch_after()
                .min(lives.signed_in.touch_after()),
        }
    }

    pub(super) async fn show(&self, id: &SessionId, budget: Duration) -> Visit {
        let call = self.call(Instant::now() + budget);
        let opened = self.store.open(id, Version::NONE, &Fields::All, None, call);
        match self.heard(id, opened.await) {
            Ok(Opened::Found { now, head, found }) => {
                let fields = Fields::All;
                let session = Arc::new(Session {
                    head,
                    fields,
                    found,
                });
                let seen = fresh(id, session, now);
                self.admit(seen, false, call).await.unwrap_or(Visit::Away)
            }
            Ok(Opened::Gone(gone)) => Visit::Gone(gone),
            Ok(Opened::Unchanged { .. }) | Err(_) => Visit::Away,
        }
    }
}

/// What to ask for: which version is known, and which fields are wanted if it is another.
fn question(copy: Option<&LocalCopy>, fields: Fields) -> (Version, Fields) {
    match copy {
        None => (Version::NONE, fields),
        Some(copy) if covers(&copy.session.fields, &fields) => {
            (copy.session.version(), copy.session.fields.clone())
        }
        // Routes with different lists would drive each other's fields out.
        Some(copy) => (Version::NONE, union(&copy.session.fields, &fields)),
    }
}

/// A session as the copy has it.
pub(super) fn seen(id: &SessionId, copy: &LocalCopy, standing: Standing, now: Wall) -> Seen {
    Seen {
        id: *id,
        session: copy.session.clone(),
        standing,
        now,
        deadline: copy.deadline(),
    }
}

/// A session as the store has just shown it.
pub(super) fn fresh(id: &SessionId, session: Arc<Session>, now: Wall) -> Seen {
    Seen {
        id: *id,
        standing: Standing::Live,
        now,
        deadline: session.head.deadline,
        session,
    }
}

const fn millis(time: Wall) -> u64 {
    time.as_micros() / 1000
}

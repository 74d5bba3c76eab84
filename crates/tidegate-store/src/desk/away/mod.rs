//! What happens while the store is away.
//!
//! A session goes on here from the local copy, else from what its visitor carries, else it begins
//! here. What is written is written to a record of its own and noted in a log; what is ended is
//! ended here at once. When the store is back it is told of the endings first, then of the sessions
//! that began here, then of the changes, slowly (see `heal`). Until it is told of a session, that
//! session goes on here.
//!
//! All of this is in memory: what a process that dies has not told is lost.

mod current;
mod denied;
mod heal;
mod held;
mod ledger;
mod local;
mod pace;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_core::session::{
    Birth, Ceilings, Fields, Found, Gone, Head, Lifetimes, Name, Op, OpSeq, Principal, Record,
    Replication, SessionId, Uid,
};
use tidegate_core::time::Wall;
use tokio::sync::Notify;

use super::error::DeskError;
use super::l1::LocalCopy;
use super::opened::{Seen, Visit};
use super::patch::DeskPatched;
use super::plan::DeskPlan;
use super::session::{Session, has};
use super::sign_in::{SignIn, SignedOutEverywhere};
use super::stats::Stats;
use super::ticket::Ticket;
use crate::{NewSession, Reason};
use denied::{Denied, Ending};
use held::Held;
use local::{Local, Origin};

pub(super) use heal::run;

/// What a desk has of its own while the store is away.
pub(super) struct Away {
    inside: Mutex<Inside>,
    /// Sessions that go on here, and endings that the store does not know: usually none.
    count: AtomicUsize,
    /// Wakes the healer.
    wake: Arc<Notify>,
    ceilings: Ceilings,
    signed_in: Lifetimes,
    carry: Vec<Name>,
    /// How long after a sign-in with the same id another one gets the same.
    again_within: Duration,
    bytes_max: usize,
}

#[derive(Default)]
struct Inside {
    held: Held,
    denied: Denied,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    dropped: u64,
    healed: u64,
    gave_way: u64,
    refused: u64,
    forgotten: u64,
    recreated: u64,
}

/// What a sign-in finds of the visitor's session.
pub(super) enum Before<'a> {
    /// Nothing.
    Nothing,
    /// It is there. It ends, and what is on the carry list comes along.
    Session(Known<'a>),
    /// Somebody signed in with the same id a moment ago, to this session, which stays. When it was
    /// the same user, what came along then comes along again.
    Heir(Known<'a>),
}

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

impl Away {
    /// What goes on by `plan`; names in `carry` come along at a sign-in.
    pub(super) fn new(plan: &DeskPlan, carry: Vec<Name>) -> Self {
        Self {
            inside: Mutex::default(),
            count: AtomicUsize::new(0),
            wake: Arc::new(Notify::new()),
            ceilings: plan.ceilings,
            signed_in: plan.lives.signed_in,
            carry,
            again_within: plan.tombstones.privilege,
            bytes_max: usize::try_from(plan.op_log_bytes).unwrap_or(usize::MAX),
        }
    }

    /// Whether this session goes on here, so that only what is here is right.
    pub(super) fn holds(&self, id: &SessionId) -> bool {
        self.has_any() && self.lock().held.has(id)
    }

    /// Whether this session was ended here and the store does not know yet.
    pub(super) fn denies(&self, id: &SessionId) -> bool {
        self.has_any() && self.lock().denied.has(id)
    }

    /// What is told to who comes with an id that was ended here; `None` when it was not, or the
    /// store knows.
    pub(super) fn gone(&self, id: &SessionId) -> Option<Gone> {
        self.lock().denied.gone(id)
    }

    /// The session that somebody signed in to here with `id`, if the store does not know yet.
    pub(super) fn heir(&self, id: &SessionId) -> Option<SessionId> {
        let heir = |inside: &Inside| inside.denied.heir(id);
        self.has_any().then(|| heir(&self.lock())).flatten()
    }

    /// Whether this session's user was signed out everywhere here after it began, and the store
    /// does not know yet.
    pub(super) fn denies_user(&self, id: &SessionId, head: &Head) -> bool {
        let Some(principal) = &head.principal else {
            return false;
        };
        let began = Some(head.created);
        self.has_any() && self.lock().denied.has_user(&principal.uid, id, began)
    }

    /// Opens a session from what is here: as it goes on, else from the copy, even one that lacks
    /// some of `fields`, else from what the ticket says.
    pub(super) fn open(&self, known: &Known<'_>, fields: &Fields) -> Visit {
        self.with(|inside| {
            if let Err(gone) = self.take_in(inside, known) {
                return gone;
            }
            let (now, id) = (known.now, *known.id);
            let opened = inside.held.change(&id, |local| {
                local.use_at(now);
                Seen {
                    id,
                    session: local.session(fields),
                    standing: local.standing(),
                    now,
                    deadline: local.deadline(),
                }
            });
            opened.map_or(Visit::Away, Visit::Open)
        })
    }

    /// Creates a session here.
    pub(super) fn create(&self, now: Wall, new: NewSession) -> Result<Seen, DeskError> {
        let birth = Birth {
            lifetimes: new.lifetimes,
            principal: new.principal.as_ref(),
            attributes: &new.attributes,
            counters: &new.counters,
        };
        let record = Record::create(now, birth);
        let seed = Session {
            head: record.head(),
            fields: Fields::All,
            found: record.found(&Fields::All),
        };
        let local = Local::new(Origin::Born, Arc::new(seed), now);
        self.with(|inside| self.begin(inside, now, new.id, local))
    }

    /// Changes a session here, to change it in the store later under the same name `seq`: it may
    /// have been changed there already.
    pub(super) fn patch(
        &self,
        known: &Known<'_>,
        ops: Vec<Op>,
        seq: OpSeq,
    ) -> Result<DeskPatched, DeskError> {
        self.with(|inside| {
            match self.take_in(inside, known) {
                Ok(()) => {}
                Err(Visit::Gone(gone)) => return Ok(DeskPatched::Gone(gone)),
                Err(Visit::Away | Visit::Open(_)) => return Err(DeskError::Away),
            }
            let patched = inside.held.change(known.id, |local| {
                let patched = local.patch(known.now, ops, seq, self.ceilings);
                DeskPatched::of(patched, local.standing(), Replication::Unasked)
            });
            inside.counts.dropped += inside.held.shrink(self.bytes_max);
            patched.ok_or(DeskError::Away)
        })
    }

    /// Gives a user a session here, under a fresh id; the old id is dead here at once. `epoch` is
    /// how often the user had signed out everywhere, if that is known. It may be that the store has
    /// done all this already.
    pub(super) fn sign_in(
        &self,
        before: &Before<'_>,
        now: Wall,
        sign_in: &SignIn,
        epoch: Option<u64>,
    ) -> Result<Seen, DeskError> {
        let principal = Principal {
            uid: sign_in.uid.clone(),
            tier: sign_in.tier.clone(),
            epoch: epoch.unwrap_or(0),
        };
        self.with(|inside| {
            if inside.held.has(&sign_in.new) {
                return Err(DeskError::Taken);
            }
            if sign_in.old.is_some() && inside.denied.is_full() {
                return Err(DeskError::Busy);
            }
            let (mut carried, mut old, mut ended) = (Found::default(), sign_in.old, None);
            match before {
                Before::Nothing => {}
                Before::Heir(heir) => match self.inherited(inside, heir, &sign_in.uid) {
                    Some(found) => carried = found,
                    // Nor may the old session be theirs when the store is told of it.
                    None => old = None,
                },
                Before::Session(known) => {
                    // One that was signed out gives nothing to anybody.
                    old = old.filter(|old| !inside.denied.has(old));
                    ended = self.end_for(inside, known, sign_in);
                    if let Some(ended) = &ended {
                        carried = self.carried(&ended.seed.found);
                    }
                }
            }
            let origin = Origin::SignedIn { old, epoch };
            let seed = self.signed_in(now, principal, carried);
            let mut local = Local::new(origin, Arc::new(seed), now);
            if let Some(ended) = ended {
                local.take_over(ended, &self.carry, self.ceilings);
            }
            self.begin(inside, now, sign_in.new, local)
        })
    }

    /// Ends the session that a visitor signs in with, and returns it unless it is somebody else's.
    fn end_for(&self, inside: &mut Inside, known: &Known<'_>, sign_in: &SignIn) -> Option<Local> {
        let taken = self.take_in(inside, known).ok();
        let before = taken.and_then(|()| inside.held.take(known.id));
        if !inside.denied.has(known.id) {
            let ending = Ending {
                reason: Reason::Destroyed,
                uid: None,
                successor: Some(sign_in.new),
                retry_at: None,
            };
            inside.denied.end(*known.id, ending);
        }
        // A user's things do not come along to another's session, whoever shares the browser.
        before.filter(|before| {
            let owner = before.principal();
            owner.is_none_or(|owner| owner.uid == sign_in.uid)
        })
    }

    /// What comes along to a session of `uid` from the one that somebody signed in to with the same
    /// id; `None` when that was somebody else, or long ago.
    fn inherited(&self, inside: &mut Inside, heir: &Known<'_>, uid: &Uid) -> Option<Found> {
        self.take_in(inside, heir).ok()?;
        let local = inside.held.local(heir.id)?;
        let began = local.seed.head.created;
        let theirs = local.principal().is_some_and(|owner| owner.uid == *uid);
        let lately = heir.now.since(began) <= self.again_within;
        (theirs && lately).then(|| self.carried(&local.session(&Fields::All).found))
    }

    /// Ends a session here at once, and in the store later; whether there was one, as far as is
    /// known.
    pub(super) fn destroy(&self, known: &Known<'_>, reason: Reason) -> Result<bool, DeskError> {
        self.with(|inside| {
            if inside.denied.is_full() {
                return Err(DeskError::Busy);
            }
            let existed = self.take_in(inside, known).is_ok();
            let local = inside.held.take(known.id);
            let owner = local.as_ref().and_then(Local::principal);
            let ending = Ending {
                reason,
                uid: owner.map(|owner| owner.uid.clone()),
                successor: None,
                retry_at: None,
            };
            inside.denied.end(*known.id, ending);
            Ok(existed)
        })
    }

    /// Ends all sessions of a user here at once, and in the store later.
    pub(super) fn sign_out_everywhere(
        &self,
        now: Wall,
        uid: &Uid,
        except: Option<&SessionId>,
    ) -> Result<SignedOutEverywhere, DeskError> {
        self.with(|inside| {
            if inside.denied.is_full() {
                return Err(DeskError::Busy);
            }
            inside.denied.sign_out(uid.clone(), now, except.copied());
            let ended = inside.held.take_of(uid, except);
            for id in &ended {
                let ending = Ending {
                    reason: Reason::SignedOutEverywhere,
                    uid: Some(uid.clone()),
                    successor: None,
                    retry_at: None,
                };
                inside.denied.end(*id, ending);
            }
            let Inside { held, denied, .. } = inside;
            denied.part_orphans(|id| held.has(id));
            Ok(SignedOutEverywhere {
                // Known when the store is back.
                epoch: 0,
                ended: u32::try_from(ended.len()).unwrap_or(u32::MAX),
                pending: true,
            })
        })
    }

    /// Wakes the healer.
    pub(super) fn wake(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    /// Puts in how things stand here.
    pub(super) fn tell(&self, stats: &mut Stats) {
        let inside = self.lock();
        stats.away_sessions = inside.held.len() as u64;
        stats.away_endings = inside.denied.len() as u64;
        stats.op_log_bytes = inside.held.bytes() as u64;
        stats.op_log_dropped = inside.counts.dropped;
        stats.healed = inside.counts.healed;
        stats.heal_gave_way = inside.counts.gave_way;
        stats.heal_refused = inside.counts.refused;
        stats.heal_forgotten = inside.counts.forgotten;
        stats.heal_recreated = inside.counts.recreated;
    }

    /// Lets a session go on here, if it is known and valid.
    fn take_in(&self, inside: &mut Inside, known: &Known<'_>) -> Result<(), Visit> {
        let (now, id) = (known.now, known.id);
        if let Some(gone) = inside.denied.gone(id) {
            return Err(Visit::Gone(gone));
        }
        if let Some(local) = inside.held.local(id) {
            let over = local.is_over(now);
            return if over {
                Err(Visit::Gone(Gone::Missing))
            } else {
                Ok(())
            };
        }
        let (origin, seed, began) = seed(known).ok_or(Visit::Away)?;
        let denied = seed
            .uid()
            .is_some_and(|uid| inside.denied.has_user(uid, id, began));
        if denied {
            return Err(Visit::Gone(Gone::Destroyed));
        }
        inside.held.put(*id, Local::new(origin, seed, now));
        // What was only read is dropped first, and that may be this one.
        inside.counts.dropped += inside.held.shrink(self.bytes_max);
        if inside.held.has(id) {
            Ok(())
        } else {
            Err(Visit::Away)
        }
    }

    /// Lets a session begin here.
    fn begin(
        &self,
        inside: &mut Inside,
        now: Wall,
        id: SessionId,
        local: Local,
    ) -> Result<Seen, DeskError> {
        if inside.held.has(&id) || inside.denied.has(&id) {
            return Err(DeskError::Taken);
        }
        let seen = Seen {
            id,
            session: local.session(&Fields::All),
            standing: local.standing(),
            now,
            deadline: local.deadline(),
        };
        inside.held.put(id, local);
        inside.counts.dropped += inside.held.shrink(self.bytes_max);
        if inside.held.has(&id) {
            Ok(seen)
        } else {
            Err(DeskError::Busy)
        }
    }

    fn carried(&self, found: &Found) -> Found {
        let carries = |name: &Name| self.carry.contains(name);
        let attributes = found.attributes.iter().filter(|(name, _)| carries(name));
        let counters = found.counters.iter().filter(|(name, _)| carries(name));
        Found {
            attributes: attributes.cloned().collect(),
            counters: counters.cloned().collect(),
        }
    }

    fn signed_in(&self, now: Wall, principal: Principal, found: Found) -> Session {
        let birth = Birth {
            lifetimes: self.signed_in,
            principal: Some(&principal),
            attributes: &[],
            counters: &[],
        };
        let mut head = Record::create(now, birth).head();
        head.bytes = Record::known(&head, &found).bytes();
        Session {
            head,
            fields: Fields::All,
            found,
        }
    }

    fn with<T>(&self, what: impl FnOnce(&mut Inside) -> T) -> T {
        let mut inside = self.lock();
        let done = what(&mut inside);
        let count = inside.held.len() + inside.denied.len();
        self.count.store(count, Ordering::Release);
        if count > 0 {
            self.wake.notify_one();
        }
        done
    }

    fn has_any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("no holder panics")
    }
}

impl Drop for Away {
    /// The healer is to see that the desk is gone.
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

/// What a session begins with here: what is known of it, where that is from, and when the session
/// began, if that is known.
fn seed(known: &Known<'_>) -> Option<(Origin, Arc<Session>, Option<Wall>)> {
    let ticket = known.ticket.filter(|ticket| known.now < ticket.deadline);
    let Some(copy) = known
        .copy
        .as_ref()
        .filter(|copy| known.now < copy.deadline())
    else {
        let session = ticket?.session();
        return Some((Origin::Ticket, Arc::new(session), None));
    };
    let mut session = (*copy.session).clone();
    session.head.deadline = copy.deadline();
    // A copy that was read for another route may lack what the ticket has.
    if let Some(ticket) = ticket {
        let lacks = |name: &Name| !has(&copy.session.fields, name);
        let attributes = ticket.attributes.iter().filter(|(name, _)| lacks(name));
        let counters = ticket.counters.iter().filter(|(name, _)| lacks(name));
        session.found.attributes.extend(attributes.cloned());
        session.found.counters.extend(counters.cloned());
    }
    let began = session.head.created;
    Some((Origin::Copy, Arc::new(session), Some(began)))
}

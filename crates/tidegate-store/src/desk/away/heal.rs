//! Telling the store, once it is back, what has happened while it was away.
//!
//! In this order: what was ended here; what began here; what was changed here, of one session in the
//! order in which it was made; what was only read here. One operation after the other, at a pace
//! that the store's replies set. Each patch goes under the name that it was made under, so that one
//! of which nobody knew whether the store had made it is made once.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tidegate_core::session::merge::{Dropped, Merged, Missing, merge, missing};
use tidegate_core::session::{
    Created, Fields, Gone, Head, MergePolicy, Name, Op, Opened, Patched, Principal, Rotated,
    Rotation, SessionId, Uid, Version, WriteClass,
};
use tokio::sync::Notify;

use super::current::Current;
use super::denied::{Ending, SignOut};
use super::local::{Entry, Local, Origin};
use super::pace::Pace;
use crate::desk::Shared;
use crate::desk::errands::Errand;
use crate::desk::heirs::{Brought, Led};
use crate::desk::opening::fresh;
use crate::desk::resume::Legacy;
use crate::desk::session::Session;
use crate::{Call, Ended, NewSession, Reason, StoreError};

/// Between two looks whether the store is back.
const LOOKED_EVERY: Duration = Duration::from_millis(50);
/// What could not be told is tried again after so long.
const TRIED_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// How often a change is sent that somebody else's gets ahead of.
const SENT_MAX: u32 = 4;

/// Heals until the desk is gone.
pub(in crate::desk) async fn run(desk: Weak<Shared>, wake: Arc<Notify>) {
    let mut pace = Pace::new(Instant::now());
    loop {
        wake.notified().await;
        loop {
            let Some(desk) = desk.upgrade() else { return };
            let mut healer = Healer {
                desk: &desk,
                pace: &mut pace,
            };
            healer.round().await;
            if !desk.away.has_any() {
                break;
            }
            drop(desk);
            tokio::time::sleep(LOOKED_EVERY).await;
        }
    }
}

struct Healer<'a> {
    desk: &'a Shared,
    pace: &'a mut Pace,
}

impl Healer<'_> {
    /// Tells the store what it can be told now.
    async fn round(&mut self) {
        for (id, ending) in self.desk.away.endings() {
            if !self.desk.store.is_away(&id) && self.end(&id, &ending).await.is_err() {
                self.desk
                    .away
                    .put_off(&id, Instant::now() + TRIED_AGAIN_AFTER);
            }
        }
        for (uid, sign_out) in self.desk.away.sign_outs() {
            if self.sign_out(&uid, &sign_out).await.is_err() {
                let until = Instant::now() + TRIED_AGAIN_AFTER;
                self.desk.away.put_off_user(&uid, until);
            }
        }
        for id in self.desk.away.ids() {
            if self.desk.store.is_away(&id) || !self.desk.away.is_due(&id) {
                continue;
            }
            if let Err(error) = self.heal(&id).await {
                tracing::debug!(session = ?id, %error, "not healed yet");
                let until = Instant::now() + TRIED_AGAIN_AFTER;
                self.desk.away.put_off_local(&id, until);
            }
        }
    }

    async fn end(&mut self, id: &SessionId, ending: &Ending) -> Result<(), StoreError> {
        let desk = self.desk;
        let keep = desk.plan.tombstones.destroyed;
        let call = self.call(WriteClass::SignOut);
        let destroyed = desk.store.destroy(id, ending.reason, keep, call);
        let destroyed = self.paced(destroyed).await?.reply;
        desk.l1.forget(id);
        // Before the list of what is not told yet lets go of it: a call about it may have failed a
        // moment ago, and its ticket would vouch for it.
        desk.dead.note(*id);
        desk.away.told(id);
        if destroyed.existed {
            let owner = destroyed.principal.map(|principal| principal.uid);
            desk.errands.send(Errand::Tell(Ended {
                session: *id,
                uid: owner.or_else(|| ending.uid.clone()),
                reason: ending.reason,
            }));
        }
        Ok(())
    }

    async fn sign_out(&mut self, uid: &Uid, sign_out: &SignOut) -> Result<(), StoreError> {
        let desk = self.desk;
        let until = Instant::now() + desk.plan.operation;
        let left = desk.leave(uid, sign_out.except.as_ref(), until);
        let done = self.paced(left).await?.reply;
        desk.away.told_user(uid, sign_out.at, done.epoch);
        for id in done.sessions {
            if Some(id) != sign_out.except && !desk.away.holds(&id) {
                desk.l1.forget(&id);
                desk.errands.send(Errand::Destroy {
                    id,
                    uid: Some(uid.clone()),
                    reason: Reason::SignedOutEverywhere,
                });
            }
        }
        Ok(())
    }

    /// Tells the store of one session.
    async fn heal(&mut self, id: &SessionId) -> Result<(), StoreError> {
        let desk = self.desk;
        let now = desk.clock.now();
        let Some(view) = desk.away.view(id, now) else {
            return Ok(());
        };
        let (known, fields) = if view.is_written {
            (Version::NONE, Fields::Only(view.names.clone().into()))
        } else {
            (view.seed.version(), view.seed.fields.clone())
        };
        let touch = view.is_alive.then_some(Duration::ZERO);
        let call = Call::within(desk.plan.operation);
        let opened = desk.store.open(id, known, &fields, touch, call);
        match self.paced(opened).await? {
            Opened::Unchanged { deadline, .. } => {
                if let Some(copy) = desk.l1.any(id)
                    && copy.session.version() == known
                {
                    desk.l1.vouch(&copy, deadline);
                }
                self.finish(id);
                Ok(())
            }
            Opened::Found { found, head, .. } if !view.is_written => {
                let session = Session {
                    head,
                    fields,
                    found,
                };
                desk.l1.correct(*id, Arc::new(session));
                self.finish(id);
                Ok(())
            }
            Opened::Found { found, .. } => {
                if let Origin::SignedIn { old: Some(old), .. } = &view.origin {
                    self.settle(old).await?;
                }
                let current = Current::of(found);
                if view.is_born() {
                    // It began there by a call whose reply did not come.
                    desk.away.rebase(id, &current);
                }
                self.replay(id, current).await
            }
            Opened::Gone(gone) => self.gone(id, &view, &gone).await,
        }
    }

    /// Lets a session go on in the store, unless there is a change that it has not seen.
    fn finish(&self, id: &SessionId) -> bool {
        self.desk.suspects.forget(id);
        self.desk.away.finish(id)
    }

    /// Deals with a session that the store does not have.
    async fn gone(&mut self, id: &SessionId, view: &View, gone: &Gone) -> Result<(), StoreError> {
        let desk = self.desk;
        let begun = match missing(gone, view.is_born(), view.is_alive) {
            Missing::Forget => None,
            Missing::Create | Missing::Recreate => self.begin(id, view).await?,
        };
        let Some(Begun { head, is_ours }) = begun else {
            desk.l1.forget(id);
            desk.away.forget(id);
            return Ok(());
        };
        let legacy = self.legacy(view).await;
        let (id, deadline) = (*id, head.deadline);
        desk.errands.send(Errand::Arm { id, deadline });
        if let Some(uid) = head.principal.map(|principal| principal.uid) {
            desk.errands.send(Errand::Used { id, uid });
        }
        if !view.is_born() {
            desk.away.recreated();
        }
        let call = Call::within(desk.plan.operation);
        let fields = Fields::All;
        let opened = desk.store.open(&id, Version::NONE, &fields, None, call);
        let Opened::Found { found, .. } = self.paced(opened).await? else {
            return Ok(());
        };
        let current = Current::of(found);
        if is_ours {
            desk.away.rebase(&id, &current);
        }
        self.replay(&id, current).await?;
        if let (Some(legacy), Some(copy)) = (legacy, desk.l1.any(&id)) {
            let seen = fresh(&id, copy.session.clone(), desk.clock.now());
            let until = Instant::now() + desk.plan.operation;
            // What could not be taken up is still there for the next time.
            let _ = desk.take_up(seen, legacy, until).await;
        }
        Ok(())
    }

    /// What the user of a sign-in left behind in their last session. To be asked before the new one
    /// is in their index.
    async fn legacy(&mut self, view: &View) -> Option<Legacy> {
        let uid = match &view.origin {
            Origin::SignedIn { .. } => view.seed.uid()?,
            Origin::Copy | Origin::Ticket | Origin::Born => return None,
        };
        let until = Instant::now() + self.desk.plan.operation;
        let legacy = self.desk.legacy(uid, until);
        self.paced(legacy).await.ok()
    }

    /// Has the session begin in the store; `None` when it must not.
    async fn begin(&mut self, id: &SessionId, view: &View) -> Result<Option<Begun>, StoreError> {
        let head = &view.seed.head;
        let principal = head.principal.clone();
        let Origin::SignedIn { old, epoch } = &view.origin else {
            return self.create(id, view, principal, Brought::default()).await;
        };
        let desk = self.desk;
        let Some(mut principal) = principal else {
            return Ok(None);
        };
        let call = Call::within(desk.plan.operation);
        let asked = Instant::now();
        let at = self.paced(desk.store.epoch(&principal.uid, call)).await?;
        desk.epochs.note(&principal.uid, at, asked);
        if epoch.is_some_and(|known| known < at) {
            // The user has signed out everywhere elsewhere, before or after: then rather once more.
            if let Some(old) = old {
                desk.away.part(old);
            }
            return Ok(None);
        }
        principal.epoch = at;
        let mut brought = Brought::default();
        if let Some(old) = old {
            let begun = self.change_rights(old, id, view, &principal).await?;
            if begun.is_some() {
                return Ok(begun);
            }
            // Here nobody knew what the visitor had.
            if view.is_empty() {
                let until = Instant::now() + desk.plan.operation;
                brought = desk.inherited(old, id, &principal, until).await?;
            }
        }
        self.create(id, view, Some(principal), brought).await
    }

    async fn create(
        &mut self,
        id: &SessionId,
        view: &View,
        principal: Option<Principal>,
        brought: Brought,
    ) -> Result<Option<Begun>, StoreError> {
        let is_ours = brought.is_empty();
        let found = &view.seed.found;
        let known = found.attributes.iter();
        let known = known.map(|(name, attribute)| (name.clone(), attribute.value.clone()));
        let new = NewSession {
            id: *id,
            lifetimes: view.lifetimes(self.desk.clock.now()),
            principal,
            attributes: known.chain(brought.attributes).collect(),
            counters: [&found.counters[..], &brought.counters].concat(),
        };
        let call = self.call(WriteClass::SignIn);
        let created = self.paced(self.desk.store.create(&new, call)).await?;
        match created.reply {
            Created::Created { head, .. } => Ok(Some(Begun { head, is_ours })),
            // What is remembered under this id has ended.
            Created::Taken => Ok(None),
        }
    }

    /// Moves the session that the visitor had to the new id; `None` when there is none.
    async fn change_rights(
        &mut self,
        old: &SessionId,
        new: &SessionId,
        view: &View,
        principal: &Principal,
    ) -> Result<Option<Begun>, StoreError> {
        let desk = self.desk;
        let call = Call::within(desk.plan.operation);
        let nothing = Fields::Only(Arc::new([]));
        let opened = desk.store.open(old, Version::NONE, &nothing, None, call);
        let carry = match self.paced(opened).await? {
            Opened::Found { head, .. } => {
                let owner = head.principal;
                let theirs = owner.is_none_or(|owner| owner.uid == principal.uid);
                if theirs {
                    desk.carry.clone()
                } else {
                    Vec::new()
                }
            }
            Opened::Gone(_) | Opened::Unchanged { .. } => {
                self.settle(old).await?;
                return Ok(None);
            }
        };
        let rotation = Rotation::Privilege {
            principal: Some(principal.clone()),
            lifetimes: view.lifetimes(desk.clock.now()),
            carry,
            tombstone: desk.plan.tombstones.privilege,
        };
        let call = self.call(WriteClass::SignIn);
        let rotated = self.paced(desk.store.rotate(old, new, &rotation, call));
        match rotated.await?.reply {
            Rotated::Rotated { head, .. } => {
                desk.l1.forget(old);
                desk.dead.note_replaced(*old, Some(*new));
                desk.away.told(old);
                desk.errands.send(Errand::Rearm {
                    from: *old,
                    to: *new,
                    deadline: head.deadline,
                });
                Ok(Some(Begun {
                    head,
                    is_ours: false,
                }))
            }
            Rotated::Taken | Rotated::Gone(_) => {
                self.settle(old).await?;
                Ok(None)
            }
        }
    }

    /// Lets go of the session that a visitor signed in with. What the store has of it is to be ended
    /// by itself; when somebody else's sign-in was first, nothing is.
    async fn settle(&mut self, old: &SessionId) -> Result<(), StoreError> {
        let desk = self.desk;
        let until = Instant::now() + desk.plan.operation;
        match self.paced(desk.led(Some(old), until)).await? {
            Led::Replaced(id) if id == *old => {
                desk.dead.note_replaced(*old, None);
                desk.away.told(old);
            }
            Led::Replaced(_) | Led::To { .. } | Led::Nowhere => desk.away.part(old),
        }
        Ok(())
    }

    /// Makes the changes in the store that were made here, then lets the session go on there.
    async fn replay(&mut self, id: &SessionId, mut current: Current) -> Result<(), StoreError> {
        let desk = self.desk;
        let mut resumes = false;
        loop {
            while let Some((entry, bases)) = desk.away.front(id) {
                let names = entry.ops.iter().map(Op::name);
                resumes |= names
                    .into_iter()
                    .any(|name| desk.plan.attributes.of(name).resume.is_some());
                if !self.send(id, &entry, bases, &mut current).await? {
                    return Ok(());
                }
            }
            let call = Call::within(desk.plan.operation);
            let fields = Fields::All;
            let opened = desk.store.open(id, Version::NONE, &fields, None, call);
            if let Opened::Found { head, found, .. } = self.paced(opened).await? {
                let session = Session {
                    head,
                    fields,
                    found,
                };
                desk.l1.correct(*id, Arc::new(session));
            }
            // While this was under way another change may have been made here.
            if self.finish(id) {
                break;
            }
        }
        if resumes {
            desk.errands.send(Errand::Capsule { id: *id });
        }
        Ok(())
    }

    /// Makes one patch; false when the session has ended meanwhile.
    async fn send(
        &mut self,
        id: &SessionId,
        entry: &Entry,
        bases: BTreeMap<Name, Version>,
        current: &mut Current,
    ) -> Result<bool, StoreError> {
        let desk = self.desk;
        let mut may_unite = true;
        for _ in 0..SENT_MAX {
            let (ops, gave_way) = self.merged(entry, &bases, current, may_unite);
            if ops.is_empty() {
                desk.away
                    .healed(id, entry.seq, 0, gave_way, BTreeMap::new());
                return Ok(true);
            }
            let call = self.call(WriteClass::Work);
            let ceilings = desk.plan.ceilings;
            let patched = desk
                .store
                .patch(id, &ops, Some(entry.seq), ceilings, None, call);
            let patched = self.paced(patched).await?;
            match patched.reply {
                Patched::Applied { version, .. } => {
                    let new = current.follow(&ops, version);
                    desk.away.healed(id, entry.seq, 1, gave_way, new);
                    return Ok(true);
                }
                Patched::AlreadyApplied { .. } => {
                    let new = self.reread(id, &ops, current).await?;
                    desk.away.healed(id, entry.seq, 1, 0, new);
                    return Ok(true);
                }
                Patched::Conflict { current: there, .. } => {
                    for (name, attribute) in there {
                        current.put(name, attribute);
                    }
                }
                Patched::TooLarge { .. } if may_unite => may_unite = false,
                Patched::Gone(_) => return Ok(false),
                Patched::TooLarge { .. }
                | Patched::Overflow { .. }
                | Patched::WrongKind { .. }
                | Patched::TooOld
                | Patched::Late => break,
            }
        }
        desk.away.refused(id, entry.seq);
        Ok(true)
    }

    /// What is left of a patch in the face of what the store has, and how many changes gave way.
    fn merged(
        &self,
        entry: &Entry,
        bases: &BTreeMap<Name, Version>,
        current: &Current,
        may_unite: bool,
    ) -> (Vec<Op>, u64) {
        let (mut ops, mut gave_way) = (Vec::with_capacity(entry.ops.len()), 0);
        for op in &entry.ops {
            let name = op.name();
            let policy = match self.desk.plan.attributes.of(name).merge {
                MergePolicy::Union if !may_unite => MergePolicy::Newest,
                policy => policy,
            };
            let base = bases.get(name).copied().unwrap_or_default();
            match merge(op, entry.made, base, current.get(name), policy) {
                Merged::Send(op) => ops.push(op),
                Merged::Drop(Dropped::Moot) => {}
                Merged::Drop(_) => gave_way += 1,
            }
        }
        (ops, gave_way)
    }

    /// Reads anew what a patch has made that the store had made already.
    async fn reread(
        &mut self,
        id: &SessionId,
        ops: &[Op],
        current: &mut Current,
    ) -> Result<BTreeMap<Name, Version>, StoreError> {
        let names: Vec<Name> = ops.iter().map(|op| op.name().clone()).collect();
        let fields = Fields::Only(names.clone().into());
        let call = Call::within(self.desk.plan.operation);
        let opened = self.desk.store.open(id, Version::NONE, &fields, None, call);
        let mut versions = BTreeMap::new();
        if let Opened::Found { found, .. } = self.paced(opened).await? {
            let mut there = Current::of(found);
            for name in names {
                let attribute = there.take(&name);
                if let Some(attribute) = &attribute {
                    versions.insert(name.clone(), attribute.version);
                }
                current.put(name, attribute);
            }
        }
        Ok(versions)
    }

    fn call(&self, class: WriteClass) -> Call {
        let mut call = Call::within(self.desk.plan.operation);
        call.redo = self.desk.plan.durability(class).redo;
        call
    }

    /// Does one operation at the pace that the store can stand.
    async fn paced<T>(
        &mut self,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let wait = self.pace.take(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        let began = Instant::now();
        let done = operation.await;
        self.pace.learn(done.is_ok().then(|| began.elapsed()));
        done
    }
}

/// A session that has begun in the store.
struct Begun {
    head: Head,
    /// Whether its content is what is known here, and not what came along from another session.
    is_ours: bool,
}

/// A session that goes on here, as far as telling the store of it needs to know.
pub(super) struct View {
    origin: Origin,
    seed: Arc<Session>,
    is_written: bool,
    is_alive: bool,
    /// What is changed.
    names: Vec<Name>,
}

impl View {
    pub(super) fn of(local: &Local, now: tidegate_core::time::Wall) -> Self {
        let ops = local.log.iter().flat_map(|entry| &entry.ops);
        let mut names: Vec<Name> = ops.map(|op| op.name().clone()).collect();
        names.sort_unstable();
        names.dedup();
        Self {
            origin: local.origin.clone(),
            seed: local.seed.clone(),
            is_written: local.is_written(),
            is_alive: !local.is_over(now),
            names,
        }
    }

    /// Whether nothing was known of what it has.
    fn is_empty(&self) -> bool {
        let found = &self.seed.found;
        found.attributes.is_empty() && found.counters.is_empty()
    }

    const fn is_born(&self) -> bool {
        matches!(self.origin, Origin::Born | Origin::SignedIn { .. })
    }

    /// How long it lives from `now` on, so that it ends when it would have.
    fn lifetimes(&self, now: tidegate_core::time::Wall) -> tidegate_core::session::Lifetimes {
        let head = &self.seed.head;
        tidegate_core::session::Lifetimes {
            idle: head.idle,
            absolute: head.absolute.since(now),
        }
    }
}

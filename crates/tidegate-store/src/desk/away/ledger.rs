//! What the healer asks of what goes on here, and tells it.

use std::collections::BTreeMap;
use std::time::Instant;

use tidegate_core::session::{Name, Op, OpSeq, SessionId, Uid, Version};
use tidegate_core::time::Wall;

use super::current::Current;
use super::denied::{Ending, SignOut};
use super::heal::View;
use super::local::{Entry, Local};
use super::{Away, Inside};

impl Away {
    /// What was ended here and can be told now.
    pub(super) fn endings(&self) -> Vec<(SessionId, Ending)> {
        self.lock().denied.endings(Instant::now())
    }

    /// Who was signed out everywhere here and can be told now.
    pub(super) fn sign_outs(&self) -> Vec<(Uid, SignOut)> {
        self.lock().denied.sign_outs(Instant::now())
    }

    /// The sessions that go on here, in the order in which they are told of.
    pub(super) fn ids(&self) -> Vec<SessionId> {
        self.lock().held.ids()
    }

    /// Whether a session may be told of now: not before its user's sign-out everywhere, which would
    /// end it.
    pub(super) fn is_due(&self, id: &SessionId) -> bool {
        let inside = self.lock();
        inside.held.local(id).is_some_and(|local| {
            let principal = local.principal();
            let waits = principal.is_some_and(|its| inside.denied.is_leaving(&its.uid));
            !waits && local.retry_at.is_none_or(|at| at <= Instant::now())
        })
    }

    pub(super) fn put_off(&self, id: &SessionId, until: Instant) {
        self.lock().denied.put_off(id, until);
    }

    pub(super) fn put_off_user(&self, uid: &Uid, until: Instant) {
        self.lock().denied.put_off_user(uid, until);
    }

    pub(super) fn put_off_local(&self, id: &SessionId, until: Instant) {
        let put_off = |local: &mut Local| local.retry_at = Some(until);
        self.lock().held.change(id, put_off);
    }

    /// The store knows that a session has ended.
    pub(super) fn told(&self, id: &SessionId) {
        self.with(|inside| inside.denied.told(id));
    }

    /// The store knows of a sign-out everywhere, which gave the user `epoch`. Whom that has spared,
    /// and who signed in here since, is of it.
    pub(super) fn told_user(&self, uid: &Uid, at: Wall, epoch: u64) {
        self.with(|inside| {
            inside.denied.told_user(uid, at);
            inside.held.advance(uid, epoch);
        });
    }

    /// The old session of a sign-in is to be ended by itself.
    pub(super) fn part(&self, id: &SessionId) {
        self.lock().denied.part(id);
    }

    pub(super) fn view(&self, id: &SessionId, now: Wall) -> Option<View> {
        let inside = self.lock();
        inside.held.local(id).map(|local| View::of(local, now))
    }

    /// The oldest change of a session that the store has not seen, and what it is based on.
    pub(super) fn front(&self, id: &SessionId) -> Option<(Entry, BTreeMap<Name, Version>)> {
        let inside = self.lock();
        let local = inside.held.local(id)?;
        let entry = local.log.front()?.clone();
        let names = entry.ops.iter().map(Op::name);
        let bases = names.filter_map(|name| Some((name.clone(), *local.bases.get(name)?)));
        let bases = bases.collect();
        Some((entry, bases))
    }

    /// What the store has is what this session is based on: it was made from what is here.
    pub(super) fn rebase(&self, id: &SessionId, current: &Current) {
        let rebase = |local: &mut Local| local.bases.extend(current.versions());
        self.lock().held.change(id, rebase);
    }

    /// A patch is done with: `done` is 1 when the store has made it, `gave_way` says how many
    /// changes of it were not made, `versions` what it set has.
    pub(super) fn healed(
        &self,
        id: &SessionId,
        seq: OpSeq,
        done: u64,
        gave_way: u64,
        versions: BTreeMap<Name, Version>,
    ) {
        let mut inside = self.lock();
        inside.counts.healed += done;
        inside.counts.gave_way += gave_way;
        inside.held.change(id, |local| {
            local.bases.extend(versions);
            local.done(seq);
        });
    }

    /// A patch is done with: the store will not have it.
    pub(super) fn refused(&self, id: &SessionId, seq: OpSeq) {
        let mut inside = self.lock();
        inside.counts.refused += 1;
        inside.held.change(id, |local| local.done(seq));
    }

    /// A session goes on in the store, unless there is a change that it has not seen.
    pub(super) fn finish(&self, id: &SessionId) -> bool {
        self.with(|inside| {
            let open = inside.held.local(id);
            let is_done = open.is_none_or(|local| local.log.is_empty());
            if is_done {
                inside.held.take(id);
            }
            is_done
        })
    }

    /// A session is over: what was changed here is dropped.
    pub(super) fn forget(&self, id: &SessionId) {
        self.with(|inside| {
            if let Some(local) = inside.held.take(id) {
                let writes = local.log.len() as u64 + u64::from(local.is_born());
                inside.counts.forgotten += writes;
            }
            let Inside { held, denied, .. } = inside;
            denied.part_orphans(|id| held.has(id));
        });
    }

    /// A session that the store did not have any more is there again.
    pub(super) fn recreated(&self) {
        self.lock().counts.recreated += 1;
    }
}

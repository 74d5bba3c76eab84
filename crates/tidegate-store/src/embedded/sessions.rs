//! Sessions one by one.

use std::time::Duration;

use tidegate_core::session::{
    Birth, Ceilings, Created, Destroyed, Fields, Gone, Op, OpSeq, Opened, Patched, Record, Rotated,
    Rotation, SessionId, Version,
};
use tidegate_core::time::Wall;

use super::Embedded;
use super::state::{Haste, KEPT_MS, State, ms};
use super::tombstone::{How, Tombstone};
use crate::ends::{Fate, Reason};
use crate::error::StoreError;
use crate::sessions::NewSession;
use crate::{Acked, Call};

impl Embedded {
    pub(crate) async fn create(
        &self,
        new: &NewSession,
        call: Call,
    ) -> Result<Acked<Created>, StoreError> {
        self.check_room()?;
        let create = |state: &mut State, now, haste| {
            if state.is_in_use(&new.id, now) {
                return Created::Taken;
            }
            let birth = Birth {
                lifetimes: new.lifetimes,
                principal: new.principal.as_ref(),
                attributes: &new.attributes,
                counters: &new.counters,
            };
            let record = Record::create(now, birth);
            let created = record.created(now);
            state.put_session(new.id, record, haste);
            created
        };
        Ok(self.write(call, create).await)
    }

    pub(crate) async fn open(
        &self,
        id: &SessionId,
        known: Version,
        fields: &Fields,
        touch_after: Option<Duration>,
        _call: Call,
    ) -> Result<Opened, StoreError> {
        Ok(self.with(|state, now| {
            let opened = state.change_session(id, now, Haste::Lazy, |record| {
                let touched = touch_after.is_some_and(|after| record.touch(now, after));
                (record.open(now, known, fields), touched)
            });
            opened.unwrap_or_else(Opened::Gone)
        }))
    }

    pub(crate) async fn patch(
        &self,
        id: &SessionId,
        ops: &[Op],
        seq: Option<OpSeq>,
        ceilings: Ceilings,
        not_after: Option<Wall>,
        call: Call,
    ) -> Result<Acked<Patched>, StoreError> {
        if ops.iter().any(|op| matches!(op, Op::Set { .. })) {
            self.check_room()?;
        }
        let patch = |state: &mut State, now, haste| {
            let patched = state.change_session(id, now, haste, |record| {
                let patched = record.patch(now, ops, seq, ceilings, not_after);
                let changed = matches!(patched, Patched::Applied { .. });
                (patched, changed)
            });
            patched.unwrap_or_else(Patched::Gone)
        };
        Ok(self.write(call, patch).await)
    }

    pub(crate) async fn rotate(
        &self,
        old: &SessionId,
        new: &SessionId,
        rotation: &Rotation,
        call: Call,
    ) -> Result<Acked<Rotated>, StoreError> {
        if old.tag() != new.tag() {
            return Err(StoreError::Refused("a rotation keeps the tag".to_owned()));
        }
        let rotate = |state: &mut State, now, haste| rotate(state, now, haste, old, new, rotation);
        Ok(self.write(call, rotate).await)
    }

    pub(crate) async fn destroy(
        &self,
        id: &SessionId,
        reason: Reason,
        tombstone: Duration,
        call: Call,
    ) -> Result<Acked<Destroyed>, StoreError> {
        let destroy = |state: &mut State, now: Wall, haste| {
            let existed = state.session(id, now).is_ok();
            let record = state.take_session(id, haste);
            let principal = record.and_then(|record| record.principal().cloned());
            let how = How::Destroyed {
                reason,
                uid: principal.as_ref().map(|principal| principal.uid.clone()),
            };
            let until_ms = later_ms(now, tombstone);
            // The first end counts; a shorter memory than somebody asked for would let a late
            // write through.
            let (how, until_ms) = match state.tombstone(id, now) {
                Some(old) => {
                    let first = matches!(old.how, How::Destroyed { .. });
                    let how = if first { old.how.clone() } else { how };
                    (how, until_ms.max(old.until_ms))
                }
                None => (how, until_ms),
            };
            state.put_tombstone(*id, Tombstone { how, until_ms }, haste);
            Destroyed { existed, principal }
        };
        Ok(self.write(call, destroy).await)
    }

    pub(crate) async fn adopt_epoch(
        &self,
        id: &SessionId,
        epoch: u64,
        call: Call,
    ) -> Result<Acked<bool>, StoreError> {
        let adopt = |state: &mut State, now, haste| {
            let adopted = state.change_session(id, now, haste, |record| {
                let adopted = record.adopt_epoch(now, epoch);
                (adopted, adopted)
            });
            adopted.unwrap_or(false)
        };
        Ok(self.write(call, adopt).await)
    }

    pub(crate) async fn fate(&self, id: &SessionId, _call: Call) -> Result<Fate, StoreError> {
        Ok(self.with(|state, now| match state.record(id) {
            Some(record) if record.is_over(now) => Fate::Expired {
                uid: record.principal().map(|principal| principal.uid.clone()),
            },
            Some(record) => Fate::Lives {
                deadline: record.deadline(),
            },
            None => state
                .tombstone(id, now)
                .map_or(Fate::Missing, Tombstone::fate),
        }))
    }
}

fn rotate(
    state: &mut State,
    now: Wall,
    haste: Haste,
    old: &SessionId,
    new: &SessionId,
    rotation: &Rotation,
) -> Rotated {
    let record = match state.session(old, now) {
        Ok(record) => record.clone(),
        Err(gone) => {
            // Whoever signs in with an id kills it though it is not there.
            if let (Gone::Missing, None, Rotation::Privilege { tombstone, .. }) =
                (&gone, state.record(old), rotation)
            {
                let tombstone = Tombstone {
                    how: How::Privilege { to: *new },
                    until_ms: later_ms(now, *tombstone),
                };
                state.put_tombstone(*old, tombstone, haste);
            }
            return Rotated::Gone(gone);
        }
    };
    if state.is_taken(new, now) {
        return Rotated::Taken;
    }
    let deadline_ms = ms(record.deadline());
    let rotated = match record.rotate(now, rotation) {
        Ok(rotated) => rotated,
        Err(gone) => return Rotated::Gone(gone),
    };
    let (how, remembered) = match rotation {
        Rotation::Privilege { tombstone, .. } => (How::Privilege { to: *new }, tombstone),
        Rotation::Habit {
            successor,
            tombstone,
        } => {
            let how = How::Habit {
                to: *new,
                successor: successor.clone(),
                leads_until_ms: later_ms(now, *tombstone),
            };
            (how, tombstone)
        }
    };
    // It outlives the old id's place in the expiry index, so that whoever finds that place finds
    // where the session went.
    let until_ms = later_ms(now, *remembered).max(deadline_ms.saturating_add(KEPT_MS));
    let head = rotated.head();
    state.take_session(old, haste);
    state.put_session(*new, rotated, haste);
    state.put_tombstone(*old, Tombstone { how, until_ms }, haste);
    Rotated::Rotated { now, head }
}

/// So much later than `now`, in milliseconds.
pub(super) fn later_ms(now: Wall, span: Duration) -> u64 {
    let span_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    ms(now).saturating_add(span_ms)
}

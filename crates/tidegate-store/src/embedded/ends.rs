//! The expiry index and the stream of ends.

use std::time::Duration;

use tidegate_core::session::{Name, SessionId};
use tidegate_core::time::Wall;

use super::Embedded;
use super::key::Key;
use super::sessions::later_ms;
use super::state::{Haste, Lease, State, ms};
use super::stream::GROUPS_MAX;
use crate::Call;
use crate::ends::{Claimed, Consumer, Due, Ended, Event, EventId, Position};
use crate::error::StoreError;

impl Embedded {
    pub(crate) async fn arm(
        &self,
        id: &SessionId,
        deadline: Wall,
        _call: Call,
    ) -> Result<(), StoreError> {
        self.check_room()?;
        self.with(|state, _| state.arm(*id, ms(deadline)));
        Ok(())
    }

    pub(crate) async fn rearm(
        &self,
        from: &SessionId,
        to: &SessionId,
        deadline: Wall,
        _call: Call,
    ) -> Result<bool, StoreError> {
        if from.tag() != to.tag() {
            return Err(StoreError::Refused("a rotation keeps the tag".to_owned()));
        }
        Ok(self.with(|state, _| {
            let armed = state.disarm(from);
            if armed {
                state.arm(*to, ms(deadline));
            }
            armed
        }))
    }

    pub(crate) async fn disarm(&self, id: &SessionId, _call: Call) -> Result<(), StoreError> {
        self.with(|state, _| state.disarm(id));
        Ok(())
    }

    pub(crate) async fn claim(
        &self,
        bucket: u8,
        holder: u64,
        most: u32,
        lease: Duration,
        _call: Call,
    ) -> Result<Claimed, StoreError> {
        Ok(self.with(|state, now| {
            let other = state.leases.get(&bucket);
            let other = other.filter(|held| held.holder != holder && ms(now) < held.until_ms);
            if let Some(held) = other {
                let left = Duration::from_millis(held.until_ms - ms(now));
                return Claimed::Taken { left };
            }
            let until_ms = later_ms(now, lease);
            state.leases.insert(bucket, Lease { holder, until_ms });
            let due = state.due(bucket, now).take(most as usize);
            let due = due.map(|&(deadline_ms, session)| Due {
                session,
                deadline: Wall::from_micros(deadline_ms.saturating_mul(1_000)),
            });
            Claimed::Held {
                now,
                due: due.collect(),
            }
        }))
    }

    pub(crate) async fn finish(
        &self,
        ended: &Ended,
        kept: u32,
        _call: Call,
    ) -> Result<bool, StoreError> {
        Ok(self.with(|state, now| {
            if !state.disarm(&ended.session) {
                return false;
            }
            let (id, dropped) = state.streams.add(ended.clone(), ms(now), kept);
            state.changes.note(Key::Event(id), Haste::Soon);
            for id in dropped {
                forget(state, id);
            }
            true
        }))
    }

    pub(crate) async fn events(
        &self,
        consumer: &Consumer,
        most: u32,
        abandoned_after: Duration,
        _call: Call,
    ) -> Result<Vec<Event>, StoreError> {
        let abandoned_ms = later_ms(Wall::default(), abandoned_after);
        let taken = self.with(|state, now| {
            let taken = state
                .streams
                .take(consumer, most as usize, ms(now), abandoned_ms)?;
            if taken.moved {
                let key = Key::Group(consumer.group.clone());
                state.changes.note(key, Haste::Lazy);
            }
            for event in &taken.events {
                let key = Key::Pending(consumer.group.clone(), event.id);
                state.changes.note(key, Haste::Lazy);
            }
            Some(taken.events)
        });
        taken.ok_or_else(|| StoreError::Refused(format!("more than {GROUPS_MAX} groups listen")))
    }

    pub(crate) async fn acknowledge(
        &self,
        group: &Name,
        events: &[EventId],
        _call: Call,
    ) -> Result<u32, StoreError> {
        Ok(self.with(|state, _| {
            let mut acknowledged = 0;
            for id in events {
                if state.streams.acknowledge(group, id) {
                    acknowledged += 1;
                    let key = Key::Pending(group.clone(), *id);
                    state.changes.note(key, Haste::Soon);
                }
            }
            acknowledged
        }))
    }

    pub(crate) async fn events_after(
        &self,
        position: &Position,
        most: u32,
        _call: Call,
    ) -> Result<(Vec<Event>, Position), StoreError> {
        Ok(self.with(|state, _| state.streams.after(position, most as usize)))
    }
}

/// An event that is no longer kept is nobody's to acknowledge either.
fn forget(state: &mut State, id: EventId) {
    for group in state.streams.forget(&id) {
        state.changes.note(Key::Pending(group, id), Haste::Lazy);
    }
    state.changes.note(Key::Event(id), Haste::Lazy);
}

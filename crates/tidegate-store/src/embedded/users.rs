//! What is kept of a user.

use std::time::Duration;

use tidegate_core::session::{Found, SessionId, Uid, Version};
use tidegate_core::time::Wall;

use super::Embedded;
use super::sessions::later_ms;
use super::state::{Activity, Capsule, Epoch, Haste, State, ms};
use crate::error::StoreError;
use crate::sessions::SignedOut;
use crate::{Acked, Call};

impl Embedded {
    pub(crate) async fn epoch(&self, uid: &Uid, _call: Call) -> Result<u64, StoreError> {
        Ok(self.with(|state, now| state.epoch(uid, now)))
    }

    pub(crate) async fn sign_out(
        &self,
        uid: &Uid,
        keep: Duration,
        call: Call,
    ) -> Result<Acked<SignedOut>, StoreError> {
        let sign_out = |state: &mut State, now, haste| {
            let count = state.epoch(uid, now) + 1;
            let until_ms = later_ms(now, keep);
            state.put_epoch(uid.clone(), Epoch { count, until_ms }, haste);
            let mut sessions: Vec<_> = by_activity(state, uid);
            sessions.reverse();
            for (id, _) in &sessions {
                state.take_activity(uid, id, haste);
            }
            SignedOut {
                epoch: count,
                sessions: sessions.into_iter().map(|(id, _)| id).collect(),
            }
        };
        Ok(self.write(call, sign_out).await)
    }

    pub(crate) async fn index(
        &self,
        uid: &Uid,
        id: &SessionId,
        window: Duration,
        most: u32,
        _call: Call,
    ) -> Result<(), StoreError> {
        self.with(|state, now| {
            let activity = Activity {
                at_ms: ms(now),
                until_ms: later_ms(now, window),
            };
            state.put_activity(uid.clone(), *id, activity);
            let oldest_ms = ms(now).saturating_sub(later_ms(Wall::default(), window));
            for (place, (id, at_ms)) in by_activity(state, uid).into_iter().enumerate() {
                if place >= most as usize || at_ms < oldest_ms {
                    state.take_activity(uid, &id, Haste::Lazy);
                }
            }
        });
        Ok(())
    }

    pub(crate) async fn unindex(
        &self,
        uid: &Uid,
        ids: &[SessionId],
        _call: Call,
    ) -> Result<(), StoreError> {
        self.with(|state, _| {
            for id in ids {
                state.take_activity(uid, id, Haste::Lazy);
            }
        });
        Ok(())
    }

    pub(crate) async fn sessions_of(
        &self,
        uid: &Uid,
        most: u32,
        _call: Call,
    ) -> Result<Vec<(SessionId, Wall)>, StoreError> {
        Ok(self.with(|state, _| {
            let newest = by_activity(state, uid).into_iter().take(most as usize);
            newest
                .map(|(id, at_ms)| (id, Wall::from_micros(at_ms.saturating_mul(1_000))))
                .collect()
        }))
    }

    pub(crate) async fn put_capsule(
        &self,
        uid: &Uid,
        content: &Found,
        version: Version,
        window: Duration,
        call: Call,
    ) -> Result<Acked<bool>, StoreError> {
        let nothing = content.attributes.is_empty() && content.counters.is_empty();
        if !nothing {
            self.check_room()?;
        }
        let put = |state: &mut State, now, haste| {
            if state
                .capsule(uid, now)
                .is_some_and(|it| it.version > version)
            {
                return false;
            }
            let capsule = Capsule {
                content: content.clone(),
                version,
                until_ms: later_ms(now, window),
            };
            state.put_capsule(uid.clone(), capsule, haste);
            true
        };
        Ok(self.write(call, put).await)
    }

    pub(crate) async fn capsule(&self, uid: &Uid, _call: Call) -> Result<Found, StoreError> {
        Ok(self.with(|state, now| {
            let capsule = state.capsule(uid, now);
            capsule.map_or_else(Found::default, |capsule| capsule.content.clone())
        }))
    }
}

/// A user's sessions with the milliseconds of their last activity, the newest first; of two of one
/// millisecond the one whose id is greater, as in a sorted set.
fn by_activity(state: &State, uid: &Uid) -> Vec<(SessionId, u64)> {
    let mut sessions: Vec<_> = state
        .activities(uid)
        .map(|(id, activity)| (*id, activity.at_ms))
        .collect();
    sessions.sort_unstable_by_key(|&(id, at_ms)| std::cmp::Reverse((at_ms, id)));
    sessions
}

//! The operations on sessions, whatever keeps them.

use std::time::Duration;

use tidegate_core::session::{
    Ceilings, Created, Destroyed, Fields, Found, Lifetimes, Name, Op, OpSeq, Opened, Patched,
    Principal, Rotated, Rotation, SessionId, Uid, Value, Version,
};
use tidegate_core::time::Wall;

use crate::embedded::Embedded;
use crate::error::StoreError;
use crate::redis::Redis;
use crate::{Acked, Call};

/// Where sessions are kept.
#[derive(Clone)]
pub enum SessionStore {
    /// Redis or Valkey.
    Redis(Redis),
    /// This process and a file.
    Embedded(Embedded),
}

/// A session to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// How long it lives.
    pub lifetimes: Lifetimes,
    /// Who it belongs to.
    pub principal: Option<Principal>,
    /// What it begins with.
    pub attributes: Vec<(Name, Value)>,
    /// Counters it begins with.
    pub counters: Vec<(Name, i64)>,
}

/// A sign-out of all of a user's sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedOut {
    /// Sessions of an earlier epoch are not valid any more.
    pub epoch: u64,
    /// The sessions that the user's index had.
    pub sessions: Vec<SessionId>,
}

/// A session whose deadline, as the index has it, is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The part of the index it is in.
    pub bucket: u8,
    /// The session.
    pub session: SessionId,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Its idle time or its absolute lifetime was over.
    Expired,
    /// Its user signed out.
    SignedOut,
    /// Its user signed out everywhere.
    SignedOutEverywhere,
    /// The application or an operator ended it.
    Destroyed,
    /// The store lost it before its time.
    Lost,
}

/// The end of a session, to be told to listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The session.
    pub session: SessionId,
    /// Whose it was.
    pub uid: Option<Uid>,
    /// Why it ended.
    pub reason: Reason,
}

/// One entry of the stream of ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Names the event: the same however often it is delivered.
    pub id: String,
    /// When it was written, by the store's clock.
    pub at: Wall,
    /// What happened.
    pub ended: Ended,
}

impl SessionStore {
    /// Creates a session; writes nothing when its id is taken or remembered.
    pub async fn create(&self, new: &NewSession, call: Call) -> Result<Acked<Created>, StoreError> {
        match self {
            Self::Redis(on) => on.create(new, call).await,
            Self::Embedded(on) => on.create(new, call).await,
        }
    }

    /// Validates a session, slides its idle time when the last touch is older than `touch_after`,
    /// and returns what is wanted of it unless it is still at `known`, all in one trip.
    /// `touch_after` of `None` does not touch.
    pub async fn open(
        &self,
        id: &SessionId,
        known: Version,
        fields: &Fields,
        touch_after: Option<Duration>,
        call: Call,
    ) -> Result<Opened, StoreError> {
        match self {
            Self::Redis(on) => on.open(id, known, fields, touch_after, call).await,
            Self::Embedded(on) => on.open(id, known, fields, touch_after, call).await,
        }
    }

    /// Makes all the changes or none. `seq` of `None` is not remembered. `not_after` is a time of
    /// the store's clock after which nobody wants it any more.
    pub async fn patch(
        &self,
        id: &SessionId,
        ops: &[Op],
        seq: Option<OpSeq>,
        ceilings: Ceilings,
        not_after: Option<Wall>,
        call: Call,
    ) -> Result<Acked<Patched>, StoreError> {
        match self {
            Self::Redis(on) => on.patch(id, ops, seq, ceilings, not_after, call).await,
            Self::Embedded(on) => on.patch(id, ops, seq, ceilings, not_after, call).await,
        }
    }

    /// Gives a session another id on the same slot tag.
    pub async fn rotate(
        &self,
        old: &SessionId,
        new: &SessionId,
        rotation: &Rotation,
        call: Call,
    ) -> Result<Acked<Rotated>, StoreError> {
        match self {
            Self::Redis(on) => on.rotate(old, new, rotation, call).await,
            Self::Embedded(on) => on.rotate(old, new, rotation, call).await,
        }
    }

    /// Ends a session; its id is remembered as ended for `tombstone`.
    pub async fn destroy(
        &self,
        id: &SessionId,
        reason: Reason,
        tombstone: Duration,
        call: Call,
    ) -> Result<Acked<Destroyed>, StoreError> {
        match self {
            Self::Redis(on) => on.destroy(id, reason, tombstone, call).await,
            Self::Embedded(on) => on.destroy(id, reason, tombstone, call).await,
        }
    }

    /// How often `uid` has signed out everywhere; 0 when never in living memory.
    pub async fn epoch(&self, uid: &Uid, call: Call) -> Result<u64, StoreError> {
        match self {
            Self::Redis(on) => on.epoch(uid, call).await,
            Self::Embedded(on) => on.epoch(uid, call).await,
        }
    }

    /// Ends all sessions of `uid`: those that the index has are returned for cleaning up, and those
    /// that it misses end by their epoch. The epoch is remembered for `keep`.
    pub async fn sign_out(
        &self,
        uid: &Uid,
        keep: Duration,
        call: Call,
    ) -> Result<Acked<SignedOut>, StoreError> {
        match self {
            Self::Redis(on) => on.sign_out(uid, keep, call).await,
            Self::Embedded(on) => on.sign_out(uid, keep, call).await,
        }
    }

    /// Moves a session into its user's new epoch, so that it alone survives a sign-out everywhere.
    pub async fn adopt_epoch(
        &self,
        id: &SessionId,
        epoch: u64,
        call: Call,
    ) -> Result<Acked<bool>, StoreError> {
        match self {
            Self::Redis(on) => on.adopt_epoch(id, epoch, call).await,
            Self::Embedded(on) => on.adopt_epoch(id, epoch, call).await,
        }
    }

    /// Notes in the user's index that `id` was active at the store's now; takes out what was last
    /// active longer than `window` ago, and the oldest beyond `most`.
    pub async fn index(
        &self,
        uid: &Uid,
        id: &SessionId,
        window: Duration,
        most: u32,
        call: Call,
    ) -> Result<(), StoreError> {
        match self {
            Self::Redis(on) => on.index(uid, id, window, most, call).await,
            Self::Embedded(on) => on.index(uid, id, window, most, call).await,
        }
    }

    /// Takes sessions out of their user's index.
    pub async fn unindex(
        &self,
        uid: &Uid,
        ids: &[SessionId],
        call: Call,
    ) -> Result<(), StoreError> {
        match self {
            Self::Redis(on) => on.unindex(uid, ids, call).await,
            Self::Embedded(on) => on.unindex(uid, ids, call).await,
        }
    }

    /// The sessions in the user's index with their last activity, the newest first.
    pub async fn sessions_of(
        &self,
        uid: &Uid,
        most: u32,
        call: Call,
    ) -> Result<Vec<(SessionId, Wall)>, StoreError> {
        match self {
            Self::Redis(on) => on.sessions_of(uid, most, call).await,
            Self::Embedded(on) => on.sessions_of(uid, most, call).await,
        }
    }

    /// Replaces what is kept for the user's next session; it is kept for `window`.
    pub async fn put_capsule(
        &self,
        uid: &Uid,
        content: &Found,
        window: Duration,
        call: Call,
    ) -> Result<Acked<()>, StoreError> {
        match self {
            Self::Redis(on) => on.put_capsule(uid, content, window, call).await,
            Self::Embedded(on) => on.put_capsule(uid, content, window, call).await,
        }
    }

    /// What is kept for the user's next session.
    pub async fn capsule(&self, uid: &Uid, call: Call) -> Result<Found, StoreError> {
        match self {
            Self::Redis(on) => on.capsule(uid, call).await,
            Self::Embedded(on) => on.capsule(uid, call).await,
        }
    }

    /// Stores a large value under `blob` beside the session `id` until `until`.
    pub async fn put_blob(
        &self,
        id: &SessionId,
        blob: &str,
        bytes: &[u8],
        until: Wall,
        call: Call,
    ) -> Result<(), StoreError> {
        match self {
            Self::Redis(on) => on.put_blob(id, blob, bytes, until, call).await,
            Self::Embedded(on) => on.put_blob(id, blob, bytes, until, call).await,
        }
    }

    /// A large value; `None` when there is none.
    pub async fn blob(
        &self,
        id: &SessionId,
        blob: &str,
        call: Call,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        match self {
            Self::Redis(on) => on.blob(id, blob, call).await,
            Self::Embedded(on) => on.blob(id, blob, call).await,
        }
    }

    /// Takes a large value away.
    pub async fn drop_blob(
        &self,
        id: &SessionId,
        blob: &str,
        call: Call,
    ) -> Result<(), StoreError> {
        match self {
            Self::Redis(on) => on.drop_blob(id, blob, call).await,
            Self::Embedded(on) => on.drop_blob(id, blob, call).await,
        }
    }

    /// Puts a session into the expiry index with the deadline it has now. Not moved by touches.
    pub async fn arm(&self, id: &SessionId, deadline: Wall, call: Call) -> Result<(), StoreError> {
        match self {
            Self::Redis(on) => on.arm(id, deadline, call).await,
            Self::Embedded(on) => on.arm(id, deadline, call).await,
        }
    }

    /// Claims up to `most` sessions of `bucket` that are due, for `lease`: until it is over nobody
    /// else gets them.
    pub async fn claim(
        &self,
        bucket: u8,
        most: u32,
        lease: Duration,
        call: Call,
    ) -> Result<Vec<Due>, StoreError> {
        match self {
            Self::Redis(on) => on.claim(bucket, most, lease, call).await,
            Self::Embedded(on) => on.claim(bucket, most, lease, call).await,
        }
    }

    /// Takes a session out of the expiry index and writes its end to the stream, once: false when it
    /// was not in the index. The stream keeps about `kept` events per bucket.
    pub async fn finish(&self, ended: &Ended, kept: u32, call: Call) -> Result<bool, StoreError> {
        match self {
            Self::Redis(on) => on.finish(ended, kept, call).await,
            Self::Embedded(on) => on.finish(ended, kept, call).await,
        }
    }
}

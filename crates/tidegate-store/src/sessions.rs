//! The operations on sessions, whatever keeps them.

use std::time::Duration;

use tidegate_core::session::{
    Ceilings, Created, Destroyed, Fields, Found, Lifetimes, Name, Op, OpSeq, Opened, Patched,
    Principal, Rotated, Rotation, SessionId, Uid, Value, Version,
};
use tidegate_core::time::Wall;

use crate::embedded::Embedded;
use crate::ends::{Claimed, Consumer, Ended, Event, EventId, Fate, Position, Reason};
use crate::error::StoreError;
use crate::redis::{Redis, StoreStats};
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

impl SessionStore {
    /// How the servers behind it are; without servers, nothing.
    pub fn servers(&self) -> StoreStats {
        match self {
            Self::Redis(on) => on.stats(),
            Self::Embedded(_) => StoreStats::default(),
        }
    }

    /// Whether the part of the store that has `id` is away, as far as is known without asking it: a
    /// call would fail at once.
    pub fn is_away(&self, id: &SessionId) -> bool {
        match self {
            Self::Redis(on) => on.is_away(id),
            Self::Embedded(_) => false,
        }
    }

    /// Creates a session; writes nothing when its id is taken or remembered. The id of one whose time
    /// is over is free.
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

    /// Replaces what is kept for the user's next session, for `window`; false, and nothing done,
    /// when what is there is of a later `version`. That is when the content was read, so that
    /// whoever is late with an older one, or does a write again, puts nothing old in its place.
    pub async fn put_capsule(
        &self,
        uid: &Uid,
        content: &Found,
        version: Version,
        window: Duration,
        call: Call,
    ) -> Result<Acked<bool>, StoreError> {
        match self {
            Self::Redis(on) => on.put_capsule(uid, content, version, window, call).await,
            Self::Embedded(on) => on.put_capsule(uid, content, version, window, call).await,
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

    /// Puts a session into the expiry index. Done before the session is created, so that no end is
    /// missed; an id that never came to be is reported as lost. Touches do not move it.
    pub async fn arm(&self, id: &SessionId, deadline: Wall, call: Call) -> Result<(), StoreError> {
        match self {
            Self::Redis(on) => on.arm(id, deadline, call).await,
            Self::Embedded(on) => on.arm(id, deadline, call).await,
        }
    }

    /// Moves the index's entry of `from` to `to`, an id of the same slot tag or the same id, and to
    /// `deadline`; false, and nothing done, when `from` has no entry: its end has been told.
    pub async fn rearm(
        &self,
        from: &SessionId,
        to: &SessionId,
        deadline: Wall,
        call: Call,
    ) -> Result<bool, StoreError> {
        match self {
            Self::Redis(on) => on.rearm(from, to, deadline, call).await,
            Self::Embedded(on) => on.rearm(from, to, deadline, call).await,
        }
    }

    /// Takes a session out of the expiry index without telling anybody.
    pub async fn disarm(&self, id: &SessionId, call: Call) -> Result<(), StoreError> {
        match self {
            Self::Redis(on) => on.disarm(id, call).await,
            Self::Embedded(on) => on.disarm(id, call).await,
        }
    }

    /// Takes `bucket`, below [`BUCKETS`](crate::BUCKETS), for `lease` unless somebody else holds it, and names up to
    /// `most` of its sessions that are due, the longest due first. `holder` is drawn anew whenever a
    /// process starts; claiming again extends the lease.
    pub async fn claim(
        &self,
        bucket: u8,
        holder: u64,
        most: u32,
        lease: Duration,
        call: Call,
    ) -> Result<Claimed, StoreError> {
        match self {
            Self::Redis(on) => on.claim(bucket, holder, most, lease, call).await,
            Self::Embedded(on) => on.claim(bucket, holder, most, lease, call).await,
        }
    }

    /// What has become of a session, also of one whose time is over. Does not touch it.
    pub async fn fate(&self, id: &SessionId, call: Call) -> Result<Fate, StoreError> {
        match self {
            Self::Redis(on) => on.fate(id, call).await,
            Self::Embedded(on) => on.fate(id, call).await,
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

    /// Events for one member of a group, each of which goes to one member only: first those that
    /// some member got `abandoned_after` ago or longer and has not acknowledged, then those that
    /// nobody had. A group begins, with the first read, at the oldest event kept. About `most`, and
    /// never more than that or [`BUCKETS`](crate::BUCKETS), whichever is more.
    pub async fn events(
        &self,
        consumer: &Consumer,
        most: u32,
        abandoned_after: Duration,
        call: Call,
    ) -> Result<Vec<Event>, StoreError> {
        match self {
            Self::Redis(on) => on.events(consumer, most, abandoned_after, call).await,
            Self::Embedded(on) => on.events(consumer, most, abandoned_after, call).await,
        }
    }

    /// Acknowledges events of a group; says how many had not been.
    pub async fn acknowledge(
        &self,
        group: &Name,
        events: &[EventId],
        call: Call,
    ) -> Result<u32, StoreError> {
        match self {
            Self::Redis(on) => on.acknowledge(group, events, call).await,
            Self::Embedded(on) => on.acknowledge(group, events, call).await,
        }
    }

    /// Events after a position, for a reader that keeps account itself, and the position behind
    /// them. Bounded like [`Self::events`].
    pub async fn events_after(
        &self,
        position: &Position,
        most: u32,
        call: Call,
    ) -> Result<(Vec<Event>, Position), StoreError> {
        match self {
            Self::Redis(on) => on.events_after(position, most, call).await,
            Self::Embedded(on) => on.events_after(position, most, call).await,
        }
    }
}

//! Sessions in Redis or Valkey.

mod plan;
mod script;
mod servers;

pub use plan::{Address, Arrangement, BadAddress, Credentials, LanePlan, RedisPlan, Use};

pub(crate) use script::{Run, Script};
pub(crate) use servers::{Lane, Servers};

use crate::background::Background;

/// A connection to Redis or Valkey: standalone, behind Sentinel, or a Cluster.
#[derive(Clone)]
pub struct Redis {
    servers: Servers,
}

impl Redis {
    /// Begins to connect and returns at once: whether there is a server shows at the first call.
    pub fn start(plan: &RedisPlan, purpose: Use, background: &Background) -> Self {
        Self {
            servers: Servers::start(plan, purpose, background),
        }
    }
}

use crate::ends::{Claimed, Consumer, Ended, Event, EventId, Fate, Position, Reason};
use crate::error::StoreError;
use crate::sessions::{NewSession, SignedOut};
use crate::{Acked, Call};
use std::time::Duration;
use tidegate_core::session::*;
use tidegate_core::time::Wall;

#[allow(unused_variables, clippy::unused_async)]
impl Redis {
    pub(crate) fn is_away(&self, id: &SessionId) -> bool {
        false
    }
    pub(crate) async fn create(
        &self,
        new: &NewSession,
        call: Call,
    ) -> Result<Acked<Created>, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn open(
        &self,
        id: &SessionId,
        known: Version,
        fields: &Fields,
        touch_after: Option<Duration>,
        call: Call,
    ) -> Result<Opened, StoreError> {
        unimplemented!()
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
        unimplemented!()
    }
    pub(crate) async fn rotate(
        &self,
        old: &SessionId,
        new: &SessionId,
        rotation: &Rotation,
        call: Call,
    ) -> Result<Acked<Rotated>, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn destroy(
        &self,
        id: &SessionId,
        reason: Reason,
        tombstone: Duration,
        call: Call,
    ) -> Result<Acked<Destroyed>, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn epoch(&self, uid: &Uid, call: Call) -> Result<u64, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn sign_out(
        &self,
        uid: &Uid,
        keep: Duration,
        call: Call,
    ) -> Result<Acked<SignedOut>, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn adopt_epoch(
        &self,
        id: &SessionId,
        epoch: u64,
        call: Call,
    ) -> Result<Acked<bool>, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn index(
        &self,
        uid: &Uid,
        id: &SessionId,
        window: Duration,
        most: u32,
        call: Call,
    ) -> Result<(), StoreError> {
        unimplemented!()
    }
    pub(crate) async fn unindex(
        &self,
        uid: &Uid,
        ids: &[SessionId],
        call: Call,
    ) -> Result<(), StoreError> {
        unimplemented!()
    }
    pub(crate) async fn sessions_of(
        &self,
        uid: &Uid,
        most: u32,
        call: Call,
    ) -> Result<Vec<(SessionId, Wall)>, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn put_capsule(
        &self,
        uid: &Uid,
        content: &Found,
        window: Duration,
        call: Call,
    ) -> Result<Acked<()>, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn capsule(&self, uid: &Uid, call: Call) -> Result<Found, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn put_blob(
        &self,
        id: &SessionId,
        blob: &str,
        bytes: &[u8],
        until: Wall,
        call: Call,
    ) -> Result<(), StoreError> {
        unimplemented!()
    }
    pub(crate) async fn blob(
        &self,
        id: &SessionId,
        blob: &str,
        call: Call,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn drop_blob(
        &self,
        id: &SessionId,
        blob: &str,
        call: Call,
    ) -> Result<(), StoreError> {
        unimplemented!()
    }
    pub(crate) async fn arm(
        &self,
        id: &SessionId,
        deadline: Wall,
        call: Call,
    ) -> Result<(), StoreError> {
        unimplemented!()
    }
    pub(crate) async fn rearm(
        &self,
        from: &SessionId,
        to: &SessionId,
        deadline: Wall,
        call: Call,
    ) -> Result<bool, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn disarm(&self, id: &SessionId, call: Call) -> Result<(), StoreError> {
        unimplemented!()
    }
    pub(crate) async fn claim(
        &self,
        bucket: u8,
        holder: u64,
        most: u32,
        lease: Duration,
        call: Call,
    ) -> Result<Claimed, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn fate(&self, id: &SessionId, call: Call) -> Result<Fate, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn finish(
        &self,
        ended: &Ended,
        kept: u32,
        call: Call,
    ) -> Result<bool, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn events(
        &self,
        consumer: &Consumer,
        most: u32,
        abandoned_after: Duration,
        call: Call,
    ) -> Result<Vec<Event>, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn acknowledge(
        &self,
        group: &Name,
        events: &[EventId],
        call: Call,
    ) -> Result<u32, StoreError> {
        unimplemented!()
    }
    pub(crate) async fn events_after(
        &self,
        position: &Position,
        most: u32,
        call: Call,
    ) -> Result<(Vec<Event>, Position), StoreError> {
        unimplemented!()
    }
}

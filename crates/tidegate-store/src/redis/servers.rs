//! The servers of one use: which shard has a key, and what is run there.

use redis::{Cmd, Pipeline, Value};

use super::plan::{RedisPlan, Use};
use super::script::Run;
use crate::background::Background;
use crate::error::StoreError;
use crate::{Acked, Call};

/// The connections to all servers of one use. A clone is the same connections.
#[derive(Clone)]
pub(crate) struct Servers {}

/// Which of a shard's connections an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// For the small operations of ordinary requests. All operations on one slot take the same
    /// connection, so they reach the server in the order in which they are first polled.
    Fast,
    /// For large values and housekeeping, which must not stand before the small ones.
    Bulk,
}

#[allow(unused_variables, clippy::unused_async)]
impl Servers {
    /// Begins to connect and returns at once: whether there is a server shows at the first call.
    pub(crate) fn start(plan: &RedisPlan, purpose: Use, background: &Background) -> Self {
        unimplemented!()
    }

    /// Runs a script. Never takes longer than `call.timeout` or the lane's operation timeout,
    /// whichever is shorter.
    pub(crate) async fn run(&self, run: &Run, lane: Lane, call: Call) -> Result<Value, StoreError> {
        unimplemented!()
    }

    /// Runs a script that writes, with the durability that `call` asks for: waits for replicas on a
    /// connection of its own when `call.wait` is set, and keeps `run` to do it again after a
    /// failover when `call.redo` is set. Such a run must be harmless when done twice.
    pub(crate) async fn write(
        &self,
        run: Run,
        lane: Lane,
        call: Call,
    ) -> Result<Acked<Value>, StoreError> {
        unimplemented!()
    }

    /// Keeps `run`, which has not been run, to do it after a failover: for a write that cannot
    /// itself be done twice and has a harmless equivalent.
    pub(crate) fn remember(&self, run: Run) {
        unimplemented!()
    }

    /// Runs one command on the shard that has `key`.
    pub(crate) async fn command(
        &self,
        key: &[u8],
        command: &Cmd,
        lane: Lane,
        call: Call,
    ) -> Result<Value, StoreError> {
        unimplemented!()
    }

    /// Runs commands on keys of one slot, `key`'s, in one round trip. One that is refused is
    /// `Value::ServerError` in the result.
    pub(crate) async fn batch(
        &self,
        key: &[u8],
        commands: &Pipeline,
        lane: Lane,
        call: Call,
    ) -> Result<Vec<Value>, StoreError> {
        unimplemented!()
    }
}

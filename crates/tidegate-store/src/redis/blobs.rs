//! Large values, beside their session.

use redis::{Value, cmd};
use tidegate_core::session::SessionId;
use tidegate_core::time::Wall;

use super::{Lane, Redis, keys};
use crate::Call;
use crate::error::StoreError;

impl Redis {
    pub(crate) async fn put_blob(
        &self,
        id: &SessionId,
        blob: &str,
        bytes: &[u8],
        until: Wall,
        call: Call,
    ) -> Result<(), StoreError> {
        let key = keys::blob(id.tag(), blob);
        let mut command = cmd("SET");
        command.arg(&key).arg(bytes);
        command.arg("PXAT").arg(until.as_micros() / 1_000);
        let done = self
            .servers
            .command(key.as_bytes(), &command, Lane::Bulk, call);
        done.await.map(drop)
    }

    pub(crate) async fn blob(
        &self,
        id: &SessionId,
        blob: &str,
        call: Call,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let key = keys::blob(id.tag(), blob);
        let mut command = cmd("GET");
        command.arg(&key);
        let reply = self
            .servers
            .command(key.as_bytes(), &command, Lane::Bulk, call);
        match reply.await? {
            Value::BulkString(bytes) => Ok(Some(bytes)),
            Value::Nil => Ok(None),
            _ => Err(StoreError::Odd("the reply of GET".to_owned())),
        }
    }

    pub(crate) async fn drop_blob(
        &self,
        id: &SessionId,
        blob: &str,
        call: Call,
    ) -> Result<(), StoreError> {
        let key = keys::blob(id.tag(), blob);
        let mut command = cmd("UNLINK");
        command.arg(&key);
        let done = self
            .servers
            .command(key.as_bytes(), &command, Lane::Bulk, call);
        done.await.map(drop)
    }
}

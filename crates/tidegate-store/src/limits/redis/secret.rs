//! The secret that keys of limits are hashed with, where a fleet must have the same.

use redis::{Value, cmd};

use super::RedisLimits;
use crate::Call;
use crate::error::StoreError;
use crate::redis::{LIMIT_SECRET, Lane};

impl RedisLimits {
    /// The secret of the fleet. It is `own` from now on if the store has none: nobody has asked before, or it has lost what
    /// it had. Who asks again and again keeps it there.
    pub async fn secret(&self, own: [u8; 16], call: Call) -> Result<[u8; 16], StoreError> {
        let mut command = cmd("SET");
        command.arg(LIMIT_SECRET).arg(&own[..]).arg("NX").arg("GET");
        let servers = self.0.redis.servers();
        let key = LIMIT_SECRET.as_bytes();
        match servers.command(key, &command, Lane::Fast, call).await? {
            Value::Nil => Ok(own),
            Value::BulkString(bytes) => bytes
                .try_into()
                .map_err(|_| StoreError::Odd("the secret of limits has another length".to_owned())),
            _ => Err(StoreError::Odd(
                "the secret of limits is no text".to_owned(),
            )),
        }
    }
}

//! What is kept by user: the epoch, the index of sessions, the capsule.

use std::time::Duration;

use redis::cmd;
use tidegate_core::session::{Found, SessionId, Uid, Version};
use tidegate_core::time::Wall;

use super::replies::{self, Elements};
use super::sessions::millis;
use super::{Lane, Redis, Run, keys, scripts};
use crate::error::StoreError;
use crate::sessions::SignedOut;
use crate::{Acked, Call};

impl Redis {
    pub(crate) async fn epoch(&self, uid: &Uid, call: Call) -> Result<u64, StoreError> {
        let key = keys::epoch(uid);
        let reply = self
            .servers
            .command(key.as_bytes(), cmd("GET").arg(&key), Lane::Fast, call)
            .await?;
        replies::natural_or_zero("GET", reply)
    }

    pub(crate) async fn sign_out(
        &self,
        uid: &Uid,
        keep: Duration,
        call: Call,
    ) -> Result<Acked<SignedOut>, StoreError> {
        let run = Run::of(&scripts::SIGN_OUT)
            .key(keys::epoch(uid))
            .key(keys::sessions(uid))
            .number(millis(keep));
        // Done twice it would count twice, and end the sessions begun in between.
        let once = Call {
            redo: false,
            ..call
        };
        let acked = self.servers.write(run, Lane::Fast, once).await?;
        let acked = acked.read(signed_out)?;
        if call.redo {
            self.servers.remember(
                Run::of(&scripts::RAISE)
                    .key(keys::epoch(uid))
                    .number(acked.reply.epoch)
                    .number(millis(keep)),
            );
        }
        Ok(acked)
    }

    pub(crate) async fn index(
        &self,
        uid: &Uid,
        id: &SessionId,
        window: Duration,
        most: u32,
        call: Call,
    ) -> Result<(), StoreError> {
        let run = Run::of(&scripts::INDEX)
            .key(keys::sessions(uid))
            .number(id)
            .number(millis(window))
            .number(most);
        let call = Call { redo: true, ..call };
        self.servers.write(run, Lane::Fast, call).await.map(drop)
    }

    pub(crate) async fn unindex(
        &self,
        uid: &Uid,
        ids: &[SessionId],
        call: Call,
    ) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        let key = keys::sessions(uid);
        let mut command = cmd("ZREM");
        command.arg(&key);
        for id in ids {
            command.arg(id.to_string());
        }
        let done = self
            .servers
            .command(key.as_bytes(), &command, Lane::Fast, call);
        done.await.map(drop)
    }

    pub(crate) async fn sessions_of(
        &self,
        uid: &Uid,
        most: u32,
        call: Call,
    ) -> Result<Vec<(SessionId, Wall)>, StoreError> {
        let Some(last) = most.checked_sub(1) else {
            return Ok(Vec::new());
        };
        let key = keys::sessions(uid);
        let mut command = cmd("ZRANGE");
        command
            .arg(&key)
            .arg(0)
            .arg(last)
            .arg("REV")
            .arg("WITHSCORES");
        let reply = self
            .servers
            .command(key.as_bytes(), &command, Lane::Fast, call)
            .await?;
        replies::scored("ZRANGE", reply)
    }

    pub(crate) async fn put_capsule(
        &self,
        uid: &Uid,
        content: &Found,
        version: Version,
        window: Duration,
        call: Call,
    ) -> Result<Acked<bool>, StoreError> {
        let mut run = Run::of(&scripts::CAPSULE)
            .key(keys::capsule(uid))
            .number(version)
            .number(millis(window));
        for (name, attribute) in &content.attributes {
            run = run.arg(keys::attribute(name)).arg(attribute.encode());
        }
        for (name, counter) in &content.counters {
            run = run.arg(keys::counter(name)).number(counter);
        }
        let acked = self.servers.write(run, Lane::Fast, call).await?;
        acked.read(|reply| replies::flag("capsule", &reply))
    }

    pub(crate) async fn capsule(&self, uid: &Uid, call: Call) -> Result<Found, StoreError> {
        let key = keys::capsule(uid);
        let reply = self
            .servers
            .command(key.as_bytes(), cmd("HGETALL").arg(&key), Lane::Fast, call)
            .await?;
        replies::content(reply)
    }
}

fn signed_out(reply: redis::Value) -> Result<SignedOut, StoreError> {
    let mut elements = Elements::of("sign_out", reply)?;
    let epoch = elements.natural()?;
    let mut members = elements.nested()?;
    let mut sessions = Vec::new();
    while !members.is_empty() {
        // What is no id is nobody's session; the epoch ends all others anyway.
        sessions.extend(SessionId::parse(&members.text()?).ok());
    }
    Ok(SignedOut { epoch, sessions })
}

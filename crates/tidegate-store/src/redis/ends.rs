//! The expiry index and the stream of ends.

use std::future::Future;
use std::ops::Range;
use std::time::Duration;

use futures_util::stream::{StreamExt, TryStreamExt, iter};
use redis::{Value, cmd};
use tidegate_core::session::{Name, SessionId, Uid};
use tidegate_core::time::Wall;

use super::replies::{self, DONE, Elements, TAKEN};
use super::sessions::millis;
use super::{Lane, Redis, Run, keys, scripts};
use crate::Call;
use crate::ends::{
    BUCKETS, Claimed, Consumer, Due, Ended, Event, EventId, Position, Reason, bucket_of,
};
use crate::error::StoreError;

/// Buckets that are read at a time, where they are not read together: a listener is to leave room
/// on the lane.
const BUCKETS_AT_A_TIME: usize = 4;
/// How a server refuses keys that lie in different slots.
const ACROSS_SLOTS: &str = "CROSSSLOT";

impl Redis {
    pub(crate) async fn arm(
        &self,
        id: &SessionId,
        deadline: Wall,
        call: Call,
    ) -> Result<(), StoreError> {
        let key = keys::index_of(id);
        let mut command = cmd("ZADD");
        command.arg(&key).arg(deadline_ms(deadline));
        command.arg(id.to_string());
        // A session that is done again and not in here would end without anybody being told.
        let call = Call { redo: true, ..call };
        let done = self
            .servers
            .command(key.as_bytes(), &command, Lane::Fast, call);
        done.await.map(drop)
    }

    pub(crate) async fn rearm(
        &self,
        from: &SessionId,
        to: &SessionId,
        deadline: Wall,
        call: Call,
    ) -> Result<bool, StoreError> {
        if from.tag() != to.tag() {
            return Err(StoreError::Refused("a rotation keeps the tag".to_owned()));
        }
        let run = Run::of(&scripts::REARM)
            .key(keys::index_of(from))
            .number(from)
            .number(to)
            .number(deadline_ms(deadline));
        let reply = self.servers.run(&run, Lane::Fast, call).await?;
        replies::flag("rearm", &reply)
    }

    pub(crate) async fn disarm(&self, id: &SessionId, call: Call) -> Result<(), StoreError> {
        let key = keys::index_of(id);
        let mut command = cmd("ZREM");
        command.arg(&key).arg(id.to_string());
        let done = self
            .servers
            .command(key.as_bytes(), &command, Lane::Fast, call);
        done.await.map(drop)
    }

    pub(crate) async fn claim(
        &self,
        bucket: u8,
        holder: u64,
        most: u32,
        lease: Duration,
        call: Call,
    ) -> Result<Claimed, StoreError> {
        let run = Run::of(&scripts::CLAIM)
            .key(keys::index(bucket))
            .key(keys::lease(bucket))
            .arg(format!("{holder:016x}"))
            .number(millis(lease))
            .number(most);
        let reply = self.servers.run(&run, Lane::Bulk, call).await?;
        claimed(reply)
    }

    pub(crate) async fn finish(
        &self,
        ended: &Ended,
        kept: u32,
        call: Call,
    ) -> Result<bool, StoreError> {
        let run = Run::of(&scripts::FINISH)
            .key(keys::index_of(&ended.session))
            .key(keys::stream(bucket_of(ended.session.tag())))
            .number(ended.session)
            .arg(ended.reason.name())
            .arg(ended.uid.as_ref().map_or("", Uid::as_str))
            .number(kept);
        let reply = self.servers.run(&run, Lane::Bulk, call).await?;
        replies::flag("finish", &reply)
    }

    pub(crate) async fn events(
        &self,
        consumer: &Consumer,
        most: u32,
        abandoned_after: Duration,
        call: Call,
    ) -> Result<Vec<Event>, StoreError> {
        let read = |buckets: Range<u8>| async move {
            let streams = buckets.clone().map(keys::stream);
            let run = streams.fold(Run::of(&scripts::EVENTS), Run::key);
            let run = run
                .arg(consumer.group.as_str())
                .arg(consumer.member.as_str())
                .number(share(most))
                .number(millis(abandoned_after));
            let reply = self.servers.run(&run, Lane::Bulk, call).await?;
            let mut streams = Elements::of("events", reply)?;
            let mut events = Vec::new();
            for bucket in buckets {
                events.extend(entries(bucket, streams.nested()?)?);
            }
            Ok(events)
        };
        self.in_all_buckets(read).await
    }

    pub(crate) async fn acknowledge(
        &self,
        group: &Name,
        events: &[EventId],
        call: Call,
    ) -> Result<u32, StoreError> {
        let mut events = events.to_vec();
        events.sort_unstable();
        let acknowledge = |events: Vec<EventId>| async move {
            let key = keys::stream(events[0].bucket);
            let mut command = cmd("XACK");
            command.arg(&key).arg(group.as_str());
            for event in &events {
                command.arg(format!("{}-{}", event.millis, event.number));
            }
            let done = self
                .servers
                .command(key.as_bytes(), &command, Lane::Bulk, call);
            replies::natural_or_zero("XACK", done.await?)
        };
        let by_bucket = events.chunk_by(|one, other| one.bucket == other.bucket);
        let acknowledged = iter(by_bucket.map(<[_]>::to_vec).collect::<Vec<_>>())
            .map(acknowledge)
            .buffer_unordered(BUCKETS_AT_A_TIME)
            .try_fold(0, |sum, count| std::future::ready(Ok(sum + count)));
        Ok(u32::try_from(acknowledged.await?).unwrap_or(u32::MAX))
    }

    pub(crate) async fn events_after(
        &self,
        position: &Position,
        most: u32,
        call: Call,
    ) -> Result<(Vec<Event>, Position), StoreError> {
        let read = |buckets: Range<u8>| async move {
            let mut command = cmd("XREAD");
            command.arg("COUNT").arg(share(most)).arg("STREAMS");
            for bucket in buckets.clone() {
                command.arg(keys::stream(bucket));
            }
            for bucket in buckets.clone() {
                let (millis, number) = position.in_bucket(bucket);
                command.arg(format!("{millis}-{number}"));
            }
            let key = keys::stream(buckets.start);
            let reply = self
                .servers
                .command(key.as_bytes(), &command, Lane::Bulk, call);
            read_streams(buckets, reply.await?)
        };
        let events = self.in_all_buckets(read).await?;
        let mut behind = position.clone();
        for event in &events {
            behind.pass(event.id);
        }
        Ok((events, behind))
    }

    /// What `read` finds in all buckets, the oldest first. It is asked for all at once, or for one
    /// after the other where their keys are to be named apart. What some gave is not withheld
    /// because others failed: whoever was given an event is waited for.
    async fn in_all_buckets<R, F>(&self, read: R) -> Result<Vec<Event>, StoreError>
    where
        R: Fn(Range<u8>) -> F,
        F: Future<Output = Result<Vec<Event>, StoreError>>,
    {
        if !self.servers.names_slots_apart() {
            match read(0..BUCKETS).await {
                Err(StoreError::Odd(said)) if said.starts_with(ACROSS_SLOTS) => {
                    self.servers.name_slots_apart();
                }
                all => return all.map(sorted),
            }
        }
        let mut reads = iter(0..BUCKETS)
            .map(|bucket| read(bucket..bucket + 1))
            .buffer_unordered(BUCKETS_AT_A_TIME);
        let (mut events, mut failure) = (Vec::new(), None);
        while let Some(read) = reads.next().await {
            match read {
                Ok(found) => events.extend(found),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if events.is_empty() => Err(error),
            _ => Ok(sorted(events)),
        }
    }
}

fn sorted(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_unstable_by_key(|event| (event.id.millis, event.id.bucket, event.id.number));
    events
}

/// What each bucket may give of `most`.
fn share(most: u32) -> u32 {
    (most / u32::from(BUCKETS)).max(1)
}

fn claimed(reply: Value) -> Result<Claimed, StoreError> {
    let mut elements = Elements::of("claim", reply)?;
    match elements.integer()? {
        DONE => {
            let now = elements.now()?;
            let mut members = elements.nested()?;
            let mut due = Vec::new();
            while !members.is_empty() {
                let (session, deadline) = (members.text()?, members.time()?);
                // What is no id is nobody's session: left alone, as all that is not understood.
                if let Ok(session) = SessionId::parse(&session) {
                    due.push(Due { session, deadline });
                }
            }
            Ok(Claimed::Held { now, due })
        }
        TAKEN => {
            let left = u64::try_from(elements.integer()?).unwrap_or(0);
            Ok(Claimed::Taken {
                left: Duration::from_millis(left),
            })
        }
        _ => Err(elements.odd()),
    }
}

/// What `XREAD` found in the streams of `buckets`: those that have nothing new are left out.
fn read_streams(buckets: Range<u8>, reply: Value) -> Result<Vec<Event>, StoreError> {
    let mut events = Vec::new();
    if reply == Value::Nil {
        return Ok(events);
    }
    let mut streams = Elements::of("XREAD", reply)?;
    while !streams.is_empty() {
        let mut stream = streams.nested()?;
        let key = stream.text()?;
        let bucket = buckets.clone().find(|bucket| keys::stream(*bucket) == key);
        let bucket = bucket.ok_or_else(|| stream.odd())?;
        events.extend(entries(bucket, stream.nested()?)?);
    }
    Ok(events)
}

/// The entries of a stream. One that makes no sense is passed over, as some other release's.
fn entries(bucket: u8, mut entries: Elements) -> Result<Vec<Event>, StoreError> {
    let mut events = Vec::new();
    while !entries.is_empty() {
        let mut entry = entries.nested()?;
        let id = EventId::parse(&format!("{bucket}-{}", entry.text()?)).map_err(|_| entry.odd())?;
        let mut fields = entry.nested()?;
        let (mut session, mut reason, mut uid) = (None, None, None);
        while !fields.is_empty() {
            let (field, value) = (fields.text()?, fields.text()?);
            match field.as_str() {
                "session" => session = SessionId::parse(&value).ok(),
                "reason" => reason = Reason::parse(&value),
                "uid" => uid = Uid::new(value).ok(),
                _ => {}
            }
        }
        if let (Some(session), Some(reason)) = (session, reason) {
            let ended = Ended {
                session,
                uid,
                reason,
            };
            events.push(Event { id, ended });
        }
    }
    Ok(events)
}

const fn deadline_ms(deadline: Wall) -> u64 {
    deadline.as_micros() / 1_000
}

//! Sessions one by one.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::session::{
    Ceilings, Created, Destroyed, Expect, Fields, Lifetimes, Name, Op, OpSeq, Opened, Patched,
    Principal, Rotated, Rotation, SessionId, Value, Version,
};
use tidegate_core::time::Wall;

use super::replies::{self, fields_of};
use super::{Lane, Redis, Run, keys, scripts};
use crate::ends::{Fate, Reason};
use crate::error::StoreError;
use crate::sessions::NewSession;
use crate::{Acked, Call};

/// Changes in one patch; Lua passes no more than a few thousand values at a time.
const OPS_MAX: usize = 1_000;
/// The longest time that is stored: a hundred years, exact in Lua's numbers whatever is added.
const TIME_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

impl Redis {
    pub(crate) async fn create(
        &self,
        new: &NewSession,
        call: Call,
    ) -> Result<Acked<Created>, StoreError> {
        let content = Content::of(new);
        let mut run = Run::of(&scripts::CREATE)
            .key(keys::session(&new.id))
            .key(keys::tombstone(&new.id));
        run = with_lifetimes(run, new.lifetimes);
        run = with_principal(run, new.principal.as_ref())
            .number(content.bytes)
            .number(content.fields.len())
            .arg("");
        for (field, value) in content.fields {
            run = run.arg(field).arg(value);
        }
        let writing = self
            .servers
            .write_then(run, Lane::Fast, call, created_again);
        let acked = writing.await?;
        let principal = new.principal.as_ref();
        acked.read(|reply| replies::created(reply, new.lifetimes, principal, content.bytes))
    }

    pub(crate) async fn open(
        &self,
        id: &SessionId,
        known: Version,
        fields: &Fields,
        touch_after: Option<Duration>,
        call: Call,
    ) -> Result<Opened, StoreError> {
        let touch_after = touch_after.map(|after| millis(after).to_string());
        let mut run = Run::of(&scripts::OPEN)
            .key(keys::session(id))
            .key(keys::tombstone(id))
            .number(known)
            .arg(touch_after.unwrap_or_default());
        if let Fields::Only(names) = fields {
            for field in names.iter().flat_map(fields_of) {
                run = run.arg(field);
            }
            if names.is_empty() {
                // No field at all would ask for every one.
                run = run.arg(tidegate_core::session::layout::ATTRIBUTE);
            }
        }
        let reply = self.servers.run(&run, Lane::Fast, call).await?;
        let opened = replies::opened(reply, fields)?;
        if !matches!(opened, Opened::Gone(_)) {
            let whole = matches!(opened, Opened::Found { .. });
            self.servers.fetched(&run.keys[0], whole);
        }
        Ok(opened)
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
        if ops.len() > OPS_MAX {
            return Err(StoreError::Refused(format!("more than {OPS_MAX} changes")));
        }
        let writer = seq.map(|seq| seq.writer.to_string());
        let not_after = not_after.map(|last| (last.as_micros() / 1_000).to_string());
        let mut run = Run::of(&scripts::PATCH)
            .key(keys::session(id))
            .key(keys::tombstone(id))
            .arg(writer.unwrap_or_default())
            .number(seq.map_or(0, |seq| seq.number))
            .arg(not_after.unwrap_or_default())
            .number(ceilings.value)
            .number(ceilings.session)
            .number(ceilings.count);
        for op in ops {
            run = with_op(run, op);
        }
        // Without a number it would be done twice if it were done again.
        let redo = call.redo && seq.is_some();
        let call = Call { redo, ..call };
        let writing = self.servers.write_then(run, Lane::Fast, call, done_again);
        writing.await?.read(replies::patched)
    }

    pub(crate) async fn rotate(
        &self,
        old: &SessionId,
        new: &SessionId,
        rotation: &Rotation,
        call: Call,
    ) -> Result<Acked<Rotated>, StoreError> {
        if old.tag() != new.tag() {
            return Err(StoreError::Refused("a rotation keeps the tag".to_owned()));
        }
        let run = Run::of(&scripts::ROTATE)
            .key(keys::session(old))
            .key(keys::session(new))
            .key(keys::tombstone(old))
            .key(keys::tombstone(new));
        let begun = |kind: &str, tombstone: Duration| {
            run.arg(kind).number(millis(tombstone)).arg(new.hash())
        };
        let run = match rotation {
            Rotation::Habit {
                successor,
                tombstone,
            } => begun("r", *tombstone).arg(successor.as_slice()),
            Rotation::Privilege {
                principal,
                lifetimes,
                carry,
                tombstone,
            } => {
                let run = with_lifetimes(begun("p", *tombstone), *lifetimes);
                let run = with_principal(run, principal.as_ref());
                carry.iter().flat_map(fields_of).fold(run, Run::arg)
            }
        };
        let acked = self.servers.write(run, Lane::Fast, call).await?;
        acked.read(replies::rotated)
    }

    pub(crate) async fn destroy(
        &self,
        id: &SessionId,
        reason: Reason,
        tombstone: Duration,
        call: Call,
    ) -> Result<Acked<Destroyed>, StoreError> {
        let run = Run::of(&scripts::DESTROY)
            .key(keys::session(id))
            .key(keys::tombstone(id))
            .number(millis(tombstone))
            .arg(reason.name());
        let acked = self.servers.write(run, Lane::Fast, call).await?;
        acked.read(replies::destroyed)
    }

    pub(crate) async fn adopt_epoch(
        &self,
        id: &SessionId,
        epoch: u64,
        call: Call,
    ) -> Result<Acked<bool>, StoreError> {
        let run = Run::of(&scripts::ADOPT)
            .key(keys::session(id))
            .number(epoch);
        let acked = self.servers.write(run, Lane::Fast, call).await?;
        acked.read(|reply| replies::flag("adopt", &reply))
    }

    pub(crate) async fn fate(&self, id: &SessionId, call: Call) -> Result<Fate, StoreError> {
        let run = Run::of(&scripts::FATE)
            .key(keys::session(id))
            .key(keys::tombstone(id));
        let reply = self.servers.run(&run, Lane::Bulk, call).await?;
        replies::fate(reply, id.tag())
    }
}

/// Which argument of the creation script is the version.
const CREATE_VERSION: usize = 7;
/// Where the reply to a creation has the store's clock, which is the version.
const REPLY_NOW: usize = 1;

/// A creation as it is done again should the store lose it: with the version that it had, so that the
/// patches which followed it find it.
fn created_again(create: &Run, said: &redis::Value) -> Option<Run> {
    let redis::Value::Array(said) = said else {
        return None;
    };
    let Some(redis::Value::Int(micros)) = said.get(REPLY_NOW) else {
        return None;
    };
    let mut again = create.clone();
    let version = Version(u64::try_from(*micros).ok()?);
    again.args[CREATE_VERSION] = version.to_string().into_bytes();
    Some(again)
}

/// Arguments of the patch script before those of the changes; one of them is how long it is wanted.
const PATCH_ARGS: usize = 6;
const PATCH_NOT_AFTER: usize = 2;
/// Arguments of one change, and which of them is what is expected.
const OP_ARGS: usize = 4;
const OP_EXPECTED: usize = 3;
/// Where the reply to a patch has the session's new version.
const REPLY_VERSION: usize = 3;

/// A patch that was made, as it is made again should the store lose it: whenever that is, and in the
/// place of what had been there before, whatever that was, but not of what somebody wrote since. The
/// first of two that expected each other's outcome would else leave the second one in conflict.
fn done_again(patch: &Run, said: &redis::Value) -> Option<Run> {
    let redis::Value::Array(said) = said else {
        return None;
    };
    let Some(redis::Value::BulkString(version)) = said.get(REPLY_VERSION) else {
        return None;
    };
    let mut again = patch.clone();
    again.args[PATCH_NOT_AFTER].clear();
    for op in again.args[PATCH_ARGS..].chunks_exact_mut(OP_ARGS) {
        if matches!(op[0].as_slice(), b"S" | b"D") {
            op[OP_EXPECTED] = [b"<", version.as_slice()].concat();
        }
    }
    Some(again)
}

/// What a session begins with, as fields.
struct Content {
    fields: BTreeMap<String, Vec<u8>>,
    bytes: u32,
}

impl Content {
    fn of(new: &NewSession) -> Self {
        let mut weights: BTreeMap<&Name, usize> = BTreeMap::new();
        let mut fields = BTreeMap::new();
        // The last of one name counts, and a counter before an attribute.
        for (name, value) in &new.attributes {
            weights.insert(name, name.as_str().len() + value.bytes.len() + 16);
            fields.insert(keys::attribute(name), stored(value));
        }
        for (name, counter) in &new.counters {
            weights.insert(name, name.as_str().len() + 20);
            fields.remove(&keys::attribute(name));
            fields.insert(keys::counter(name), counter.to_string().into_bytes());
        }
        let bytes: usize = weights.values().sum();
        Self {
            fields,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        }
    }
}

/// A value as a script takes it, which puts the version before it.
fn stored(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 + value.bytes.len());
    bytes.extend([value.format.letter(), b':']);
    bytes.extend_from_slice(&value.bytes);
    bytes
}

fn with_op(run: Run, op: &Op) -> Run {
    let run = run.arg(match op {
        Op::Set { .. } => "S",
        Op::Delete { .. } => "D",
        Op::Increment { .. } => "I",
        Op::Max { .. } => "X",
    });
    let run = run.arg(op.name().as_str());
    match op {
        Op::Set { value, expect, .. } => run.arg(stored(value)).arg(expected(*expect)),
        Op::Delete { expect, .. } => run.arg("").arg(expected(*expect)),
        Op::Increment { by, .. } => run.number(by).arg("*"),
        Op::Max { to, .. } => run.number(to).arg("*"),
    }
}

fn expected(expect: Expect) -> String {
    match expect {
        Expect::Any => "*".to_owned(),
        Expect::Absent | Expect::At(Version::NONE) => "0".to_owned(),
        Expect::At(version) => version.to_string(),
    }
}

fn with_lifetimes(run: Run, lifetimes: Lifetimes) -> Run {
    run.number(millis(lifetimes.idle))
        .number(millis(lifetimes.absolute))
}

fn with_principal(run: Run, principal: Option<&Principal>) -> Run {
    let Some(principal) = principal else {
        return run.arg("").arg("").arg("0");
    };
    run.arg(principal.uid.as_str())
        .arg(principal.tier.as_ref().map_or("", Name::as_str))
        .number(principal.epoch)
}

/// Whole milliseconds of `span`, no more than a hundred years.
pub(super) fn millis(span: Duration) -> u128 {
    span.min(TIME_MAX).as_millis()
}

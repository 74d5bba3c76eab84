//! All that is kept, in memory, and what of it has changed since the file was written.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tidegate_core::session::{
    Attribute, Found, Gone, Name, Record, SessionId, SlotTag, Uid, Version, layout,
};
use tidegate_core::time::Wall;

use super::beacons::Board;
use super::fleet::Circle;
use super::key::Key;
use super::pairs;
use super::stream::{Pending, Streams, decode_event, encode_event};
use super::tombstone::Tombstone;
use crate::ends::{Position, bucket_of};

/// How long an ended session stays, so that its end can be told with its user.
pub(super) const KEPT_MS: u64 = crate::ends::ENDED_KEPT.as_millis() as u64;
/// What a session takes besides its content, about, in bytes.
const SESSION_BYTES: u64 = 600;
/// What anything else takes besides its content, about, in bytes.
const ENTRY_BYTES: u64 = 200;

/// All that is kept.
#[derive(Debug, Default)]
pub(super) struct State {
    sessions: HashMap<SessionId, Record>,
    tombstones: HashMap<SessionId, Tombstone>,
    epochs: HashMap<Uid, Epoch>,
    index: HashMap<Uid, BTreeMap<SessionId, Activity>>,
    capsules: HashMap<Uid, Capsule>,
    blobs: HashMap<(SlotTag, String), Blob>,
    armed: HashMap<SessionId, u64>,
    due: BTreeMap<u8, BTreeSet<(u64, SessionId)>>,
    pub(super) leases: BTreeMap<u8, Lease>,
    pub(super) streams: Streams,
    pub(super) circle: Circle,
    pub(super) board: Board,
    pub(super) changes: Changes,
    /// When to look whether something is over. What lives longer by then is put back.
    sweep: BTreeSet<(u64, Key)>,
    /// What is in `sweep`: once each, however often it comes and goes.
    watched: HashSet<Key>,
    bytes: u64,
}

/// How often a user has signed out everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    pub(super) count: u64,
    pub(super) until_ms: u64,
}

/// A session's last activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Activity {
    pub(super) at_ms: u64,
    pub(super) until_ms: u64,
}

/// What is kept for a user's next session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Capsule {
    pub(super) content: Found,
    /// One of an earlier version does not take its place; of nothing it alone is kept.
    pub(super) version: Version,
    pub(super) until_ms: u64,
}

/// A large value. Its bytes are in the file, and here until they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blob {
    pub(super) bytes: Option<Arc<[u8]>>,
    pub(super) until_ms: u64,
}

/// Who works on a part of the expiry index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) holder: u64,
    pub(super) until_ms: u64,
}

/// What has changed since the file was written.
#[derive(Debug)]
pub(super) struct Changes {
    keys: BTreeSet<Key>,
    /// The number of the batch that they will be written in, from 1 on.
    batch: u64,
    haste: Haste,
}

/// How soon a change is to be in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Haste {
    /// There is nothing.
    Idle,
    /// Within about a second.
    Lazy,
    /// Within about ten milliseconds.
    Soon,
    /// Now: somebody waits for it.
    Now,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            keys: BTreeSet::new(),
            batch: 1,
            haste: Haste::Idle,
        }
    }
}

impl Changes {
    /// Notes that `key` is to be written.
    pub(super) fn note(&mut self, key: Key, haste: Haste) {
        self.keys.insert(key);
        self.haste = self.haste.max(haste);
    }

    /// How soon they are to be written.
    pub(super) const fn haste(&self) -> Haste {
        self.haste
    }

    /// The number of the last batch that has anything in it: when it is in the file, everything is
    /// that has changed so far.
    pub(super) const fn last(&self) -> u64 {
        match self.haste {
            Haste::Idle => self.batch - 1,
            _ => self.batch,
        }
    }

    /// Hands over the batch, and begins the next one.
    pub(super) fn take(&mut self) -> (u64, BTreeSet<Key>) {
        let batch = self.batch;
        self.batch += 1;
        self.haste = Haste::Idle;
        (batch, std::mem::take(&mut self.keys))
    }

    /// Takes back a batch that could not be written.
    pub(super) fn put_back(&mut self, keys: BTreeSet<Key>) {
        self.keys.extend(keys);
        self.haste = self.haste.max(Haste::Lazy);
    }
}

impl State {
    /// Bytes of all that is kept in memory, about.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sessions, those included whose time is over and that still are to be told.
    pub(super) fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The session under `id` while it lives, or what its holder is told.
    pub(super) fn session(&self, id: &SessionId, now: Wall) -> Result<&Record, Gone> {
        match self.sessions.get(id) {
            Some(record) if !record.is_over(now) => Ok(record),
            _ => Err(self.gone(id, now)),
        }
    }

    /// What is under `id`, its time over or not.
    pub(super) fn record(&self, id: &SessionId) -> Option<&Record> {
        self.sessions.get(id)
    }

    /// Whether `id` is taken or remembered.
    pub(super) fn is_taken(&self, id: &SessionId, now: Wall) -> bool {
        self.sessions.contains_key(id) || self.tombstone(id, now).is_some()
    }

    /// Whether `id` has a session that lives, or is remembered.
    pub(super) fn is_in_use(&self, id: &SessionId, now: Wall) -> bool {
        self.session(id, now).is_ok() || self.tombstone(id, now).is_some()
    }

    /// What remembers the session that was under `id`.
    pub(super) fn tombstone(&self, id: &SessionId, now: Wall) -> Option<&Tombstone> {
        let tombstone = self.tombstones.get(id);
        tombstone.filter(|tombstone| ms(now) < tombstone.until_ms)
    }

    fn gone(&self, id: &SessionId, now: Wall) -> Gone {
        let tombstone = self.tombstones.get(id);
        tombstone.map_or(Gone::Missing, |tombstone| tombstone.gone(ms(now)))
    }

    /// Keeps `record` under `id`.
    pub(super) fn put_session(&mut self, id: SessionId, record: Record, haste: Haste) {
        let until_ms = ms(record.deadline()).saturating_add(KEPT_MS);
        self.bytes += SESSION_BYTES + u64::from(record.bytes());
        match self.sessions.insert(id, record) {
            Some(old) => self.bytes -= SESSION_BYTES + u64::from(old.bytes()),
            None => self.watch(until_ms, Key::Session(id)),
        }
        self.changes.note(Key::Session(id), haste);
    }

    /// Changes the session under `id`, if its change says that it did.
    pub(super) fn change_session<T>(
        &mut self,
        id: &SessionId,
        now: Wall,
        haste: Haste,
        change: impl FnOnce(&mut Record) -> (T, bool),
    ) -> Result<T, Gone> {
        let Some(record) = self.sessions.get_mut(id).filter(|it| !it.is_over(now)) else {
            return Err(self.gone(id, now));
        };
        let before = u64::from(record.bytes());
        let (reply, changed) = change(record);
        if changed {
            self.bytes = self.bytes - before + u64::from(record.bytes());
            self.changes.note(Key::Session(*id), haste);
        }
        Ok(reply)
    }

    /// Takes the session under `id` away.
    pub(super) fn take_session(&mut self, id: &SessionId, haste: Haste) -> Option<Record> {
        let record = self.sessions.remove(id)?;
        self.bytes -= SESSION_BYTES + u64::from(record.bytes());
        self.changes.note(Key::Session(*id), haste);
        Some(record)
    }

    /// Remembers that there was a session under `id`.
    pub(super) fn put_tombstone(&mut self, id: SessionId, tombstone: Tombstone, haste: Haste) {
        let until_ms = tombstone.until_ms;
        if self.tombstones.insert(id, tombstone).is_none() {
            self.bytes += ENTRY_BYTES;
            self.watch(until_ms, Key::Tombstone(id));
        }
        self.changes.note(Key::Tombstone(id), haste);
    }

    /// A user's epoch.
    pub(super) fn epoch(&self, uid: &Uid, now: Wall) -> u64 {
        let epoch = self.epochs.get(uid);
        let epoch = epoch.filter(|epoch| ms(now) < epoch.until_ms);
        epoch.map_or(0, |epoch| epoch.count)
    }

    /// Keeps a user's epoch.
    pub(super) fn put_epoch(&mut self, uid: Uid, epoch: Epoch, haste: Haste) {
        if self.epochs.insert(uid.clone(), epoch).is_none() {
            self.bytes += ENTRY_BYTES;
            self.watch(epoch.until_ms, Key::Epoch(uid.clone()));
        }
        self.changes.note(Key::Epoch(uid), haste);
    }

    /// A user's sessions with their last activity.
    pub(super) fn activities(&self, uid: &Uid) -> impl Iterator<Item = (&SessionId, &Activity)> {
        self.index.get(uid).into_iter().flatten()
    }

    /// Notes a session's last activity.
    pub(super) fn put_activity(&mut self, uid: Uid, id: SessionId, activity: Activity) {
        let sessions = self.index.entry(uid.clone()).or_default();
        if sessions.insert(id, activity).is_none() {
            self.bytes += ENTRY_BYTES;
            self.watch(activity.until_ms, Key::Activity(uid.clone(), id));
        }
        self.changes.note(Key::Activity(uid, id), Haste::Lazy);
    }

    /// Takes a session out of its user's index.
    pub(super) fn take_activity(&mut self, uid: &Uid, id: &SessionId, haste: Haste) {
        let Some(sessions) = self.index.get_mut(uid) else {
            return;
        };
        if sessions.remove(id).is_some() {
            self.bytes -= ENTRY_BYTES;
            self.changes.note(Key::Activity(uid.clone(), *id), haste);
        }
        if sessions.is_empty() {
            self.index.remove(uid);
        }
    }

    /// What is kept for a user's next session.
    pub(super) fn capsule(&self, uid: &Uid, now: Wall) -> Option<&Capsule> {
        let capsule = self.capsules.get(uid);
        capsule.filter(|capsule| ms(now) < capsule.until_ms)
    }

    /// Replaces what is kept for a user's next session.
    pub(super) fn put_capsule(&mut self, uid: Uid, capsule: Capsule, haste: Haste) {
        let until_ms = capsule.until_ms;
        self.bytes += weight(&capsule.content);
        match self.capsules.insert(uid.clone(), capsule) {
            Some(old) => self.bytes -= weight(&old.content),
            None => self.watch(until_ms, Key::Capsule(uid.clone())),
        }
        self.changes.note(Key::Capsule(uid), haste);
    }

    fn take_capsule(&mut self, uid: &Uid) {
        if let Some(old) = self.capsules.remove(uid) {
            self.bytes -= weight(&old.content);
            self.changes.note(Key::Capsule(uid.clone()), Haste::Lazy);
        }
    }

    /// A large value.
    pub(super) fn blob(&self, tag: SlotTag, blob: &str, now: Wall) -> Option<&Blob> {
        let blob = self.blobs.get(&(tag, blob.to_owned()));
        blob.filter(|blob| ms(now) < blob.until_ms)
    }

    /// Keeps a large value.
    pub(super) fn put_blob(&mut self, tag: SlotTag, name: &str, blob: Blob) {
        let key = Key::Blob(tag, name.to_owned());
        let until_ms = blob.until_ms;
        self.bytes += blob.weight();
        match self.blobs.insert((tag, name.to_owned()), blob) {
            Some(old) => self.bytes -= old.weight(),
            None => self.watch(until_ms, key.clone()),
        }
        self.changes.note(key, Haste::Soon);
    }

    /// Takes a large value away.
    pub(super) fn take_blob(&mut self, tag: SlotTag, name: &str) {
        if let Some(old) = self.blobs.remove(&(tag, name.to_owned())) {
            self.bytes -= old.weight();
            let key = Key::Blob(tag, name.to_owned());
            self.changes.note(key, Haste::Lazy);
        }
    }

    /// Lets go of the bytes of a large value that the file has, unless it was written again.
    pub(super) fn settle_blob(&mut self, tag: SlotTag, name: &str) {
        let key = Key::Blob(tag, name.to_owned());
        if self.changes.keys.contains(&key) {
            return;
        }
        if let Some(blob) = self.blobs.get_mut(&(tag, name.to_owned())) {
            self.bytes -= blob.weight();
            blob.bytes = None;
            self.bytes += blob.weight();
        }
    }

    /// Puts a session into the expiry index.
    pub(super) fn arm(&mut self, id: SessionId, deadline_ms: u64) {
        self.disarm(&id);
        self.armed.insert(id, deadline_ms);
        let due = self.due.entry(bucket_of(id.tag())).or_default();
        due.insert((deadline_ms, id));
        self.bytes += ENTRY_BYTES;
        self.changes.note(Key::Armed(id), Haste::Lazy);
    }

    /// Takes a session out of the expiry index; false when it was not in it.
    pub(super) fn disarm(&mut self, id: &SessionId) -> bool {
        let Some(deadline_ms) = self.armed.remove(id) else {
            return false;
        };
        if let Some(due) = self.due.get_mut(&bucket_of(id.tag())) {
            due.remove(&(deadline_ms, *id));
        }
        self.bytes -= ENTRY_BYTES;
        self.changes.note(Key::Armed(*id), Haste::Lazy);
        true
    }

    /// Sessions of `bucket` whose deadlines are over, with these, the longest over first.
    pub(super) fn due(&self, bucket: u8, now: Wall) -> impl Iterator<Item = &(u64, SessionId)> {
        let due = self.due.get(&bucket).into_iter().flatten();
        due.take_while(move |(deadline_ms, _)| *deadline_ms <= ms(now))
    }

    /// Looks at up to `most` things that may be over, and takes away those that are. How many it
    /// looked at.
    pub(super) fn sweep(&mut self, now: Wall, most: usize) -> usize {
        for looked in 0..most {
            let over = self.sweep.first().is_some_and(|(at, _)| *at <= ms(now));
            let Some((_, key)) = over.then(|| self.sweep.pop_first()).flatten() else {
                return looked;
            };
            self.watched.remove(&key);
            match self.until_ms(&key) {
                Some(until_ms) if ms(now) < until_ms => self.watch(until_ms, key),
                Some(_) => self.remove(&key),
                None => {}
            }
        }
        most
    }

    fn watch(&mut self, until_ms: u64, key: Key) {
        if self.watched.insert(key.clone()) {
            self.sweep.insert((until_ms, key));
        }
    }

    /// Until when something is kept; `None` when it is not there.
    fn until_ms(&self, key: &Key) -> Option<u64> {
        match key {
            Key::Session(id) => {
                let deadline_ms = ms(self.sessions.get(id)?.deadline());
                Some(deadline_ms.saturating_add(KEPT_MS))
            }
            Key::Tombstone(id) => Some(self.tombstones.get(id)?.until_ms),
            Key::Epoch(uid) => Some(self.epochs.get(uid)?.until_ms),
            Key::Activity(uid, id) => Some(self.index.get(uid)?.get(id)?.until_ms),
            Key::Capsule(uid) => Some(self.capsules.get(uid)?.until_ms),
            Key::Blob(tag, name) => Some(self.blobs.get(&(*tag, name.clone()))?.until_ms),
            Key::Armed(_) | Key::Event(_) | Key::Group(_) | Key::Pending(..) | Key::Fence(_) => {
                None
            }
        }
    }

    fn remove(&mut self, key: &Key) {
        match key {
            Key::Session(id) => drop(self.take_session(id, Haste::Lazy)),
            Key::Tombstone(id) => {
                self.tombstones.remove(id);
                self.bytes -= ENTRY_BYTES;
                self.changes.note(key.clone(), Haste::Lazy);
            }
            Key::Epoch(uid) => {
                self.epochs.remove(uid);
                self.bytes -= ENTRY_BYTES;
                self.changes.note(key.clone(), Haste::Lazy);
            }
            Key::Activity(uid, id) => self.take_activity(uid, id, Haste::Lazy),
            Key::Capsule(uid) => self.take_capsule(uid),
            Key::Blob(tag, name) => self.take_blob(*tag, name),
            Key::Armed(_) | Key::Event(_) | Key::Group(_) | Key::Pending(..) | Key::Fence(_) => {}
        }
    }

    /// What the file is to have under `key`; `None` for nothing.
    pub(super) fn encode(&self, key: &Key) -> Option<Vec<u8>> {
        let two = |one: u64, other: u64| Some(format!("{one} {other}").into_bytes());
        match key {
            Key::Session(id) => {
                let fields = self.sessions.get(id)?.to_fields();
                let fields = fields.iter().map(|(name, value)| (&**name, &**value));
                Some(pairs::encode(fields))
            }
            Key::Tombstone(id) => Some(self.tombstones.get(id)?.encode()),
            Key::Epoch(uid) => {
                let epoch = self.epochs.get(uid)?;
                two(epoch.count, epoch.until_ms)
            }
            Key::Activity(uid, id) => {
                let activity = self.index.get(uid)?.get(id)?;
                two(activity.at_ms, activity.until_ms)
            }
            Key::Capsule(uid) => Some(self.capsules.get(uid)?.encode()),
            Key::Armed(id) => Some(self.armed.get(id)?.to_string().into_bytes()),
            Key::Event(id) => self.streams.event(id).map(encode_event),
            Key::Group(name) => {
                let behind = self.streams.behind(name)?;
                Some(behind.to_string().into_bytes())
            }
            Key::Pending(group, id) => self.streams.pending(group, id).map(Pending::encode),
            Key::Blob(tag, name) => self.blobs.get(&(*tag, name.clone()))?.encode(),
            Key::Fence(name) => Some(self.circle.fence(name)?.to_string().into_bytes()),
        }
    }

    /// Takes in what the file has under `key`; `None` when it makes no sense.
    pub(super) fn load(&mut self, key: Key, bytes: &[u8]) -> Option<()> {
        let text = || std::str::from_utf8(bytes).ok();
        let two = || {
            let (one, other) = text()?.split_once(' ')?;
            Some((one.parse().ok()?, other.parse().ok()?))
        };
        match key {
            Key::Session(id) => {
                let record = Record::from_fields(pairs::decode(bytes)?).ok()?;
                self.put_session(id, record, Haste::Idle);
            }
            Key::Tombstone(id) => {
                self.put_tombstone(id, Tombstone::decode(bytes)?, Haste::Idle);
            }
            Key::Epoch(uid) => {
                let (count, until_ms) = two()?;
                self.put_epoch(uid, Epoch { count, until_ms }, Haste::Idle);
            }
            Key::Activity(uid, id) => {
                let (at_ms, until_ms) = two()?;
                self.put_activity(uid, id, Activity { at_ms, until_ms });
            }
            Key::Capsule(uid) => self.put_capsule(uid, Capsule::decode(bytes)?, Haste::Idle),
            Key::Armed(id) => self.arm(id, text()?.parse().ok()?),
            Key::Event(id) => self.streams.put_event(decode_event(id, bytes)?),
            Key::Group(name) => self.streams.put_group(name, Position::parse(text()?).ok()?),
            Key::Pending(group, id) => {
                self.streams.put_pending(group, id, Pending::decode(bytes)?);
            }
            Key::Fence(name) => self.circle.put_fence(name, text()?.parse().ok()?),
            Key::Blob(tag, name) => {
                let (until, _) = bytes.split_first_chunk()?;
                let until_ms = u64::from_be_bytes(*until);
                let blob = Blob {
                    bytes: None,
                    until_ms,
                };
                self.put_blob(tag, &name, blob);
            }
        }
        Some(())
    }

    /// All was taken in: nothing of it has changed.
    pub(super) fn loaded(&mut self) {
        self.changes = Changes::default();
    }
}

impl Blob {
    /// The bytes of the value in what the file has.
    pub(super) fn decode(bytes: &[u8]) -> Option<&[u8]> {
        bytes.get(size_of::<u64>()..)
    }

    fn encode(&self) -> Option<Vec<u8>> {
        let bytes = self.bytes.as_ref()?;
        Some([&self.until_ms.to_be_bytes(), &**bytes].concat())
    }

    fn weight(&self) -> u64 {
        ENTRY_BYTES + self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }
}

impl Capsule {
    fn encode(&self) -> Vec<u8> {
        let number = |number: u64| number.to_string().into_bytes();
        let mut fields = vec![
            ("until".to_owned(), number(self.until_ms)),
            ("version".to_owned(), number(self.version.0)),
        ];
        for (name, attribute) in &self.content.attributes {
            fields.push((format!("{}{name}", layout::ATTRIBUTE), attribute.encode()));
        }
        for (name, counter) in &self.content.counters {
            let counter = counter.to_string().into_bytes();
            fields.push((format!("{}{name}", layout::COUNTER), counter));
        }
        pairs::encode(fields.iter().map(|(name, value)| (&**name, &**value)))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let fields = pairs::decode(bytes)?;
        let mut content = Found::default();
        for (field, value) in &fields {
            if let Some(name) = field.strip_prefix(layout::ATTRIBUTE) {
                let name = Name::new(name).ok()?;
                content.attributes.push((name, Attribute::decode(value)?));
            } else if let Some(name) = field.strip_prefix(layout::COUNTER) {
                let counter = std::str::from_utf8(value).ok()?.parse().ok()?;
                content.counters.push((Name::new(name).ok()?, counter));
            }
        }
        Some(Self {
            content,
            // A file of an earlier release has none.
            version: Version(pairs::number(&fields, "version").unwrap_or(0)),
            until_ms: pairs::number(&fields, "until")?,
        })
    }
}

fn weight(content: &Found) -> u64 {
    let attributes = content.attributes.iter();
    let values = attributes.map(|(_, attribute)| attribute.value.bytes.len() as u64 + ENTRY_BYTES);
    ENTRY_BYTES + values.sum::<u64>() + content.counters.len() as u64 * ENTRY_BYTES
}

pub(super) const fn ms(now: Wall) -> u64 {
    now.as_micros() / 1_000
}

//! One session as a store keeps it, and the rules by which it changes.
//!
//! The embedded store runs these rules, the local sessions of a gateway whose store is away run
//! them, and the scripts for Redis say the same in Lua. A record is changed at a time of its
//! store's clock, which is passed in; of a store's clock only whole milliseconds are kept, except
//! in versions.

use std::collections::BTreeMap;
use std::time::Duration;

use super::lifetime::Lifetimes;
use super::op::{Ceilings, Expect, Fields, Op, OpSeq, Principal, Rotation};
use super::reply::{Created, Found, Gone, Head, Opened, Patched};
use super::seen::{Seen, Sighting};
use super::value::{Attribute, Format, Name, Value, Version};
use crate::time::Wall;

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub(super) version: Version,
    pub(super) created_ms: u64,
    pub(super) last_used_ms: u64,
    pub(super) idle_ms: u64,
    pub(super) deadline_ms: u64,
    pub(super) absolute_ms: u64,
    pub(super) principal: Option<Principal>,
    pub(super) bytes: u64,
    pub(super) attributes: BTreeMap<Name, Attribute>,
    pub(super) counters: BTreeMap<Name, i64>,
    pub(super) seen: Seen,
}

/// What a session begins with.
#[derive(Clone, Copy, Debug)]
pub struct Birth<'a> {
    /// How long it lives.
    pub lifetimes: Lifetimes,
    /// Who it belongs to.
    pub principal: Option<&'a Principal>,
    /// Its attributes; of two with one name the later counts.
    pub attributes: &'a [(Name, Value)],
    /// Its counters; they take the place of attributes with their names.
    pub counters: &'a [(Name, i64)],
}

impl Record {
    /// A session that begins at `now`.
    pub fn create(now: Wall, birth: Birth<'_>) -> Self {
        let mut record = Self {
            version: Version::NONE.next(now.as_micros()),
            created_ms: 0,
            last_used_ms: 0,
            idle_ms: 0,
            deadline_ms: 0,
            absolute_ms: 0,
            principal: birth.principal.cloned(),
            bytes: 0,
            attributes: BTreeMap::new(),
            counters: birth.counters.iter().cloned().collect(),
            seen: Seen::default(),
        };
        for (name, value) in birth.attributes {
            if !record.counters.contains_key(name) {
                let attribute = Attribute {
                    version: record.version,
                    value: value.clone(),
                };
                record.attributes.insert(name.clone(), attribute);
            }
        }
        record.bytes = record.weigh();
        record.begin(now, birth.lifetimes);
        record
    }

    /// A session as far as it is known from its head and some of its content, so that it can go on
    /// where its store is not. What is not known still counts against the ceiling of bytes.
    pub fn known(head: &Head, found: &Found) -> Self {
        let mut record = Self {
            version: head.version,
            created_ms: ms(head.created),
            last_used_ms: ms(head.last_used),
            idle_ms: millis(head.idle),
            deadline_ms: ms(head.deadline),
            absolute_ms: ms(head.absolute),
            principal: head.principal.clone(),
            bytes: 0,
            attributes: found.attributes.iter().cloned().collect(),
            counters: found.counters.iter().cloned().collect(),
            seen: Seen::default(),
        };
        record.bytes = record.weigh().max(head.bytes.into());
        record
    }

    /// Whether its time is over at `now`.
    pub const fn is_over(&self, now: Wall) -> bool {
        ms(now) >= self.deadline_ms
    }

    /// When its time is over unless it is used.
    pub const fn deadline(&self) -> Wall {
        wall(self.deadline_ms)
    }

    /// Whose it is.
    pub const fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// Its version.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Bytes of its attributes and counters, as the ceilings count them.
    pub fn bytes(&self) -> u32 {
        u32::try_from(self.bytes).unwrap_or(u32::MAX)
    }

    /// What is known of it without its attributes.
    pub fn head(&self) -> Head {
        Head {
            version: self.version,
            created: wall(self.created_ms),
            last_used: wall(self.last_used_ms),
            idle: Duration::from_millis(self.idle_ms),
            deadline: wall(self.deadline_ms),
            absolute: wall(self.absolute_ms),
            principal: self.principal.clone(),
            bytes: self.bytes(),
        }
    }

    /// The attributes and counters among `fields` that are there.
    pub fn found(&self, fields: &Fields) -> Found {
        match fields {
            Fields::All => Found {
                attributes: pairs(&self.attributes),
                counters: pairs(&self.counters),
            },
            Fields::Only(names) => {
                let mut found = Found::default();
                for name in names.iter() {
                    if let Some(attribute) = self.attributes.get(name) {
                        found.attributes.push((name.clone(), attribute.clone()));
                    } else if let Some(&counter) = self.counters.get(name) {
                        found.counters.push((name.clone(), counter));
                    }
                }
                found
            }
        }
    }

    /// The reply to its creation at `now`.
    pub fn created(&self, now: Wall) -> Created {
        Created::Created {
            now,
            head: self.head(),
        }
    }

    /// Slides its idle time when the last touch is `touch_after` old or older, never past its
    /// absolute deadline and never backwards. Whether it did; a session whose time is over stays so.
    pub fn touch(&mut self, now: Wall, touch_after: Duration) -> bool {
        let age_ms = ms(now).saturating_sub(self.last_used_ms);
        if self.is_over(now) || ms(now) <= self.last_used_ms || age_ms < millis(touch_after) {
            return false;
        }
        self.last_used_ms = ms(now);
        let slid_ms = ms(now).saturating_add(self.idle_ms).min(self.absolute_ms);
        self.deadline_ms = self.deadline_ms.max(slid_ms);
        true
    }

    /// The reply to an opening at `now` by somebody who knows it as `known`.
    pub fn open(&self, now: Wall, known: Version, fields: &Fields) -> Opened {
        if self.is_over(now) {
            Opened::Gone(Gone::Missing)
        } else if self.version == known {
            Opened::Unchanged {
                now,
                deadline: self.deadline(),
            }
        } else {
            Opened::Found {
                now,
                head: self.head(),
                found: self.found(fields),
            }
        }
    }

    /// Makes the changes `ops` one after another, all of them or none.
    ///
    /// What they expect is held against the session as it was before the patch. When several
    /// reasons refuse one patch, the reply is the first of: its time is over; it was applied, or
    /// nobody knows; it is late; the first change with a value above its ceiling, of the wrong
    /// kind, or overflowing; a conflict; the ceiling of the session's bytes; that of the count. A
    /// session that is above a ceiling already (the ceiling was lowered) may still be changed by
    /// what adds nothing to it.
    pub fn patch(
        &mut self,
        now: Wall,
        ops: &[Op],
        seq: Option<OpSeq>,
        ceilings: Ceilings,
        not_after: Option<Wall>,
    ) -> Patched {
        if self.is_over(now) {
            return Patched::Gone(Gone::Missing);
        }
        match seq.map(|seq| self.seen.sighting(seq)) {
            None | Some(Sighting::New) => {}
            Some(Sighting::Applied) => {
                let version = self.version;
                return Patched::AlreadyApplied { version };
            }
            Some(Sighting::TooOld) => return Patched::TooOld,
        }
        if not_after.is_some_and(|last| ms(last) < ms(now)) {
            return Patched::Late;
        }
        let draft = match self.draft(ops, ceilings) {
            Ok(draft) => draft,
            Err(refusal) => return refusal,
        };
        let before = self.version;
        self.version = before.next(now.as_micros());
        if let Some(seq) = seq {
            self.seen.note(seq, now);
        }
        Patched::Applied {
            now,
            version: self.version,
            before,
            counters: self.apply(draft),
        }
    }

    /// Moves it into its user's new epoch, so that a sign-out everywhere spares it; an epoch never
    /// goes back. False when nobody is signed in or its time is over.
    pub fn adopt_epoch(&mut self, now: Wall, epoch: u64) -> bool {
        if self.is_over(now) {
            return false;
        }
        let Some(principal) = &mut self.principal else {
            return false;
        };
        if principal.epoch < epoch {
            principal.epoch = epoch;
            // Who signed in is content: a cached copy of the old epoch must not pass as unchanged.
            self.version = self.version.next(now.as_micros());
        }
        true
    }

    /// What it is under its next id from `now` on.
    pub fn rotate(mut self, now: Wall, rotation: &Rotation) -> Result<Self, Gone> {
        if self.is_over(now) {
            return Err(Gone::Missing);
        }
        self.version = self.version.next(now.as_micros());
        if let Rotation::Privilege {
            principal,
            lifetimes,
            carry,
            ..
        } = rotation
        {
            // A list of what comes along, not of what is left behind: what a stranger planted
            // under a name that nobody thought of must not come along.
            self.attributes.retain(|name, _| carry.contains(name));
            self.counters.retain(|name, _| carry.contains(name));
            self.bytes = self.weigh();
            self.principal.clone_from(principal);
            self.begin(now, *lifetimes);
        }
        Ok(self)
    }

    fn begin(&mut self, now: Wall, lifetimes: Lifetimes) {
        self.created_ms = ms(now);
        self.last_used_ms = ms(now);
        self.idle_ms = millis(lifetimes.idle);
        self.absolute_ms = ms(now).saturating_add(millis(lifetimes.absolute));
        self.deadline_ms = ms(now).saturating_add(self.idle_ms).min(self.absolute_ms);
    }

    /// Bytes of all attributes and counters, counted anew.
    pub(super) fn weigh(&self) -> u64 {
        let attributes = self.attributes.iter().map(|(name, attribute)| {
            let value = &attribute.value;
            weight_of_attribute(name, value)
        });
        let counters = self.counters.keys().map(weight_of_counter);
        attributes.chain(counters).sum()
    }
}

/// What a patch makes of the names that it changes.
struct Draft<'a> {
    cells: BTreeMap<&'a Name, Cell<'a>>,
    bytes: u64,
}

/// What is under a name.
#[derive(Clone, Copy)]
enum Cell<'a> {
    Nothing,
    /// The attribute that was there before the patch.
    Kept,
    Set(&'a Value),
    Counter(i64),
}

impl Record {
    /// What `ops` make of it, or the reply that refuses them.
    fn draft<'a>(&self, ops: &'a [Op], ceilings: Ceilings) -> Result<Draft<'a>, Patched> {
        let mut cells = BTreeMap::new();
        let mut conflicts = BTreeMap::new();
        for op in ops {
            let name = op.name();
            let cell = cells.entry(name).or_insert_with(|| self.cell(name));
            *cell = changed(*cell, op, ceilings)?;
            if !self.is_expected(op) {
                conflicts.insert(name.clone(), self.current(name));
            }
        }
        if !conflicts.is_empty() {
            return Err(Patched::Conflict {
                version: self.version,
                current: conflicts.into_iter().collect(),
            });
        }
        let bytes = self.check_ceilings(&cells, ceilings)?;
        Ok(Draft { cells, bytes })
    }

    /// The bytes it has with `cells`.
    fn check_ceilings(
        &self,
        cells: &BTreeMap<&Name, Cell<'_>>,
        ceilings: Ceilings,
    ) -> Result<u64, Patched> {
        let (mut bytes, mut count) = (self.bytes, self.count());
        for (&name, &cell) in cells {
            let before = self.weight_of(name, self.cell(name));
            let after = self.weight_of(name, cell);
            bytes = bytes - before + after;
            count = count - u64::from(before > 0) + u64::from(after > 0);
        }
        let passes = |after: u64, before: u64, ceiling: u32| {
            if after > u64::from(ceiling) && after > before {
                return Err(Patched::TooLarge {
                    name: None,
                    size: after,
                    ceiling,
                });
            }
            Ok(())
        };
        passes(bytes, self.bytes, ceilings.session)?;
        passes(count, self.count(), ceilings.count)?;
        Ok(bytes)
    }

    /// Makes of it what the draft says; returns the counters that the draft has.
    fn apply(&mut self, draft: Draft<'_>) -> Vec<(Name, i64)> {
        let mut counters = Vec::new();
        for (name, cell) in draft.cells {
            match cell {
                Cell::Kept => {}
                Cell::Nothing => {
                    self.attributes.remove(name);
                    self.counters.remove(name);
                }
                Cell::Set(value) => {
                    self.counters.remove(name);
                    let attribute = Attribute {
                        version: self.version,
                        value: value.clone(),
                    };
                    self.attributes.insert(name.clone(), attribute);
                }
                Cell::Counter(count) => {
                    self.attributes.remove(name);
                    self.counters.insert(name.clone(), count);
                    counters.push((name.clone(), count));
                }
            }
        }
        self.bytes = draft.bytes;
        counters
    }

    /// Attributes and counters together.
    pub(super) fn count(&self) -> u64 {
        (self.attributes.len() + self.counters.len()) as u64
    }

    fn cell(&self, name: &Name) -> Cell<'static> {
        match self.counters.get(name) {
            Some(&count) => Cell::Counter(count),
            None if self.attributes.contains_key(name) => Cell::Kept,
            None => Cell::Nothing,
        }
    }

    /// What counts of `cell` under `name`; 0 for nothing and for nothing else.
    fn weight_of(&self, name: &Name, cell: Cell<'_>) -> u64 {
        match cell {
            Cell::Nothing => 0,
            Cell::Kept => self.attributes.get(name).map_or(0, |attribute| {
                let value = &attribute.value;
                weight_of_attribute(name, value)
            }),
            Cell::Set(value) => weight_of_attribute(name, value),
            Cell::Counter(_) => weight_of_counter(name),
        }
    }

    fn is_expected(&self, op: &Op) -> bool {
        let (Op::Set { name, expect, .. } | Op::Delete { name, expect }) = op else {
            return true;
        };
        let current = self.current(name);
        match expect {
            Expect::Any => true,
            Expect::Absent | Expect::At(Version::NONE) => current.is_none(),
            Expect::At(version) => current.is_some_and(|current| current.version == *version),
        }
    }

    /// What is under a name as a conflict reports it.
    fn current(&self, name: &Name) -> Option<Attribute> {
        let counter = self.counters.get(name).map(|count| Attribute {
            version: Version::NONE,
            value: Value {
                format: Format::Integer,
                bytes: count.to_string().into_bytes(),
            },
        });
        counter.or_else(|| self.attributes.get(name).cloned())
    }
}

/// What `op` makes of `cell`, or the reply that refuses it.
fn changed<'a>(cell: Cell<'_>, op: &'a Op, ceilings: Ceilings) -> Result<Cell<'a>, Patched> {
    let counted = |name: &Name, start: Option<i64>, count: &dyn Fn(i64) -> Option<i64>| {
        let before = match cell {
            Cell::Counter(before) => Some(before),
            Cell::Nothing => start,
            Cell::Kept | Cell::Set(_) => return Err(Patched::WrongKind { name: name.clone() }),
        };
        let after = before.and_then(count);
        after.ok_or_else(|| Patched::Overflow { name: name.clone() })
    };
    match op {
        Op::Set { name, value, .. } => {
            if value.bytes.len() > ceilings.value as usize {
                return Err(Patched::TooLarge {
                    name: Some(name.clone()),
                    size: value.bytes.len() as u64,
                    ceiling: ceilings.value,
                });
            }
            Ok(Cell::Set(value))
        }
        Op::Delete { .. } => Ok(Cell::Nothing),
        Op::Increment { name, by } => {
            counted(name, Some(0), &|before| before.checked_add(*by)).map(Cell::Counter)
        }
        Op::Max { name, to } => {
            counted(name, Some(*to), &|before| Some(before.max(*to))).map(Cell::Counter)
        }
    }
}

/// The version that an attribute has besides its name and value.
const ATTRIBUTE_BYTES: u64 = 16;
/// The most digits that a counter has, and its sign.
const COUNTER_BYTES: u64 = 20;

fn weight_of_attribute(name: &Name, value: &Value) -> u64 {
    name.as_str().len() as u64 + value.bytes.len() as u64 + ATTRIBUTE_BYTES
}

fn weight_of_counter(name: &Name) -> u64 {
    name.as_str().len() as u64 + COUNTER_BYTES
}

fn pairs<T: Clone>(map: &BTreeMap<Name, T>) -> Vec<(Name, T)> {
    map.iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

const fn ms(now: Wall) -> u64 {
    now.as_micros() / 1_000
}

const fn wall(ms: u64) -> Wall {
    Wall::from_micros(ms.saturating_mul(1_000))
}

/// Whole milliseconds of `span`; spans past the end of `u64` count as that.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

//! A session as it goes on here while the store is away.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::session::{
    Ceilings, Expect, Fields, Name, Op, OpSeq, Patched, Principal, Record, SessionId, Version,
};
use tidegate_core::time::Wall;

use crate::desk::opened::Standing;
use crate::desk::session::{Session, covers};

/// What an entry of the log takes besides its values, about, in bytes.
const ENTRY_BYTES: usize = 160;

/// A session as it goes on here.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) origin: Origin,
    /// What it was when it began to go on here.
    pub(super) seed: Arc<Session>,
    /// What it is now; made by the first change.
    record: Option<Record>,
    /// When it was used last.
    used: Wall,
    /// The changes that the store has not seen, the oldest first.
    pub(super) log: VecDeque<Entry>,
    /// The versions of attributes that the changes are based on.
    pub(super) bases: BTreeMap<Name, Version>,
    /// Not to be tried again before.
    pub(super) retry_at: Option<Instant>,
    bytes: usize,
}

/// Where a session comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The local copy.
    Copy,
    /// What its visitor carries.
    Ticket,
    /// It began here.
    Born,
    /// It began here, with a sign-in.
    SignedIn {
        /// The session that the visitor had.
        old: Option<SessionId>,
        /// How often the user had signed out everywhere, if that was known.
        epoch: Option<u64>,
    },
}

/// A patch made here.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) ops: Vec<Op>,
    pub(super) seq: OpSeq,
    /// When, by the store's clock.
    pub(super) made: Wall,
}

/// How dear a session is: what is less so is dropped first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Nothing was written.
    Read,
    /// Something was written, by nobody known.
    Anonymous,
    /// Something was written by somebody signed in.
    SignedIn,
}

impl Local {
    pub(super) fn new(origin: Origin, seed: Arc<Session>, now: Wall) -> Self {
        let attributes = seed.found.attributes.iter();
        let bases = attributes.map(|(name, attribute)| (name.clone(), attribute.version));
        Self {
            bases: bases.collect(),
            bytes: seed.weight(),
            origin,
            seed,
            record: None,
            used: now,
            log: VecDeque::new(),
            retry_at: None,
        }
    }

    /// Bytes that it takes, about.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Who it belongs to.
    pub(super) fn principal(&self) -> Option<&Principal> {
        self.seed.head.principal.as_ref()
    }

    /// Whether it began here.
    pub(super) const fn is_born(&self) -> bool {
        matches!(self.origin, Origin::Born | Origin::SignedIn { .. })
    }

    /// Whether the store lacks something of it.
    pub(super) fn is_written(&self) -> bool {
        self.is_born() || !self.log.is_empty()
    }

    pub(super) fn rank(&self) -> Rank {
        match self.principal() {
            _ if !self.is_written() => Rank::Read,
            None => Rank::Anonymous,
            Some(_) => Rank::SignedIn,
        }
    }

    /// Who vouches for it.
    pub(super) const fn standing(&self) -> Standing {
        match self.origin {
            Origin::Copy => Standing::Cached,
            Origin::Ticket => Standing::FromTicket,
            Origin::Born | Origin::SignedIn { .. } => Standing::Local,
        }
    }

    /// When it ends unless it is used; its use here counts.
    pub(super) fn deadline(&self) -> Wall {
        let head = &self.seed.head;
        let slid = later(self.used, head.idle).min(head.absolute);
        slid.max(head.deadline)
    }

    pub(super) fn is_over(&self, now: Wall) -> bool {
        self.deadline() <= now
    }

    /// Notes that it is used.
    pub(super) fn use_at(&mut self, now: Wall) {
        self.used = self.used.max(now);
    }

    /// What it is now of what is asked for, as far as it is known.
    pub(super) fn session(&self, wanted: &Fields) -> Arc<Session> {
        if self.record.is_none() && covers(&self.seed.fields, wanted) {
            return self.seed.clone();
        }
        let record = match &self.record {
            Some(record) => record.clone(),
            None => Record::known(&self.seed.head, &self.seed.found),
        };
        let mut head = record.head();
        head.deadline = self.deadline();
        head.last_used = self.used;
        Arc::new(Session {
            head,
            fields: wanted.clone(),
            found: record.found(wanted),
        })
    }

    /// Makes a change here, and notes it for the store.
    pub(super) fn patch(
        &mut self,
        now: Wall,
        ops: Vec<Op>,
        seq: OpSeq,
        ceilings: Ceilings,
    ) -> Patched {
        self.use_at(now);
        let mut head = self.seed.head.clone();
        head.deadline = self.deadline();
        let record = self
            .record
            .get_or_insert_with(|| Record::known(&head, &self.seed.found));
        record.touch(now, Duration::ZERO);
        let patched = record.patch(now, &ops, Some(seq), ceilings, None);
        if matches!(patched, Patched::Applied { .. }) {
            let entry = Entry {
                ops,
                seq,
                made: now,
            };
            // Once for the log, once for what the values have become.
            self.bytes += 2 * entry.bytes();
            self.log.push_back(entry);
        }
        patched
    }

    /// Takes over the changes of another session that concern `carry`, as they were made.
    pub(super) fn take_over(&mut self, other: Self, carry: &[Name], ceilings: Ceilings) {
        for entry in other.log {
            let ops: Vec<Op> = entry
                .ops
                .into_iter()
                .filter(|op| carry.contains(op.name()))
                .map(unconditional)
                .collect();
            if !ops.is_empty() {
                self.patch(entry.made, ops, entry.seq, ceilings);
            }
        }
    }

    /// Takes the oldest change off the log, if it is still the one called `seq`.
    pub(super) fn done(&mut self, seq: OpSeq) {
        if self.log.front().is_some_and(|entry| entry.seq == seq)
            && let Some(entry) = self.log.pop_front()
        {
            self.bytes -= entry.bytes();
        }
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        let value = |op: &Op| match op {
            Op::Set { value, .. } => value.bytes.len(),
            Op::Delete { .. } | Op::Increment { .. } | Op::Max { .. } => 0,
        };
        let ops = self.ops.iter();
        ops.map(|op| ENTRY_BYTES + value(op)).sum()
    }
}

/// A change that expects nothing: what it expected was held when it was made.
fn unconditional(op: Op) -> Op {
    match op {
        Op::Set { name, value, .. } => Op::Set {
            name,
            value,
            expect: Expect::Any,
        },
        Op::Delete { name, .. } => Op::Delete {
            name,
            expect: Expect::Any,
        },
        counting => counting,
    }
}

/// So much later than `time`.
pub(super) fn later(time: Wall, span: Duration) -> Wall {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    Wall::from_micros(time.as_micros().saturating_add(micros))
}

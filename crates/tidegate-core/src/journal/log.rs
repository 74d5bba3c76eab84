//! A log from its first byte to its last: written record by record, read piece by piece.

use std::fmt;

use super::event::{Event, Outcome, Record};
use super::header::Header;
use super::record::{
    END, HAS_ACTIONS, KIND, LIMIT_CHANGED, actions, event, kind_of, outcome, put_actions,
    put_event, put_outcome,
};
use super::wire::{Check, Cursor, Flaw, put_fixed, put_step, put_u32};
use crate::admission::Action;
use crate::time::Mono;

/// How a log begins; the last byte is the version of the format.
pub const MAGIC: [u8; 8] = *b"tglog\r\n\x02";

/// Bytes that the last record of a log takes at most.
pub const END_BYTES_MAX: usize = 10;

/// Why a log has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Whoever wrote it has finished: nothing is missing.
    Finished,
    /// It has reached its greatest length.
    Full,
    /// It could not be written as fast as things happened.
    Behind,
    /// It could not be written any more.
    Failed,
}

impl End {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Finished, Self::Full, Self::Behind, Self::Failed];

    /// The name used in metrics and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Full => "full",
            Self::Behind => "behind",
            Self::Failed => "failed",
        }
    }
}

/// Writes a log. What it writes is appended to a buffer of the caller's, who may take that away
/// after any call.
#[derive(Clone, Debug)]
pub struct Encoder(Progress);

impl Encoder {
    /// Begins a log.
    pub fn begin(header: &Header, out: &mut Vec<u8>) -> Self {
        let mut check = Check::new();
        let from = out.len();
        out.extend(MAGIC);
        header.put(out);
        check.add(&out[from..]);
        put_fixed(out, check.whole());
        Self(Progress {
            check,
            last: Mono::default(),
            limit: 0,
        })
    }

    /// Writes one event with what was decided on it, and the limit after it.
    pub fn record(
        &mut self,
        now: Mono,
        event: &Event,
        outcome: &Outcome,
        actions: &[Action],
        limit: u32,
        out: &mut Vec<u8>,
    ) {
        let from = out.len();
        let mut first = kind_of(event);
        if limit != self.0.limit {
            first |= LIMIT_CHANGED;
        }
        if !actions.is_empty() {
            first |= HAS_ACTIONS;
        }
        out.push(first);
        put_step(out, self.0.last, now);
        put_event(out, now, event);
        put_outcome(out, now, event, outcome);
        if !actions.is_empty() {
            put_actions(out, actions);
        }
        if limit != self.0.limit {
            put_u32(out, limit);
        }
        self.0.last = now;
        self.0.limit = limit;
        self.0.check.add(&out[from..]);
        out.push(self.0.check.byte());
    }

    /// Ends the log.
    pub fn end(mut self, end: End, out: &mut Vec<u8>) {
        let record = [
            END,
            match end {
                End::Finished => 0,
                End::Full => 1,
                End::Behind => 2,
                End::Failed => 3,
            },
        ];
        self.0.check.add(&record);
        out.extend(record);
        put_fixed(out, self.0.check.whole());
    }
}

/// What a log says next.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// What the admission was made of; always the first.
    Header(Box<Header>),
    /// One event.
    Record(Record),
    /// The end; always the last.
    End(End),
}

/// Why a log cannot be read, or not any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where what cannot be read begins, in bytes.
    pub offset: u64,
    /// What is wrong with it.
    pub kind: FaultKind,
}

/// What is wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It is no decision log.
    NoLog,
    /// It is written in a version of the format that is not known here.
    Version(u8),
    /// It ends inside its header or a record.
    CutOff,
    /// It says something that was never written.
    Damaged(&'static str),
    /// Something follows its end.
    GoesOn,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            FaultKind::NoLog => write!(f, "this is no decision log"),
            FaultKind::Version(version) => write!(
                f,
                "this log is written in version {version} of the format, and only version {} is known",
                MAGIC[7]
            ),
            FaultKind::CutOff => write!(
                f,
                "the log breaks off in what begins at byte {}",
                self.offset
            ),
            FaultKind::Damaged(what) => {
                write!(
                    f,
                    "the log is damaged: {what}, in what begins at byte {}",
                    self.offset
                )
            }
            FaultKind::GoesOn => {
                write!(f, "the log goes on after its end, at byte {}", self.offset)
            }
        }
    }
}

impl std::error::Error for Fault {}

/// Reads a log. It is given pieces of any size, and keeps what is not understood yet.
#[derive(Debug)]
pub struct Decoder {
    pending: Vec<u8>,
    /// Bytes of `pending` that are read.
    read: usize,
    /// Where `pending` begins in the log.
    offset: u64,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Header,
    Records(Progress),
    Ended,
    Faulty(Fault),
}

/// What one record is written relative to.
#[derive(Clone, Copy, Debug)]
struct Progress {
    check: Check,
    last: Mono,
    limit: u32,
}

const SPOILT: Flaw = Flaw::Damaged("its check does not fit");

impl Default for Decoder {
    fn default() -> Self {
        Self {
            pending: Vec::new(),
            read: 0,
            offset: 0,
            state: State::Header,
        }
    }
}

impl Decoder {
    /// Adds the next piece of the log.
    pub fn push(&mut self, piece: &[u8]) {
        self.pending.drain(..self.read);
        self.offset += self.read as u64;
        self.read = 0;
        self.pending.extend_from_slice(piece);
    }

    /// What the log says next; `None` when that takes more of it. After a fault there is nothing but
    /// the same fault.
    pub fn read(&mut self) -> Result<Option<Item>, Fault> {
        let mut cursor = Cursor::new(&self.pending[self.read..]);
        let offset = self.offset + self.read as u64;
        let item = match self.state {
            State::Faulty(fault) => return Err(fault),
            State::Ended if cursor.left() == 0 => return Ok(None),
            State::Ended => Err(FaultKind::GoesOn),
            State::Header => read_header(&mut cursor),
            State::Records(progress) => read_record(&mut cursor, progress, offset),
        };
        match item {
            Ok(Some((item, state))) => {
                self.read = self.pending.len() - cursor.left();
                self.state = state;
                Ok(Some(item))
            }
            Ok(None) => Ok(None),
            Err(kind) => {
                let fault = Fault { offset, kind };
                self.state = State::Faulty(fault);
                Err(fault)
            }
        }
    }

    /// Whether the log may end here: it is over, or nothing has begun that is not all there. In the
    /// latter case whoever wrote it was stopped from outside.
    pub fn finish(&self) -> Result<(), Fault> {
        let cut_off = Fault {
            offset: self.offset + self.read as u64,
            kind: FaultKind::CutOff,
        };
        match self.state {
            State::Faulty(fault) => Err(fault),
            State::Header => Err(cut_off),
            State::Records(_) if self.read < self.pending.len() => Err(cut_off),
            State::Records(_) | State::Ended => Ok(()),
        }
    }
}

/// What was read and what comes after it; `None` when it takes more bytes.
type Read = Result<Option<(Item, State)>, FaultKind>;

fn read_header(cursor: &mut Cursor<'_>) -> Read {
    let mut check = Check::new();
    let all = cursor.rest();
    let known = all.len().min(MAGIC.len() - 1);
    if all[..known] != MAGIC[..known] {
        return Err(FaultKind::NoLog);
    }
    if let Some(&version) = all
        .get(MAGIC.len() - 1)
        .filter(|&&version| version != MAGIC[7])
    {
        return Err(FaultKind::Version(version));
    }
    whole(|| {
        cursor.bytes(MAGIC.len())?;
        let header = Header::take(cursor)?;
        check.add(&all[..all.len() - cursor.left()]);
        if cursor.fixed()? != check.whole() {
            return Err(SPOILT);
        }
        let progress = Progress {
            check,
            last: Mono::default(),
            limit: 0,
        };
        Ok((Item::Header(Box::new(header)), State::Records(progress)))
    })
}

fn read_record(cursor: &mut Cursor<'_>, mut progress: Progress, offset: u64) -> Read {
    let all = cursor.rest();
    whole(|| {
        let first = cursor.byte()?;
        if first & !(KIND | LIMIT_CHANGED | HAS_ACTIONS) != 0 {
            return Err(Flaw::Damaged("an unknown record"));
        }
        if first == END {
            let end = End::ALL.get(usize::from(cursor.byte()?)).copied();
            progress.check.add(&all[..all.len() - cursor.left()]);
            if cursor.fixed()? != progress.check.whole() {
                return Err(SPOILT);
            }
            let end = end.ok_or(Flaw::Damaged("an unknown end"))?;
            return Ok((Item::End(end), State::Ended));
        }
        let now = cursor.step(progress.last)?;
        let event = event(cursor, now, first & KIND)?;
        let outcome = outcome(cursor, now, &event)?;
        let actions = match first & HAS_ACTIONS {
            0 => Vec::new(),
            _ => actions(cursor)?,
        };
        if first & LIMIT_CHANGED != 0 {
            progress.limit = cursor.u32()?;
        }
        progress.last = now;
        progress.check.add(&all[..all.len() - cursor.left()]);
        if cursor.byte()? != progress.check.byte() {
            return Err(SPOILT);
        }
        let record = Record {
            offset,
            now,
            event,
            outcome,
            actions,
            limit: progress.limit,
        };
        Ok((Item::Record(record), State::Records(progress)))
    })
}

fn whole(read: impl FnOnce() -> Result<(Item, State), Flaw>) -> Read {
    match read() {
        Ok(read) => Ok(Some(read)),
        Err(Flaw::Short) => Ok(None),
        Err(Flaw::Damaged(what)) => Err(FaultKind::Damaged(what)),
    }
}

//! The decision log: everything that happened to one admission, in order, with what was decided.
//!
//! Decisions depend on nothing but the configuration, a seed and the events with their times. So a
//! log of these is enough to take every decision again, elsewhere and later, and to say where a
//! changed program would have decided otherwise.
//!
//! A log is a header and one record per event:
//!
//! ```text
//! log     = magic version header check8 record* [end]
//! record  = first step event outcome [actions] [limit] check1
//! end     = 0 reason check8
//! ```
//!
//! The first byte of a record holds the kind of the event and whether actions and a new limit
//! follow; `step` is the time since the record before. Whole numbers have seven bits a byte, steps
//! are signed, since the readings of several threads interleave. The checks run over everything
//! before them: one byte a record, eight at both ends. There are no frames: a log that
//! breaks off anywhere is good up to its last whole record. A request that is peeked at, admitted
//! and done takes about 40 bytes.
//!
//! Who writes a log where and when is left to the caller; so is what becomes of one that cannot be
//! written.

mod event;
mod header;
mod log;
mod record;
mod replay;
mod wire;

pub use event::{Event, Outcome, Record};
pub use header::Header;
pub use log::{Decoder, END_BYTES_MAX, Encoder, End, Fault, FaultKind, Item, MAGIC};
pub use replay::{Difference, Got, Replay};

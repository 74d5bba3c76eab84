//! A second, strict look at where requests begin and end.
//!
//! The HTTP engine forgives: it drops a repeated `Content-Length`, ignores one beside
//! `Transfer-Encoding` and takes bare line feeds. Any of them lets two parties disagree about where
//! a request ends, which is how requests are smuggled. This scanner reads the same bytes before the
//! engine gets them, forgives nothing, and leaves a verdict for every request head. It never
//! rewrites a byte. From the line with a fault on, the engine sees nothing more: whoever serves the
//! connection answers the faulty head itself, once all before it is answered.
//!
//! Bodies with a length are skipped, not looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use super::FramingFault;
use super::line::{Chunk, Field, content_length, field, framing_of, strip_crlf};
use super::target::{self, Authority, RequestLine};

/// Longest line that announces a chunk, its extensions included.
const CHUNK_LINE_BYTES_MAX: usize = 1024;

// What the engine gives up on by itself looks like a client that has gone, so that this scanner must
// be the first to say no. The engine's own bounds are one higher.

/// Most bytes of chunk extensions in one body.
const EXTENSIONS_BYTES_MAX: usize = 16 * 1024 - 1;

/// Most bytes of a trailer section, if a head may be as large as that.
const TRAILERS_BYTES_MAX: usize = 16 * 1024 - 1;

/// Most trailers, if a head may have as many fields.
const TRAILERS_MAX: usize = 100;

/// Reads a connection's incoming bytes and judges the head of every request in them.
#[derive(Debug)]
pub struct Framing {
    state: State,
    /// The beginning of a line whose end has not been read yet; bounded by the limits on heads and
    /// chunk lines.
    partial: Vec<u8>,
    /// Bytes of the head, chunk line or trailer section read so far.
    section_bytes: usize,
    /// Bytes of chunk extensions in the body that is being read.
    extensions_bytes: usize,
    /// Fields of its trailer section so far.
    trailers: usize,
    head: Head,
    head_bytes_max: usize,
    headers_max: usize,
    trailers_bytes_max: usize,
    trailers_max: usize,
    log: FramingLog,
}

/// What the scanner has found: one verdict for every request head, taken in order.
#[derive(Clone, Debug, Default)]
pub struct FramingLog(Arc<Verdicts>);

/// Since nothing is read after a fault, a number and a fault are a whole queue of verdicts.
#[derive(Debug, Default)]
struct Verdicts {
    passed: AtomicU32,
    /// 0, or 1 + the index of the fault in a head, which comes after everything that passed.
    head_fault: AtomicU8,
    /// The same for a fault inside a body.
    body_fault: AtomicU8,
    out_of_step: AtomicBool,
}

/// What the reader may do with the bytes it showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Pass on this many of them and go on.
    Pass(usize),
    /// Pass on this many, up to the line with the fault, and nothing later: a head is faulty.
    Last(usize),
    /// Pass on this many, then fail: a body is faulty.
    Fail(usize),
}

/// What the connection is in the middle of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Between two requests.
    Between,
    /// Inside a head.
    Head,
    /// Inside a body.
    Body,
    /// Past a fault.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before or inside a request line.
    Request,
    /// Inside the fields of a head.
    Fields,
    /// Inside a body of which this many bytes are to come.
    Body(u64),
    ChunkLine,
    ChunkBytes(u64),
    /// The line end after a chunk, of which so many bytes have been read.
    ChunkEnd(u8),
    Trailers,
    HeadRefused,
    BodyRefused,
}

/// What the lines of the current head have said so far.
#[derive(Debug, Default)]
struct Head {
    http_10: bool,
    authority: Option<Authority>,
    fields: usize,
    hosts: u32,
    length: Option<u64>,
    chunked: bool,
}

impl Framing {
    /// A scanner at the start of a connection, for heads of at most `head_bytes_max` bytes and
    /// `headers_max` fields, and where its verdicts can be taken.
    pub fn new(head_bytes_max: usize, headers_max: usize) -> (Self, FramingLog) {
        let log = FramingLog::default();
        let framing = Self {
            state: State::Request,
            partial: Vec::new(),
            section_bytes: 0,
            extensions_bytes: 0,
            trailers: 0,
            head: Head::default(),
            head_bytes_max,
            headers_max,
            trailers_bytes_max: TRAILERS_BYTES_MAX.min(head_bytes_max.saturating_sub(1)),
            trailers_max: TRAILERS_MAX.min(headers_max),
            log: log.clone(),
        };
        (framing, log)
    }

    /// What the connection is in the middle of.
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Request if self.section_bytes == 0 => Phase::Between,
            State::Request | State::Fields => Phase::Head,
            State::HeadRefused | State::BodyRefused => Phase::Refused,
            _ => Phase::Body,
        }
    }

    /// Reads what came in next.
    pub fn scan(&mut self, bytes: &[u8]) -> Scan {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.state {
                State::Body(left) => {
                    let (taken, left) = skip(rest, left);
                    at += taken;
                    self.state = if left == 0 {
                        State::Request
                    } else {
                        State::Body(left)
                    };
                }
                State::ChunkBytes(left) => {
                    let (taken, left) = skip(rest, left);
                    at += taken;
                    self.state = if left == 0 {
                        State::ChunkEnd(0)
                    } else {
                        State::ChunkBytes(left)
                    };
                }
                State::ChunkEnd(read) => {
                    if rest[0] != b"\r\n"[usize::from(read)] {
                        return self.refuse_body(FramingFault::ChunkEnd, at);
                    }
                    at += 1;
                    self.state = if read == 0 {
                        State::ChunkEnd(1)
                    } else {
                        State::ChunkLine
                    };
                }
                State::HeadRefused => return Scan::Last(at),
                State::BodyRefused => return Scan::Fail(at),
                State::Request | State::Fields | State::ChunkLine | State::Trailers => {
                    match self.read_line(rest) {
                        Ok(taken) => at += taken,
                        Err(fault) if self.in_head() => return self.refuse_head(fault, at),
                        Err(fault) => return self.refuse_body(fault, at),
                    }
                }
            }
        }
        Scan::Pass(at)
    }

    fn in_head(&self) -> bool {
        matches!(self.state, State::Request | State::Fields)
    }

    /// Reads up to the next line feed, judges the line if it is there, and says how many bytes of
    /// `rest` that took. On a fault nothing counts as taken.
    fn read_line(&mut self, rest: &[u8]) -> Result<usize, FramingFault> {
        let end = memchr::memchr(b'\n', rest);
        let taken = end.map_or(rest.len(), |end| end + 1);
        self.section_bytes += taken;
        let (bytes_max, too_long) = match self.state {
            State::ChunkLine => (CHUNK_LINE_BYTES_MAX, FramingFault::ChunkSize),
            State::Trailers => (self.trailers_bytes_max, FramingFault::Trailer),
            _ => (self.head_bytes_max, FramingFault::HeadTooLarge),
        };
        if self.section_bytes > bytes_max {
            return Err(too_long);
        }

        if end.is_none() {
            self.partial.extend_from_slice(rest);
        } else if self.partial.is_empty() {
            self.judge(&rest[..taken])?;
        } else {
            let mut line = std::mem::take(&mut self.partial);
            line.extend_from_slice(&rest[..taken]);
            self.judge(&line)?;
            line.clear();
            self.partial = line;
        }
        Ok(taken)
    }

    /// Judges one whole line, its end included.
    fn judge(&mut self, line: &[u8]) -> Result<(), FramingFault> {
        let line = strip_crlf(line)?;
        match self.state {
            // A server may skip empty lines before a request; the engine does.
            State::Request if line.is_empty() => {
                self.section_bytes = 0;
                Ok(())
            }
            State::Request => {
                let request = RequestLine::parse(line)?;
                self.head = Head {
                    http_10: request.http_10,
                    authority: request.authority,
                    ..Head::default()
                };
                self.state = State::Fields;
                Ok(())
            }
            State::Fields if line.is_empty() => self.end_head(),
            State::Fields => {
                self.head.fields += 1;
                if self.head.fields > self.headers_max {
                    return Err(FramingFault::HeadTooLarge);
                }
                self.head.read(line)
            }
            State::ChunkLine => {
                self.section_bytes = 0;
                let chunk = Chunk::parse(line)?;
                self.extensions_bytes += chunk.extensions_bytes;
                if self.extensions_bytes > EXTENSIONS_BYTES_MAX {
                    return Err(FramingFault::ChunkSize);
                }
                self.state = match chunk.bytes {
                    0 => State::Trailers,
                    bytes => State::ChunkBytes(bytes),
                };
                Ok(())
            }
            State::Trailers if line.is_empty() => {
                self.section_bytes = 0;
                self.state = State::Request;
                Ok(())
            }
            // What frames or routes a request has no business behind its body.
            State::Trailers => {
                self.trailers += 1;
                match framing_of(field(line)?) {
                    Field::Other if self.trailers <= self.trailers_max => Ok(()),
                    _ => Err(FramingFault::Trailer),
                }
            }
            _ => unreachable!("only these states read lines"),
        }
    }

    fn end_head(&mut self) -> Result<(), FramingFault> {
        if self.head.hosts == 0 && !self.head.http_10 {
            return Err(FramingFault::HostMissing);
        }
        self.state = match (self.head.chunked, self.head.length) {
            (true, Some(_)) => return Err(FramingFault::LengthAndCoding),
            (true, None) => State::ChunkLine,
            (false, None | Some(0)) => State::Request,
            (false, Some(length)) => State::Body(length),
        };
        self.section_bytes = 0;
        self.extensions_bytes = 0;
        self.trailers = 0;
        self.log.0.passed.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn refuse_head(&mut self, fault: FramingFault, at: usize) -> Scan {
        self.log
            .0
            .head_fault
            .store(1 + fault.index() as u8, Ordering::Release);
        self.state = State::HeadRefused;
        self.partial = Vec::new();
        Scan::Last(at)
    }

    fn refuse_body(&mut self, fault: FramingFault, at: usize) -> Scan {
        self.log
            .0
            .body_fault
            .store(1 + fault.index() as u8, Ordering::Release);
        self.state = State::BodyRefused;
        self.partial = Vec::new();
        Scan::Fail(at)
    }
}

impl Head {
    fn read(&mut self, line: &[u8]) -> Result<(), FramingFault> {
        match framing_of(field(line)?) {
            Field::Other => Ok(()),
            Field::Host(host) => {
                self.hosts += 1;
                if self.hosts > 1 {
                    return Err(FramingFault::HostRepeated);
                }
                target::check_host(host)?;
                match &self.authority {
                    Some(authority) if !authority.agrees_with(host) => {
                        Err(FramingFault::HostDisagrees)
                    }
                    _ => Ok(()),
                }
            }
            Field::ContentLength(value) => {
                let length = content_length(value)?;
                match self.length.replace(length) {
                    Some(_) => Err(FramingFault::LengthRepeated),
                    None => Ok(()),
                }
            }
            Field::TransferEncoding(value) => {
                if self.http_10 {
                    return Err(FramingFault::CodingInHttp10);
                }
                if self.chunked {
                    return Err(FramingFault::CodingRepeated);
                }
                if !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(FramingFault::CodingUnknown);
                }
                self.chunked = true;
                Ok(())
            }
        }
    }
}

impl FramingLog {
    /// Takes the verdict on the next request that the engine has read.
    ///
    /// The engine sees no byte of what the scanner has not passed, so there is one; if not, the two
    /// disagree about where requests begin, and that is a fault too.
    pub fn next(&self) -> Result<(), FramingFault> {
        let passed = self.0.passed.load(Ordering::Acquire);
        if passed > 0 {
            self.0.passed.store(passed - 1, Ordering::Release);
            return Ok(());
        }
        self.0.out_of_step.store(true, Ordering::Relaxed);
        Err(FramingFault::OutOfStep)
    }

    /// Whether [`FramingLog::next`] has returned a fault: the connection must end.
    pub fn is_out_of_step(&self) -> bool {
        self.0.out_of_step.load(Ordering::Relaxed)
    }

    /// The fault in a head that the engine does not see and so does not answer.
    pub fn head_fault(&self) -> Option<FramingFault> {
        stored(self.0.head_fault.load(Ordering::Acquire))
    }

    /// The fault in a body that broke off for that.
    pub fn body_fault(&self) -> Option<FramingFault> {
        stored(self.0.body_fault.load(Ordering::Acquire))
    }
}

/// The fault stored as 1 + its index; `None` for 0.
fn stored(code: u8) -> Option<FramingFault> {
    FramingFault::ALL
        .get(usize::from(code).checked_sub(1)?)
        .copied()
}

/// How many bytes of `rest` belong to a body of which `left` are to come, and what is left then.
fn skip(rest: &[u8], left: u64) -> (usize, u64) {
    let taken = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
    (taken, left - taken as u64)
}

#[cfg(test)]
mod tests;

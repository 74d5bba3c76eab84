//! A lean parser of HTTP/1.1 answers: it tells where one ends and says little more.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

/// Header fields in one answer.
const FIELDS_MAX: usize = 64;
/// Bytes of an answer's head, and of a line between two chunks.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What is not an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed answer")]
pub(super) struct Malformed;

/// The head of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    /// Whether the connection ends with this answer.
    pub(super) closes: bool,
    /// All fields, when they are wanted.
    pub(super) fields: HeaderMap,
}

/// One answer being read.
pub(super) struct Parser {
    head: Option<Head>,
    rest: Rest,
    /// To a HEAD request: there is no body whatever the head says.
    bodiless: bool,
    keeps_fields: bool,
}

/// What is still to come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rest {
    Head,
    Length(u64),
    ChunkSize {
        size: u64,
        line_bytes: usize,
        digits_over: bool,
    },
    ChunkData(u64),
    ChunkEnd,
    Trailer {
        line_bytes: usize,
        bytes: usize,
    },
    UntilClose,
    Nothing,
}

impl Parser {
    pub(super) fn new(bodiless: bool) -> Self {
        Self {
            head: None,
            rest: Rest::Head,
            bodiless,
            keeps_fields: false,
        }
    }

    pub(super) fn keeping_fields(bodiless: bool) -> Self {
        Self {
            keeps_fields: true,
            ..Self::new(bodiless)
        }
    }

    /// The head, if it is complete.
    pub(super) fn into_head(self) -> Option<Head> {
        self.head
    }

    pub(super) fn is_done(&self) -> bool {
        self.rest == Rest::Nothing
    }

    /// The stream has ended. Whether that was a proper end.
    pub(super) fn end(&mut self) -> bool {
        if self.rest == Rest::UntilClose {
            self.rest = Rest::Nothing;
        }
        self.is_done()
    }

    /// Reads from `bytes`, gives what is body to `sink`, and says how much it took. What it did
    /// not take must be there again, with more behind it, the next time.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut sink: impl FnMut(&[u8]),
    ) -> Result<usize, Malformed> {
        let mut taken = 0;
        loop {
            let left = &bytes[taken..];
            if self.is_done() || left.is_empty() {
                return Ok(taken);
            }
            match self.rest {
                Rest::Head => match self.feed_head(left)? {
                    0 => return Ok(taken),
                    bytes => taken += bytes,
                },
                Rest::Length(length) => {
                    let piece = clamp(left, length);
                    sink(piece);
                    taken += piece.len();
                    self.rest = Self::until(length - piece.len() as u64);
                }
                Rest::UntilClose => {
                    sink(left);
                    taken += left.len();
                }
                Rest::ChunkData(length) => {
                    let piece = clamp(left, length);
                    sink(piece);
                    taken += piece.len();
                    self.rest = match length - piece.len() as u64 {
                        0 => Rest::ChunkEnd,
                        length => Rest::ChunkData(length),
                    };
                }
                Rest::ChunkSize { .. } | Rest::ChunkEnd | Rest::Trailer { .. } => {
                    taken += 1;
                    self.rest = self.rest.line_byte(left[0])?;
                }
                Rest::Nothing => {}
            }
        }
    }

    fn until(length: u64) -> Rest {
        if length == 0 {
            Rest::Nothing
        } else {
            Rest::Length(length)
        }
    }

    /// How long the head was; 0 while it is incomplete.
    fn feed_head(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut answer = httparse::Response::new(&mut fields);
        let length = match answer.parse(bytes).map_err(|_| Malformed)? {
            httparse::Status::Complete(length) => length,
            httparse::Status::Partial if bytes.len() > HEAD_BYTES_MAX => return Err(Malformed),
            httparse::Status::Partial => return Ok(0),
        };
        let status = answer.code.ok_or(Malformed)?;
        // An interim answer; the real one follows. 101 would be the end of HTTP, and is not asked for.
        if (100..200).contains(&status) {
            return Ok(length);
        }

        let mut head = Head {
            status,
            closes: answer.version == Some(0),
            ..Head::default()
        };
        let mut rest = Rest::UntilClose;
        for field in answer.headers.iter() {
            let name = field.name;
            if name.eq_ignore_ascii_case("content-length") {
                if !matches!(rest, Rest::ChunkSize { .. }) {
                    rest = Self::until(number(field.value).ok_or(Malformed)?);
                }
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                rest = Rest::ChunkSize {
                    size: 0,
                    line_bytes: 0,
                    digits_over: false,
                };
            } else if name.eq_ignore_ascii_case("connection") {
                head.closes |= field.value.eq_ignore_ascii_case(b"close");
            } else if name.eq_ignore_ascii_case("retry-after") {
                head.retry_after = number(field.value).map(Duration::from_secs);
            }
            if self.keeps_fields {
                head.fields.append(
                    HeaderName::from_bytes(name.as_bytes()).map_err(|_| Malformed)?,
                    HeaderValue::from_bytes(field.value).map_err(|_| Malformed)?,
                );
            }
        }
        self.rest = if self.bodiless || status == 204 || status == 304 {
            Rest::Nothing
        } else {
            rest
        };
        head.closes |= self.rest == Rest::UntilClose;
        self.head = Some(head);
        Ok(length)
    }
}

impl Rest {
    /// What is to come after `byte`, which is part of the lines around chunks.
    fn line_byte(self, byte: u8) -> Result<Self, Malformed> {
        match (self, byte) {
            (Self::ChunkSize { line_bytes: 0, .. }, b'\r' | b'\n' | b';') => Err(Malformed),
            (Self::ChunkSize { size: 0, .. }, b'\n') => Ok(Self::Trailer {
                line_bytes: 0,
                bytes: 0,
            }),
            (Self::ChunkSize { size, .. }, b'\n') => Ok(Self::ChunkData(size)),
            (Self::ChunkSize { line_bytes, .. }, _) if line_bytes >= HEAD_BYTES_MAX => {
                Err(Malformed)
            }
            (
                Self::ChunkSize {
                    size,
                    line_bytes,
                    digits_over,
                },
                _,
            ) => {
                let line_bytes = line_bytes + 1;
                let digit = (byte as char).to_digit(16).map(u64::from);
                match (digits_over, digit, byte) {
                    (false, Some(digit), _) if size < 1 << 56 => Ok(Self::ChunkSize {
                        size: size * 16 + digit,
                        line_bytes,
                        digits_over,
                    }),
                    // An extension, or the end of the line, follows the digits.
                    (false, None, b';' | b'\r' | b' ' | b'\t') | (true, _, _) => {
                        Ok(Self::ChunkSize {
                            size,
                            line_bytes,
                            digits_over: true,
                        })
                    }
                    _ => Err(Malformed),
                }
            }
            (Self::ChunkEnd, b'\r') => Ok(Self::ChunkEnd),
            (Self::ChunkEnd, b'\n') => Ok(Self::ChunkSize {
                size: 0,
                line_bytes: 0,
                digits_over: false,
            }),
            (Self::Trailer { line_bytes: 0, .. }, b'\n') => Ok(Self::Nothing),
            (Self::Trailer { bytes, .. }, _) if bytes >= HEAD_BYTES_MAX => Err(Malformed),
            (Self::Trailer { bytes, .. }, b'\n') => Ok(Self::Trailer {
                line_bytes: 0,
                bytes,
            }),
            (Self::Trailer { line_bytes, bytes }, b'\r') => Ok(Self::Trailer { line_bytes, bytes }),
            (Self::Trailer { line_bytes, bytes }, _) => Ok(Self::Trailer {
                line_bytes: line_bytes + 1,
                bytes: bytes + 1,
            }),
            _ => Err(Malformed),
        }
    }
}

fn clamp(bytes: &[u8], length: u64) -> &[u8] {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    &bytes[..bytes.len().min(length)]
}

fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `wire` in pieces of `step` bytes; the head, the body, and what was left over.
    fn read(
        wire: &[u8],
        step: usize,
        bodiless: bool,
    ) -> Result<(Parser, Vec<u8>, usize), Malformed> {
        let mut parser = Parser::keeping_fields(bodiless);
        let mut body = Vec::new();
        let mut pending = Vec::new();
        for piece in wire.chunks(step) {
            pending.extend_from_slice(piece);
            let taken = parser.feed(&pending, |bytes| body.extend_from_slice(bytes))?;
            pending.drain(..taken);
        }
        Ok((parser, body, pending.len()))
    }

    #[test]
    fn an_answer_ends_where_its_length_says_however_it_is_cut() {
        let wire = b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\ncontent-length: 5\r\n\r\nsorryHTTP/1.1";

        for step in 1..=wire.len() {
            let (parser, body, left) = read(wire, step, false).unwrap();

            assert!(parser.is_done());
            assert_eq!((body.as_slice(), left), (b"sorry".as_slice(), 8));
            let head = parser.into_head().unwrap();
            assert_eq!((head.status, head.closes), (503, false));
            assert_eq!(head.retry_after, Some(Duration::from_secs(7)));
            assert_eq!(head.fields["retry-after"], "7");
        }
    }

    #[test]
    fn chunks_are_joined_and_trailers_skipped_however_they_are_cut() {
        let wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\nTrailer: a\r\n\r\nHTTP";

        for step in 1..=wire.len() {
            let (parser, body, left) = read(wire, step, false).unwrap();

            assert!(parser.is_done());
            assert_eq!((body.as_slice(), left), (b"abc0123456789".as_slice(), 4));
        }
    }

    #[test]
    fn an_answer_without_a_length_ends_with_its_connection() {
        let (mut parser, body, _) = read(b"HTTP/1.0 200 OK\r\n\r\nabc", 4, false).unwrap();

        assert!(!parser.is_done());
        assert!(parser.end());
        assert_eq!(body, b"abc");
        assert!(parser.into_head().unwrap().closes);
    }

    #[test]
    fn an_answer_that_breaks_off_has_no_proper_end() {
        for wire in [
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".as_slice(),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            b"HTTP/1.1 200 OK\r\nConte",
        ] {
            let (mut parser, ..) = read(wire, 8, false).unwrap();
            assert!(!parser.end());
        }
    }

    #[test]
    fn interim_answers_are_skipped_and_some_have_no_body() {
        let continued = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 None\r\n\r\n";
        let head_only = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";

        assert_eq!(
            read(continued, 5, false)
                .unwrap()
                .0
                .into_head()
                .unwrap()
                .status,
            204
        );
        assert!(read(head_only, 5, true).unwrap().0.is_done());
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for wire in [
            b"SSH-2.0-x\r\n\r\n".as_slice(),
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        ] {
            assert!(
                read(wire, 3, false).is_err(),
                "{}",
                String::from_utf8_lossy(wire)
            );
        }
    }
}

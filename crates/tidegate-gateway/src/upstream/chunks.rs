//! A body in chunks (RFC 9112, 7.1), as applications send it.

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_http::hops;

use super::answer::Malformed;

/// Bytes of a line that announces a chunk, its extensions included.
const LINE_BYTES_MAX: usize = 1024;

/// Bytes of trailers.
const TRAILER_BYTES_MAX: usize = 16 * 1024;

/// Fields in trailers.
const TRAILER_FIELDS_MAX: usize = 100;

/// How far a body in chunks has been read.
#[derive(Debug, Default)]
pub(super) enum Chunks {
    /// A chunk's size comes next.
    #[default]
    Size,
    /// So many bytes of a chunk are to come.
    Data(u64),
    /// The end of a chunk's line comes next.
    DataEnd,
    /// Trailers, or the empty line instead.
    Trailers,
    /// That was all.
    End,
}

/// What comes next in a body in chunks.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Data, of which this much may be taken off the input.
    Data(usize),
    /// Trailers, and with them the end.
    Trailers(HeaderMap),
    /// The end.
    End,
    /// It cannot be told before more of it is here.
    More,
}

impl Chunks {
    /// What comes next in `input`. Whoever is told of data takes it off and says so.
    pub(super) fn next(&mut self, input: &mut BytesMut) -> Result<Next, Malformed> {
        loop {
            match self {
                Self::Size => {
                    let Some(size) = take_line(input)? else {
                        return Ok(Next::More);
                    };
                    *self = match size {
                        0 => Self::Trailers,
                        size => Self::Data(size),
                    };
                }
                Self::Data(left) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX);
                    return Ok(match here.min(input.len()) {
                        0 => Next::More,
                        bytes => Next::Data(bytes),
                    });
                }
                Self::DataEnd => {
                    if input.len() < 2 {
                        return Ok(Next::More);
                    }
                    if !input.starts_with(b"\r\n") {
                        return Err(Malformed);
                    }
                    input.advance(2);
                    *self = Self::Size;
                }
                Self::Trailers => {
                    let Some(trailers) = take_trailers(input)? else {
                        return Ok(Next::More);
                    };
                    *self = Self::End;
                    return Ok(match trailers.is_empty() {
                        true => Next::End,
                        false => Next::Trailers(trailers),
                    });
                }
                Self::End => return Ok(Next::End),
            }
        }
    }

    /// So many bytes of the data have been taken off the input.
    pub(super) fn took(&mut self, bytes: usize) {
        if let Self::Data(left) = self {
            *left -= bytes as u64;
            if *left == 0 {
                *self = Self::DataEnd;
            }
        }
    }

    /// Whether the end has been read.
    pub(super) fn is_at_end(&self) -> bool {
        matches!(self, Self::End)
    }
}

/// Takes the line that announces a chunk, and says the chunk's size.
fn take_line(input: &mut BytesMut) -> Result<Option<u64>, Malformed> {
    let searched = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some(end) = memchr::memchr(b'\n', searched) else {
        return match input.len() < LINE_BYTES_MAX {
            true => Ok(None),
            false => Err(Malformed),
        };
    };
    let line = input[..end].strip_suffix(b"\r").ok_or(Malformed)?;
    let digits = memchr::memchr(b';', line).map_or(line, |extensions| &line[..extensions]);
    let digits = digits.trim_ascii_end();
    if digits.is_empty() || digits.len() > 16 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(Malformed);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| Malformed)?;
    let size = u64::from_str_radix(digits, 16).map_err(|_| Malformed)?;
    input.advance(end + 1);
    Ok(Some(size))
}

/// Takes the trailers and the empty line behind them.
fn take_trailers(input: &mut BytesMut) -> Result<Option<HeaderMap>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; TRAILER_FIELDS_MAX];
    let (length, fields) = match httparse::parse_headers(input, &mut fields) {
        Ok(httparse::Status::Complete(found)) => found,
        Ok(httparse::Status::Partial) if input.len() < TRAILER_BYTES_MAX => return Ok(None),
        Ok(httparse::Status::Partial) | Err(_) => return Err(Malformed),
    };
    let mut trailers = HeaderMap::new();
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| Malformed)?;
        let value = Bytes::copy_from_slice(field.value);
        let value = HeaderValue::from_maybe_shared(value).map_err(|_| Malformed)?;
        trailers.append(name, value);
    }
    input.advance(length);
    hops::strip_trailers(&mut trailers);
    Ok(Some(trailers))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data and the trailers of a body that comes `step` bytes at a time.
    fn read(text: &[u8], step: usize) -> Result<(Vec<u8>, HeaderMap), Malformed> {
        let (mut chunks, mut input) = (Chunks::default(), BytesMut::new());
        let (mut data, mut trailers) = (Vec::new(), HeaderMap::new());
        let mut pieces = text.chunks(step);
        loop {
            match chunks.next(&mut input)? {
                Next::Data(bytes) => {
                    data.extend_from_slice(&input.split_to(bytes));
                    chunks.took(bytes);
                }
                Next::Trailers(found) => trailers = found,
                Next::End => break,
                Next::More => input.extend_from_slice(pieces.next().expect("it has an end")),
            }
        }
        assert!(chunks.is_at_end());
        Ok((data, trailers))
    }

    #[test]
    fn however_it_is_cut_it_reads_the_same() {
        let text =
            b"4\r\nWiki\r\n0A;name=\"x\"\r\npedia in\r\n\r\n3 \r\nthe\r\n0\r\nx-sum: 7\r\n\r\n";

        for step in 1..text.len() {
            let (data, trailers) = read(text, step).unwrap();

            assert_eq!(data, b"Wikipedia in\r\nthe");
            assert_eq!(trailers["x-sum"], "7");
        }
    }

    #[test]
    fn a_body_of_no_chunk_ends_at_once() {
        assert_eq!(read(b"0\r\n\r\n", 1).unwrap().0, b"");
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        let long = [b'1'; LINE_BYTES_MAX];
        for text in [
            b"x\r\n".as_slice(),
            b"\r\n",
            b"-1\r\n",
            b"4\nWiki",
            b"4\r\nWikiX\r\n",
            b"11111111111111111\r\n",
            b"0\r\nno colon\r\n\r\n",
            &long,
        ] {
            assert!(read(text, 4096).is_err(), "{text:.20?}");
        }
    }
}

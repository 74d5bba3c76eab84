//! The head of an application's answer, and where its body ends (RFC 9112, 6.3).

use std::mem::MaybeUninit;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version};
use httparse::{ParserConfig, Status};

use super::chunks::Chunks;

/// Bytes of a head that is not whole yet.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Fields in a head.
const FIELDS_MAX: usize = 256;

/// What is left of a body.
#[derive(Debug)]
pub(super) enum Extent {
    /// So many bytes; nothing when it is 0.
    Bytes(u64),
    /// Chunks, up to the one that says so.
    Chunked(Chunks),
    /// Everything up to the end of the connection.
    Close,
}

/// What came is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Takes the head of an answer off `input`, interim ones passed over; `None` when it is not whole.
/// `to_head` says that the request was a HEAD.
pub(super) fn take_head(
    input: &mut BytesMut,
    to_head: bool,
) -> Result<Option<(Parts, Extent)>, Malformed> {
    loop {
        let Some(mut parts) = take_one(input)? else {
            return Ok(None);
        };
        if parts.status.is_informational() && parts.status != StatusCode::SWITCHING_PROTOCOLS {
            continue;
        }
        let extent = extent(&mut parts, to_head)?;
        return Ok(Some((parts, extent)));
    }
}

fn take_one(input: &mut BytesMut) -> Result<Option<Parts>, Malformed> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut answer = httparse::Response::new(&mut []);
    let parsed =
        ParserConfig::default().parse_response_with_uninit_headers(&mut answer, input, &mut fields);
    let length = match parsed {
        Ok(Status::Complete(length)) if length <= HEAD_BYTES_MAX => length,
        Ok(Status::Partial) if input.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(_) | Err(_) => return Err(Malformed),
    };

    // Values share one copy of the head: the buffer stays with the connection, warm and its own.
    let head = Bytes::copy_from_slice(&input[..length]);
    let start = input.as_ptr() as usize;
    let mut headers = HeaderMap::with_capacity(answer.headers.len() + 2);
    for field in &*answer.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| Malformed)?;
        let at = field.value.as_ptr() as usize - start;
        let value = head.slice(at..at + field.value.len());
        let value = HeaderValue::from_maybe_shared(value).map_err(|_| Malformed)?;
        headers.append(name, value);
    }
    let status = StatusCode::from_u16(answer.code.unwrap_or_default()).map_err(|_| Malformed)?;
    let version = match answer.version {
        Some(1) => Version::HTTP_11,
        _ => Version::HTTP_10,
    };
    input.advance(length);

    let (mut parts, ()) = Response::new(()).into_parts();
    parts.status = status;
    parts.version = version;
    parts.headers = headers;
    Ok(Some(parts))
}

fn extent(parts: &mut Parts, to_head: bool) -> Result<Extent, Malformed> {
    let bodiless = matches!(
        parts.status,
        StatusCode::SWITCHING_PROTOCOLS | StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
    );
    if to_head || bodiless {
        return Ok(Extent::Bytes(0));
    }
    if let Some(coding) = parts.headers.get_all(TRANSFER_ENCODING).iter().next_back() {
        if parts.version == Version::HTTP_10 {
            return Err(Malformed);
        }
        // What the other codings are is between the application and its clients.
        let last = coding.as_bytes().rsplit(|&byte| byte == b',').next();
        let last = last.unwrap_or_default().trim_ascii();
        return Ok(match last.eq_ignore_ascii_case(b"chunked") {
            true => Extent::Chunked(Chunks::default()),
            false => Extent::Close,
        });
    }
    match length(&parts.headers)? {
        Some(length) => Ok(Extent::Bytes(length)),
        None => Ok(Extent::Close),
    }
}

/// The length that all `Content-Length` fields state, if there are any.
fn length(headers: &HeaderMap) -> Result<Option<u64>, Malformed> {
    let mut stated = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        for number in value.as_bytes().split(|&byte| byte == b',') {
            let number = number.trim_ascii();
            if number.is_empty() || !number.iter().all(u8::is_ascii_digit) {
                return Err(Malformed);
            }
            let number = std::str::from_utf8(number).map_err(|_| Malformed)?;
            let number: u64 = number.parse().map_err(|_| Malformed)?;
            if stated.is_some_and(|stated| stated != number) {
                return Err(Malformed);
            }
            stated = Some(number);
        }
    }
    Ok(stated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(text: &str) -> Result<Option<(Parts, Extent)>, Malformed> {
        take_head(&mut BytesMut::from(text), false)
    }

    /// What is left of the body of an answer with these fields.
    fn left(fields: &str) -> Result<Extent, Malformed> {
        let head = take(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"))?;
        Ok(head.expect("the head is whole").1)
    }

    #[test]
    fn a_head_is_taken_and_its_body_left() {
        let mut input = BytesMut::from("HTTP/1.1 404 Not Here\r\nX-A: 1\r\nx-a:  2 \r\n\r\nbody");

        let (parts, extent) = take_head(&mut input, false).unwrap().unwrap();

        assert_eq!(parts.status, StatusCode::NOT_FOUND);
        let values: Vec<_> = parts.headers.get_all("x-a").iter().collect();
        assert_eq!(values, ["1", "2"]);
        assert!(matches!(extent, Extent::Close));
        assert_eq!(&input[..], b"body");
    }

    #[test]
    fn half_a_head_is_left_where_it_is() {
        let mut input = BytesMut::from("HTTP/1.1 200 OK\r\nx-a: 1\r\n");

        assert!(take_head(&mut input, false).unwrap().is_none());
        input.extend_from_slice(b"\r\n");
        assert!(take_head(&mut input, false).unwrap().is_some());
    }

    #[test]
    fn interim_answers_are_passed_over_and_a_switch_is_not() {
        let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
        assert!(take(text).unwrap().is_none());

        let (parts, _) = take(&format!("{text}HTTP/1.1 201 Made\r\n\r\n"))
            .unwrap()
            .unwrap();
        assert_eq!(parts.status, StatusCode::CREATED);
        assert!(parts.headers.is_empty());

        let (parts, _) = take("HTTP/1.1 101 Go\r\n\r\n").unwrap().unwrap();
        assert_eq!(parts.status, StatusCode::SWITCHING_PROTOCOLS);
    }

    #[test]
    fn the_coding_says_where_a_body_ends_and_then_the_length() {
        assert!(matches!(
            left("content-length: 7\r\n"),
            Ok(Extent::Bytes(7))
        ));
        assert!(matches!(
            left("content-length: 7\r\ncontent-length: 7, 7\r\n"),
            Ok(Extent::Bytes(7))
        ));
        let both = "content-length: 7\r\ntransfer-encoding: gzip, Chunked\r\n";
        assert!(matches!(left(both), Ok(Extent::Chunked(_))));
        let unknown = "content-length: 7\r\ntransfer-encoding: gzip\r\n";
        assert!(matches!(left(unknown), Ok(Extent::Close)));
    }

    #[test]
    fn an_answer_without_a_body_has_none_whatever_its_head_says() {
        for status in ["204 None", "304 Same"] {
            let text = format!("HTTP/1.1 {status}\r\ncontent-length: 7\r\n\r\n");
            let (_, extent) = take(&text).unwrap().unwrap();
            assert!(matches!(extent, Extent::Bytes(0)), "{status}");
        }
        let mut input = BytesMut::from("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n");
        let (parts, extent) = take_head(&mut input, true).unwrap().unwrap();
        assert!(matches!(extent, Extent::Bytes(0)));
        assert_eq!(parts.headers[CONTENT_LENGTH], "7");
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let many = "a: 1\r\n".repeat(FIELDS_MAX + 1);
        for fields in [
            "content-length: 7\r\ncontent-length: 8\r\n",
            "content-length: -7\r\n",
            "content-length: \r\n",
            "content-length: 99999999999999999999\r\n",
            "no colon\r\n",
            many.as_str(),
        ] {
            assert_eq!(left(fields).err(), Some(Malformed), "{fields:.40}");
        }
        assert!(take("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(take("SSH-2.0-x\r\n").is_err());
        assert!(take(&format!("HTTP/1.1 200 {}", "x".repeat(HEAD_BYTES_MAX))).is_err());
    }
}

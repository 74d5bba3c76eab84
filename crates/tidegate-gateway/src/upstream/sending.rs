//! A request on its way to an application.

use std::io::{IoSlice, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http::header::{self, TRAILER, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body::Body as _;
use tidegate_http::hops;
use tokio::net::TcpStream;

use crate::body::Upload;
use crate::parts::poll_write_parts;

/// Room for a head of the usual size.
const HEAD_BYTES: usize = 1024;

/// A request, or what is left of it to be sent.
pub(crate) struct Sending {
    /// What is to be written next, from `written` on: the head, or what leads a piece.
    lead: Vec<u8>,
    written: usize,
    /// A piece of the body, to be written after that.
    piece: Bytes,
    /// What ends the piece.
    tail: &'static [u8],
    /// What comes after that; `None` when nothing does.
    body: Option<Upload>,
    coding: Coding,
    is_head: bool,
    begun: bool,
}

/// How the body is sent.
enum Coding {
    /// As it is: its length is known.
    Plain,
    /// In chunks, with these trailers should they come.
    Chunked(Vec<HeaderName>),
}

/// Why a request can be sent no further.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The application takes no more.
    Connection,
    /// The client does not send the rest. Its body knows why.
    Client,
}

impl Sending {
    /// `request`, whose headers say how its body is framed.
    pub(crate) fn new(request: Request<Upload>) -> Self {
        let (parts, body) = request.into_parts();
        let coding = match parts.headers.contains_key(TRANSFER_ENCODING) {
            true => Coding::Chunked(announced_trailers(&parts.headers)),
            false => Coding::Plain,
        };
        let has_end = matches!(coding, Coding::Chunked(_));
        Self {
            lead: head(&parts),
            written: 0,
            piece: Bytes::new(),
            tail: b"",
            body: Some(body).filter(|body| has_end || !body.is_end_stream()),
            coding,
            is_head: parts.method == Method::HEAD,
            begun: false,
        }
    }

    /// Whether it asks for a head only.
    pub(super) fn is_head(&self) -> bool {
        self.is_head
    }

    /// Whether any of it has been written.
    pub(super) fn is_begun(&self) -> bool {
        self.begun
    }

    /// Whether all of it has been written.
    pub(super) fn is_finished(&self) -> bool {
        self.body.is_none() && self.is_flushed()
    }

    /// Writes as much as can be written; ready when that is all.
    pub(super) fn poll(
        &mut self,
        stream: &mut TcpStream,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Stopped>> {
        loop {
            while !self.is_flushed() {
                let parts = [
                    IoSlice::new(&self.lead[self.written..]),
                    IoSlice::new(&self.piece),
                    IoSlice::new(self.tail),
                ];
                // A request without a body is its head and nothing else.
                let used = if self.piece.is_empty() && self.tail.is_empty() {
                    1
                } else {
                    3
                };
                match ready!(poll_write_parts(stream, context, &parts[..used])) {
                    Ok(0) | Err(_) => return Poll::Ready(Err(Stopped::Connection)),
                    Ok(bytes) => self.wrote(bytes),
                }
            }
            let Some(body) = &mut self.body else {
                return Poll::Ready(Ok(()));
            };
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Err(_)) => return Poll::Ready(Err(Stopped::Client)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.load(data),
                    Err(frame) => {
                        let mut trailers = frame.into_trailers().unwrap_or_default();
                        hops::strip_trailers(&mut trailers);
                        self.end(trailers);
                    }
                },
                None => self.end(HeaderMap::new()),
            }
        }
    }

    fn is_flushed(&self) -> bool {
        self.written == self.lead.len() && self.piece.is_empty() && self.tail.is_empty()
    }

    fn wrote(&mut self, mut bytes: usize) {
        self.begun = true;
        let lead = bytes.min(self.lead.len() - self.written);
        self.written += lead;
        bytes -= lead;
        let piece = bytes.min(self.piece.len());
        self.piece.advance(piece);
        self.tail = &self.tail[bytes - piece..];
    }

    /// Makes `data` the next piece. Everything before it has been written.
    fn load(&mut self, data: Bytes) {
        self.lead.clear();
        self.written = 0;
        // An empty chunk would be the last one.
        if matches!(self.coding, Coding::Chunked(_)) && !data.is_empty() {
            write!(self.lead, "{:x}\r\n", data.len())
                .expect("a vector takes what is written to it");
            self.tail = b"\r\n";
        }
        self.piece = data;
        if matches!(self.coding, Coding::Plain)
            && self
                .body
                .as_ref()
                .is_some_and(http_body::Body::is_end_stream)
        {
            self.body = None;
        }
    }

    /// Makes the end of the body what comes next.
    fn end(&mut self, trailers: HeaderMap) {
        self.body = None;
        self.lead.clear();
        self.written = 0;
        let Coding::Chunked(announced) = &self.coding else {
            return;
        };
        self.lead.extend_from_slice(b"0\r\n");
        for (name, value) in &trailers {
            if announced.contains(name) {
                write_field(&mut self.lead, name, value);
            }
        }
        self.lead.extend_from_slice(b"\r\n");
    }
}

/// The head of a request.
fn head(parts: &Parts) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let target = parts
        .uri
        .path_and_query()
        .map_or("/", |target| target.as_str());
    head.extend_from_slice(parts.method.as_str().as_bytes());
    head.push(b' ');
    if !target.starts_with(['/', '*']) {
        head.push(b'/');
    }
    head.extend_from_slice(target.as_bytes());
    head.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in &parts.headers {
        write_field(&mut head, name, value);
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn write_field(out: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The trailers that a request announces and that may be trailers (RFC 9110, 6.5.1).
fn announced_trailers(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(TRAILER)
        .iter()
        .flat_map(|names| names.as_bytes().split(|&byte| byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .filter(|name| !NO_TRAILERS.contains(name))
        .collect()
}

/// What frames, routes or describes a message has no business behind it.
static NO_TRAILERS: [HeaderName; 12] = [
    header::AUTHORIZATION,
    header::CACHE_CONTROL,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::HOST,
    header::MAX_FORWARDS,
    header::SET_COOKIE,
    header::TE,
    TRAILER,
    TRANSFER_ENCODING,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn head_of(request: http::request::Builder) -> String {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        String::from_utf8(head(&parts)).unwrap()
    }

    #[test]
    fn a_head_is_written_as_it_is_said() {
        let request = Request::get("/a?b=c")
            .header("host", "shop")
            .header("x-a", "1");
        assert_eq!(
            head_of(request),
            "GET /a?b=c HTTP/1.1\r\nhost: shop\r\nx-a: 1\r\n\r\n"
        );
        assert_eq!(head_of(Request::options("*")), "OPTIONS * HTTP/1.1\r\n\r\n");
        assert_eq!(
            head_of(Request::get("http://shop?b")),
            "GET /?b HTTP/1.1\r\n\r\n"
        );
    }

    #[test]
    fn only_announced_trailers_pass_and_none_that_frames() {
        let mut headers = HeaderMap::new();
        headers.append(TRAILER, HeaderValue::from_static("X-Sum, content-length"));
        headers.append(TRAILER, HeaderValue::from_static("x-other"));

        assert_eq!(announced_trailers(&headers), ["x-sum", "x-other"]);
    }
}

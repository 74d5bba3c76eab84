//! One connection to an application, which carries one request at a time.
//!
//! The engine has a client, too, but it drives every connection in a task of its own: a request and
//! its answer then take five turns of the runtime instead of two, and a third more of the gateway's
//! own time. Here whoever waits for the answer drives the connection.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use http::response::Parts;
use http_body::Frame;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::answer::{Extent, Malformed, take_head};
use super::chunks;
use super::pool::Permit;
use super::sending::{Sending, Stopped};
use crate::plan::UpstreamPlan;

/// Bytes read at a time at first, and kept by an idle connection.
const READ_BYTES: usize = 8 * 1024;

/// Bytes read at a time when there is always more, and so the most that one frame of an answer holds.
const READ_BYTES_MAX: usize = 64 * 1024;

/// Pieces up to this size are copied out of the read buffer, so that it stays where it is.
const COPIED_BYTES_MAX: usize = 4 * 1024;

/// A connection. It is closed when it is dropped.
///
/// Boxed by itself, since it moves from hand to hand.
pub(crate) struct Connection(Box<State>);

struct State {
    stream: TcpStream,
    /// What was read and belongs to nothing yet.
    input: BytesMut,
    read_bytes: usize,
    sending: Option<Sending>,
    /// What is left of the answer's body.
    extent: Extent,
    /// Whether the other side has ended it.
    ended: bool,
    /// What counts is open sockets: this goes after the socket.
    _permit: Permit,
}

/// Why there is no answer, or no more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Nothing of the request was written; it can be taken back.
    Unsent,
    /// The connection broke.
    Broken,
    /// What came is no answer, or over the limits on answers.
    Invalid,
    /// The client does not send the rest of its request.
    Client,
}

impl Connection {
    /// Opens a connection.
    pub(crate) async fn open(plan: &UpstreamPlan, permit: Permit) -> io::Result<Self> {
        let stream = connect(&plan.host, plan.port).await?;
        stream.set_nodelay(true)?;
        Ok(Self(Box::new(State {
            stream,
            input: BytesMut::new(),
            read_bytes: READ_BYTES,
            sending: None,
            extent: Extent::Bytes(0),
            ended: false,
            _permit: permit,
        })))
    }

    /// Whether the other side has closed it, or sent what nobody asked for, while it was idle.
    pub(crate) fn is_closed(&self) -> bool {
        // No system call as long as nothing has happened.
        let read = self.0.stream.try_read(&mut [0]);
        !matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Begins to send a request on an idle connection.
    pub(crate) fn begin(&mut self, sending: Sending) {
        self.0.sending = Some(sending);
        self.0.extent = Extent::Bytes(0);
    }

    /// The request that was to be sent and was not.
    pub(crate) fn take_back(&mut self) -> Option<Sending> {
        self.0.sending.take().filter(|sending| !sending.is_begun())
    }

    /// Waits for the head of the answer, and sends the request meanwhile.
    pub(crate) fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<Result<Parts, Lost>> {
        let Some(sending) = &mut self.0.sending else {
            return Poll::Ready(Err(Lost::Broken));
        };
        let to_head = sending.is_head();
        match sending.poll(&mut self.0.stream, context) {
            Poll::Ready(Err(Stopped::Client)) => return Poll::Ready(Err(Lost::Client)),
            Poll::Ready(Err(Stopped::Connection)) if !sending.is_begun() => {
                return Poll::Ready(Err(Lost::Unsent));
            }
            // The application may have said why it takes no more.
            Poll::Ready(Err(Stopped::Connection) | Ok(())) | Poll::Pending => {}
        }
        loop {
            if !self.0.input.is_empty() {
                match take_head(&mut self.0.input, to_head) {
                    Ok(Some((parts, extent))) => {
                        self.0.extent = extent;
                        return Poll::Ready(Ok(parts));
                    }
                    Ok(None) => {}
                    Err(Malformed) => return Poll::Ready(Err(Lost::Invalid)),
                }
            }
            match ready!(self.poll_read(context)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(Lost::Broken)),
                Ok(_) => {}
            }
        }
    }

    /// Waits for the next frame of the answer, and goes on sending the request meanwhile.
    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        if let Some(sending) = &mut self.0.sending
            && !sending.is_finished()
            && let Poll::Ready(Err(Stopped::Client)) = sending.poll(&mut self.0.stream, context)
        {
            return Poll::Ready(Some(Err(Lost::Client)));
        }
        loop {
            match self.take_frame() {
                Ok(Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                Ok(None) if self.is_end() => return Poll::Ready(None),
                Ok(None) => {}
                Err(Malformed) => return Poll::Ready(Some(Err(Lost::Invalid))),
            }
            match (ready!(self.poll_read(context)), &self.0.extent) {
                (Ok(1..), _) => {}
                (Ok(0), Extent::Close) => {
                    self.0.ended = true;
                    return Poll::Ready(None);
                }
                (Ok(0) | Err(_), _) => return Poll::Ready(Some(Err(Lost::Broken))),
            }
        }
    }

    /// Whether the answer has been read to its end.
    pub(crate) fn is_end(&self) -> bool {
        match &self.0.extent {
            Extent::Bytes(left) => *left == 0,
            Extent::Chunked(chunks) => chunks.is_at_end(),
            Extent::Close => self.0.ended,
        }
    }

    /// Makes ready for another request; not when the last one was not sent to its end, or more was
    /// answered than was asked.
    pub(crate) fn rest(&mut self) -> bool {
        let sending = self.0.sending.take();
        self.0.read_bytes = READ_BYTES;
        if self.0.input.capacity() > READ_BYTES {
            self.0.input = BytesMut::new();
        }
        !self.0.ended
            && self.0.input.is_empty()
            && sending.is_none_or(|sending| sending.is_finished())
    }

    /// What can be taken off the input.
    fn take_frame(&mut self) -> Result<Option<Frame<Bytes>>, Malformed> {
        let bytes = match &mut self.0.extent {
            Extent::Bytes(left) => {
                let here = usize::try_from(*left).unwrap_or(usize::MAX);
                let bytes = here.min(self.0.input.len());
                *left -= bytes as u64;
                bytes
            }
            Extent::Close => self.0.input.len(),
            Extent::Chunked(chunks) => match chunks.next(&mut self.0.input)? {
                chunks::Next::Data(bytes) => {
                    chunks.took(bytes);
                    bytes
                }
                chunks::Next::Trailers(trailers) => return Ok(Some(Frame::trailers(trailers))),
                chunks::Next::End | chunks::Next::More => 0,
            },
        };
        Ok(match bytes {
            0 => None,
            1..=COPIED_BYTES_MAX => {
                let piece = Bytes::copy_from_slice(&self.0.input[..bytes]);
                self.0.input.advance(bytes);
                Some(Frame::data(piece))
            }
            _ => Some(Frame::data(self.0.input.split_to(bytes).freeze())),
        })
    }

    /// Reads some more; 0 is the end.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.0.input.reserve(self.0.read_bytes);
        let room = self.0.input.capacity() - self.0.input.len();
        let read = pin!(self.0.stream.read_buf(&mut self.0.input));
        let bytes = ready!(read.poll(context))?;
        if bytes == room {
            self.0.read_bytes = (2 * self.0.read_bytes).min(READ_BYTES_MAX);
        }
        Poll::Ready(Ok(bytes))
    }
}

async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    if let Ok(address) = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>()
    {
        return TcpStream::connect(SocketAddr::new(address, port)).await;
    }
    // Looked up for every connection: a name that moves is followed, and connections are few.
    TcpStream::connect((host, port)).await
}

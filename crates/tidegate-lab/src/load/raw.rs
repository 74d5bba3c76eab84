//! Clients written by hand, one connection each, for tests of what clients may do: leave at any
//! point, read slowly, send half a request and nothing more.
//!
//! All are async so that thousands fit on one thread.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::net::TcpStream;

use super::Request;

/// One connection to a server.
pub struct Client {
    stream: TcpStream,
    host: String,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its header fields.
    pub headers: HeaderMap,
    /// Its body, without transfer coding.
    pub body: Vec<u8>,
}

impl Client {
    /// Connects to `target`.
    pub async fn connect(target: SocketAddr) -> io::Result<Self> {
        let _ = target;
        todo!()
    }

    /// Connects to `target` from the local address `source`.
    pub async fn connect_from(source: IpAddr, target: SocketAddr) -> io::Result<Self> {
        let _ = (source, target);
        todo!()
    }

    /// Connects with a receive buffer of about `bytes`, so that the server soon feels a slow reader.
    pub async fn connect_narrow(target: SocketAddr, bytes: usize) -> io::Result<Self> {
        let _ = (target, bytes);
        todo!()
    }

    /// Sends `bytes` as they are.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let _ = (bytes, &self.stream);
        todo!()
    }

    /// Sends `request` and reads the answer to its end.
    pub async fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        let _ = (request, &self.host);
        todo!()
    }

    /// Reads one answer to its end. The end of the stream before that is `UnexpectedEof`.
    pub async fn answer(&mut self) -> io::Result<Answer> {
        todo!()
    }

    /// Waits until the server closes, discarding what it sends; says how many bytes those were.
    pub async fn wait_for_close(&mut self) -> io::Result<u64> {
        todo!()
    }

    /// Shuts down the sending side and leaves the other open.
    pub async fn half_close(&mut self) -> io::Result<()> {
        todo!()
    }

    /// Closes with a reset instead of an orderly end.
    pub fn reset(self) -> io::Result<()> {
        todo!()
    }
}

/// One request on a connection of its own.
pub async fn ask(target: SocketAddr, request: &Request) -> io::Result<Answer> {
    Client::connect(target).await?.ask(request).await
}

/// Where a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortAt {
    /// As soon as the connection exists, or while it is being made.
    Connecting,
    /// After half of the head.
    HalfHead,
    /// After the head; for a request with a body none of it is sent.
    Head,
    /// After half of the body.
    HalfBody,
    /// This long after the whole request.
    Waiting(Duration),
    /// After half of the answer's first bytes, or its end if it is that short.
    HalfAnswer,
}

/// Sends `request` on a connection of its own and closes that at `at`.
pub async fn abort(target: SocketAddr, request: &Request, at: AbortAt) -> io::Result<()> {
    let _ = (target, request, at);
    todo!()
}

/// Sends `request` and reads its answer at `bytes_per_second`, for `length` at most. Says how many
/// bytes it got.
pub async fn read_slowly(
    target: SocketAddr,
    request: &Request,
    bytes_per_second: u64,
    length: Duration,
) -> io::Result<u64> {
    let _ = (target, request, bytes_per_second, length);
    todo!()
}

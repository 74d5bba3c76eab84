//! Clients written by hand, one connection each, for tests of what clients may do: leave at any
//! point, read slowly, send half a request and nothing more.
//!
//! All are async so that thousands fit on one thread.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::Request;
use super::connection::Connection;

/// The pace of a slow reader: it reads a piece this often.
const SLOW_INTERVAL: Duration = Duration::from_millis(250);

/// Bytes of a segment that fits into an Ethernet frame.
const ETHERNET_MSS: u32 = 1460;

/// One connection to a server.
pub struct Client {
    connection: Connection,
    host: String,
    bodiless: bool,
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
        Ok(Self::of(Connection::open(target, None).await?, target))
    }

    /// Connects to `target` from the local address `source`.
    pub async fn connect_from(source: IpAddr, target: SocketAddr) -> io::Result<Self> {
        Ok(Self::of(
            Connection::open(target, Some(source)).await?,
            target,
        ))
    }

    /// Connects with a receive buffer of about `bytes` and segments as small as on an Ethernet, so
    /// that the server soon feels a slow reader: over the loopback's own segments of 64 KiB the
    /// system takes a whole page from the server, whatever the client does.
    pub async fn connect_narrow(target: SocketAddr, bytes: u32) -> io::Result<Self> {
        let socket = match target {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_recv_buffer_size(bytes)?;
        socket2::SockRef::from(&socket).set_tcp_mss(ETHERNET_MSS)?;
        Ok(Self::of(
            Connection::from_stream(socket.connect(target).await?),
            target,
        ))
    }

    /// Sends `bytes` as they are.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.connection.send(bytes).await
    }

    /// Sends `request` and reads the answer to its end.
    pub async fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        self.bodiless = request.method == Method::HEAD;
        let bytes = request.bytes(&self.host);
        // The server may answer before it has read everything, and then stop reading.
        let sent = self.connection.send(&bytes).await;
        match self.answer().await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(sent.err().unwrap_or(error)),
        }
    }

    /// Reads one answer to its end. The end of the stream before that is `UnexpectedEof`.
    pub async fn answer(&mut self) -> io::Result<Answer> {
        let (head, body) = self
            .connection
            .receive(std::mem::take(&mut self.bodiless))
            .await?;
        let status = StatusCode::from_u16(head.status).map_err(io::Error::other)?;
        Ok(Answer {
            status,
            headers: head.fields,
            body,
        })
    }

    /// Whether another request may be sent: nothing is waiting to be read, and the server has not
    /// closed.
    pub fn is_idle(&self) -> bool {
        self.connection.is_idle()
    }

    /// Waits until something comes, or the end; says how many bytes, and drops them.
    pub async fn read_some(&mut self) -> io::Result<usize> {
        let bytes = self.connection.read_some().await?;
        self.connection.take_read();
        Ok(bytes)
    }

    /// Waits until the server closes, dropping what it sends; says how many bytes those were.
    pub async fn wait_for_close(&mut self) -> io::Result<u64> {
        let mut sum = 0;
        loop {
            match self.read_some().await? {
                0 => return Ok(sum),
                bytes => sum += bytes as u64,
            }
        }
    }

    /// Shuts down the sending side and leaves the other open.
    pub fn half_close(&self) -> io::Result<()> {
        socket2::SockRef::from(self.stream()).shutdown(std::net::Shutdown::Write)
    }

    /// Closes with a reset instead of an orderly end.
    pub fn reset(self) -> io::Result<()> {
        socket2::SockRef::from(self.stream()).set_linger(Some(Duration::ZERO))
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        self.connection.stream()
    }

    fn of(connection: Connection, target: SocketAddr) -> Self {
        Self {
            connection,
            host: target.to_string(),
            bodiless: false,
        }
    }
}

/// One request on a connection of its own.
pub async fn ask(target: SocketAddr, request: &Request) -> io::Result<Answer> {
    Client::connect(target).await?.ask(request).await
}

/// Where a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortAt {
    /// As soon as the connection exists.
    Connected,
    /// After half of the head.
    HalfHead,
    /// After the head; for a request with a body none of it is sent.
    Head,
    /// After half of the body.
    HalfBody,
    /// This long after the whole request.
    Waiting(Duration),
    /// As soon as some of the answer is there.
    Answering,
}

/// Sends `request` on a connection of its own and closes that at `at`.
pub async fn abort(target: SocketAddr, request: &Request, at: AbortAt) -> io::Result<()> {
    let mut client = Client::connect(target).await?;
    let head = request.head(&client.host);
    match at {
        AbortAt::Connected => {}
        AbortAt::HalfHead => client.send(&head[..head.len() / 2]).await?,
        AbortAt::Head => client.send(&head).await?,
        AbortAt::HalfBody => {
            client.send(&head).await?;
            client.send(&request.body[..request.body.len() / 2]).await?;
        }
        AbortAt::Waiting(pause) => {
            client.send(&request.bytes(&client.host)).await?;
            sleep(pause).await;
        }
        AbortAt::Answering => {
            client.send(&request.bytes(&client.host)).await?;
            client.read_some().await?;
        }
    }
    Ok(())
}

/// Sends `request` and reads its answer at `bytes_per_second`, for `length` at most or until the
/// server closes. Says how many bytes it got.
pub async fn read_slowly(
    target: SocketAddr,
    request: &Request,
    bytes_per_second: u32,
    length: Duration,
) -> io::Result<u64> {
    let mut client = Client::connect_narrow(target, bytes_per_second).await?;
    client.send(&request.bytes(&client.host)).await?;
    let until = Instant::now() + length;
    let mut next = Instant::now();
    let per_interval = f64::from(bytes_per_second) * SLOW_INTERVAL.as_secs_f64();
    let mut piece = vec![0; (per_interval as usize).max(1)];
    let mut sum = 0;
    while next < until {
        sleep_until(next).await;
        let Ok(readable) = timeout_at(until, client.stream().readable()).await else {
            break;
        };
        readable?;
        match client.stream().try_read(&mut piece) {
            Ok(0) => break,
            Ok(bytes) => sum += bytes as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        next += SLOW_INTERVAL;
    }
    Ok(sum)
}

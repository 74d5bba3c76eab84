//! A client connection that carries one exchange after the other.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::Interest;
use tokio::net::{TcpSocket, TcpStream};

use super::answer::{Head, Malformed, Parser};

/// Bytes read at a time.
const READ_BYTES: usize = 8 * 1024;
/// Local ports tried for one connection.
const PORTS_TRIED: u32 = 16;

/// An open connection.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer, all of which has been read.
pub(super) struct Received {
    pub(super) head: Head,
    /// Whether the connection can carry another exchange.
    pub(super) reusable: bool,
}

/// There was no whole answer.
#[derive(Debug)]
pub(super) struct Lost {
    /// Nothing at all came, so the server may have closed an idle connection at that moment.
    pub(super) silent: bool,
}

impl Connection {
    pub(super) async fn open(target: SocketAddr, source: Option<IpAddr>) -> io::Result<Self> {
        let stream = match source {
            None => TcpStream::connect(target).await?,
            Some(source) => connect_from(source, target).await?,
        };
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
        })
    }

    /// Whether an idle connection can still be used: nothing came and it was not closed.
    pub(super) fn is_idle(&self) -> bool {
        let waiting = self.stream.try_read(&mut [0]);
        matches!(waiting, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends `request` and reads the answer to its end, dropping its body.
    pub(super) async fn exchange(
        &mut self,
        request: &[u8],
        bodiless: bool,
    ) -> Result<Received, Lost> {
        let mut parser = Parser::new(bodiless);
        let mut sent = 0;
        let mut silent = true;
        while !parser.is_done() {
            // The answer may come before the request has been sent, and may be all that comes.
            if sent < request.len() {
                match self.stream.try_write(&request[sent..]) {
                    Ok(bytes) => sent += bytes,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // The server takes no more; it may have said why.
                    Err(_) => sent = request.len(),
                }
            }
            let interest = match sent < request.len() {
                true => Interest::READABLE | Interest::WRITABLE,
                false => Interest::READABLE,
            };
            let ready = self
                .stream
                .ready(interest)
                .await
                .map_err(|_| Lost { silent })?;
            if !ready.is_readable() {
                continue;
            }
            match self.read() {
                Ok(0) if parser.end() => {}
                Ok(0) => return Err(Lost { silent }),
                Ok(_) => {
                    silent = false;
                    let taken = parser
                        .feed(&self.buffer, |_| {})
                        .map_err(|Malformed| Lost { silent })?;
                    self.buffer.drain(..taken);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(Lost { silent }),
            }
        }
        let left_over = !self.buffer.is_empty();
        let head = parser
            .into_head()
            .expect("a parser that is done has a head");
        let reusable = !head.closes && !left_over && sent == request.len();
        Ok(Received { head, reusable })
    }

    /// Sends all of `bytes`.
    pub(super) async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.writable().await?;
            match self.stream.try_write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads an answer to its end and keeps all of it.
    pub(super) async fn receive(&mut self, bodiless: bool) -> io::Result<(Head, Vec<u8>)> {
        let mut parser = Parser::keeping_fields(bodiless);
        let mut body = Vec::new();
        loop {
            let taken = parser
                .feed(&self.buffer, |piece| body.extend_from_slice(piece))
                .map_err(io::Error::other)?;
            self.buffer.drain(..taken);
            if !parser.is_done() && self.read_some().await? == 0 && !parser.end() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if parser.is_done() {
                let head = parser
                    .into_head()
                    .expect("a parser that is done has a head");
                return Ok((head, body));
            }
        }
    }

    /// Reads what is there, or waits for something; 0 is the end.
    pub(super) async fn read_some(&mut self) -> io::Result<usize> {
        loop {
            self.stream.readable().await?;
            match self.read() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    /// What was read and not yet used; the caller takes it away.
    pub(super) fn take_read(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn from_stream(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    fn read(&mut self) -> io::Result<usize> {
        self.buffer.reserve(READ_BYTES);
        self.stream.try_read_buf(&mut self.buffer)
    }
}

/// Connects from a port of `source` that the kernel picks before it knows where to, so that it may
/// pick one whose last connection to `target` has only just ended. That is no fault of the server.
async fn connect_from(source: IpAddr, target: SocketAddr) -> io::Result<TcpStream> {
    let mut tries = 1;
    loop {
        let socket = match target {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::new(source, 0))?;
        match socket.connect(target).await {
            Err(error)
                if error.kind() == io::ErrorKind::AddrNotAvailable && tries < PORTS_TRIED =>
            {
                tries += 1;
            }
            other => return other,
        }
    }
}

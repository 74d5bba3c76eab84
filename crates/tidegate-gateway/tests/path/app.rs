//! An application that the test plays itself, byte by byte.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::within;

/// A listening application.
pub(crate) struct App {
    listener: TcpListener,
}

/// A connection to it, with the head of a request that was read.
pub(crate) struct Call {
    pub(crate) head: String,
    stream: TcpStream,
    unread: Vec<u8>,
}

impl App {
    pub(crate) async fn open() -> Self {
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// The next connection and the request on it.
    pub(crate) async fn call(&self) -> Call {
        let (stream, _) = within(self.listener.accept()).await.unwrap();
        let call = Call {
            head: String::new(),
            stream,
            unread: Vec::new(),
        };
        call.again()
            .await
            .expect("a connection comes with a request")
    }
}

impl Call {
    /// The next request on the same connection; `None` when it is closed instead.
    pub(crate) async fn again(mut self) -> Option<Self> {
        loop {
            if let Some(end) = self.unread.windows(4).position(|end| end == b"\r\n\r\n") {
                let rest = self.unread.split_off(end + 4);
                let head = std::mem::replace(&mut self.unread, rest);
                self.head = String::from_utf8(head).unwrap();
                return Some(self);
            }
            if !self.read_more().await {
                assert!(self.unread.is_empty(), "half a head: {:?}", self.unread);
                return None;
            }
        }
    }

    /// The value of a header of the request.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            (key == name).then_some(value)
        })
    }

    /// Reads the request's body until it holds `end`.
    pub(crate) async fn read_until(&mut self, end: &str) -> String {
        while !self
            .unread
            .windows(end.len())
            .any(|window| window == end.as_bytes())
        {
            assert!(self.read_more().await, "the request ends before {end:?}");
        }
        String::from_utf8(std::mem::take(&mut self.unread)).unwrap()
    }

    /// Whether the other side closes the connection, whatever it sends before.
    pub(crate) async fn is_closed(&mut self) -> bool {
        while self.read_more().await {}
        true
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        within(self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Writes what the other side takes; it may close meanwhile.
    pub(crate) async fn try_write(&mut self, bytes: &[u8]) -> bool {
        within(self.stream.write_all(bytes)).await.is_ok()
    }

    /// Answers with a text.
    pub(crate) async fn answer(&mut self, text: &str) {
        let length = text.len();
        self.write(format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{text}"
        ))
        .await;
    }

    async fn read_more(&mut self) -> bool {
        let mut chunk = [0; 16 * 1024];
        // A reset is an end as well.
        let read = within(self.stream.read(&mut chunk)).await.unwrap_or(0);
        self.unread.extend_from_slice(&chunk[..read]);
        read > 0
    }
}

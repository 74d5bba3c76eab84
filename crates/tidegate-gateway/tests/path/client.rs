//! A client that the test plays itself, byte by byte.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::within;

/// A connection to the gateway.
pub(crate) struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// An answer that was read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = within(TcpStream::connect(address)).await.unwrap();
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    /// A client whose system takes little before the client itself reads.
    pub(crate) async fn connect_narrow(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = within(socket.connect(address)).await.unwrap();
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        within(self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Writes until the other side will not have any more, which it has to say before the end.
    pub(crate) async fn write_until_closed(&mut self, bytes: impl AsRef<[u8]>) {
        within(self.stream.write_all(bytes.as_ref()))
            .await
            .unwrap_err();
    }

    /// Asks for a path.
    pub(crate) async fn get(&mut self, path: &str) {
        self.write(format!("GET {path} HTTP/1.1\r\nhost: shop\r\n\r\n"))
            .await;
    }

    /// Asks for a path with more headers, each with its line end.
    pub(crate) async fn get_with(&mut self, path: &str, headers: &str) {
        self.write(format!(
            "GET {path} HTTP/1.1\r\nhost: shop\r\n{headers}\r\n"
        ))
        .await;
    }

    /// Reads a head.
    pub(crate) async fn read_head(&mut self) -> String {
        loop {
            if let Some(end) = self.unread.windows(4).position(|end| end == b"\r\n\r\n") {
                let rest = self.unread.split_off(end + 4);
                return String::from_utf8(std::mem::replace(&mut self.unread, rest)).unwrap();
            }
            assert!(self.read_more().await, "no head: {:?}", self.unread);
        }
    }

    /// Reads an answer that says its length, or has none.
    pub(crate) async fn read(&mut self) -> Answer {
        let head = self.read_head().await;
        let length = header(&head, "content-length").map_or(0, |text| text.parse().unwrap());
        let body = self.read_bytes(length).await;
        Answer { head, body }
    }

    pub(crate) async fn read_bytes(&mut self, length: usize) -> Vec<u8> {
        while self.unread.len() < length {
            assert!(
                self.read_more().await,
                "ends after {} bytes",
                self.unread.len()
            );
        }
        let rest = self.unread.split_off(length);
        std::mem::replace(&mut self.unread, rest)
    }

    /// Reads until what was read ends with `end`.
    pub(crate) async fn read_until(&mut self, end: &str) -> String {
        while !self.unread.ends_with(end.as_bytes()) {
            assert!(
                self.read_more().await,
                "ends before {end:?}: {:?}",
                self.unread
            );
        }
        String::from_utf8(std::mem::take(&mut self.unread)).unwrap()
    }

    /// Reads until the connection is closed.
    pub(crate) async fn read_rest(&mut self) -> Vec<u8> {
        while self.read_more().await {}
        std::mem::take(&mut self.unread)
    }

    async fn read_more(&mut self) -> bool {
        let mut chunk = [0; 16 * 1024];
        // A reset is an end as well.
        let read = within(self.stream.read(&mut chunk)).await.unwrap_or(0);
        self.unread.extend_from_slice(&chunk[..read]);
        read > 0
    }
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(": ")?;
        (key == name).then_some(value)
    })
}

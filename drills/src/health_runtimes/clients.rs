//! Clients that send one request each and wait.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use super::servers::At;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connections whose requests are under way.
pub(crate) struct Clients {
    ends: Vec<Stream>,
    readers: Vec<JoinHandle<()>>,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Clients {
    /// `count` of them ask for `path`.
    pub(crate) fn http(address: SocketAddr, path: &str, count: usize) -> anyhow::Result<Self> {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        Self::send(&At::Tcp(address), request.as_bytes(), count)
    }

    /// `count` of them ask PHP-FPM to run `script` for `slow`.
    pub(super) fn fast_cgi(
        at: &At,
        script: &str,
        slow: Duration,
        count: usize,
    ) -> anyhow::Result<Self> {
        let query = format!("ms={}", slow.as_millis());
        let parameters = [
            ("SCRIPT_FILENAME", script),
            ("REQUEST_METHOD", "GET"),
            ("QUERY_STRING", &query),
        ];
        Self::send(at, &fast_cgi(&parameters), count)
    }

    fn send(at: &At, request: &[u8], count: usize) -> anyhow::Result<Self> {
        let mut clients = Self {
            ends: Vec::new(),
            readers: Vec::new(),
        };
        for _ in 0..count {
            let (mut stream, end) = connect(at)?;
            stream.write_all(request)?;
            clients.ends.push(end);
            clients.readers.push(std::thread::spawn(move || {
                // What comes is of no interest; that nothing does is no reason to stay.
                let _ = stream.read_to_end(&mut Vec::new());
            }));
        }
        Ok(clients)
    }

    /// They leave.
    pub(crate) fn stop(self) {
        for end in &self.ends {
            let _ = match end {
                Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
                Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
            };
        }
        for reader in self.readers {
            let _ = reader.join();
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buffer),
            Self::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A connection, and a hold on it for whoever wants to end it.
fn connect(at: &At) -> anyhow::Result<(Stream, Stream)> {
    Ok(match at {
        At::Tcp(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            (Stream::Tcp(stream.try_clone()?), Stream::Tcp(stream))
        }
        At::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            (Stream::Unix(stream.try_clone()?), Stream::Unix(stream))
        }
    })
}

/// What PHP-FPM's own status says at `address`.
pub(super) fn fpm_status(address: SocketAddr) -> anyhow::Result<Value> {
    let path = "/status";
    let parameters = [
        ("SCRIPT_NAME", path),
        ("SCRIPT_FILENAME", path),
        ("REQUEST_METHOD", "GET"),
        ("QUERY_STRING", "json"),
    ];
    let (mut stream, _) = connect(&At::Tcp(address))?;
    stream.write_all(&fast_cgi(&parameters))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let (begin, end) = text
        .find('{')
        .zip(text.rfind('}'))
        .context("PHP-FPM tells no status")?;
    Ok(serde_json::from_str(&text[begin..=end])?)
}

/// One request without a body, which ends the connection.
fn fast_cgi(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut content = Vec::new();
    for (name, value) in parameters {
        content.push(name.len() as u8);
        // Paths here are short, and so is everything else.
        content.extend((value.len() as u32 | 1 << 31).to_be_bytes());
        content.extend(name.bytes().chain(value.bytes()));
    }
    let mut bytes = Vec::new();
    let begin = [0, 1, 0, 0, 0, 0, 0, 0];
    for (kind, content) in [(1, &begin[..]), (4, &content), (4, &[]), (5, &[])] {
        let [high, low] = (content.len() as u16).to_be_bytes();
        bytes.extend([1, kind, 0, 1, high, low, 0, 0]);
        bytes.extend(content);
    }
    bytes
}

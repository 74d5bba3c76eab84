//! A plain HTTP/1.1 client: one request on a connection, the answer read to its end.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::process::PATIENCE;

/// An answer, its body without its chunks.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case, in the order they came.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The value of the header `name`, given in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A GET of `path`.
pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, "GET", path, &[], b"")
}

/// Any request; one with a body says how long that is.
pub(crate) fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut head = head(method, path, headers);
    if !body.is_empty() {
        head += &format!("content-length: {}\r\n", body.len());
    }
    let mut stream = connect(address);
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    read_answer(&mut BufReader::new(stream), method)
}

/// A connection on which nothing waits for ever.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The head of a request that ends its connection, without its last, empty line.
pub(crate) fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: app.test\r\nconnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head
}

/// The answer to a request with `method`.
pub(crate) fn read_answer(stream: &mut impl BufRead, method: &str) -> Answer {
    let (status, headers) = read_head(stream);
    let mut answer = Answer {
        status,
        headers,
        body: Vec::new(),
    };
    if method == "HEAD" || status == 304 || status == 204 {
        return answer;
    }
    if answer.header("transfer-encoding") == Some("chunked") {
        while let Some(mut chunk) = read_chunk(stream) {
            answer.body.append(&mut chunk);
        }
    } else if let Some(length) = answer.header("content-length") {
        answer.body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut answer.body).unwrap();
    } else {
        stream.read_to_end(&mut answer.body).unwrap();
    }
    answer
}

/// The status and the headers of an answer.
pub(crate) fn read_head(stream: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let status_line = read_line(stream);
    let status = status_line
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no status line: {status_line:?}"));
    let mut headers = Vec::new();
    loop {
        let line = read_line(stream);
        let Some((name, value)) = line.split_once(':') else {
            return (status, headers);
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// The next chunk; `None` after the last, whose trailers are read and dropped.
pub(crate) fn read_chunk(stream: &mut impl BufRead) -> Option<Vec<u8>> {
    let size = usize::from_str_radix(&read_line(stream), 16).expect("a chunk begins with its size");
    if size == 0 {
        while !read_line(stream).is_empty() {}
        return None;
    }
    let mut chunk = vec![0; size];
    stream.read_exact(&mut chunk).unwrap();
    assert_eq!(read_line(stream), "");
    Some(chunk)
}

pub(crate) fn read_line(stream: &mut impl BufRead) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Asks what listens at `socket` on this machine, with JSON.
pub(crate) fn ask_socket(socket: &Path, method: &str, path: &str, body: &str) -> Answer {
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    read_answer(&mut BufReader::new(stream), method)
}

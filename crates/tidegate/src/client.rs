//! One request to a part of Tidegate that runs on this machine.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tidegate_fleet::Listen;

/// A list of ten thousand sessions is shorter.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes that are read at once.
const PART_BYTES: usize = 16 * 1024;
/// Longest wait for an answer, where nobody is in a hurry: more than any of them may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Sends a request to `whom`, a sidecar or a gateway, and reads the answer: within `patience`, from the connection to the last byte.
pub(crate) fn ask(
    patience: Duration,
    whom: &str,
    to: &Listen,
    method: &str,
    path: &str,
    body: Option<&str>,
) -> anyhow::Result<Answer> {
    let until = Instant::now() + patience;
    let body = body.unwrap_or_default();
    let kind = if body.is_empty() {
        ""
    } else {
        "Content-Type: application/json\r\n"
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n{kind}\r\n{body}",
        body.len()
    );
    let cannot = || format!("no {whom} answers on {to}");
    match to {
        Listen::Socket(path) => {
            let stream = UnixStream::connect(path).with_context(cannot)?;
            let wait = |left| stream.set_read_timeout(Some(left));
            exchange(whom, &stream, wait, until, &request)
        }
        Listen::Loopback(address) => {
            let stream = TcpStream::connect_timeout(address, patience).with_context(cannot)?;
            let wait = |left| stream.set_read_timeout(Some(left));
            exchange(whom, &stream, wait, until, &request)
        }
    }
}

/// Sends `request`, which fits into any socket's buffer, and reads until the other side closes. `wait` sets how long one
/// reading may take.
fn exchange(
    whom: &str,
    mut stream: impl Read + Write,
    wait: impl Fn(Duration) -> io::Result<()>,
    until: Instant,
    request: &str,
) -> anyhow::Result<Answer> {
    stream.write_all(request.as_bytes())?;
    let (mut bytes, mut part) = (Vec::new(), vec![0; PART_BYTES]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        ensure!(!left.is_zero(), "the {whom} does not answer in time");
        wait(left)?;
        match stream.read(&mut part) {
            Ok(0) => return parse(whom, &bytes),
            Ok(read) => bytes.extend_from_slice(&part[..read]),
            // Time is up, which the next round says.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).with_context(|| format!("the {whom} does not answer")),
        }
        ensure!(
            bytes.len() <= ANSWER_BYTES_MAX,
            "the {whom}'s answer has no end"
        );
    }
}

fn parse(whom: &str, bytes: &[u8]) -> anyhow::Result<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let Some(end) = end else {
        bail!("what answers is no {whom}: it speaks no HTTP");
    };
    let head = String::from_utf8_lossy(&bytes[..end]);
    let status = head
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    let status = status.and_then(|status| status.parse().ok());
    Ok(Answer {
        status: status
            .with_context(|| format!("what answers is no {whom}: it speaks no HTTP/1.1"))?,
        body: bytes[end + 4..].to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_status_and_what_follows_the_head() {
        let answer = parse("sidecar", b"HTTP/1.1 404 Not Found\r\na: b\r\n\r\n{}\n").unwrap();

        assert_eq!((answer.status, answer.body.as_slice()), (404, &b"{}\n"[..]));
        assert!(parse("sidecar", b"SSH-2.0-x\r\n").is_err());
        assert!(parse("sidecar", b"").is_err());
    }

    #[test]
    fn who_answers_a_byte_now_and_then_is_waited_for_no_longer_than_who_says_nothing() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = Listen::Loopback(listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Until the other side has gone.
            while stream.write_all(b"x").is_ok() {
                std::thread::park_timeout(Duration::from_millis(5));
            }
        });
        let (begun, patience) = (Instant::now(), Duration::from_millis(100));

        let answer = ask(patience, "sidecar", &to, "GET", "/", None);

        let error = answer.err().unwrap().to_string();
        assert_eq!(error, "the sidecar does not answer in time");
        assert!(begun.elapsed() >= patience);
    }
}

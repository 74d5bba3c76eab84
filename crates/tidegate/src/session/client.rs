//! One request to a sidecar.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tidegate_fleet::Listen;

/// A list of ten thousand sessions is shorter.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Longest silence: more than a sidecar may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// An answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// Sends a request and reads the answer.
pub(super) fn ask(
    to: &Listen,
    method: &str,
    path: &str,
    body: Option<&str>,
) -> anyhow::Result<Answer> {
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
    let cannot = || format!("no sidecar answers on {to}");
    match to {
        Listen::Socket(path) => {
            let stream = UnixStream::connect(path).with_context(cannot)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            exchange(stream, &request)
        }
        Listen::Loopback(address) => {
            let stream = TcpStream::connect(address).with_context(cannot)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            exchange(stream, &request)
        }
    }
}

fn exchange(mut stream: impl Read + Write, request: &str) -> anyhow::Result<Answer> {
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream
        .take(ANSWER_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .context("the sidecar does not answer")?;
    ensure!(
        bytes.len() as u64 <= ANSWER_BYTES_MAX,
        "the sidecar's answer has no end"
    );
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> anyhow::Result<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let Some(end) = end else {
        bail!("what answers is no sidecar: it speaks no HTTP");
    };
    let head = String::from_utf8_lossy(&bytes[..end]);
    let status = head
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    let status = status.and_then(|status| status.parse().ok());
    Ok(Answer {
        status: status.context("what answers is no sidecar: it speaks no HTTP/1.1")?,
        body: bytes[end + 4..].to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_status_and_what_follows_the_head() {
        let answer = parse(b"HTTP/1.1 404 Not Found\r\na: b\r\n\r\n{}\n").unwrap();

        assert_eq!((answer.status, answer.body.as_slice()), (404, &b"{}\n"[..]));
        assert!(parse(b"SSH-2.0-x\r\n").is_err());
        assert!(parse(b"").is_err());
    }
}

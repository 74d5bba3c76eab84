//! One request to a part of Tidegate that runs on this machine.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tidegate_fleet::Listen;

/// A list of ten thousand sessions is shorter.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Longest silence: more than any of them may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Sends a request to `whom`, a sidecar or a gateway, and reads the answer.
pub(crate) fn ask(
    whom: &str,
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
    let cannot = || format!("no {whom} answers on {to}");
    match to {
        Listen::Socket(path) => {
            let stream = UnixStream::connect(path).with_context(cannot)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            exchange(whom, stream, &request)
        }
        Listen::Loopback(address) => {
            let stream = TcpStream::connect(address).with_context(cannot)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            exchange(whom, stream, &request)
        }
    }
}

fn exchange(whom: &str, mut stream: impl Read + Write, request: &str) -> anyhow::Result<Answer> {
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream
        .take(ANSWER_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("the {whom} does not answer"))?;
    ensure!(
        bytes.len() as u64 <= ANSWER_BYTES_MAX,
        "the {whom}'s answer has no end"
    );
    parse(whom, &bytes)
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
}

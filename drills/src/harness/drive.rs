//! A client that costs little itself: the same request on a few kept connections, at a rate or as
//! fast as they are answered.
//!
//! Not the lab's generator, because that one waits after a failure, and here a refusal is as good
//! an answer as any other: only its cost is wanted.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tidegate_lab::measure;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

/// Longest wait for one answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Most bytes of one answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Header fields that an answer may have.
const FIELDS_MAX: usize = 32;

/// The same request again and again.
#[derive(Clone, Debug)]
pub(crate) struct Drive {
    /// The server.
    pub(crate) target: SocketAddr,
    /// The request, head and body.
    pub(crate) request: Vec<u8>,
    /// Connections, each with one request at a time.
    pub(crate) connections: u32,
    /// Requests per second over all connections; `None` for as many as are answered.
    pub(crate) rate: Option<f64>,
    /// For how long.
    pub(crate) length: Duration,
    /// The core that the client keeps to; `None` for any.
    pub(crate) core: Option<usize>,
}

/// What a [`Drive`] got.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Driven {
    /// Answers 2xx.
    pub(crate) good: u64,
    /// Answers 503.
    pub(crate) refused: u64,
}

impl Drive {
    /// Plays it to its end. An answer of another status, or none, is an error.
    pub(crate) fn play(&self) -> anyhow::Result<Driven> {
        let drive = self.clone();
        let thread = std::thread::Builder::new()
            .name("drive".to_owned())
            .spawn(move || {
                if let Some(core) = drive.core {
                    measure::pin_thread(core)?;
                }
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(drive.ask_on_all())
            })?;
        match thread.join() {
            Ok(driven) => driven,
            Err(_) => bail!("the client panicked"),
        }
    }

    /// Asks for `path` exactly `times` times, one after the other on one connection, and says how often it was answered 2xx.
    /// An answer of another status, or none, is an error.
    pub(crate) fn times(target: SocketAddr, path: &str, times: u64) -> anyhow::Result<u64> {
        let runtime = super::runtime()?;
        runtime.block_on(async {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {target}\r\n\r\n");
            let mut stream = TcpStream::connect(target).await?;
            stream.set_nodelay(true)?;
            let mut buffer = Vec::with_capacity(ANSWER_BYTES_MAX);
            for _ in 0..times {
                stream.write_all(request.as_bytes()).await?;
                let answer = answer(&mut stream, &mut buffer);
                match timeout(ANSWER_TIME_MAX, answer)
                    .await
                    .context("no answer")??
                {
                    200..=299 => {}
                    other => bail!("an answer with status {other}"),
                }
            }
            Ok(times)
        })
    }

    async fn ask_on_all(self) -> anyhow::Result<Driven> {
        let mut streams = Vec::new();
        for _ in 0..self.connections {
            let stream = TcpStream::connect(self.target).await?;
            stream.set_nodelay(true)?;
            streams.push(stream);
        }

        let begin = Instant::now();
        let mut clients = JoinSet::new();
        for (stream, number) in streams.into_iter().zip(0..) {
            clients.spawn(ask_on(self.clone(), stream, number, begin));
        }
        let mut sum = Driven::default();
        while let Some(client) = clients.join_next().await {
            let driven = client.context("a client panicked")??;
            sum.good += driven.good;
            sum.refused += driven.refused;
        }
        Ok(sum)
    }
}

async fn ask_on(
    drive: Drive,
    mut stream: TcpStream,
    number: u32,
    begin: Instant,
) -> anyhow::Result<Driven> {
    let until = begin + drive.length;
    let mut ticks = drive.rate.map(|rate| {
        let gap = Duration::from_secs_f64(f64::from(drive.connections) / rate);
        // One connection after the other, not all at once.
        let first = begin + gap.mul_f64(f64::from(number) / f64::from(drive.connections));
        let mut ticks = interval_at(first, gap);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ticks
    });

    let mut driven = Driven::default();
    let mut buffer = Vec::with_capacity(ANSWER_BYTES_MAX);
    loop {
        if let Some(ticks) = &mut ticks {
            ticks.tick().await;
        }
        if Instant::now() >= until {
            return Ok(driven);
        }
        stream.write_all(&drive.request).await?;
        let answer = answer(&mut stream, &mut buffer);
        match timeout(ANSWER_TIME_MAX, answer)
            .await
            .context("no answer")??
        {
            200..=299 => driven.good += 1,
            503 => driven.refused += 1,
            other => bail!("an answer with status {other}"),
        }
    }
}

/// Reads one answer to its end and says its status.
async fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> anyhow::Result<u16> {
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await? == 0 {
            bail!("the connection was closed");
        }
        if let Some((status, bytes)) = head(buffer)? {
            if bytes > ANSWER_BYTES_MAX {
                bail!("an answer of {bytes} bytes");
            }
            while buffer.len() < bytes {
                if stream.read_buf(buffer).await? == 0 {
                    bail!("the answer broke off");
                }
            }
            return Ok(status);
        }
    }
}

/// Status and length, head included, of the answer that `bytes` begin with, if its head is whole.
fn head(bytes: &[u8]) -> anyhow::Result<Option<(u16, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(head) = response.parse(bytes)? else {
        return Ok(None);
    };
    let status = response.code.context("an answer has a status")?;
    let length = response
        .headers
        .iter()
        .find(|field| field.name.eq_ignore_ascii_case("content-length"))
        .context("an answer without Content-Length")?;
    let body: usize = std::str::from_utf8(length.value)?.trim().parse()?;
    Ok(Some((status, head + body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_an_answer_is_known_once_its_head_is_whole() {
        let bytes = b"HTTP/1.1 503 No\r\nServer: x\r\ncontent-length: 2\r\n\r\nno";

        assert_eq!(head(&bytes[..40]).unwrap(), None);
        assert_eq!(head(bytes).unwrap(), Some((503, bytes.len())));
    }
}

//! Far more requests than modelled visitors could make: raw ones, on some kept connections, each different.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tidegate_lab::measure;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// Longest wait for one answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Header fields that an answer may have.
const FIELDS_MAX: usize = 48;

/// Who sends them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Many {
    /// The server.
    pub(crate) target: SocketAddr,
    /// Connections, each with one request at a time.
    pub(crate) connections: usize,
    /// How many requests.
    pub(crate) count: u64,
    /// For how long at most.
    pub(crate) length: Duration,
    /// The core that the client keeps to; `None` for any.
    pub(crate) core: Option<usize>,
}

/// What came back.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Answers 2xx.
    pub(crate) good: u64,
    /// All others.
    pub(crate) other: u64,
    /// From the first byte sent to the last one received.
    pub(crate) took: Duration,
    /// For each good answer, in no order, the cookie that it sets and whose name has the wanted text in it.
    pub(crate) cookies: Vec<String>,
}

impl Many {
    /// Sends them; `make` writes the request with a number, and of the answers cookies are kept with `wanted` in their names.
    pub(crate) fn play(
        self,
        make: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static,
        wanted: &'static str,
    ) -> anyhow::Result<Heard> {
        let thread = std::thread::Builder::new()
            .name("many".to_owned())
            .spawn(move || {
                if let Some(core) = self.core {
                    measure::pin_thread(core)?;
                }
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(self.ask_on_all(Arc::new(make), wanted))
            })?;
        match thread.join() {
            Ok(heard) => heard,
            Err(_) => bail!("the client panicked"),
        }
    }

    async fn ask_on_all(
        self,
        make: Arc<impl Fn(u64) -> Vec<u8> + Send + Sync + 'static>,
        wanted: &'static str,
    ) -> anyhow::Result<Heard> {
        let mut streams = Vec::new();
        for _ in 0..self.connections {
            let stream = TcpStream::connect(self.target).await?;
            stream.set_nodelay(true)?;
            streams.push(stream);
        }
        let (next, begun) = (Arc::new(AtomicU64::new(0)), Instant::now());
        let mut clients = JoinSet::new();
        for stream in streams {
            let (make, next) = (Arc::clone(&make), Arc::clone(&next));
            clients.spawn(async move {
                let mut one = One::of(stream, wanted);
                while begun.elapsed() < self.length {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= self.count {
                        break;
                    }
                    let request = make(number);
                    let asked = timeout(ANSWER_TIME_MAX, one.ask(&request));
                    asked.await.context("no answer")??;
                }
                anyhow::Ok(one.heard)
            });
        }
        let mut all = Heard::default();
        while let Some(client) = clients.join_next().await {
            let heard = client.context("a client panicked")??;
            all.good += heard.good;
            all.other += heard.other;
            all.cookies.extend(heard.cookies);
        }
        all.took = begun.elapsed();
        Ok(all)
    }
}

/// One connection.
struct One {
    stream: TcpStream,
    buffer: Vec<u8>,
    wanted: &'static str,
    heard: Heard,
}

/// What is read of an answer's head.
struct Head {
    status: u16,
    /// Bytes of head and body.
    length: usize,
    cookie: Option<String>,
}

impl One {
    fn of(stream: TcpStream, wanted: &'static str) -> Self {
        Self {
            stream,
            buffer: Vec::with_capacity(4_096),
            wanted,
            heard: Heard::default(),
        }
    }

    async fn ask(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the connection was closed");
            }
            let Some(head) = head(&self.buffer, self.wanted)? else {
                continue;
            };
            while self.buffer.len() < head.length {
                if self.stream.read_buf(&mut self.buffer).await? == 0 {
                    bail!("the answer broke off");
                }
            }
            if (200..300).contains(&head.status) {
                self.heard.good += 1;
                self.heard.cookies.extend(head.cookie);
            } else {
                self.heard.other += 1;
            }
            return Ok(());
        }
    }
}

/// The head of the answer that `bytes` begin with, if it is whole.
fn head(bytes: &[u8], wanted: &str) -> anyhow::Result<Option<Head>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(end) = response.parse(bytes)? else {
        return Ok(None);
    };
    let status = response.code.context("an answer has a status")?;
    let (mut body, mut cookie) = (None, None);
    for field in response.headers.iter() {
        let value = str::from_utf8(field.value).unwrap_or_default().trim();
        if field.name.eq_ignore_ascii_case("content-length") {
            body = Some(value.parse::<usize>()?);
        } else if field.name.eq_ignore_ascii_case("set-cookie") {
            let pair = value.split(';').next().unwrap_or_default();
            if pair
                .split('=')
                .next()
                .is_some_and(|name| name.contains(wanted))
            {
                cookie = Some(pair.to_owned());
            }
        }
    }
    Ok(Some(Head {
        status,
        length: end + body.context("an answer without Content-Length")?,
        cookie,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_answer_its_length_and_one_cookie_are_read() {
        let text = b"HTTP/1.1 200 OK\r\nset-cookie: a=1; Path=/\r\nSet-Cookie: __Host-tgq-shop=abc; Path=/\r\n\
            content-length: 2\r\n\r\n{}";

        assert!(head(&text[..40], "tgq-").unwrap().is_none());
        let head = head(text, "tgq-").unwrap().unwrap();

        assert_eq!((head.status, head.length), (200, text.len()));
        assert_eq!(head.cookie.as_deref(), Some("__Host-tgq-shop=abc"));
    }
}

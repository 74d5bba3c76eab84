//! A signed `POST` for each event.
//!
//! What is sent goes over plain HTTP/1.1, one connection each: there are few of them, and whoever needs TLS has a proxy that
//! speaks it. The upstream part of the gateway is made for requests of visitors and for answers of any length; here a status
//! is all that is read.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::chain::hexadecimal;
use super::{Counts, count};
use crate::room::hall::WebhookPlan;
use crate::room::keys::{mac, tag};

/// What carries the signature.
const SIGNATURE: &str = "Tidegate-Signature";
/// Events that wait for one receiver. Another one is lost.
pub(super) const LETTERS_MAX: usize = 256;
/// How long one try may take, from looking the name up to the status.
const TRY_WITHIN: Duration = Duration::from_secs(5);
/// How long is waited before each other try.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// An answer whose first line is longer is none.
const STATUS_BYTES_MAX: usize = 512;

/// Sends events to one receiver, one after the other.
pub(super) struct Hook {
    plan: WebhookPlan,
    letters: mpsc::Receiver<Arc<str>>,
    counts: Arc<Counts>,
    pauses: [Duration; 2],
}

impl Hook {
    /// One that sends what comes from `letters` as `plan` says.
    pub(super) fn new(
        plan: WebhookPlan,
        letters: mpsc::Receiver<Arc<str>>,
        counts: Arc<Counts>,
    ) -> Self {
        Self {
            plan,
            letters,
            counts,
            pauses: PAUSES,
        }
    }

    /// Until nobody can send anything any more.
    pub(super) async fn run(mut self) {
        while let Some(letter) = self.letters.recv().await {
            self.deliver(&letter).await;
        }
    }

    async fn deliver(&self, letter: &str) {
        let mut pauses = self.pauses.iter();
        loop {
            let tried = timeout(TRY_WITHIN, self.post(letter, now_s())).await;
            let why = match tried {
                Ok(Ok(200..=299)) => return count(&self.counts.sent),
                Ok(Ok(status)) => format!("it answers {status}"),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it does not answer in time".to_owned(),
            };
            let Some(pause) = pauses.next() else {
                let (host, port) = (self.plan.host.as_str(), self.plan.port);
                warn!(host, port, why, "a webhook did not take an event");
                return count(&self.counts.failed);
            };
            sleep(*pause).await;
        }
    }

    /// The status of the answer to `letter`, signed at this second.
    async fn post(&self, letter: &str, now_s: u64) -> io::Result<u16> {
        let plan = &self.plan;
        let host = plan.host.trim_start_matches('[').trim_end_matches(']');
        let mut stream = TcpStream::connect((host, plan.port)).await?;
        let named = if host.contains(':') {
            format!("[{host}]:{}", plan.port)
        } else {
            format!("{host}:{}", plan.port)
        };
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {named}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             {SIGNATURE}: {}\r\nUser-Agent: tidegate/{}\r\nConnection: close\r\n\r\n{letter}",
            plan.path,
            letter.len(),
            signature(&plan.secret, now_s, letter),
            env!("CARGO_PKG_VERSION"),
        );
        stream.write_all(request.as_bytes()).await?;
        status(&mut stream).await
    }
}

/// What a receiver compares with what it works out itself: `t=SECONDS,v1=HEX`, where the second part is the HMAC-SHA256 of
/// `SECONDS.BODY` by the secret. One that was sent long ago is not taken again.
fn signature(secret: &[u8], now_s: u64, body: &str) -> String {
    let seconds = now_s.to_string();
    let parts = [seconds.as_bytes(), b".", body.as_bytes()];
    let tag = tag(&mac(secret), &parts);
    format!("t={seconds},v1={}", hexadecimal(&tag))
}

/// The status in the first line of an answer.
async fn status(stream: &mut TcpStream) -> io::Result<u16> {
    let mut head = Vec::with_capacity(STATUS_BYTES_MAX);
    while !head.contains(&b'\n') {
        if head.len() >= STATUS_BYTES_MAX || stream.read_buf(&mut head).await? == 0 {
            return Err(no_answer());
        }
    }
    let line = str::from_utf8(&head[..head.len().min(16)]).unwrap_or_default();
    let rest = line
        .strip_prefix("HTTP/1.1 ")
        .or_else(|| line.strip_prefix("HTTP/1.0 "));
    let status = rest.and_then(|rest| rest.get(..3)?.parse().ok());
    status.ok_or_else(no_answer)
}

fn no_answer() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "what answers speaks no HTTP/1.1")
}

fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    use super::*;

    /// A receiver that answers its connections with these, one each, and the requests that it got.
    async fn receiver(answers: &'static [&'static str]) -> (u16, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = tokio::spawn(async move {
            let mut requests = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"}") {
                    assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
                }
                requests.push(String::from_utf8(request).unwrap());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            requests
        });
        (port, requests)
    }

    fn hook(port: u16) -> Hook {
        let plan = WebhookPlan {
            host: "127.0.0.1".to_owned(),
            port,
            path: "/events?of=shop".to_owned(),
            secret_file: PathBuf::new(),
            secret: b"secret".to_vec(),
        };
        let (_, letters) = mpsc::channel(1);
        Hook {
            pauses: [Duration::ZERO; 2],
            ..Hook::new(plan, letters, Arc::default())
        }
    }

    fn counts(hook: &Hook) -> (u64, u64) {
        let Counts { sent, failed, .. } = &*hook.counts;
        let value = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (value(sent), value(failed))
    }

    #[test]
    fn a_signature_is_of_the_time_and_the_body() {
        // printf '1790000000.{"a":1}' | openssl dgst -sha256 -hmac secret
        let expected =
            "t=1790000000,v1=da8fe498621aaab99d5b11c51346b13d1a2bf2914b865b8d3edd3531cab25a3e";

        assert_eq!(signature(b"secret", 1_790_000_000, "{\"a\":1}"), expected);
        assert_ne!(signature(b"secret", 1_790_000_001, "{\"a\":1}"), expected);
        assert_ne!(signature(b"secret", 1_790_000_000, "{\"a\":2}"), expected);
        assert_ne!(signature(b"other", 1_790_000_000, "{\"a\":1}"), expected);
    }

    #[tokio::test]
    async fn an_event_is_sent_again_until_it_is_taken() {
        let (port, requests) = receiver(&[
            "HTTP/1.1 503 Service Unavailable\r\n\r\n",
            "HTTP/1.0 204 No Content\r\n\r\n",
        ])
        .await;
        let hook = hook(port);

        hook.deliver("{\"event\":\"room.idle\"}").await;

        assert_eq!(counts(&hook), (1, 0));
        let requests = requests.await.unwrap();
        assert_eq!(requests.len(), 2);
        for request in requests {
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert_eq!(body, "{\"event\":\"room.idle\"}");
            assert!(head.starts_with("POST /events?of=shop HTTP/1.1\r\n"));
            assert!(head.contains(&format!("\r\nHost: 127.0.0.1:{port}\r\n")));
            let signed = head.split("\r\nTidegate-Signature: t=").nth(1).unwrap();
            let (seconds, _) = signed.split_once(",v1=").unwrap();
            let expected = signature(b"secret", seconds.parse().unwrap(), body);
            assert!(head.contains(&expected), "{head}");
        }
    }

    #[tokio::test]
    async fn after_three_tries_an_event_is_given_up_and_counted() {
        let (port, requests) = receiver(&[
            "HTTP/1.1 500 Internal Server Error\r\n\r\n",
            "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\n\r\n",
            "SSH-2.0-x\r\n",
        ])
        .await;
        let hook = hook(port);

        hook.deliver("{}").await;

        assert_eq!(counts(&hook), (0, 1));
        assert_eq!(requests.await.unwrap().len(), 3);
        // And where nobody listens any more.
        hook.deliver("{}").await;
        assert_eq!(counts(&hook), (0, 2));
    }
}

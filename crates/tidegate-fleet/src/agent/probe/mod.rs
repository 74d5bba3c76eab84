//! What an application tells of itself when it is asked.
//!
//! Every question has one bound in time for all of it, from the connection to the last byte, and one in bytes; nothing
//! is ever followed to another place. A question without an answer is an error with its reason: an application that
//! does not answer is not one that is idle, and not one that is full either.

mod apache;
mod fastcgi;
mod gunicorn;
mod http;
mod jmx;
mod names;
mod page;
mod php_fpm;
mod prometheus;
mod puma;
mod tomcat;

pub use http::{Login, Url, UrlError};
pub use php_fpm::FpmStatus;

use std::io;
use std::time::Duration;

use tidegate_core::health::Dimension;
use tidegate_core::time::Mono;

use self::apache::Apache;
use self::gunicorn::Gunicorn;
use self::http::Client;
use self::php_fpm::PhpFpm;
use self::prometheus::Prometheus;
use self::puma::Puma;
use self::tomcat::Tomcat;
use super::listeners::At;
use super::sight::{Blank, Sight};

/// Longest time for everything that is asked of an application in one look, unless told otherwise.
pub const PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Bytes of one answer. The metrics of a large application are some hundreds of kilobytes.
const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// 2⁵³: above it a float does not grow by one any more.
const COUNT_MAX: f64 = 9_007_199_254_740_992.0;

/// How an application is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Asking {
    /// A page of metrics in Prometheus's text format.
    Prometheus(Url),
    /// Tomcat's manager, at its root, such as `http://127.0.0.1:8081/manager`.
    Tomcat(Url, Option<Login>),
    /// PHP-FPM's status.
    PhpFpm(FpmStatus),
    /// Puma's control server, with its token in the query.
    Puma(Url),
    /// Apache's `mod_status`, such as `http://127.0.0.1/server-status`.
    Apache(Url),
    /// What gunicorn sends to this address of a statsd.
    Gunicorn(std::net::SocketAddr),
}

/// What readings are held against where the application names no limit of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budgets {
    /// Milliseconds that a request may wait for a connection of a pool.
    pub pool_wait_ms: f64,
    /// The share of time that collections of garbage may take.
    pub gc_share: f64,
    /// Milliseconds that an event loop may be late.
    pub lag_ms: f64,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            pool_wait_ms: 100.0,
            gc_share: 0.10,
            lag_ms: 100.0,
        }
    }
}

/// What a probe is told beside where to ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Workers that the application has, where it does not tell.
    pub workers: Option<u32>,
    /// See there.
    pub budgets: Budgets,
    /// Longest time for all questions of one look.
    pub timeout: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            workers: None,
            budgets: Budgets::default(),
            timeout: PROBE_TIMEOUT,
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    #[error("no answer within {} ms", .0.as_millis())]
    TooLate(Duration),
    #[error("it cannot be reached: {0}")]
    Unreachable(#[source] io::Error),
    #[error("it answers with status {0}")]
    Status(u16),
    #[error("it leads to {0}, which is not followed: ask there")]
    Elsewhere(String),
    #[error("its answer is over {0} bytes")]
    TooLong(usize),
    #[error("it breaks off: {0}")]
    Broken(String),
    #[error("its answer is not as expected: {0}")]
    Unexpected(String),
}

/// One application that is asked, with what it said last.
pub struct Probe {
    kind: Kind,
    timeout: Duration,
    by_the_front_door: bool,
}

enum Kind {
    Prometheus(Prometheus),
    Tomcat(Box<Tomcat>),
    PhpFpm(PhpFpm),
    Puma(Puma),
    Apache(Apache),
    Gunicorn(Gunicorn),
}

impl Probe {
    /// Ready to ask as `asking` says. What only listens begins to here, and needs a runtime of tokio.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub fn new(asking: Asking, terms: Terms) -> io::Result<Self> {
        let Terms {
            workers, budgets, ..
        } = terms;
        let by_the_front_door =
            matches!(&asking, Asking::PhpFpm(status) if status.by_the_front_door);
        let kind = match asking {
            Asking::Prometheus(url) => {
                Kind::Prometheus(Prometheus::new(Client::new(url, None), budgets))
            }
            Asking::Tomcat(url, login) => {
                Kind::Tomcat(Box::new(Tomcat::new(Client::new(url, login), budgets)))
            }
            Asking::PhpFpm(status) => Kind::PhpFpm(PhpFpm::new(status, workers)),
            Asking::Puma(url) => Kind::Puma(Puma::new(Client::new(url, None))),
            Asking::Apache(url) => Kind::Apache(Apache::new(Client::new(url, None), workers)),
            Asking::Gunicorn(at) => Kind::Gunicorn(Gunicorn::listen(at, workers)?),
        };
        Ok(Self {
            kind,
            timeout: terms.timeout,
            by_the_front_door,
        })
    }

    /// Whether it is one of the workers that answers, who get to it after all who wait already.
    pub const fn is_by_the_front_door(&self) -> bool {
        self.by_the_front_door
    }

    /// The same, of an application that listens at `listen`. Apache answers by a worker: where that is one of those whose
    /// queue is watched, each question that nobody answers would be one more in it.
    #[must_use]
    pub(crate) fn of_one_that_listens(mut self, listen: &[At]) -> Self {
        if let Kind::Apache(apache) = &self.kind {
            let port = apache.port();
            let is_there = |at: &At| matches!(at, At::Tcp(address) if address.port() == port);
            self.by_the_front_door |= listen.iter().any(is_there);
        }
        self
    }

    /// Does not ask at `now`, since others wait at that door: a question would be one more in the queue, each second, and
    /// would still be there when the agent has gone away.
    pub(crate) fn leave_out(&self, now: Mono, sights: &mut Vec<Sight>) {
        let (source, dimensions) = self.kind.tells();
        sights.extend(dimensions.iter().map(|&dimension| {
            let blank = Blank::error(format!("{source}: not asked while connections wait"));
            Sight::blank(dimension, blank, source, now)
        }));
    }

    /// Asks at `now`, and puts what is told behind what is in `sights`. Returns within the timeout.
    pub async fn look(&mut self, now: Mono, sights: &mut Vec<Sight>) {
        let asked_of = sights.len();
        let looking = async {
            match &mut self.kind {
                Kind::Prometheus(it) => it.look(now, sights).await,
                Kind::Tomcat(it) => it.look(now, sights).await,
                Kind::PhpFpm(it) => it.look(now, sights).await,
                Kind::Puma(it) => it.look(now, sights).await,
                Kind::Apache(it) => it.look(now, sights).await,
                Kind::Gunicorn(it) => {
                    it.look(now, sights);
                    Ok(())
                }
            }
        };
        let done = tokio::time::timeout(self.timeout, looking).await;
        let Err(error) = done.unwrap_or(Err(ProbeError::TooLate(self.timeout))) else {
            return;
        };
        let (source, dimensions) = self.kind.tells();
        for &dimension in dimensions {
            // What was told before it broke off holds.
            let told = sights[asked_of..]
                .iter()
                .any(|sight| sight.signal.dimension == dimension);
            if !told {
                let blank = Blank::error(format!("{source}: {error}"));
                sights.push(Sight::blank(dimension, blank, source, now));
            }
        }
    }
}

/// Whether a counter can stand there: at 0 or above, and where a float still counts.
fn is_count(figure: f64) -> bool {
    (0.0..=COUNT_MAX).contains(&figure)
}

/// `busy` without the `asking` of them, 0 or 1, who answer our own question. What is no count stays what it is, for whoever
/// judges it.
fn without_asking(busy: f64, asking: f64) -> f64 {
    if busy >= 1.0 { busy - asking } else { busy }
}

impl Kind {
    /// What it is called, and what an answer says something about.
    const fn tells(&self) -> (&'static str, &'static [Dimension]) {
        match self {
            Self::Prometheus(_) => ("metrics page", &[Dimension::Threads]),
            Self::Tomcat(_) => (
                "Tomcat's manager",
                &[Dimension::Threads, Dimension::Gc, Dimension::OldGen],
            ),
            Self::PhpFpm(_) => ("PHP-FPM's status", &[Dimension::Threads]),
            Self::Puma(_) => ("Puma's control server", &[Dimension::Threads]),
            Self::Apache(_) => ("mod_status", &[Dimension::Threads]),
            Self::Gunicorn(_) => ("gunicorn's statsd", &[Dimension::Threads]),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;

    use super::*;

    /// Somebody who answers each target as `says` has it, or not at all.
    async fn answering(mut says: impl FnMut(&str) -> Option<String> + Send + 'static) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/manager", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
                    let target = line.split(' ').nth(1).unwrap().to_owned();
                    while !line.is_empty() && line != "\r\n" {
                        line.clear();
                        stream.read_line(&mut line).await.unwrap();
                    }
                    line.clear();
                    let Some(body) = says(&target) else {
                        continue;
                    };
                    let length = body.len();
                    let answer =
                        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            }
        });
        url.parse().unwrap()
    }

    /// What a Tomcat with two collectors answers: each says so many milliseconds, or that it does not know.
    fn manager(target: &str, collected: [Option<u32>; 2]) -> String {
        let of = |ms: Option<u32>| match ms {
            Some(ms) => format!("OK - Attribute get 'x' - CollectionTime = {ms}\n"),
            None => "Error - No attribute found\n".to_owned(),
        };
        match target {
            it if it.contains("/status?") => {
                let threads = r#"{"maxThreads":5,"currentThreadsBusy":3}"#;
                format!(
                    r#"{{"tomcat":{{"connector":[{{"name":"http-nio-1","threadInfo":{threads}}}]}}}}"#
                )
            }
            it if it.contains("qry=") && it.contains("GarbageCollector") => {
                "OK\n\nName: java.lang:name=A\n\nName: java.lang:name=B\n\n".to_owned()
            }
            it if it.contains("name%3DA") => of(collected[0]),
            it if it.contains("name%3DB") => of(collected[1]),
            it if it.contains("connectionpool") && it.contains("host") => {
                "OK\n\nName: a:type=DataSource,name=\"x\"\nNumActive: 8\nMaxTotal: 8\n\n".to_owned()
            }
            _ => "OK\n\n".to_owned(),
        }
    }

    fn tomcat(url: Url) -> Probe {
        let terms = Terms {
            timeout: Duration::from_secs(1),
            ..Terms::default()
        };
        Probe::new(Asking::Tomcat(url, None), terms).unwrap()
    }

    async fn ratio_of(probe: &mut Probe, dimension: Dimension, second: u64) -> Option<f64> {
        let (now, mut sights) = (Mono::from_millis(second * 1_000), Vec::new());
        probe.look(now, &mut sights).await;
        let signals = sights.iter().map(|sight| sight.signal);
        let those = signals.filter(|signal| signal.dimension == dimension);
        those.filter_map(|signal| signal.ratio(now)).next()
    }

    #[tokio::test]
    async fn a_look_that_ended_before_all_was_found_out_is_gone_on_with() {
        let mut is_slow = true;
        let url = answering(move |target| {
            let hangs = is_slow && target.contains("connectionpool");
            is_slow &= !hangs;
            (!hangs).then(|| manager(target, [Some(0), Some(0)]))
        });
        let mut probe = tomcat(url.await);

        let first = ratio_of(&mut probe, Dimension::Pool, 0).await;
        let second = ratio_of(&mut probe, Dimension::Pool, 1).await;

        assert_eq!((first, second), (None, Some(1.0)));
    }

    #[tokio::test]
    async fn a_collector_that_does_not_tell_for_once_has_collected_nothing_afterwards() {
        let mut looks = 0;
        let url = answering(move |target| {
            looks += u32::from(target.contains("/status?"));
            let second = (looks != 2).then_some(50_000);
            Some(manager(target, [Some(1_000), second]))
        });
        let mut probe = tomcat(url.await);

        let mut seen = Vec::new();
        for second in 0..4 {
            seen.push(ratio_of(&mut probe, Dimension::Gc, second).await);
        }

        assert_eq!(seen, [None, None, None, Some(0.0)]);
    }

    #[test]
    fn whoever_answers_is_not_counted_and_what_is_no_count_is_left_alone() {
        assert_eq!(without_asking(3.0, 1.0), 2.0);
        assert_eq!(without_asking(1.0, 1.0), 0.0);
        assert_eq!(without_asking(3.0, 0.0), 3.0);
        // Before its first worker has noticed that it is asked.
        assert_eq!(without_asking(0.0, 1.0), 0.0);
        assert_eq!(without_asking(-1.0, 1.0), -1.0);
        assert!(without_asking(f64::NAN, 1.0).is_nan());
    }
}

//! Who comes, how often, and how long they put up with waiting.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::Method;

/// A whole run of the generator.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Where the visitors go.
    pub target: SocketAddr,
    /// The `Host` they name.
    pub host: String,
    /// What they are; shares need not add up to 1.
    pub kinds: Vec<Kind>,
    /// How many come, one phase after the other.
    pub phases: Vec<Phase>,
    /// The pattern of arrivals inside a phase.
    pub arrivals: Arrivals,
    /// Replays the same arrivals, kinds and pauses.
    pub seed: u64,
    /// Visits in progress at once; one that comes above is not started and makes the run invalid.
    pub visits_max: usize,
    /// The core that the generator's thread is kept on; `None` for any.
    pub core: Option<usize>,
}

impl LoadPlan {
    /// Poisson arrivals at `target`, as many at once as the process may have files open for.
    pub fn new(target: SocketAddr, kinds: Vec<Kind>, phases: Vec<Phase>) -> Self {
        Self {
            target,
            host: target.to_string(),
            kinds,
            phases,
            arrivals: Arrivals::Poisson,
            seed: 1,
            visits_max: 16_000,
            core: None,
        }
    }

    /// How long visitors keep coming.
    pub fn length(&self) -> Duration {
        self.phases.iter().map(|phase| phase.length).sum()
    }
}

/// A span of time with one rate of arrivals.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Its name in reports.
    pub name: String,
    /// New visits per second, retries not counted.
    pub rate: f64,
    /// How long it lasts.
    pub length: Duration,
    /// Shares of the kinds in this phase, in their order, instead of their own.
    pub shares: Option<Vec<f64>>,
}

impl Phase {
    /// A phase in which every kind has its own share.
    pub fn new(name: impl Into<String>, rate: f64, length: Duration) -> Self {
        Self {
            name: name.into(),
            rate,
            length,
            shares: None,
        }
    }
}

/// The pattern of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Independent visitors: exponential gaps.
    Poisson,
    /// Equal gaps.
    Even,
}

/// One kind of visitor.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its name in reports.
    pub name: String,
    /// The class its results are summed under; nothing is sent because of it.
    pub class: String,
    /// Its request.
    pub request: Request,
    /// Its weight among the kinds.
    pub share: f64,
    /// How long it waits.
    pub patience: Patience,
    /// What it does when turned away.
    pub retry: Retry,
    /// Whether its connections are used again.
    pub reuse: Reuse,
    /// Local addresses taken in turn (127.0.0.x); empty for whatever the kernel picks.
    pub sources: Vec<IpAddr>,
}

impl Kind {
    /// A visitor called `name` who GETs `path`, waits a second and comes once.
    pub fn get(name: impl Into<String>, path: &str) -> Self {
        let name = name.into();
        Self {
            class: name.clone(),
            name,
            request: Request::get(path),
            share: 1.0,
            patience: Patience::of(Duration::from_secs(1)),
            retry: Retry::NEVER,
            reuse: Reuse::Kept,
            sources: Vec::new(),
        }
    }

    /// The same under the class `class`.
    #[must_use]
    pub fn class(mut self, class: impl Into<String>) -> Self {
        self.class = class.into();
        self
    }

    /// The same with the weight `share`.
    #[must_use]
    pub fn share(mut self, share: f64) -> Self {
        self.share = share;
        self
    }

    /// The same with this patience.
    #[must_use]
    pub fn patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// The same with these retries.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// The same with one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.request
            .headers
            .push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same with this request.
    #[must_use]
    pub fn request(mut self, request: Request) -> Self {
        self.request = request;
        self
    }

    /// The same with or without reuse of connections.
    #[must_use]
    pub fn reuse(mut self, reuse: Reuse) -> Self {
        self.reuse = reuse;
        self
    }

    /// The same from these local addresses.
    #[must_use]
    pub fn sources(mut self, sources: Vec<IpAddr>) -> Self {
        self.sources = sources;
        self
    }
}

/// A request as the generator sends it, again and again.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Header fields beside `Host` and `Content-Length`.
    pub headers: Vec<(String, String)>,
    /// Its body; `Content-Length` is sent when there is one, and always for POST and PUT.
    pub body: Vec<u8>,
}

impl Request {
    /// `GET path`.
    pub fn get(path: &str) -> Self {
        Self {
            method: Method::GET,
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// `POST path` with a body of `bytes` bytes.
    pub fn post(path: &str, bytes: usize) -> Self {
        Self {
            method: Method::POST,
            body: vec![b'x'; bytes],
            ..Self::get(path)
        }
    }

    /// The head as it goes over the wire, for `host`, with the empty line that ends it.
    pub fn head(&self, host: &str) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {host}\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() || self.method == Method::POST || self.method == Method::PUT {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// Head and body as they go over the wire.
    pub fn bytes(&self, host: &str) -> Vec<u8> {
        let mut bytes = self.head(host);
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// How long a visitor waits; both spans start when it arrives or sends, not when it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For the whole visit, pauses and retries included.
    pub visit: Duration,
    /// For one attempt, after which it aborts and maybe comes again; `None` for all that is left.
    pub attempt: Option<Duration>,
    /// How much longer than the visit's patience the connection stays open, so that a late answer
    /// is seen. Zero is what browsers do: they leave.
    pub linger: Duration,
}

impl Patience {
    /// `visit` in all.
    pub const fn of(visit: Duration) -> Self {
        Self {
            visit,
            attempt: None,
            linger: Duration::ZERO,
        }
    }

    /// Up to `attempts` attempts of `attempt` each.
    pub fn per_attempt(attempt: Duration, attempts: u32) -> Self {
        Self {
            visit: attempt * attempts,
            attempt: Some(attempt),
            linger: Duration::ZERO,
        }
    }
}

/// What a visitor does when an attempt has not brought a good answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// Attempts in all, the first included.
    pub attempts_max: u32,
    /// The pause before the next one.
    pub pause: Pause,
    /// What a `Retry-After` header does to it.
    pub retry_after: RetryAfter,
}

impl Retry {
    /// One attempt.
    pub const NEVER: Self = Self {
        attempts_max: 1,
        pause: Pause::None,
        retry_after: RetryAfter::Ignored,
    };

    /// Up to `attempts_max` attempts, one straight after the other.
    pub const fn at_once(attempts_max: u32) -> Self {
        Self {
            attempts_max,
            ..Self::NEVER
        }
    }

    /// Up to `attempts_max` attempts with exponential backoff and full jitter.
    pub const fn backing_off(attempts_max: u32, base: Duration, cap: Duration) -> Self {
        Self {
            attempts_max,
            pause: Pause::FullJitter { base, cap },
            retry_after: RetryAfter::Ignored,
        }
    }
}

/// The pause before an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// None.
    None,
    /// Always the same.
    Fixed(Duration),
    /// Uniform in [0, min(`cap`, `base` × 2ⁿ)) before attempt n + 2.
    FullJitter {
        /// The widest first pause.
        base: Duration,
        /// The widest pause.
        cap: Duration,
    },
}

/// What a visitor makes of `Retry-After`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// Nothing.
    Ignored,
    /// It comes back no earlier, and gives up when that is past its patience.
    Honoured,
}

/// Whether connections are used for more than one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// An idle connection of the same kind and address is taken first.
    Kept,
    /// Every attempt opens one and closes it.
    Never,
}

//! What to run, already checked: nothing in a [`Plan`] can be wrong.
//!
//! The binary turns a configuration file into one; see its reference for what each field means to
//! an operator. Durations are spans of monotonic time.

use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use ipnet::IpNet;
use tidegate_core::admission;
use tidegate_core::facts::{Class, GroupId};
use tidegate_core::limit;

use crate::breaker::CallBreakerPlan;
use crate::dependency::DependencyPlan;
use crate::rate::RatePlan;
use crate::room::RoomPlan;
use crate::session::{RouteSession, SessionPlan};

/// Everything one gateway process does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Gateway threads, each with a runtime of its own.
    pub threads: NonZeroUsize,
    /// Where clients connect.
    pub listener: ListenerPlan,
    /// Where `/metrics`, `/status.json`, `/healthz` and `/readyz` are served; `None` for nowhere.
    pub admin: Option<SocketAddr>,
    /// Peers whose forwarding, deadline and class headers are believed.
    pub trusted: Vec<IpNet>,
    /// Health probes.
    pub probes: ProbePlan,
    /// What SIGTERM does.
    pub drain: DrainPlan,
    /// The applications; a request goes to the first whose [`AppPlan::matches`] fits.
    pub apps: Vec<AppPlan>,
    /// What applications call, and how much of it.
    pub dependencies: Vec<DependencyPlan>,
    /// Limits on how much may happen.
    pub rates: RatePlan,
    /// Waiting rooms.
    pub rooms: Vec<RoomPlan>,
    /// Whether every answer to a client carries the load report that the verdict has.
    pub reports_load: bool,
}

/// The listener and what it allows a client connection.
#[derive(Clone, Debug)]
pub struct ListenerPlan {
    /// Where to listen; port 0 picks a free one. `None` for a process that carries no requests.
    pub address: Option<SocketAddr>,
    /// Client connections at once, probes apart.
    pub connections_max: NonZeroU32,
    /// Client connections at once from one address (IPv4 /32, IPv6 /64); `None` for no such cap.
    pub connections_per_client_max: Option<NonZeroU32>,
    /// Bytes of a request's head.
    pub head_bytes_max: usize,
    /// Header fields in a request.
    pub headers_max: usize,
    /// Longest time for a head to arrive once its first byte has, or the connection is new.
    pub head_timeout: Duration,
    /// Longest idle time between two requests of one connection.
    pub keep_alive_timeout: Duration,
    /// Longest silence while a client sends a body.
    pub body_timeout: Duration,
    /// Longest time in which a client takes no byte of its answer.
    pub write_timeout: Duration,
    /// Whether a client that has shut down its sending side still wants its answer.
    pub half_close: bool,
}

/// Health probes: who may always connect, and what is answered from state.
#[derive(Clone, Debug)]
pub struct ProbePlan {
    /// Networks with connection slots of their own, outside every cap.
    pub networks: Vec<IpNet>,
    /// How many such slots.
    pub connections_reserved: NonZeroU32,
    /// Paths answered from readiness, beside `/.tidegate/readyz` and `/.tidegate/healthz`.
    pub paths: Vec<String>,
    /// Connections over the cap that may still ask for these paths, from anywhere.
    pub overflow_connections_max: NonZeroU32,
}

/// How the process ends on SIGTERM.
#[derive(Clone, Copy, Debug)]
pub struct DrainPlan {
    /// Readiness fails for this long before anything else happens, so that balancers look away.
    pub delay: Duration,
    /// Longest wait for requests in progress after that.
    pub timeout: Duration,
}

/// One application behind the gateway.
#[derive(Clone, Debug)]
pub struct AppPlan {
    /// Its name in metrics and logs.
    pub name: String,
    /// Hosts it serves, lower case without port; empty for any.
    pub hosts: Vec<String>,
    /// Paths it serves begin with this; `/` for any.
    pub path_prefix: String,
    /// Where it listens and how to talk to it.
    pub upstream: UpstreamPlan,
    /// What stops calling it when it does not answer; `None` to go on.
    pub breaker: Option<CallBreakerPlan>,
    /// Whether decisions bind.
    pub mode: Mode,
    /// What a slot does when its client has left.
    pub on_client_gone: OnClientGone,
    /// The limit's algorithm.
    pub limit: limit::Kind,
    /// Where its decisions are written down; `None` for nowhere.
    pub journal: Option<JournalPlan>,
    /// The file that keeps what its limit has learnt from one process to the next.
    pub warm_start: Option<PathBuf>,
    /// Queue, reserves and shares. `routes` equals the length of [`AppPlan::routes`].
    pub admission: admission::Config,
    /// The first that matches a request wins; the last one matches everything and is `other`.
    pub routes: Vec<RoutePlan>,
    /// Names of groups 1, 2, … in metrics; group 0 is `default`.
    pub groups: Vec<String>,
    /// Cookies of the application's own whose presence earns `signed-in`.
    pub session_cookies: Vec<String>,
    /// Sessions that Tidegate keeps for it; `None` for none.
    pub sessions: Option<SessionPlan>,
    /// Endings of paths (with the dot) that make an otherwise untagged GET or HEAD `static`.
    pub static_extensions: Vec<String>,
}

/// The decision log of one application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalPlan {
    /// The file. A log that is there already is kept with `.old` behind its name.
    pub path: PathBuf,
    /// The longest that a log may get; then it ends.
    pub bytes_max: u64,
}

/// The address of an application and the bounds on talking to it.
#[derive(Clone, Debug)]
pub struct UpstreamPlan {
    /// Where it listens: a host name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Connections at once, idle and busy, over all threads.
    pub connections_max: NonZeroU32,
    /// Whether connections are kept for the next request; off for prefork servers.
    pub keep_alive: bool,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Longest time to get a connection, waiting for one at the cap included.
    pub connect_timeout: Duration,
    /// Longest time from the request's last byte to the answer's first.
    pub response_timeout: Duration,
    /// Longest silence inside an answer.
    pub body_timeout: Duration,
    /// Bytes of an answer buffered ahead of a slow client, so that it holds no worker.
    pub response_buffer_max: usize,
    /// The same over all answers of this application.
    pub response_buffers_max: usize,
}

/// Whether admission binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Refusals are refusals.
    Enforce,
    /// Everything is let in; what would have happened is counted.
    Shadow,
}

/// What the slot of a request does when its client leaves after the request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnClientGone {
    /// It stays taken until the application has finished: blocking workers go on working.
    Hold,
    /// It is free at once and the connection is closed: for applications that stop.
    Free,
}

/// One route of an application.
#[derive(Clone, Debug)]
pub struct RoutePlan {
    /// Its name in metrics.
    pub name: String,
    /// What requests it takes.
    pub matches: Matcher,
    /// Its class; `None` to go by headers and cookies.
    pub class: Option<Class>,
    /// Its bulkhead.
    pub group: GroupId,
    /// How long callers wait that do not say.
    pub patience: Duration,
    /// What it has to do with sessions, where the application has any.
    pub session: RouteSession,
    /// The dependencies that it calls by itself, by their places in [`Plan::dependencies`].
    pub dependencies: Vec<usize>,
    /// The waiting room that it is behind, by its place in [`Plan::rooms`]; `None` for none.
    pub room: Option<usize>,
}

/// Which requests a route takes: all of the conditions hold.
#[derive(Clone, Debug)]
pub struct Matcher {
    /// Any of these methods; empty for any.
    pub methods: Vec<Method>,
    /// The path fits any of these; never empty.
    pub paths: Vec<PathPattern>,
    /// Headers that must be there, with this value or with any.
    pub headers: Vec<(HeaderName, Option<HeaderValue>)>,
}

/// A path pattern, matched against the path as it came, without its query.
///
/// `*` stands for one segment, a closing `**` for any number of segments, none included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    segments: Vec<Segment>,
    open_end: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Any,
}

/// What is wrong with a path pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathPatternError {
    /// It does not start at the root.
    #[error("a path pattern starts with '/'")]
    NotAbsolute,
    /// `**` is not the last segment.
    #[error("'**' may only be the last segment")]
    OpenMiddle,
    /// `*` is only a part of a segment.
    #[error("'*' stands for a whole segment")]
    PartialWildcard,
}

impl PathPattern {
    /// The pattern `text`: `/`, `/cart`, `/p/*/reviews`, `/api/**`.
    pub fn parse(text: &str) -> Result<Self, PathPatternError> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err(PathPatternError::NotAbsolute);
        };
        let (rest, open_end) = match rest.strip_suffix("**") {
            Some("") => {
                return Ok(Self {
                    segments: Vec::new(),
                    open_end: true,
                });
            }
            Some(before) => match before.strip_suffix('/') {
                Some(before) => (before, true),
                None => return Err(PathPatternError::PartialWildcard),
            },
            None => (rest, false),
        };

        let mut segments = Vec::new();
        for segment in rest.split('/') {
            segments.push(match segment {
                "*" => Segment::Any,
                "**" => return Err(PathPatternError::OpenMiddle),
                part if part.contains('*') => return Err(PathPatternError::PartialWildcard),
                part => Segment::Literal(part.to_owned()),
            });
        }
        Ok(Self { segments, open_end })
    }

    /// Whether `path` (no query) fits.
    pub fn fits(&self, path: &str) -> bool {
        let mut parts = path.strip_prefix('/').unwrap_or(path).split('/');
        for segment in &self.segments {
            match (segment, parts.next()) {
                (_, None) => return false,
                (Segment::Any, Some(part)) if !part.is_empty() => {}
                (Segment::Literal(literal), Some(part)) if literal == part => {}
                _ => return false,
            }
        }
        self.open_end || parts.next().is_none()
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Literal(literal) => write!(f, "/{literal}")?,
                Segment::Any => write!(f, "/*")?,
            }
        }
        if self.open_end {
            write!(f, "/**")
        } else {
            Ok(())
        }
    }
}

impl AppPlan {
    /// Whether this application serves `path` at `host` (lower case, without port).
    pub fn matches(&self, host: &str, path: &str) -> bool {
        (self.hosts.is_empty() || self.hosts.iter().any(|own| own == host))
            && path.starts_with(&self.path_prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, path: &str) -> bool {
        PathPattern::parse(pattern).unwrap().fits(path)
    }

    #[test]
    fn a_star_is_one_segment_and_two_are_the_rest() {
        assert!(fits("/", "/"));
        assert!(!fits("/", "/a"));
        assert!(fits("/p/*/reviews", "/p/17/reviews"));
        assert!(!fits("/p/*/reviews", "/p//reviews"));
        assert!(!fits("/p/*", "/p/1/2"));
        assert!(fits("/api/**", "/api"));
        assert!(fits("/api/**", "/api/a/b"));
        assert!(!fits("/api/**", "/apis"));
        assert!(fits("/**", "/anything/at/all"));
    }

    #[test]
    fn a_pattern_prints_as_it_was_written() {
        for text in ["/", "/**", "/p/*/reviews", "/api/**", "/cart/"] {
            assert_eq!(PathPattern::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn patterns_that_could_surprise_are_refused() {
        assert_eq!(
            PathPattern::parse("cart"),
            Err(PathPatternError::NotAbsolute)
        );
        assert_eq!(
            PathPattern::parse("/a/**/b"),
            Err(PathPatternError::OpenMiddle)
        );
        assert_eq!(
            PathPattern::parse("/img*"),
            Err(PathPatternError::PartialWildcard)
        );
        assert_eq!(
            PathPattern::parse("/a**"),
            Err(PathPatternError::PartialWildcard)
        );
    }
}

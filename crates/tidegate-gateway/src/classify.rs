//! What a request is, from its head alone: application, route, class, deadline.

use std::borrow::Cow;
use std::time::Duration;

use http::header::{COOKIE, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, Request};
use tidegate_core::facts::{Class, GroupId};
use tidegate_core::time::{Mono, Wall};
use tidegate_http::names::{
    ENVOY_ATTEMPT_COUNT, ENVOY_TIMEOUT_MS, GRPC_PREVIOUS_ATTEMPTS, GRPC_TIMEOUT, PURPOSE,
    REQUEST_START, SEC_PURPOSE, TIDEGATE_ATTEMPT, TIDEGATE_CLASS, TIDEGATE_TIMEOUT_MS,
};
use tidegate_http::{attempt, criticality, path, timing};

use crate::plan::{AppPlan, Matcher, RoutePlan};

/// Headers that say how much a request matters, how long its caller waits or whether it comes once
/// more. Most requests have none of them, and one look over the names is cheaper than to ask for
/// each.
static HINTS: [HeaderName; 9] = [
    TIDEGATE_CLASS,
    SEC_PURPOSE,
    PURPOSE,
    TIDEGATE_TIMEOUT_MS,
    GRPC_TIMEOUT,
    ENVOY_TIMEOUT_MS,
    TIDEGATE_ATTEMPT,
    ENVOY_ATTEMPT_COUNT,
    GRPC_PREVIOUS_ATTEMPTS,
];

/// What the head of a request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its route's place in the application's plan.
    pub route: usize,
    /// Its bulkhead.
    pub group: GroupId,
    /// How much it matters.
    pub class: Class,
    /// Whether anything said so; what carries no label is `anonymous`.
    pub labelled: bool,
    /// The highest class that a session can earn it; `None` where class does not go by sessions.
    pub class_max: Option<Class>,
    /// When its caller stops waiting.
    pub deadline: Mono,
    /// Whether it says that it is another try.
    pub retry: bool,
}

/// A header that was ignored because it makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A remaining time.
    Timeout,
    /// A request start.
    Start,
    /// A class.
    Class,
    /// The number of an attempt.
    Attempt,
    /// What a request costs.
    Cost,
}

impl Malformed {
    /// Every such header.
    pub const ALL: [Self; 5] = [
        Self::Timeout,
        Self::Start,
        Self::Class,
        Self::Attempt,
        Self::Cost,
    ];

    /// Position in [`Malformed::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Start => "request_start",
            Self::Class => "class",
            Self::Attempt => "attempt",
            Self::Cost => "cost",
        }
    }
}

/// The application that `request` is for, by its place among `apps`.
pub fn app_of<'a, B>(
    request: &Request<B>,
    mut apps: impl Iterator<Item = &'a AppPlan>,
) -> Option<usize> {
    let path = path::canonical(request.uri().path());
    // CONNECT names no path, and tunnels are not what an application in front of us is for.
    if path.is_empty() || request.method() == Method::CONNECT {
        return None;
    }
    let host = host_of(request);
    apps.position(|app| app.matches(&host, &path))
}

/// What `request` is to `app`. What a stranger says may only lower its class and shorten its
/// patience; `ignored` hears of headers that make no sense. The wall clock is read when there is
/// another machine's reading to compare it with.
pub fn label<B>(
    request: &Request<B>,
    app: &AppPlan,
    trusted: bool,
    now: Mono,
    wall: impl FnOnce() -> Wall,
    mut ignored: impl FnMut(Malformed),
) -> Label {
    let headers = request.headers();
    let path = path::canonical(request.uri().path());
    let (route, plan) = route_of(request.method(), &path, headers, app);
    let no_hints = HeaderMap::new();
    let hints = match headers.keys().any(|name| HINTS.contains(name)) {
        true => headers,
        false => &no_hints,
    };

    let said = hints.get(TIDEGATE_CLASS).and_then(|value| {
        let class = criticality::parse(value.as_bytes());
        if class.is_none() {
            ignored(Malformed::Class);
        }
        class
    });
    let (class, labelled, class_max) = match said.filter(|_| trusted) {
        Some(class) => (class, true, None),
        None => {
            let known = plan
                .class
                .or_else(|| recognised(request.method(), headers, &path, app));
            let class = known.unwrap_or(Class::Anonymous);
            let prefetch = is_prefetch(hints).then_some(Class::Background);
            let class_max = [said, prefetch]
                .into_iter()
                .flatten()
                .fold(Class::Critical, lower);
            let lowered = lower(class, class_max);
            let by_session = plan.class.is_none() && class != Class::Static;
            (
                lowered,
                known.is_some() || lowered != class,
                by_session.then_some(class_max),
            )
        }
    };

    let patience = patience(hints, trusted, plan.patience, &mut ignored);
    let waited = if trusted {
        waited(headers, wall, &mut ignored)
    } else {
        Duration::ZERO
    };
    let deadline = (now + patience).minus(waited);
    let retry = is_retry(hints, &mut ignored);
    Label {
        route,
        group: plan.group,
        class,
        labelled,
        class_max,
        deadline,
        retry,
    }
}

/// Whether a request for this route of `app` is for something static, whatever it says of itself: what a balancer passes on
/// its clients may have said.
pub(crate) fn is_static(head: &Parts, app: &AppPlan, route: usize) -> bool {
    let path = path::canonical(head.uri.path());
    let class = app.routes[route].class;
    let class = class.or_else(|| recognised(&head.method, &head.headers, &path, app));
    class == Some(Class::Static)
}

impl Label {
    /// The class once it is known that the session earns `earned`.
    pub fn class_with(&self, earned: Class) -> Class {
        match self.class_max {
            Some(class_max) => lower(earned, class_max),
            None => self.class,
        }
    }
}

/// The one of two classes that is shed first.
const fn lower(one: Class, other: Class) -> Class {
    if other.is_below(one) { other } else { one }
}

/// The cookie that is the session of a request, with its name; `None` when it has none.
pub fn session<'r>(headers: &'r HeaderMap, app: &AppPlan) -> Option<&'r [u8]> {
    let names = &app.session_cookies;
    if names.is_empty() {
        return None;
    }
    headers
        .get_all(COOKIE)
        .iter()
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b';'))
        .map(|pair| pair.trim_ascii())
        .find(|pair| {
            let end = pair.iter().position(|&byte| byte == b'=');
            // An empty value is how a server takes a cookie away.
            end.filter(|end| end + 1 < pair.len())
                .is_some_and(|end| names.iter().any(|name| name.as_bytes() == &pair[..end]))
        })
}

/// The host asked for, lower case and without its port; empty when there is none.
fn host_of<B>(request: &Request<B>) -> Cow<'_, str> {
    // A target in absolute form agrees with Host, or the request would have been refused.
    let host = match request.uri().host() {
        Some(host) => host,
        None => {
            let value = request
                .headers()
                .get(HOST)
                .and_then(|value| value.to_str().ok());
            without_port(value.unwrap_or_default())
        }
    };
    if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // A bracket after the last colon: that colon is inside an IPv6 address.
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    }
}

fn route_of<'a>(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    app: &'a AppPlan,
) -> (usize, &'a RoutePlan) {
    app.routes
        .iter()
        .enumerate()
        .find(|(_, route)| takes(&route.matches, method, path, headers))
        .or_else(|| app.routes.iter().enumerate().next_back())
        .expect("a plan's application has a route that matches everything")
}

fn takes(matcher: &Matcher, method: &Method, path: &str, headers: &HeaderMap) -> bool {
    (matcher.methods.is_empty() || matcher.methods.contains(method))
        && matcher.paths.iter().any(|pattern| pattern.fits(path))
        && matcher.headers.iter().all(|(name, value)| match value {
            None => headers.contains_key(name),
            Some(value) => headers.get_all(name).iter().any(|seen| seen == value),
        })
}

/// The class that a request earns by its cookies or its path.
fn recognised(method: &Method, headers: &HeaderMap, path: &str, app: &AppPlan) -> Option<Class> {
    if session(headers, app).is_some() {
        return Some(Class::SignedIn);
    }
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let is_static = reads
        && app
            .static_extensions
            .iter()
            .any(|ending| path.ends_with(ending));
    is_static.then_some(Class::Static)
}

fn is_prefetch(headers: &HeaderMap) -> bool {
    [SEC_PURPOSE, PURPOSE]
        .into_iter()
        .filter_map(|name| headers.get(name))
        .any(|value| criticality::is_prefetch(value.as_bytes()))
}

/// A retry is refused before others, so whoever says to be one can only lose by it: anybody's word
/// will do.
pub(crate) fn is_retry(headers: &HeaderMap, ignored: &mut impl FnMut(Malformed)) -> bool {
    [
        (
            TIDEGATE_ATTEMPT,
            attempt::is_retry as fn(&[u8]) -> Option<bool>,
        ),
        (ENVOY_ATTEMPT_COUNT, attempt::is_retry),
        (GRPC_PREVIOUS_ATTEMPTS, attempt::follows_others),
    ]
    .into_iter()
    .filter_map(|(name, parse)| {
        let retry = parse(headers.get(name)?.as_bytes());
        if retry.is_none() {
            ignored(Malformed::Attempt);
        }
        retry
    })
    .any(|retry| retry)
}

/// How long the caller waits from now on, the wait before us not counted.
pub(crate) fn patience(
    headers: &HeaderMap,
    trusted: bool,
    usual: Duration,
    ignored: &mut impl FnMut(Malformed),
) -> Duration {
    let said = [
        (
            TIDEGATE_TIMEOUT_MS,
            timing::timeout_ms as fn(&[u8]) -> Option<Duration>,
        ),
        (GRPC_TIMEOUT, timing::grpc_timeout),
        (ENVOY_TIMEOUT_MS, timing::timeout_ms),
    ]
    .into_iter()
    .find_map(|(name, parse)| {
        let timeout = parse(headers.get(name)?.as_bytes());
        if timeout.is_none() {
            ignored(Malformed::Timeout);
        }
        timeout
    });
    match said {
        None => usual,
        Some(timeout) if trusted => timeout,
        Some(timeout) => timeout.min(usual),
    }
}

fn waited(
    headers: &HeaderMap,
    now: impl FnOnce() -> Wall,
    ignored: &mut impl FnMut(Malformed),
) -> Duration {
    let Some(value) = headers.get(REQUEST_START) else {
        return Duration::ZERO;
    };
    timing::waited_before(value.as_bytes(), now()).unwrap_or_else(|| {
        ignored(Malformed::Start);
        Duration::ZERO
    })
}

#[cfg(test)]
pub(crate) mod tests;

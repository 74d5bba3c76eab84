//! What a client is told of the rate limits that its request ran into, beside the table of refusals: their names
//! and rates, what is left, and how long to wait. Never whom they are counted by.

use std::fmt::Write as _;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};

use crate::names::{RATE_LIMIT, RATE_LIMIT_POLICY};
use crate::refusal::Refusal;

/// The largest whole number that a structured header may have.
const INTEGER_MAX: u64 = 999_999_999_999_999;

/// The kind of problem, as it is registered for all HTTP APIs.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// A rate limit as clients are told of it.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The name as a quoted string, for headers and JSON alike.
    quoted: String,
    /// How much passes in how many seconds, as parameters of that.
    parameters: String,
}

/// What is left of the limit that makes the client wait longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Whole tokens.
    pub remaining: u64,
    /// Seconds until the request would pass, rounded up; `None` for never.
    pub wait_s: Option<u64>,
}

impl Policy {
    /// The limit `name` (letters, digits, `-`, `_` and `.`) of `quota` tokens in `window_us` microseconds.
    pub fn new(name: &str, quota: u64, window_us: u64) -> Self {
        let mut parameters = format!(";q={}", quota.min(INTEGER_MAX));
        // The draft has whole seconds, and a wrong window is worse than none.
        if window_us.is_multiple_of(1_000_000) {
            write!(parameters, ";w={}", window_us / 1_000_000).expect("a string takes all");
        }
        Self {
            quoted: format!("\"{name}\""),
            parameters,
        }
    }
}

/// Adds what is said of the `violated` limits, of which `binding` has the longest wait, to the headers of a refusal.
pub fn add_headers<'p>(
    headers: &mut HeaderMap,
    violated: impl Iterator<Item = &'p Policy>,
    binding: &Policy,
    left: Left,
) {
    let mut policies = String::new();
    for policy in violated {
        let comma = if policies.is_empty() { "" } else { ", " };
        policies.extend([comma, &policy.quoted, &policy.parameters]);
    }
    let mut limit = format!("{};r={}", binding.quoted, left.remaining.min(INTEGER_MAX));
    if let Some(seconds) = left.wait_s {
        write!(limit, ";t={seconds}").expect("a string takes all");
    }
    for (name, value) in [(RATE_LIMIT_POLICY, policies), (RATE_LIMIT, limit)] {
        let value = HeaderValue::try_from(value);
        headers.insert(name, value.expect("names of limits are plain text"));
    }
}

/// The body of a refusal by the `violated` limits: problem details as JSON, with their names.
pub fn body<'p>(refusal: Refusal, violated: impl Iterator<Item = &'p Policy>) -> Bytes {
    let status = refusal.status();
    let mut body = format!(
        "{{\"type\":\"{QUOTA_EXCEEDED}\",\"title\":\"{}\",\"status\":{},\"reason\":\"{}\",",
        status.canonical_reason().unwrap_or_default(),
        status.as_u16(),
        refusal.label(),
    );
    if refusal == Refusal::RateNever {
        body.push_str("\"detail\":\"this request never passes as it is, however long one waits\",");
    }
    body.push_str("\"violated-policies\":[");
    for (place, policy) in violated.enumerate() {
        let comma = if place == 0 { "" } else { "," };
        body.extend([comma, &policy.quoted]);
    }
    body.push_str("]}\n");
    body.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_what_the_limits_are_and_when_to_come_back() {
        let minute = Policy::new("login-ip", 10, 60_000_000);
        let quick = Policy::new("quick", 1, 250_000);
        let left = Left {
            remaining: 2,
            wait_s: Some(6),
        };
        let mut headers = Refusal::RateLimited.headers(left.wait_s);

        add_headers(&mut headers, [&minute, &quick].into_iter(), &minute, left);

        assert_eq!(headers["retry-after"], "6");
        assert_eq!(headers["ratelimit"], "\"login-ip\";r=2;t=6");
        assert_eq!(
            headers["ratelimit-policy"],
            "\"login-ip\";q=10;w=60, \"quick\";q=1"
        );
        let body = body(Refusal::RateLimited, [&minute, &quick].into_iter());
        assert_eq!(
            body,
            "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\
             \"title\":\"Too Many Requests\",\"status\":429,\"reason\":\"rate_limited\",\
             \"violated-policies\":[\"login-ip\",\"quick\"]}\n"
        );
    }

    #[test]
    fn what_never_passes_is_not_invited_again() {
        let policy = Policy::new("all", u64::MAX, 1_000_000);
        let left = Left {
            remaining: u64::MAX,
            wait_s: None,
        };
        let mut headers = Refusal::RateNever.headers(Some(1));

        add_headers(&mut headers, [&policy].into_iter(), &policy, left);

        assert!(!headers.contains_key("retry-after"));
        assert_eq!(headers["ratelimit"], "\"all\";r=999999999999999");
        let body = body(Refusal::RateNever, [&policy].into_iter());
        assert!(body.windows(12).any(|part| part == b"never passes"));
    }
}

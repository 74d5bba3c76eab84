//! Names of headers that are Tidegate's, or that no library names.

use http::HeaderName;

/// How long the caller will still wait, in milliseconds: in from trusted peers, out to the app.
pub const TIDEGATE_TIMEOUT_MS: HeaderName = HeaderName::from_static("tidegate-timeout-ms");
/// How much the request matters.
pub const TIDEGATE_CLASS: HeaderName = HeaderName::from_static("tidegate-class");
/// Why Tidegate itself answered.
pub const TIDEGATE_REASON: HeaderName = HeaderName::from_static("tidegate-reason");
/// What becomes of trying again, by whoever may say so.
pub const TIDEGATE_RETRY: HeaderName = HeaderName::from_static("tidegate-retry");
/// A place in a waiting room's line, from an application that keeps no cookies.
pub const TIDEGATE_TICKET: HeaderName = HeaderName::from_static("tidegate-ticket");
/// The pass of somebody whom a waiting room let in, from such an application.
pub const TIDEGATE_PASS: HeaderName = HeaderName::from_static("tidegate-pass");
/// The secret of a device that a pass may be tied to, from such an application.
pub const TIDEGATE_DEVICE: HeaderName = HeaderName::from_static("tidegate-device");
/// Where the request stands in a waiting room: `queued` on every answer to somebody who waits.
pub const TIDEGATE_STATE: HeaderName = HeaderName::from_static("tidegate-state");
/// From which tier of a waiting room somebody came, to the application; and the tier of a user, where there is one.
pub const TIDEGATE_TIER: HeaderName = HeaderName::from_static("tidegate-tier");
/// What a browser wants to do with the answer.
pub const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// From where in a browser a request comes. Applications that are no browser do not send it.
pub const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// What caches of a CDN go by before `Cache-Control`.
pub const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");
/// Which attempt at the same thing this is, the first being 1.
pub const TIDEGATE_ATTEMPT: HeaderName = HeaderName::from_static("tidegate-attempt");
/// The same as Envoy puts it.
pub const ENVOY_ATTEMPT_COUNT: HeaderName = HeaderName::from_static("x-envoy-attempt-count");
/// How many attempts there were before, as gRPC clients put it.
pub const GRPC_PREVIOUS_ATTEMPTS: HeaderName =
    HeaderName::from_static("grpc-previous-rpc-attempts");
/// The remaining time as gRPC puts it.
pub const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// The remaining time as Envoy puts it.
pub const ENVOY_TIMEOUT_MS: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");
/// When a balancer got the request.
pub const REQUEST_START: HeaderName = HeaderName::from_static("x-request-start");
/// Says that nobody has asked for this page yet.
pub const SEC_PURPOSE: HeaderName = HeaderName::from_static("sec-purpose");
/// The older name of the same.
pub const PURPOSE: HeaderName = HeaderName::from_static("purpose");
/// The client and the balancers before us, comma separated.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The scheme the client used.
pub const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// The host the client asked.
pub const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
/// How much of a limit is left, as the IETF's draft on rate limit headers puts it.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// What the limits are, by the same draft.
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// Not in any standard, and still sent; one hop only.
pub const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// What every header of ours begins with.
pub const TIDEGATE_PREFIX: &str = "tidegate-";

/// Headers by which the application commands Tidegate; no client sees them.
pub const COMMANDS: [&str; 8] = [
    "tidegate-set",
    "tidegate-del",
    "tidegate-incr",
    "tidegate-rotate",
    "tidegate-destroy",
    "tidegate-signout-user",
    "tidegate-cost",
    COMMAND,
];

/// The one of them that is for waiting rooms.
pub const COMMAND: &str = "tidegate-command";

//! What a sidecar is started with, already checked.

use std::time::Duration;

use tidegate_http::local::Listen;

/// What a sidecar is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarPlan {
    /// Where it listens.
    pub listen: Listen,
    /// Connections at once, 1 and more; the next wait to be accepted.
    pub connections_max: usize,
    /// Requests at once, 1 and more; the next is answered 503.
    pub requests_max: usize,
    /// Bytes of the largest body that is read.
    pub body_bytes_max: usize,
    /// Longest time for a request to arrive, and again for it to be answered.
    pub timeout: Duration,
}

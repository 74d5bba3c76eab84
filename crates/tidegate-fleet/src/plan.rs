//! What a sidecar is started with, already checked.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

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

/// Where a sidecar listens: only this machine reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A socket at this path, with mode 0660.
    Socket(PathBuf),
    /// A loopback address; port 0 picks a free one.
    Loopback(SocketAddr),
}

/// As a configuration has it.
impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
            Self::Loopback(address) => write!(f, "{address}"),
        }
    }
}

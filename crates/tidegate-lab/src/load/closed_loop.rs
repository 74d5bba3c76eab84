//! What a server can do at most.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Percentiles, Request};

/// A fixed number of clients, each of which asks again as soon as it is answered.
#[derive(Clone, Debug)]
pub struct ClosedLoop {
    /// The server.
    pub target: SocketAddr,
    /// What they ask.
    pub request: Request,
    /// How many they are; twice the server's slots keeps every slot busy.
    pub connections: usize,
    /// How long they ask before it counts.
    pub warm_up: Duration,
    /// How long it counts.
    pub length: Duration,
}

/// What they got.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Answers 2xx per second: the C that rates are multiples of.
    pub per_second: f64,
    /// Answers with another status, resets and refused connections, in all.
    pub failures: u64,
    /// Latencies of the answers counted.
    pub latency: Percentiles,
}

/// Measures the capacity of a server. Returns when it is done; has a thread of its own meanwhile.
pub fn closed_loop(_plan: &ClosedLoop) -> io::Result<Capacity> {
    todo!()
}

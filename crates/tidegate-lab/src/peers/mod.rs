//! Real servers to test against, started on free ports of the loopback address in directories of
//! their own, and a proxy that breaks the way to them.
//!
//! Everything here blocks and belongs to no runtime, so tests and drills use it from a thread or
//! from a task alike. Whatever is started is stopped by its process id when it is dropped. Nothing
//! waits without a bound: readiness is asked for until it is there or the time is over.

mod cluster;
mod error;
mod haproxy;
mod place;
mod process;
mod proxy;
mod sentinels;
mod server;
mod wire;

pub use cluster::{Cluster, ClusterSetup};
pub use error::PeerError;
pub use haproxy::Haproxy;
pub use place::free_port;
pub use proxy::{FaultProxy, Toward};
pub use sentinels::{SentinelSetup, Sentinels};
pub use server::{MinReplicas, Persistence, RedisServer, RedisSetup};
pub use wire::{Reply, Wire};

//! What a rate limit service is started with, already checked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Algorithm, Rate, Spec};

/// The most limits of one service.
pub const RLS_LIMITS_MAX: usize = 4_096;

/// What a service is started with.
#[derive(Clone, Debug)]
pub struct RlsPlan {
    /// Where it listens; port 0 picks a free one.
    pub listen: SocketAddr,
    /// The domains that it knows; a request for another one is an error.
    pub domains: Vec<String>,
    /// The limits, at most [`RLS_LIMITS_MAX`].
    pub limits: Vec<RlsLimit>,
    /// What clients are told.
    pub headers: Headers,
    /// Connections at once, 1 and more; the next wait to be accepted.
    pub connections_max: usize,
    /// Calls at once on one connection, 1 and more; the next wait at the client.
    pub streams_max: u32,
    /// Calls at once, 1 and more; the next is refused.
    pub calls_max: usize,
    /// Longest time for a call, however long its own deadline is.
    pub timeout: Duration,
    /// Longest wait for the store in a call.
    pub store_timeout: Duration,
    /// Keys that are remembered in this process, 1 and more.
    pub keys_max: u64,
}

/// One limit.
#[derive(Clone, Debug)]
pub struct RlsLimit {
    /// Its name in metrics and answers: letters, digits, `-`, `_` and `.`. No two have the same.
    pub name: String,
    /// The domain, by its place in [`RlsPlan::domains`].
    pub domain: usize,
    /// Which descriptors meet it: one entry or more; where parts fit, none is every descriptor.
    pub descriptor: Vec<Entry>,
    /// How its entries are those of a descriptor.
    pub fit: Fit,
    /// How much passes.
    pub allowance: Allowance,
    /// What a hit costs, 1 and more.
    pub cost: u64,
    /// Whether it refuses or only counts.
    pub standing: Standing,
    /// Who counts together.
    pub scope: Scope,
    /// What holds while the store does not answer.
    pub on_store_loss: OnStoreLoss,
    /// Limits that a request does not meet when it meets this one, by their places in [`RlsPlan::limits`].
    pub replaces: Vec<usize>,
}

/// How much passes.
#[derive(Clone, Debug)]
pub enum Allowance {
    /// Everything: what is more specific takes something out of a wider limit.
    Unlimited,
    /// So much.
    Limited {
        /// In the words of the configuration.
        rate: Rate,
        /// How it is counted.
        algorithm: Algorithm,
        /// The same, with its burst, as it is counted.
        spec: Arc<Spec>,
    },
}

/// One entry of a limit's descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Which values.
    pub value: Wanted,
    /// Whether values that differ count together.
    pub together: bool,
}

/// Which values an entry is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Every one.
    Any,
    /// This one.
    Is(String),
    /// What begins so.
    Begins(String),
    /// Every other than this.
    Not(String),
}

/// How the entries of a limit are those of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// One by one and in their order, with nothing left over. Of several such limits the most specific one is met.
    Whole,
    /// All of them are among those of the descriptor. Every such limit is met, and counts once for a request.
    Part,
}

/// Who counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everybody who asks this process.
    Node,
    /// Everybody who asks a process with the same store.
    Fleet,
}

/// What holds while the store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStoreLoss {
    /// The limit, for this process alone.
    Local,
    /// Nothing: it lets everything pass.
    Open,
    /// The call fails, and the proxy does what it is told to do then.
    Closed,
}

/// What clients are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// Nothing.
    Never,
    /// When to come back, when a request is refused.
    Refusals,
    /// That, and what is left when it passes.
    Always,
}

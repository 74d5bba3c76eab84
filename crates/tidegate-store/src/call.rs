//! How one operation is to be carried out.

use std::time::Duration;

use tidegate_core::session::{Replication, Wait};

/// The bounds of one operation.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Longest wait for the answer. The operation may have happened when it is over.
    pub timeout: Duration,
    /// Replicas that must have a write before it is acknowledged; on connections of their own.
    pub wait: Option<Wait>,
}

/// The reply to a write and how many replicas have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acked<T> {
    /// The reply.
    pub reply: T,
    /// Replicas that have it.
    pub replication: Replication,
}

impl Call {
    /// An operation that waits for no replica.
    pub const fn within(timeout: Duration) -> Self {
        Self {
            timeout,
            wait: None,
        }
    }
}

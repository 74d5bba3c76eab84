//! How one operation is to be carried out.

use std::time::Duration;

use tidegate_core::session::{Durability, Replication, Wait};

/// The bounds of one operation.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Longest wait for the answer. The operation may have happened when it is over.
    pub timeout: Duration,
    /// Replicas that must have a write before it is acknowledged; on connections of their own.
    pub wait: Option<Wait>,
    /// Whether a write is kept for a while, to be written again should the store lose it.
    pub redo: bool,
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
    /// An operation that waits for no replica and is not kept.
    pub const fn within(timeout: Duration) -> Self {
        Self {
            timeout,
            wait: None,
            redo: false,
        }
    }

    /// The same, with what `durability` promises.
    pub const fn with(self, durability: Durability) -> Self {
        Self {
            timeout: self.timeout,
            wait: durability.wait,
            redo: durability.redo,
        }
    }
}

impl<T> Acked<T> {
    /// The same with what `read` makes of the reply.
    pub(crate) fn read<U, E>(self, read: impl FnOnce(T) -> Result<U, E>) -> Result<Acked<U>, E> {
        Ok(Acked {
            reply: read(self.reply)?,
            replication: self.replication,
        })
    }
}

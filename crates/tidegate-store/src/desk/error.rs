//! Why a desk cannot do what it is asked for.

use tidegate_core::session::Name;

use crate::StoreError;
use crate::embedded::EmbeddedError;

/// Why a desk cannot do what it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeskError {
    /// The store is away, and this cannot be done without it.
    #[error("the store is away")]
    Away,
    /// Too much of this is under way.
    #[error("too many operations are under way")]
    Busy,
    /// The new id is taken: draw another.
    #[error("the new id is taken")]
    Taken,
    /// The write stands, but fewer replicas have it than are wanted, and it may yet be lost.
    #[error("the write was applied, but only {replicas} replicas have it")]
    NotReplicated {
        /// How many have it.
        replicas: u8,
    },
    /// What was to be stored is over a ceiling; nothing was changed.
    #[error("{size} is over the ceiling of {ceiling}")]
    TooLarge {
        /// The value that is too large; `None` when the session would be.
        name: Option<Name>,
        /// What it would have come to, in bytes, or in attributes for the count.
        size: u64,
        /// The ceiling.
        ceiling: u32,
    },
    /// The answer, or what is stored, makes no sense.
    #[error("the store holds or says something odd: {0}")]
    Odd(String),
}

/// Why a desk does not start. Never because the store is away.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file of the embedded store cannot be used.
    #[error(transparent)]
    File(#[from] EmbeddedError),
    /// The system gives no thread, or no random numbers.
    #[error("the desk's thread does not start: {0}")]
    Thread(#[from] std::io::Error),
}

impl From<StoreError> for DeskError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Odd(what) => Self::Odd(what),
            StoreError::Busy => Self::Busy,
            StoreError::Away
            | StoreError::Timeout
            | StoreError::Broken(_)
            | StoreError::Refused(_) => Self::Away,
        }
    }
}

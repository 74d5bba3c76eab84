//! Why an operation has no reply.

/// Why an operation has no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The breaker is open: nothing was sent.
    #[error("the store is away")]
    Away,
    /// The lane is full: nothing was sent.
    #[error("too many operations are under way")]
    Busy,
    /// No answer in time: it may have happened or may still.
    #[error("no answer in time")]
    Timeout,
    /// The connection broke: it may have happened.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The store refuses: `READONLY`, `NOAUTH`, `OOM` and the like. Nothing happened.
    #[error("the store refuses: {0}")]
    Refused(String),
    /// The answer, or what is stored, makes no sense.
    #[error("the store holds or says something odd: {0}")]
    Odd(String),
}

impl StoreError {
    /// Whether the operation may have happened, so that only the same one may be sent again.
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Timeout | Self::Broken(_))
    }
}

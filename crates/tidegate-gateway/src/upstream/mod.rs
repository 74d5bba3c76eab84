//! The way to an application: its connections and the exchange of a request for an answer.

mod answer;
mod chunks;
mod connection;
pub(crate) mod exchange;
mod held;
mod pool;
mod sending;

use tidegate_http::refusal::Refusal;

pub use self::pool::Upstream;

/// Why the application, or the way to it, did not answer as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamFailure {
    /// No connection could be made.
    Connect,
    /// All connections were taken for as long as a request may wait for one.
    Connections,
    /// The connection broke before the answer had begun.
    Reset,
    /// The head of the answer was no HTTP, or over the limits on answers.
    Invalid,
    /// The answer had not begun in time.
    Timeout,
    /// The connection broke inside the answer.
    Broken,
    /// The answer fell silent.
    Silent,
    /// A kept connection was closed before anything was sent on it; another one was taken.
    Stale,
}

impl UpstreamFailure {
    /// Every failure.
    pub const ALL: [Self; 8] = [
        Self::Connect,
        Self::Connections,
        Self::Reset,
        Self::Invalid,
        Self::Timeout,
        Self::Broken,
        Self::Silent,
        Self::Stale,
    ];

    /// Position in [`UpstreamFailure::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Connections => "connections",
            Self::Reset => "reset",
            Self::Invalid => "invalid",
            Self::Timeout => "timeout",
            Self::Broken => "broken",
            Self::Silent => "silent",
            Self::Stale => "stale",
        }
    }
}

/// What is answered when the other side did not.
impl From<UpstreamFailure> for Refusal {
    fn from(failure: UpstreamFailure) -> Self {
        match failure {
            UpstreamFailure::Connect => Self::UpstreamConnect,
            UpstreamFailure::Connections => Self::UpstreamConnections,
            UpstreamFailure::Timeout => Self::UpstreamTimeout,
            UpstreamFailure::Invalid => Self::UpstreamInvalid,
            UpstreamFailure::Reset
            | UpstreamFailure::Broken
            | UpstreamFailure::Silent
            | UpstreamFailure::Stale => Self::UpstreamReset,
        }
    }
}

/// How many connections there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Waiting for a request.
    pub idle: u32,
    /// With one.
    pub busy: u32,
    /// Bytes of answers that are buffered for slow clients.
    pub response_buffer_bytes: u64,
}

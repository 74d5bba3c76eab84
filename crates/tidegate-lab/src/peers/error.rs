//! Why a peer is not as wanted.

use std::io;
use std::time::Duration;

/// Why a peer is not as wanted.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The program could not be started.
    #[error("cannot start {program}: {cause}")]
    Start {
        /// What was to be started.
        program: String,
        /// Why it was not.
        cause: io::Error,
    },
    /// It ended instead of getting ready; its last words.
    #[error("{program} ended before it was ready: {log}")]
    Ended {
        /// What had been started.
        program: String,
        /// The end of its log.
        log: String,
    },
    /// Something did not come about in time.
    #[error("not within {within:?}: {what}")]
    TooLate {
        /// What was waited for, and how it was instead.
        what: String,
        /// How long.
        within: Duration,
    },
    /// No port of the loopback address is free.
    #[error("no port is free")]
    NoPort,
    /// A server refuses what it is asked.
    #[error("the server says: {0}")]
    Refused(String),
    /// Reading, writing or signalling failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

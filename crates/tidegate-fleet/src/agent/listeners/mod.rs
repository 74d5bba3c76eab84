//! Connections that wait to be accepted, of the sockets that the application listens on.
//!
//! The kernel is asked for sockets that listen and for no others: that takes some tens of microseconds however many
//! connections there are, and tells how many a queue may hold, which `/proc/net/tcp` does not.

mod diag;
mod messages;
mod watch;

pub use diag::Diag;
pub use watch::{At, AtError, Depth, Watch};

//! The data path: everything between a client's socket and the application's.

pub mod body;
pub mod classify;
pub mod context;
pub mod forward;
pub mod framing;
pub mod gate;
pub mod metrics;
pub mod plan;
pub mod request;
pub mod slot;
pub mod upstream;

//! The data path: everything between a client's socket and the application's.

pub mod plan;

//! Envoy's rate limit service v3: Envoy, and everything else that speaks it, asks Tidegate's limits over gRPC.
//!
//! A proxy sends a domain and descriptors, lists of keys and values that it has made of a request. [`RlsPlan`] says which of
//! them meet which limits; the limits are those of `tidegate_core::rate`, kept in this process or in a store that a
//! fleet shares. Decided is for a whole request: all its limits are spent from, or none.
//!
//! Nothing here knows the data path. This is the only crate that links gRPC.

mod answer;
mod book;
mod charges;
mod counts;
mod decide;
mod grpc;
pub mod messages;
mod plan;
mod server;

pub use charges::{DESCRIPTORS_MAX, ENTRIES_MAX, ENTRY_BYTES_MAX};
pub use counts::{DomainTally, LimitTally, Tally};
pub use grpc::PATH;
pub use plan::{
    Allowance, Entry, Fit, Headers, OnStoreLoss, RLS_LIMITS_MAX, RlsLimit, RlsPlan, Scope, Wanted,
};
pub use server::{Rls, RlsError};

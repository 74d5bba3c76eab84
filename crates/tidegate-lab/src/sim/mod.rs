//! A world in one thread and virtual time, over the production core.
//!
//! A run is a function of the scenario, the policy and the seed: the same three give the same
//! events in the same order, on any machine.

pub mod backend;
pub mod policy;
pub mod record;

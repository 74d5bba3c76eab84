//! A world in one thread and virtual time, over the production core.
//!
//! A run is a function of the scenario, the policy and the seed: the same three give the same
//! events in the same order, on any machine.

mod arrivals;
mod attempts;
pub mod backend;
mod clients;
mod gateways;
mod latencies;
pub mod policy;
pub mod record;
mod recorder;
mod seeds;
#[cfg(test)]
mod tests;
mod trace;
mod window;
mod world;

use std::time::Duration;

use crate::scenario::Scenario;
use policy::Policy;
use record::Record;
use world::World;

/// Runs `scenario` under `policy`; `seed` decides every draw.
pub fn run(scenario: &Scenario, policy: &Policy, seed: u64) -> Record {
    run_watched(scenario, policy, seed, &mut |_| {})
}

/// The same, and tells `watch` how much of the simulated time is over, every [`record::LOOK`].
pub fn run_watched(
    scenario: &Scenario,
    policy: &Policy,
    seed: u64,
    watch: &mut dyn FnMut(Duration),
) -> Record {
    World::new(scenario, policy, seed).run(watch)
}

//! A world in one thread and virtual time, over the production core.
//!
//! Clients ask, gateways decide by the very [`Admission`](tidegate_core::admission::Admission) that
//! the product runs, and a model of the application works on what was let in. A run is a function
//! of the scenario, the policy and the seed: the same three give the same events in the same order
//! on any machine, and one hash over all of them tells two runs apart. Whoever draws has a
//! generator of its own, so the same clients come under every policy.
//!
//! What goes where: `world` is the loop that takes whatever happens next, [`backend`] the
//! application with its faults, `clients` (with `arrivals`) who asks and asks again, `gateways`
//! (with `hub`) what stands in between, [`policy`] what it is made of, and [`record`] what is left of
//! a run.
//!
//! There is no network in here: a request takes no time on its way, deciding and refusing cost
//! nothing, and an answer is there as a whole. What no costs is for measurements to say.

mod arrivals;
mod attempts;
pub mod backend;
mod clients;
mod gateways;
mod hub;
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

use crate::scenario::Scenario;
use policy::Policy;
use record::Record;
use world::World;

/// Runs `scenario` under `policy`; `seed` decides every draw.
pub fn run(scenario: &Scenario, policy: &Policy, seed: u64) -> Record {
    World::new(scenario, policy, seed).run()
}

//! A room in virtual time: people who come, wait, sign in, give up without a word and miss their turn, before the very
//! ledger, release, positions and estimate that the product runs.
//!
//! What goes where: [`Story`] is what happens to a room, `people` who comes and what they do, `world` the second-by-second
//! loop with its leader, [`formulas`] the waits that others would tell, `watched` what somebody reads from
//! beginning to end, and [`Record`] what is left of a run.
//!
//! A run is a function of the story and the seed. Nothing takes time on its way in here, and the store never fails.

pub mod formulas;
mod people;
mod record;
mod story;
#[cfg(test)]
mod tests;
mod watched;
mod world;

pub use formulas::Formula;
pub use record::{Accuracy, Counted, JUDGED_MIN_S, Passed, Record, Told};
pub use story::{BOUNCE_S, Crowd, Ramp, Story, Wave};

use world::World;

/// Plays `story`; `seed` decides every draw.
pub fn run(story: &Story, seed: u64) -> Record {
    World::new(story, seed).run()
}

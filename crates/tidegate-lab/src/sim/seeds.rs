//! One seed for a run, and from it one for everything that draws.

use tidegate_core::rng::Rng;

/// Who draws. Each has a generator of its own, so that one that draws more often, or one that is
/// added, does not shift what the others get: under every policy the same clients arrive.
#[derive(Clone, Copy, Debug)]
pub(super) enum Concern {
    Arrivals,
    Calls,
    Retries,
    RetryAfter,
    Policy,
    Backend,
    Hub,
}

/// The seed for number `index` of `concern` in the run of `seed`.
pub(super) const fn of(seed: u64, concern: Concern, index: usize) -> u64 {
    let mut rng = Rng::new(seed);
    let run = rng.next_u64();
    let mut rng = Rng::new(run ^ ((concern as u64 + 1) << 32) ^ index as u64);
    rng.next_u64()
}

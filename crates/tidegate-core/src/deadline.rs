//! skeleton
use crate::rng::Rng;
use std::time::Duration;
/// Seconds for `Retry-After`: 1 + ⌊drain + U(0, max(3 s, 2·drain))⌋.
pub fn retry_after(_drain: Duration, _rng: &mut Rng) -> u64 {
    todo!()
}

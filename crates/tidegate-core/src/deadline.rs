//! Deadlines: what is left of a caller's patience, and when a refused caller should come back.

use std::time::Duration;

use crate::rng::Rng;
use crate::time::Mono;

/// Longest wait that a refusal asks for: a longer promise would outlive most overloads.
const RETRY_AFTER_SECONDS_MAX: u64 = 60;

/// The deadline of a caller who says that `remaining` is left of its patience, of which `spent` went
/// by before the request reached us.
pub fn deadline(now: Mono, remaining: Duration, spent: Duration) -> Mono {
    now + remaining.saturating_sub(spent)
}

/// Whole milliseconds left until `deadline`, rounded down so that nobody downstream is promised
/// more than there is. `None` when there is no deadline.
pub fn millis_left(now: Mono, deadline: Mono) -> Option<u64> {
    (deadline != Mono::MAX).then(|| deadline.since(now).as_nanos() as u64 / 1_000_000)
}

/// Seconds for `Retry-After`: 1 + ⌊drain + U(0, max(3 s, 2 · drain))⌋, at most a minute.
///
/// `drain` is how long the queue takes to empty. The header has a grain of a second, so the jitter
/// spans at least three even when the queue empties in milliseconds: callers that come back in step
/// are a second peak.
pub fn retry_after(drain: Duration, rng: &mut Rng) -> u64 {
    let drain = drain.as_secs_f64();
    let jitter = rng.unit() * (2.0 * drain).max(3.0);
    ((drain + jitter) as u64)
        .saturating_add(1)
        .min(RETRY_AFTER_SECONDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_before_us_is_gone() {
        let now = Mono::from_millis(1000);
        let span = Duration::from_millis;

        assert_eq!(deadline(now, span(500), span(200)), Mono::from_millis(1300));
        assert_eq!(deadline(now, span(500), span(900)), now);
        assert_eq!(millis_left(now, Mono::from_millis(1300)), Some(300));
        assert_eq!(millis_left(now, Mono::from_millis(900)), Some(0));
        assert_eq!(millis_left(now, Mono::MAX), None);
    }

    #[test]
    fn callers_are_spread_over_three_seconds_at_least_and_never_sent_off_for_hours() {
        let mut rng = Rng::new(3);
        let mut seen = [0u32; 5];
        for _ in 0..3000 {
            seen[retry_after(Duration::from_millis(50), &mut rng) as usize] += 1;
        }

        assert_eq!(seen[0], 0);
        assert!(seen[1..4].iter().all(|&count| count > 800), "{seen:?}");
        assert!(retry_after(Duration::MAX, &mut rng) <= RETRY_AFTER_SECONDS_MAX);
    }
}

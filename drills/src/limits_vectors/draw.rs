//! What is drawn for a story.

use tidegate_core::rate::{Algorithm, Rate, Spec};
use tidegate_core::rng::Rng;

use super::rate_model::Words;

const SECOND: u64 = 1_000_000;
const PERIODS: [u64; 4] = [SECOND, 60 * SECOND, 3_600 * SECOND, 24 * 3_600 * SECOND];
/// One limit in so many denies everything.
const DENIES_ONE_IN: u64 = 40;

/// A limit that can be kept.
pub(super) fn words(rng: &mut Rng) -> Words {
    if rng.below(DENIES_ONE_IN) == 0 {
        return Words {
            algorithm: Algorithm::Bucket,
            rate: Rate {
                tokens: 0,
                period_us: SECOND,
            },
            burst: 1,
            parts: 1,
        };
    }
    let algorithm = match rng.below(4) {
        0 => Algorithm::Log,
        1 => Algorithm::Window,
        _ => Algorithm::Bucket,
    };
    loop {
        if let Some(words) = of(algorithm, rng) {
            return words;
        }
    }
}

/// One of this algorithm, unless the numbers that come up are too fine.
pub(super) fn of(algorithm: Algorithm, rng: &mut Rng) -> Option<Words> {
    let tokens = match (algorithm, rng.below(3)) {
        // Twice as many entries, with debt, still are no more than there may be.
        (Algorithm::Log, _) => 1 + rng.below(64),
        (_, 0) => 1 + rng.below(19),
        (_, 1) => 1 + rng.below(1_500),
        _ => 1_000_000,
    };
    let period_us = match rng.below(6) {
        4 => 1 + rng.below(10 * SECOND),
        5 => 1 + rng.below(100),
        _ => PERIODS[rng.below(4) as usize],
    };
    let burst = 1 + rng.below(49);
    let words = Words {
        algorithm,
        rate: Rate { tokens, period_us },
        burst,
        // A bucket is divided into no more parts than it holds tokens.
        parts: 1 + rng.below(9).min(burst - 1) as u32,
    };
    let bucket = algorithm == Algorithm::Bucket;
    let whole = Spec::new(algorithm, words.rate, bucket.then_some(burst));
    whole.is_ok().then_some(words)
}

/// How much later the next step is, for a story with such a limit.
pub(super) fn pause_us(words: &Words, rng: &mut Rng) -> u64 {
    let Rate { tokens, period_us } = words.rate;
    let token_us = (period_us * u64::from(words.parts) / tokens.max(1)).max(1);
    match rng.below(17) {
        0..3 => 0,
        3..6 => 1 + rng.below(3),
        6..14 => rng.below(3_000) * token_us / 1_000,
        _ => rng.below(1_500) * period_us / 1_000,
    }
}

/// What a request costs where `most` is the most there ever is: a little, or some part of it, now and then more.
pub(super) fn cost(most: u64, rng: &mut Rng) -> u64 {
    match rng.below(3) {
        0 => rng.below(4),
        _ => (rng.below(105) * most).div_ceil(100),
    }
}

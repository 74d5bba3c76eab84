//! One caller's attempts: how many, and how far apart.

use std::time::Duration;

use super::RETRY_AFTER_MAX;
use crate::rng::Rng;
use crate::time::nanos;

/// How one caller tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Attempts in all, the first included; 0 and 1 mean no retry.
    pub attempts: u32,
    /// How long it pauses before a retry.
    pub pause: Pause,
    /// Whether a `Retry-After` puts a retry off for as long as it says.
    pub heed_retry_after: bool,
}

/// The pause before a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// None: the retry follows at once.
    None,
    /// Always the same.
    Fixed(Duration),
    /// Doubling with each retry.
    Backoff {
        /// Before the first retry.
        base: Duration,
        /// However many retries there have been, no longer than this.
        most: Duration,
        /// Whether it is drawn evenly between 0 and that instead ("full jitter", Marc Brooker:
        /// "Exponential Backoff And Jitter", AWS Architecture Blog, 2015). Without it, callers that
        /// failed together come back together.
        jitter: bool,
    },
}

impl Policy {
    /// The pause before attempt number `next`, 2 being the first retry; `None` when there is none.
    ///
    /// `retry_after` is what the refusal said. It is a floor and not an addend: whoever sends it has
    /// chosen the moment, and drawing another one on top would leave the slot it had kept unused.
    pub fn pause(
        &self,
        next: u32,
        retry_after: Option<Duration>,
        rng: &mut Rng,
    ) -> Option<Duration> {
        if next > self.attempts {
            return None;
        }
        let own = self.pause.before(next.saturating_sub(1), rng);
        let asked = retry_after
            .filter(|_| self.heed_retry_after)
            .unwrap_or_default()
            .min(RETRY_AFTER_MAX);
        Some(own.max(asked))
    }
}

impl Pause {
    /// Before retry number `retry`, counted from 1.
    fn before(self, retry: u32, rng: &mut Rng) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed(pause) => pause,
            Self::Backoff { base, most, jitter } => {
                let doublings = retry.saturating_sub(1);
                let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
                let pause = base.saturating_mul(factor).min(most);
                if jitter {
                    Duration::from_nanos(rng.below(nanos(pause).saturating_add(1)))
                } else {
                    pause
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, proptest};

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn backoff(jitter: bool) -> Policy {
        Policy {
            attempts: 6,
            pause: Pause::Backoff {
                base: ms(50),
                most: ms(300),
                jitter,
            },
            heed_retry_after: true,
        }
    }

    #[test]
    fn a_backoff_doubles_up_to_its_most_and_ends_with_the_attempts() {
        let mut rng = Rng::new(1);

        let pauses: Vec<_> = (2..=7)
            .map(|next| backoff(false).pause(next, None, &mut rng))
            .collect();

        let expected = [50, 100, 200, 300, 300].map(|pause| Some(ms(pause)));
        assert_eq!(pauses[..5], expected);
        assert_eq!(pauses[5], None);
    }

    #[test]
    fn jitter_is_spread_over_the_whole_pause() {
        let mut rng = Rng::new(1);
        let mut quarters = [0u32; 4];

        for _ in 0..4000 {
            let pause = backoff(true).pause(4, None, &mut rng).unwrap();
            quarters[(pause.as_millis() / 50).min(3) as usize] += 1;
        }

        assert!(
            quarters.iter().all(|&count| (900..1100).contains(&count)),
            "{quarters:?}"
        );
    }

    #[test]
    fn a_retry_after_is_a_floor_that_is_clamped_and_not_added() {
        let mut rng = Rng::new(1);
        let policy = backoff(false);

        assert_eq!(policy.pause(2, Some(ms(20)), &mut rng), Some(ms(50)));
        assert_eq!(policy.pause(2, Some(ms(2000)), &mut rng), Some(ms(2000)));
        let day = Duration::from_secs(86_400);
        assert_eq!(policy.pause(2, Some(day), &mut rng), Some(RETRY_AFTER_MAX));
    }

    #[test]
    fn whoever_does_not_heed_a_retry_after_comes_back_as_it_likes() {
        let policy = Policy {
            attempts: 3,
            pause: Pause::None,
            heed_retry_after: false,
        };

        let pause = policy.pause(2, Some(ms(2000)), &mut Rng::new(1));

        assert_eq!(pause, Some(Duration::ZERO));
    }

    proptest! {
        #[test]
        fn pauses_stay_within_their_bounds(
            base in 0u64..u64::MAX,
            most in 0u64..u64::MAX,
            next: u32,
            asked in prop::option::of(any::<u64>()),
            seed: u64,
        ) {
            let most = Duration::from_nanos(most);
            let policy = Policy {
                attempts: u32::MAX,
                pause: Pause::Backoff { base: Duration::from_nanos(base), most, jitter: true },
                heed_retry_after: true,
            };
            let asked = asked.map(Duration::from_nanos);

            let pause = policy.pause(next, asked, &mut Rng::new(seed)).unwrap();

            let floor = asked.unwrap_or_default().min(RETRY_AFTER_MAX);
            prop_assert!(floor <= pause && pause <= most.max(floor));
        }
    }
}

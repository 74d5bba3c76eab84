//! `Retry-After` as places in line: whoever refuses says when to come back, and to each another time.

use std::num::NonZeroU32;
use std::time::Duration;

use super::RETRY_AFTER_MAX;
use crate::time::Mono;

const SECOND_NS: u128 = 1_000_000_000;

/// Times to come back at, handed out at a steady rate.
#[derive(Clone, Debug)]
pub struct Slots {
    per_second: NonZeroU32,
    /// The latest slot that was handed out, in nanoseconds times `per_second`: the distance between
    /// two slots is then the whole number [`SECOND_NS`] whatever the rate.
    taken: u128,
    latest: Mono,
}

impl Slots {
    /// Invites `per_second` callers to each second.
    pub const fn new(per_second: NonZeroU32) -> Self {
        Self {
            per_second,
            taken: 0,
            latest: Mono::from_nanos(0),
        }
    }

    /// How long one more refused caller should wait. Not whole seconds: rounding up is left to
    /// whoever writes the header.
    ///
    /// Nobody is sent further away than [`RETRY_AFTER_MAX`]; those who would be all get that time
    /// and take no slot, so the line never grows beyond it.
    pub fn invite(&mut self, now: Mono) -> Duration {
        self.latest = self.latest.max(now);
        let rate = u128::from(self.per_second.get());
        let present = u128::from(self.latest.as_nanos()) * rate;
        let slot = self.taken.max(present) + SECOND_NS;
        let wait_ns = (slot - present).div_ceil(rate);
        if wait_ns > RETRY_AFTER_MAX.as_nanos() {
            return RETRY_AFTER_MAX;
        }
        self.taken = slot;
        Duration::from_nanos(wait_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slots(per_second: u32) -> Slots {
        Slots::new(NonZeroU32::new(per_second).unwrap())
    }

    #[test]
    fn three_thousand_refused_at_once_come_back_over_ten_seconds() {
        let mut slots = slots(300);
        let mut by_second = [0u32; 10];

        for _ in 0..3000 {
            // A client that acts once a second comes at the first whole one that is late enough.
            let second = slots.invite(Mono::from_millis(7000)).as_secs_f64().ceil();
            by_second[second as usize - 1] += 1;
        }

        assert_eq!(by_second, [300; 10]);
    }

    #[test]
    fn a_slot_that_nobody_took_is_not_kept() {
        let mut slots = slots(10);
        slots.invite(Mono::default());

        let wait = slots.invite(Mono::from_millis(60_000));

        assert_eq!(wait, Duration::from_millis(100));
    }

    #[test]
    fn nobody_is_sent_further_away_than_the_bound() {
        let mut slots = slots(1);

        let last = (0..10_000).map(|_| slots.invite(Mono::default())).last();

        assert_eq!(last, Some(RETRY_AFTER_MAX));
        let later = Mono::default() + RETRY_AFTER_MAX;
        assert_eq!(slots.invite(later), Duration::from_secs(1));
    }

    proptest! {
        #[test]
        fn no_second_is_promised_to_more_than_the_rate(
            per_second in 1u32..50,
            refusals in prop::collection::vec(0u64..20_000, 1..400),
        ) {
            let mut slots = slots(per_second);
            let mut latest = 0;
            let mut back = Vec::new();
            for at in refusals {
                latest = at.max(latest);
                let wait = slots.invite(Mono::from_millis(at));
                prop_assert!(wait <= RETRY_AFTER_MAX);
                if wait < RETRY_AFTER_MAX {
                    back.push(Duration::from_millis(latest) + wait);
                }
            }
            back.sort();
            let few = per_second as usize;
            for pair in back.windows(few + 1) {
                // Rounding up to a nanosecond may bring two ends of a second that much nearer.
                let span = pair[few] - pair[0] + Duration::from_nanos(1);
                prop_assert!(span >= Duration::from_secs(1));
            }
        }

        #[test]
        fn nothing_that_comes_in_makes_it_panic(
            per_second in 1u32..,
            times in prop::collection::vec(any::<u64>(), 1..50),
        ) {
            let mut slots = slots(per_second);
            for at in times {
                prop_assert!(slots.invite(Mono::from_nanos(at)) <= RETRY_AFTER_MAX);
            }
        }
    }
}

//! A limit whose rate is a part of what is written, for as long as something else says so.
//!
//! Nothing is remembered anew for it: the limit is counted in hundredths of a token, and a request takes more of them. Who
//! asks a hundred units for a token meets the limit as it is written; who asks two hundred meets half of its rate and half of its
//! burst. The states that there are, here and in a store, mean the same before and after, whatever the algorithm and
//! however gateways share it, and gateways that hear of a change at different moments spend out of one bucket all the same.

use super::{Rate, Spec, SpecError};

/// Units of a token at the rate that is written.
pub const UNITS: u64 = 100;
/// The least part of the rate that is ever left, in thousandths.
pub const SHARE_MIN: u32 = 100;
/// Everything, in thousandths.
pub const SHARE_ALL: u32 = 1_000;

/// What a token takes of a limit, in what the limit is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Price(u64);

impl Price {
    /// Of a limit that follows nothing: it is counted in tokens.
    pub const FIXED: Self = Self(1);
    /// Of a limit in units, at the rate that is written.
    pub const FULL: Self = Self(UNITS);

    /// Of a limit in units of whose rate `share` is left, in thousandths; [`SHARE_MIN`] to [`SHARE_ALL`].
    pub const fn at(share: u32) -> Self {
        let share = if share < SHARE_MIN {
            SHARE_MIN
        } else if share > SHARE_ALL {
            SHARE_ALL
        } else {
            share
        };
        let (whole, share) = (UNITS * SHARE_ALL as u64, share as u64);
        // To the nearest: the share that is left is off by half a hundredth at most.
        Self((whole + share / 2) / share)
    }

    /// What `tokens` take of a limit with `most` at once.
    ///
    /// What fits at the rate that is written takes everything there is at most: it waits longer and is not turned away
    /// for good because there is little room for a while.
    pub const fn of(self, tokens: u64, most: u64) -> u64 {
        let price = tokens.saturating_mul(self.0);
        if self.0 > UNITS && price > most && tokens.saturating_mul(UNITS) <= most {
            return most;
        }
        price
    }

    /// The whole tokens that so much is.
    pub const fn tokens(self, of: u64) -> u64 {
        of / self.0
    }

    /// The part of the rate that is left, in thousandths.
    pub const fn share(self) -> u32 {
        if self.0 <= UNITS {
            return SHARE_ALL;
        }
        (UNITS * SHARE_ALL as u64 / self.0) as u32
    }

    /// What is left of `rate`: as many whole tokens of it in the same time, or one in a longer one.
    pub const fn rate(self, rate: Rate) -> Rate {
        if self.0 <= UNITS || rate.tokens == 0 {
            return rate;
        }
        let units = rate.tokens.saturating_mul(UNITS);
        if units >= self.0 {
            return Rate {
                tokens: units / self.0,
                ..rate
            };
        }
        let period = rate.period_us as u128 * self.0 as u128 / units as u128;
        Rate {
            tokens: 1,
            period_us: if period > u64::MAX as u128 {
                u64::MAX
            } else {
                period as u64
            },
        }
    }
}

/// The thousandths that are left of a rate with a `floor`, where so many thousandths of the rest are.
pub const fn share_above(floor: u32, of_the_rest: u32) -> u32 {
    let floor = if floor > SHARE_ALL { SHARE_ALL } else { floor };
    let of = if of_the_rest > SHARE_ALL {
        SHARE_ALL
    } else {
        of_the_rest
    };
    floor + (SHARE_ALL - floor) * of / SHARE_ALL
}

impl Spec {
    /// The same limit, counted in units of a token.
    ///
    /// # Errors
    ///
    /// When so many of them cannot be counted exactly. A log has an entry for each and is too long from two tokens on.
    pub fn in_units(&self) -> Result<Self, SpecError> {
        Ok(match self {
            Self::Bucket(spec) => Self::Bucket(spec.in_units(UNITS)?),
            Self::Log(spec) => {
                let limit = spec.limit().saturating_mul(UNITS);
                return Err(SpecError::LogTooLong { limit });
            }
            Self::Window(spec) => {
                let limit = spec.limit().saturating_mul(UNITS);
                Self::Window(super::window::WindowSpec::new(limit, spec.window_us())?)
            }
            Self::Deny => Self::Deny,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rate::{Algorithm, Tick};

    const SECOND: u64 = 1_000_000;

    fn spec(algorithm: Algorithm, words: &str) -> Spec {
        let whole = Spec::new(algorithm, words.parse().unwrap(), None).unwrap();
        whole.in_units().unwrap()
    }

    /// Requests of one token that pass in `seconds`, asked for every millisecond, at the price that `price_at` says.
    fn passed(spec: &Spec, seconds: u64, price_at: impl Fn(u64) -> Price) -> usize {
        let mut state = spec.full(Tick(0));
        let passes = |ms: u64| {
            let (now, cost) = (Tick(ms * 1_000), price_at(ms).of(1, spec.most()));
            spec.take(&mut state, now, cost).is_ok()
        };
        (0..seconds * 1_000).map(passes).filter(|&it| it).count()
    }

    #[test]
    fn half_of_a_limit_lets_half_as_much_pass() {
        for (algorithm, whole, half) in [
            (Algorithm::Bucket, 1_099, 549),
            (Algorithm::Window, 1_000, 500),
        ] {
            let spec = spec(algorithm, "100/s");
            let near = |passed: usize, expected: usize| passed.abs_diff(expected) <= 60;

            let at = |share| passed(&spec, 10, |_| Price::at(share));

            assert!(near(at(1_000), whole), "{algorithm:?} {}", at(1_000));
            assert!(near(at(500), half), "{algorithm:?} {}", at(500));
        }
    }

    #[test]
    fn a_share_that_changes_makes_no_tokens() {
        let spec = spec(Algorithm::Bucket, "100/s");

        let moved = passed(&spec, 10, |ms| {
            Price::at(if ms / 100 % 2 == 0 { 200 } else { 1_000 })
        });

        let whole = passed(&spec, 10, |_| Price::FULL);
        assert!(moved <= whole, "{moved} of {whole}");
    }

    #[test]
    fn what_fits_at_the_whole_rate_waits_and_is_not_turned_away_for_good() {
        let spec = spec(Algorithm::Bucket, "5/s");
        let dear = Price::at(100).of(4, spec.most());

        assert_eq!(dear, spec.most());
        assert!(spec.fits(dear).is_ok());
        assert!(spec.fits(Price::at(100).of(6, spec.most())).is_err());
        assert_eq!(Price::FIXED.of(4, 5), 4);
    }

    #[test]
    fn clients_are_told_whole_tokens() {
        let rate = |words: &str| words.parse::<Rate>().unwrap();

        assert_eq!(Price::FULL.rate(rate("10/min")), rate("10/min"));
        assert_eq!(Price::at(500).rate(rate("10/min")), rate("5/min"));
        assert_eq!(Price::at(250).rate(rate("2/s")), rate("1/2s"));
        assert_eq!(Price::FIXED.rate(rate("0/s")), rate("0/s"));
    }

    #[test]
    fn a_log_is_too_long_and_nothing_stays_nothing() {
        let log = Spec::new(Algorithm::Log, "10/s".parse().unwrap(), None).unwrap();

        assert_eq!(log.in_units(), Err(SpecError::LogTooLong { limit: 1_000 }));
        assert_eq!(Spec::Deny.in_units(), Ok(Spec::Deny));
    }

    proptest! {
        #[test]
        fn a_price_keeps_its_share(floor in SHARE_MIN..=SHARE_ALL, rest in 0..=SHARE_ALL) {
            let share = share_above(floor, rest);
            prop_assert!((floor..=SHARE_ALL).contains(&share));

            let price = Price::at(share);

            prop_assert!(price >= Price::FULL);
            prop_assert!(price.share().abs_diff(share) <= 5, "{} for {share}", price.share());
        }

        #[test]
        fn a_bucket_at_a_share_keeps_to_it_over_any_time(
            tokens in 1..2_000_u64,
            burst in 1..100_u64,
            share in SHARE_MIN..=SHARE_ALL,
            seconds in 1..20_u64,
        ) {
            let rate = Rate { tokens, period_us: SECOND };
            let whole = Spec::new(Algorithm::Bucket, rate, Some(burst)).unwrap();
            let spec = whole.in_units().unwrap();
            let price = Price::at(share);

            let passed = passed(&spec, seconds, |_| price) as u64;

            let most = (burst + tokens * seconds) * UNITS;
            prop_assert!(passed * price.of(1, spec.most()) <= most);
            prop_assert_eq!(Price::FULL.of(burst, spec.most()), spec.most());
        }
    }
}

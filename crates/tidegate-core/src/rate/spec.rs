//! What a limit is, in the words of a configuration, and why some words make no limit.

use std::fmt;
use std::str::FromStr;

use super::bucket::BucketSpec;
use super::log::{ENTRIES_MAX, LogSpec};
use super::window::WindowSpec;

/// The longest period and window: 400 days.
pub const PERIOD_US_MAX: u64 = 400 * DAY_US;

/// How it is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// A bucket that fills at the rate and holds the burst.
    #[default]
    Bucket,
    /// An exact log: never more than the rate says in any window of its period.
    Log,
    /// A counter for the window and one for that before.
    Window,
}

/// So many tokens in so many microseconds, as people write it: `100/s`, `10/min`, `1000000/day`, `5/10s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// How many; 0 denies everything.
    pub tokens: u64,
    /// In how many microseconds, 1 to [`PERIOD_US_MAX`].
    pub period_us: u64,
}

/// A limit that can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spec {
    /// See [`Algorithm::Bucket`].
    Bucket(BucketSpec),
    /// See [`Algorithm::Log`].
    Log(LogSpec),
    /// See [`Algorithm::Window`].
    Window(WindowSpec),
    /// A rate of nothing: nothing passes and no wait helps.
    Deny,
}

/// Why a limit cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// Nothing would ever come.
    RateZero,
    /// Something each no time.
    PeriodZero,
    /// Over [`PERIOD_US_MAX`].
    PeriodTooLong,
    /// Nothing would ever pass.
    BurstZero,
    /// Only a bucket has a burst.
    BurstUnused(Algorithm),
    /// The rate has no common measure with the microsecond that is coarse enough to count in.
    TooFine {
        /// Tokens per period.
        tokens: u64,
        /// The period in microseconds.
        period_us: u64,
        /// The burst, in tokens.
        burst: u64,
        /// The largest burst that could be counted at this rate; 0 when there is none.
        burst_max: u64,
    },
    /// The same for a window: too many tokens for a length that no coarser grain divides.
    WindowTooFine {
        /// Tokens in a window.
        limit: u64,
        /// Its length in microseconds.
        window_us: u64,
    },
    /// A log would have more than [`ENTRIES_MAX`] entries.
    LogTooLong {
        /// Tokens in a window.
        limit: u64,
    },
    /// One call costs more than there ever is at once.
    CostTooHigh {
        /// What it costs.
        cost: u64,
        /// What there is at most.
        most: u64,
    },
    /// A part of it holds less than one token.
    ShareBelowOne {
        /// The burst of the whole, in tokens.
        burst: u64,
        /// Into how many parts it is divided.
        parts: u32,
    },
}

/// Why some words are no rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateError {
    /// There is nothing between a number and a period.
    NoSlash,
    /// What should be a number is none.
    NotANumber(String),
    /// What should be a unit is none.
    NotAUnit(String),
    /// What should be the number of a period is none.
    PeriodNotANumber(String),
    /// A period of nothing, or longer than [`PERIOD_US_MAX`].
    Period,
}

impl Algorithm {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Bucket, Self::Log, Self::Window];

    /// The name in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bucket => "bucket",
            Self::Log => "log",
            Self::Window => "window",
        }
    }
}

impl Spec {
    /// A limit of `rate`, and for a bucket with a `burst` other than what comes in one period.
    pub fn new(algorithm: Algorithm, rate: Rate, burst: Option<u64>) -> Result<Self, SpecError> {
        if burst.is_some() && algorithm != Algorithm::Bucket {
            return Err(SpecError::BurstUnused(algorithm));
        }
        let Rate { tokens, period_us } = rate;
        if tokens == 0 {
            return Ok(Self::Deny);
        }
        match algorithm {
            Algorithm::Bucket => {
                BucketSpec::new(tokens, period_us, burst.unwrap_or(tokens)).map(Self::Bucket)
            }
            Algorithm::Log => LogSpec::new(tokens, period_us).map(Self::Log),
            Algorithm::Window => WindowSpec::new(tokens, period_us).map(Self::Window),
        }
    }

    /// The most that one call may cost; 0 when nothing passes at all.
    pub const fn most(&self) -> u64 {
        match self {
            Self::Bucket(spec) => spec.burst(),
            Self::Log(spec) => spec.limit(),
            Self::Window(spec) => spec.limit(),
            Self::Deny => 0,
        }
    }

    /// An error if a call of `cost` would never pass. A limit that denies everything says so by itself.
    pub fn fits(&self, cost: u64) -> Result<(), SpecError> {
        let most = self.most();
        if *self != Self::Deny && cost > most {
            return Err(SpecError::CostTooHigh { cost, most });
        }
        Ok(())
    }

    /// The most tokens that pass in any `window_us` consecutive microseconds, wherever they begin.
    pub fn worst_in(&self, window_us: u64) -> u64 {
        match self {
            Self::Bucket(spec) => spec.worst_in(window_us),
            Self::Log(spec) => spec.worst_in(window_us),
            Self::Window(spec) => spec.worst_in(window_us),
            Self::Deny => 0,
        }
    }
}

const SECOND_US: u64 = 1_000_000;
const DAY_US: u64 = 24 * 3600 * SECOND_US;

/// Units of a period. `m` is none: it may be a minute or a month.
const UNITS: &[(&[&str], u64)] = &[
    (&["us", "µs"], 1),
    (&["ms"], 1000),
    (&["s", "sec", "second", "seconds"], SECOND_US),
    (&["min", "minute", "minutes"], 60 * SECOND_US),
    (&["h", "hour", "hours"], 3600 * SECOND_US),
    (&["d", "day", "days"], DAY_US),
];

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(words: &str) -> Result<Self, RateError> {
        let (tokens, period) = words.split_once('/').ok_or(RateError::NoSlash)?;
        let period = period.trim();
        let unit = period.trim_start_matches(|c: char| !c.is_alphabetic());
        let count = period[..period.len() - unit.len()].trim();
        let count = match count {
            "" => 1,
            count => number(count).ok_or_else(|| RateError::PeriodNotANumber(count.to_owned()))?,
        };
        let (_, unit_us) = UNITS
            .iter()
            .find(|(names, _)| names.contains(&unit))
            .ok_or_else(|| RateError::NotAUnit(unit.to_owned()))?;
        let period_us = count
            .checked_mul(*unit_us)
            .filter(|period_us| (1..=PERIOD_US_MAX).contains(period_us));
        let tokens = tokens.trim();
        Ok(Self {
            tokens: number(tokens).ok_or_else(|| RateError::NotANumber(tokens.to_owned()))?,
            period_us: period_us.ok_or(RateError::Period)?,
        })
    }
}

/// Digits, with `_` between them for the eye.
fn number(digits: &str) -> Option<u64> {
    let only = |c: char| c.is_ascii_digit() || c == '_';
    if !digits.starts_with(|c: char| c.is_ascii_digit()) || !digits.chars().all(only) {
        return None;
    }
    digits.replace('_', "").parse().ok()
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tokens, Period(self.period_us))
    }
}

/// A period in the largest unit of which it is a whole number.
struct Period(u64);

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["us", "ms", "s", "min", "h", "day"];
        let mut units = names.iter().zip(UNITS).rev();
        let whole = units.find(|(_, (_, unit_us))| self.0.is_multiple_of(*unit_us));
        let (name, (_, unit_us)) = whole.expect("any number is a multiple of 1");
        match self.0 / unit_us {
            1 => f.write_str(name),
            count => write!(f, "{count}{name}"),
        }
    }
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSlash => {
                f.write_str("a rate is a number, / and a period: 100/s, 10/min, 5/10s")
            }
            Self::NotANumber(words) => {
                write!(
                    f,
                    "`{words}` is no whole number; half a token a second is 1/2s"
                )
            }
            Self::PeriodNotANumber(words) => write!(
                f,
                "`{words}` is no whole number, as a period has before its unit; a second and a half is 1500ms"
            ),
            Self::NotAUnit(unit) if unit == "m" => f.write_str(
                "`m` may be a minute or a month; the units are us, ms, s, min, h and day",
            ),
            Self::NotAUnit(unit) => {
                write!(
                    f,
                    "`{unit}` is no unit; the units are us, ms, s, min, h and day"
                )
            }
            Self::Period => write!(f, "a period is 1us to {}", Period(PERIOD_US_MAX)),
        }
    }
}

impl std::error::Error for RateError {}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::RateZero => f.write_str("a rate of 0 lets nothing pass"),
            Self::PeriodZero => f.write_str("a period is 1us at least"),
            Self::PeriodTooLong => write!(f, "a period is {} at most", Period(PERIOD_US_MAX)),
            Self::BurstZero => f.write_str("a burst of 0 lets nothing pass"),
            Self::BurstUnused(algorithm) => write!(
                f,
                "only a bucket has a burst; a {} passes its whole rate at once",
                algorithm.name()
            ),
            Self::TooFine {
                tokens,
                period_us,
                burst,
                burst_max,
            } => {
                let rate = Rate { tokens, period_us };
                write!(
                    f,
                    "{rate} with a burst of {burst} cannot be counted exactly; "
                )?;
                if burst_max > 0 {
                    write!(
                        f,
                        "use a burst of {burst_max} at most, or a rate in rounder numbers"
                    )
                } else {
                    f.write_str("use a rate in rounder numbers")
                }
            }
            Self::WindowTooFine { limit, window_us } => write!(
                f,
                "{limit} in a window of {} cannot be counted exactly; use a rounder window or a bucket",
                Period(window_us)
            ),
            Self::LogTooLong { limit } => write!(
                f,
                "a log of {limit} is too long: it remembers each call, {ENTRIES_MAX} at most; \
                 use a bucket whose burst and rate add up to {limit} in a period"
            ),
            Self::CostTooHigh { cost, most } => write!(
                f,
                "a cost of {cost} never passes: there are {most} at most at once"
            ),
            Self::ShareBelowOne { burst, parts } => write!(
                f,
                "a burst of {burst} divided among {parts} leaves less than one each, \
                 so that nothing would ever pass"
            ),
        }
    }
}

impl std::error::Error for SpecError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(words: &str) -> Rate {
        words.parse().unwrap()
    }

    #[test]
    fn rates_are_written_as_people_write_them() {
        let of = |tokens, period_us| Rate { tokens, period_us };

        assert_eq!(rate("100/s"), of(100, SECOND_US));
        assert_eq!(rate("10/min"), of(10, 60 * SECOND_US));
        assert_eq!(rate("1000000/day"), of(1_000_000, DAY_US));
        assert_eq!(rate(" 1_000_000 / day "), of(1_000_000, DAY_US));
        assert_eq!(rate("5/10s"), of(5, 10 * SECOND_US));
        assert_eq!(rate("1/250 ms"), of(1, 250_000));
        assert_eq!(rate("10/hour"), of(10, 3600 * SECOND_US));
        assert_eq!(rate("0/s"), of(0, SECOND_US));
        for words in [
            "100/s",
            "10/min",
            "5/15min",
            "1000000/day",
            "3/7us",
            "1/36h",
        ] {
            assert_eq!(rate(words).to_string(), words);
        }
    }

    #[test]
    fn words_that_are_no_rate_are_told_why() {
        let error = |words: &str| words.parse::<Rate>().unwrap_err().to_string();

        for words in ["100", "", "s"] {
            assert_eq!(
                error(words),
                "a rate is a number, / and a period: 100/s, 10/min, 5/10s"
            );
        }
        assert_eq!(
            error("0.5/s"),
            "`0.5` is no whole number; half a token a second is 1/2s"
        );
        assert_eq!(
            error("1/m"),
            "`m` may be a minute or a month; the units are us, ms, s, min, h and day"
        );
        assert_eq!(
            error("1/fortnight"),
            "`fortnight` is no unit; the units are us, ms, s, min, h and day"
        );
        for words in [
            "-1/s",
            "+1/s",
            "_1/s",
            "/s",
            "1e3/s",
            "99999999999999999999/s",
        ] {
            assert!(matches!(
                words.parse::<Rate>(),
                Err(RateError::NotANumber(_))
            ));
        }
        for words in ["1/0s", "1/401days", "1/18446744073709551615days"] {
            assert_eq!(error(words), "a period is 1us to 400day");
        }
        assert_eq!(
            error("10/1.5s"),
            "`1.5` is no whole number, as a period has before its unit; a second and a half is 1500ms"
        );
        for words in ["10/-1s", "10/+1s", "1/_1s", "1/99999999999999999999us"] {
            assert!(matches!(
                words.parse::<Rate>(),
                Err(RateError::PeriodNotANumber(_))
            ));
        }
        assert!(matches!("1/".parse::<Rate>(), Err(RateError::NotAUnit(_))));
    }

    #[test]
    fn a_bucket_without_a_burst_holds_what_comes_in_a_period() {
        let spec = Spec::new(Algorithm::Bucket, rate("100/s"), None).unwrap();

        assert_eq!(spec.most(), 100);
        assert_eq!(spec.worst_in(SECOND_US), 199);
    }

    #[test]
    fn a_rate_of_nothing_denies_whatever_the_algorithm() {
        for algorithm in Algorithm::ALL {
            let spec = Spec::new(algorithm, rate("0/s"), None).unwrap();

            assert_eq!(spec, Spec::Deny);
            assert_eq!(spec.worst_in(u64::MAX), 0);
            assert_eq!(spec.fits(1), Ok(()));
        }
    }

    #[test]
    fn what_cannot_be_is_explained() {
        let error = |algorithm, words, burst| {
            let spec = Spec::new(algorithm, rate(words), burst);
            spec.unwrap_err().to_string()
        };

        assert_eq!(
            error(Algorithm::Log, "129/s", None),
            "a log of 129 is too long: it remembers each call, 128 at most; \
             use a bucket whose burst and rate add up to 129 in a period"
        );
        assert_eq!(
            error(Algorithm::Window, "10/s", Some(5)),
            "only a bucket has a burst; a window passes its whole rate at once"
        );
        assert_eq!(
            error(Algorithm::Bucket, "999983/86399999993us", None),
            "999983/86399999993us with a burst of 999983 cannot be counted exactly; \
             use a burst of 26062 at most, or a rate in rounder numbers"
        );
        assert_eq!(
            error(Algorithm::Window, "1000000/86400000001us", None),
            "1000000 in a window of 86400000001us cannot be counted exactly; \
             use a rounder window or a bucket"
        );
        let spec = Spec::new(Algorithm::Bucket, rate("10/s"), Some(5)).unwrap();
        assert_eq!(
            spec.fits(6).unwrap_err().to_string(),
            "a cost of 6 never passes: there are 5 at most at once"
        );
        assert_eq!(spec.fits(5), Ok(()));
    }
}

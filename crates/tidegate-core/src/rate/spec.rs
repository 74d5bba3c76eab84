//! What a limit is, in the words of a configuration, and why some words make no limit.

use std::fmt;

/// Why a limit cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// Nothing would ever come.
    RateZero,
    /// Something each no time.
    PeriodZero,
    /// Nothing would ever pass.
    BurstZero,
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
    /// A part of it holds less than one token.
    ShareBelowOne {
        /// The burst of the whole, in tokens.
        burst: u64,
        /// Into how many parts it is divided.
        parts: u32,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::RateZero => f.write_str("a rate of 0 lets nothing pass"),
            Self::PeriodZero => f.write_str("the period of a rate is at least 1 µs"),
            Self::BurstZero => f.write_str("a burst of 0 lets nothing pass"),
            Self::TooFine {
                tokens,
                period_us,
                burst,
                burst_max,
            } => write!(
                f,
                "{tokens} per {period_us} µs with a burst of {burst} cannot be counted exactly; \
                 the burst can be {burst_max} at most, or more at a rate in rounder numbers"
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

//! The two kinds of time: one for measuring, one for telling the date. They do not convert.

use std::ops::Add;
use std::time::Duration;

/// A reading of a monotonic clock: nanoseconds since an origin that the caller chose.
///
/// Differences saturate at zero, so a caller with a slightly older reading does no harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(u64);

impl Mono {
    /// The latest reading there is; as a deadline it means "none".
    pub const MAX: Self = Self(u64::MAX);

    /// A reading of `nanos` nanoseconds since the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A reading of `millis` milliseconds since the origin.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`, or zero when `earlier` is the later one.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The reading `span` earlier, but never before the origin.
    pub const fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }
}

impl Add<Duration> for Mono {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

/// A reading of the wall clock: microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(u64);

impl Wall {
    /// A reading of `micros` microseconds since the Unix epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`, or zero when `earlier` is the later one.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// Whole nanoseconds of `span`; spans past 584 years count as that.
pub(crate) const fn nanos(span: Duration) -> u64 {
    let nanos = span.as_nanos();
    if nanos > u64::MAX as u128 {
        u64::MAX
    } else {
        nanos as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_runs_backwards_is_no_time_at_all() {
        let (early, late) = (Mono::from_millis(5), Mono::from_millis(9));

        assert_eq!(late.since(early), Duration::from_millis(4));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(
            Wall::from_micros(1).since(Wall::from_micros(7)),
            Duration::ZERO
        );
    }

    #[test]
    fn sums_past_the_end_of_time_stay_there() {
        assert_eq!(Mono::MAX + Duration::MAX, Mono::MAX);
        assert_eq!(
            Mono::from_millis(1).minus(Duration::from_secs(1)),
            Mono::default()
        );
        assert_eq!(Mono::from_millis(u64::MAX), Mono::MAX);
    }
}

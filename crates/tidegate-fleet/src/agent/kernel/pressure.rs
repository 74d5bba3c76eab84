//! Pressure stall information: for how long somebody waited.
//!
//! The totals are used and not the averages beside them: an average over ten seconds tells ten seconds late.

use std::time::Duration;

/// Time for which tasks stood still for want of one thing, since the machine or the group started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pressure {
    /// Some of them.
    some: Duration,
    /// All of them. Kernels before 5.13 do not tell it of processors.
    full: Option<Duration>,
}

impl Pressure {
    /// Reads a file of `/proc/pressure`, or one of a group.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let total = |kind: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
            let total = line
                .split_ascii_whitespace()
                .find_map(|field| field.strip_prefix("total="))?;
            total.parse().ok().map(Duration::from_micros)
        };
        Some(Self {
            some: total("some ")?,
            full: total("full "),
        })
    }

    /// The share of the time `since` the earlier look in which some task waited, from 0 to 1.
    pub(super) fn some_share(&self, earlier: &Self, since: Duration) -> Option<f64> {
        share(self.some, earlier.some, since)
    }

    /// The share in which nobody went on, where it is told.
    pub(super) fn full_share(&self, earlier: &Self, since: Duration) -> Option<f64> {
        share(self.full?, earlier.full?, since)
    }
}

fn share(now: Duration, then: Duration, since: Duration) -> Option<f64> {
    if since.is_zero() {
        return None;
    }
    let waited = now.saturating_sub(then);
    // Both clocks are read one after the other.
    Some((waited.as_secs_f64() / since.as_secs_f64()).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_the_time_between_two_looks() {
        let early = Pressure::parse(
            "some avg10=90.00 avg60=0.00 avg300=0.00 total=1000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
        );
        let late = Pressure::parse(
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1250000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=100000\n",
        );
        let (early, late) = (early.unwrap(), late.unwrap());
        let second = Duration::from_secs(1);

        assert_eq!(late.some_share(&early, second), Some(0.25));
        assert_eq!(late.full_share(&early, second), Some(0.1));
        assert_eq!(
            late.some_share(&early, Duration::from_millis(100)),
            Some(1.0)
        );
        assert_eq!(late.some_share(&early, Duration::ZERO), None);
    }

    #[test]
    fn an_old_kernel_tells_less_of_processors() {
        let only = Pressure::parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n").unwrap();

        assert_eq!(only.full_share(&only, Duration::from_secs(1)), None);
        assert_eq!(only.some_share(&only, Duration::from_secs(1)), Some(0.0));
        assert_eq!(Pressure::parse(""), None);
    }
}

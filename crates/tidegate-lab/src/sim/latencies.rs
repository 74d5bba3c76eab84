//! Times, counted by size.

use std::time::Duration;

/// Steps per doubling of the time, as a power of two.
const STEPS_BITS: u32 = 5;

/// A histogram of times that is empty for free: steps of a 32nd of a power of two microseconds, so
/// that a quantile is right to within 1.6 %.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    counts: Vec<u32>,
    sum: Duration,
}

impl Latencies {
    /// Counts one time.
    pub fn add(&mut self, took: Duration) {
        let bucket = bucket(took);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.sum += took;
    }

    /// Adds what `other` counted.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.sum += other.sum;
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// All of them together.
    pub const fn sum(&self) -> Duration {
        self.sum
    }

    /// The mean, exact; `None` when nothing was counted.
    pub fn mean(&self) -> Option<Duration> {
        let count = self.count();
        (count > 0).then(|| self.sum.div_f64(count as f64))
    }

    /// The time below which `part` (0 to 1) of what was counted lies; `None` when nothing was.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let count = self.count();
        let wanted = (part * count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            seen >= wanted
        })?;
        Some(middle(bucket))
    }
}

/// Log-linear buckets as in HdrHistogram: the position of the highest bit, then the next five.
/// Below 32 µs there is one for each microsecond.
const fn bucket(took: Duration) -> usize {
    let micros = took.as_micros() as u64;
    if micros < 1 << STEPS_BITS {
        return micros as usize;
    }
    let doubling = micros.ilog2() - STEPS_BITS;
    ((doubling as usize) << STEPS_BITS) + (micros >> doubling) as usize
}

/// The middle of a bucket.
const fn middle(bucket: usize) -> Duration {
    let doubling = (bucket >> STEPS_BITS).saturating_sub(1);
    let from = ((bucket - (doubling << STEPS_BITS)) as u64) << doubling;
    Duration::from_nanos(1000 * from + 500 * (1 << doubling))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_right_to_within_a_sixtieth() {
        for micros in [0, 1, 31, 32, 63, 64, 1000, 51_234, 1_000_000, 3_600_000_000] {
            let mut latencies = Latencies::default();
            latencies.add(Duration::from_micros(micros));

            let told = latencies.quantile(0.5).unwrap().as_nanos() as f64 / 1000.0;

            let most = (micros as f64 / 62.0).max(0.5);
            assert!((told - micros as f64).abs() <= most, "{micros}: {told}");
        }
    }

    #[test]
    fn what_was_counted_apart_can_be_put_together() {
        let (mut low, mut high) = (Latencies::default(), Latencies::default());
        (1..=90).for_each(|ms| low.add(Duration::from_millis(ms)));
        (91..=100).for_each(|ms| high.add(Duration::from_millis(ms)));

        low.merge(&high);

        let near = |part: f64, ms: f64| {
            let told = low.quantile(part).unwrap().as_secs_f64() * 1e3;
            assert!((told / ms - 1.0).abs() < 0.02, "{part}: {told}");
        };
        near(0.5, 50.0);
        near(0.99, 99.0);
        near(1.0, 100.0);
        assert_eq!(low.mean(), Some(Duration::from_micros(50_500)));
        assert_eq!(Latencies::default().quantile(0.5), None);
    }
}

//! How long things took, in buckets that never change.

use std::time::Duration;

use crate::metrics::recorder::Cell;

/// Upper bounds of the buckets in milliseconds; one bucket more holds what is longer. They are
/// densest around the usual `hold` of 200 ms.
const BOUNDS_MS: [u64; 19] = [
    1, 2, 5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1_000, 2_000, 5_000, 10_000, 30_000,
    60_000,
];

/// Counts of spans by length.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [Cell; BOUNDS_MS.len() + 1],
    sum_nanos: Cell,
}

/// Histograms of several threads, added up.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct HistogramTotal {
    /// Upper bounds in seconds with the number of spans in each bucket alone.
    pub(crate) buckets: Vec<(f64, u64)>,
    pub(crate) sum_seconds: f64,
    pub(crate) count: u64,
}

impl Histogram {
    pub(crate) fn observe(&self, span: Duration) {
        let nanos = nanos(span);
        let bucket = BOUNDS_MS.partition_point(|&bound_ms| bound_ms * 1_000_000 < nanos);
        self.buckets[bucket].add(1);
        self.sum_nanos.add(nanos);
    }

    pub(crate) fn total<'a>(parts: impl Iterator<Item = &'a Self>) -> HistogramTotal {
        let bounds = BOUNDS_MS
            .iter()
            .map(|&bound_ms| bound_ms as f64 / 1e3)
            .chain([f64::INFINITY]);
        let mut total = HistogramTotal {
            buckets: bounds.map(|bound| (bound, 0)).collect(),
            ..HistogramTotal::default()
        };
        for part in parts {
            for (bucket, cell) in total.buckets.iter_mut().zip(&part.buckets) {
                bucket.1 += cell.value();
                total.count += cell.value();
            }
            total.sum_seconds += part.sum_nanos.value() as f64 / 1e9;
        }
        total
    }
}

/// Whole nanoseconds of `span`, which is never near the 584 years that fit.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_at_a_bound_belongs_to_its_bucket_and_the_longest_to_the_last() {
        let histogram = Histogram::default();
        for ms in [1, 2, 200, 61_000] {
            histogram.observe(Duration::from_millis(ms));
        }

        let total = Histogram::total([&histogram, &histogram].into_iter());

        let filled: Vec<_> = total
            .buckets
            .iter()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(
            filled,
            [&(0.001, 2), &(0.002, 2), &(0.2, 2), &(f64::INFINITY, 2)]
        );
        assert_eq!(total.count, 8);
        assert!((total.sum_seconds - 2.0 * 61.203).abs() < 1e-9);
    }
}

//! Cuts because of latency, and whether it was right about them.

use super::probe::FOLLOWS;
use super::throughput::Reference;

/// So many cuts one after the other call for a probe.
const IN_A_ROW: u32 = 3;

/// Cuts tell something when they have come to this part of the limit before the first.
const TELLS: f64 = 0.25;

/// Latency responds to a cut when it falls by at least this part of it.
const RESPONDS: f64 = 0.3;

/// Cuts since latency was last fine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cuts {
    in_a_row: u32,
    before: Option<Stand>,
}

/// How things stand at one limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stand {
    pub(super) limit: f64,
    /// Latency against the baseline.
    pub(super) inflation: f64,
    /// What is done.
    pub(super) reference: Reference,
}

impl Cuts {
    /// One more, of whatever kind.
    pub(super) const fn count(&mut self) {
        self.in_a_row += 1;
    }

    /// The first one because of latency is about to be made.
    pub(super) const fn begin(&mut self, stand: Stand) {
        self.before = Some(stand);
    }

    /// How things stood before the first one because of latency.
    pub(super) const fn before(&self) -> Option<Stand> {
        self.before
    }

    /// Whether latency has called for so many that throughput should be asked.
    pub(super) const fn call_for_probe(&self) -> bool {
        self.in_a_row >= IN_A_ROW
    }

    /// The response of throughput to the cuts so far, if latency has not responded to them but
    /// throughput has: then it is not a queue that takes the time. A cut that says so is as good as
    /// a probe, and nothing more has to be given up for one.
    pub(super) fn in_vain(&self, stand: &Stand) -> Option<f64> {
        let before = self.before?;
        let step = 1.0 - stand.limit.floor() / before.limit.floor();
        if step < TELLS {
            return None;
        }
        let latency = (1.0 - stand.inflation / before.inflation) / step;
        let throughput =
            (1.0 - stand.reference.per_second() / before.reference.per_second()) / step;
        (latency < RESPONDS && throughput > FOLLOWS).then_some(throughput)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stand(limit: f64, inflation: f64, per_second: f64) -> Stand {
        Stand {
            limit,
            inflation,
            reference: Reference::of(per_second, 1.0, limit),
        }
    }

    fn response(before: Stand, after: Stand) -> Option<f64> {
        let mut cuts = Cuts::default();
        cuts.begin(before);
        cuts.in_vain(&after)
    }

    #[test]
    fn a_cut_that_costs_throughput_and_leaves_latency_alone_was_in_vain() {
        let longer = response(stand(80.0, 2.0, 800.0), stand(50.0, 2.0, 500.0));
        assert!(longer.is_some_and(|response| (response - 1.0).abs() < 1e-9));

        let a_queue = response(stand(200.0, 2.0, 2000.0), stand(140.0, 1.4, 2000.0));
        assert_eq!(a_queue, None);
    }

    #[test]
    fn a_small_cut_tells_nothing() {
        let small = response(stand(80.0, 2.0, 800.0), stand(65.0, 2.0, 650.0));
        assert_eq!(small, None);
    }

    #[test]
    fn without_throughput_nothing_was_in_vain() {
        let nothing = response(stand(80.0, 2.0, 0.0), stand(50.0, 2.0, 0.0));
        assert_eq!(nothing, None);
    }
}

//! The figures of a part of a run.

use std::time::Duration;

use tidegate_core::admission::Reason;
use tidegate_core::facts::Class;

use super::record::{BIN, Bin, ByClass, Latencies};

/// Bins per second.
const SECOND: usize = (Duration::from_secs(1).as_nanos() / BIN.as_nanos()) as usize;

/// Goodput is back for good when it is on average of every so many seconds: single seconds of
/// random arrivals are below any line that is worth drawing now and then.
const STEADY_SECONDS: usize = 3;

/// What happened between two moments.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    bins: &'a [Bin],
}

impl<'a> Window<'a> {
    pub(super) const fn new(bins: &'a [Bin]) -> Self {
        Self { bins }
    }

    /// The bins.
    pub const fn bins(&self) -> &'a [Bin] {
        self.bins
    }

    /// How long it lasts.
    pub fn length(&self) -> Duration {
        BIN * self.bins.len() as u32
    }

    /// First attempts and retries of `class`, or of all, per second.
    pub fn offered(&self, class: Option<Class>) -> f64 {
        self.per_second(self.sum(class, |bin| &bin.first)) + self.retries(class)
    }

    /// Retries per second.
    pub fn retries(&self, class: Option<Class>) -> f64 {
        self.per_second(self.sum(class, |bin| &bin.retries))
    }

    /// Good answers per second.
    pub fn goodput(&self, class: Option<Class>) -> f64 {
        self.per_second(self.sum(class, |bin| &bin.good))
    }

    /// Good answers as a part of first attempts, in per cent; `None` without any. It may come out
    /// above 100, as some were made before the window.
    pub fn share(&self, class: Option<Class>) -> Option<f64> {
        let first = self.sum(class, |bin| &bin.first);
        (first > 0).then(|| 100.0 * self.sum(class, |bin| &bin.good) as f64 / first as f64)
    }

    /// Refusals by gateways and by the application, per second.
    pub fn refused(&self, class: Option<Class>) -> f64 {
        let by_gateways = self.sum(class, |bin| &bin.refused);
        self.per_second(by_gateways + self.sum(class, |bin| &bin.turned_away))
    }

    /// Refusals by gateways for `reason`, per second.
    pub fn refused_for(&self, reason: Reason) -> f64 {
        let refused = self.bins.iter().map(|bin| bin.reasons[reason as usize]);
        self.per_second(refused.map(u64::from).sum())
    }

    /// Attempts that ended without a good answer in time: a count.
    pub fn failures(&self, class: Option<Class>) -> u64 {
        self.sum(class, |bin| &bin.refused)
            + self.sum(class, |bin| &bin.turned_away)
            + self.sum(class, |bin| &bin.failed)
            + self.sum(class, |bin| &bin.timed_out)
    }

    /// Attempts whose clients gave up, per second.
    pub fn timed_out(&self, class: Option<Class>) -> f64 {
        self.per_second(self.sum(class, |bin| &bin.timed_out))
    }

    /// Completions for clients who had gone, per second.
    pub fn wasted(&self) -> f64 {
        self.per_second(self.bins.iter().map(|bin| u64::from(bin.wasted)).sum())
    }

    /// Times of good answers.
    pub fn latencies(&self) -> Latencies {
        let mut all = Latencies::default();
        for bin in self.bins {
            all.merge(&bin.latencies);
        }
        all
    }

    /// The least and the largest limit outside probes; `None` when it was being probed throughout.
    pub fn limits(&self) -> Option<(f64, f64)> {
        let settled = self.bins.iter().filter(|bin| bin.probing.is_zero());
        settled
            .map(|bin| f64::from(bin.limit))
            .fold(None, |seen, limit| match seen {
                None => Some((limit, limit)),
                Some((least, most)) => Some((limit.min(least), limit.max(most))),
            })
    }

    /// Time in which a limit was being probed, in per cent.
    pub fn probe_share(&self) -> f64 {
        let probing: Duration = self.bins.iter().map(|bin| bin.probing).sum();
        100.0 * probing.as_secs_f64() / self.seconds()
    }

    /// Whole seconds until goodput is at least `enough` and stays there for good; infinite when it
    /// is not back at the end.
    pub fn recovery(&self, enough: f64) -> f64 {
        let good: Vec<f64> = self
            .bins
            .chunks_exact(SECOND)
            .map(|second| f64::from(second.iter().flat_map(|bin| bin.good).sum::<u32>()))
            .collect();
        let steady = STEADY_SECONDS.min(good.len());
        // The last stretch that is not good enough on average has to be over.
        let over = good
            .windows(steady.max(1))
            .rposition(|stretch| stretch.iter().sum::<f64>() < enough * stretch.len() as f64)
            .map_or(0, |last| last + 1);
        let back = good[over..].iter().position(|&second| second >= enough);
        match back {
            // A stretch reaches beyond its beginning, so the end of the window is never judged well
            // because there is nothing left to judge.
            Some(more) if over + steady <= good.len() => (over + more) as f64,
            _ => f64::INFINITY,
        }
    }

    /// The least goodput of a gateway relative to the largest, each as a part of the attempts that
    /// it got; `None` where there is only one gateway, or nothing good.
    pub fn fairness(&self) -> Option<f64> {
        let gateways = self.bins.first().map_or(0, |bin| bin.by_gateway.len());
        let part = |gateway: usize| {
            let all = || self.bins.iter().map(|bin| bin.by_gateway[gateway]);
            let offered: u32 = all().map(|counts| counts.offered).sum();
            let good: u32 = all().map(|counts| counts.good).sum();
            (offered > 0).then(|| f64::from(good) / f64::from(offered))
        };
        let parts = || (0..gateways).filter_map(part);
        let most = parts().reduce(f64::max)?;
        let least = parts().reduce(f64::min)?;
        (most > 0.0).then_some(least / most)
    }

    /// The largest difference of a gateway's baseline from the median one at any time, in per cent;
    /// a gateway that has none is all wrong.
    pub fn baseline_spread(&self) -> f64 {
        let spread = |bin: &Bin| {
            let mut sorted = bin.baselines_ns.clone();
            sorted.sort_unstable();
            let median = match sorted.get(sorted.len() / 2) {
                Some(&median) if median > 0 => median,
                _ => return 100.0,
            };
            let off = sorted.iter().map(|one| one.abs_diff(median)).max();
            100.0 * off.unwrap_or(0) as f64 / median as f64
        };
        self.bins.iter().map(spread).fold(0.0, f64::max)
    }

    /// The most that waited at one moment, the application's own queue included.
    pub fn queue_most(&self) -> u32 {
        let most = self.bins.iter().map(|bin| bin.queue_most).max();
        most.unwrap_or(0)
    }

    fn sum(&self, class: Option<Class>, what: impl Fn(&Bin) -> &ByClass) -> u64 {
        let of = |by_class: &ByClass| -> u64 {
            match class {
                Some(class) => u64::from(by_class[class.index()]),
                None => by_class.iter().map(|&count| u64::from(count)).sum(),
            }
        };
        self.bins.iter().map(|bin| of(what(bin))).sum()
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.seconds()
    }

    /// A window of no length counts as one bin, so that its figures are 0 instead of no number.
    fn seconds(&self) -> f64 {
        self.length().max(BIN).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::record::GatewayCounts;

    /// So many good answers in each second, in its first bin.
    fn seconds(good: &[u32]) -> Vec<Bin> {
        let bins = good.iter().flat_map(|&good| {
            let mut second = vec![Bin::default(); SECOND];
            second[0].good[2] = good;
            second
        });
        bins.collect()
    }

    #[test]
    fn rates_are_per_second_of_the_window_and_of_one_class_where_one_is_asked_for() {
        let mut bins = seconds(&[10, 30]);
        bins[3].good[0] = 4;
        bins[3].first = [5, 0, 50, 0, 0];
        bins[12].retries[2] = 6;
        bins[12].turned_away[2] = 2;
        bins[12].refused[0] = 3;

        let window = Window::new(&bins);

        assert_eq!(window.goodput(None), 22.0);
        assert_eq!(window.goodput(Some(Class::Critical)), 2.0);
        assert_eq!((window.offered(None), window.retries(None)), (30.5, 3.0));
        assert_eq!(window.refused(None), 2.5);
        assert_eq!(window.failures(Some(Class::Anonymous)), 2);
        assert_eq!(window.share(None), Some(80.0));
        assert_eq!(window.share(Some(Class::Static)), None);
    }

    #[test]
    fn recovered_is_what_stays_recovered() {
        let recovery = |good: &[u32]| Window::new(&seconds(good)).recovery(100.0);

        assert_eq!(recovery(&[120, 120, 120, 120]), 0.0);
        assert_eq!(recovery(&[0, 0, 120, 120, 120, 120]), 2.0);
        // One second of random arrivals that is a little short says nothing.
        assert_eq!(recovery(&[120, 90, 120, 120]), 0.0);
        assert_eq!(recovery(&[120, 0, 120, 120, 120]), 2.0);
        assert_eq!(recovery(&[120, 120, 120, 0]), f64::INFINITY);
        assert_eq!(recovery(&[]), f64::INFINITY);
    }

    #[test]
    fn fairness_is_relative_to_the_traffic_that_a_gateway_got() {
        let counts = |offered, good| GatewayCounts { offered, good };
        let mut bins = vec![Bin::default(); 2];
        bins[0].by_gateway = vec![counts(100, 50), counts(10, 10), counts(0, 0)];
        bins[1].by_gateway = vec![counts(100, 70), counts(20, 14), counts(0, 0)];

        assert_eq!(Window::new(&bins).fairness(), Some(0.6 / 0.8));
        assert_eq!(Window::new(&seconds(&[1])).fairness(), None);
    }

    #[test]
    fn a_baseline_is_compared_with_the_median_one() {
        let mut bins = vec![Bin::default(); 2];
        bins[0].baselines_ns = vec![50, 45, 51];
        bins[1].baselines_ns = vec![50, 50, 50];
        assert_eq!(Window::new(&bins).baseline_spread(), 10.0);

        bins[1].baselines_ns = vec![0, 50, 50];

        assert_eq!(Window::new(&bins).baseline_spread(), 100.0);
    }

    #[test]
    fn limits_are_those_outside_probes() {
        let mut bins = vec![Bin::default(); 4];
        for (bin, limit) in bins.iter_mut().zip([100.0, 70.0, 120.0, 110.0]) {
            bin.limit = limit;
        }
        bins[1].probing = BIN / 2;

        let window = Window::new(&bins);

        assert_eq!(window.limits(), Some((100.0, 120.0)));
        assert_eq!(window.probe_share(), 12.5);
        assert_eq!(Window::new(&bins[1..2]).limits(), None);
    }
}

//! The figures of a part of a run.

use std::time::Duration;

use tidegate_core::facts::Class;

use super::record::{BIN, Bin, ByClass, Latencies};

/// Recovery is judged by the second.
const SECOND: usize = 10;

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

    /// Good answers as a part of first attempts, in per cent. Of few attempts it may come out above
    /// 100, as some were made before the window.
    pub fn share(&self, class: Option<Class>) -> f64 {
        let first = self.sum(class, |bin| &bin.first).max(1);
        100.0 * self.sum(class, |bin| &bin.good) as f64 / first as f64
    }

    /// Refusals by gateways and by the application, per second.
    pub fn refused(&self, class: Option<Class>) -> f64 {
        let by_gateways = self.sum(class, |bin| &bin.refused);
        self.per_second(by_gateways + self.sum(class, |bin| &bin.turned_away))
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

    /// How long it takes until there are `goodput` good answers per second, for good; infinite when
    /// the last second has fewer. Judged by whole seconds: what is left over at the end is not.
    pub fn recovery(&self, goodput: f64) -> f64 {
        let good = |bins: &[Bin]| bins.iter().flat_map(|bin| bin.good).sum::<u32>();
        let seconds = self.bins.chunks_exact(SECOND);
        let last = seconds.len();
        let poor = seconds
            .map(|second| f64::from(good(second)) < goodput)
            .rposition(|poor| poor);
        match poor {
            Some(poor) if poor + 1 == last => f64::INFINITY,
            Some(poor) => (poor + 1) as f64,
            None => 0.0,
        }
    }

    /// The least goodput of a gateway relative to the largest, each as a part of the attempts that
    /// it got; 1 where there is only one gateway.
    pub fn fairness(&self) -> f64 {
        let gateways = self.bins.first().map_or(0, |bin| bin.by_gateway.len());
        let part = |gateway: usize| {
            let all = self.bins.iter().map(|bin| bin.by_gateway[gateway]);
            let (good, offered) = all.fold((0.0, 0.0), |(good, offered), counts| {
                (
                    good + f64::from(counts.good),
                    offered + f64::from(counts.offered),
                )
            });
            good / f64::max(offered, 1.0)
        };
        let (least, most) = (0..gateways)
            .map(part)
            .fold((f64::INFINITY, 0.0), |(least, most), part| {
                (part.min(least), part.max(most))
            });
        if most > 0.0 { least / most } else { 1.0 }
    }

    /// The largest difference of a gateway's baseline from the median one at any time, in per cent.
    pub fn baseline_spread(&self) -> f64 {
        let spread = |bin: &Bin| {
            let mut sorted = bin.baselines_ns.clone();
            sorted.sort_unstable();
            let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
            let off = sorted.iter().map(|one| one.abs_diff(median)).max();
            100.0 * off.unwrap_or(0) as f64 / median.max(1) as f64
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

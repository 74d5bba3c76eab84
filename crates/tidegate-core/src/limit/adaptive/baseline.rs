//! How long each route takes when nothing is in its way, as far as is known.

use std::time::Duration;

use super::cohort::{Cohort, ROUTES_MAX};
use super::learnt::Learnt;
use super::pace::sample_size;
use crate::facts::RouteId;
use crate::time::{Mono, nanos};

/// Samples of a route before its baseline is used.
const KNOWN_AFTER: u32 = 8;

/// A baseline is the plain mean of its first samples, until it is known to within this part of
/// itself,
const YOUNG_ERROR: f64 = 0.15;

/// ... from at least
const YOUNG_LEAST: f64 = 200.0;

/// ... and at most so many; later it moves only as told.
const YOUNG_MOST: f64 = 2000.0;

/// Samples are not counted beyond this.
const SAMPLES_MAX: u32 = 10_000;

/// Requests a route needs in one cohort before its old baseline moves.
const MOVES_AFTER: u32 = 4;

/// A mean of n latencies whose coefficient of variation is c has a relative variance of c²/n. It is
/// trusted by half when that is this much: a standard error of 14 %.
const DOUBTED_VARIANCE: f64 = 0.02;

/// Baselines that were measured below the knee need not be searched for again for this long.
const GROUNDED_FOR: Duration = Duration::from_secs(120);

/// Which way baselines may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Down,
    Both,
}

#[derive(Clone, Copy, Debug, Default)]
struct Baseline {
    latency_ns: f64,
    /// Up to [`SAMPLES_MAX`].
    samples: u32,
    /// Mean latency in the cohort that was marked; 0 where that had too few requests.
    marked_ns: f64,
}

/// Baselines by route.
#[derive(Clone, Debug)]
pub(super) struct Baselines {
    routes: Box<[Baseline]>,
    used: usize,
    /// When they were last measured below the knee.
    grounded: Option<Mono>,
}

impl Baselines {
    pub(super) fn new() -> Self {
        Self {
            routes: vec![Baseline::default(); ROUTES_MAX + 1].into(),
            used: 0,
            grounded: None,
        }
    }

    /// The baseline of the route at `index`, once there are enough samples for one.
    pub(super) fn known_ns(&self, index: usize) -> Option<f64> {
        let baseline = self.routes[index];
        (baseline.samples >= KNOWN_AFTER).then_some(baseline.latency_ns)
    }

    /// Takes a cohort into the means of routes that have too few samples yet for their `spread`. What
    /// is inflated by `inflation` is taken for that much less.
    pub(super) fn learn_young(
        &mut self,
        cohort: &Cohort,
        since_opened: Duration,
        spread: f64,
        inflation: f64,
    ) {
        let young_until = sample_size(spread, YOUNG_ERROR).clamp(YOUNG_LEAST, YOUNG_MOST) as u32;
        self.used = self.used.max(cohort.routes().len());
        for (baseline, totals) in self.routes.iter_mut().zip(cohort.routes()) {
            let Some(mean_ns) = totals.mean_ns_at(since_opened) else {
                continue;
            };
            // The age of what has not ended is no service time where nothing has.
            if baseline.samples >= young_until || totals.finished == 0 {
                continue;
            }
            let known = f64::from(baseline.samples);
            let fresh = f64::from(totals.requests());
            baseline.latency_ns = (baseline.latency_ns * known
                + mean_ns / inflation.max(1.0) * fresh)
                / (known + fresh);
            baseline.samples = baseline
                .samples
                .saturating_add(totals.requests())
                .min(SAMPLES_MAX);
        }
    }

    /// Moves known baselines by `weight` (0 to 1) of the way to the means of `cohort`, less where
    /// those are few for their `spread`.
    pub(super) fn pull(
        &mut self,
        cohort: &Cohort,
        since_opened: Duration,
        spread: f64,
        weight: f64,
        way: Way,
    ) {
        for (baseline, totals) in self.routes.iter_mut().zip(cohort.routes()) {
            let Some(mean_ns) = totals.mean_ns_at(since_opened) else {
                continue;
            };
            if baseline.samples < KNOWN_AFTER || totals.requests() < MOVES_AFTER {
                continue;
            }
            if way == Way::Down && mean_ns > baseline.latency_ns {
                continue;
            }
            let requests = f64::from(totals.requests());
            let trust = requests / (requests + spread * spread / DOUBTED_VARIANCE);
            baseline.latency_ns += weight * trust * (mean_ns - baseline.latency_ns);
        }
    }

    /// The mean over the known routes in the mix of `cohort`, in nanoseconds.
    pub(super) fn mean_ns(&self, cohort: &Cohort) -> Option<f64> {
        let (mut requests, mut total_ns) = (0.0, 0.0);
        for (index, totals) in cohort.routes().iter().enumerate() {
            if let Some(baseline_ns) = self.known_ns(index) {
                requests += f64::from(totals.requests());
                total_ns += f64::from(totals.requests()) * baseline_ns;
            }
        }
        (requests > 0.0).then(|| total_ns / requests)
    }

    /// They were measured below the knee, where nothing queues.
    pub(super) const fn ground(&mut self, now: Mono) {
        self.grounded = Some(now);
    }

    /// Latency is shorter than they are: they have to be searched for again.
    pub(super) const fn unground(&mut self) {
        self.grounded = None;
    }

    /// Whether they were measured below the knee not long ago.
    pub(super) fn are_grounded(&self, now: Mono) -> bool {
        self.grounded
            .is_some_and(|grounded| now.since(grounded) < GROUNDED_FOR)
    }

    /// Remembers the means of `cohort` for [`Baselines::adopt_marked`].
    pub(super) fn mark(&mut self, cohort: &Cohort, since_opened: Duration) {
        for baseline in &mut self.routes[..self.used] {
            baseline.marked_ns = 0.0;
        }
        for (baseline, totals) in self.routes.iter_mut().zip(cohort.routes()) {
            if totals.requests() >= MOVES_AFTER {
                baseline.marked_ns = totals.mean_ns_at(since_opened).unwrap_or(0.0);
            }
        }
    }

    /// What was marked is how long things take: baselines below it rise to it.
    pub(super) fn adopt_marked(&mut self) {
        for baseline in &mut self.routes[..self.used] {
            if baseline.samples >= KNOWN_AFTER {
                baseline.latency_ns = baseline.latency_ns.max(baseline.marked_ns);
            }
        }
    }

    /// What a restarted process may start from.
    pub(super) fn export(&self) -> Vec<(RouteId, Duration, u32)> {
        (0..self.used)
            .filter_map(|index| {
                let latency = Duration::from_nanos(self.known_ns(index)? as u64);
                Some((RouteId(index as u16), latency, self.routes[index].samples))
            })
            .collect()
    }

    /// Starts from what `learnt` says.
    pub(super) fn import(&mut self, learnt: &Learnt) {
        for &(route, latency, samples) in &learnt.baselines {
            let index = usize::from(route.0).min(ROUTES_MAX);
            self.used = self.used.max(index + 1);
            let baseline = &mut self.routes[index];
            baseline.latency_ns = nanos(latency) as f64;
            baseline.samples = samples.min(SAMPLES_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pace::{Pace, Purpose};
    use super::*;
    use crate::limit::{Ending, Sample};

    const SPREAD: f64 = 0.1;
    const AGE: Duration = Duration::from_secs(1);

    /// A cohort in which `requests` of route 0 took so many milliseconds each.
    fn cohort(requests: u32, latency_ms: u64) -> Cohort {
        let plan = Pace::UNKNOWN.plan(Purpose::Latency, false);
        let mut cohort = Cohort::new(Mono::default(), &plan);
        for _ in 0..requests {
            let tag = cohort.admit(Mono::default(), RouteId(0), 1, 1);
            cohort.finish(&Sample {
                tag,
                route: RouteId(0),
                latency: Duration::from_millis(latency_ms),
                in_flight: 1,
                ending: Ending::Worked,
            });
        }
        cohort
    }

    fn known_ms(baselines: &Baselines) -> Option<f64> {
        baselines.known_ns(0).map(|ns| ns / 1e6)
    }

    #[test]
    fn a_young_baseline_is_the_mean_of_its_samples_less_what_is_inflated() {
        let mut baselines = Baselines::new();

        baselines.learn_young(&cohort(7, 40), AGE, SPREAD, 1.0);
        assert_eq!(known_ms(&baselines), None, "seven are too few");
        baselines.learn_young(&cohort(7, 60), AGE, SPREAD, 1.0);
        assert_eq!(known_ms(&baselines), Some(50.0));

        baselines.learn_young(&cohort(200, 150), AGE, SPREAD, 3.0);
        assert_eq!(known_ms(&baselines), Some(50.0));
        baselines.learn_young(&cohort(200, 900), AGE, SPREAD, 1.0);
        assert_eq!(known_ms(&baselines), Some(50.0), "it is not young any more");
    }

    #[test]
    fn few_samples_of_what_differs_much_move_a_baseline_little() {
        let moved = |requests, spread| {
            let mut baselines = Baselines::new();
            baselines.learn_young(&cohort(200, 50), AGE, SPREAD, 1.0);
            baselines.pull(&cohort(requests, 100), AGE, spread, 1.0, Way::Both);
            known_ms(&baselines).unwrap() - 50.0
        };

        assert!(moved(3, SPREAD).abs() < 1e-9, "three are none");
        assert!(moved(1000, SPREAD) > 49.0);
        assert!(moved(50, 1.0) < 26.0);
    }

    #[test]
    fn baselines_come_down_or_rise_only_as_told() {
        let mut baselines = Baselines::new();
        baselines.learn_young(&cohort(200, 50), AGE, SPREAD, 1.0);

        baselines.pull(&cohort(1000, 100), AGE, SPREAD, 1.0, Way::Down);
        assert_eq!(known_ms(&baselines), Some(50.0));

        baselines.mark(&cohort(40, 80), AGE);
        baselines.adopt_marked();
        assert_eq!(known_ms(&baselines), Some(80.0));
        baselines.mark(&cohort(40, 60), AGE);
        baselines.adopt_marked();
        assert_eq!(known_ms(&baselines), Some(80.0));
    }

    #[test]
    fn what_was_measured_below_the_knee_is_trusted_for_two_minutes() {
        let at = Mono::from_millis;
        let mut baselines = Baselines::new();
        assert!(!baselines.are_grounded(at(0)));

        baselines.ground(at(1000));
        assert!(baselines.are_grounded(at(120_999)));
        assert!(!baselines.are_grounded(at(121_000)));
        baselines.unground();
        assert!(!baselines.are_grounded(at(1001)));
    }
}

//! The automatic limiter of Apache brpc (`auto_concurrency_limiter.cpp` with its default flags):
//! Little's law, smallest latency × largest throughput, and some more to explore.
//!
//! Any error counts against the latency of what succeeded.

use std::time::Duration;

use tidegate_core::facts::RouteId;
use tidegate_core::limit::{Ending, Insight, Limit, Sample};
use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;

const INITIAL: u32 = 40;
/// The number of worker threads, which is 9 unless it is set.
const LEAST: u32 = 9;
/// Samples are at least this far apart; others only count.
const SAMPLED_EVERY: Duration = Duration::from_micros(100);
const WINDOW: Duration = Duration::from_secs(1);
const SAMPLES_LEAST: u32 = 100;
const SAMPLES_MOST: u32 = 200;
/// How fast the smallest latency follows a smaller one; it does not follow a larger one.
const LATENCY_ALPHA: f64 = 0.1;
/// How fast the largest throughput decays towards a smaller one; it follows a larger one at once.
const THROUGHPUT_ALPHA: f64 = 0.01;
const EXPLORE_LEAST: f64 = 0.06;
const EXPLORE_MOST: f64 = 0.3;
const EXPLORE_STEP: f64 = 0.02;
/// The smallest latency is measured anew after this, and up to twice that.
const REMEASURE_AFTER: Duration = Duration::from_secs(25);
/// The limit meanwhile, as a part of smallest latency × largest throughput.
const REMEASURE_SHARE: f64 = 0.9;

/// A limit from the smallest latency and the largest throughput.
pub(super) struct Brpc {
    limit: u32,
    least_s: Option<f64>,
    peak: f64,
    explore: f64,
    window: Window,
    sampled_at: Option<Mono>,
    remeasure_at: Mono,
    /// Samples are thrown away until then, and the smallest latency after.
    settling_until: Option<Mono>,
    rng: Rng,
}

#[derive(Default)]
struct Window {
    since: Option<Mono>,
    succeeded: u32,
    failed: u32,
    /// Latencies of all samples.
    sum_s: f64,
    /// Successes, those between samples included.
    all: u32,
}

impl Brpc {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            limit: INITIAL,
            least_s: None,
            peak: 0.0,
            explore: EXPLORE_MOST,
            window: Window::default(),
            sampled_at: None,
            remeasure_at: Mono::default() + until_remeasured(&mut rng),
            settling_until: None,
            rng,
        }
    }

    fn sample(&mut self, now: Mono, latency: Duration, worked: bool) {
        if let Some(until) = self.settling_until {
            if now < until {
                return;
            }
            self.settling_until = None;
            self.least_s = None;
            self.remeasure_at = now + until_remeasured(&mut self.rng);
            self.window = Window::default();
        }
        let since = *self.window.since.get_or_insert(now);
        self.window.sum_s += latency.as_secs_f64();
        if worked {
            self.window.succeeded += 1;
        } else {
            self.window.failed += 1;
        }

        let samples = self.window.succeeded + self.window.failed;
        let over = now.since(since) >= WINDOW;
        if samples < SAMPLES_LEAST {
            if over {
                self.begin(now);
            }
        } else if over || samples >= SAMPLES_MOST {
            if self.window.succeeded > 0 {
                self.update(now, now.since(since));
            } else {
                self.limit = (self.limit / 2).max(LEAST);
            }
            self.begin(now);
        }
    }

    fn begin(&mut self, now: Mono) {
        self.window = Window {
            since: Some(now),
            ..Window::default()
        };
    }

    fn update(&mut self, now: Mono, lasted: Duration) {
        let mean_s = self.window.sum_s / f64::from(self.window.succeeded);
        let throughput = f64::from(self.window.all) / lasted.as_secs_f64().max(1e-6);
        let least_s = match self.least_s {
            Some(least) if mean_s < least => least + (mean_s - least) * LATENCY_ALPHA,
            Some(least) => least,
            None => mean_s,
        };
        self.least_s = Some(least_s);
        if throughput >= self.peak {
            self.peak = throughput;
        } else {
            self.peak += (throughput - self.peak) * THROUGHPUT_ALPHA;
        }

        let factor = if now >= self.remeasure_at {
            self.settling_until = Some(now + Duration::from_secs_f64(2.0 * mean_s));
            REMEASURE_SHARE
        } else {
            let room = mean_s <= least_s * (1.0 + EXPLORE_LEAST)
                || throughput <= self.peak / (1.0 + EXPLORE_LEAST);
            let step = if room { EXPLORE_STEP } else { -EXPLORE_STEP };
            self.explore = (self.explore + step).clamp(EXPLORE_LEAST, EXPLORE_MOST);
            1.0 + self.explore
        };
        self.limit = ((least_s * self.peak * factor).ceil() as u32).max(LEAST);
    }
}

impl Limit for Brpc {
    fn admitted(&mut self, _: Mono, _: RouteId, _: u32) -> u32 {
        0
    }

    fn finished(&mut self, now: Mono, sample: &Sample) {
        let worked = sample.ending == Ending::Worked;
        self.window.all += u32::from(worked);
        let due = self
            .sampled_at
            .is_none_or(|last| now.since(last) >= SAMPLED_EVERY);
        if due {
            self.sampled_at = Some(now);
            self.sample(now, sample.latency, worked);
        }
    }

    fn refused(&mut self, _: Mono) {}

    fn limit(&self) -> u32 {
        self.limit
    }

    fn insight(&self) -> Insight {
        Insight {
            probing: self.settling_until.is_some(),
            baseline: self.least_s.map(Duration::from_secs_f64),
            inflation: None,
            gateways: None,
        }
    }
}

fn until_remeasured(rng: &mut Rng) -> Duration {
    REMEASURE_AFTER.mul_f64(1.0 + rng.unit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples 5 ms apart from `from_ms` on.
    fn feed(limit: &mut Brpc, from_ms: u64, latency_ms: u64, times: u64, ending: Ending) -> u32 {
        for turn in 0..times {
            let sample = Sample {
                tag: 0,
                route: RouteId(0),
                latency: Duration::from_millis(latency_ms),
                in_flight: 1,
                ending,
            };
            limit.finished(Mono::from_millis(from_ms + turn * 5), &sample);
        }
        limit.limit()
    }

    #[test]
    fn it_is_littles_law_with_thirty_per_cent_to_explore() {
        let mut limit = Brpc::new(1);

        // 200 samples in 995 ms of 100 ms each: 0.1 × 201 × 1.3
        assert_eq!(feed(&mut limit, 0, 100, 200, Ending::Worked), 27);
    }

    #[test]
    fn exploring_ends_when_more_is_only_slower() {
        let mut limit = Brpc::new(1);
        feed(&mut limit, 0, 100, 200, Ending::Worked);

        // Twelve windows at the same throughput and twice the latency: 0.1 × 201 × 1.06
        assert_eq!(feed(&mut limit, 1000, 200, 2600, Ending::Worked), 22);
    }

    #[test]
    fn a_window_of_failures_halves_it_and_a_small_one_says_nothing() {
        let mut limit = Brpc::new(1);
        feed(&mut limit, 0, 1, 98, Ending::Overloaded);
        assert_eq!(limit.limit(), 40);

        assert_eq!(feed(&mut limit, 5000, 1, 201, Ending::Overloaded), 20);
        assert_eq!(feed(&mut limit, 10_000, 1, 1000, Ending::Overloaded), 9);
    }

    #[test]
    fn the_smallest_latency_is_measured_anew_at_a_lower_limit() {
        let mut limit = Brpc::new(1);
        feed(&mut limit, 0, 100, 200, Ending::Worked);
        assert!(!limit.insight().probing);

        let settled = (0..200).find(|turn| {
            feed(&mut limit, 1000 + turn * 1000, 100, 200, Ending::Worked);
            limit.insight().probing
        });

        let at = settled.unwrap() + 1;
        assert!((24..=50).contains(&at), "{at} s");
        assert_eq!(limit.limit(), 19);
    }
}

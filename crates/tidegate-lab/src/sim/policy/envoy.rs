//! The gradient controller of Envoy's adaptive concurrency filter: the median latency of a tenth of
//! a second against one measured with hardly any load (`gradient_controller.cc`; constants as
//! documented, intervals as in the documentation's example).
//!
//! Envoy has two timers. Here they are looked at with each event, which comes to the same: a tenth
//! of a second without a sample changes nothing.
//!
//! Every answer is a sample, failures that come at once included; Envoy looks at no status.

use std::time::Duration;

use tidegate_core::facts::RouteId;
use tidegate_core::limit::{Insight, Limit, Sample};
use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;

/// Also the limit while the baseline is measured.
const LEAST: u32 = 3;
const MOST: u32 = 1000;
const UPDATE_EVERY: Duration = Duration::from_millis(100);
/// A baseline is measured anew after this, and up to 15 % more.
const BASELINE_KEPT: Duration = Duration::from_secs(60);
const JITTER: f64 = 0.15;
/// Samples that make a baseline.
const BASELINE_SAMPLES: usize = 50;
/// Room above the baseline.
const BUFFER: f64 = 0.25;
/// Updates in a row that leave the limit at its least until the baseline is measured anew.
const STUCK_AFTER: u32 = 5;

/// A limit that follows the ratio of baseline to present latency.
pub(super) struct Envoy {
    limit: u32,
    phase: Phase,
    /// No baseline has been measured before the first one is.
    baseline: Option<Duration>,
    samples: Vec<Duration>,
    update_at: Mono,
    stuck: u32,
    rng: Rng,
}

enum Phase {
    /// The baseline is being measured, since when, and what limit to come back to.
    Measuring { since: Mono, back_to: u32 },
    /// The limit follows latency until the baseline is measured anew.
    Following { until: Mono, since: Mono },
}

impl Envoy {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            limit: LEAST,
            phase: Phase::Measuring {
                since: Mono::default(),
                back_to: LEAST,
            },
            baseline: None,
            samples: Vec::new(),
            update_at: Mono::default() + UPDATE_EVERY,
            stuck: 0,
            rng: Rng::new(seed),
        }
    }

    /// What Envoy's timers would have done by now.
    fn catch_up(&mut self, now: Mono) {
        let Phase::Following { until, .. } = self.phase else {
            return;
        };
        if now >= self.update_at && self.update_at <= until {
            self.update();
            let late = now.since(self.update_at).as_nanos() / UPDATE_EVERY.as_nanos();
            let turns = u32::try_from(late).unwrap_or(u32::MAX).saturating_add(1);
            self.update_at = self.update_at + UPDATE_EVERY.saturating_mul(turns);
        }
        if now >= until || self.stuck >= STUCK_AFTER {
            self.measure(now);
        }
    }

    fn update(&mut self) {
        let (Some(baseline), Some(latency)) = (self.baseline, median(&mut self.samples)) else {
            return;
        };
        let buffered = baseline.as_secs_f64() * (1.0 + BUFFER);
        let gradient = (buffered / latency.as_secs_f64()).clamp(0.5, 2.0);
        let scaled = f64::from(self.limit) * gradient;
        let wanted = ((scaled + scaled.sqrt()) as u32).clamp(LEAST, MOST);
        self.stuck = if wanted == LEAST && self.limit == LEAST {
            self.stuck + 1
        } else {
            0
        };
        self.limit = wanted;
    }

    fn measure(&mut self, now: Mono) {
        self.phase = Phase::Measuring {
            since: now,
            back_to: self.limit,
        };
        self.limit = LEAST;
        self.stuck = 0;
        self.samples.clear();
    }
}

impl Limit for Envoy {
    fn admitted(&mut self, now: Mono, _: RouteId, _: u32) -> u32 {
        self.catch_up(now);
        0
    }

    fn finished(&mut self, now: Mono, sample: &Sample) {
        self.catch_up(now);
        let started = now.minus(sample.latency);
        let (Phase::Measuring { since, .. } | Phase::Following { since, .. }) = self.phase;
        if started < since {
            return;
        }
        self.samples.push(sample.latency);
        let Phase::Measuring { since, back_to } = self.phase else {
            return;
        };
        if self.samples.len() < BASELINE_SAMPLES {
            return;
        }
        self.baseline = median(&mut self.samples);
        self.limit = back_to;
        self.update_at = now + UPDATE_EVERY;
        let kept = BASELINE_KEPT.mul_f64(1.0 + JITTER * self.rng.unit());
        self.phase = Phase::Following {
            until: now + kept,
            since,
        };
    }

    fn refused(&mut self, now: Mono) {
        self.catch_up(now);
    }

    fn limit(&self) -> u32 {
        self.limit
    }

    fn insight(&self) -> Insight {
        Insight {
            probing: matches!(self.phase, Phase::Measuring { .. }),
            baseline: self.baseline,
            inflation: None,
            gateways: None,
        }
    }
}

/// The median, and nothing is left.
fn median(samples: &mut Vec<Duration>) -> Option<Duration> {
    let middle = samples.len().checked_sub(1)? / 2;
    let (_, &mut median, _) = samples.select_nth_unstable(middle);
    samples.clear();
    Some(median.max(Duration::from_nanos(1)))
}

#[cfg(test)]
mod tests {
    use tidegate_core::limit::Ending;

    use super::*;

    fn feed(limit: &mut Envoy, at_ms: u64, latency_ms: u64, times: u32) -> u32 {
        for _ in 0..times {
            let sample = Sample {
                tag: 0,
                route: RouteId(0),
                latency: Duration::from_millis(latency_ms),
                in_flight: 1,
                ending: Ending::Worked,
            };
            limit.finished(Mono::from_millis(at_ms), &sample);
        }
        limit.limit()
    }

    #[test]
    fn it_starts_by_measuring_at_its_least() {
        let mut limit = Envoy::new(1);

        assert_eq!(feed(&mut limit, 50, 50, 49), 3);
        assert!(limit.insight().probing);
        feed(&mut limit, 60, 50, 1);

        assert!(!limit.insight().probing);
        assert_eq!(limit.insight().baseline, Some(Duration::from_millis(50)));
    }

    #[test]
    fn each_tenth_of_a_second_moves_it_by_the_gradient_and_a_root() {
        let mut limit = Envoy::new(1);
        feed(&mut limit, 1000, 100, 50);
        limit.limit = 100;
        feed(&mut limit, 1050, 100, 10);

        // 100 × 1.25 + √125
        assert_eq!(feed(&mut limit, 1100, 500, 10), 136);
        // 136 × 0.5 + √68
        assert_eq!(feed(&mut limit, 1200, 500, 1), 76);
        assert_eq!(feed(&mut limit, 1250, 500, 1), 76);
    }

    #[test]
    fn the_baseline_is_measured_anew_after_a_minute_without_what_began_before() {
        let mut limit = Envoy::new(1);
        feed(&mut limit, 1000, 100, 50);
        limit.limit = 200;

        assert_eq!(feed(&mut limit, 71_000, 150, 60), 3);
        assert!(limit.insight().probing, "those began before");
        feed(&mut limit, 72_000, 150, 50);

        assert_eq!(limit.insight().baseline, Some(Duration::from_millis(150)));
        assert!(limit.limit() > 100);
    }

    #[test]
    fn five_updates_at_the_least_have_it_measure_anew() {
        let mut limit = Envoy::new(1);
        feed(&mut limit, 1000, 100, 50);

        let stuck = (1..=7u64).find(|turn| {
            feed(&mut limit, 1000 + turn * 100, 600, 1);
            limit.insight().probing
        });

        assert_eq!(stuck, Some(6));
    }
}

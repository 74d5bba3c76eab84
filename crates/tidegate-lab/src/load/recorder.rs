//! What a run's visits report while it goes on.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::{
    Invalidity, KindReport, LoadPlan, Percentiles, PhaseReport, Report, SecondReport, Tally,
};

/// Send lag above which a run says nothing (ms, 99th percentile).
const SEND_LAG_P99_MS_MAX: f64 = 5.0;
/// Share of CPU time taken by the host above which a run says nothing.
const STEAL_SHARE_MAX: f64 = 0.05;
/// Two digits: percentiles are good to 1 %.
const DIGITS: u8 = 2;
/// The longest latency that is told apart: an hour.
const SPAN_US_MAX: u64 = 3_600_000_000;
/// The start of a phase that its latencies leave out.
const SETTLING: Duration = Duration::from_secs(1);

/// How a visit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Good,
    Late,
    Refused,
    Error,
    Timeout,
}

/// Collects what visits report. Written by the run's thread, read by whoever watches.
pub(super) struct Recorder {
    state: Mutex<State>,
}

struct State {
    seconds: Vec<SecondReport>,
    kinds: Vec<Latencies>,
    /// By phase and kind.
    phases: Vec<Vec<Histogram<u64>>>,
    phase_starts: Vec<Duration>,
    send_lag: Histogram<u64>,
    capped: u64,
}

struct Latencies {
    good: Histogram<u64>,
    refusal: Histogram<u64>,
}

impl Recorder {
    pub(super) fn new(plan: &LoadPlan) -> Self {
        let mut phase_starts = Vec::new();
        let mut from = Duration::ZERO;
        for phase in &plan.phases {
            phase_starts.push(from);
            from += phase.length;
        }
        let kinds = plan.kinds.len();
        let state = State {
            seconds: vec![SecondReport {
                kinds: vec![Tally::default(); kinds],
            }],
            kinds: (0..kinds)
                .map(|_| Latencies {
                    good: histogram(),
                    refusal: histogram(),
                })
                .collect(),
            phases: plan
                .phases
                .iter()
                .map(|_| (0..kinds).map(|_| histogram()).collect())
                .collect(),
            phase_starts,
            send_lag: histogram(),
            capped: 0,
        };
        Self {
            state: Mutex::new(state),
        }
    }

    pub(super) fn seconds(&self) -> Vec<SecondReport> {
        self.lock().seconds.clone()
    }

    /// A visit that arrived at `at` could not even be started.
    pub(super) fn capped(&self, at: Duration, kind: usize) {
        let mut state = self.lock();
        state.capped += 1;
        let tally = state.tally(at, kind);
        tally.offered += 1;
        tally.error += 1;
    }

    /// A visit that arrived at `at` starts `lag` later.
    pub(super) fn arrived(&self, at: Duration, kind: usize, lag: Duration) {
        let mut state = self.lock();
        state.tally(at, kind).offered += 1;
        state.send_lag.saturating_record(micros(lag));
    }

    /// An attempt is sent at `now`.
    pub(super) fn attempted(&self, now: Duration, kind: usize) {
        self.lock().tally(now, kind).attempts += 1;
    }

    /// An attempt was answered 2xx at `now`.
    pub(super) fn answered(&self, now: Duration, kind: usize) {
        self.lock().tally(now, kind).answers += 1;
    }

    /// An attempt was turned away at `now`, `after` it was sent.
    pub(super) fn turned_away(&self, now: Duration, kind: usize, after: Duration) {
        let mut state = self.lock();
        state.tally(now, kind).refusals += 1;
        state.kinds[kind].refusal.saturating_record(micros(after));
    }

    /// The visit that arrived at `at` in `phase` has ended after `took`.
    pub(super) fn ended(
        &self,
        at: Duration,
        phase: usize,
        kind: usize,
        outcome: Outcome,
        took: Duration,
    ) {
        let mut state = self.lock();
        let tally = state.tally(at, kind);
        match outcome {
            Outcome::Good => tally.good += 1,
            Outcome::Late => tally.late += 1,
            Outcome::Refused => tally.refused += 1,
            Outcome::Error => tally.error += 1,
            Outcome::Timeout => tally.timeout += 1,
        }
        if outcome == Outcome::Good {
            state.kinds[kind].good.saturating_record(micros(took));
            if at >= state.phase_starts[phase] + SETTLING {
                state.phases[phase][kind].saturating_record(micros(took));
            }
        }
    }

    /// The report of a run that is over.
    pub(super) fn report(&self, plan: &LoadPlan, steal_share: f64) -> Report {
        let state = self.lock();
        let mut total = vec![Tally::default(); plan.kinds.len()];
        for second in &state.seconds {
            for (sum, tally) in total.iter_mut().zip(&second.kinds) {
                *sum += *tally;
            }
        }
        let kinds = plan
            .kinds
            .iter()
            .zip(total)
            .zip(&state.kinds)
            .map(|((kind, total), latencies)| KindReport {
                name: kind.name.clone(),
                class: kind.class.clone(),
                total,
                good: percentiles(&latencies.good),
                refusal: percentiles(&latencies.refusal),
            })
            .collect();
        let send_lag_p99_ms = millis(state.send_lag.value_at_quantile(0.99));
        Report {
            seed: plan.seed,
            phases: state.phase_reports(plan),
            kinds,
            seconds: state.seconds.clone(),
            send_lag_p99_ms,
            steal_share,
            invalid: invalidities(send_lag_p99_ms, steal_share, state.capped),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counts are whole between any two statements, so a panic elsewhere does not spoil them.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The counts of the second that `at` is in; seconds reach as far as the last visit does.
    fn tally(&mut self, at: Duration, kind: usize) -> &mut Tally {
        let second = usize::try_from(at.as_secs()).unwrap_or(usize::MAX);
        while self.seconds.len() <= second {
            let kinds = vec![Tally::default(); self.kinds.len()];
            self.seconds.push(SecondReport { kinds });
        }
        &mut self.seconds[second].kinds[kind]
    }

    fn phase_reports(&self, plan: &LoadPlan) -> Vec<PhaseReport> {
        let mut reports = Vec::new();
        for ((phase, from), good) in plan.phases.iter().zip(&self.phase_starts).zip(&self.phases) {
            let mut all = histogram();
            for one in good {
                all.add(one).expect("all histograms have the same bounds");
            }
            reports.push(PhaseReport {
                name: phase.name.clone(),
                from_s: from.as_secs_f64(),
                to_s: (*from + phase.length).as_secs_f64(),
                good: good.iter().map(percentiles).collect(),
                good_all: percentiles(&all),
            });
        }
        reports
    }
}

/// A histogram of microseconds. What is over its end is counted there.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, SPAN_US_MAX, DIGITS).expect("bounds and digits are allowed")
}

/// The short form of a histogram of microseconds.
pub(super) fn percentiles(histogram: &Histogram<u64>) -> Percentiles {
    if histogram.is_empty() {
        return Percentiles::default();
    }
    Percentiles {
        count: histogram.len(),
        p50_ms: millis(histogram.value_at_quantile(0.5)),
        p99_ms: millis(histogram.value_at_quantile(0.99)),
        max_ms: millis(histogram.max()),
    }
}

/// Whole microseconds of `span`.
pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}

fn invalidities(send_lag_p99_ms: f64, steal_share: f64, capped: u64) -> Vec<Invalidity> {
    let mut invalid = Vec::new();
    if send_lag_p99_ms > SEND_LAG_P99_MS_MAX {
        invalid.push(Invalidity::SendLag {
            p99_ms: send_lag_p99_ms,
        });
    }
    if steal_share > STEAL_SHARE_MAX {
        invalid.push(Invalidity::Steal { share: steal_share });
    }
    if capped > 0 {
        invalid.push(Invalidity::Capped { visits: capped });
    }
    invalid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Kind, Phase};

    #[test]
    fn a_visit_counts_in_the_second_it_came_and_latencies_leave_out_a_phase_that_settles() {
        let phases = vec![Phase::new("a", 1.0, Duration::from_secs(5))];
        let target = "127.0.0.1:1".parse().unwrap();
        let plan = LoadPlan::new(target, vec![Kind::get("k", "/")], phases);
        let recorder = Recorder::new(&plan);
        let at = Duration::from_millis;

        recorder.arrived(at(500), 0, at(1));
        recorder.attempted(at(500), 0);
        recorder.answered(at(1_400), 0);
        recorder.ended(at(500), 0, 0, Outcome::Good, at(900));
        recorder.arrived(at(1_500), 0, at(1));
        recorder.ended(at(1_500), 0, 0, Outcome::Good, at(100));
        let report = recorder.report(&plan, 0.0);

        assert_eq!(report.seconds[0].kinds[0].good, 1);
        assert_eq!(report.seconds[0].kinds[0].answers, 0);
        assert_eq!(report.seconds[1].kinds[0].answers, 1);
        assert_eq!(report.kinds[0].good.count, 2);
        assert_eq!(report.phases[0].good_all.count, 1);
        assert!((99.0..101.0).contains(&report.phases[0].good_all.p99_ms));
        assert!((890.0..910.0).contains(&report.kinds[0].good.max_ms));
        assert!((0.9..1.1).contains(&report.send_lag_p99_ms));
        assert!(report.is_valid());
    }

    #[test]
    fn a_run_on_a_busy_machine_says_why_it_is_no_result() {
        let reasons = invalidities(5.1, 0.06, 2);

        assert_eq!(
            reasons,
            vec![
                Invalidity::SendLag { p99_ms: 5.1 },
                Invalidity::Steal { share: 0.06 },
                Invalidity::Capped { visits: 2 },
            ]
        );
        assert!(invalidities(5.0, 0.05, 0).is_empty());
    }
}

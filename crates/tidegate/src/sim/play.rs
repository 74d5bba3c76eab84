//! Runs all jobs on all cores, and shows how far they are.

use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_lab::measure;
use tidegate_lab::report::{Digest, Results, ScenarioResult};
use tidegate_lab::suite::{Case, run_all, threads};

use super::jobs::Job;

/// How often the remaining time is reckoned anew.
const TICK: Duration = Duration::from_millis(500);

/// Plays `jobs`; keeps what plots need of the first seed of each where they are `plotted`.
pub(super) fn play(jobs: &[Job], on: Option<u16>, plotted: bool) -> anyhow::Result<Results> {
    let cases: Vec<Case<'_>> = jobs.iter().flat_map(cases_of).collect();
    let on = on
        .and_then(|count| NonZeroUsize::new(count.into()))
        .unwrap_or_else(threads);
    let progress = Progress::of(&cases);

    let begun = cpu_time()?;
    let digests = run_all(
        &cases,
        on,
        |case, record| Digest::of(case.scenario, case.seed, &record, plotted && case.seed == 1),
        |done| progress.show(done.done),
    );
    let cpu = cpu_time()?.saturating_sub(begun);
    progress.end();

    let mut digests = digests.into_iter();
    let scenarios = jobs.iter().map(|job| {
        let runs: Vec<(&str, Vec<Digest>)> = job
            .policies
            .iter()
            .map(|(policy, seeds)| {
                let digests = digests.by_ref().take(*seeds as usize);
                (policy.name(), digests.collect())
            })
            .collect();
        ScenarioResult::new(&job.scenario, &job.from, &runs)
    });
    Ok(Results::new(scenarios.collect(), cpu))
}

fn cases_of(job: &Job) -> impl Iterator<Item = Case<'_>> {
    job.policies.iter().flat_map(move |(policy, seeds)| {
        (1..=u64::from(*seeds)).map(move |seed| Case {
            scenario: &job.scenario,
            policy,
            seed,
        })
    })
}

fn cpu_time() -> anyhow::Result<Duration> {
    let sample = measure::sample(std::process::id()).context("cannot read the CPU time used")?;
    Ok(sample.cpu)
}

/// A bar on standard error, where that is a terminal.
struct Progress {
    bar: ProgressBar,
    /// Simulated milliseconds up to the end of each case: runs are as long as that, more or less.
    reached: Vec<u64>,
}

impl Progress {
    fn of(cases: &[Case<'_>]) -> Self {
        let mut sum = 0;
        let reached: Vec<u64> = cases
            .iter()
            .map(|case| {
                sum += case.scenario.length.as_millis() as u64;
                sum
            })
            .collect();
        let bar = ProgressBar::new(sum).with_style(
            ProgressStyle::with_template("{wide_bar} {percent:>3} %  {msg}  {eta} to go")
                .expect("the template is sound"),
        );
        bar.enable_steady_tick(TICK);
        let progress = Self { bar, reached };
        progress.show(0);
        progress
    }

    fn show(&self, done: usize) {
        let reached = done.checked_sub(1).map_or(0, |last| self.reached[last]);
        self.bar.set_position(reached);
        self.bar
            .set_message(format!("{done} of {} runs", self.reached.len()));
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

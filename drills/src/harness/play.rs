//! Runs of the load generator that count, or say why they do not.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tidegate_lab::load::{self, Capacity, ClosedLoop, LoadPlan, Report, Request, Run};

use super::{Args, say};

/// How long clients ask before their answers count towards a capacity.
const CAPACITY_WARM_UP: Duration = Duration::from_secs(2);
/// How long their answers count.
const CAPACITY_LENGTH: Duration = Duration::from_secs(5);

/// The machine was too busy with others: there is no result, and trying again may bring one.
#[derive(Debug)]
pub(crate) struct Invalid(pub(crate) String);

impl std::error::Error for Invalid {}

impl std::fmt::Display for Invalid {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

/// Plays `plan` to its end. A run that is no result is the error [`Invalid`].
pub(crate) fn play(plan: LoadPlan) -> anyhow::Result<Report> {
    finish(Run::start(plan)?)
}

/// The same, and calls `at` with the number of each of `marks`, times since the start in ascending
/// order, as they pass.
pub(crate) fn play_watched(
    plan: LoadPlan,
    marks: &[Duration],
    mut at: impl FnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<Report> {
    let begun = Instant::now();
    let run = Run::start(plan)?;
    for (index, mark) in marks.iter().enumerate() {
        thread::sleep(mark.saturating_sub(begun.elapsed()));
        at(index)?;
    }
    finish(run)
}

/// Does `run`, and does it again while its load was no result, as often as `args` allow. For drills
/// of several runs, each of which begins with new servers.
pub(crate) fn until_valid<T>(
    args: &Args,
    mut run: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut attempt = 1;
    loop {
        match run() {
            Err(error) if error.is::<Invalid>() && attempt < args.attempts => {
                say(args.json, format!("INVALID, once more: {error}"));
                attempt += 1;
            }
            other => return other,
        }
    }
}

/// Waits for the end of `run`. One that is no result is the error [`Invalid`].
pub(crate) fn finish(run: Run) -> anyhow::Result<Report> {
    let report = run.join()?;
    if report.is_valid() {
        return Ok(report);
    }
    let reasons: Vec<String> = report.invalid.iter().map(ToString::to_string).collect();
    Err(Invalid(reasons.join(", ")).into())
}

/// What the server with `slots` slots at `target` does at most: its closed-loop maximum, called C.
pub(crate) fn capacity(target: SocketAddr, slots: u32) -> anyhow::Result<Capacity> {
    let capacity = load::closed_loop(&ClosedLoop {
        target,
        request: Request::get("/browse/capacity"),
        connections: 2 * slots as usize,
        warm_up: CAPACITY_WARM_UP,
        length: CAPACITY_LENGTH,
    })
    .context("cannot measure the capacity")?;
    anyhow::ensure!(
        capacity.failures == 0 && capacity.per_second > 0.0,
        "the capacity run had {} failures at {:.0}/s",
        capacity.failures,
        capacity.per_second
    );
    Ok(capacity)
}

/// Good visits second by second, for people to see a collapse happen.
pub(crate) fn series(report: &Report) -> String {
    let seconds = 0..report.length().as_secs() as usize;
    let good: Vec<String> = seconds
        .map(|second| report.sum(second..second + 1, |_| true).good.to_string())
        .collect();
    good.join(" ")
}

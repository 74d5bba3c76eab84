//! The most that anybody gets: around the end of a window, and in any second at all.

use tidegate_core::rate::{Algorithm, Tick};

use super::usual::Window;
use super::{Ours, SECOND, START};
use crate::harness::clockwork::Clockwork;
use crate::harness::{Figure, Verdict};

/// 100 requests in the last millisecond of a second, 100 in the first of the next, 100 ten milliseconds after it.
pub(super) fn around_the_end(verdict: &mut Verdict, redis: &mut Clockwork) -> anyhow::Result<()> {
    let times = [999_000, SECOND, SECOND + 10_000].map(|us| START.plus(us));
    let fixed = Window::new(redis, 100)?;
    let mut control = [0; 3];
    for (passed, &now) in control.iter_mut().zip(&times) {
        for _ in 0..100 {
            *passed += u64::from(fixed.take(redis, 1, now)?.0);
        }
    }
    for algorithm in Algorithm::ALL {
        let name = format!("end:{}", algorithm.name());
        let ours = Ours::new(redis, &name, algorithm, "100/s", None)?;
        let mut passed = [0; 3];
        for (passed, &now) in passed.iter_mut().zip(&times) {
            *passed = ours.passes(redis, 100, now)?;
        }
        anyhow::ensure!(passed[0] == 100, "of a full {algorithm:?} {passed:?}");
        let what = format!(
            "{}, 100/s: 100 before a second's end, then",
            algorithm.name()
        );
        verdict.add(
            Figure::count(format!("{what} at it"), passed[1] as f64)
                .beside("fixed window", control[1] as f64)
                .at_most(1.0),
        );
        verdict.add(Figure::count(format!("{what} 10 ms after it"), passed[2] as f64).at_most(1.0));
    }
    Ok(())
}

/// Somebody takes all there is in each millisecond: the most in any second, wherever it begins.
pub(super) fn in_any_second(verdict: &mut Verdict, redis: &mut Clockwork) -> anyhow::Result<()> {
    let fixed = Window::new(redis, 1_000)?;
    let control = most(|cost, now| fixed.take(redis, cost, now))?;
    let limits = [
        (Algorithm::Bucket, "1000/s", None, 1_999.0),
        (Algorithm::Bucket, "900/s", Some(100), 1_000.0),
        (Algorithm::Log, "100/s", None, 100.0),
        (Algorithm::Window, "1000/s", None, 1_999.0),
    ];
    for (algorithm, rate, burst, bar) in limits {
        let name = format!("any:{}:{rate}", algorithm.name());
        let ours = Ours::new(redis, &name, algorithm, rate, burst)?;
        let passed = most(|cost, now| ours.take(redis, cost, now))?;
        let burst = burst.map_or_else(String::new, |burst| format!(" with a burst of {burst}"));
        let what = format!("{}, {rate}{burst}: most in any second", algorithm.name());
        let figure = Figure::count(what, passed as f64).at_most(bar);
        verdict.add(match algorithm {
            Algorithm::Log => figure,
            _ => figure.beside("fixed window of 1000", control as f64),
        });
        anyhow::ensure!(
            passed <= ours.spec.worst_in(SECOND),
            "more than the limit says of itself"
        );
    }
    Ok(())
}

/// The most that passes in any 1,000 ms of three seconds, when all there is goes at once from just before a second's end.
fn most(mut take: impl FnMut(u64, Tick) -> anyhow::Result<(bool, u64)>) -> anyhow::Result<u64> {
    let mut passed = Vec::new();
    for ms in 999..3_999 {
        let now = START.plus(ms * 1_000);
        let (_, there) = take(0, now)?;
        let mut all = 0;
        if there > 0 && take(there, now)?.0 {
            all = there;
        }
        passed.push(all);
    }
    let seconds = passed.windows(1_000).map(|second| second.iter().sum());
    Ok(seconds.max().unwrap_or(0))
}

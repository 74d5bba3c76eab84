//! Many runs on all cores.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::scenario::Scenario;
use crate::sim;
use crate::sim::policy::Policy;
use crate::sim::record::Record;

/// One run to do.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// What happens.
    pub scenario: &'a Scenario,
    /// What protects against it.
    pub policy: &'a Policy,
    /// What decides every draw.
    pub seed: u64,
}

/// How far the runs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Runs done.
    pub done: usize,
    /// Runs in all.
    pub of: usize,
}

/// As many threads as there are cores to be had.
pub fn threads() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Does all of `cases` on so many `threads` and gives back what `digest` makes of each, in the
/// order of `cases`: the number of threads makes no difference to the results.
///
/// Records are large, so each is digested where it was made and dropped.
pub fn run_all<T: Send>(
    cases: &[Case<'_>],
    threads: NonZeroUsize,
    digest: impl Fn(&Case<'_>, Record) -> T + Sync,
    mut progress: impl FnMut(Progress),
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let (results, done) = mpsc::channel();
    let mut all: Vec<Option<T>> = cases.iter().map(|_| None).collect();
    thread::scope(|scope| {
        for _ in 0..threads.get().min(cases.len()) {
            let results = results.clone();
            let (next, digest) = (&next, &digest);
            scope.spawn(move || {
                while let Some((index, case)) = claim(next, cases) {
                    let record = sim::run(case.scenario, case.policy, case.seed);
                    // The receiver outlives the threads, except when another one has panicked.
                    if results.send((index, digest(case, record))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        for (number, (index, result)) in (1..).zip(done) {
            all[index] = Some(result);
            progress(Progress {
                done: number,
                of: cases.len(),
            });
        }
    });
    all.into_iter().flatten().collect()
}

fn claim<'a, 'b>(next: &AtomicUsize, cases: &'a [Case<'b>]) -> Option<(usize, &'a Case<'b>)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    cases.get(index).map(|case| (index, case))
}

#[cfg(test)]
mod tests {
    use crate::suite::Suite;

    use super::*;

    #[test]
    fn the_number_of_threads_makes_no_difference() {
        let scenarios = Suite::named("retry-storm").unwrap().scenarios().unwrap();
        let ours = Policy::named(Policy::OURS).unwrap();
        let cases: Vec<Case<'_>> = scenarios
            .iter()
            .flat_map(|scenario| [1, 2].map(|seed| (scenario, seed)))
            .map(|(scenario, seed)| Case {
                scenario,
                policy: &ours,
                seed,
            })
            .collect();
        let run = |threads| {
            let mut seen = Vec::new();
            let hashes = run_all(
                &cases,
                NonZeroUsize::new(threads).unwrap(),
                |case, record| (case.scenario.id.clone(), case.seed, record.hash),
                |progress| seen.push(progress.done),
            );
            (hashes, seen)
        };

        let (alone, progress) = run(1);

        assert_eq!(progress, (1..=cases.len()).collect::<Vec<_>>());
        assert_eq!(run(3).0, alone);
        let order: Vec<(&str, u64)> = alone.iter().map(|(id, seed, _)| (&**id, *seed)).collect();
        assert_eq!(order[..4], [("E1", 1), ("E1", 2), ("E2", 1), ("E2", 2)]);
    }

    #[test]
    fn nothing_to_do_is_done_at_once() {
        let none = run_all(&[], threads(), |_, _| (), |_| {});

        assert!(none.is_empty());
    }
}

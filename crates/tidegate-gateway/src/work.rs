//! What the data path carries, for those who judge the node: counts since the start, to be compared with those of a
//! moment before.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::facts::Class;
use tidegate_http::refusal::Refusal;

use crate::context::{App, Shared, Thread};
use crate::metrics::{Completion, Histogram, HistogramTotal, total};
use crate::upstream::UpstreamFailure;

/// What is longer than the longest bound counts as this, in seconds.
const LONGEST_S: f64 = 600.0;

/// Asks for it from any thread.
#[derive(Clone)]
pub struct WorkMeter {
    threads: Vec<Arc<Thread>>,
}

/// What all applications together have done since the start, and what is inside them now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Requests that arrived, also those that were refused.
    pub arrived: u64,
    /// Requests that an application has answered, or failed to.
    pub completed: u64,
    /// Of these: those it answered with a status of 500 and more, or not at all.
    pub failed: u64,
    /// Requests inside applications.
    pub inside: u32,
    /// How many may be.
    pub slots: u32,
    /// How much of each application was in use, in the order of the configuration.
    pub apps: Vec<AppWork>,
    /// Upper bounds in seconds with how many requests took so long in a slot.
    pub took: Vec<(f64, u64)>,
    /// What applications call through us.
    pub dependencies: Vec<CalledWork>,
}

/// How much of one application was in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppWork {
    /// Time in slots since the start, added up over all requests that are or were inside.
    pub occupied: Duration,
    /// How many may be inside now.
    pub slots: u32,
}

/// What is known of calls to one dependency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CalledWork {
    /// Its name.
    pub name: String,
    /// Calls that were made.
    pub calls: u64,
    /// Of these: those that failed.
    pub failed: u64,
    /// Its breaker lets no more through than tries.
    pub is_tripped: bool,
    /// It lets nothing through at all. One that waits for tries, because nobody calls, is not shut.
    pub is_shut: bool,
    /// Time that calls took together, in nanoseconds.
    pub took_nanos: u64,
    /// The longest time until an answer begins, in nanoseconds; 0 where calls do not pass through us.
    pub timeout_nanos: u64,
    /// Whether what may be asked of it follows what is left of it.
    pub follows: bool,
}

impl WorkMeter {
    pub(crate) const fn new(threads: Vec<Arc<Thread>>) -> Self {
        Self { threads }
    }

    /// What was done until now. Reads some hundred counters for each application.
    pub fn read(&self) -> Work {
        let shared = &self.threads[0].shared;
        let mut work = Work::default();
        let mut took: Vec<HistogramTotal> = Vec::new();
        for (at, app) in shared.applications().iter().enumerate() {
            let (completed, failed) = self.done(at, app);
            work.completed += completed;
            work.failed += failed;
            let gate = app.gate.snapshot();
            work.inside += gate.in_flight;
            work.slots += gate.limit;
            work.apps.push(AppWork {
                occupied: app.gate.occupied(),
                slots: gate.limit,
            });
            for class in Class::ALL {
                let of = |thread: &Arc<Thread>| -> u64 {
                    let classes = &thread.recorder.apps[at].classes;
                    classes[class.index()].arrivals.value()
                };
                work.arrived += self.threads.iter().map(of).sum::<u64>();
                let classes = self.threads.iter().map(|thread| {
                    let classes = &thread.recorder.apps[at].classes;
                    &classes[class.index()].service
                });
                took.push(Histogram::total(classes));
            }
        }
        work.took = added_up(&took);
        work.dependencies = self.called(shared);
        work
    }

    fn called(&self, shared: &Shared) -> Vec<CalledWork> {
        let dependencies = shared.dependencies.iter().map(|dependency| {
            let door = &shared.apps[dependency.app];
            let (calls, failed) = self.done(dependency.app, door);
            CalledWork {
                name: dependency.plan.name().to_owned(),
                calls,
                failed,
                is_tripped: (door.breaker.as_ref())
                    .is_some_and(|breaker| breaker.lets() != "calls"),
                is_shut: (door.breaker.as_ref())
                    .is_some_and(|breaker| breaker.refuses_for(shared.clock.now()).is_some()),
                took_nanos: self.took(dependency.app),
                // Who holds a permit, or the slot of a whole request, holds it for longer than a call takes.
                timeout_nanos: (dependency.plan.egress.as_ref())
                    .map_or(0, |_| nanos(door.plan.upstream.response_timeout)),
                follows: dependency.plan.follows.is_some(),
            }
        });
        dependencies.collect()
    }

    /// Time in slots of one door with a single route, in nanoseconds.
    fn took(&self, at: usize) -> u64 {
        let kinds = Class::ALL
            .into_iter()
            .flat_map(|class| Completion::ALL.map(|completion| (class, completion)));
        kinds
            .map(|(class, completion)| {
                total(&self.threads, |recorder| {
                    &recorder.apps[at].routes[0][class.index()].slot_nanos[completion.index()]
                })
            })
            .sum()
    }

    /// What ended at one application, and how much of that was a failure.
    fn done(&self, at: usize, app: &App) -> (u64, u64) {
        let threads = &self.threads;
        let mut completed = 0;
        for route in 0..app.plan.routes.len() {
            for (class, completion) in Class::ALL
                .into_iter()
                .flat_map(|class| Completion::ALL.map(|completion| (class, completion)))
            {
                completed += total(threads, |recorder| {
                    let work = &recorder.apps[at].routes[route][class.index()];
                    &work.completions[completion.index()]
                });
            }
        }
        let unanswered: u64 = UpstreamFailure::ALL
            .into_iter()
            // That one was sent again.
            .filter(|failure| *failure != UpstreamFailure::Stale)
            .map(|failure| {
                total(threads, |recorder| {
                    &recorder.apps[at].upstream_failures[failure.index()]
                })
            })
            .sum();
        let answers = total(threads, |recorder| &recorder.apps[at].answers[4]);
        // Among those answers are our own.
        let ours: u64 = Refusal::ALL
            .into_iter()
            .filter(|refusal| refusal.status().is_server_error())
            .flat_map(|refusal| Class::ALL.map(|class| (refusal, class)))
            .map(|(refusal, class)| {
                total(threads, |recorder| {
                    &recorder.apps[at].classes[class.index()].refused[refusal.index()]
                })
            })
            .sum();
        (completed, unanswered + answers.saturating_sub(ours))
    }
}

impl AppWork {
    /// How much of it was in use in the mean of the `span` since `before`: time inside, of the time that all slots had. 0 and
    /// up, and above 1 where more are let in than may be; `None` where nothing may be inside, or no time has passed.
    pub fn used_since(&self, before: &Self, span: Duration) -> Option<f64> {
        let inside = self.occupied.saturating_sub(before.occupied);
        let all = span.as_secs_f64() * f64::from(self.slots);
        (all > 0.0).then(|| inside.as_secs_f64() / all)
    }
}

impl Work {
    /// The time within which so large a `share` of the requests since `before` were answered, 0 to 1: the upper bound of
    /// its bucket. `None` when there were none.
    pub fn took_within(&self, before: &Self, share: f64) -> Option<Duration> {
        let mut counts = self.took.iter().enumerate().map(|(at, &(bound, count))| {
            let earlier = before.took.get(at).map_or(0, |(_, count)| *count);
            (bound, count.saturating_sub(earlier))
        });
        let all: u64 = counts.clone().map(|(_, count)| count).sum();
        let rank = (all as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let (bound, _) = counts.find(|(_, count)| {
            seen += count;
            seen >= rank
        })?;
        Duration::try_from_secs_f64(bound.min(LONGEST_S)).ok()
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn added_up(parts: &[HistogramTotal]) -> Vec<(f64, u64)> {
    let Some(first) = parts.first() else {
        return Vec::new();
    };
    let bounds = first.buckets.iter().enumerate();
    bounds
        .map(|(at, &(bound, _))| (bound, parts.iter().map(|part| part.buckets[at].1).sum()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(counts: [u64; 3]) -> Work {
        let bounds = [0.001, 0.1, f64::INFINITY];
        Work {
            took: bounds.into_iter().zip(counts).collect(),
            ..Work::default()
        }
    }

    #[test]
    fn what_is_in_use_is_the_time_inside_of_the_time_that_there_was() {
        let work = |ms, slots| AppWork {
            occupied: Duration::from_millis(ms),
            slots,
        };
        let second = Duration::from_secs(1);

        // Ten requests of 20 ms.
        let used = work(5_200, 4).used_since(&work(5_000, 9), second).unwrap();

        assert!((used - 0.05).abs() < 1e-9, "{used}");
        assert_eq!(work(5, 0).used_since(&work(0, 4), second), None);
        assert_eq!(work(5, 4).used_since(&work(0, 4), Duration::ZERO), None);
    }

    #[test]
    fn only_what_came_since_counts() {
        let (before, now) = (work([1_000, 0, 0]), work([1_000, 99, 1]));

        assert_eq!(
            now.took_within(&before, 0.5),
            Some(Duration::from_millis(100))
        );
        assert_eq!(
            now.took_within(&before, 1.0),
            Some(Duration::from_secs(600))
        );
        assert_eq!(
            now.took_within(&Work::default(), 0.5),
            Some(Duration::from_millis(1))
        );
        assert_eq!(now.took_within(&now, 0.99), None);
    }
}

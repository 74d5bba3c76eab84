//! What this node says of itself: what the gateway carries, and what the agent sees beside that.

use std::time::Duration;

use tidegate_core::health::{Called, Dimension, Load, Signal, left_of, utilisation};
use tidegate_core::time::Mono;
use tidegate_fleet::agent::{Agent, Board};
use tidegate_fleet::control::Said;
use tidegate_gateway::status::Status;
use tidegate_gateway::work::{CalledWork, Work, WorkMeter};

/// Over which time a share of failures or a percentile is taken: a second alone has too few requests.
const WINDOW: usize = 5;
/// Fewest requests in that time of which a percentile says something.
const REQUESTS_MIN: u64 = 20;
/// Which of the requests the latency is of.
const LATENCY_SHARE: f64 = 0.99;

/// What is seen beside what the gateway knows by itself.
pub(super) enum Eyes {
    /// What an agent sees, and with it what applications post of themselves.
    Agent(Agent),
    /// What applications post.
    Posted(Board),
}

/// Reads it, once a second.
pub(super) struct Reader<S> {
    status: S,
    meter: WorkMeter,
    eyes: Eyes,
    latency_budget: Option<Duration>,
    keeps_sessions: bool,
    /// What was seen at the looks before, oldest first; [`WINDOW`] of them at most.
    before: Vec<Look>,
}

/// What was seen at one time.
struct Look {
    at: Mono,
    /// What was done by then.
    work: Work,
    /// How much of the node was used since the look before, if that is known.
    used: Option<f64>,
}

impl Eyes {
    /// Puts what is seen into `signals`. Whether it is seen in a container.
    fn look(&self, signals: &mut Vec<Signal>) -> bool {
        match self {
            Self::Agent(agent) => {
                let seen = agent.latest();
                signals.extend(seen.sights.iter().map(|sight| sight.signal));
                seen.host.container.is_some()
            }
            Self::Posted(board) => {
                let mut sights = Vec::new();
                board.put_on(&mut sights);
                signals.extend(sights.iter().map(|sight| sight.signal));
                false
            }
        }
    }
}

impl<S: Fn() -> Status> Reader<S> {
    /// Of a gateway that tells its `status` and `meter`s its work; with what `eyes` see.
    pub(super) const fn new(
        status: S,
        meter: WorkMeter,
        eyes: Eyes,
        latency_budget: Option<Duration>,
        keeps_sessions: bool,
    ) -> Self {
        Self {
            status,
            meter,
            eyes,
            latency_budget,
            keeps_sessions,
            before: Vec::new(),
        }
    }

    /// What there is to say at `now`.
    pub(super) fn read(&mut self, now: Mono) -> Said {
        let (status, work) = ((self.status)(), self.meter.read());
        let mut signals = Vec::new();
        for app in &status.apps {
            let read = |dimension, value: u32, limit: u32| {
                Signal::read(dimension, f64::from(value), f64::from(limit), now)
            };
            signals.push(read(Dimension::Inflight, app.in_flight, app.limit));
            if app.queue_bound > 0 {
                signals.push(read(Dimension::Queue, app.queued, app.queue_bound));
            }
        }
        let carried = signals.len();
        let in_container = self.eyes.look(&mut signals);
        let used = used(self.before.last(), &work, &signals[carried..], now);
        let since = self.before.first();
        if let Some(Look { work: before, .. }) = since {
            signals.extend(self.latency(&work, before, now));
            signals.extend(downstream(&work, before, now));
        }
        let calls = since.map_or_else(Vec::new, |it| calls(&work, &it.work, now.since(it.at)));
        let mean = mean_used(&self.before, now, used);
        let load = since.and_then(|since| load(&work, since, now, mean?));
        // Without applications behind it a process does not know how many requests are inside one.
        let inside = (!status.apps.is_empty()).then_some(work.inside);
        self.before.push(Look {
            at: now,
            work,
            used,
        });
        if self.before.len() > WINDOW {
            self.before.remove(0);
        }
        Said {
            signals,
            load,
            calls,
            inflight: inside,
            keeps_sessions: self.keeps_sessions,
            in_container,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            ..Said::nothing()
        }
    }

    fn latency(&self, work: &Work, before: &Work, now: Mono) -> Option<Signal> {
        let budget = self.latency_budget?;
        let requests = work.completed.saturating_sub(before.completed);
        if requests < REQUESTS_MIN {
            return None;
        }
        let took = work.took_within(before, LATENCY_SHARE)?;
        Some(latency(took, budget, now))
    }
}

/// So much of so much, in the milliseconds that latency is told in everywhere.
fn latency(took: Duration, budget: Duration, now: Mono) -> Signal {
    let ms = |span: Duration| span.as_secs_f64() * 1_000.0;
    Signal::read(Dimension::Latency, ms(took), ms(budget), now)
}

/// The worst of what the applications call: all of it where a breaker lets nothing through.
fn downstream(work: &Work, before: &Work, now: Mono) -> Option<Signal> {
    let failing = work.dependencies.iter().filter_map(|called| {
        if called.is_tripped {
            return Some(1.0);
        }
        let earlier = before.dependencies.iter().find(|it| it.name == called.name);
        let none = CalledWork::default();
        let earlier = earlier.unwrap_or(&none);
        let calls = called.calls.saturating_sub(earlier.calls);
        let failed = called.failed.saturating_sub(earlier.failed);
        (calls >= REQUESTS_MIN).then(|| (failed as f64 / calls as f64).min(1.0))
    });
    let worst = failing.reduce(f64::max)?;
    Some(Signal::read(Dimension::Downstream, worst, 1.0, now))
}

/// How calls went since `before`, which was `span` ago, to what follows what is left of it. The worst come first.
fn calls(work: &Work, before: &Work, span: Duration) -> Vec<(String, Called)> {
    let seconds = span.as_secs_f64();
    let of = |called: &CalledWork| {
        let earlier = before.dependencies.iter().find(|it| it.name == called.name);
        let none = CalledWork::default();
        let earlier = earlier.unwrap_or(&none);
        let calls = called.calls.saturating_sub(earlier.calls);
        let failed = called.failed.saturating_sub(earlier.failed);
        let took = called.took_nanos.saturating_sub(earlier.took_nanos);
        // Of a few calls nothing can be told, and one that failed would be all of them.
        let tells = calls >= REQUESTS_MIN && seconds > 0.0;
        let longest = calls as f64 * called.timeout_nanos as f64;
        Called {
            per_second: if tells { calls as f64 / seconds } else { 0.0 },
            failed: if tells {
                (failed as f64 / calls as f64).min(1.0)
            } else {
                0.0
            },
            slow: (tells && longest > 0.0).then(|| took as f64 / longest),
            is_tripped: called.is_shut,
        }
    };
    let following = work.dependencies.iter().filter(|it| it.follows);
    let mut calls: Vec<(String, Called)> = following
        .map(|called| (called.name.clone(), of(called)))
        .filter(|(_, called)| called.is_tripped || called.per_second > 0.0)
        .collect();
    calls.sort_by(|(_, a), (_, b)| {
        let left = |called: &Called| left_of(std::slice::from_ref(called)).unwrap_or(1.0);
        left(a).total_cmp(&left(b))
    });
    calls
}

/// How much of the node was used between the look `before` and `now`, 0 to 1: of what the gateway carries itself the mean of that
/// time, by Little's law; of what is seen `beside` that, what was seen last. The most of both.
///
/// How many are inside at the moment of a look says nothing about regular traffic: of what comes by the second, each look
/// sees the same part, which may be much or nothing, and equal nodes would seem to be able to do very different things.
fn used(before: Option<&Look>, work: &Work, beside: &[Signal], now: Mono) -> Option<f64> {
    let before = before?;
    let span = now.since(before.at);
    let apps = work.apps.iter().zip(&before.work.apps);
    let carried = apps.filter_map(|(app, before)| app.used_since(before, span));
    let carried = carried.map(|used| used.min(1.0));
    carried.chain(utilisation(beside, now)).reduce(f64::max)
}

/// How much of the node was used over the time that its work is counted in, which is since the first look of `before`,
/// with what was `used` from the last one until `now`. Requests come in bursts: what some seconds brought, over what one
/// needed, would be a capacity that jumps.
fn mean_used(before: &[Look], now: Mono, used: Option<f64>) -> Option<f64> {
    // What was used until the first look belongs to the time before it.
    let later = before.iter().skip(1).map(|look| (look.at, look.used));
    let ends = later.chain([(now, used)]);
    let (mut product, mut known_s) = (0.0, 0.0);
    for (begin, (end, used)) in before.iter().zip(ends) {
        let Some(used) = used else { continue };
        let span_s = end.since(begin.at).as_secs_f64();
        product += used * span_s;
        known_s += span_s;
    }
    (known_s > 0.0).then(|| product / known_s)
}

/// What was done `since` a look, with so much of the node used in the mean.
fn load(work: &Work, since: &Look, now: Mono, utilisation: f64) -> Option<Load> {
    let before = &since.work;
    let seconds = now.since(since.at).as_secs_f64();
    let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let completed = work.completed.saturating_sub(before.completed);
    if seconds <= 0.0 || completed == 0 {
        return None;
    }
    let failed = work.failed.saturating_sub(before.failed);
    Some(Load {
        offered_rps: per_second(work.arrived, before.arrived),
        completed_rps: per_second(work.completed, before.completed),
        error_ratio: (failed as f64 / completed as f64).min(1.0),
        utilisation,
        at: now,
    })
}

#[cfg(test)]
mod tests {
    use tidegate_gateway::work::AppWork;

    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_load_is_what_was_done_since() {
        let before = Work {
            arrived: 1_000,
            completed: 900,
            failed: 100,
            ..Work::default()
        };
        let work = Work {
            arrived: 1_500,
            completed: 1_300,
            failed: 200,
            ..Work::default()
        };
        let since = |work, seconds| Look {
            at: at(seconds),
            work,
            used: None,
        };

        let told = load(&work, &since(before.clone(), 0), at(5), 0.5).unwrap();

        assert_eq!((told.offered_rps, told.completed_rps), (100.0, 80.0));
        assert_eq!((told.error_ratio, told.utilisation), (0.25, 0.5));
        assert_eq!(load(&work, &since(work.clone(), 0), at(5), 0.5), None);
        assert_eq!(load(&work, &since(before, 5), at(5), 0.5), None);
    }

    #[test]
    fn what_is_used_is_the_mean_of_the_time_that_work_is_counted_in() {
        let look = |seconds, used| Look {
            at: at(seconds),
            work: Work::default(),
            used,
        };
        let before = [look(1, Some(1.0)), look(2, Some(0.2)), look(3, None)];

        // A tick was left out, so that the last figure is of two seconds.
        let mean = mean_used(&before, at(5), Some(0.5)).unwrap();

        assert!((mean - 0.4).abs() < 1e-9, "{mean}");
        assert_eq!(mean_used(&before, at(5), None), Some(0.2));
        assert_eq!(mean_used(&before[..1], at(1), Some(0.5)), None);
        assert_eq!(mean_used(&[], at(5), Some(0.5)), None);
    }

    /// What of one application with four workers was in use by then.
    fn occupied(ms: u64) -> Work {
        let app = AppWork {
            occupied: Duration::from_millis(ms),
            slots: 4,
        };
        Work {
            apps: vec![app],
            ..Work::default()
        }
    }

    #[test]
    fn what_a_gateway_carries_is_counted_over_the_time_and_not_at_the_moment_of_a_look() {
        let before = Look {
            at: at(1),
            work: occupied(1_000),
            used: None,
        };
        let of = |ms, beside: &[Signal]| used(Some(&before), &occupied(ms), beside, at(2)).unwrap();
        let threads = |busy| Signal::read(Dimension::Threads, busy, 4.0, at(2));

        // Ten requests of 20 ms each, wherever in the second they came.
        assert!((of(1_200, &[]) - 0.05).abs() < 1e-9);
        assert!((of(1_200, &[threads(3.0)]) - 0.75).abs() < 1e-9);
        assert!((of(4_000, &[threads(1.0)]) - 0.75).abs() < 1e-9);
        assert_eq!(of(7_000, &[]), 1.0, "more were let in than may be");
        assert_eq!(used(None, &occupied(1_200), &[threads(3.0)], at(2)), None);
        let idle = used(Some(&before), &Work::default(), &[], at(2));
        assert_eq!(idle, None, "nothing is carried here");
    }

    #[test]
    fn calls_are_told_of_what_follows_them_and_the_worst_come_first() {
        let called = |name: &str, failed, follows| CalledWork {
            name: name.to_owned(),
            calls: 100,
            failed,
            took_nanos: 100 * 200_000_000,
            timeout_nanos: 1_000_000_000,
            follows,
            ..CalledWork::default()
        };
        let work = Work {
            dependencies: vec![
                called("mail", 0, true),
                called("db", 40, true),
                called("other", 100, false),
                CalledWork {
                    calls: 3,
                    ..called("idle", 3, true)
                },
            ],
            ..Work::default()
        };

        let told = calls(&work, &Work::default(), Duration::from_secs(5));

        let names: Vec<&str> = told.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["db", "mail"]);
        let db = told[0].1;
        assert_eq!((db.per_second, db.failed, db.slow), (20.0, 0.4, Some(0.2)));
    }

    #[test]
    fn latency_is_told_in_milliseconds() {
        let signal = latency(Duration::from_millis(250), Duration::from_secs(1), at(5));

        assert_eq!((signal.value, signal.limit), (250.0, 1_000.0));
    }

    #[test]
    fn the_worst_dependency_counts_and_a_tripped_breaker_is_the_worst() {
        let called = |name: &str, calls, failed, is_tripped| CalledWork {
            name: name.to_owned(),
            calls,
            failed,
            is_tripped,
            ..CalledWork::default()
        };
        let work = |dependencies| Work {
            dependencies,
            ..Work::default()
        };
        let before = work(vec![called("a", 100, 100, false), called("b", 0, 0, false)]);

        let some = work(vec![
            called("a", 140, 110, false),
            called("b", 100, 5, false),
        ]);
        let few = work(vec![called("a", 110, 110, false), called("b", 0, 0, false)]);
        let tripped = work(vec![called("a", 100, 100, true), called("b", 0, 0, false)]);

        let of = |now: &Work| downstream(now, &before, at(9)).map(|signal| signal.value);
        assert_eq!(of(&some), Some(0.25));
        assert_eq!(of(&few), None);
        assert_eq!(of(&tripped), Some(1.0));
    }
}

//! A page of metrics, whoever wrote it.

use tidegate_core::health::Dimension;
use tidegate_core::time::Mono;

use super::http::{Client, text};
use super::names::{Quantity, quantity};
use super::page::{Sample, samples};
use super::{Budgets, ProbeError, is_count};
use crate::agent::sight::{Blank, Sight};

/// Numbers of a page that are kept, of all the names we know.
const SAMPLES_MAX: usize = 512;

/// Asks for the page, and knows the counters of the last one.
pub(super) struct Prometheus {
    client: Client,
    budgets: Budgets,
    last: Option<Counters>,
}

/// What only grows.
#[derive(Clone, Debug, PartialEq)]
struct Counters {
    at: Mono,
    gc: Option<Collected>,
    waits: Vec<Waited>,
}

/// What collections took so far.
#[derive(Clone, Debug, PartialEq)]
struct Collected {
    metric: String,
    seconds: f64,
}

/// What was waited for connections of one pool so far.
#[derive(Clone, Debug, PartialEq)]
struct Waited {
    metric: String,
    /// As they stand on the page; they name the pool.
    labels: String,
    seconds: f64,
    times: f64,
}

/// The numbers of a page that tell something.
struct Told<'a>(Vec<(Quantity, Sample<'a>)>);

impl Prometheus {
    pub(super) const fn new(client: Client, budgets: Budgets) -> Self {
        Self {
            client,
            budgets,
            last: None,
        }
    }

    pub(super) async fn look(
        &mut self,
        now: Mono,
        sights: &mut Vec<Sight>,
    ) -> Result<(), ProbeError> {
        let page = self.client.get(&self.client.url().target()).await?;
        self.read(text(&page)?, now, sights);
        Ok(())
    }

    fn read(&mut self, page: &str, now: Mono, sights: &mut Vec<Sight>) {
        let told = Told::of(page);
        told.pairs(
            Dimension::Threads,
            Quantity::Busy,
            Quantity::Workers,
            now,
            sights,
        );
        told.pairs(
            Dimension::Pool,
            Quantity::InUse,
            Quantity::PoolSize,
            now,
            sights,
        );
        told.old_generation(now, sights);
        told.queues(now, sights);
        for busy in told.all(Quantity::LoopBusy) {
            sights.push(sight(Dimension::Threads, (busy.value, 1.0), &busy, now));
        }
        // Several names tell the same lag, some of them of the whole past: the first one is the newest.
        if let Some(lag) = told.all(Quantity::LoopLag).next() {
            let figures = (lag.value * 1_000.0, self.budgets.lag_ms);
            sights.push(sight(Dimension::Queue, figures, &lag, now));
        }
        self.differences(&told, now, sights);
    }

    /// What is told by how much it grew.
    fn differences(&mut self, told: &Told<'_>, now: Mono, sights: &mut Vec<Sight>) {
        let counters = Counters {
            at: now,
            gc: told.collected(),
            waits: told.waited(),
        };
        match &counters.gc {
            Some(collected) => sights.push(self.collections(collected, now)),
            None => {
                if let Some(share) = told.all(Quantity::GcShare).next() {
                    let figures = (share.value, self.budgets.gc_share);
                    sights.push(sight(Dimension::Gc, figures, &share, now));
                }
            }
        }
        // Each pool by itself: in the mean of all, one that is always full would hide behind one that is busy and never is.
        for waited in &counters.waits {
            sights.extend(self.wait(waited, now));
        }
        self.last = Some(counters);
    }

    fn collections(&self, collected: &Collected, now: Mono) -> Sight {
        let (source, budget) = (collected.metric.clone(), self.budgets.gc_share);
        if !is_count(collected.seconds) {
            return Sight::of(Dimension::Gc, (collected.seconds, budget), source, now);
        }
        let share = self.last.as_ref().and_then(|last| {
            let since = now.since(last.at).as_secs_f64();
            let before = last.gc.as_ref();
            let before = before.filter(|before| before.metric == collected.metric)?;
            let grown = grown(before.seconds, collected.seconds)?;
            (since > 0.0).then(|| grown / since)
        });
        let figures = share.map(|share| (share, budget));
        Sight::read(
            Dimension::Gc,
            figures.ok_or_else(Blank::first_look),
            source,
            now,
        )
    }

    /// How long a connection was waited for since the last look; nothing when nobody got one.
    fn wait(&self, waited: &Waited, now: Mono) -> Option<Sight> {
        let budget = self.budgets.pool_wait_ms;
        let of = |figure| {
            let source = waited.metric.clone();
            Sight::of(Dimension::Pool, (figure, budget), source, now)
        };
        let odd = [waited.seconds, waited.times];
        if let Some(odd) = odd.into_iter().find(|figure| !is_count(*figure)) {
            // As large as it is: in milliseconds it would not be what the page says.
            return Some(of(odd));
        }
        let before =
            self.last.as_ref()?.waits.iter().find(|before| {
                (&before.metric, &before.labels) == (&waited.metric, &waited.labels)
            })?;
        let seconds = grown(before.seconds, waited.seconds)?;
        let times = grown(before.times, waited.times)?;
        (times > 0.0).then(|| of(seconds / times * 1_000.0))
    }
}

/// By how much a counter grew; nothing when the application has begun anew, or one of the two cannot be.
fn grown(then: f64, now: f64) -> Option<f64> {
    let grown = now - then;
    (is_count(then) && is_count(now) && grown >= 0.0).then_some(grown)
}

fn sight(dimension: Dimension, figures: (f64, f64), sample: &Sample<'_>, now: Mono) -> Sight {
    Sight::of(dimension, figures, sample.name.to_owned(), now)
}

impl<'a> Told<'a> {
    fn of(page: &'a str) -> Self {
        let ours = samples(page).filter_map(|sample| Some((quantity(&sample)?, sample)));
        Self(ours.take(SAMPLES_MAX).collect())
    }

    fn all(&self, wanted: Quantity) -> impl Iterator<Item = Sample<'a>> {
        self.0
            .iter()
            .filter(move |(told, _)| *told == wanted)
            .map(|(_, sample)| *sample)
    }

    /// The seconds of all collectors under one name: two libraries on one page tell the same collections twice.
    fn collected(&self) -> Option<Collected> {
        let metric = self.all(Quantity::GcSeconds).next()?.name;
        let those = self.all(Quantity::GcSeconds);
        let those = those.filter(|sample| sample.name == metric);
        Some(Collected {
            metric: metric.to_owned(),
            seconds: those.map(|sample| sample.value).sum(),
        })
    }

    /// Each pool that tells how long its connections were waited for, and how often.
    fn waited(&self) -> Vec<Waited> {
        let summed = self.all(Quantity::WaitSeconds);
        let pools = summed.filter_map(|seconds| {
            let family = seconds.name.strip_suffix("_sum")?;
            let mut counts = self.all(Quantity::Waits);
            let times = counts.find(|times| {
                times.name.strip_suffix("_count") == Some(family) && seconds.is_limited_by(times)
            })?;
            Some(Waited {
                metric: seconds.name.to_owned(),
                labels: seconds.written_labels().to_owned(),
                seconds: seconds.value,
                times: times.value,
            })
        });
        pools.collect()
    }

    /// Each `value` with the limit that is its own.
    fn pairs(
        &self,
        dimension: Dimension,
        value: Quantity,
        limit: Quantity,
        now: Mono,
        sights: &mut Vec<Sight>,
    ) {
        for value in self.all(value) {
            let limit = self.all(limit).find(|limit| value.is_limited_by(limit));
            let figures = limit.map(|limit| (value.value, limit.value));
            let read = figures
                .ok_or_else(|| Blank::error(format!("{} comes without its limit", value.name)));
            sights.push(Sight::read(dimension, read, value.name.to_owned(), now));
        }
    }

    fn old_generation(&self, now: Mono, sights: &mut Vec<Sight>) {
        let begun = sights.len();
        for share in self.all(Quantity::OldShare) {
            sights.push(sight(Dimension::OldGen, (share.value, 1.0), &share, now));
        }
        if sights.len() == begun {
            self.pairs(
                Dimension::OldGen,
                Quantity::OldUsed,
                Quantity::OldSize,
                now,
                sights,
            );
        }
        // An old generation is never empty after a collection: nothing was collected yet.
        for sight in &mut sights[begun..] {
            if sight.signal.value == 0.0 && sight.why.is_none() {
                let blank = Blank::unsupported("the old generation was not collected yet");
                *sight = Sight::blank(Dimension::OldGen, blank, sight.source.clone(), now);
            }
        }
    }

    fn queues(&self, now: Mono, sights: &mut Vec<Sight>) {
        for queued in self.all(Quantity::Queued) {
            if let Some(room) = self
                .all(Quantity::QueueRoom)
                .find(|room| queued.is_limited_by(room))
            {
                // Less room than none would make a smaller queue of it.
                let most = if room.value < 0.0 {
                    room.value
                } else {
                    queued.value + room.value
                };
                let figures = (queued.value, most);
                sights.push(sight(Dimension::Queue, figures, &queued, now));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::health::Validity;

    use super::*;

    fn at(ms: u64) -> Mono {
        Mono::from_millis(ms)
    }

    fn probe() -> Prometheus {
        let url = "http://127.0.0.1:1/m".parse().unwrap();
        Prometheus::new(Client::new(url, None), Budgets::default())
    }

    fn read(probe: &mut Prometheus, page: &str, now: Mono) -> Vec<Sight> {
        let mut sights = Vec::new();
        probe.read(page, now, &mut sights);
        sights
    }

    fn ratios(sights: &[Sight], dimension: Dimension) -> Vec<Option<f64>> {
        let of = sights
            .iter()
            .filter(|sight| sight.signal.dimension == dimension);
        of.map(|sight| sight.signal.ratio(sight.signal.at))
            .collect()
    }

    #[test]
    fn a_spring_application_names_threads_pool_wait_and_collections() {
        let page = |gc: f64, waited: f64, waits: u32| {
            format!(
                "tomcat_threads_busy_threads{{name=\"http-nio-8080\"}} 5.0\n\
                 tomcat_threads_config_max_threads{{name=\"http-nio-8080\"}} 200.0\n\
                 hikaricp_connections_active{{pool=\"db\"}} 10.0\n\
                 hikaricp_connections_max{{pool=\"db\"}} 10.0\n\
                 hikaricp_connections_acquire_seconds_sum{{pool=\"db\"}} {waited}\n\
                 hikaricp_connections_acquire_seconds_count{{pool=\"db\"}} {waits}\n\
                 jvm_gc_pause_seconds_sum{{action=\"a\",cause=\"x\"}} {gc}\n\
                 jvm_gc_pause_seconds_sum{{action=\"b\",cause=\"y\"}} 1.0\n\
                 jvm_memory_usage_after_gc{{area=\"heap\",pool=\"long-lived\"}} 0.6\n\
                 executor_queued_tasks{{name=\"x\"}} 3\n\
                 executor_queue_remaining_tasks{{name=\"x\"}} 7\n"
            )
        };
        let mut probe = probe();

        let first = read(&mut probe, &page(2.0, 5.0, 100), at(1_000));
        let second = read(&mut probe, &page(2.05, 6.0, 120), at(2_000));

        assert_eq!(ratios(&first, Dimension::Threads), [Some(0.025)]);
        assert_eq!(ratios(&first, Dimension::Gc), [None], "the first look");
        assert_eq!(ratios(&first, Dimension::Pool), [Some(1.0)]);
        assert_eq!(ratios(&second, Dimension::OldGen), [Some(0.6)]);
        assert_eq!(ratios(&second, Dimension::Queue), [Some(0.3)]);
        let [full, wait] = ratios(&second, Dimension::Pool)[..] else {
            panic!("{second:?}");
        };
        assert_eq!(full, Some(1.0));
        // 20 waited a second in all: 50 ms each, of 100.
        assert!((wait.unwrap() - 0.5).abs() < 1e-9);
        // 50 ms of a second, of a tenth.
        let gc = ratios(&second, Dimension::Gc)[0].unwrap();
        assert!((gc - 0.5).abs() < 1e-9, "{gc}");
    }

    #[test]
    fn older_names_and_those_of_others_tell_the_same() {
        let page = "tomcat_threads_busy{name=\"a\"} 1\ntomcat_threads_config_max{name=\"a\"} 2\n\
                    db_client_connection_count{state=\"idle\",pool=\"p\"} 9\n\
                    db_client_connection_count{state=\"used\",pool=\"p\"} 1\n\
                    db_client_connection_max{pool=\"p\"} 10\n\
                    jvm_memory_pool_collection_used_bytes{pool=\"G1 Eden Space\"} 5\n\
                    jvm_memory_pool_collection_used_bytes{pool=\"G1 Old Gen\"} 5\n\
                    jvm_memory_pool_collection_max_bytes{pool=\"G1 Old Gen\"} 10\n\
                    nodejs_eventloop_utilization 0.9\nnodejs_eventloop_lag_p99_seconds 0.05\n\
                    nodejs_eventloop_lag_seconds 0.5\n";

        let sights = read(&mut probe(), page, at(0));

        assert_eq!(ratios(&sights, Dimension::Threads), [Some(0.5), Some(0.9)]);
        assert_eq!(ratios(&sights, Dimension::Pool), [Some(0.1)]);
        assert_eq!(ratios(&sights, Dimension::OldGen), [Some(0.5)]);
        assert_eq!(ratios(&sights, Dimension::Queue), [Some(0.5)]);
    }

    #[test]
    fn what_the_application_does_not_know_is_unknown() {
        let page = "tomcat_threads_busy_threads{name=\"a\"} -1\ntomcat_threads_config_max_threads{name=\"a\"} -1\n\
                    hikaricp_connections_active NaN\nhikaricp_connections_max NaN\n\
                    jvm_gc_live_data_size_bytes 0\njvm_gc_max_data_size_bytes 100\n";

        let sights = read(&mut probe(), page, at(0));

        assert_eq!(sights.len(), 3);
        for sight in &sights {
            assert_ne!(sight.signal.validity, Validity::Ok, "{sight:?}");
            assert!(sight.why.is_some());
        }
    }

    #[test]
    fn an_application_that_began_anew_has_not_collected_backwards() {
        let mut probe = probe();
        read(&mut probe, "jvm_gc_pause_seconds_sum 9\n", at(0));

        let sights = read(&mut probe, "jvm_gc_pause_seconds_sum 1\n", at(1_000));

        assert_eq!(ratios(&sights, Dimension::Gc), [None]);
    }

    #[test]
    fn figures_that_cannot_be_are_shown_and_not_used() {
        for odd in ["1e20", "-3", "+Inf", "NaN"] {
            let page = format!(
                "tomcat_threads_busy_threads{{name=\"a\"}} {odd}\ntomcat_threads_config_max_threads{{name=\"a\"}} 200\n\
                 hikaricp_connections_active {odd}\nhikaricp_connections_max 10\n\
                 hikaricp_connections_acquire_seconds_sum {odd}\nhikaricp_connections_acquire_seconds_count 4\n\
                 jvm_gc_pause_seconds_sum {odd}\njvm_memory_usage_after_gc{{area=\"heap\",pool=\"long-lived\"}} {odd}\n\
                 executor_queued_tasks{{name=\"x\"}} 3\nexecutor_queue_remaining_tasks{{name=\"x\"}} {odd}\n\
                 nodejs_eventloop_utilization {odd}\nnodejs_eventloop_lag_p99_seconds {odd}\n"
            );
            let mut probe = probe();
            for second in 0..2 {
                let sights = read(&mut probe, &page, at(second * 1_000));

                assert_eq!(sights.len(), 8, "{odd}: {sights:#?}");
                for sight in &sights {
                    assert_eq!(sight.signal.ratio(sight.signal.at), None, "{sight:?}");
                    let why = sight.why.as_deref().unwrap();
                    assert!(why.starts_with("not believed: "), "{odd}: {sight:?}");
                }
            }
            // Back to what can be: the difference to what could not is none.
            let sane = read(&mut probe, "jvm_gc_pause_seconds_sum 1\n", at(3_000));
            assert_eq!(ratios(&sane, Dimension::Gc), [None]);
        }
    }

    #[test]
    fn collectors_that_work_beside_the_application_do_not_count() {
        let page = "jvm_gc_collection_seconds_sum{gc=\"ZGC Cycles\"} 50\njvm_gc_collection_seconds_sum{gc=\"ZGC Pauses\"} 1\n";

        assert_eq!(Told::of(page).collected().unwrap().seconds, 1.0);
    }

    #[test]
    fn collections_that_two_libraries_tell_are_counted_once() {
        let page = |seconds: f64| {
            format!(
                "jvm_gc_pause_seconds_sum{{action=\"a\"}} {seconds}\n\
                 jvm_gc_collection_seconds_sum{{gc=\"G1 Young Generation\"}} {seconds}\n"
            )
        };
        let mut probe = probe();
        read(&mut probe, &page(2.0), at(0));

        let sights = read(&mut probe, &page(2.05), at(1_000));

        let gc = ratios(&sights, Dimension::Gc);
        assert!((gc[0].unwrap() - 0.5).abs() < 1e-9, "{gc:?}");
        assert_eq!(gc.len(), 1);
    }

    #[test]
    fn a_pool_that_is_waited_for_does_not_hide_behind_a_busy_one() {
        let page = |small: (f64, u32), large: (f64, u32)| {
            let of = |pool: &str, (seconds, times): (f64, u32)| {
                format!(
                    "hikaricp_connections_acquire_seconds_count{{pool=\"{pool}\"}} {times}\n\
                     hikaricp_connections_acquire_seconds_sum{{pool=\"{pool}\"}} {seconds}\n"
                )
            };
            of("large", large) + &of("small", small)
        };
        let mut probe = probe();
        read(&mut probe, &page((1.0, 10), (1.0, 1_000)), at(0));

        // Ten waited 90 ms each for one of the small pool, and a thousand hardly at all.
        let sights = read(&mut probe, &page((1.9, 20), (1.1, 2_000)), at(1_000));

        let worst = ratios(&sights, Dimension::Pool).into_iter().flatten();
        let worst = worst.reduce(f64::max).unwrap();
        assert!((worst - 0.9).abs() < 1e-9, "{worst}");
    }
}

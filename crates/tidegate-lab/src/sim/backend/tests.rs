use super::*;

use crate::scenario::{Cache as CacheOf, Service, ServiceKind};

const SEED: u64 = 1;

fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn at(number: u64) -> Mono {
    Mono::from_millis(number)
}

fn constant(number: u64) -> ServiceKind {
    ServiceKind::Constant {
        mean: millis(number),
    }
}

fn exponential(mean: Duration) -> ServiceKind {
    ServiceKind::Erlang { mean, shape: 1 }
}

fn app(style: Style, services: &[ServiceKind]) -> App {
    App {
        style,
        backlog_max: None,
        routes: services
            .iter()
            .zip(["first", "second"])
            .map(|(service, name)| Service {
                name: name.to_owned(),
                service: service.clone(),
            })
            .collect(),
        cache: None,
    }
}

fn slots(slots: u32) -> Style {
    Style::Slots { slots }
}

/// Hands in one job per `(when in ms, route)` and says when each was done, in ms, and how, in the
/// order in which they were.
fn run(app: &App, faults: &[Fault], jobs: &[(u64, usize)]) -> Vec<(u32, u64, Outcome)> {
    let mut backend = Backend::new(app, faults, SEED);
    let mut seen = Vec::new();
    let mut out = Vec::new();
    let mut jobs = jobs.iter().zip(0..).peekable();
    loop {
        let coming = jobs.peek().map(|&(&(when, _), _)| at(when));
        let event = backend.next_event();
        let now = match (coming, event) {
            (Some(coming), event) if event.is_none_or(|event| coming < event) => {
                let (&(_, route), job) = jobs.next().unwrap();
                backend.offer(coming, Job(job), route, &mut out);
                coming
            }
            (_, Some(event)) => {
                backend.advance(event, &mut out);
                event
            }
            _ => return seen,
        };
        for done in out.drain(..) {
            seen.push((done.job.0, now.as_nanos() / 1_000_000, done.outcome));
        }
        if now > at(100_000) {
            return seen;
        }
    }
}

fn answered(of: &[(u32, u64)]) -> Vec<(u32, u64, Outcome)> {
    of.iter()
        .map(|&(job, when)| (job, when, Outcome::Answered))
        .collect()
}

/// Poisson arrivals of the first route at `rate` per second for `seconds`: how many came, how many
/// were refused, and the mean time from coming to being done, in ms.
fn poisson(app: &App, rate: f64, seconds: u64) -> (f64, f64, f64) {
    let mut backend = Backend::new(app, &[], SEED);
    let mut rng = Rng::new(99);
    let mut out = Vec::new();
    let mut came = Vec::new();
    let (mut refused, mut total) = (0.0, 0.0);
    let mut next = Mono::default();
    loop {
        next = next + Duration::from_secs_f64(-(1.0 - rng.unit()).ln() / rate);
        if next > Mono::default() + Duration::from_secs(seconds) {
            break;
        }
        while let Some(event) = backend.next_event().filter(|&event| event <= next) {
            backend.advance(event, &mut out);
            for done in out.drain(..) {
                total += event.since(came[done.job.0 as usize]).as_secs_f64() * 1e3;
            }
        }
        backend.offer(next, Job(came.len() as u32), 0, &mut out);
        refused += out.len() as f64;
        out.clear();
        came.push(next);
    }
    let all = came.len() as f64;
    let inside = f64::from(backend.waiting() + backend.working());
    (all, refused, total / (all - refused - inside))
}

fn assert_near(found: f64, wanted: f64, part: f64) {
    assert!(
        (found - wanted).abs() <= wanted * part,
        "{found}, not {wanted}"
    );
}

#[test]
fn slots_serve_in_the_order_of_coming() {
    let app = app(slots(2), &[constant(50), constant(20)]);

    let seen = run(&app, &[], &[(0, 0), (0, 1), (0, 1), (10, 0), (11, 1)]);

    // The second worker is free at 20 and 40, the first at 50.
    assert_eq!(
        seen,
        answered(&[(1, 20), (2, 40), (0, 50), (4, 70), (3, 90)])
    );
}

#[test]
fn a_bounded_backlog_refuses_at_once() {
    let bounded = App {
        backlog_max: Some(1),
        ..app(slots(1), &[constant(50)])
    };

    let seen = run(&bounded, &[], &[(0, 0), (1, 0), (2, 0)]);

    assert_eq!(seen[0], (2, 2, Outcome::Refused));
    assert_eq!(seen[1..], answered(&[(0, 50), (1, 100)]));
}

#[test]
fn slots_without_a_queue_lose_what_erlang_says() {
    let lossy = App {
        backlog_max: Some(0),
        ..app(slots(100), &[constant(50)])
    };

    let (came, refused, _) = poisson(&lossy, 3000.0, 100);

    // Erlang B for 100 servers and 150 erlang; it holds for any distribution.
    assert_near(refused / came, 0.3454, 0.01);
}

#[test]
fn one_exponential_server_keeps_people_as_long_as_queueing_theory_says() {
    let single = app(slots(1), &[exponential(millis(10))]);

    let (_, _, mean) = poisson(&single, 70.0, 2000);

    // M/M/1: S / (1 - load).
    assert_near(mean, 10.0 / 0.3, 0.05);
}

#[test]
fn a_shared_core_slows_everybody_down_alike() {
    let shared = app(Style::Sharing { cores: 1 }, &[constant(10), constant(2)]);

    let seen = run(&shared, &[], &[(0, 0), (5, 0), (7, 1)]);

    // Alone until 5; halves until 7: 4 and 9 ms are left; thirds: the 2 ms job is done at 13 and
    // has cost each 2 ms; halves: the first is done at 17; alone: the second at 22.
    assert_eq!(seen, answered(&[(2, 13), (0, 17), (1, 22)]));
}

#[test]
fn jobs_do_not_hinder_each_other_while_there_are_cores() {
    let shared = app(Style::Sharing { cores: 2 }, &[constant(10)]);

    let seen = run(&shared, &[], &[(0, 0), (3, 0), (20, 0), (20, 0), (20, 0)]);

    assert_eq!(
        seen,
        answered(&[(0, 10), (1, 13), (2, 35), (3, 35), (4, 35)])
    );
}

#[test]
fn processor_sharing_keeps_people_as_long_as_queueing_theory_says() {
    let shared = app(Style::Sharing { cores: 1 }, &[constant(10)]);

    let (_, _, mean) = poisson(&shared, 75.0, 2000);

    // M/G/1 processor sharing: S / (1 - load) for any distribution.
    assert_near(mean, 40.0, 0.05);
}

#[test]
fn a_quota_is_for_each_whole_second() {
    let quota = app(Style::Quota { per_second: 2 }, &[constant(1)]);

    let seen = run(
        &quota,
        &[],
        &[(0, 0), (0, 0), (999, 0), (1000, 0), (1999, 0), (1999, 0)],
    );

    let refused: Vec<u32> = seen
        .iter()
        .filter(|&&(_, _, outcome)| outcome == Outcome::Refused)
        .map(|&(job, ..)| job)
        .collect();
    assert_eq!(refused, [2, 5]);
}

#[test]
fn a_stall_delays_what_is_in_progress_by_its_length() {
    for style in [slots(2), Style::Sharing { cores: 2 }] {
        let stall = Fault::Stall {
            at: millis(20),
            lasts: millis(500),
            every: Some(millis(1000)),
            cold: false,
        };

        let seen = run(
            &app(style, &[constant(50)]),
            &[stall],
            &[(0, 0), (100, 0), (1000, 0), (1600, 0)],
        );

        assert_eq!(seen, answered(&[(0, 550), (1, 570), (2, 1550), (3, 1650)]));
    }
}

#[test]
fn fewer_slots_let_running_work_go_on_and_more_start_at_once() {
    let step = Fault::Capacity {
        at: millis(10),
        until: Some(millis(120)),
        to: 1,
    };

    let seen = run(&app(slots(2), &[constant(50)]), &[step], &[(0, 0); 6]);

    // Two until 50, then one; at 120 the second worker is back.
    assert_eq!(
        seen,
        answered(&[(0, 50), (1, 50), (2, 100), (3, 150), (4, 170), (5, 200)])
    );
}

#[test]
fn cores_that_go_away_slow_down_what_is_in_progress() {
    let step = Fault::Capacity {
        at: millis(10),
        until: Some(millis(30)),
        to: 1,
    };
    let shared = app(Style::Sharing { cores: 2 }, &[constant(50)]);

    let seen = run(&shared, &[step], &[(0, 0), (0, 0)]);

    assert_eq!(seen, answered(&[(0, 60), (1, 60)]));
}

#[test]
fn a_slow_route_leaves_the_others_alone_and_work_begun_before_too() {
    let slow = Fault::Slow {
        at: millis(10),
        until: Some(millis(100)),
        factor: 2.5,
        route: Some("second".to_owned()),
    };
    let two = app(slots(10), &[constant(50), constant(20)]);

    let seen = run(&two, &[slow], &[(0, 1), (20, 0), (20, 1), (100, 1)]);

    assert_eq!(seen, answered(&[(0, 20), (1, 70), (2, 70), (3, 120)]));
}

#[test]
fn a_part_of_the_requests_fails_fast_while_it_lasts() {
    let fails = Fault::FailFast {
        at: millis(0),
        until: Some(millis(1000)),
        share: 0.5,
        takes: millis(1),
        refused: false,
    };
    let jobs: Vec<(u64, usize)> = (0..2000).map(|when| (when, 0)).collect();

    let seen = run(&app(slots(100), &[constant(50)]), &[fails], &jobs);

    let failed: Vec<u64> = seen
        .iter()
        .filter(|&&(_, _, outcome)| outcome == Outcome::FailedFast)
        .map(|&(_, when, _)| when)
        .collect();
    assert!((450..550).contains(&failed.len()), "{}", failed.len());
    assert!(failed.iter().all(|&when| when <= 1000));
}

#[test]
fn foreign_work_stands_in_the_line_and_is_nobodys_answer() {
    let pile = Fault::Backlog {
        at: millis(10),
        jobs: 3,
    };

    let seen = run(&app(slots(1), &[constant(50)]), &[pile], &[(0, 0), (20, 0)]);

    assert_eq!(seen, answered(&[(0, 50), (1, 250)]));
}

#[test]
fn a_cold_cache_fills_with_every_miss() {
    let cached = App {
        cache: Some(CacheOf {
            hit: millis(5),
            entries: 1,
        }),
        ..app(slots(2), &[constant(50)])
    };
    let stall = Fault::Stall {
        at: millis(100),
        lasts: millis(100),
        every: None,
        cold: true,
    };

    let seen = run(
        &cached,
        &[stall],
        &[(0, 0), (99, 0), (210, 0), (220, 0), (300, 0)],
    );

    // Two ask for the one entry before it is there again; the second of them works in vain.
    assert_eq!(
        seen,
        answered(&[(0, 5), (1, 204), (2, 260), (3, 270), (4, 305)])
    );
}

#[test]
fn the_same_seed_gives_the_same_times() {
    let noisy = app(slots(3), &[exponential(millis(10))]);
    let jobs: Vec<(u64, usize)> = (0..1000).map(|number| (number * 4, 0)).collect();

    assert_eq!(run(&noisy, &[], &jobs), run(&noisy, &[], &jobs));
}

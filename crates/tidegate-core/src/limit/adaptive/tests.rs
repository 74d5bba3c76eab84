//! The limit in front of a small application in virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::rng::Rng;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// What is inside the application: its tag, and when it was admitted.
type Inside = (u32, u64);

/// Workers that serve first come first served, under a limit and nothing else.
struct World {
    limit: Adaptive,
    workers: usize,
    /// Mean time in a worker; single ones take half of it to half as much again.
    service: u64,
    /// Mean time from one arrival to the next.
    between: u64,
    /// How a worker's time grows with what is inside.
    slowdown: fn(usize) -> f64,
    /// Which part of the answers say that there is too much work, by what is inside.
    overloaded: fn(usize) -> f64,
    now: u64,
    /// Until then nothing is worked on.
    stands_until: u64,
    working: BinaryHeap<Reverse<(u64, Inside)>>,
    backlog: VecDeque<Inside>,
    rng: Rng,
    worked: u32,
    refused: u32,
}

impl World {
    /// 100 workers that take 50 ms, so 2000 a second at most, of whom so many are asked for.
    fn new(per_second: u64) -> Self {
        Self::under(Adaptive::new(Settings::default(), 1), per_second)
    }

    fn under(limit: Adaptive, per_second: u64) -> Self {
        Self {
            limit,
            workers: 100,
            service: 50 * MS,
            between: SECOND / per_second,
            slowdown: |_| 1.0,
            overloaded: |_| 0.0,
            now: 0,
            stands_until: 0,
            working: BinaryHeap::new(),
            backlog: VecDeque::new(),
            rng: Rng::new(7),
            worked: 0,
            refused: 0,
        }
    }

    fn in_flight(&self) -> usize {
        self.working.len() + self.backlog.len()
    }

    /// Lets `span` pass; returns what worked per second.
    fn run(&mut self, span: u64) -> f64 {
        let end = self.now + span;
        self.worked = 0;
        self.refused = 0;
        let mut next = self.now;
        while next < end {
            while let Some(&Reverse((done, inside))) = self.working.peek()
                && done <= next
            {
                self.working.pop();
                self.now = done;
                self.finish(inside);
            }
            self.now = next;
            self.arrive();
            let gap = -self.rng.unit().max(1e-9).ln() * self.between as f64;
            next += gap as u64 + 1;
        }
        self.now = end;
        f64::from(self.worked) / (span as f64 / SECOND as f64)
    }

    /// Nothing moves for `span`, but requests keep coming.
    fn stand_still(&mut self, span: u64) {
        self.stands_until = self.now + span;
        let shifted = self
            .working
            .drain()
            .map(|Reverse((done, inside))| Reverse((done + span, inside)));
        self.working = shifted.collect();
        self.run(span);
    }

    fn arrive(&mut self) {
        let now = Mono::from_nanos(self.now);
        if self.in_flight() >= self.limit.limit() as usize {
            self.refused += 1;
            self.limit.refused(now);
            return;
        }
        let in_flight = self.in_flight() as u32 + 1;
        let tag = self.limit.admitted(now, RouteId(0), in_flight);
        self.backlog.push_back((tag, self.now));
        self.work();
    }

    fn work(&mut self) {
        while self.working.len() < self.workers
            && let Some(inside) = self.backlog.pop_front()
        {
            let slowdown = (self.slowdown)(self.in_flight() + 1);
            let took = self.service as f64 * (0.5 + self.rng.unit()) * slowdown;
            let begins = self.now.max(self.stands_until);
            self.working.push(Reverse((begins + took as u64, inside)));
        }
    }

    fn finish(&mut self, (tag, admitted): Inside) {
        let too_much = self.rng.unit() < (self.overloaded)(self.in_flight());
        self.worked += u32::from(!too_much);
        self.limit.finished(
            Mono::from_nanos(self.now),
            &Sample {
                tag,
                route: RouteId(0),
                latency: Duration::from_nanos(self.now - admitted),
                in_flight: self.in_flight() as u32 + 1,
                ending: if too_much {
                    Ending::Overloaded
                } else {
                    Ending::Worked
                },
            },
        );
        self.work();
    }

    fn limit(&self) -> u32 {
        self.limit.limit()
    }

    fn baseline_ms(&self) -> f64 {
        self.limit.insight().baseline.unwrap().as_secs_f64() * 1000.0
    }

    /// Whether there was such a verdict among the last changes.
    fn saw(&self, verdict: Verdict) -> bool {
        self.limit
            .changes()
            .iter()
            .any(|change| change.verdict == verdict)
    }
}

fn settings(min: u32, initial: u32, max: u32) -> Settings {
    Settings {
        bounds: Bounds::new(initial, min, max).unwrap(),
        latency_healthy_max: None,
    }
}

#[test]
fn the_limit_is_found_and_kept_a_little_above_the_workers() {
    let mut world = World::new(3000);
    let at_first = world.run(5 * SECOND);
    assert!(at_first > 1850.0, "{at_first}");

    for _ in 0..60 {
        let per_second = world.run(SECOND);
        assert!(per_second > 1700.0, "{per_second}");
        if !world.limit.insight().probing {
            assert!((95..=140).contains(&world.limit()), "{}", world.limit());
        }
    }
    assert!(
        (45.0..55.0).contains(&world.baseline_ms()),
        "{}",
        world.baseline_ms()
    );
}

#[test]
fn what_can_be_served_is_not_refused_and_leaves_room() {
    let mut world = World::new(1500);
    world.run(5 * SECOND);

    world.run(120 * SECOND);

    assert_eq!(world.refused, 0);
    assert!(world.limit() > 150, "{}", world.limit());
}

#[test]
fn a_service_that_takes_longer_for_good_is_learnt_within_seconds() {
    let mut world = World::new(800);
    world.run(20 * SECOND);

    world.service *= 2;
    world.run(4 * SECOND);

    assert!(world.run(20 * SECOND) > 780.0);
    assert!(
        (90.0..110.0).contains(&world.baseline_ms()),
        "{}",
        world.baseline_ms()
    );
}

#[test]
fn a_baseline_that_was_learnt_too_high_comes_down_to_what_is_true() {
    let mut world = World::new(3000);
    world.service *= 4;
    world.run(20 * SECOND);

    world.service /= 4;
    world.run(40 * SECOND);

    assert!(
        (45.0..60.0).contains(&world.baseline_ms()),
        "{}",
        world.baseline_ms()
    );
    assert!(world.limit() <= 140, "{}", world.limit());
}

#[test]
fn a_few_workers_are_found_from_a_limit_of_twenty() {
    let mut world = World::new(40);
    world.workers = 5;
    world.service = 200 * MS;
    world.run(60 * SECOND);

    let per_second = world.run(60 * SECOND);

    assert!(per_second > 23.5, "{per_second}");
    assert!(world.limit() <= 12, "{}", world.limit());
}

#[test]
fn a_standstill_leaves_the_limit_as_it_was() {
    let mut world = World::new(1500);
    world.run(20 * SECOND);
    let before = world.limit();

    world.stand_still(10 * SECOND);
    world.run(SECOND);

    assert!(world.saw(Verdict::Stalled));
    assert!(
        world.limit().abs_diff(before) <= before / 5,
        "{before} -> {}",
        world.limit()
    );
    let per_second = world.run(10 * SECOND);
    assert!(per_second > 1450.0, "{per_second}");
}

#[test]
fn where_throughput_falls_with_what_is_inside_the_limit_comes_down() {
    // Most is done with 50 inside: a thousand a second.
    let mut world = World::new(3000);
    world.workers = 10_000;
    world.service = 25 * MS;
    world.slowdown = |inside| 1.0 + (inside as f64 / 50.0).powi(2);
    world.run(60 * SECOND);

    let per_second = world.run(60 * SECOND);

    assert!((25..=80).contains(&world.limit()), "{}", world.limit());
    assert!(per_second > 850.0, "{per_second}");
}

#[test]
fn a_limit_does_not_rise_above_the_latency_that_its_operator_calls_healthy() {
    let healthy = Settings {
        latency_healthy_max: Some(Duration::from_millis(30)),
        ..Settings::default()
    };
    let mut world = World::under(Adaptive::new(healthy, 1), 3000);

    world.run(30 * SECOND);

    assert!(world.limit() <= 20, "{}", world.limit());
}

#[test]
fn a_limit_does_not_rise_while_the_machine_is_at_its_end() {
    let mut world = World::new(3000);
    world.limit.press(true);
    world.run(10 * SECOND);
    assert!(world.limit() <= 20, "{}", world.limit());

    world.limit.press(false);
    world.run(10 * SECOND);
    assert!(world.limit() >= 95, "{}", world.limit());
}

#[test]
fn an_application_that_says_it_is_too_much_gets_less_until_it_stops() {
    let mut world = World::new(3000);
    world.run(10 * SECOND);

    world.overloaded = |inside| if inside > 70 { 0.5 } else { 0.0 };
    world.run(20 * SECOND);
    assert!((50..=90).contains(&world.limit()), "{}", world.limit());

    world.overloaded = |_| 0.0;
    world.run(2 * SECOND);
    let per_second = world.run(10 * SECOND);
    assert!(per_second > 1900.0, "{per_second}");
}

#[test]
fn what_was_learnt_spares_a_restarted_limit_the_search() {
    let mut world = World::new(3000);
    world.run(30 * SECOND);
    let learnt = world.limit.learnt().unwrap();
    let busy = std::mem::take(&mut world.working);

    let mut restarted = World::under(Adaptive::resume(Settings::default(), 2, &learnt), 3000);
    // The application is still at work on what the former process let in.
    restarted.now = world.now;
    restarted.working = busy;
    restarted.backlog = world
        .backlog
        .iter()
        .map(|&(_, admitted)| (0, admitted))
        .collect();
    let at_once = restarted.run(2 * SECOND);

    assert!(at_once > 1900.0, "{at_once}");
    assert!(
        (95..=140).contains(&restarted.limit()),
        "{}",
        restarted.limit()
    );
    assert!(
        (45.0..55.0).contains(&restarted.baseline_ms()),
        "{}",
        restarted.baseline_ms()
    );
}

#[test]
fn a_shift_between_routes_is_no_queue() {
    let mut limit = Adaptive::new(Settings::default(), 1);
    let mut now = 0;
    let mut serve = |limit: &mut Adaptive, slow_of_ten: u64| {
        for n in 0..2000 {
            let (route, latency) = if n % 10 < slow_of_ten {
                (1, 200)
            } else {
                (0, 10)
            };
            now += MS;
            let at = |ms| Mono::from_nanos(now + ms * MS);
            let tag = limit.admitted(at(0), RouteId(route), 30);
            let latency_ms = Duration::from_millis(latency);
            let ending = Ending::Worked;
            limit.finished(
                at(0),
                &Sample {
                    tag,
                    route: RouteId(route),
                    latency: latency_ms,
                    in_flight: 30,
                    ending,
                },
            );
        }
        limit.insight().inflation.unwrap()
    };

    serve(&mut limit, 1);
    let shifted = serve(&mut limit, 5);

    assert!((0.95..1.05).contains(&shifted), "{shifted}");
}

#[test]
fn every_change_is_told_with_its_reason() {
    let mut world = World::new(3000);
    world.run(20 * SECOND);

    let changes = world.limit.changes();
    assert!((CHANGES_MAX / 2..=CHANGES_MAX).contains(&changes.len()));
    assert!(changes.is_sorted_by_key(|change| change.at));
    assert!(world.saw(Verdict::Grown) && world.saw(Verdict::Probing));
    for change in changes
        .iter()
        .filter(|change| change.verdict == Verdict::Cut)
    {
        assert!(change.inflation > change.threshold);
    }
}

/// Anything that may happen to a limit, in any order and with any clock.
#[derive(Clone, Debug)]
enum Step {
    Admit {
        route: u16,
        in_flight: u32,
    },
    Finish {
        which: usize,
        latency: u64,
        ending: Ending,
    },
    Refuse,
    Forward(u64),
    Backward(u64),
}

fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..200 * MS, Just(u64::MAX)]
}

fn steps() -> impl Strategy<Value = Step> {
    let endings = prop_oneof![
        4 => Just(Ending::Worked),
        1 => Just(Ending::Ignored),
        1 => Just(Ending::Overloaded)
    ];
    prop_oneof![
        6 => (0u16..400, prop_oneof![1u32..50, any::<u32>()])
            .prop_map(|(route, in_flight)| Step::Admit { route, in_flight }),
        6 => (any::<usize>(), numbers(), endings)
            .prop_map(|(which, latency, ending)| Step::Finish { which, latency, ending }),
        2 => Just(Step::Refuse),
        6 => (0..100 * MS).prop_map(Step::Forward),
        1 => numbers().prop_map(Step::Forward),
        1 => numbers().prop_map(Step::Backward),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_happens_the_limit_is_a_number_within_its_bounds(
        steps in prop::collection::vec(steps(), 1..2000),
        healthy in prop::option::of(numbers()),
        seed in any::<u64>(),
    ) {
        let settings = Settings {
            latency_healthy_max: healthy.map(Duration::from_nanos),
            ..settings(4, 20, 300)
        };
        let mut limit = Adaptive::new(settings, seed);
        let mut inside = Vec::new();
        let mut now = 0u64;
        for step in steps {
            let at = Mono::from_nanos(now);
            match step {
                Step::Admit { route, in_flight } => {
                    inside.push((limit.admitted(at, RouteId(route), in_flight), route));
                }
                Step::Finish { which, latency, ending } if !inside.is_empty() => {
                    let (tag, route) = inside.swap_remove(which % inside.len());
                    let latency = Duration::from_nanos(latency);
                    limit.finished(at, &Sample { tag, route: RouteId(route), latency, in_flight: 1, ending });
                }
                Step::Finish { .. } => {}
                Step::Refuse => limit.refused(at),
                Step::Forward(span) => now = now.saturating_add(span),
                Step::Backward(span) => now = now.saturating_sub(span),
            }
            prop_assert!((4..=300).contains(&limit.limit()), "{}", limit.limit());
            let inflation = limit.insight().inflation.unwrap_or(1.0);
            prop_assert!(inflation.is_finite() && inflation >= 0.0, "{inflation}");
        }
        for change in limit.changes() {
            prop_assert!(change.to.is_finite() && change.throughput.is_finite(), "{change:?}");
            prop_assert!(change.threshold >= 0.0 && !change.threshold.is_nan(), "{change:?}");
        }
        let resumed = Adaptive::resume(settings, seed, &limit.learnt().unwrap());
        prop_assert!((4..=300).contains(&resumed.limit()));
    }
}

//! What rate limits promise, whatever the calls: the same decisions as exact fractions make, waits that are enough and not
//! too long, and no window of any length with more in it than is said.

mod rate_model;

use proptest::prelude::*;
use rate_model::{Model, Words};
use tidegate_core::rate::set::{self, Member, Standing};
use tidegate_core::rate::{Algorithm, BucketSpec, Passed, Rate, Short, Spec, Tick};

const MILLISECOND: u64 = 1000;
const SECOND: u64 = 1000 * MILLISECOND;
const DAY: u64 = 24 * 3600 * SECOND;

/// With 256 cases, over 100,000 steps.
const STEPS: usize = 400;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Calls that cost so many hundredths of what there is at most.
    Take(u64),
    /// Gives a part of what was last taken back.
    GiveBack(u64),
    Charge(u64),
    /// Raises or lowers the limit.
    Rescale(Words),
}

/// How time goes on: by so many thousandths of a token's time or of a period, forwards or backwards.
#[derive(Clone, Copy, Debug)]
enum Pass {
    Micros(u64),
    Token(u64),
    Period(u64),
    Back(u64),
}

fn pass() -> impl Strategy<Value = Pass> {
    prop_oneof![
        3 => Just(Pass::Micros(0)),
        3 => (1u64..4).prop_map(Pass::Micros),
        8 => (0u64..3000).prop_map(Pass::Token),
        3 => (0u64..1500).prop_map(Pass::Period),
        1 => (0u64..500).prop_map(Pass::Back),
    ]
}

fn period_us() -> impl Strategy<Value = u64> {
    let usual = prop::sample::select(vec![SECOND, 60 * SECOND, 3600 * SECOND, DAY]);
    prop_oneof![4 => usual, 1 => 1u64..10 * SECOND, 1 => 1u64..100]
}

fn words(algorithm: Algorithm) -> impl Strategy<Value = Words> {
    let tokens = match algorithm {
        // Twice as many entries, with debt, still are no more than there may be.
        Algorithm::Log => (1u64..=64).boxed(),
        _ => prop_oneof![1u64..20, 1u64..1500, Just(1_000_000)].boxed(),
    };
    // A bucket is divided into no more parts than it holds tokens.
    (tokens, period_us(), 1u64..50, 0u64..9).prop_filter_map(
        "can be counted",
        move |(tokens, period_us, burst, parts)| {
            let words = Words {
                algorithm,
                rate: Rate { tokens, period_us },
                burst,
                parts: 1 + parts.min(burst - 1) as u32,
            };
            Spec::new(algorithm, words.rate, None).ok().map(|_| words)
        },
    )
}

fn step(algorithm: Algorithm) -> impl Strategy<Value = (Pass, Step)> {
    let rescales = if algorithm == Algorithm::Bucket { 1 } else { 0 };
    let step = prop_oneof![
        30 => (0u64..105).prop_map(Step::Take),
        3 => (0u64..120).prop_map(Step::GiveBack),
        1 => (0u64..250).prop_map(Step::Charge),
        rescales => words(algorithm).prop_map(Step::Rescale),
    ];
    (pass(), step)
}

/// Lets a limit and its model do the same and compares everything they say.
fn agrees(mut words: Words, steps: &[(Pass, Step)]) -> Result<(), TestCaseError> {
    let mut spec = words.spec();
    let mut now = Tick(DAY * 20_000);
    let mut state = spec.full(now);
    let mut model = Model::new(words, None, now);
    let (mut latest, mut last) = (now, None);
    for &(pass, step) in steps {
        now = later(now, pass, words);
        latest = latest.max(now);
        let hundredths = |of: u64| of * spec.most() / 100;
        match step {
            Step::Take(of) => {
                let cost = hundredths(of) + u64::from(of > 0 && hundredths(of) == 0);
                let taken = spec.take(&mut state, now, cost);
                let wait = model.wait(now, cost);
                prop_assert_eq!(
                    taken.map_err(Some),
                    match wait {
                        None => Err(Some(Short::Never)),
                        Some(0) => {
                            if cost > 0 {
                                model.spend(now, cost);
                                // Where the clock had been set back, what was spent is not found by it.
                                last = (now == latest).then_some((now, cost));
                            }
                            let remaining = model.remaining(now);
                            Ok(Passed { remaining })
                        }
                        Some(wait_us) => Err(Some(Short::Wait { wait_us })),
                    }
                );
            }
            Step::GiveBack(of) => {
                if let Some((spent_at, cost)) = last.take() {
                    let tokens = (of * cost / 100).min(cost);
                    spec.give_back(&mut state, now, spent_at, tokens);
                    model.give_back(now, spent_at, tokens);
                }
            }
            Step::Charge(of) => {
                spec.charge(&mut state, now, hundredths(of));
                model.charge(now, hundredths(of));
            }
            Step::Rescale(to) => {
                let old = std::mem::replace(&mut spec, to.spec());
                spec.rescale(&mut state, now, &old);
                model.rescale(to);
                model.settle();
                (words, last) = (to, None);
            }
        }
        prop_assert_eq!(spec.remaining(&state, now), model.remaining(now));
        prop_assert_eq!(spec.used(&state, now), model.used(now));
        prop_assert_eq!(spec.time_to_full_us(&state, now), model.time_to_full(now));
    }
    Ok(())
}

fn later(now: Tick, pass: Pass, words: Words) -> Tick {
    let Rate { tokens, period_us } = words.rate;
    let token_us = (period_us * u64::from(words.parts) / tokens).max(1);
    match pass {
        Pass::Micros(us) => now.plus(us),
        Pass::Token(thousandths) => now.plus(thousandths * token_us / 1000),
        Pass::Period(thousandths) => now.plus(thousandths * period_us / 1000),
        Pass::Back(thousandths) => Tick(now.0.saturating_sub(thousandths * period_us / 1000)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_bucket_decides_as_fractions_do(
        words in words(Algorithm::Bucket),
        steps in prop::collection::vec(step(Algorithm::Bucket), STEPS),
    ) {
        agrees(words, &steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_log_decides_as_fractions_do(
        words in words(Algorithm::Log),
        steps in prop::collection::vec(step(Algorithm::Log), STEPS),
    ) {
        agrees(words, &steps)?;
    }

    #[test]
    fn a_window_decides_as_fractions_do(
        words in words(Algorithm::Window),
        steps in prop::collection::vec(step(Algorithm::Window), STEPS),
    ) {
        agrees(words, &steps)?;
    }

    #[test]
    fn no_window_of_any_length_has_more_in_it_than_is_said(
        words in prop::sample::select(Algorithm::ALL.to_vec()).prop_flat_map(words),
        steps in prop::collection::vec((pass(), 1u64..=100, any::<bool>()), 1..200),
        lengths in prop::collection::vec(1u64..4000, 1..20),
    ) {
        let spec = words.spec();
        let mut now = Tick(DAY * 20_000);
        let mut state = spec.full(now);
        // Where the clock was set back, what passes counts at the latest time at which anything passed.
        let mut passed: Vec<(u64, u64)> = Vec::new();
        for (pass, hundredths, all) in steps {
            now = later(now, pass, words);
            let cost = if all {
                spec.remaining(&state, now).max(1)
            } else {
                (hundredths * spec.most() / 100).max(1)
            };
            if spec.take(&mut state, now, cost).is_ok() {
                let latest = passed.last().map_or(0, |(at, _)| *at);
                passed.push((now.0.max(latest), cost));
            }
        }
        let starts = passed.iter().map(|(at, _)| *at);
        for from in starts {
            for thousandths in &lengths {
                let window_us = (words.rate.period_us * thousandths / 1000).max(1);
                let inside = passed.iter().filter(|(at, _)| (from..from + window_us).contains(at));
                let most: u64 = inside.map(|(_, cost)| cost).sum();
                prop_assert!(most <= spec.worst_in(window_us), "{most} in {window_us} µs");
            }
        }
    }

    #[test]
    fn a_set_spends_all_or_nothing_and_each_as_it_would_alone(
        limits in prop::collection::vec(
            (prop::sample::select(Algorithm::ALL.to_vec()).prop_flat_map(words), any::<bool>()),
            0..=set::LIMITS_MAX,
        ),
        steps in prop::collection::vec((pass(), 1u64..20), 1..50),
    ) {
        let specs: Vec<_> = limits.iter().map(|(words, _)| words.spec()).collect();
        let mut now = Tick(DAY * 20_000);
        let mut states: Vec<_> = specs.iter().map(|spec| spec.full(now)).collect();
        for (pass, cost) in steps {
            now = limits.first().map_or(now, |(words, _)| later(now, pass, *words));
            let before = states.clone();
            let mut alone = before.clone();
            let single: Vec<_> = specs
                .iter()
                .zip(&mut alone)
                .map(|(spec, state)| spec.take(state, now, cost))
                .collect();
            let mut members: Vec<_> = specs
                .iter()
                .zip(&mut states)
                .zip(&limits)
                .map(|((spec, state), (_, enforced))| Member {
                    spec,
                    state,
                    cost,
                    standing: if *enforced { Standing::Enforced } else { Standing::Shadow },
                })
                .collect();
            let refuse = |place: usize| limits[place].1 && single[place].is_err();

            let answer = set::take(&mut members, now);

            match answer {
                Ok(spent) => {
                    prop_assert!((0..limits.len()).all(|place| !refuse(place)));
                    prop_assert_eq!(&states, &alone);
                    for (place, alone) in single.iter().enumerate() {
                        prop_assert_eq!(spent.from().contains(place), alone.is_ok());
                        prop_assert_eq!(spent.shadowed.contains(place), alone.is_err());
                    }
                }
                Err(refused) => {
                    prop_assert_eq!(&states, &before);
                    let longest = (0..limits.len())
                        .filter(|&place| refuse(place))
                        .map(|place| single[place].unwrap_err())
                        .max();
                    prop_assert_eq!(Some(refused.short), longest);
                    prop_assert_eq!(single[refused.binding], Err(refused.short));
                    for place in 0..limits.len() {
                        prop_assert_eq!(refused.by.contains(place), refuse(place));
                    }
                }
            }
        }
    }
}

fn limit(algorithm: Algorithm, words: &str, burst: Option<u64>) -> Spec {
    let rate = words.parse().expect("a rate");
    Spec::new(algorithm, rate, burst).expect("a limit")
}

/// The most that somebody gets in any second who takes all there is each millisecond from `begin_ms` on.
fn greedy(spec: &Spec, begin_ms: u64) -> u64 {
    let mut state = spec.full(Tick(0));
    let passed: Vec<u64> = (begin_ms..begin_ms + 3000)
        .map(|ms| {
            let now = Tick(ms * MILLISECOND);
            let all = spec.remaining(&state, now);
            spec.take(&mut state, now, all).map_or(0, |_| all)
        })
        .collect();
    let second = passed.windows(1000).map(|second| second.iter().sum());
    second.max().unwrap_or(0)
}

#[test]
fn who_takes_all_there_is_each_millisecond_gets_what_is_said_and_no_more() {
    let bucket = limit(Algorithm::Bucket, "1000/s", None);
    let held = limit(Algorithm::Bucket, "900/s", Some(100));
    let log = limit(Algorithm::Log, "100/s", None);
    let window = limit(Algorithm::Window, "1000/s", None);

    let worst = |spec: &Spec| (greedy(spec, 999), spec.worst_in(SECOND));

    assert_eq!(worst(&bucket), (1999, 1999));
    assert_eq!(worst(&held), (999, 999));
    assert_eq!(worst(&log), (100, 100));
    // Who asks each microsecond gets the one more.
    assert_eq!(worst(&window), (1998, 1999));
}

#[test]
fn whoever_polls_gets_the_whole_rate() {
    let spec = BucketSpec::new(10, SECOND, 1).expect("a rate");
    let mut state = spec.full(Tick(0));

    let polls = (0..10_000).map(|poll| Tick(poll * 10 * MILLISECOND));
    let passed = polls.filter(|&now| spec.take(&mut state, now, 1).is_ok());

    assert_eq!(passed.count(), 1000);
}

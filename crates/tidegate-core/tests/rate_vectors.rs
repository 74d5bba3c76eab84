//! The vectors of `vectors/rate.json`: limits and the exact fractions agree with each of them. With `UPDATE_VECTORS=1` the
//! file is written anew, from fixed seeds; `vectors/README.md` says how to read it elsewhere.

#[expect(dead_code, reason = "the properties ask more of it")]
mod rate_model;
mod rate_vector;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use rate_model::{Model, Words};
use rate_vector::{Expected, Limit, Op, Outcome, Vector, decoded, encoded};
use serde_json::Value;
use tidegate_core::rate::bucket::BucketState;
use tidegate_core::rate::log::{LogState, Spending};
use tidegate_core::rate::set::{self, Member, Standing};
use tidegate_core::rate::window::WindowState;
use tidegate_core::rate::{Algorithm, Rate, Short, Spec, State, Tick};
use tidegate_core::rng::Rng;

/// A time as a store tells it: too many microseconds for 32 bits, not too many for a double.
const START: Tick = Tick(1_790_000_000_000_000);
const SECOND: u64 = 1_000_000;

#[test]
fn limits_and_fractions_agree_with_every_vector() {
    let text = written();
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        fs::write(path(), &text).expect("the file of vectors is written");
    }

    let file = fs::read_to_string(path()).expect("the file of vectors is there");
    let file: Value = serde_json::from_str(&file).expect("the file of vectors is JSON");
    let vectors = file["vectors"].as_array().expect("a list");

    for encoded in vectors {
        let (vector, expected) = decoded(encoded);
        assert_eq!(by_limits(&vector), expected, "{vector:#?}");
        agrees_with_fractions(&vector, &expected);
    }
    assert!(vectors.len() > 500, "{}", vectors.len());
    assert_eq!(
        file,
        serde_json::from_str::<Value>(&text).expect("what is written is JSON"),
        "UPDATE_VECTORS=1 writes the file anew"
    );
}

/// Lets the limits do it.
fn by_limits(vector: &Vector) -> Expected {
    let now = vector.now;
    let specs: Vec<Spec> = vector
        .limits
        .iter()
        .map(|limit| limit.words.spec())
        .collect();
    let mut states: Vec<State> = vector
        .limits
        .iter()
        .zip(&specs)
        .map(|(limit, spec)| limit.state.clone().unwrap_or_else(|| spec.full(now)))
        .collect();
    let before = states.clone();
    let mut answer = Ok(());
    if vector.op == Op::Take {
        let mut members: Vec<Member<'_>> = Vec::new();
        for ((spec, state), limit) in specs.iter().zip(&mut states).zip(&vector.limits) {
            members.push(Member {
                spec,
                state,
                cost: limit.tokens,
                standing: limit.standing,
            });
        }
        answer = set::take(&mut members, now).map(drop);
    }
    let mut limits = Vec::new();
    for (place, limit) in vector.limits.iter().enumerate() {
        let (spec, state) = (&specs[place], &mut states[place]);
        match vector.op {
            Op::Take => {}
            Op::GiveBack => spec.give_back(state, now, limit.spent_at, limit.tokens),
            Op::Charge => spec.charge(state, now, limit.tokens),
            Op::Rescale => spec.rescale(state, now, &limit.old.expect("an old limit").spec()),
        }
        let unused = limit.state.is_none() && *state == before[place];
        limits.push(Outcome {
            wait_us: match spec.check(&before[place], now, limit.tokens) {
                _ if vector.op != Op::Take => Some(0),
                Ok(()) => Some(0),
                Err(Short::Wait { wait_us }) => Some(wait_us),
                Err(Short::Never) => None,
            },
            remaining: spec.remaining(state, now),
            full_us: spec.time_to_full_us(state, now),
            state: (!unused).then(|| state.clone()),
        });
    }
    Expected {
        passes: answer.is_ok(),
        binding: answer.err().map(|refused| refused.binding),
        limits,
    }
}

/// Compares what is expected with fractions.
fn agrees_with_fractions(vector: &Vector, expected: &Expected) {
    let now = vector.now;
    let places = vector.limits.iter().zip(&expected.limits).enumerate();
    let mut longest: Option<(usize, Option<u64>)> = None;
    for (place, (limit, outcome)) in places {
        let words = limit.old.unwrap_or(limit.words);
        let mut model = Model::new(words, limit.state.as_ref(), now);
        match vector.op {
            Op::Take => {
                let wait = model.wait(now, limit.tokens);
                assert_eq!(wait, outcome.wait_us, "{vector:#?}");
                if wait == Some(0) {
                    if expected.passes && limit.tokens > 0 {
                        model.spend(now, limit.tokens);
                    }
                } else if limit.standing == Standing::Enforced {
                    // No number of microseconds is as long as for ever.
                    let key = |wait: Option<u64>| wait.unwrap_or(u64::MAX);
                    if longest.is_none_or(|(_, other)| key(wait) > key(other)) {
                        longest = Some((place, wait));
                    }
                }
            }
            Op::GiveBack => model.give_back(now, limit.spent_at, limit.tokens),
            Op::Charge => model.charge(now, limit.tokens),
            Op::Rescale => {
                model.rescale(limit.words);
                model.settle();
            }
        }
        assert_eq!(model.remaining(now), outcome.remaining, "{vector:#?}");
        assert_eq!(model.time_to_full(now), outcome.full_us, "{vector:#?}");
        if let Some(State::Bucket(state)) = outcome.state {
            assert_eq!(
                model.credits(),
                Some(i128::from(state.credits)),
                "{vector:#?}"
            );
        }
    }
    let binding = longest.map(|(place, _)| place);
    assert_eq!(binding, expected.binding, "{vector:#?}");
    assert_eq!(binding.is_none(), expected.passes, "{vector:#?}");
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors/rate.json")
}

/// The file as it should be, one vector a line.
fn written() -> String {
    let mut text = String::from("{\n\"format\": 1,\n\"vectors\": [\n");
    let vectors = [by_hand(), at_random(1, 90, 1), at_random(2, 40, 4)].concat();
    let last = vectors.len() - 1;
    for (n, vector) in vectors.iter().enumerate() {
        let comma = if n == last { "" } else { "," };
        let line = encoded(vector, &by_limits(vector));
        writeln!(text, "{line}{comma}").expect("a string has room");
    }
    text.push_str("]\n}\n");
    text
}

fn limit(algorithm: Algorithm, rate: &str, burst: u64) -> Limit {
    Limit {
        words: Words {
            algorithm,
            rate: rate.parse().expect("a rate"),
            burst,
            parts: 1,
        },
        state: None,
        tokens: 1,
        standing: Standing::Enforced,
        spent_at: Tick(0),
        old: None,
    }
}

fn vector(name: &str, op: Op, now: Tick, limits: &[Limit]) -> Vector {
    Vector {
        name: name.to_owned(),
        op,
        now,
        limits: limits.to_vec(),
    }
}

/// Those that are there for a reason.
#[expect(clippy::too_many_lines, reason = "a list")]
fn by_hand() -> Vec<Vector> {
    let bucket = |rate, burst, tokens, credits| Limit {
        tokens,
        state: Some(State::Bucket(BucketState { credits, at: START })),
        ..limit(Algorithm::Bucket, rate, burst)
    };
    let take = |name, limit: Limit| vector(name, Op::Take, START, &[limit]);
    let at = |us| START.plus(us);
    let mut log = limit(Algorithm::Log, "3/s", 1);
    let spent = [0, 100_000, 200_000].map(|us| Spending {
        at: at(us),
        tokens: 1,
    });
    log.state = LogState::from_entries(&spent).map(State::Log);
    let mut window = limit(Algorithm::Window, "50/min", 1);
    window.state = Some(State::Window(WindowState {
        number: START.0 / (60 * SECOND),
        current: 18,
        previous: 42,
    }));
    let drained = bucket("10/s", 1, 1, 0);
    let twice = |limit: Limit| Limit { tokens: 2, ..limit };
    let shadow = |limit: Limit| Limit {
        standing: Standing::Shadow,
        ..limit
    };
    let mut raised = bucket("1/s", 20, 0, 2 * 1_000_000);
    raised.old = Some(bucket("1/s", 10, 0, 0).words);
    let mut lowered = bucket("1/s", 5, 0, 2 * 1_000_000);
    lowered.old = Some(bucket("1/s", 10, 0, 0).words);
    let mut faster = bucket("2/s", 10, 0, 0);
    faster.old = Some(bucket("1/s", 10, 0, 0).words);
    let mut part = bucket("100/s", 100, 1, 999_999);
    part.words.parts = 3;
    let mut given = log.clone();
    given.spent_at = at(100_000);
    vec![
        take("the first of all", limit(Algorithm::Bucket, "10/s", 5)),
        take(
            "the first of all, of a log",
            limit(Algorithm::Log, "10/s", 1),
        ),
        take(
            "the first of all, of a window",
            limit(Algorithm::Window, "10/s", 1),
        ),
        take("a rate of nothing", limit(Algorithm::Bucket, "0/s", 1)),
        take(
            "more than there ever is",
            twice(limit(Algorithm::Bucket, "10/s", 1)),
        ),
        take(
            "a question",
            Limit {
                tokens: 0,
                ..drained.clone()
            },
        ),
        take("a question in debt", bucket("10/s", 1, 0, -1)),
        vector(
            "a microsecond too early",
            Op::Take,
            at(99_999),
            std::slice::from_ref(&drained),
        ),
        vector(
            "just in time",
            Op::Take,
            at(100_000),
            std::slice::from_ref(&drained),
        ),
        vector(
            "a clock set back",
            Op::Take,
            Tick(START.0 - SECOND),
            std::slice::from_ref(&drained),
        ),
        vector(
            "a long pause",
            Op::Take,
            at(400 * 86_400 * SECOND),
            std::slice::from_ref(&drained),
        ),
        take("a third of a token too little", part),
        take(
            "the most credits",
            bucket("1/day", 26_062, 26_062, 26_062 * 86_400_000_000),
        ),
        take(
            "not quite as many",
            bucket("1/day", 26_062, 26_062, 26_062 * 86_400_000_000 - 1),
        ),
        take(
            "seven hundred a microsecond",
            bucket("700000000/s", 1000, 1000, 300),
        ),
        vector(
            "more gained than a double holds",
            Op::Take,
            at(400 * 86_400 * SECOND),
            &[bucket("700000000/s", 1000, 1000, 300)],
        ),
        vector(
            "not the oldest but enough",
            Op::Take,
            at(300_000),
            &[twice(log.clone())],
        ),
        vector(
            "as the window before fades",
            Op::Take,
            at(15 * SECOND),
            &[window.clone()],
        ),
        vector(
            "in the window after",
            Op::Take,
            at(50 * SECOND),
            &[Limit {
                tokens: 40,
                ..window.clone()
            }],
        ),
        vector(
            "a million a day in grains",
            Op::Take,
            at(1),
            &[limit(Algorithm::Window, "1000000/day", 1)],
        ),
        vector(
            "one refuses and none is spent",
            Op::Take,
            START,
            &[bucket("10/s", 9, 1, 900_000), drained.clone()],
        ),
        vector(
            "the longest wait binds",
            Op::Take,
            START,
            &[
                drained.clone(),
                bucket("1/s", 1, 1, 0),
                twice(drained.clone()),
            ],
        ),
        vector(
            "a shadow does not refuse",
            Op::Take,
            START,
            &[shadow(drained.clone()), bucket("10/s", 9, 1, 900_000)],
        ),
        vector(
            "a shadow is not spent from alone",
            Op::Take,
            START,
            &[shadow(bucket("10/s", 9, 1, 900_000)), drained.clone()],
        ),
        vector(
            "no more than there was",
            Op::GiveBack,
            START,
            &[bucket("10/s", 5, 9, 100_000)],
        ),
        vector(
            "only what was spent then",
            Op::GiveBack,
            at(300_000),
            &[given],
        ),
        vector(
            "more than there is",
            Op::Charge,
            START,
            &[bucket("10/s", 5, 7, 300_000)],
        ),
        vector(
            "one burst of debt",
            Op::Charge,
            START,
            &[bucket("10/s", 5, 99, 300_000)],
        ),
        vector("ten become twenty", Op::Rescale, START, &[raised]),
        vector("ten become five", Op::Rescale, START, &[lowered]),
        vector("twice as fast", Op::Rescale, START, &[faster]),
    ]
}

/// Runs of calls at up to `most` limits at a time, each call as one vector.
fn at_random(seed: u64, runs: u64, most: u64) -> Vec<Vector> {
    let mut rng = Rng::new(seed);
    let mut vectors = Vec::new();
    for run in 0..runs {
        let mut limits: Vec<Limit> = (0..1 + rng.below(most))
            .map(|_| any_limit(&mut rng))
            .collect();
        let mut now = START.plus(rng.below(60 * SECOND));
        for step in 0..5 {
            for limit in &mut limits {
                limit.tokens = rng.below(2 + limit.words.spec().most() * 2 / 3);
            }
            let op = if rng.below(8) == 0 {
                Op::Charge
            } else {
                Op::Take
            };
            let vector = vector(&format!("run {run}, step {step}"), op, now, &limits);
            for (limit, outcome) in limits.iter_mut().zip(by_limits(&vector).limits) {
                limit.state = outcome.state;
            }
            vectors.push(vector);
            let Rate { tokens, period_us } = limits[0].words.rate;
            now = match rng.below(10) {
                0 => Tick(now.0 - rng.below(1 + period_us / 4)),
                1 => now,
                2 => now.plus(rng.below(2 * period_us)),
                _ => now.plus(rng.below(2 + 3 * period_us / tokens)),
            };
        }
    }
    vectors
}

fn any_limit(rng: &mut Rng) -> Limit {
    let periods = [
        SECOND,
        60 * SECOND,
        3600 * SECOND,
        86_400 * SECOND,
        7,
        250_000,
    ];
    let algorithm = Algorithm::ALL[rng.below(3) as usize];
    let most = match algorithm {
        Algorithm::Log => 12,
        _ => [9, 100, 1_000_000][rng.below(3) as usize],
    };
    let period_us = periods[rng.below(6) as usize];
    let burst = 1 + rng.below(20);
    Limit {
        words: Words {
            algorithm,
            rate: Rate {
                tokens: 1 + rng.below(most),
                period_us,
            },
            burst,
            parts: 1 + rng.below(burst.min(7)) as u32,
        },
        standing: if rng.below(4) == 0 {
            Standing::Shadow
        } else {
            Standing::Enforced
        },
        ..limit(algorithm, "1/s", 1)
    }
}

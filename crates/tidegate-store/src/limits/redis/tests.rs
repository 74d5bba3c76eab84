//! The script on a real server, at times of the test's choice.

mod agreement;

use std::cell::RefCell;

use proptest::test_runner::{Config, TestRunner};
use serde_json::Value as Json;
use tidegate_core::rate::{Algorithm, Rate};
use tidegate_lab::peers::{RedisServer, Reply, Wire};

use super::super::model::{Keeper, compare, story, tag};
use super::*;

/// Where the script looks at the clock.
const CLOCK: &str = "local t = redis.call('TIME')\nlocal now = t[1] * 1000000 + t[2]\n";

/// A server that runs the script at a time that it is told. Nothing of what it keeps goes by itself.
struct Executor {
    wire: Wire,
    script: String,
    _server: RedisServer,
}

/// What came of a run.
struct Ran {
    reply: Value,
    /// What is under the keys now.
    values: Vec<Option<String>>,
    /// For how many milliseconds that was to be kept; below 0 where nothing was written.
    kept_ms: Vec<i64>,
}

impl Executor {
    fn start() -> Self {
        let server = RedisServer::plain().unwrap();
        let mut wire = server.wire().unwrap();
        let script = include_str!("../../redis/scripts/limit.lua");
        assert_eq!(script.matches(CLOCK).count(), 1);
        let script = format!(
            "local function limit(now)\n{}\nend
            local reply, kept = limit(tonumber(ARGV[#ARGV])), {{}}
            for i = 1, #KEYS do
                kept[i] = redis.call('PTTL', KEYS[i])
                redis.call('PERSIST', KEYS[i])
            end
            return {{ reply, redis.call('MGET', unpack(KEYS)), kept }}",
            script.replace(CLOCK, "")
        );
        let loaded = wire.ask(&["SCRIPT", "LOAD", &script]).unwrap();
        Self {
            script: loaded.granted().unwrap().text().to_owned(),
            wire,
            _server: server,
        }
    }

    fn run(&mut self, run: Run, now: Tick) -> Ran {
        let run = run.number(now.0);
        let count = run.keys.len().to_string();
        let mut command = vec!["EVALSHA", &self.script, &count];
        let parts = run.keys.iter().chain(&run.args);
        command.extend(parts.map(|part| std::str::from_utf8(part).unwrap()));
        let said = self.wire.ask(&command).unwrap().granted().unwrap();
        let [reply, values, kept] = said.parts() else {
            panic!("{said:?}");
        };
        let int = |reply: &Reply| reply.int().unwrap();
        Ran {
            reply: match reply {
                Reply::Array(parts) => {
                    Value::Array(parts.iter().map(int).map(Value::Int).collect())
                }
                reply => Value::Int(int(reply)),
            },
            values: values
                .parts()
                .iter()
                .map(|value| (*value != Reply::Nil).then(|| value.text().to_owned()))
                .collect(),
            kept_ms: kept.parts().iter().map(int).collect(),
        }
    }

    fn decide(&mut self, op: &str, asked: &[Asked<'_>], now: Tick) -> (Answer, Ran) {
        let ran = self.run(run_of(op, asked), now);
        let said = said_of(ran.reply.clone(), asked.len()).unwrap();
        let said = said.into_iter().map(|(said, _)| said).collect();
        (Answer::of(asked, said), ran)
    }
}

impl Keeper for Executor {
    fn take(&mut self, asked: &[Asked<'_>], now: Tick) -> Answer {
        self.decide("take", asked, now).0
    }

    fn ask(&mut self, asked: &[Asked<'_>], now: Tick) -> Answer {
        self.decide("ask", asked, now).0
    }

    fn settle(&mut self, settled: &[Settled<'_>], now: Tick) {
        if !settled.is_empty() {
            self.run(settling(settled), now);
        }
    }
}

#[test]
fn the_script_decides_as_a_map_of_states_would() {
    let executor = RefCell::new(Executor::start());
    let (cases, steps) = (RefCell::new(0u128), RefCell::new(0));
    let mut runner = TestRunner::new(Config::with_cases(3_000));

    runner
        .run(&story(2_000_000), |(specs, story)| {
            *cases.borrow_mut() += 1;
            *steps.borrow_mut() += story.len();
            let first = *cases.borrow() << 64;
            compare(&mut *executor.borrow_mut(), first, specs, &story);
            Ok(())
        })
        .unwrap();
    assert!(steps.into_inner() > 100_000);
}

#[test]
fn the_script_agrees_with_every_vector() {
    let file = include_str!("../../../../tidegate-core/vectors/rate.json");
    let file: Json = serde_json::from_str(file).unwrap();
    assert_eq!(file["format"], 1);
    let mut executor = Executor::start();
    let vectors = file["vectors"].as_array().unwrap();
    for (n, vector) in (0u128..).zip(vectors) {
        agrees(&mut executor, n << 64, vector);
    }
    assert!(vectors.len() > 500, "{}", vectors.len());
}

fn agrees(executor: &mut Executor, first: u128, vector: &Json) {
    let now = Tick(number(&vector["now"]));
    let limits = vector["limits"].as_array().unwrap();
    let specs: Vec<_> = limits
        .iter()
        .map(|limit| Arc::new(spec_of(&limit["spec"])))
        .collect();
    write_states(executor, first, limits, &specs);
    let asked: Vec<_> = (first..).zip(limits).zip(&specs).map(asked_of).collect();
    let ran = match vector["op"].as_str().unwrap() {
        "take" => {
            let (answer, ran) = executor.decide("take", &asked, now);
            assert_eq!(answer.passes(), vector["passes"] == true, "{vector}");
            let binding = vector["binding"].as_u64().map(|place| place as usize);
            assert_eq!(answer.binding, binding, "{vector}");
            for (said, limit) in answer.said.iter().zip(limits) {
                assert_eq!(*said, expected(&limit["then"], now), "{vector}");
            }
            Some(ran)
        }
        op @ ("give_back" | "charge") => {
            let settled = asked.iter().zip(limits);
            let settled: Vec<_> = settled
                .map(|(it, limit)| settled_of(op, it, limit))
                .collect();
            Some(executor.run(settling(&settled), now))
        }
        "rescale" => None,
        op => panic!("{op}"),
    };
    let after = full_in(executor, &asked, now);
    for (place, (limit, said)) in limits.iter().zip(after).enumerate() {
        let then = &limit["then"];
        let full_us: u64 = number(&then["full_us"]);
        assert_eq!(said, (full_us, number(&then["remaining"])), "{vector}");
        // Nothing to settle is nothing to write.
        let idle = vector["op"] == "charge" && limit["tokens"] == "0";
        if let Some(ran) = ran.as_ref().filter(|_| !idle) {
            let written = (&ran.values[place], ran.kept_ms[place]);
            assert_is_written(written, &specs[place], then, now);
        }
    }
}

/// Puts the states that limits have before.
fn write_states(executor: &mut Executor, first: u128, limits: &[Json], specs: &[Arc<Spec>]) {
    for ((key, limit), spec) in (first..).zip(limits).zip(specs) {
        let writer = limit.get("old").map_or(**spec, spec_of);
        if let Some(text) = text_of(&writer, &limit["state"]) {
            let set = executor.wire.ask(&["SET", &limit_key(tag(), key), &text]);
            set.unwrap().granted().unwrap();
        }
    }
}

fn asked_of<'a>(((key, limit), spec): ((u128, &Json), &'a Arc<Spec>)) -> Asked<'a> {
    let standing = match limit["shadow"] == true {
        true => Standing::Shadow,
        false => Standing::Enforced,
    };
    Asked {
        key,
        tag: tag(),
        spec,
        cost: number(&limit["tokens"]),
        standing,
    }
}

fn settled_of<'a>(op: &str, asked: &Asked<'a>, limit: &Json) -> Settled<'a> {
    let (taken, used) = match op {
        "charge" => (0, asked.cost),
        _ => (asked.cost, 0),
    };
    Settled {
        key: asked.key,
        tag: asked.tag,
        spec: asked.spec,
        at: Tick(limit.get("spent_at").map_or(0, number)),
        taken,
        used,
    }
}

/// What there is of each limit, told by what all of it would have to wait for: that, and the tokens.
fn full_in(executor: &mut Executor, asked: &[Asked<'_>], now: Tick) -> Vec<(u64, u64)> {
    let all = asked.iter().fold(Run::of(&LIMIT).arg("ask"), |run, it| {
        run.key(limit_key(it.tag, it.key))
    });
    let all = asked.iter().fold(all, |run, it| {
        with_spec(run, it.spec).number(units(it.spec).1).number(0)
    });
    let said = said_of(executor.run(all, now).reply, asked.len()).unwrap();
    let said = said.into_iter().map(|(said, _)| match said {
        Said::Passes { remaining, .. } => (0, remaining),
        Said::Short {
            short: Short::Wait { wait_us },
            remaining,
        } => (wait_us, remaining),
        // What denies everything has nothing to wait for.
        _ => (0, 0),
    });
    said.collect()
}

/// A state is written as it is, for as long as it says anything, by its own time, and no more than a moment longer.
fn assert_is_written(
    (value, kept_ms): (&Option<String>, i64),
    spec: &Spec,
    then: &Json,
    now: Tick,
) {
    let full_us: u64 = number(&then["full_us"]);
    if full_us > 0 || value.is_some() {
        assert_eq!(*value, text_of(spec, &then["state"]), "{then}");
    }
    if kept_ms >= 0 {
        let ahead_us = time_of(spec, &then["state"]).saturating_sub(now.0);
        let needed_ms = (ahead_us + full_us).div_ceil(1_000) as i64;
        assert!(
            (needed_ms - 200..=needed_ms + 1).contains(&kept_ms),
            "{kept_ms}: {then}"
        );
    }
}

/// What a limit says of a take.
fn expected(then: &Json, now: Tick) -> Said {
    let remaining = number(&then["remaining"]);
    match then["wait_us"].as_str().unwrap() {
        "0" => Said::Passes { at: now, remaining },
        "never" => Said::Short {
            short: Short::Never,
            remaining,
        },
        _ => Said::Short {
            short: Short::Wait {
                wait_us: number(&then["wait_us"]),
            },
            remaining,
        },
    }
}

fn number<T: std::str::FromStr>(value: &Json) -> T {
    let parsed = value.as_str().and_then(|text| text.parse().ok());
    parsed.unwrap_or_else(|| panic!("{value} is no number in a string"))
}

fn spec_of(value: &Json) -> Spec {
    let named = |algorithm: &&Algorithm| value["algorithm"] == algorithm.name();
    let algorithm = *Algorithm::ALL.iter().find(named).unwrap();
    let rate = Rate {
        tokens: number(&value["rate"]["tokens"]),
        period_us: number(&value["rate"]["period_us"]),
    };
    let burst = value.get("burst").map(number);
    match Spec::new(algorithm, rate, burst).unwrap() {
        Spec::Bucket(spec) => Spec::Bucket(spec.divided(number(&value["parts"])).unwrap()),
        spec => spec,
    }
}

/// How a state is written.
fn text_of(spec: &Spec, state: &Json) -> Option<String> {
    if state.is_null() {
        return None;
    }
    let n = |name: &str| number::<i64>(&state[name]);
    Some(match spec {
        Spec::Bucket(spec) => format!(
            "b{}:{}:{}:{}",
            spec.credits_per_us(),
            spec.credits_per_token(),
            spec.credits_when_full() - n("credits"),
            n("at")
        ),
        Spec::Log(spec) => {
            let (mut text, mut before) = (format!("l{}", spec.window_us()), 0);
            for entry in state["entries"].as_array().unwrap() {
                let (at, tokens): (u64, u64) = (number(&entry[0]), number(&entry[1]));
                text += &format!(" {}:{tokens}", at - before);
                before = at;
            }
            text
        }
        Spec::Window(spec) => format!(
            "w{}:{}:{}:{}:{}",
            spec.window_us(),
            spec.grain_us(),
            n("number"),
            n("current"),
            n("previous")
        ),
        Spec::Deny => return None,
    })
}

/// The time of a state.
fn time_of(spec: &Spec, state: &Json) -> u64 {
    match spec {
        Spec::Bucket(_) => number(&state["at"]),
        Spec::Log(_) => state["entries"]
            .as_array()
            .unwrap()
            .last()
            .map_or(0, |entry| number(&entry[0])),
        Spec::Window(spec) => number::<u64>(&state["number"]) * spec.window_us(),
        Spec::Deny => 0,
    }
}

//! Vectors of rate limits, and how they are written: `vectors/README.md` says it in words.

use serde_json::{Value, json};
use tidegate_core::rate::bucket::BucketState;
use tidegate_core::rate::log::{LogState, Spending};
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::window::WindowState;
use tidegate_core::rate::{Algorithm, Rate, Spec, State, Tick};

use crate::rate_model::Words;

/// What one vector does to its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Take,
    GiveBack,
    Charge,
    Rescale,
}

#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) words: Words,
    /// `None` when nobody has used it.
    pub(crate) state: Option<State>,
    /// Tokens to take, give back or charge.
    pub(crate) tokens: u64,
    pub(crate) standing: Standing,
    /// When they were taken that are given back.
    pub(crate) spent_at: Tick,
    /// Of what the state was before a rescale.
    pub(crate) old: Option<Words>,
}

#[derive(Clone, Debug)]
pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) op: Op,
    pub(crate) now: Tick,
    pub(crate) limits: Vec<Limit>,
}

/// What comes of a vector for one of its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Of a take, before it: 0 passes, `None` never does.
    pub(crate) wait_us: Option<u64>,
    pub(crate) remaining: u64,
    pub(crate) full_us: u64,
    pub(crate) state: Option<State>,
}

/// What comes of a vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) passes: bool,
    pub(crate) binding: Option<usize>,
    pub(crate) limits: Vec<Outcome>,
}

fn text(number: impl ToString) -> Value {
    Value::String(number.to_string())
}

fn number<T: std::str::FromStr>(value: &Value) -> T {
    let parsed = value.as_str().and_then(|text| text.parse().ok());
    parsed.unwrap_or_else(|| panic!("{value} is no number in a string"))
}

impl Op {
    const NAMES: [(Self, &'static str); 4] = [
        (Self::Take, "take"),
        (Self::GiveBack, "give_back"),
        (Self::Charge, "charge"),
        (Self::Rescale, "rescale"),
    ];
}

/// One vector and what comes of it.
pub(crate) fn encoded(vector: &Vector, expected: &Expected) -> Value {
    let name = Op::NAMES.iter().find(|(op, _)| *op == vector.op);
    let limit = |(limit, outcome): (&Limit, &Outcome)| {
        let mut encoded = json!({
            "spec": spec_to(&limit.words),
            "state": state_to(limit.state.as_ref()),
            "tokens": text(limit.tokens),
            "shadow": limit.standing == Standing::Shadow,
            "then": {
                "remaining": text(outcome.remaining),
                "full_us": text(outcome.full_us),
                "state": state_to(outcome.state.as_ref()),
            },
        });
        match vector.op {
            Op::Take => {
                let wait = outcome.wait_us;
                encoded["then"]["wait_us"] = wait.map_or_else(|| json!("never"), text);
            }
            Op::GiveBack => encoded["spent_at"] = text(limit.spent_at.0),
            Op::Charge => {}
            Op::Rescale => encoded["old"] = spec_to(&limit.old.expect("an old limit")),
        }
        encoded
    };
    let limits = vector.limits.iter().zip(&expected.limits).map(limit);
    json!({
        "name": vector.name,
        "op": name.expect("each has a name").1,
        "now": text(vector.now.0),
        "limits": limits.collect::<Vec<_>>(),
        "passes": expected.passes,
        "binding": expected.binding,
    })
}

fn spec_to(words: &Words) -> Value {
    let mut encoded = json!({
        "algorithm": words.algorithm.name(),
        "rate": {
            "tokens": text(words.rate.tokens),
            "period_us": text(words.rate.period_us),
        },
    });
    match words.spec() {
        Spec::Bucket(spec) => {
            encoded["burst"] = text(words.burst);
            encoded["parts"] = text(words.parts);
            encoded["a"] = text(spec.credits_per_us());
            encoded["b"] = text(spec.credits_per_token());
            encoded["cap"] = text(spec.credits_when_full());
        }
        Spec::Log(_) | Spec::Deny => {}
        Spec::Window(spec) => encoded["grain_us"] = text(spec.grain_us()),
    }
    encoded
}

fn spec_of(value: &Value) -> Words {
    let named = |algorithm: &&Algorithm| value["algorithm"] == algorithm.name();
    let or_one = |value: &Value| if value.is_null() { 1 } else { number(value) };
    let words = Words {
        algorithm: *Algorithm::ALL.iter().find(named).expect("an algorithm"),
        rate: Rate {
            tokens: number(&value["rate"]["tokens"]),
            period_us: number(&value["rate"]["period_us"]),
        },
        burst: or_one(&value["burst"]),
        parts: or_one(&value["parts"]) as u32,
    };
    assert_eq!(
        spec_to(&words),
        *value,
        "the same numbers from the same words"
    );
    words
}

fn state_to(state: Option<&State>) -> Value {
    match state {
        None | Some(State::Deny) => Value::Null,
        Some(State::Bucket(state)) => json!({
            "credits": text(state.credits),
            "at": text(state.at.0),
        }),
        Some(State::Log(state)) => {
            let entry = |entry: Spending| json!([text(entry.at.0), text(entry.tokens)]);
            json!({ "entries": state.entries().map(entry).collect::<Vec<_>>() })
        }
        Some(State::Window(state)) => json!({
            "number": text(state.number),
            "current": text(state.current),
            "previous": text(state.previous),
        }),
    }
}

fn state_of(value: &Value) -> Option<State> {
    if value.is_null() {
        return None;
    }
    if let Some(entries) = value["entries"].as_array() {
        let entry = |entry: &Value| Spending {
            at: Tick(number(&entry[0])),
            tokens: number(&entry[1]),
        };
        let entries: Vec<Spending> = entries.iter().map(entry).collect();
        return Some(State::Log(LogState::from_entries(&entries).expect("a log")));
    }
    if value["credits"].is_null() {
        return Some(State::Window(WindowState {
            number: number(&value["number"]),
            current: number(&value["current"]),
            previous: number(&value["previous"]),
        }));
    }
    Some(State::Bucket(BucketState {
        credits: number(&value["credits"]),
        at: Tick(number(&value["at"])),
    }))
}

/// The other way round.
pub(crate) fn decoded(value: &Value) -> (Vector, Expected) {
    (vector_of(value), expected_of(value))
}

fn vector_of(value: &Value) -> Vector {
    let op = Op::NAMES.iter().find(|(_, name)| value["op"] == *name);
    let limit = |limit: &Value| Limit {
        words: spec_of(&limit["spec"]),
        state: state_of(&limit["state"]),
        tokens: number(&limit["tokens"]),
        standing: if limit["shadow"] == true {
            Standing::Shadow
        } else {
            Standing::Enforced
        },
        spent_at: Tick(limit.get("spent_at").map_or(0, number)),
        old: limit.get("old").map(spec_of),
    };
    let limits = value["limits"].as_array().expect("a list");
    Vector {
        name: value["name"].as_str().expect("a name").to_owned(),
        op: op.expect("a known op").0,
        now: Tick(number(&value["now"])),
        limits: limits.iter().map(limit).collect(),
    }
}

fn expected_of(value: &Value) -> Expected {
    let limit = |limit: &Value| {
        let then = &limit["then"];
        Outcome {
            wait_us: match then.get("wait_us") {
                None => Some(0),
                Some(never) if never == "never" => None,
                Some(wait_us) => Some(number(wait_us)),
            },
            remaining: number(&then["remaining"]),
            full_us: number(&then["full_us"]),
            state: state_of(&then["state"]),
        }
    };
    let limits = value["limits"].as_array().expect("a list");
    Expected {
        passes: value["passes"] == true,
        binding: value["binding"].as_u64().map(|place| place as usize),
        limits: limits.iter().map(limit).collect(),
    }
}

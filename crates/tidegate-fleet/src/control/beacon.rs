//! What a node says of itself once a second, in at most 2 KB.
//!
//! It is JSON with short names. A reader skips what it does not know, so a later release may say more; `least` is the
//! version of the oldest reader that may believe the rest, and goes up only when a name changes its meaning. Times are
//! ages: no clock of the node's is compared with anybody else's.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::health::{Called, Dimension, Load, Signal, State, Validity};
use tidegate_core::time::Mono;
use tidegate_store::BEACON_BYTES_MAX;

/// The version of what is written here.
const VERSION: u32 = 1;
/// Most signals of a beacon that are read.
pub const SIGNALS_MAX: usize = 32;
/// Most dependencies of a beacon that are said.
pub const CALLS_MAX: usize = 8;
/// Bytes of a release's name.
const RELEASE_BYTES_MAX: usize = 32;
/// Digits of a number that are said.
const DIGITS: i32 = 6;

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Grows with each beacon of a life of the node.
    pub sequence: u64,
    /// What it reads. Of several of one dimension only the worst is said: no other counts.
    pub signals: Vec<Signal>,
    /// What it does, if that is measured.
    pub load: Option<Load>,
    /// How its calls went to what follows what is left of it, by name; [`CALLS_MAX`] of them at most.
    pub calls: Vec<(String, Called)>,
    /// Requests inside its application, if that is known.
    pub inflight: Option<u32>,
    /// Whether sessions live in its heap.
    pub keeps_sessions: bool,
    /// Whether it is a container, whose host has other tenants.
    pub in_container: bool,
    /// What it holds itself for.
    pub state: State,
    /// Whether it is about to leave.
    pub is_leaving: bool,
    /// What it runs.
    pub release: String,
}

/// A beacon that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBeacon {
    /// It is none.
    #[error("it is no beacon: {0}")]
    Odd(String),
    /// It is from a later release, and readers of this one would misunderstand it.
    #[error("it is of version {0}, and readers before version {1} misunderstand it")]
    Later(u32, u32),
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: u32,
    #[serde(default, skip_serializing_if = "is_usual")]
    least: u32,
    seq: u64,
    #[serde(default)]
    sig: Vec<WireSignal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    load: Option<WireLoad>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<WireCalled>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inside: Option<u32>,
    #[serde(default, skip_serializing_if = "is_usual")]
    heap: bool,
    #[serde(default, skip_serializing_if = "is_usual")]
    boxed: bool,
    #[serde(default)]
    state: String,
    #[serde(default, skip_serializing_if = "is_usual")]
    bye: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    rel: String,
}

#[derive(Serialize, Deserialize)]
struct WireSignal {
    d: String,
    #[serde(default)]
    v: f64,
    #[serde(default)]
    l: f64,
    /// Missing when the reading is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    s: Option<String>,
    /// Age in milliseconds.
    #[serde(default)]
    a: u64,
}

#[derive(Serialize, Deserialize)]
struct WireLoad {
    came: f64,
    done: f64,
    err: f64,
    used: f64,
    a: u64,
}

/// Calls to what is called `n`: so many a second, the shares that failed and that were slow, and whether the breaker has tripped.
#[derive(Serialize, Deserialize)]
struct WireCalled {
    n: String,
    #[serde(default)]
    c: f64,
    #[serde(default)]
    f: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    s: Option<f64>,
    #[serde(default, skip_serializing_if = "is_usual")]
    t: bool,
}

impl Said {
    /// A beacon that says nothing but that the node is there.
    pub fn nothing() -> Self {
        Self {
            sequence: 0,
            signals: Vec::new(),
            load: None,
            calls: Vec::new(),
            inflight: None,
            keeps_sessions: false,
            in_container: false,
            state: State::Unknown,
            is_leaving: false,
            release: String::new(),
        }
    }

    /// As it is posted at `now`: [`BEACON_BYTES_MAX`] at most.
    pub fn encode(&self, now: Mono) -> Vec<u8> {
        let age = |at: Mono| millis(now.since(at));
        let mut release = self.release.clone();
        while release.len() > RELEASE_BYTES_MAX {
            release.pop();
        }
        let mut wire = Wire {
            v: VERSION,
            least: 0,
            seq: self.sequence,
            sig: worst(&self.signals, now)
                .map(|signal| WireSignal {
                    d: signal.dimension.name().to_owned(),
                    v: short(signal.value),
                    l: short(signal.limit),
                    s: match signal.validity {
                        Validity::Ok => None,
                        other => Some(other.name().to_owned()),
                    },
                    a: age(signal.at),
                })
                .collect(),
            load: self.load.map(|load| WireLoad {
                came: short(load.offered_rps),
                done: short(load.completed_rps),
                err: short(load.error_ratio),
                used: short(load.utilisation),
                a: age(load.at),
            }),
            calls: called(&self.calls),
            inside: self.inflight,
            heap: self.keeps_sessions,
            boxed: self.in_container,
            state: self.state.name().to_owned(),
            bye: self.is_leaving,
            rel: release,
        };
        let encode =
            |wire: &Wire| serde_json::to_vec(wire).expect("it has no maps and only finite numbers");
        let mut bytes = encode(&wire);
        // Long names may take the place of others: what the node reads of itself comes first.
        while bytes.len() > BEACON_BYTES_MAX && wire.calls.pop().is_some() {
            bytes = encode(&wire);
        }
        debug_assert!(bytes.len() <= BEACON_BYTES_MAX, "{} bytes", bytes.len());
        bytes
    }

    /// What `bytes` say that arrived at `now`.
    ///
    /// # Errors
    ///
    /// When they are no beacon, or one that this release would misunderstand.
    pub fn decode(bytes: &[u8], now: Mono) -> Result<Self, BadBeacon> {
        let wire: Wire =
            serde_json::from_slice(bytes).map_err(|error| BadBeacon::Odd(error.to_string()))?;
        if wire.least > VERSION {
            return Err(BadBeacon::Later(wire.v, wire.least));
        }
        let at = |age_ms: u64| now.minus(Duration::from_millis(age_ms));
        let signals = wire.sig.into_iter().take(SIGNALS_MAX);
        Ok(Self {
            sequence: wire.seq,
            signals: signals
                .filter_map(|signal| read(&signal, at(signal.a)))
                .collect(),
            load: wire.load.map(|load| Load {
                offered_rps: load.came,
                completed_rps: load.done,
                error_ratio: load.err,
                utilisation: load.used,
                at: at(load.a),
            }),
            calls: (wire.calls.into_iter().take(CALLS_MAX))
                .map(|it| {
                    let called = Called {
                        per_second: it.c,
                        failed: it.f,
                        slow: it.s,
                        is_tripped: it.t,
                    };
                    (it.n, called)
                })
                .collect(),
            inflight: wire.inside,
            keeps_sessions: wire.heap,
            in_container: wire.boxed,
            state: State::named(&wire.state).unwrap_or(State::Unknown),
            is_leaving: wire.bye,
            release: wire.rel,
        })
    }

    /// What counts of `dimension` at `now`: how much of how much.
    pub fn worst_of(&self, dimension: Dimension, now: Mono) -> Option<&Signal> {
        worst(&self.signals, now).find(|signal| signal.dimension == dimension)
    }
}

fn called(calls: &[(String, Called)]) -> Vec<WireCalled> {
    let some = calls.iter().take(CALLS_MAX);
    some.map(|(name, called)| WireCalled {
        n: name.clone(),
        c: short(called.per_second),
        f: short(called.failed),
        s: called.slow.map(short),
        t: called.is_tripped,
    })
    .collect()
}

/// A dimension of a later release is none here.
fn read(signal: &WireSignal, at: Mono) -> Option<Signal> {
    let dimension = Dimension::named(&signal.d)?;
    Some(match signal.s.as_deref() {
        None => Signal::read(dimension, signal.v, signal.l, at),
        Some(why) => {
            let why = Validity::named(why).filter(|why| *why != Validity::Ok);
            Signal::unknown(dimension, why.unwrap_or(Validity::Error), at)
        }
    })
}

/// For each dimension the signal that counts: the fullest of those that are known, else any.
fn worst(signals: &[Signal], now: Mono) -> impl Iterator<Item = &Signal> {
    Dimension::ALL.into_iter().filter_map(move |dimension| {
        let those = signals.iter().filter(|it| it.dimension == dimension);
        // What is not known is below everything that is.
        those.max_by(|one, other| {
            let known = |it: &Signal| it.ratio(now).unwrap_or(-1.0);
            known(one).total_cmp(&known(other))
        })
    })
}

/// `value` with [`DIGITS`] digits; nothing that is no number.
pub(super) fn short(value: f64) -> f64 {
    if !value.is_finite() {
        return 0.0;
    }
    if value == 0.0 {
        return value;
    }
    let digits = DIGITS - 1 - value.abs().log10().floor() as i32;
    let factor = 10_f64.powi(digits.clamp(-18, 18));
    (value * factor).round() / factor
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono::from_millis(ms)
    }

    fn full() -> Said {
        let signals = Dimension::ALL.map(|dimension| {
            Signal::read(dimension, 123_456.789_012, 987_654_321.012_345, at(9_500))
        });
        Said {
            sequence: u64::MAX,
            signals: signals.to_vec(),
            load: Some(Load {
                offered_rps: 1_234.567_89,
                completed_rps: 1_200.123_456,
                error_ratio: 0.012_345_678_9,
                utilisation: 0.712_345_678,
                at: at(9_900),
            }),
            calls: (0..20)
                .map(|number| {
                    let called = Called {
                        per_second: 1_234.567_89,
                        failed: 0.123_456_789,
                        slow: Some(0.712_345_678),
                        is_tripped: true,
                    };
                    (format!("{number:064}"), called)
                })
                .collect(),
            inflight: Some(u32::MAX),
            keeps_sessions: true,
            in_container: true,
            state: State::Saturated,
            is_leaving: true,
            release: "x".repeat(500),
        }
    }

    #[test]
    fn what_is_said_is_heard_with_its_age_and_never_longer_than_two_kilobytes() {
        let said = full();

        let bytes = said.encode(at(10_000));
        let heard = Said::decode(&bytes, at(77_000)).unwrap();

        assert!(bytes.len() <= BEACON_BYTES_MAX, "{} bytes", bytes.len());
        assert_eq!(heard.signals.len(), Dimension::COUNT);
        // What does not fit any more is not said, the last of them first.
        assert!(
            (3..=CALLS_MAX).contains(&heard.calls.len()),
            "{}",
            heard.calls.len()
        );
        assert_eq!(heard.calls[0].0, format!("{:064}", 0));
        assert_eq!(heard.calls[0].1.slow, Some(0.712_346));
        let threads = &heard.signals[0];
        assert_eq!((threads.value, threads.limit), (123_457.0, 987_654_000.0));
        assert_eq!(threads.at, at(76_500), "half a second old, also here");
        let load = heard.load.unwrap();
        assert_eq!(load.completed_rps, 1_200.12);
        assert_eq!(load.at, at(76_900));
        assert_eq!(heard.sequence, u64::MAX);
        assert!(heard.keeps_sessions && heard.in_container && heard.is_leaving);
        assert_eq!(heard.state, State::Saturated);
    }

    #[test]
    fn of_a_dimension_the_worst_is_said_and_unknown_is_not_nothing() {
        let read = |value| Signal::read(Dimension::Queue, value, 10.0, at(1_000));
        let lost = Signal::unknown(Dimension::Pool, Validity::Unsupported, at(1_000));
        let said = Said {
            signals: vec![read(1.0), read(9.0), read(-1.0), lost, read(3.0)],
            ..Said::nothing()
        };

        let heard = Said::decode(&said.encode(at(1_000)), at(1_000)).unwrap();

        assert_eq!(heard.signals.len(), 2);
        assert_eq!(heard.signals[0].ratio(at(1_000)), Some(0.9));
        assert_eq!(heard.signals[1].validity, Validity::Unsupported);
        assert_eq!(heard.signals[1].ratio(at(1_000)), None);
    }

    #[test]
    fn a_later_release_is_read_for_what_is_known_here() {
        let later = br#"{"v":7,"least":1,"seq":5,"moon":{"phase":[1,2]},
            "sig":[{"d":"moon","v":1,"l":2},{"d":"threads","v":3,"l":4,"why":"x"}],"state":"dreaming"}"#;

        let heard = Said::decode(later, at(10)).unwrap();

        assert_eq!(heard.sequence, 5);
        assert_eq!(heard.signals.len(), 1);
        assert_eq!(heard.state, State::Unknown);
        let changed = br#"{"v":7,"least":2,"seq":5}"#;
        let misread = Said::decode(changed, at(10));
        assert_eq!(misread, Err(BadBeacon::Later(7, 2)));
        for odd in [&b""[..], b"{}", b"[]", b"\xff", br#"{"v":1,"seq":-1}"#] {
            assert!(matches!(Said::decode(odd, at(10)), Err(BadBeacon::Odd(_))));
        }
    }

    #[test]
    fn numbers_that_are_none_are_not_said_to_be_some() {
        let said = Said {
            signals: vec![Signal::read(Dimension::Gc, f64::NAN, f64::INFINITY, at(1))],
            load: Some(Load {
                offered_rps: f64::NAN,
                completed_rps: f64::INFINITY,
                error_ratio: -0.0,
                utilisation: 1e-300,
                at: at(1),
            }),
            ..Said::nothing()
        };

        let heard = Said::decode(&said.encode(at(1)), at(1)).unwrap();

        assert_eq!(heard.signals[0].validity, Validity::Error);
        assert_eq!(heard.load.unwrap().capacity_rps(), None);
    }
}

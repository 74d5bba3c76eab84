//! What a rate limit costs: `cargo bench -p tidegate-core --bench rate`. Prints nanoseconds, asserts nothing.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use tidegate_core::rate::key::{self, Part, Prefix, PrefixLengths, Words};
use tidegate_core::rate::set::{self, Member, Standing};
use tidegate_core::rate::{Algorithm, BucketSpec, Spec, State, Tick};

const ROUNDS: usize = 31;
const REPEATS: u32 = 1_000_000;
const KEYS: u32 = 10_000;

fn main() {
    report("a bucket passes", || buckets(1_000_000_000));
    report("a bucket refuses nine of ten", || buckets(100_000));
    for algorithm in Algorithm::ALL {
        let rate = if algorithm == Algorithm::Log {
            "100/100us"
        } else {
            "1000000000/s"
        };
        let what = format!("the same as a limit, a {}", algorithm.name());
        report(&what, || sets(&[(algorithm, rate)]));
    }
    report("a bucket of 10,000, found by route and address", keyed);
    let bucket = |rate| (Algorithm::Bucket, rate);
    report("three buckets pass", || {
        sets(&[
            bucket("1000000000/s"),
            bucket("10000000000/min"),
            bucket("1000000000000/day"),
        ])
    });
    report("three buckets, the last refuses nine of ten", || {
        sets(&[
            bucket("1000000000/s"),
            bucket("10000000000/min"),
            bucket("100000/s"),
        ])
    });
}

/// The median round and the fastest, as one line: on a machine that is busy they differ.
fn report(what: &str, mut round: impl FnMut() -> Duration) {
    let mut rounds: Vec<Duration> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort();
    let nanos = |round: Duration| round.as_nanos() as f64 / f64::from(REPEATS);
    let (median, fastest) = (nanos(rounds[ROUNDS / 2]), nanos(rounds[0]));
    println!("{what:<50} {median:>8.1} ns, at best {fastest:.1} ns");
}

/// One bucket of `rate` a second, and a call of cost 1 each microsecond.
fn buckets(rate: u64) -> Duration {
    let spec = BucketSpec::new(rate, 1_000_000, 1000).expect("a rate");
    let mut state = spec.full(Tick(0));
    time(|now| black_box(spec.take(black_box(&mut state), now, black_box(1))).is_ok())
}

/// A hash of the standard library's.
#[derive(Clone)]
struct Hashed(DefaultHasher);

impl Words for Hashed {
    fn word(&mut self, word: u64) {
        self.0.write_u64(word);
    }
}

/// One bucket for each of many addresses, found by its key in a map of the standard library's.
fn keyed() -> Duration {
    let spec = BucketSpec::new(1000, 1_000_000, 1000).expect("a rate");
    let mut begun = Hashed(DefaultHasher::new());
    key::begin("search-ip", &mut begun);
    let mut states = HashMap::<u64, _, BuildHasherDefault<DefaultHasher>>::default();
    time(|now| {
        let host = (now.0 as u32).wrapping_mul(0x9E37_79B9) % KEYS;
        let address = Ipv4Addr::from_bits(0x0A00_0000 + host);
        let prefix = Prefix::of(address.into(), PrefixLengths::default());
        let parts = [Part::Route("search"), Part::Address(prefix)];
        let mut hasher = begun.clone();
        key::write(black_box(&parts), &mut hasher);
        let state = states
            .entry(hasher.0.finish())
            .or_insert_with(|| spec.full(now));
        black_box(spec.take(state, now, black_box(1))).is_ok()
    })
}

/// The limits of one request.
fn sets(limits: &[(Algorithm, &str)]) -> Duration {
    let spec = |(algorithm, rate): &(Algorithm, &str)| {
        Spec::new(*algorithm, rate.parse().expect("a rate"), None).expect("a limit")
    };
    let specs: Vec<Spec> = limits.iter().map(spec).collect();
    let mut states: Vec<State> = specs.iter().map(|spec| spec.full(Tick(0))).collect();
    let pairs = specs.iter().zip(&mut states);
    let mut members: Vec<Member<'_>> = pairs
        .map(|(spec, state)| Member {
            spec,
            state,
            cost: 1,
            standing: Standing::Enforced,
        })
        .collect();
    time(|now| set::take(black_box(&mut members), now).is_ok())
}

fn time(mut call: impl FnMut(Tick) -> bool) -> Duration {
    let start = Instant::now();
    let mut passed = 0u32;
    for n in 0..u64::from(REPEATS) {
        passed += u32::from(call(Tick(n)));
    }
    black_box(passed);
    start.elapsed()
}

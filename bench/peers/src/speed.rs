//! Decisions in a second of CPU time.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use governor::clock::FakeRelativeClock;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tidegate_core::rate::Tick;
use tidegate_core::rng::Rng;

use crate::peer::{Allowance, InMemory, Ours, governor, governor_at};

/// Different keys.
const KEYS: u64 = 10_000;
/// Decisions of one measurement.
const DECISIONS: usize = 1_000_000;
/// Of limitador, which takes a hundred times as long.
const DECISIONS_SLOW: usize = 50_000;
/// Everything passes ...
const ROOMY: Allowance = Allowance(60_000_000);
/// ... or next to nothing does.
const NARROW: Allowance = Allowance(10);

/// Who decides in one case, and how fast in each round.
struct Runner<'a> {
    who: &'static str,
    decisions: usize,
    decide: Box<dyn Fn(&String) -> bool + 'a>,
    per_second: Vec<f64>,
}

/// All of them in turns, in each round another one first.
pub fn in_turns(rounds: usize) -> Result<Value, Box<dyn Error>> {
    let (keys, order) = (keys(), order());
    let mut cases = serde_json::Map::new();
    for (case, allowance) in [("passing", ROOMY), ("refused", NARROW)] {
        let ours = Ours::new(allowance, 4 * KEYS)?;
        let ours_at = Ours::new(allowance, 4 * KEYS)?;
        let theirs = governor(allowance);
        let clock = FakeRelativeClock::default();
        let theirs_at = governor_at(allowance, clock);
        let limitador = InMemory::new(allowance, 4 * KEYS)?;
        let mut runners = [
            Runner::new("ours", DECISIONS, |key| ours.passes(key)),
            Runner::new("governor", DECISIONS, |key| theirs.check_key(key).is_ok()),
            Runner::new("ours_clockless", DECISIONS, |key| {
                ours_at.passes_at(key, Tick(1_000_000))
            }),
            Runner::new("governor_clockless", DECISIONS, |key| {
                theirs_at.check_key(key).is_ok()
            }),
            Runner::new("limitador", DECISIONS_SLOW, |key| limitador.passes(key)),
        ];
        for runner in &mut runners {
            // Every key is there, and what is narrow is used up.
            for key in keys.iter().flat_map(|key| std::iter::repeat_n(key, 12)) {
                black_box((runner.decide)(key));
            }
        }
        for round in 0..rounds {
            for turn in 0..runners.len() {
                let at = (round + turn) % runners.len();
                runners[at].run(&keys, &order);
            }
        }
        let mut figures = serde_json::Map::new();
        for runner in &runners {
            figures.insert(runner.who.to_owned(), json!(median(&runner.per_second)));
        }
        for (of, by, name) in [
            (0, 1, "ours_of_governor"),
            (2, 3, "ours_of_governor_clockless"),
            (0, 4, "ours_of_limitador"),
        ] {
            let pairs = runners[of].per_second.iter().zip(&runners[by].per_second);
            let ratios: Vec<f64> = pairs.map(|(ours, theirs)| ours / theirs).collect();
            figures.insert(name.to_owned(), json!(median(&ratios)));
        }
        cases.insert(case.to_owned(), figures.into());
    }
    cases.insert("rounds".to_owned(), json!(rounds));
    cases.insert("keys".to_owned(), json!(KEYS));
    Ok(cases.into())
}

/// Some rounds of ours, for a profiler.
pub fn ours_alone() {
    let (keys, order) = (keys(), order());
    let ours = Ours::new(ROOMY, 4 * KEYS).expect("a limit");
    for round in 0..2 {
        for at in &order {
            black_box(ours.passes_at(&keys[*at as usize], Tick(1_000_000 + round)));
        }
    }
}

impl<'a> Runner<'a> {
    fn new(who: &'static str, decisions: usize, decide: impl Fn(&String) -> bool + 'a) -> Self {
        Self {
            who,
            decisions,
            decide: Box::new(decide),
            per_second: Vec::new(),
        }
    }

    fn run(&mut self, keys: &[String], order: &[u32]) {
        let begun = cpu_time();
        for at in order.iter().cycle().take(self.decisions) {
            black_box((self.decide)(&keys[*at as usize]));
        }
        let spent = cpu_time() - begun;
        self.per_second
            .push(self.decisions as f64 / spent.as_secs_f64());
    }
}

fn keys() -> Vec<String> {
    (0..KEYS).map(key).collect()
}

/// A key as long as a user's id mostly is.
pub fn key(number: u64) -> String {
    format!("tenant-{:03}:user-{number:08}", number % 997)
}

/// In which order keys come.
fn order() -> Vec<u32> {
    let mut rng = Rng::new(1);
    (0..1 << 17).map(|_| rng.below(KEYS) as u32).collect()
}

fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

fn median(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

//! The script on a real server, the core, and exact fractions, step by step: all three decide the same, and the
//! wait that they promise is enough to the microsecond.

#[expect(dead_code, reason = "the tests of the core ask more of it")]
#[path = "../../../../../tidegate-core/tests/rate_model/mod.rs"]
mod rate_model;

use rate_model::{Model, Words};
use tidegate_core::rate::State;
use tidegate_core::rng::Rng;

use super::super::super::model::START;
use super::*;

const STEPS: u64 = 100_000;
/// Steps of one limit; then comes another.
const STORY: u64 = 50;
const SECOND: u64 = 1_000_000;

/// One limit, as each of the three knows it.
struct Limit {
    key: u128,
    words: Words,
    spec: Arc<Spec>,
    state: State,
    model: Model,
    now: Tick,
}

#[test]
fn rust_lua_and_fractions_agree_and_a_promised_wait_is_enough_and_a_microsecond_less_is_not() {
    let mut executor = Executor::start();
    let mut rng = Rng::new(0x11_57);
    let (mut steps, mut waits) = (0, 0);
    for story in 0..STEPS.div_ceil(STORY) {
        let mut limit = Limit::any(story, &mut rng);
        for _ in 0..STORY {
            steps += 1;
            waits += u64::from(limit.step(&mut executor, &mut rng));
        }
    }
    println!("{steps} steps agree, {waits} waits are exact");
    assert!(steps >= STEPS && waits > STEPS / 10, "{steps}, {waits}");
}

impl Limit {
    fn any(story: u64, rng: &mut Rng) -> Self {
        let words = any_words(story, rng);
        let spec = words.spec();
        Self {
            key: u128::from(story) << 64,
            words,
            state: spec.full(START),
            spec: Arc::new(spec),
            model: Model::new(words, None, START),
            now: START,
        }
    }

    /// Time goes on and somebody calls; whether a wait was promised.
    fn step(&mut self, executor: &mut Executor, rng: &mut Rng) -> bool {
        let Rate { tokens, period_us } = self.words.rate;
        self.now = self.now.plus(match rng.below(10) {
            0 => 0,
            1 => rng.below(4),
            2 => rng.below(2 * period_us),
            _ => rng.below(2 + 3 * period_us / tokens),
        });
        let most = self.spec.most();
        let cost = match rng.below(16) {
            0 => 0,
            1 => most + 1,
            2..6 => 1 + rng.below(most),
            _ => 1 + rng.below(1 + most / 3),
        };
        let expected = self.by_fractions(cost);
        assert_eq!(self.by_script(executor, "take", self.now, cost), expected);
        assert_eq!(self.by_core(cost), expected);
        let Said::Short {
            short: Short::Wait { wait_us },
            ..
        } = expected
        else {
            return false;
        };
        let (soon, due) = (self.now.plus(wait_us - 1), self.now.plus(wait_us));
        let wait = Short::Wait { wait_us: 1 };
        assert_eq!(self.spec.check(&self.state, soon, cost), Err(wait));
        assert_eq!(self.spec.check(&self.state, due, cost), Ok(()));
        assert_eq!(self.model.wait(soon, cost), Some(1));
        assert_eq!(self.model.wait(due, cost), Some(0));
        let too_soon = self.by_script(executor, "ask", soon, cost);
        assert!(matches!(too_soon, Said::Short { short, .. } if short == wait));
        let enough = self.by_script(executor, "ask", due, cost);
        assert!(matches!(enough, Said::Passes { .. }));
        true
    }

    fn by_fractions(&mut self, cost: u64) -> Said {
        let short = match self.model.wait(self.now, cost) {
            Some(0) => {
                if cost > 0 {
                    self.model.spend(self.now, cost);
                }
                return Said::Passes {
                    at: self.now,
                    remaining: self.model.remaining(self.now),
                };
            }
            Some(wait_us) => Short::Wait { wait_us },
            None => Short::Never,
        };
        Said::Short {
            short,
            remaining: self.model.remaining(self.now),
        }
    }

    fn by_core(&mut self, cost: u64) -> Said {
        let taken = self.spec.take(&mut self.state, self.now, cost);
        let remaining = self.spec.remaining(&self.state, self.now);
        match taken {
            Ok(_) => Said::Passes {
                at: self.now,
                remaining,
            },
            Err(short) => Said::Short { short, remaining },
        }
    }

    fn by_script(&self, executor: &mut Executor, op: &str, now: Tick, cost: u64) -> Said {
        let asked = Asked {
            key: self.key,
            tag: tag(),
            spec: &self.spec,
            cost,
            standing: Standing::Enforced,
        };
        executor.decide(op, &[asked], now).0.said[0]
    }
}

fn any_words(story: u64, rng: &mut Rng) -> Words {
    let algorithm = Algorithm::ALL[story as usize % Algorithm::ALL.len()];
    let periods = [
        7,
        250_000,
        SECOND,
        60 * SECOND,
        3_600 * SECOND,
        86_400 * SECOND,
    ];
    loop {
        let tokens = match (rng.below(4), algorithm) {
            (0, Algorithm::Bucket | Algorithm::Window) => 999_983,
            (1, _) => 1 + rng.below(64),
            _ => 1 + rng.below(12),
        };
        let period_us = periods[rng.below(periods.len() as u64) as usize];
        let burst = 1 + rng.below(20);
        let parts = match algorithm {
            Algorithm::Bucket => 1 + rng.below(burst.min(3)) as u32,
            _ => 1,
        };
        let words = Words {
            algorithm,
            rate: Rate { tokens, period_us },
            burst,
            parts,
        };
        let burst = (algorithm == Algorithm::Bucket).then_some(burst);
        if Spec::new(algorithm, words.rate, burst).is_ok() {
            return words;
        }
    }
}

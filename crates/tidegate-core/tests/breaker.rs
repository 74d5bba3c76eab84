//! A breaker before a store that goes and comes back, by the supervisor's rules, in virtual time.

use std::time::Duration;

use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use tidegate_core::breaker::{Breaker, BreakerPlan, Change};
use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;

const PLAN: BreakerPlan = BreakerPlan::STORE;
/// From one call to the next while calls pass.
const CALL_EVERY: Duration = Duration::from_millis(2);
/// What a call or a probe waits for an answer, at most.
const TIMEOUT: Duration = PLAN.probe_within;
/// What an answer takes.
const ANSWER: Duration = Duration::from_millis(1);
/// Between two probes.
const PROBE_EVERY: Duration = Duration::from_millis(2);
/// From the store's return until it is used: the longest pause and the probes, with some grain.
const BACK_WITHIN: Duration = Duration::from_millis(480 + 40);
/// What a probe that is too slow by chance costs: a pause and the probes once more.
const CHANCE_COSTS: Duration = Duration::from_millis(480 + 40);
/// Rounds of probes in any second of an absence: the first pauses are shorter.
const ROUNDS_MAX: usize = 4;

/// What a store did, and what was noticed of it.
#[derive(Debug, Default)]
struct Told {
    /// Of each time that it was back for long enough: how long it took until it was used.
    used_after: Vec<Duration>,
    /// When rounds of probes began while it was away.
    asked: Vec<Mono>,
}

/// A store that is away and there by turns, for so many milliseconds each. While it is there, one
/// probe in every `slow_every` is too slow, but no two within a return.
struct Store<'a> {
    turns: &'a [(u64, u64)],
    slow_every: Option<u64>,
}

impl Store<'_> {
    /// Whether it answers at `at`, and since when it is as it is.
    fn at(&self, at: Mono) -> (bool, Mono) {
        let mut since = Mono::default();
        for (away, there) in self.turns {
            for (is_there, millis) in [(false, *away), (true, *there)] {
                let until = since + Duration::from_millis(millis);
                if at < until {
                    return (is_there, since);
                }
                since = until;
            }
        }
        (false, since)
    }

    fn end(&self) -> Mono {
        let millis = self.turns.iter().map(|(away, there)| away + there).sum();
        Mono::from_millis(millis)
    }

    fn play(&self, seed: u64) -> Told {
        let (mut breaker, mut rng) = (Breaker::new(PLAN), Rng::new(seed));
        let (mut told, mut now) = (Told::default(), Mono::default());
        let mut probes = 0;
        let (mut noted, mut slowed) = (None, None);
        while now < self.end() {
            let (is_there, since) = self.at(now);
            match breaker.probe_at() {
                None => {
                    if is_there && noted != Some(since) {
                        noted = Some(since);
                        told.used_after.push(now.since(since));
                    }
                    if is_there {
                        breaker.answered(now + ANSWER);
                    } else {
                        breaker.failed(now + TIMEOUT, &mut rng);
                    }
                    now = now + CALL_EVERY;
                }
                Some(at) if now < at => now = at,
                Some(_) => {
                    if breaker.probe(now) == Some(Change::Probing) && !is_there {
                        told.asked.push(now);
                    }
                    probes += 1;
                    let due = self.slow_every.is_some_and(|every| probes % every == 0);
                    let is_slow = is_there && due && slowed != Some(since);
                    if is_slow {
                        slowed = Some(since);
                    }
                    let took = (is_there && !is_slow).then_some(ANSWER);
                    now = now + took.unwrap_or(TIMEOUT);
                    breaker.probed(now, took, &mut rng);
                    now = now + PROBE_EVERY;
                }
            }
        }
        told
    }
}

#[test]
fn a_store_that_freezes_for_a_second_again_and_again_is_used_again_within_a_second_each_time() {
    let turns = [(1_000, 2_000); 50];
    for seed in 0..20 {
        let store = Store {
            turns: &turns,
            slow_every: None,
        };

        let told = store.play(seed);

        assert_eq!(told.used_after.len(), turns.len());
        for used_after in &told.used_after {
            assert!(*used_after <= BACK_WITHIN, "{seed}: {used_after:?}");
        }
    }
}

proptest! {
    #[test]
    fn a_store_is_used_soon_after_its_return_whatever_came_before(
        turns in prop::collection::vec((1u64..8_000, 1_200u64..6_000), 1..30),
        slow_every in prop::option::of(2u64..40),
        seed in any::<u64>(),
    ) {
        let store = Store { turns: &turns, slow_every };

        let told = store.play(seed);

        prop_assert_eq!(told.used_after.len(), turns.len());
        let within = match slow_every {
            None => BACK_WITHIN,
            Some(_) => BACK_WITHIN + CHANCE_COSTS,
        };
        for used_after in &told.used_after {
            prop_assert!(*used_after <= within, "{used_after:?} of {within:?}");
        }
    }

    #[test]
    fn a_store_that_stays_away_is_asked_a_few_times_a_second(
        before in prop::collection::vec((1u64..3_000, 1u64..3_000), 0..20),
        seed in any::<u64>(),
    ) {
        let mut turns = before;
        turns.push((60_000, 1));
        let store = Store { turns: &turns, slow_every: None };

        let asked = store.play(seed).asked;

        for (place, first) in asked.iter().enumerate() {
            let second = asked[place..].iter().take_while(|at| at.since(*first) < Duration::from_secs(1));
            prop_assert!(second.count() <= ROUNDS_MAX);
        }
    }
}

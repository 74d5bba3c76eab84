use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Algorithm, Short};

use super::super::model::{Keeper, START, compare, story, tag};
use super::*;

const SECOND: u64 = 1_000_000;

impl Keeper for LimitTable {
    fn take(&mut self, asked: &[Asked<'_>], now: Tick) -> Answer {
        Self::take(self, asked, now)
    }

    fn ask(&mut self, asked: &[Asked<'_>], now: Tick) -> Answer {
        Self::ask(self, asked, now)
    }

    fn settle(&mut self, settled: &[Settled<'_>], now: Tick) {
        Self::settle(self, settled, now);
    }
}

fn table(keys_max: u64, shards: u32) -> LimitTable {
    LimitTable::new(LimitTablePlan { keys_max, shards })
}

fn spec(rate: &str, burst: Option<u64>) -> Arc<Spec> {
    Arc::new(Spec::new(Algorithm::Bucket, rate.parse().unwrap(), burst).unwrap())
}

fn asked(key: u128, spec: &Arc<Spec>, cost: u64) -> Asked<'_> {
    Asked {
        key,
        tag: tag(),
        spec,
        cost,
        standing: Standing::Enforced,
    }
}

/// A key that looks like a hash.
fn key(n: u64) -> u128 {
    let half = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31) ^ n;
    let high = half(half(n + 1));
    u128::from(high) << 64 | u128::from(half(high ^ n))
}

fn one(table: &LimitTable, key: u128, spec: &Arc<Spec>, cost: u64, now: Tick) -> Said {
    table.take(&[asked(key, spec, cost)], now).said[0]
}

fn passes(said: Said) -> bool {
    matches!(said, Said::Passes { .. })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn it_decides_as_a_map_of_states_would((specs, steps) in story(0), shards in 1u32..9) {
        compare(&mut table(1_000, shards), 0, specs, &steps);
    }

    #[test]
    fn what_it_forgets_because_it_is_full_changes_nothing(
        calls in prop::collection::vec((0u64..40, 1u64..4, 0u64..700_000), 1..300),
    ) {
        // One table hears of many keys and sweeps; the other has one key in each of many tables.
        let limit = spec("10/s", Some(5));
        let (swept, mut alone) = (table(1_000, 1), Vec::new());
        alone.resize_with(40, || table(1, 1));
        let mut now = START;
        for (n, cost, us) in calls {
            now = now.plus(us);
            let said = one(&swept, key(n), &limit, cost, now);
            prop_assert_eq!(said, one(&alone[n as usize], key(n), &limit, cost, now));
            if us % 16 == 0 {
                swept.collect(now);
            }
        }
        swept.collect(now.plus(SECOND));
        prop_assert_eq!(swept.stats().keys, 0);
        prop_assert_eq!(swept.stats().forgotten, 0);
    }

    #[test]
    fn keys_beyond_the_cap_push_out_those_that_are_nearly_full(
        seed in any::<u32>(),
    ) {
        // What an attacker has who sprays keys: much used of none of them.
        let limit = spec("10/min", None);
        let table = table(64, 1);
        let victim = key(u64::from(seed) << 20);
        prop_assert!(passes(one(&table, victim, &limit, 10, START)));
        for n in 1..2_000 {
            one(&table, key((u64::from(seed) << 20) + n), &limit, 1, START);
        }

        prop_assert!(!passes(one(&table, victim, &limit, 1, START)));
        prop_assert_eq!(table.stats().keys, 64);
        prop_assert_eq!(table.stats().forgotten, 2_000 - 64);
        prop_assert_eq!(table.stats().forgotten_in_debt, 0);
    }
}

#[test]
fn a_key_in_debt_is_forgotten_only_among_such_and_is_counted() {
    let limit = spec("10/min", None);
    let table = table(4, 1);
    let owe = |n| {
        table.settle(
            &[Settled {
                key: key(n),
                tag: tag(),
                spec: &limit,
                at: START,
                taken: 0,
                used: 15,
            }],
            START,
        );
    };
    (0..3).for_each(owe);
    one(&table, key(3), &limit, 1, START);

    owe(4);
    assert_eq!(table.stats().forgotten, 1);
    assert_eq!(table.stats().forgotten_in_debt, 0);

    owe(5);
    assert_eq!(table.stats().forgotten, 1);
    assert_eq!(table.stats().forgotten_in_debt, 1);
    assert_eq!(table.stats().keys, 4);
}

#[test]
fn many_at_once_spend_from_all_limits_or_from_none() {
    let limits: Vec<_> = (0..17)
        .map(|n| spec(&format!("{}/h", 500 + 40 * (n % 5)), None))
        .collect();
    let table = table(1_000, 8);
    let passed = AtomicU64::new(0);

    thread::scope(|scope| {
        for worker in 0..16 {
            let (limits, table, passed) = (&limits, &table, &passed);
            scope.spawn(move || {
                for n in 0..100 {
                    // Everybody names the limits in another order.
                    let mut asked: Vec<_> = (0..17)
                        .map(|n| asked(key(n as u64), &limits[n], 1))
                        .collect();
                    asked.rotate_left((worker + n) % 17);
                    let answer = table.take(&asked, START);
                    passed.fetch_add(u64::from(answer.passes()), Ordering::Relaxed);
                }
            });
        }
    });

    assert_eq!(passed.into_inner(), 500);
    for (n, limit) in (0..).zip(&limits) {
        let left = limit.most() - 500;
        assert!(passes(one(&table, key(n), limit, left, START)));
        let short = one(&table, key(n), limit, 1, START);
        assert!(matches!(
            short,
            Said::Short {
                short: Short::Wait { .. },
                remaining: 0
            }
        ));
    }
}

#[test]
fn a_table_that_has_become_quiet_gives_its_memory_back() {
    let limit = spec("10/s", None);
    let table = table(100_000, 1);
    for n in 0..50_000 {
        one(&table, key(n), &limit, 1, START);
    }
    let places = |table: &LimitTable| lock(&table.shards[0]).slots.places();
    assert!(places(&table) > 50_000);

    table.collect(START.plus(SECOND));

    assert_eq!(table.stats().keys, 0);
    assert_eq!(table.stats().collected, 50_000);
    assert!(places(&table) < 100, "{}", places(&table));
}

#[test]
fn states_that_need_more_room_than_a_slot_are_dropped_with_it() {
    let log = |tokens| {
        let rate = format!("{tokens}/s").parse().unwrap();
        Arc::new(Spec::new(Algorithm::Log, rate, None).unwrap())
    };
    let (log, other, bucket) = (log(10), log(20), spec("10/s", None));
    let table = table(1_000, 1);
    for n in 0..100 {
        one(&table, key(n), &log, 1, START);
    }
    for n in 0..50 {
        one(&table, key(n), &other, 1, START);
        one(&table, key(n), &bucket, 1, START);
    }
    table.forget(key(99));

    let shard = lock(&table.shards[0]);
    let kept = shard.others.states.iter().flatten().count();
    assert_eq!(kept, 49);
    assert_eq!(shard.others.free.len() + kept, shard.others.states.len());
}

#[test]
fn a_refusal_spends_nothing_and_leaves_no_trace() {
    let limits = [spec("2/min", None), spec("1/min", None)];
    let plan = LimitTablePlan::for_keys(1_000);
    let table = LimitTable::counting(plan, &limits);
    let both = [asked(key(0), &limits[0], 1), asked(key(1), &limits[1], 1)];
    assert!(table.take(&both[1..], START).passes());

    let answer = table.take(&both, START);

    assert_eq!(answer.binding, Some(1));
    assert!(matches!(answer.said[1], Said::Short { remaining: 0, .. }));
    assert_eq!((table.counts(0).kept, table.counts(1).kept), (0, 1));
    assert!((0..2).all(|_| table.take(&both[..1], START).passes()));
}

#[test]
fn keys_are_counted_for_each_limit_and_those_that_say_most_stay() {
    let limits = [spec("5/day", None), spec("5/day", None)];
    let plan = LimitTablePlan {
        keys_max: 1_024,
        shards: 8,
    };
    let table = LimitTable::counting(plan, &limits);
    // Ten that are out of tokens, ...
    for n in 0..10 {
        assert!(passes(one(&table, key(n), &limits[0], 5, START)));
    }

    // ... and many more that have hardly begun.
    for n in 10..20_000 {
        assert!(passes(one(&table, key(n), &limits[1], 1, START)));
    }

    assert!(table.stats().keys <= 1_024);
    let counts = (table.counts(0), table.counts(1));
    assert_eq!((counts.0.kept, counts.0.forgotten), (10, 0));
    assert_eq!(counts.1.kept + counts.1.forgotten, 19_990);
    assert!((0..10).all(|n| !passes(one(&table, key(n), &limits[0], 1, START))));
}

#[test]
fn counts_follow_keys_that_are_given_back_forgotten_changed_and_full_again() {
    let limits = [spec("10/s", None), spec("20/s", None)];
    let table = LimitTable::counting(LimitTablePlan::for_keys(1_000), &limits);
    let kept = || (table.counts(0).kept, table.counts(1).kept);
    for n in 0..4 {
        one(&table, key(n), &limits[0], 2, START);
    }
    assert_eq!(kept(), (4, 0));

    one(&table, key(0), &limits[1], 2, START);
    assert_eq!(kept(), (3, 1));
    table.forget(key(1));
    assert_eq!(kept(), (2, 1));
    let settled = Settled {
        key: key(2),
        tag: tag(),
        spec: &limits[0],
        at: START,
        taken: 2,
        used: 0,
    };
    table.settle(&[settled], START);
    assert_eq!(kept(), (1, 1));

    table.sweep(1_000, START.plus(SECOND));

    assert_eq!(kept(), (0, 0));
    assert_eq!(table.counts(0).forgotten, 0);
}

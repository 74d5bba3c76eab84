//! What nodes say to a store that share limits without asking for each request, however its servers are arranged. What the
//! scripts answer in each case is held to the core beside them; here is that the answers come from where the keys are.

use std::time::Duration;

use tidegate_core::rate::BucketSpec;
use tidegate_core::rate::share::Life;
use tidegate_core::rate::share::aggregate::{Report, Told};
use tidegate_core::rate::share::following::{Epoch, Following};
use tidegate_core::rate::share::lease::{Ask, Grant, LeasePlan};
use tidegate_core::session::SlotTag;
use tidegate_store::limits::{Leased, RedisLimits, Reported};

use crate::backend::CALL;

/// Keys of so many parts of a Cluster.
const KEYS: u128 = 24;

pub(crate) async fn all(on: &RedisLimits) {
    leases_of_keys_in_all_places_are_given_out_of_one_bucket_each(on).await;
    an_ask_under_the_same_number_gets_what_it_got(on).await;
    what_is_forgotten_is_full_and_takes_nothing_back(on).await;
    reports_of_keys_in_all_places_count_once(on).await;
    who_divides_is_told_of_all_others_and_of_one_secret(on).await;
}

/// 100 tokens a day: nothing comes back while a rule is at work.
fn hundred() -> BucketSpec {
    BucketSpec::new(100, 86_400_000_000, 100).unwrap()
}

fn plan() -> LeasePlan {
    // Longer than a rule takes on a loaded machine.
    LeasePlan {
        ttl_us: 60_000_000,
        ..LeasePlan::usual(100)
    }
}

fn tag(key: u128) -> SlotTag {
    SlotTag::from_bits(key as u32 * 40_009)
}

fn ask(life: u64, seq: u64, wanted: u64, returned: u64) -> Ask {
    Ask {
        life: Life(life),
        seq,
        wanted,
        least: wanted.min(1),
        returned,
    }
}

async fn lease(on: &RedisLimits, keys: &[u128], ask: Ask) -> Vec<Option<Grant>> {
    let (spec, plan) = (hundred(), plan());
    let asks = keys.iter().map(|&key| Leased {
        key,
        tag: tag(key),
        spec: &spec,
        plan: &plan,
        ask,
    });
    let asks: Vec<_> = asks.collect();
    let granted = on.lease(&asks, CALL).await;
    granted.into_iter().map(Result::unwrap).collect()
}

fn tokens(grants: &[Option<Grant>]) -> Vec<u64> {
    grants.iter().map(|it| it.unwrap().tokens).collect()
}

async fn leases_of_keys_in_all_places_are_given_out_of_one_bucket_each(on: &RedisLimits) {
    let keys: Vec<u128> = (1_000..1_000 + KEYS).collect();

    let first = lease(on, &keys, ask(1, 1, 40, 0)).await;
    let second = lease(on, &keys, ask(2, 1, 40, 0)).await;

    assert_eq!(tokens(&first), vec![40; keys.len()]);
    // Half of what is left, so that nobody sits on the last ones.
    assert_eq!(tokens(&second), vec![30; keys.len()]);
    // What goes back is there for others.
    let back = lease(on, &keys, ask(1, 2, 0, 40)).await;
    assert_eq!(tokens(&back), vec![0; keys.len()]);
    let third = lease(on, &keys, ask(3, 1, 35, 0)).await;
    assert_eq!(tokens(&third), vec![35; keys.len()]);
}

async fn an_ask_under_the_same_number_gets_what_it_got(on: &RedisLimits) {
    let keys: Vec<u128> = (2_000..2_000 + KEYS).collect();
    let first = lease(on, &keys, ask(1, 1, 10, 0)).await;

    let again = lease(on, &keys, ask(1, 1, 10, 0)).await;

    assert_eq!(again, first);
    let next = lease(on, &keys, ask(1, 2, 90, 0)).await;
    assert_eq!(tokens(&next), vec![45; keys.len()]);
    // One that was overtaken gets nothing.
    assert_eq!(
        lease(on, &keys, ask(1, 1, 10, 0)).await,
        vec![None; keys.len()]
    );
}

async fn what_is_forgotten_is_full_and_takes_nothing_back(on: &RedisLimits) {
    let keys: Vec<u128> = (3_000..3_000 + KEYS).collect();
    lease(on, &keys, ask(1, 1, 50, 0)).await;

    for &key in &keys {
        on.forget(tag(key), key, CALL).await.unwrap();
    }

    let other = lease(on, &keys, ask(2, 1, 50, 0)).await;
    assert_eq!(tokens(&other), vec![50; keys.len()]);
    // The tokens that the first one has ahead are of a bucket that is no more.
    lease(on, &keys, ask(1, 2, 0, 50)).await;
    let third = lease(on, &keys, ask(3, 1, 100, 0)).await;
    assert_eq!(tokens(&third), vec![25; keys.len()]);
}

async fn report(on: &RedisLimits, keys: &[u128], report: Report) -> Vec<Told> {
    let spec = hundred();
    let reports = keys.iter().map(|&key| Reported {
        key,
        tag: tag(key),
        spec: &spec,
        kept_us: 60_000_000,
        report,
    });
    let reports: Vec<_> = reports.collect();
    let told = on.report(&reports, CALL).await;
    told.into_iter().map(Result::unwrap).collect()
}

async fn reports_of_keys_in_all_places_count_once(on: &RedisLimits) {
    let keys: Vec<u128> = (4_000..4_000 + KEYS).collect();
    let spent = |life, seq, spent, returned| Report {
        life: Life(life),
        seq,
        spent,
        returned,
    };
    // A little flows back meanwhile: less than a token in 14 minutes.
    let left = |told: Vec<Told>| -> Vec<i64> {
        let token = hundred().credits_per_token() as i64;
        told.iter().map(|it| it.credits.div_euclid(token)).collect()
    };

    assert_eq!(
        left(report(on, &keys, spent(1, 1, 60, 0)).await),
        vec![40; keys.len()]
    );
    assert_eq!(
        left(report(on, &keys, spent(1, 1, 60, 0)).await),
        vec![40; keys.len()]
    );
    // What two have spent without knowing of each other is owed, and paid back with what comes back.
    assert_eq!(
        left(report(on, &keys, spent(2, 1, 70, 0)).await),
        vec![-30; keys.len()]
    );
    assert_eq!(
        left(report(on, &keys, spent(2, 2, 0, 50)).await),
        vec![20; keys.len()]
    );
    assert_eq!(
        left(report(on, &keys, spent(2, 1, 70, 0)).await),
        vec![20; keys.len()]
    );
}

async fn who_divides_is_told_of_all_others_and_of_one_secret(on: &RedisLimits) {
    let lease = Duration::from_secs(60);
    let lives = [11, 12, 13].map(Life);
    let mut secrets = Vec::new();
    for (life, own) in lives.into_iter().zip([[1; 16], [2; 16], [3; 16]]) {
        let said = on.divide(life, Epoch(0), lease, own, CALL).await.unwrap();
        secrets.push(said.secret);
    }
    assert_eq!(
        secrets[1..],
        [secrets[0]; 2],
        "the first one's counts for all"
    );

    let said = on
        .divide(lives[0], Epoch(0), lease, [9; 16], CALL)
        .await
        .unwrap();

    let mut members: Vec<Life> = said.membership.members.iter().map(|it| it.life).collect();
    members.sort();
    assert_eq!(members, lives);
    let mut following = Following::new(lives[0], lease.as_micros() as u64);
    let now = tidegate_core::rate::Tick(1);
    following.take(now, now, &said.membership).unwrap();
    assert_eq!(following.follows(), said.membership.epoch);
    for life in lives {
        on.divide_no_more(life, secrets[0], CALL).await.unwrap();
    }
    let last = on
        .divide(Life(14), Epoch(0), lease, [9; 16], CALL)
        .await
        .unwrap();
    assert_eq!(last.membership.members.len(), 1);
    assert_eq!(last.secret, secrets[0]);
    on.divide_no_more(Life(14), secrets[0], CALL).await.unwrap();
}

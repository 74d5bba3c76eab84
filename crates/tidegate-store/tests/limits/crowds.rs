//! Many requests at a time: 17 limits each, 16 requests under way.

use std::cell::Cell;

use futures_util::future::join_all;
use tidegate_core::session::SlotTag;

use crate::backend::Backend;
use crate::rules::{Limit, asked, left};

const LIMITS: u64 = 17;
const AT_A_TIME: usize = 16;
/// Tries of each; more together than the narrowest limit has.
const TRIES: usize = 50;
const NARROWEST: u64 = 400;

pub(crate) async fn all(on: &Backend) {
    limits_of_one_tag_pass_exactly_what_the_narrowest_has(on).await;
    limits_of_many_tags_never_pass_more_and_lose_nothing(on).await;
}

async fn limits_of_one_tag_pass_exactly_what_the_narrowest_has(on: &Backend) {
    let mut limits = limits();
    for limit in &mut limits {
        limit.tag = SlotTag::from_bits(7);
    }

    assert_eq!(passed(on, &limits).await, NARROWEST);
    assert_eq!(left(on, &limits).await, less(NARROWEST));
}

async fn limits_of_many_tags_never_pass_more_and_lose_nothing(on: &Backend) {
    let limits = limits();

    let passed = passed(on, &limits).await;

    // Where they are decided apart, one may be short for a moment of what another gives back.
    assert!(
        passed == NARROWEST || (on.is_cluster && passed < NARROWEST),
        "{passed}"
    );
    assert_eq!(left(on, &limits).await, less(passed));
}

fn limits() -> Vec<Limit> {
    (0..LIMITS)
        .map(|n| Limit::of(NARROWEST + 100 * (n % 5)))
        .collect()
}

fn less(passed: u64) -> Vec<u64> {
    let limits = limits();
    limits
        .iter()
        .map(|limit| limit.spec.most() - passed)
        .collect()
}

/// How many requests passed.
async fn passed(on: &Backend, limits: &[Limit]) -> u64 {
    let passed = Cell::new(0);
    let one = async |number: usize| {
        for n in 0..TRIES {
            // Everybody names them in another order.
            let mut asked = asked(limits, 1);
            asked.rotate_left((number + n) % limits.len());
            if on.take(&asked).await.passes() {
                passed.set(passed.get() + 1);
            }
        }
    };
    join_all((0..AT_A_TIME).map(one)).await;
    passed.get()
}

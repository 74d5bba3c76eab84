//! One request at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::rate::set::Standing::{self, Enforced, Shadow};
use tidegate_core::rate::{Algorithm, Short, Spec};
use tidegate_core::session::SlotTag;
use tidegate_store::limits::{Answer, Asked, Said, Settled};

use crate::backend::Backend;

/// A limit, as a configuration has it, for one key.
#[derive(Clone)]
pub(crate) struct Limit {
    pub(crate) key: u128,
    pub(crate) tag: SlotTag,
    pub(crate) spec: Arc<Spec>,
    pub(crate) standing: Standing,
}

pub(crate) async fn all(backend: &Backend) {
    a_request_that_one_refuses_costs_the_others_nothing(backend).await;
    every_algorithm_counts_and_says_when(backend).await;
    a_shadow_never_refuses(backend).await;
    all_that_refuse_are_told_and_the_longest_wait_binds(backend).await;
    what_was_refused_later_comes_back(backend).await;
    what_several_requests_took_of_one_key_comes_back_at_once(backend).await;
    what_it_really_cost_is_settled(backend).await;
    a_changed_limit_keeps_the_tokens_used(backend).await;
    a_question_spends_nothing(backend).await;
    what_is_forgotten_is_full(backend).await;
    no_limits_let_everything_pass(backend).await;
}

async fn a_request_that_one_refuses_costs_the_others_nothing(on: &Backend) {
    let limits = [Limit::of(10), Limit::of(3)];

    let mut passed = 0;
    for _ in 0..5 {
        passed += u32::from(on.take(&asked(&limits, 1)).await.passes());
    }

    assert_eq!(passed, 3);
    assert_eq!(left(on, &limits).await, [7, 0]);
}

async fn every_algorithm_counts_and_says_when(on: &Backend) {
    for algorithm in Algorithm::ALL {
        let limit = Limit::new(algorithm, 10);
        for expected in [7, 4, 1] {
            let answer = on.take(&[limit.asked(3)]).await;
            assert_eq!(remaining(&answer), [expected], "{algorithm:?}");
        }

        let refused = on.take(&[limit.asked(3)]).await;

        let [
            Said::Short {
                short: Short::Wait { wait_us },
                remaining: 1,
            },
        ] = refused.said[..]
        else {
            panic!("{algorithm:?}: {refused:?}");
        };
        let day_us = 86_400_000_000;
        assert!(
            (1..=2 * day_us).contains(&wait_us),
            "{algorithm:?}: {wait_us}"
        );
    }
}

async fn a_shadow_never_refuses(on: &Backend) {
    let limits = [
        Limit::of(4),
        Limit {
            standing: Shadow,
            ..Limit::of(2)
        },
    ];

    let mut said = Vec::new();
    for _ in 0..5 {
        let answer = on.take(&asked(&limits, 1)).await;
        said.push((
            answer.passes(),
            matches!(answer.said[1], Said::Passes { .. }),
        ));
    }

    let (live, both) = ((true, false), (true, true));
    assert_eq!(said[..4], [both, both, live, live]);
    assert!(!said[4].0);
    assert_eq!(left(on, &limits).await, [0, 0]);
}

async fn all_that_refuse_are_told_and_the_longest_wait_binds(on: &Backend) {
    let limits = [Limit::of(2), Limit::of(5), Limit::of(1), Limit::of(3)];
    on.take(&asked(&limits, 1)).await;

    let refused = on.take(&asked(&limits, 2)).await;

    // The third never has two.
    let short = |said: &Said| match said {
        Said::Short { short, .. } => Some(*short),
        _ => None,
    };
    assert_eq!(refused.binding, Some(2));
    assert_eq!(short(&refused.said[2]), Some(Short::Never));
    let refused = on.ask(&asked(&limits, 2)).await;
    let wait = |place: usize| short(&refused.said[place]);
    assert!(matches!(wait(0), Some(Short::Wait { .. })), "{refused:?}");
    assert_eq!(
        [wait(1), wait(2), wait(3)],
        [None, Some(Short::Never), None]
    );
    assert_eq!(left(on, &limits).await, [1, 4, 0, 2]);
}

async fn what_was_refused_later_comes_back(on: &Backend) {
    for algorithm in Algorithm::ALL {
        let limits = [Limit::new(algorithm, 10), Limit::new(algorithm, 4)];
        on.take(&asked(&limits, 1)).await;
        let passed = on.take(&asked(&limits, 3)).await;
        assert!(!on.take(&asked(&limits, 1)).await.passes());

        on.settle(&settled(&limits, &passed, 3, 0)).await;

        // Also though it was refused a moment ago.
        let passed = on.take(&asked(&limits, 1)).await;
        assert_eq!(remaining(&passed), [8, 2], "{algorithm:?}");
    }
}

async fn what_several_requests_took_of_one_key_comes_back_at_once(on: &Backend) {
    for algorithm in Algorithm::ALL {
        let limits = [Limit::new(algorithm, 10)];
        let mut back = Vec::new();
        for _ in 0..5 {
            let passed = on.take(&asked(&limits, 2)).await;
            back.extend(settled(&limits, &passed, 2, 0));
        }

        on.settle(&back).await;

        assert_eq!(left(on, &limits).await, [10], "{algorithm:?}");
    }
}

async fn what_it_really_cost_is_settled(on: &Backend) {
    for algorithm in Algorithm::ALL {
        let limits = [Limit::new(algorithm, 10)];
        let passed = on.take(&asked(&limits, 6)).await;
        on.settle(&settled(&limits, &passed, 6, 2)).await;
        assert_eq!(left(on, &limits).await, [8], "{algorithm:?}");

        let passed = on.take(&asked(&limits, 1)).await;
        on.settle(&settled(&limits, &passed, 1, u64::MAX)).await;

        // The debt is as much as there is at most, and a question is refused while there is any.
        let refused = on.ask(&asked(&limits, 0)).await;
        assert!(!refused.passes(), "{algorithm:?}");
        let passed = Answer {
            said: vec![Said::Passes {
                at: at(&passed),
                remaining: 0,
            }]
            .into(),
            binding: None,
        };
        on.settle(&settled(&limits, &passed, 11, 0)).await;
        if algorithm == Algorithm::Bucket {
            assert_eq!(left(on, &limits).await, [1], "{algorithm:?}");
        }
    }
}

async fn a_changed_limit_keeps_the_tokens_used(on: &Backend) {
    for from in Algorithm::ALL {
        for to in Algorithm::ALL {
            let small = Limit::new(from, 10);
            on.take(&[small.asked(8)]).await;

            let large = Limit {
                spec: Limit::new(to, 20).spec,
                ..small.clone()
            };
            let passed = on.take(&[large.asked(1)]).await;
            assert_eq!(remaining(&passed), [11], "{from:?} to {to:?}");

            let back = on.ask(&[small.asked(0)]).await;
            assert_eq!(remaining(&back), [1], "{from:?} to {to:?} and back");
        }
    }
    let closed = Limit::of(10);
    on.take(&[closed.asked(1)]).await;
    let closed = Limit {
        spec: Limit::of(0).spec,
        ..closed
    };
    let refused = on.take(&[closed.asked(0)]).await;
    assert!(matches!(
        refused.said[..],
        [Said::Short {
            short: Short::Never,
            ..
        }]
    ));
}

async fn a_question_spends_nothing(on: &Backend) {
    let limits = [Limit::of(3), Limit::new(Algorithm::Log, 3)];

    for _ in 0..5 {
        assert!(on.ask(&asked(&limits, 1)).await.passes());
    }

    assert_eq!(remaining(&on.take(&asked(&limits, 1)).await), [2, 2]);
}

async fn what_is_forgotten_is_full(on: &Backend) {
    let limit = Limit::of(1);
    on.take(&[limit.asked(1)]).await;
    assert!(!on.take(&[limit.asked(1)]).await.passes());

    on.store
        .forget(limit.tag, limit.key, crate::backend::CALL)
        .await
        .unwrap();

    assert!(on.take(&[limit.asked(1)]).await.passes());
}

async fn no_limits_let_everything_pass(on: &Backend) {
    assert!(on.take(&[]).await.passes());
    on.settle(&[]).await;
}

impl Limit {
    /// So many a day, in a bucket.
    pub(crate) fn of(tokens: u64) -> Self {
        Self::new(Algorithm::Bucket, tokens)
    }

    /// So many a day.
    pub(crate) fn new(algorithm: Algorithm, tokens: u64) -> Self {
        static KEYS: AtomicU64 = AtomicU64::new(1);
        let key = KEYS.fetch_add(1, Ordering::Relaxed);
        let bits = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let rate = format!("{tokens}/day").parse().unwrap();
        Self {
            key: u128::from(bits) << 64 | u128::from(key),
            tag: SlotTag::from_bits((bits >> 40) as u32),
            spec: Arc::new(Spec::new(algorithm, rate, None).unwrap()),
            standing: Enforced,
        }
    }

    pub(crate) fn asked(&self, cost: u64) -> Asked<'_> {
        Asked {
            key: self.key,
            tag: self.tag,
            spec: &self.spec,
            cost,
            standing: self.standing,
        }
    }
}

pub(crate) fn asked(limits: &[Limit], cost: u64) -> Vec<Asked<'_>> {
    limits.iter().map(|limit| limit.asked(cost)).collect()
}

fn settled<'a>(limits: &'a [Limit], passed: &Answer, taken: u64, used: u64) -> Vec<Settled<'a>> {
    let limits = limits.iter().zip(&passed.said);
    let settled = limits.map(|(limit, said)| {
        let Said::Passes { at, .. } = *said else {
            panic!("{said:?}");
        };
        Settled {
            key: limit.key,
            tag: limit.tag,
            spec: &limit.spec,
            at,
            taken,
            used,
        }
    });
    settled.collect()
}

/// What is left of each.
pub(crate) async fn left(on: &Backend, limits: &[Limit]) -> Vec<u64> {
    remaining(&on.ask(&asked(limits, 0)).await)
}

fn remaining(answer: &Answer) -> Vec<u64> {
    let remaining = answer.said.iter().map(|said| match *said {
        Said::Passes { remaining, .. } | Said::Short { remaining, .. } => remaining,
        Said::Unasked => panic!("{answer:?}"),
    });
    remaining.collect()
}

fn at(passed: &Answer) -> tidegate_core::rate::Tick {
    match passed.said[0] {
        Said::Passes { at, .. } => at,
        _ => panic!("{passed:?}"),
    }
}

//! Ten nodes and one limit: what passes in each way, and what the store has to do for it.

use tidegate_core::rate::BucketSpec;
use tidegate_core::rate::share::aggregate::{self, AggregatePlan};
use tidegate_core::rate::share::divided;
use tidegate_core::rate::share::lease::{self, LeasePlan};

use crate::world::{Plan, SECOND, Way};

const DAY: u64 = 24 * 3_600 * SECOND;
const TEN_SECONDS: u64 = 10 * SECOND;
const DELAY: u64 = 500;

fn hundred() -> BucketSpec {
    BucketSpec::new(100, SECOND, 100).expect("coarse enough")
}

/// So many tokens, and for the length of a test no more.
fn fixed(tokens: u64) -> BucketSpec {
    BucketSpec::new(1, DAY, tokens).expect("coarse enough")
}

/// A thousand a second come to ten nodes for ten seconds, of which the limit is a hundred.
fn ten(way: Way) -> Plan {
    Plan {
        delay_us: DELAY,
        ..Plan::even(way, hundred(), 10, 1_000, TEN_SECONDS)
    }
}

/// `share` of ten thousand come to the first of ten nodes.
fn skewed(way: Way, share: u64, offered_per_s: u64) -> Plan {
    let mut weights = vec![(10_000 - share) / 9; 10];
    weights[0] = share;
    Plan {
        weights,
        offered_per_s,
        ..ten(way)
    }
}

/// Reports by the clock alone, and no bound on what is unreported.
fn plain(every_us: u64) -> AggregatePlan {
    AggregatePlan {
        every_us,
        jitter_milli: 0,
        unreported_max: 1 << 40,
        early: false,
        ..AggregatePlan::usual(1)
    }
}

/// Chunks of one size.
fn chunks(tokens: u64) -> LeasePlan {
    LeasePlan {
        chunk_min: tokens,
        chunk_max: tokens,
        ahead_us: 0,
        ..LeasePlan::usual(1)
    }
}

#[test]
fn without_coordination_ten_nodes_let_ten_times_the_limit_pass() {
    assert_eq!(ten(Way::Alone).run().total(), 10_000);
}

#[test]
fn a_store_that_is_asked_for_each_request_is_exact_and_busy() {
    let outcome = ten(Way::Shared).run();

    assert!(
        (1_099..=1_100).contains(&outcome.total()),
        "{}",
        outcome.total()
    );
    assert!(outcome.operations >= 9_999);
}

#[test]
fn leases_never_pass_the_limit_and_use_it_up() {
    let plan = LeasePlan::usual(100);
    let outcome = ten(Way::Lease(plan)).run();

    println!(
        "lease: {} with {} operations",
        outcome.total(),
        outcome.operations
    );
    let most = hundred().worst_in(TEN_SECONDS);
    assert!(
        (1_050..=most).contains(&outcome.total()),
        "{}",
        outcome.total()
    );
    for window in [1_000, 100_000, SECOND] {
        assert!(outcome.most_in(window) <= lease::worst_in(&hundred(), &plan, 10, window));
    }
    // Each node asks once in 200 ms, and a little more at the beginning.
    assert!(outcome.operations <= 600, "{}", outcome.operations);
}

#[test]
fn leases_follow_the_traffic() {
    for share in [9_000, 10_000] {
        let outcome = skewed(Way::Lease(LeasePlan::usual(100)), share, 1_000).run();

        println!(
            "lease, {share}: {} with {}",
            outcome.total(),
            outcome.operations
        );
        let most = hundred().worst_in(TEN_SECONDS);
        assert!(
            (1_050..=most).contains(&outcome.total()),
            "{}",
            outcome.total()
        );
    }
}

#[test]
fn a_divided_limit_is_never_passed_and_used_up_when_the_traffic_is_even() {
    let outcome = ten(Way::Divided).run();

    println!("divided: {}", outcome.total());
    let most = divided::worst_in(&hundred(), 10, TEN_SECONDS);
    assert!(
        (1_080..=most).contains(&outcome.total()),
        "{}",
        outcome.total()
    );
    for window in [1_000, 100_000, SECOND] {
        assert!(outcome.most_in(window) <= divided::worst_in(&hundred(), 10, window));
    }
    assert_eq!(outcome.operations, 0);
}

#[test]
fn of_a_divided_limit_a_node_uses_its_part_only() {
    let totals = [10_000, 9_000, 5_000].map(|share| skewed(Way::Divided, share, 100).run().total());

    println!("divided, all, nine tenths and half at one node: {totals:?}");
    for (total, expected) in totals.into_iter().zip([109, 209, 609]) {
        assert!(total.abs_diff(expected) <= 1, "{total} for {expected}");
    }
    assert_eq!(divided::one_node(&hundred(), 10, TEN_SECONDS), Ok(109));
}

#[test]
fn reports_pass_the_limit_by_what_is_not_known_yet() {
    let cases = [
        (10, 2_000, 1_000, 100_000, 1_180),
        (10, 10_000, 1_000, 100_000, 1_900),
        (10, 10_000, 1_000, 10_000, 1_090),
        (2, 2_000, 1_000, 100_000, 1_100),
        (20, 20_000, 10_000, 100_000, 11_900),
    ];
    for (nodes, offered, limit, every_us, expected) in cases {
        let plan = plain(every_us);
        let outcome = Plan::even(Way::Aggregate(plan), fixed(limit), nodes, offered, SECOND).run();

        let over = plan.overshoot(nodes as u32, offered, 0);
        println!(
            "{nodes} nodes, {offered}/s, {limit}, every {every_us}: {} (expected {expected}, at most {})",
            outcome.total(),
            limit + over
        );
        assert!((limit..=limit + over).contains(&outcome.total()));
        assert!(outcome.total().abs_diff(expected) <= expected / 50);
    }
}

#[test]
fn reports_stay_within_the_printed_bound_at_each_interval_and_with_any_delay() {
    for every_us in [20_000, 100_000, 500_000] {
        for (delay_us, seed) in [(0, 1), (500, 2), (3_000, 3)] {
            let plan = AggregatePlan {
                every_us,
                ..AggregatePlan::usual(100)
            };
            let outcome = Plan {
                delay_us,
                seed,
                ..ten(Way::Aggregate(plan))
            }
            .run();

            let over = plan.overshoot(10, 1_000, 2 * delay_us);
            let most = aggregate::worst_in(&hundred(), over, TEN_SECONDS);
            println!(
                "every {every_us}: {} of {most}, {} reports",
                outcome.total(),
                outcome.operations
            );
            assert!(
                (1_050..=most).contains(&outcome.total()),
                "{}",
                outcome.total()
            );
            for window in [1_000, 100_000, SECOND] {
                let most = aggregate::worst_in(&hundred(), over, window);
                assert!(outcome.most_in(window) <= most, "{window}");
            }
        }
    }
}

#[test]
fn over_a_long_time_reports_hold_the_limit() {
    let plan = AggregatePlan::usual(100);
    let outcome = Plan {
        span_us: 100 * SECOND,
        ..ten(Way::Aggregate(plan))
    }
    .run();

    let over = plan.overshoot(10, 1_000, 2 * DELAY);
    assert!(outcome.total() <= aggregate::worst_in(&hundred(), over, 100 * SECOND));
    assert!(outcome.total() >= 9_900, "{}", outcome.total());
}

#[test]
fn twenty_nodes_that_report_ten_times_a_second_are_two_hundred_operations_a_second() {
    let whole = BucketSpec::new(10_000, SECOND, 10_000).unwrap();
    let plan = AggregatePlan::usual(10_000);
    let outcome = Plan {
        delay_us: DELAY,
        ..Plan::even(Way::Aggregate(plan), whole, 20, 20_000, TEN_SECONDS)
    }
    .run();

    println!("{} operations in 10 s", outcome.operations);
    assert_eq!(plan.reports_per_s(20), 200);
    // The jitter, and one early report for each node.
    assert!(
        outcome.operations.abs_diff(2_000) <= 100,
        "{}",
        outcome.operations
    );
}

#[test]
fn chunks_of_one_size_give_exactly_the_limit_for_one_operation_each() {
    let cases = [
        (10, 1_000, 2_000, 10),
        (10, 1_000, 10_000, 10),
        (20, 10_000, 20_000, 100),
        (10, 100, 2_000, 10),
    ];
    for (nodes, limit, offered, chunk) in cases {
        for hot in [false, true] {
            let mut plan = Plan::even(
                Way::Lease(chunks(chunk)),
                fixed(limit),
                nodes,
                offered,
                SECOND,
            );
            if hot {
                // Nine tenths come to one node.
                plan.weights[0] = 9 * (nodes as u64 - 1);
            }

            let outcome = plan.run();

            println!(
                "{limit} in {chunk}: {} with {} grants, {} operations",
                outcome.total(),
                outcome.grants,
                outcome.operations
            );
            assert_eq!(outcome.total(), limit);
            assert_eq!(outcome.grants, limit / chunk);
            // Each node hears once that there is nothing more.
            assert!(outcome.operations <= outcome.grants + nodes as u64);
        }
    }
}

#[test]
fn messages_that_get_lost_give_nobody_more() {
    let lease_plan = LeasePlan::usual(100);
    let report_plan = AggregatePlan::usual(100);
    for seed in 1..=10 {
        let lossy = |way| {
            Plan {
                lost_milli: 200,
                seed,
                ..ten(way)
            }
            .run()
        };

        let leased = lossy(Way::Lease(lease_plan));
        assert!(
            leased.total() <= hundred().worst_in(TEN_SECONDS),
            "{}",
            leased.total()
        );
        assert!(leased.total() >= 900, "{}", leased.total());

        // Each loss is a delay of 8 ms until it is noticed, and up to that until the next request.
        let reported = lossy(Way::Aggregate(report_plan));
        let over = report_plan.overshoot(10, 1_000, 10 * 20_000);
        let most = aggregate::worst_in(&hundred(), over, TEN_SECONDS);
        assert!(
            (900..=most).contains(&reported.total()),
            "{}",
            reported.total()
        );
    }
}

//! A fleet of ten becomes one of twelve and then one of six while requests come in.

use tidegate_core::rate::BucketSpec;
use tidegate_core::rate::share::aggregate::{self, AggregatePlan};
use tidegate_core::rate::share::divided;
use tidegate_core::rate::share::lease::{self, LeasePlan};

use crate::world::{Change, Outcome, Plan, SECOND, Way};

const SPAN: u64 = 30 * SECOND;
const DELAY: u64 = 500;

fn hundred() -> BucketSpec {
    BucketSpec::new(100, SECOND, 100).expect("coarse enough")
}

/// Two more after eight seconds, and after sixteen three leave and three are killed.
fn changing(way: Way, seed: u64) -> Outcome {
    let two = [(8 * SECOND, Change::Start); 2];
    let three = [(16 * SECOND, Change::Leave); 3];
    let dead = [(16 * SECOND + 1, Change::Kill); 3];
    Plan {
        delay_us: DELAY,
        changes: two.into_iter().chain(three).chain(dead).collect(),
        seed,
        ..Plan::even(way, hundred(), 10, 1_000, SPAN)
    }
    .run()
}

/// What passed from one second to another.
fn between(outcome: &Outcome, from: u64, to: u64) -> usize {
    let seconds = from * SECOND..to * SECOND;
    outcome
        .passed
        .iter()
        .filter(|at| seconds.contains(at))
        .count()
}

#[test]
fn a_divided_limit_is_not_passed_while_nodes_come_and_go() {
    for seed in 1..=20 {
        let outcome = changing(Way::Divided, seed);

        assert!(outcome.total() <= divided::worst_in(&hundred(), 12, SPAN));
        for window in [1_000, 10_000, 100_000, SECOND, 10 * SECOND] {
            let most = divided::worst_in(&hundred(), 12, window);
            assert!(outcome.most_in(window) <= most, "{window}");
        }
    }
}

#[test]
fn a_divided_limit_is_used_up_again_soon_after() {
    for seed in 1..=20 {
        let outcome = changing(Way::Divided, seed);

        let by_phase = [(2, 8), (8, 12), (12, 16), (16, 21), (21, 30)]
            .map(|(from, to)| between(&outcome, from, to) as u64 / (to - from));
        println!("a second before, growing, with twelve, shrinking, with six: {by_phase:?}");
        assert!(by_phase[0] >= 98 && by_phase[2] >= 98 && by_phase[4] >= 98);
        // Those that join wait for the others to follow, and what the dead had is lost for a lease.
        assert!(by_phase[1] >= 80 && by_phase[3] >= 50);
    }
}

#[test]
fn leases_and_reports_need_not_know_who_is_there() {
    let (leases, reports) = (LeasePlan::usual(100), AggregatePlan::usual(100));
    for seed in 1..=5 {
        let leased = changing(Way::Lease(leases), seed);
        assert!(leased.total() <= hundred().worst_in(SPAN));
        assert!(leased.total() >= 2_950, "{}", leased.total());
        for window in [1_000, 100_000, SECOND] {
            assert!(leased.most_in(window) <= lease::worst_in(&hundred(), &leases, 12, window));
        }

        let reported = changing(Way::Aggregate(reports), seed);
        let over = reports.overshoot(12, 1_000, 2 * DELAY);
        println!("leases {}, reports {}", leased.total(), reported.total());
        // What the killed had not reported is on top, and comes no more.
        let killed = 3 * reports.unreported_max;
        assert!(reported.total() <= aggregate::worst_in(&hundred(), over, SPAN) + killed);
        assert!(reported.total() >= 2_950, "{}", reported.total());
    }
}

//! Gateways that have one limit in common, and the control plane between them.

use std::time::Duration;

use super::{run_under, scenario};
use crate::sim::record::Record;

/// 20 workers that are asked for half as much again as they can do, through four gateways.
fn gateways(settings: &str) -> Record {
    let text = format!(
        r#"
        app = {{ kind = "slots", slots = 20, route = [{{ name = "page", service = {{ kind = "erlang", mean = "50ms", shape = 4 }} }}] }}
        gateways = {{ count = 4, {settings} }}
        [[traffic]]
        name = "people"
        rate = 600
        "#
    );
    run_under("tidegate", &scenario("40s", &text))
}

/// Good answers per second from `from` on.
fn goodput(record: &Record, from: u64) -> f64 {
    record
        .window(Duration::from_secs(from), Duration::MAX)
        .goodput(None)
}

fn limit_most(record: &Record, from: u64) -> f64 {
    let window = record.window(Duration::from_secs(from), Duration::MAX);
    window.limits().map_or(f64::INFINITY, |(_, most)| most)
}

#[test]
fn no_share_arrives_before_a_hub_has_listened_and_a_way_is_over() {
    let record = gateways(r#"arrangement = "pooled""#);

    // Two refreshes of listening and half of one on the way; until then each has its initial 20.
    assert_eq!(record.bins[1].limit, 80.0);
    assert!(record.bins[2].limit < 30.0, "{}", record.bins[2].limit);
}

#[test]
fn one_limit_in_common_holds_and_is_fair() {
    let record = gateways(r#"arrangement = "pooled""#);

    assert!(goodput(&record, 10) > 385.0, "{}", goodput(&record, 10));
    assert!(limit_most(&record, 10) < 40.0);
    let fairness = record
        .window(Duration::from_secs(10), Duration::MAX)
        .fairness();
    assert!(fairness > Some(0.93), "{fairness:?}");
}

#[test]
fn without_a_control_plane_no_gateway_gives_up_its_share_or_takes_more_than_twice_that() {
    let record = gateways(r#"arrangement = "pooled", lost_at = "15s""#);

    assert!(goodput(&record, 16) > 385.0, "{}", goodput(&record, 16));
    // Each share is rounded up to whole slots.
    let before = f64::from(record.bins[149].limit) + 4.0;
    assert!(limit_most(&record, 16) <= before * 2.0);
}

#[test]
fn a_restart_of_either_end_costs_less_than_a_second() {
    for what in ["restarted_at", "hub_restarted_at"] {
        let record = gateways(&format!(r#"arrangement = "pooled", {what} = "15s""#));

        let from = Duration::from_secs(16);
        let after = record.window(from, from + Duration::from_secs(3));
        assert!(
            after.goodput(None) > 380.0,
            "{what}: {}",
            after.goodput(None)
        );
    }
}

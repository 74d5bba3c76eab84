//! What clients do to a service that can answer 1,000 a second, when 4,000 come at once and 1,000
//! with each second that follows.

use super::{offered, run_under, scenario};
use crate::scenario::Scenario;
use crate::sim::record::Record;

const SLOTS: &str = "protection = { retry_slots = 300 }";

fn crowd(head: &str, retry: &str) -> Scenario {
    scenario(
        "20s",
        &format!(
            r#"
            {head}
            app = {{ kind = "quota", per_second = 1000, route = [{{ name = "page", service = {{ kind = "constant", mean = "1ms" }} }}] }}
            [[traffic]]
            name = "crowd"
            arrivals = {{ kind = "bursts", size = 4000 }}
            retry = {{ grain = "1s", {retry} }}
            [[traffic]]
            name = "steady"
            from = "1s"
            arrivals = {{ kind = "bursts", size = 1000, every = "1s" }}
            "#
        ),
    )
}

fn ticks(head: &str, retry: &str) -> (Record, Vec<u32>) {
    let record = run_under("none", &crowd(head, retry));
    let offered = offered(&record);
    (record, offered)
}

#[track_caller]
fn near(measured: &[u32], expected: &[u32]) {
    for (&one, &other) in measured.iter().zip(expected) {
        let off = f64::from(one) / f64::from(other) - 1.0;
        assert!(off.abs() < 0.05, "{measured:?} instead of {expected:?}");
    }
}

#[test]
fn naive_retries_come_back_whole_for_ever() {
    let (record, offered) = ticks("", "attempts = 1000");

    assert_eq!(offered, [4000; 20]);
    let turned_away: u32 = record.bins.iter().flat_map(|bin| bin.turned_away).sum();
    assert_eq!(turned_away, 20 * 3000);
}

#[test]
fn a_budget_in_which_later_retries_cost_more_halves_them_each_second() {
    let (_, offered) = ticks(
        "",
        "attempts = 1000, budget = { per_second = 300, most = 300, growth = 2 }",
    );

    let expected = [4000, 1300, 1150, 1075, 1038, 1019, 1010, 1005];
    assert_eq!(offered[..8], expected);
    assert!(offered[4..].iter().all(|&attempts| attempts <= 1050));
}

#[test]
fn backoff_without_jitter_forms_the_spike_anew() {
    let backoff = r#"{ kind = "backoff", base = "1s", most = "60s", jitter = false }"#;

    let (_, offered) = ticks("", &format!("attempts = 3, pause = {backoff}"));

    assert_eq!(offered[..6], [4000, 4000, 1000, 4000, 1000, 1000]);
}

#[test]
fn full_jitter_spreads_the_second_retry_and_a_budget_keeps_all_of_them_small() {
    let backoff = r#"{ kind = "backoff", base = "1s", most = "60s", jitter = true }"#;
    let budget = "budget = { per_second = 300, most = 300 }";

    let (_, jittered) = ticks("", &format!("attempts = 3, pause = {backoff}"));
    let (_, budgeted) = ticks("", &format!("attempts = 3, pause = {backoff}, {budget}"));

    near(&jittered[..5], &[4000, 4000, 2500, 2500, 1000]);
    near(&budgeted[..5], &[4000, 1300, 1150, 1150, 1000]);
    assert_eq!(
        budgeted[..3].iter().sum::<u32>() + budgeted[3],
        4000 + 3000 + 600
    );
}

#[test]
fn slots_to_come_back_at_never_invite_more_than_their_rate() {
    let (_, offered) = ticks(SLOTS, "attempts = 1000, retry_after = true");

    assert_eq!(offered[0], 4000);
    assert!(offered[1..].iter().all(|&attempts| attempts == 1300));
}

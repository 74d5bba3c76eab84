//! Closed forms of queueing theory.

use std::time::Duration;

use super::{run_under, scenario, whole};
use crate::sim::record::BIN;

fn app(slots: u32, service: &str, rate: u32) -> String {
    format!(
        r#"
        app = {{ kind = "slots", slots = {slots}, route = [{{ name = "page", service = {service} }}] }}
        [[traffic]]
        name = "everybody"
        rate = {rate}
        patience = "1h"
        "#
    )
}

/// The share of arrivals that find all of `slots` taken when `load` would be in use on average and
/// nobody waits (Erlang's B formula, by its recursion).
fn erlang_b(slots: u32, load: f64) -> f64 {
    (1..=slots).fold(1.0, |lost, n| load * lost / (f64::from(n) + load * lost))
}

/// The share of arrivals that have to wait when nobody is turned away (Erlang's C formula).
fn erlang_c(slots: u32, load: f64) -> f64 {
    let lost = erlang_b(slots, load);
    let part = load / f64::from(slots);
    lost / (1.0 - part * (1.0 - lost))
}

#[track_caller]
fn near(measured: f64, exact: f64, within: f64) {
    let off = measured / exact - 1.0;
    assert!(off.abs() <= within, "{measured} instead of {exact}");
}

#[test]
fn one_steady_worker_keeps_its_callers_waiting_as_long_as_pollaczek_and_khinchine_say() {
    let busy: f64 = 0.8;
    let service = 0.010;
    let scenario = scenario(
        "4000s",
        &app(1, r#"{ kind = "constant", mean = "10ms" }"#, 80),
    );

    let record = run_under("none", &scenario);

    let wait = whole(&record).latencies().mean().unwrap().as_secs_f64() - service;
    near(wait, service * busy / (2.0 * (1.0 - busy)), 0.03);
}

#[test]
fn several_unsteady_workers_keep_their_callers_waiting_as_long_as_erlang_says() {
    let (slots, service, rate) = (10, 0.010, 800.0);
    let scenario = scenario(
        "1500s",
        &app(
            slots,
            r#"{ kind = "erlang", mean = "10ms", shape = 1 }"#,
            800,
        ),
    );

    let record = run_under("none", &scenario);

    let wait = whole(&record).latencies().mean().unwrap().as_secs_f64() - service;
    let exact = erlang_c(slots, rate * service) * service / (f64::from(slots) - rate * service);
    near(wait, exact, 0.04);
}

#[test]
fn a_limit_at_the_slots_without_a_queue_refuses_what_erlangs_loss_formula_says() {
    // Whatever the service times look like: only their mean counts.
    for service in [
        r#"{ kind = "erlang", mean = "50ms", shape = 1 }"#,
        r#"{ kind = "constant", mean = "50ms" }"#,
    ] {
        let scenario = scenario("200s", &app(100, service, 3000));

        let record = run_under("fixed:100", &scenario);

        let lost = whole(&record).refused(None) / whole(&record).offered(None);
        near(lost, erlang_b(100, 150.0), 0.01);
        near(lost, 0.3454, 0.01);
        assert!(record.bins.iter().all(|bin| bin.backlog == 0));
    }
}

#[test]
fn the_mean_number_inside_is_the_rate_times_the_mean_stay_to_the_nanosecond() {
    let text = app(
        4,
        r#"{ kind = "lognormal", mean = "20ms", sigma = 1.0 }"#,
        150,
    );
    let scenario = scenario("60s", &format!("{text}\nuntil = \"50s\""));

    let record = run_under("none", &scenario);

    let stays = whole(&record).latencies();
    let inside: Duration = record.bins.iter().map(|bin| bin.occupied).sum();
    let admitted: u32 = record.bins.iter().map(|bin| bin.admitted).sum();
    assert_eq!(stays.count(), u64::from(admitted));
    assert_eq!(stays.sum(), inside);
    assert!(record.bins.iter().any(|bin| bin.occupied > BIN * 4));
}

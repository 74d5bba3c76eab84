use std::time::Duration;

use super::*;
use crate::config::tests::{MINIMAL, app_error, plan};

#[test]
fn workers_fix_the_limit_and_the_connections() {
    let app = &plan(&format!("{MINIMAL}workers = 64\n")).apps[0];

    assert_eq!(app.limit, Kind::Static(64.try_into().unwrap()));
    assert_eq!(app.upstream.connections_max.get(), 64);
}

#[test]
fn a_learnt_limit_goes_as_far_as_there_are_connections() {
    let app = |keys: &str| plan(&format!("{MINIMAL}{keys}\n")).apps.remove(0);
    let bounds = |keys: &str| {
        let app = app(keys);
        let highest = highest(&app.limit);
        (highest, app.upstream.connections_max.get())
    };

    assert_eq!(bounds(""), (8_000, 8_000));
    assert_eq!(bounds("limit_max = 300"), (300, 1024));
    assert_eq!(bounds("limit_max = 20000"), (20_000, 20_000));
    assert_eq!(bounds("connections_max = 100"), (100, 100));
    assert_eq!(bounds("limit = \"gradient2\""), (200, 1024));
    assert_eq!(bounds("limit = \"adaptive\"\nworkers = 64"), (64, 64));
    assert_eq!(
        bounds("mode = \"shadow\"\nlimit_max = 30000"),
        (30_000, 30_000)
    );
}

#[test]
fn a_healthy_latency_is_for_the_adaptive_limit() {
    let app = &plan(&format!(
        "{MINIMAL}latency_max = \"800ms\"\nlimit_min = 6\n"
    ))
    .apps[0];

    assert_eq!(
        app.limit,
        Kind::Adaptive(Settings {
            bounds: Bounds::new(20, 6, 8_000).unwrap(),
            latency_healthy_max: Some(Duration::from_millis(800)),
        })
    );
}

#[test]
fn shadow_mode_holds_nothing_back_for_want_of_connections() {
    let app = &plan(&format!("{MINIMAL}workers = 64\nmode = \"shadow\"\n")).apps[0];

    assert_eq!(app.limit, Kind::Static(64.try_into().unwrap()));
    assert_eq!(app.upstream.connections_max.get(), 10_000);
}

#[test]
fn limits_that_contradict_each_other_are_refused() {
    assert_eq!(
        app_error("limit = \"static\"").0,
        "`limit = \"static\"` needs `workers`"
    );
    assert_eq!(
        app_error("workers = 8\nlimit_max = 40").0,
        "`limit_max` has no effect: the limit is static, 8"
    );
    assert_eq!(
        app_error("limit_min = 50\nlimit_max = 40").0,
        "limit_min 50, limit_initial 40 and limit_max 40 are out of order"
    );
    assert_eq!(
        app_error("workers = 64\nconnections_max = 32").0,
        "`connections_max = 32` is less than `workers`"
    );
    assert_eq!(
        app_error("connections_max = 100\nlimit_max = 200").0,
        "the limit may grow to 200, but there are 100 connections"
    );
    assert_eq!(
        app_error("workers = 8\nlatency_max = \"1s\"").0,
        "`latency_max` has no effect: the limit is static"
    );
    assert!(
        app_error("response_buffers_max = \"64KiB\"")
            .0
            .contains("is less than")
    );
}

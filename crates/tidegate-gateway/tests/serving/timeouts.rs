use std::time::Duration;

use tidegate_gateway::Gateway;

use crate::support::{App, Client, plan, wait_for_metric};

const SHORT: Duration = Duration::from_millis(200);

#[test]
fn a_head_that_does_not_come_in_time_is_answered_and_cut() {
    let app = App::start();
    let mut plan = plan(&app);
    plan.listener.head_timeout = SHORT;
    let gateway = Gateway::start(plan).unwrap();

    let mut slow = Client::connect(&gateway);
    slow.send("GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ");
    let mut silent = Client::connect(&gateway);

    assert_eq!(slow.answer().status, 408);
    assert!(slow.is_closed());
    assert!(silent.is_closed());
    wait_for_metric(
        &gateway,
        "tidegate_connections_ended_total{how=\"head_timeout\"}",
        2.0,
    );
}

#[test]
fn a_slow_second_head_is_cut_though_idle_time_is_long() {
    let app = App::start();
    let mut plan = plan(&app);
    plan.listener.head_timeout = SHORT;
    let gateway = Gateway::start(plan).unwrap();
    let mut client = Client::connect(&gateway);
    assert_eq!(client.get("/").status, 200);

    client.send("GET /");

    assert_eq!(client.answer().status, 408);
    assert!(client.is_closed());
}

#[test]
fn an_idle_connection_is_closed_though_heads_may_be_slow() {
    let app = App::start();
    let mut plan = plan(&app);
    plan.listener.keep_alive_timeout = SHORT;
    let gateway = Gateway::start(plan).unwrap();
    let mut client = Client::connect(&gateway);
    assert_eq!(client.get("/").status, 200);

    assert!(client.is_closed());

    wait_for_metric(
        &gateway,
        "tidegate_connections_ended_total{how=\"idle\"}",
        1.0,
    );
}

#[test]
fn a_long_exchange_is_neither_idle_nor_a_slow_head() {
    let app = App::start();
    let mut plan = plan(&app);
    plan.listener.head_timeout = SHORT;
    plan.listener.keep_alive_timeout = SHORT;
    let gateway = Gateway::start(plan).unwrap();
    let mut busy = Client::connect(&gateway);
    busy.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    app.wait_for_requests(1);

    // Two others, one after the other, outlast both timeouts.
    for _ in 0..2 {
        assert!(Client::connect(&gateway).is_closed());
    }
    app.release();

    assert_eq!(busy.answer().status, 200);
}

#[test]
fn a_client_that_takes_no_byte_is_cut() {
    let app = App::start();
    let mut plan = plan(&app);
    plan.listener.write_timeout = SHORT;
    let gateway = Gateway::start(plan).unwrap();
    let mut client = Client::connect(&gateway);

    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");

    let cut = "tidegate_connections_ended_total{how=\"write_stalled\"}";
    wait_for_metric(&gateway, cut, 1.0);
}

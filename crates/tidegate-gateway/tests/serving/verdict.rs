//! What balancers are told of the node, where they ask for it.

use std::time::Duration;

use tidegate_gateway::Gateway;
use tidegate_http::verdict::{State, Verdict};

use crate::support::{App, Client, admin_page, count, plan};

const LEASE: Duration = Duration::from_secs(600);

fn stressed() -> Verdict {
    Verdict {
        state: State::Stressed,
        weight: 40,
        ..Verdict::UNKNOWN
    }
}

#[test]
fn until_somebody_decides_the_node_is_unknown_and_has_all_its_weight() {
    let app = App::start();
    let gateway = Gateway::start(plan(&app)).unwrap();

    let answer = Client::connect(&gateway).get("/.tidegate/verdict");

    assert_eq!(answer.status, 200);
    assert!(answer.body.starts_with("TIDEGATE UNKNOWN weight=100 "));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(app.heads().len(), 0);
}

#[test]
fn what_is_put_up_is_told_to_both_listeners() {
    let app = App::start();
    let gateway = Gateway::start(plan(&app)).unwrap();
    gateway.board().post(stressed(), LEASE);

    let clients = Client::connect(&gateway).get("/.tidegate/verdict");
    let admin = admin_page(&gateway, "/verdict");

    for answer in [&clients, &admin] {
        assert_eq!(answer.status, 200);
        assert!(answer.body.starts_with("TIDEGATE STRESSED weight=40 "));
        assert_eq!(answer.header("x-envoy-degraded"), Some("1"));
    }
    // As the one balancer that minds it writes this header.
    assert!(admin.head.contains("\r\nX-Dynamic-Backend-Weight: 40\r\n"));
}

#[test]
fn a_drain_is_told_whatever_the_verdict() {
    let app = App::start();
    let mut plan = plan(&app);
    // Longer than the test: it never gets further than this.
    plan.drain.delay = LEASE;
    let gateway = Gateway::start(plan).unwrap();
    gateway.board().post(stressed(), LEASE);

    gateway.drain();

    let answer = Client::connect(&gateway).get("/.tidegate/verdict");
    assert_eq!(answer.status, 503);
    assert!(answer.body.starts_with("TIDEGATE DRAINING weight=0 "));
    let by_text = Client::connect(&gateway).get("/.tidegate/verdict?f5=1");
    assert_eq!(by_text.status, 200);
    assert!(by_text.body.starts_with("TIDEGATE DRAINING "));
}

#[test]
fn a_balancer_hears_it_though_all_connections_are_taken() {
    let app = App::start();
    let mut plan = plan(&app);
    plan.listener.connections_max = count(1);
    plan.probes.networks = vec!["127.0.0.0/8".parse().unwrap()];
    plan.probes.connections_reserved = count(1);
    let gateway = Gateway::start(plan).unwrap();
    let mut first = Client::connect(&gateway);
    assert_eq!(first.get("/.tidegate/verdict").status, 200);
    let mut second = Client::connect(&gateway);

    assert_eq!(second.get("/.tidegate/verdict").status, 200);
}

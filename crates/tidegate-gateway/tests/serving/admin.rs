use std::collections::HashSet;

use tidegate_gateway::Gateway;
use tidegate_gateway::status::{STATUS_VERSION, Status};

use crate::support::{App, Client, admin_page, metric, plan, wait_for_metric};

/// Admin connections at once.
const CONNECTIONS_MAX: usize = 64;

#[test]
fn the_status_tells_what_was_served() {
    let app = App::start();
    let gateway = Gateway::start(plan(&app)).unwrap();
    let mut client = Client::connect(&gateway);
    for _ in 0..3 {
        assert_eq!(client.get("/").status, 200);
    }
    let completions = "tidegate_completions_total{app=\"shop\",route=\"other\",\
                       class=\"anonymous\",outcome=\"in_time\"}";
    wait_for_metric(&gateway, completions, 3.0);

    let page = admin_page(&gateway, "/status.json");
    let status: Status = serde_json::from_str(&page.body).unwrap();

    assert_eq!(status.version, STATUS_VERSION);
    assert_eq!(status.state, "ready");
    assert!(status.alive && !status.shedding);
    assert_eq!(status.client_connections["normal"], 1);
    let shop = &status.apps[0];
    assert_eq!(
        (shop.name.as_str(), shop.limit, shop.in_flight),
        ("shop", 32, 0)
    );
    let anonymous = &shop.classes["anonymous"];
    assert_eq!((anonymous.arrivals, anonymous.admitted_at_once), (3, 3));
    assert_eq!(anonymous.completions["in_time"], 3);
    assert!(anonymous.worker_seconds["in_time"] > 0.0);
    assert_eq!(gateway.status().apps[0].classes["anonymous"].arrivals, 3);
}

#[test]
fn every_metric_says_what_it_is_and_every_series_is_there_once() {
    let app = App::start();
    let gateway = Gateway::start(plan(&app)).unwrap();
    assert_eq!(Client::connect(&gateway).get("/").status, 200);

    let page = admin_page(&gateway, "/metrics");

    assert_eq!(
        page.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let mut described = HashSet::new();
    let mut series = HashSet::new();
    for line in page.body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            assert!(described.insert(name.to_owned()), "{name} twice");
        } else if !line.starts_with('#') {
            let (labelled, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap();
            assert!(series.insert(labelled.to_owned()), "{labelled} twice");
            let name = labelled.split('{').next().unwrap();
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix))
                .unwrap_or(name);
            assert!(described.contains(family), "{name} is not described");
        }
    }
    assert_eq!(
        metric(
            &gateway,
            "tidegate_answers_total{app=\"shop\",code=\"2xx\"}"
        ),
        1.0
    );
    assert_eq!(metric(&gateway, "tidegate_limit{app=\"shop\"}"), 32.0);
    assert_eq!(metric(&gateway, "tidegate_ready"), 1.0);
}

#[test]
fn however_many_are_idle_a_newcomer_is_served() {
    let app = App::start();
    let gateway = Gateway::start(plan(&app)).unwrap();
    let mut first = Client::connect_to(gateway.admin_address().unwrap());
    assert_eq!(first.get("/healthz").status, 200);
    let mut idle: Vec<Client> = (0..CONNECTIONS_MAX)
        .map(|_| Client::connect_to(gateway.admin_address().unwrap()))
        .collect();

    assert!(first.is_closed(), "nobody has been idle for longer");
    assert_eq!(idle[0].get("/healthz").status, 200);
    assert_eq!(admin_page(&gateway, "/healthz").status, 200);
    assert!(idle[1].is_closed(), "the second has asked for nothing");
    assert_eq!(idle[0].get("/healthz").status, 200);
}

#[test]
fn operators_only_read_and_find_their_way() {
    let app = App::start();
    let gateway = Gateway::start(plan(&app)).unwrap();

    assert!(admin_page(&gateway, "/").body.contains("/status.json"));
    assert_eq!(admin_page(&gateway, "/nothing").status, 404);
    let mut client = Client::connect_to(gateway.admin_address().unwrap());
    client.send("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.answer().status, 405);
}

#[test]
fn time_inside_an_application_is_there_for_those_who_judge_the_node() {
    let app = App::start();
    let gateway = Gateway::start(plan(&app)).unwrap();
    let before = gateway.work().read();

    Client::connect(&gateway).get("/");

    let after = gateway.work().read();
    assert_eq!((before.apps.len(), after.apps.len()), (1, 1));
    assert!(before.apps[0].occupied.is_zero());
    assert!(!after.apps[0].occupied.is_zero());
    assert_eq!(after.apps[0].slots, after.slots);
}

#[test]
fn rooms_are_for_this_machine_and_for_no_page_in_a_browser() {
    let app = App::start();
    let gateway = Gateway::start(plan(&app)).unwrap();
    let asked = |line: &str, more: &str| {
        let mut client = Client::connect_to(gateway.admin_address().unwrap());
        client.send(&format!("{line} HTTP/1.1\r\n{more}\r\n"));
        let answer = client.answer();
        let said: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let reason = said["reason"].as_str().unwrap_or("none").to_owned();
        (answer.status, reason)
    };
    let (local, name) = ("Host: 127.0.0.1\r\n", "Host: shop.example\r\n");
    let page = "Host: 127.0.0.1\r\nOrigin: http://evil.example\r\n";
    let order = "Host: localhost\r\nContent-Length: 2\r\n\r\n{}";
    let long = format!("Host: localhost\r\nContent-Length: {}\r\n", 64 * 1024);

    for (line, more, status, reason) in [
        ("GET /rooms", local, 200, "none"),
        ("GET /rooms/shop", local, 404, "no_such_room"),
        ("GET /rooms", name, 403, "not_for_browsers"),
        ("GET /rooms", page, 403, "not_for_browsers"),
        ("PUT /rooms/shop/phase", page, 403, "not_for_browsers"),
        ("DELETE /rooms", local, 405, "no_such_method"),
        ("PUT /rooms/shop/phase", order, 404, "no_such_room"),
        ("PUT /rooms/shop/phase", long.as_str(), 400, "no_body"),
    ] {
        assert_eq!(
            asked(line, more),
            (status, reason.to_owned()),
            "{line} {more}"
        );
    }
    assert!(
        !admin_page(&gateway, "/metrics")
            .body
            .contains("tidegate_room_")
    );
    assert!(gateway.status().rooms.is_empty());
}

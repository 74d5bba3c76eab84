use tidegate_gateway::Gateway;

use crate::support::{App, Client, count, metric, plan, wait_for_metric};

#[test]
fn at_the_cap_health_is_still_told_and_the_rest_refused() {
    let app = App::start();
    let mut plan = plan(&app);
    plan.listener.connections_max = count(1);
    let gateway = Gateway::start(plan).unwrap();
    let mut first = Client::connect(&gateway);
    first.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    app.wait_for_requests(1);

    let mut probe = Client::connect(&gateway);
    let health = probe.get("/health");
    assert!(probe.is_closed());
    let mut other = Client::connect(&gateway);
    let refused = other.get("/shop");

    assert_eq!(health.status, 200);
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("tidegate-reason"), Some("connections"));
    assert_eq!(refused.header("connection"), Some("close"));
    assert!(refused.header("retry-after").is_some());
    assert!(other.is_closed());
    assert_eq!(
        metric(
            &gateway,
            "tidegate_connections_refused_total{reason=\"connections_max\"}"
        ),
        2.0
    );
    app.release();
    assert_eq!(first.answer().status, 200);
}

#[test]
fn over_the_cap_and_over_that_connections_are_closed_at_once() {
    let app = App::start();
    let mut plan = plan(&app);
    plan.listener.connections_max = count(1);
    plan.probes.overflow_connections_max = count(1);
    let gateway = Gateway::start(plan).unwrap();
    let _first = Client::connect(&gateway);
    let _over = Client::connect(&gateway);

    let mut third = Client::connect(&gateway);

    assert!(third.is_closed());
    let series = "tidegate_connections_refused_total{reason=\"overflow_connections_max\"}";
    assert_eq!(metric(&gateway, series), 1.0);
}

#[test]
fn probe_networks_connect_whatever_the_others_do() {
    let app = App::start();
    let mut plan = plan(&app);
    plan.listener.connections_max = count(1);
    plan.probes.networks = vec!["127.0.0.0/8".parse().unwrap()];
    plan.probes.connections_reserved = count(2);
    let gateway = Gateway::start(plan).unwrap();
    let mut held: Vec<_> = (0..2).map(|_| Client::connect(&gateway)).collect();

    let health: Vec<_> = held
        .iter_mut()
        .map(|client| client.get("/health").status)
        .collect();
    let mut ordinary = Client::connect(&gateway);

    assert_eq!(health, [200, 200]);
    assert_eq!(ordinary.get("/").status, 200);
    assert_eq!(
        metric(&gateway, "tidegate_client_connections{kind=\"probe\"}"),
        2.0
    );
}

#[test]
fn probes_from_anywhere_else_have_a_small_allowance() {
    let app = App::start();
    let gateway = Gateway::start(plan(&app)).unwrap();
    let mut client = Client::connect(&gateway);

    let refused = (0..2_000)
        .map(|_| {
            let answer = client.get("/.tidegate/readyz");
            if answer.status != 200 {
                client = Client::connect(&gateway);
            }
            answer
        })
        .find(|answer| answer.status != 200)
        .expect("a refusal");

    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("tidegate-reason"), Some("probe_cap"));
    assert_eq!(app.heads().len(), 0);
}

#[test]
fn own_paths_are_never_forwarded() {
    let app = App::start();
    let gateway = Gateway::start(plan(&app)).unwrap();
    let mut client = Client::connect(&gateway);

    assert_eq!(client.get("/.tidegate/healthz").status, 200);
    assert_eq!(client.get("/.tidegate/secret").status, 404);

    assert_eq!(app.heads().len(), 0);
    assert_eq!(
        metric(
            &gateway,
            "tidegate_arrivals_total{app=\"shop\",class=\"anonymous\"}"
        ),
        0.0
    );
}

#[test]
fn a_connection_that_ends_makes_room() {
    let app = App::start();
    let mut plan = plan(&app);
    plan.listener.connections_max = count(1);
    let gateway = Gateway::start(plan).unwrap();

    for round in 1..=20 {
        let mut client = Client::connect(&gateway);
        assert_eq!(client.get("/").status, 200, "round {round}");
        drop(client);
        wait_for_metric(
            &gateway,
            "tidegate_connections_ended_total{how=\"closed\"}",
            f64::from(round),
        );
    }
}

#[test]
fn at_the_cap_an_idle_connection_makes_room_in_the_end() {
    let app = App::start();
    let mut plan = plan(&app);
    plan.listener.connections_max = count(1);
    let gateway = Gateway::start(plan).unwrap();
    let mut idle = Client::connect(&gateway);
    assert_eq!(idle.get("/").status, 200);

    // Refused until the first has been idle for long enough to lose its place.
    let served = (0..).find_map(|_| {
        let mut newcomer = Client::connect(&gateway);
        let answer = newcomer.try_get("/")?;
        (answer.status == 200).then_some(newcomer)
    });

    assert!(idle.is_closed());
    assert_eq!(served.unwrap().get("/").status, 200);
    wait_for_metric(
        &gateway,
        "tidegate_connections_ended_total{how=\"evicted\"}",
        1.0,
    );
}

#[test]
fn connections_are_spread_over_all_threads_and_all_are_served() {
    let app = App::start();
    let mut plan = plan(&app);
    plan.threads = std::num::NonZeroUsize::new(3).unwrap();
    let gateway = Gateway::start(plan).unwrap();

    let mut clients: Vec<_> = (0..9).map(|_| Client::connect(&gateway)).collect();

    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    assert_eq!(
        metric(&gateway, "tidegate_client_connections{kind=\"normal\"}"),
        9.0
    );
}

//! The runtime API.

use std::time::{Duration, Instant};

use tidegate_fleet::balancer::haproxy::{Haproxy, Socket};
use tidegate_fleet::balancer::{Adapter, Desired, Reconciler, Wanted};
use tidegate_http::verdict::{State, Told, Verdict};

use crate::site::{Agent, LEASE, Site, saturated, stressed};

const EVERY: Duration = Duration::from_millis(50);

fn adapter(site: &Site, lease: Duration) -> Haproxy {
    let socket = Socket::Unix(site.haproxy.socket().to_owned());
    Haproxy::new(socket, vec!["nodes".to_owned()], lease)
}

/// Sets the nodes of `site` with an agent's lease of 200 ms.
fn reconcile(site: &Site, desired: Vec<Desired>) -> Reconciler {
    let adapter = adapter(site, Duration::from_millis(200));
    Reconciler::start(adapter, EVERY, move || desired.clone()).unwrap()
}

#[tokio::test]
async fn what_a_dead_agent_left_behind_is_put_right() {
    for verdict in [
        stressed(25),
        saturated(),
        Verdict {
            drain: true,
            ..stressed(25)
        },
    ] {
        let agent = Agent::start();
        agent.board.post(verdict.clone(), LEASE);
        let site = Site::with_agent(&agent);
        let (column, stale) = match verdict.told() {
            Told::Serve(_) => ("uweight", "25"),
            Told::Out => ("status", "DOWN (agent)"),
            Told::Leave => ("status", "DRAIN (agent)"),
        };
        site.until(column, stale).await;
        let reconciler = reconcile(&site, Vec::new());
        // As long as the agent answers, it is the one who sets the server.
        let tally = reconciler.teller();
        tidegate_lab::patience::until_so("twenty looks", || tally().looks >= 20).await;
        assert_eq!(site.says(column), stale);

        drop(agent);

        site.until("uweight", "100").await;
        site.until("status", "UP").await;
        assert_eq!(site.share(100), 50);
        assert_eq!((tally().refused, tally().unsettled), (0, 0));
    }
}

#[tokio::test]
async fn a_server_without_an_agent_is_set_as_its_node_is_wanted() {
    let site = Site::start("weight 100");
    let desired = |verdict| Desired {
        node: "a".to_owned(),
        verdict,
        valid_until: Instant::now() + LEASE,
    };

    let stressed = reconcile(&site, vec![desired(stressed(25))]);
    site.until("uweight", "25").await;
    drop(stressed);
    let full = reconcile(&site, vec![desired(saturated())]);
    site.until("status", "DRAIN").await;
    assert_eq!(site.share(100), 0);
    drop(full);
    let _healthy = reconcile(
        &site,
        vec![desired(Verdict {
            state: State::Healthy,
            ..Verdict::UNKNOWN
        })],
    );
    site.until("status", "UP").await;

    site.until("uweight", "100").await;
}

#[tokio::test]
async fn what_was_applied_leaves_nothing_to_plan() {
    let site = Site::start("weight 30");
    site.until("status", "UP").await;
    let mut adapter = adapter(&site, LEASE);
    let tolds = [
        Told::Serve(1),
        Told::Out,
        Told::Serve(40),
        Told::Leave,
        Told::Serve(100),
        Told::Serve(3),
    ];
    for (told, other) in tolds.into_iter().zip(tolds.into_iter().rev()) {
        let wanted = [("a", told), ("b", other)].map(|(node, told)| Wanted {
            node: node.to_owned(),
            told,
        });
        let observed = adapter.observe(Instant::now()).unwrap();

        let ops = adapter.plan(&wanted, &observed);
        for op in &ops {
            adapter.apply(op).unwrap();
        }

        let observed = adapter.observe(Instant::now()).unwrap();
        assert_eq!(adapter.plan(&wanted, &observed), Vec::new(), "{wanted:?}");
        assert!(observed.iter().all(|server| server.weight > 0));
    }
}

#[tokio::test]
async fn what_haproxy_does_not_know_is_an_error() {
    let site = Site::start("weight 100");
    let socket = Socket::Unix(site.haproxy.socket().to_owned());
    let mut other = Haproxy::new(socket, vec!["others".to_owned()], LEASE);

    let error = other.observe(Instant::now()).unwrap_err().to_string();

    assert!(error.starts_with("of backend others "), "{error}");
}

#[tokio::test]
async fn a_backend_that_is_not_there_keeps_nobody_from_setting_the_others() {
    let site = Site::start("weight 100");
    let socket = Socket::Unix(site.haproxy.socket().to_owned());
    let backends = ["renamed", "nodes"].map(str::to_owned).to_vec();
    let mut haproxy = Haproxy::new(socket, backends, LEASE);

    let observed = haproxy.observe(Instant::now()).unwrap();

    let names: Vec<&str> = observed.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn maintenance_is_left_alone() {
    let site = Site::start("weight 100");
    site.haproxy
        .command("set server nodes/a state maint")
        .unwrap();
    let mut adapter = adapter(&site, LEASE);
    let wanted = [Wanted {
        node: "a".to_owned(),
        told: Told::Serve(40),
    }];

    let observed = adapter.observe(Instant::now()).unwrap();

    assert_eq!(adapter.plan(&wanted, &observed), Vec::new());
}

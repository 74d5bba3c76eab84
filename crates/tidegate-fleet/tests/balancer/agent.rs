//! The agent check.

use std::net::TcpStream;
use std::time::Duration;

use tidegate_http::verdict::Verdict;
use tidegate_lab::patience;

use crate::site::{Agent, LEASE, Site, saturated, stressed};

#[tokio::test]
async fn a_node_gets_the_share_of_its_weight_and_nothing_when_it_is_full_or_leaves() {
    let agent = Agent::start();
    let site = Site::with_agent(&agent);
    site.until("status", "UP").await;

    for (percent, share) in [(50, 333), (25, 200), (10, 91), (1, 10)] {
        agent.board.post(stressed(percent), LEASE);
        site.until("uweight", &percent.to_string()).await;
        let got = site.share(1_000);
        println!("{percent} %: {got} of 1000");
        assert!(got.abs_diff(share) <= 2, "{percent} %: {got} of 1000");
    }
    agent.board.post(saturated(), LEASE);
    site.until("status", "DOWN (agent)").await;
    assert_eq!(site.share(1_000), 0);
    let leaving = Verdict {
        drain: true,
        ..stressed(40)
    };
    agent.board.post(leaving, LEASE);
    site.until("status", "DRAIN (agent)").await;
    assert_eq!(site.share(1_000), 0);

    agent.board.post(Verdict::UNKNOWN, LEASE);

    site.until("status", "UP").await;
    site.until("uweight", "100").await;
    assert_eq!(site.share(1_000), 500);
}

#[tokio::test]
async fn with_the_default_weight_a_percentage_is_nothing_and_haproxy_says_up() {
    let agent = Agent::start();
    agent.board.post(stressed(75), LEASE);
    let port = agent.port();
    let site = Site::start(&format!("agent-check agent-port {port} agent-inter 100ms"));

    site.until("uweight", "0").await;

    site.until("status", "UP").await;
    assert_eq!(site.share(200), 0);
}

#[tokio::test]
async fn haproxy_keeps_what_a_dead_agent_said_last() {
    let agent = Agent::start();
    agent.board.post(stressed(25), LEASE);
    let site = Site::with_agent(&agent);
    site.until("uweight", "25").await;

    drop(agent);

    site.until("agent_status", "L4CON").await;
    assert_eq!(site.says("uweight"), "25");
    assert_eq!(site.says("status"), "UP");
}

#[tokio::test]
async fn an_agent_that_leaves_says_that_all_is_well_before_its_port_closes() {
    let agent = Agent::start();
    let address = agent.check.address();
    agent.board.post(stressed(10), LEASE);
    let site = Site::with_agent(&agent);
    site.until("uweight", "10").await;

    agent.check.leave().await;

    assert_eq!(site.says("uweight"), "100");
    assert_eq!(site.says("status"), "UP");
    patience::until_so("nobody listens", || {
        TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err()
    })
    .await;
    assert_eq!(site.says("uweight"), "100");
}

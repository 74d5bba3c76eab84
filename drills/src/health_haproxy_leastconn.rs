//! By least connections, a node that answers fast because it does nothing looks like the best of all. A real HAProxy before three
//! gateways, one of which is broken, or sheds: with the settings of `deploy/haproxy.cfg`, and without.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_fleet::balancer::{AgentCheck, AgentCheckPlan};
use tidegate_http::verdict::{Board, State, Verdict as Said};
use tidegate_lab::load::Kind;
use tidegate_lab::peers::{Haproxy, free_port};

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, ShopProcess, ShopSetup, Verdict, loopback, send,
    wait_for,
};

const SERVICE_MS: u64 = 40;
/// Requests at once in the shop of a node that is well: 200 each second.
const SLOTS: u32 = 8;
/// Of the node that sheds: 75 each second.
const SLOTS_FEW: u32 = 3;
/// Its weight, as the agent says it: 3 of 8.
const WEIGHT_FEW: u8 = 38;
/// While one is broken, which is more than the two others can do.
const OFFERED: f64 = 450.0;
/// While one sheds: a quarter more than all of them can do, so that it has something to shed.
const OFFERED_TO_SHED: f64 = 600.0;
const SECONDS: u64 = 15;
const LEASE: Duration = Duration::from_secs(7_200);
/// Names of the nodes; the first one is the one in trouble.
const NODES: [&str; 3] = ["a", "b", "c"];
/// What a share may be above that of the weight.
const POINTS: f64 = 0.05;

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "health-haproxy-leastconn",
    promise: "behind a real HAProxy with leastconn, a node that sheds or fails at once never gets more than its weight's share and 5 points",
    takes: Duration::from_secs(90),
    run,
};

/// What is wrong with the first node.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    /// Its application is gone, and nobody has noticed: each request is answered 502 at once.
    Broken,
    /// It can do less than half of what the others can, and says so.
    Sheds,
}

/// A node: its gateway, its agent, and its application unless that is gone.
struct Node {
    gateway: Gateway,
    agent: AgentCheck,
    _shop: Option<ShopProcess>,
}

/// What came of a run.
struct Outcome {
    /// The largest share of the first node in any second.
    share_max: f64,
    /// Of all requests, those that were answered in time.
    good: f64,
    /// Of those that the first node had, those that it answered with 500 and above.
    failed: f64,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    for (trouble, what, fair) in [
        (Trouble::Broken, "broken", 1.0 / 3.0),
        (
            Trouble::Sheds,
            "shedding",
            f64::from(WEIGHT_FEW) / (200.0 + f64::from(WEIGHT_FEW)),
        ),
    ] {
        let length = args.length(SECONDS);
        let ours = measure(trouble, true, length)?;
        let bare = measure(trouble, false, length)?;
        verdict.say(format!(
            "a {what} node of three failed or refused {:.1} % of what it had, without the settings {:.1} %",
            100.0 * ours.failed,
            100.0 * bare.failed
        ));
        verdict.add(
            Figure::share(
                format!("{what}: most that it had in any second"),
                ours.share_max,
            )
            .at_most(fair + POINTS)
            .beside("without the settings", bare.share_max)
            .beside("its weight's share", fair),
        );
        verdict.add(
            Figure::share(format!("{what}: all requests answered in time"), ours.good)
                .beside("without the settings", bare.good),
        );
    }
    Ok(verdict)
}

fn measure(trouble: Trouble, documented: bool, length: Duration) -> anyhow::Result<Outcome> {
    let nodes = NODES.map(|name| Node::start((name == NODES[0]).then_some(trouble)));
    let nodes = nodes.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let front = free_port()?;
    let haproxy = Haproxy::start(&sections(front, &nodes, documented))?;
    wait_for("all nodes are up and their agents were heard", || {
        for name in NODES {
            if haproxy.stat("nodes", name, "status")? != "UP"
                || haproxy.stat("nodes", name, "agent_status")? != "L7OK"
            {
                return Ok(false);
            }
        }
        Ok(true)
    })?;

    let run = send(
        loopback(front),
        vec![Kind::get("visitor", "/browse/x")],
        match trouble {
            Trouble::Broken => OFFERED,
            Trouble::Sheds => OFFERED_TO_SHED,
        },
        length,
    )?;
    let begun = Instant::now();
    let mut share_max: f64 = 0.0;
    let mut before = chosen(&haproxy)?;
    while begun.elapsed() + Duration::from_secs(1) <= length {
        sleep(Duration::from_secs(1));
        let now = chosen(&haproxy)?;
        let since: Vec<f64> = now
            .iter()
            .zip(&before)
            .map(|(now, was)| now - was)
            .collect();
        share_max = share_max.max(since[0] / since.iter().sum::<f64>().max(1.0));
        before = now;
    }
    let failed: f64 = haproxy.stat("nodes", NODES[0], "hrsp_5xx")?.parse()?;
    let failed = failed / chosen(&haproxy)?[0].max(1.0);
    let report = run.join()?;
    let of = |count: fn(&tidegate_lab::load::KindReport) -> u64| -> f64 {
        report.kinds.iter().map(count).sum::<u64>() as f64
    };
    Ok(Outcome {
        share_max,
        good: of(|kind| kind.total.good) / of(|kind| kind.total.offered).max(1.0),
        failed,
    })
}

/// How often each node was chosen so far.
fn chosen(haproxy: &Haproxy) -> anyhow::Result<Vec<f64>> {
    let counts = NODES.map(|name| haproxy.stat("nodes", name, "lbtot"));
    counts
        .into_iter()
        .map(|count| Ok(count?.parse()?))
        .collect()
}

fn sections(front: u16, nodes: &[Node], documented: bool) -> String {
    let settings = if documented {
        " retry-on conn-failure empty-response\n http-request disable-l7-retry unless METH_GET\n\
         \x20default-server observe layer7 error-limit 100 on-error mark-down\n"
    } else {
        ""
    };
    let servers = NODES.iter().zip(nodes).map(|(name, node)| {
        format!(
            " server {name} {} agent-check agent-port {} agent-inter 2s\n",
            node.gateway.address(),
            node.agent.address().port()
        )
    });
    format!(
        "frontend clients\n bind 127.0.0.1:{front}\n default_backend nodes\n\
         backend nodes\n balance leastconn\n option redispatch 1\n option httpchk GET /.tidegate/readyz\n{settings}\
         \x20default-server check inter 1s fall 3 rise 2 weight 100\n{}",
        servers.collect::<String>()
    )
}

impl Node {
    fn start(trouble: Option<Trouble>) -> anyhow::Result<Self> {
        let (slots, said) = match trouble {
            Some(Trouble::Sheds) => (
                SLOTS_FEW,
                Said {
                    state: State::Stressed,
                    weight: WEIGHT_FEW,
                    ..Said::UNKNOWN
                },
            ),
            Some(Trouble::Broken) | None => (SLOTS, Said::UNKNOWN),
        };
        let shop = ShopProcess::open(&ShopSetup::new(slots, SERVICE_MS))?;
        let setup = GatewaySetup::app(shop.address(), &format!("workers = {slots}\n"));
        let gateway = Gateway::start(&setup)?;
        let board = Arc::new(Board::default());
        board.post(said, LEASE);
        let plan = AgentCheckPlan {
            listen: loopback(free_port()?),
            connections_max: 16,
            interval: Duration::from_secs(2),
            maxconn: None,
        };
        Ok(Self {
            gateway,
            agent: AgentCheck::start(&plan, board)?,
            _shop: (trouble != Some(Trouble::Broken)).then_some(shop),
        })
    }
}

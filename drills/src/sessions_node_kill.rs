//! No node is load-bearing: two nodes behind a balancer, one of which dies in the middle of the
//! traffic and another one joins. Beside it the usual practice: sessions in the application's memory,
//! and a cookie by which the balancer finds the node that has them.

use std::time::Duration;

use tidegate_lab::report::Table;

use crate::harness::{
    Args, Balancer, BalancerSetup, Crowd, CrowdPlan, Drill, Figure, Keeps, Loss, Node, Verdict,
    Visitor, Visits,
};

const RATE: f64 = 500.0;
const VISITORS: usize = 400;
const PATIENCE: Duration = Duration::from_secs(5);
/// Seconds before the node is killed: everybody has signed in by then.
const BEFORE: u64 = 8;
/// Seconds with one node.
const ALONE: u64 = 4;
/// Seconds with the added node.
const AFTER: u64 = 8;
/// Over how long the added node's part is looked at.
const SHARE_SPAN: Duration = Duration::from_secs(2);
/// The part that it must have: half of a half, as its first requests are spread over that second.
const SHARE_MIN: f64 = 0.45;
const HEALTH: &str = "/.tidegate/readyz";

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-node-kill",
    promise: "a node killed with -9 under 500 requests a second takes no login and no cart along",
    takes: Duration::from_secs(60),
    run,
};

/// What became of the visitors in one of the two arrangements.
struct Told {
    visits: Visits,
    /// Seconds since the beginning at which the added node was known to be well.
    joined: Duration,
    added: String,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    verdict.say("sessions in the application's memory, and a sticky cookie:");
    let heap = play(false, &|name| Node::start(name, Keeps::InHeap))?;
    say(&verdict, &heap);
    Ok(verdict)
}

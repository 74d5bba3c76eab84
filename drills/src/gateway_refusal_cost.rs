//! Saying no is so much cheaper than saying yes that a flood of refusals costs hardly any goodput.
//!
//! The gateway and the application share one core, and the application burns 2 ms of CPU time per
//! request, so whatever a refusal costs is missing from goodput. The generator has the other core.
//! Beside it, under the same pinning and load: HAProxy, nginx and the bare application.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::ensure;
use tidegate_lab::load::{ClosedLoop, Kind, LoadPlan, Phase, Request, closed_loop};
use tidegate_lab::measure;

use crate::harness::{
    Args, Cores, Drill, Figure, Gateway, GatewaySetup, Peer, PeerSetup, ShopProcess, ShopSetup,
    Verdict, play,
};

const BURN: &str = "/burn?us=2000";
/// One job burns and one is on its way in or out, so that the core is never without work.
const WORKERS: u32 = 2;
/// How many may wait, and for how long: what Tidegate works out for itself from `hold`.
const QUEUE: u32 = 90;
const QUEUE_TIME: Duration = Duration::from_millis(200);
/// Multiples of the capacity that are offered, and the part of it that must be left.
const OFFERED: [(f64, f64); 2] = [(3.0, 0.97), (10.0, 0.90)];
const SECONDS: u64 = 15;
const CAPACITY_CONNECTIONS: usize = 4;
const CAPACITY_WARM_UP: Duration = Duration::from_secs(1);
const CAPACITY_LENGTH: Duration = Duration::from_secs(8);

/// What one server reached.
struct Reached {
    name: &'static str,
    /// Its closed-loop maximum.
    c: f64,
    /// Goodput at each of [`OFFERED`], as a part of that.
    shares: Vec<f64>,
}

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "gateway-refusal-cost",
    promise: "on one core with the app, refusals at 3 C and 10 C cost at most 3 % and 10 % of goodput",
    takes: Duration::from_secs(180),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let cores = Cores::pick()?;
    let length = args.length(SECONDS);
    measure::pin_thread(cores.others)?;

    let ours = {
        let shop = shop(cores)?;
        let mut setup = GatewaySetup::app(shop.address(), &format!("workers = {WORKERS}"));
        setup.core = Some(cores.measured);
        let gateway = Gateway::start(&setup)?;
        reach("Tidegate", gateway.address(), length)?
    };
    let mut others = Vec::new();
    for (name, start) in [
        ("HAProxy", Peer::haproxy as fn(&PeerSetup) -> _),
        ("nginx", Peer::nginx),
    ] {
        let shop = shop(cores)?;
        let mut setup = PeerSetup::new(shop.address());
        setup.requests_max = Some(WORKERS);
        setup.queue_max = Some(QUEUE);
        setup.queue_timeout = QUEUE_TIME;
        setup.core = Some(cores.measured);
        let peer: Peer = start(&setup)?;
        others.push(reach(name, peer.address(), length)?);
    }
    let shop = shop(cores)?;
    others.push(reach("bare", shop.address(), length)?);

    let mut c = Figure::per_second("capacity C", ours.c);
    for other in &others {
        c = c.beside(other.name, other.c);
    }
    verdict.add(c);
    for (at, (offered, bar)) in OFFERED.into_iter().enumerate() {
        let what = format!("goodput at {offered} C, as a part of C");
        let mut figure = Figure::share(what, ours.shares[at]).at_least(bar);
        for other in &others {
            figure = figure.beside(other.name, other.shares[at]);
        }
        verdict.add(figure);
    }
    Ok(verdict)
}

fn shop(cores: Cores) -> anyhow::Result<ShopProcess> {
    let mut setup = ShopSetup::new(WORKERS, 0);
    setup.core = Some(cores.measured);
    ShopProcess::open(&setup)
}

fn reach(name: &'static str, target: SocketAddr, length: Duration) -> anyhow::Result<Reached> {
    let capacity = closed_loop(&ClosedLoop {
        target,
        request: Request::get(BURN),
        connections: CAPACITY_CONNECTIONS,
        warm_up: CAPACITY_WARM_UP,
        length: CAPACITY_LENGTH,
    })?;
    let c = capacity.per_second;
    ensure!(
        capacity.failures == 0 && c > 0.0,
        "{name}: the capacity run had {} failures at {c:.0}/s",
        capacity.failures
    );
    let mut shares = Vec::new();
    for (offered, _) in OFFERED {
        let phase = Phase::new("offered", offered * c, length);
        let visitors = vec![Kind::get("visitor", BURN)];
        let report = play(LoadPlan::new(target, visitors, vec![phase]))?;
        shares.push(report.goodput(report.steady(0), |_| true) / c);
    }
    Ok(Reached { name, c, shares })
}

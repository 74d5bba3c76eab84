//! Health probes while the gateway has no room for anybody else.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_lab::load::{Arrivals, Kind, LoadPlan, Phase, Report, Reuse, Run, raw};

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, Invalid, ShopProcess, ShopSetup, Verdict, capacity,
    finish,
};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "gateway-probes",
    promise: "every health probe is answered at 10 × load with the listener at its connection cap",
    takes: Duration::from_secs(95),
    run,
};

/// Less than 100 slots, so that the generator on the same machine keeps its schedule at 10 ×.
const SHOP: ShopSetup = ShopSetup::new(40, 50);
const OVERLOAD: f64 = 10.0;
const PROBES_PER_SECOND: f64 = 10.0;
/// The listener's cap on connections.
const CONNECTIONS_MAX: usize = 600;
/// Where probes come from.
const PROBE_SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// How often a client that holds connections open looks for room for one more.
const HOLD_INTERVAL: Duration = Duration::from_millis(4);
/// The load runs this long before the first probe and after the last one.
const MARGIN: Duration = Duration::from_secs(3);
/// Length of the run at the bare shop.
const BARE_LENGTH: Duration = Duration::from_secs(10);

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let length = args.length(60);
    let shop = ShopProcess::open(&SHOP)?;
    let c = capacity(shop.address(), SHOP.slots)?.per_second;
    verdict.say(format!(
        "shop scaled down to 40 × 50 ms: C = {c:.0}/s; {:.0}/s are offered, idle clients fill the \
         listener's {CONNECTIONS_MAX} connections; 10 probes/s, each on a new connection",
        OVERLOAD * c
    ));
    let gateway = Gateway::start(&setup(args, shop.address()))?;

    let load = Run::start(offer(gateway.address(), OVERLOAD * c, length))?;
    let (probes, found) = holding(gateway.address(), || {
        thread::sleep(MARGIN);
        let probes = Run::start(probe(gateway.address(), "/health", length))?;
        let found = watch(&gateway, length)?;
        Ok((finish(probes)?, found))
    })?;
    let loaded = finish(load)?;
    drop(gateway);
    let bare = at_the_bare_shop(c)?;

    let (sent, good) = (probes.kinds[0].total.offered, probes.kinds[0].total.good);
    let due = PROBES_PER_SECOND * length.as_secs_f64();
    verdict.add(Figure::count("probes sent", sent as f64).exactly(due));
    verdict.add(
        Figure::share(
            "probes answered 200 within a second",
            good as f64 / sent as f64,
        )
        .beside("bare shop", bare.kinds[0].total.good_share())
        .exactly(1.0),
    );
    let latency = probes.kinds[0].good;
    verdict.add(Figure::ms("probe latency p50", latency.p50_ms));
    verdict.add(Figure::ms("probe latency p99", latency.p99_ms));
    verdict.add(Figure::ms("probe latency max", latency.max_ms));
    verdict.add(
        Figure::share(
            "looks at the listener that found it at its cap",
            found.at_cap_share,
        )
        .at_least(0.9),
    );
    verdict.add(Figure::count("connections refused meanwhile", found.refused).at_least(1.0));
    verdict.add(Figure::share(
        "goodput meanwhile, of C",
        loaded.goodput(loaded.steady(0), |_| true) / c,
    ));
    Ok(verdict)
}

fn setup(args: &Args, shop: SocketAddr) -> GatewaySetup {
    let mut setup = GatewaySetup::app(shop, "workers = 40\npatience = \"1s\"");
    setup.threads = args.threads;
    // Idle clients are to stay for the whole run.
    setup.listen = format!(
        "connections_max = {CONNECTIONS_MAX}\nhead_timeout = \"5m\"\nkeep_alive_timeout = \"5m\""
    );
    setup.sections = format!(
        "[probes]\nnetworks = [\"{PROBE_SOURCE}/32\"]\npaths = [\"/health\"]\n\n{}",
        setup.sections
    );
    setup
}

fn offer(target: SocketAddr, rate: f64, length: Duration) -> LoadPlan {
    let phase = Phase::new("overload", rate, length + 2 * MARGIN);
    LoadPlan::new(
        target,
        vec![Kind::get("user", "/browse/shoes")],
        vec![phase],
    )
}

fn probe(target: SocketAddr, path: &str, length: Duration) -> LoadPlan {
    let kind = Kind::get("probe", path)
        .reuse(Reuse::Never)
        .sources(vec![PROBE_SOURCE]);
    // Half a gap more, so that the last one is not on the edge.
    let half_a_gap = Duration::from_secs_f64(0.5 / PROBES_PER_SECOND);
    let phase = Phase::new("probes", PROBES_PER_SECOND, length + half_a_gap);
    LoadPlan {
        arrivals: Arrivals::Even,
        ..LoadPlan::new(target, vec![kind], vec![phase])
    }
}

/// What was seen of the listener.
struct Found {
    at_cap_share: f64,
    refused: f64,
}

/// Looks at the listener's gauges once a second for `length`.
fn watch(gateway: &Gateway, length: Duration) -> anyhow::Result<Found> {
    let before = gateway.metrics()?;
    let looks = length.as_secs().max(1);
    let mut at_cap = 0;
    for _ in 0..looks {
        thread::sleep(Duration::from_secs(1));
        let metrics = gateway.metrics()?;
        let normal = metrics.sum("tidegate_client_connections", &[("kind", "normal")]);
        at_cap += u64::from(normal >= CONNECTIONS_MAX as f64);
    }
    let since = gateway.metrics()?.since(&before);
    Ok(Found {
        at_cap_share: at_cap as f64 / looks as f64,
        refused: since.sum("tidegate_connections_refused_total", &[]),
    })
}

/// Does `work` while idle clients take every connection that the listener still accepts.
fn holding<T>(target: SocketAddr, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let holder = scope.spawn(|| hold(target, &over));
        let result = work();
        over.store(true, Ordering::Release);
        let held = holder.join();
        held.unwrap_or_else(|_| Err(anyhow::anyhow!("the idle clients' thread panicked")))?;
        result
    })
}

/// Opens a connection whenever there is room for one, until it is `over`.
fn hold(target: SocketAddr, over: &AtomicBool) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut held = tokio::task::JoinSet::new();
        while !over.load(Ordering::Acquire) {
            // One that the gateway closes makes room for another try.
            while held.try_join_next().is_some() {}
            if held.len() < CONNECTIONS_MAX {
                held.spawn(async move {
                    let mut client = raw::Client::connect(target).await?;
                    client.wait_for_close().await
                });
            }
            tokio::time::sleep(HOLD_INTERVAL).await;
        }
    });
    Ok(())
}

/// The same probes at the shop itself, whose health page is served by the same workers.
fn at_the_bare_shop(c: f64) -> anyhow::Result<Report> {
    let shop = ShopProcess::open(&SHOP)?;
    let load = Run::start(offer(shop.address(), OVERLOAD * c, BARE_LENGTH))?;
    thread::sleep(MARGIN);
    let probes = Run::start(probe(shop.address(), "/health", BARE_LENGTH))?;
    let probes = finish(probes)?;
    match finish(load) {
        Err(error) if !error.is::<Invalid>() => Err(error),
        // The load only has to be far too much; it need not be exact.
        _ => Ok(probes),
    }
}

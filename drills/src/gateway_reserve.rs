//! Checkout's own slots while hung browsing holds every other one.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tidegate_lab::load::{Kind, LoadPlan, Patience, Phase, Request, Run, raw};
use tidegate_lab::report::Table;

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, Metrics, ShopProcess, ShopSetup, Verdict,
};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "gateway-reserve",
    promise: "a checkout burst as large as its reserve starts at once while browsing hangs",
    takes: Duration::from_secs(6),
    run,
};

const SHOP: ShopSetup = ShopSetup::new(50, 50);
/// Slots reserved for checkout, and how many checkouts come at once.
const BURST: u32 = 20;
/// Bursts, one after the other.
const BURSTS: u32 = 20;
/// How long a hung browse call holds its slot: longer than a run lasts.
const HANG: &str = "/hang?ms=30000";
/// Hung calls that come each second; they hold all they may within one.
const HANGING_RATE: f64 = 100.0;
/// How long a checkout is waited for.
const CHECKOUT_PATIENCE: Duration = Duration::from_secs(2);
/// Longest wait until the hung calls hold all that they can get.
const FILL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two looks at that.
const FILL_INTERVAL: Duration = Duration::from_millis(500);

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    verdict.say(format!(
        "shop of 50 × 50 ms; browse calls hang for 30 s; {BURST} checkouts come at once"
    ));
    let strict = "[app.reserve.critical]\nslots = 20\nloan = \"strict\"\n";
    let lent = "[app.reserve.critical]\nslots = 20\nloan = \"lent\"\n";
    let strict = bursts(args, strict, BURSTS)?;
    let lent = bursts(args, lent, 1)?;
    let none = bursts(args, "", 1)?;

    let mut table = Table::new([
        "reserve",
        "hung",
        "checkouts",
        "at once",
        "waited",
        "refused",
        "in time",
    ]);
    for (name, found) in [("strict", &strict), ("lent", &lent), ("none", &none)] {
        let cells = [
            found.hung,
            found.checkouts,
            found.at_once,
            found.waited,
            found.refused,
            found.starts_ms.len() as f64,
        ];
        let mut row = vec![name.to_owned()];
        row.extend(cells.iter().map(f64::to_string));
        table.row(row);
    }
    verdict.table(&table);
    for (name, found) in [("strict", &strict), ("lent", &lent), ("none", &none)] {
        if let Some(first) = found.failures.first() {
            let count = found.failures.len();
            verdict.say(format!(
                "{name}: {count} checkouts failed, the first with: {first}"
            ));
        }
    }

    let part = |found: &Found, count: f64| count / found.checkouts;
    verdict.add(
        Figure::share(
            "strict: checkouts started at once",
            part(&strict, strict.at_once),
        )
        .beside("lent", part(&lent, lent.at_once))
        .beside("no reserve", part(&none, none.at_once))
        .exactly(1.0),
    );
    verdict.add(
        Figure::count("strict: checkouts that entered the queue", strict.waited)
            .beside("lent", lent.waited)
            .beside("no reserve", none.waited)
            .exactly(0.0),
    );
    verdict.add(
        Figure::share(
            "strict: checkouts answered in time",
            part(&strict, strict.starts_ms.len() as f64),
        )
        .beside("lent", part(&lent, lent.starts_ms.len() as f64))
        .beside("no reserve", part(&none, none.starts_ms.len() as f64))
        .exactly(1.0),
    );
    verdict.add(Figure::ms(
        "strict: start p99 (time to the answer less the service time)",
        p99(&strict.starts_ms),
    ));
    Ok(verdict)
}

/// What became of the checkouts.
struct Found {
    hung: f64,
    checkouts: f64,
    at_once: f64,
    waited: f64,
    refused: f64,
    /// Of those answered in time: how long until the shop began with them.
    starts_ms: Vec<f64>,
    /// Of the others: what came instead.
    failures: Vec<String>,
}

fn bursts(args: &Args, reserve: &str, count: u32) -> anyhow::Result<Found> {
    let shop = ShopProcess::open(&SHOP)?;
    let app = format!(
        "workers = 50\npatience = \"1m\"\n\n{reserve}\n[[app.route]]\nname = \"checkout\"\n\
         path = \"/checkout/**\"\nclass = \"critical\"\npatience = \"2s\"\n"
    );
    let gateway = Gateway::start(&GatewaySetup {
        threads: args.threads,
        ..GatewaySetup::app(shop.address(), &app)
    })?;
    let hanging = Kind::get("browse", HANG).patience(Patience::of(Duration::from_secs(60)));
    let phase = Phase::new("hanging", HANGING_RATE, Duration::from_secs(60));
    // Dropped with the rest at the end; what its visitors get is of no interest.
    let _hanging = Run::start(LoadPlan::new(gateway.address(), vec![hanging], vec![phase]))?;
    let before = filled(&gateway)?;

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (mut starts_ms, mut failures) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let burst = burst(gateway.address(), &mut failures);
        starts_ms.extend(runtime.block_on(burst)?);
    }
    let after = gateway.metrics()?;
    let counted = after.since(&before);
    let admitted = |how| {
        counted.sum(
            "tidegate_admitted_total",
            &[("class", "critical"), ("how", how)],
        )
    };
    Ok(Found {
        hung: anonymous_inside(&after),
        checkouts: f64::from(count * BURST),
        at_once: admitted("at_once"),
        waited: admitted("waited"),
        refused: counted.sum("tidegate_refused_total", &[("class", "critical")]),
        starts_ms,
        failures,
    })
}

/// Waits until the hung calls hold all that they can get: their number no longer grows.
fn filled(gateway: &Gateway) -> anyhow::Result<Metrics> {
    let until = Instant::now() + FILL_TIMEOUT;
    let mut inside = 0.0;
    while Instant::now() < until {
        std::thread::sleep(FILL_INTERVAL);
        let metrics = gateway.metrics()?;
        let now = anonymous_inside(&metrics);
        if now > 0.0 && now == inside {
            return Ok(metrics);
        }
        inside = now;
    }
    anyhow::bail!("hung calls hold {inside} slots after {FILL_TIMEOUT:?}, and still more each time")
}

fn anonymous_inside(metrics: &Metrics) -> f64 {
    metrics.sum("tidegate_in_flight", &[("class", "anonymous")])
}

/// All checkouts of one burst at once, each on a connection that exists already. How long each of
/// those answered in time took to start.
async fn burst(target: SocketAddr, failures: &mut Vec<String>) -> anyhow::Result<Vec<f64>> {
    let mut clients = Vec::new();
    for _ in 0..BURST {
        let client = raw::Client::connect(target).await;
        clients.push(client.context("a checkout cannot connect")?);
    }
    let checkouts: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            tokio::spawn(async move {
                let begun = Instant::now();
                let request = Request::post("/checkout/pay", 64);
                let answer = tokio::time::timeout(CHECKOUT_PATIENCE, client.ask(&request)).await;
                match answer {
                    Ok(Ok(answer)) if answer.status == 200 => Ok(begun.elapsed()),
                    Ok(Ok(answer)) => Err(answer.status.to_string()),
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(_) => Err("no answer in time".to_owned()),
                }
            })
        })
        .collect();
    let mut starts_ms = Vec::new();
    for checkout in checkouts {
        match checkout.await? {
            Ok(took) => starts_ms.push(took.as_secs_f64() * 1_000.0 - SHOP.service_ms as f64),
            Err(why) => failures.push(why),
        }
    }
    Ok(starts_ms)
}

fn p99(times_ms: &[f64]) -> f64 {
    let mut sorted = times_ms.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * 0.99).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or(f64::NAN)
}

//! Nothing leaks: after thousands of requests that broke off anywhere, every count of what is going
//! on is back at zero, and everybody who arrived is accounted for.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_lab::load::Request;
use tidegate_lab::load::raw::{self, AbortAt};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, Metrics, ShopProcess, ShopSetup, Verdict, wait_for,
};

const REQUESTS: u32 = 10_000;
/// Clients at once: more than can be inside and wait, so that some are refused.
const CLIENTS: u32 = 80;
const WORKERS: u32 = 20;
const QUEUE_MAX: u32 = 40;
const SERVICE_MS: u64 = 10;
const BODY_BYTES: usize = 24 * 1024;
/// The longest a client waits before it leaves: queue and service are shorter and longer than that.
const WAIT_MS_MAX: u64 = 60;
/// Longest wait of a client for something that does not come.
const CLIENT_TIME_MAX: Duration = Duration::from_secs(20);

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "gateway-leaks",
    promise: "after 10,000 requests broken off at random nothing is in flight, queued, busy or open",
    takes: Duration::from_secs(10),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    for policy in ["hold", "free"] {
        let shop = ShopProcess::open(&ShopSetup::new(WORKERS, SERVICE_MS))?;
        let keys =
            format!("workers = {WORKERS}\nqueue_max = {QUEUE_MAX}\non_client_gone = \"{policy}\"");
        let mut setup = GatewaySetup::app(shop.address(), &keys);
        setup.threads = args.threads;
        let gateway = Gateway::start(&setup)?;

        let finished = break_off(gateway.address())?;
        verdict.add(Figure::count(
            format!("{policy}: of {REQUESTS} requests, stayed to the end"),
            f64::from(finished),
        ));
        wait_for("the application is idle", || {
            let stats = shop.stats()?;
            Ok(stats.inside == 0 && stats.busy == 0)
        })?;
        add_leftovers(&mut verdict, policy, &settled(&gateway)?);
    }
    Ok(verdict)
}

/// The metrics once they say that nothing is going on, or as they are when that does not come.
fn settled(gateway: &Gateway) -> anyhow::Result<Metrics> {
    // The last answers are still being read and connections closed when the application is idle.
    // What never comes to nothing shows in the figures.
    let _ = wait_for("nothing is going on", || {
        let metrics = gateway.metrics()?;
        Ok(GAUGES.iter().all(|gauge| gauge.of(&metrics) == 0.0))
    });
    gateway.metrics()
}

struct Gauge {
    what: &'static str,
    name: &'static str,
    labels: &'static [(&'static str, &'static str)],
}

const GAUGES: [Gauge; 6] = [
    Gauge {
        what: "in flight",
        name: "tidegate_in_flight",
        labels: &[],
    },
    Gauge {
        what: "queued",
        name: "tidegate_queue_length",
        labels: &[],
    },
    Gauge {
        what: "bytes queued",
        name: "tidegate_queue_bytes",
        labels: &[],
    },
    Gauge {
        what: "busy upstream connections",
        name: "tidegate_upstream_connections",
        labels: &[("state", "busy")],
    },
    Gauge {
        what: "bytes of answers buffered",
        name: "tidegate_response_buffer_bytes",
        labels: &[],
    },
    Gauge {
        what: "client connections",
        name: "tidegate_client_connections",
        labels: &[],
    },
];

/// Reasons for which Tidegate answers what it had admitted.
const AFTER_ADMISSION: [&str; 6] = [
    "body_timeout",
    "upstream_connect",
    "upstream_connections",
    "upstream_invalid",
    "upstream_reset",
    "upstream_timeout",
];

impl Gauge {
    fn of(&self, metrics: &Metrics) -> f64 {
        metrics.sum(self.name, self.labels)
    }
}

fn add_leftovers(verdict: &mut Verdict, policy: &str, metrics: &Metrics) {
    for gauge in &GAUGES {
        let left = Figure::count(format!("{policy}: {}", gauge.what), gauge.of(metrics));
        verdict.add(left.exactly(0.0));
    }
    let total = |name| metrics.sum(name, &[]);
    let arrived = total("tidegate_arrivals_total");
    let admitted = total("tidegate_admitted_total");
    let after: f64 = AFTER_ADMISSION
        .iter()
        .map(|reason| metrics.sum("tidegate_refused_total", &[("reason", reason)]))
        .sum();
    let refused = total("tidegate_refused_total") - after;
    verdict.add(
        Figure::count(
            format!("{policy}: arrived, neither admitted nor refused"),
            arrived - admitted - refused,
        )
        .exactly(0.0)
        .beside("admitted", admitted)
        .beside("refused", refused),
    );
    verdict.add(
        Figure::count(
            format!("{policy}: admitted and not completed"),
            admitted - total("tidegate_completions_total"),
        )
        .exactly(0.0),
    );
}

/// Sends all requests, most of which break off somewhere; says how many did not.
fn break_off(target: SocketAddr) -> anyhow::Result<u32> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(async {
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            clients.spawn(client(target, number));
        }
        clients.join_all().await.into_iter().sum()
    }))
}

/// One client's part of the requests, one after the other.
async fn client(target: SocketAddr, number: u32) -> u32 {
    // The same order in every run: a multiplicative generator is random enough to mix phases.
    let mut state = u64::from(number) * 2 + 1;
    let mut finished = 0;
    for _ in 0..REQUESTS / CLIENTS {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let draw = state >> 33;
        let request = match draw % 4 {
            0 => Request::get("/browse/1"),
            1 => Request::get("/page?bytes=200000"),
            2 => Request::post("/checkout", BODY_BYTES),
            _ => Request::post("/checkout", 10),
        };
        let at = match draw / 4 % 8 {
            0 => AbortAt::Connected,
            1 => AbortAt::HalfHead,
            2 => AbortAt::Head,
            3 => AbortAt::HalfBody,
            4 | 5 => AbortAt::Waiting(Duration::from_millis(draw / 32 % WAIT_MS_MAX)),
            6 => AbortAt::Answering,
            _ => {
                let answer = timeout(CLIENT_TIME_MAX, raw::ask(target, &request)).await;
                finished += u32::from(matches!(answer, Ok(Ok(_))));
                continue;
            }
        };
        // That the gateway may have closed first is as good as any other end.
        let _ = timeout(CLIENT_TIME_MAX, raw::abort(target, &request, at)).await;
    }
    finished
}

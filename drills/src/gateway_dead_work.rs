//! Work that nobody waits for never reaches the application.
//!
//! All workers hang, so whatever comes is refused at once or waits. Each case sends 1,000 requests
//! of its own path; the application counts what it receives by path, the gateway what it refuses by
//! reason. Beside it: the bare application starts each of them, for nobody.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use tidegate_lab::load::Request;
use tidegate_lab::load::raw::Client;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, Invalid, ShopProcess, ShopSetup, Verdict, wait_for,
};

/// Requests of each case.
const REQUESTS: usize = 1_000;
const WORKERS: u32 = 4;
/// For longer than the cases take.
const HANG: &str = "/hang?ms=30000";
/// The peer whose headers are believed, and one whose are not.
const TRUSTED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const UNTRUSTED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
/// How long those whose time runs out in the queue still wait.
const WAIT_MS: u64 = 1_500;
/// Half of a body that may be read while its request waits.
const HALF_BODY_BYTES: usize = 16 * 1024;
/// Longest wait for an answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);
/// How long the bare application's workers hang before it comes to the dead requests.
const BARE_HANG_MS: u64 = 2_000;

/// One way to be dead.
struct Case {
    name: &'static str,
    reason: &'static str,
    from: IpAddr,
    request: Request,
    /// Bytes of the body that are sent.
    body_bytes: usize,
    ending: Ending,
}

#[derive(Clone, Copy, PartialEq)]
enum Ending {
    /// It stays and gets its answer.
    Answered,
    /// It leaves once it is queued.
    Leaves,
}

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "gateway-dead-work",
    promise: "what nobody waits for is never forwarded, and counted under its own reason",
    takes: Duration::from_secs(40),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let dead = bare(&runtime)?;

    let shop = ShopProcess::open(&ShopSetup::new(WORKERS, 1))?;
    let gateway = Gateway::start(&setup(shop.address()))?;
    let _hanging = hang(&runtime, gateway.address(), HANG)?;
    wait_for("the workers hang", || Ok(shop.stats()?.busy == WORKERS))?;

    let cases = cases()?;
    for case in &cases {
        let before = gateway.metrics()?;
        show(case, &runtime, &gateway)?;
        let counted = gateway.metrics()?.since(&before);
        let refused = |labels: &[(&str, &str)]| counted.sum("tidegate_refused_total", labels);
        let name = case.name;
        let reason = case.reason;
        verdict.add(
            Figure::count(
                format!("{name}: refused as {reason}"),
                refused(&[("reason", reason)]),
            )
            .exactly(REQUESTS as f64),
        );
        verdict.add(Figure::count(
            format!("{name}: refused in all"),
            refused(&[]),
        ));
    }
    if shop.stats()?.busy != WORKERS {
        return Err(Invalid("the cases took longer than the workers hung".to_owned()).into());
    }

    // Now that there are free workers again, a request that was only thought to be dead would start.
    wait_for("the workers are done", || Ok(shop.stats()?.inside == 0))?;
    let received = shop.stats()?.received;
    for case in &cases {
        let received = received.get(&case.request.path).copied().unwrap_or(0);
        verdict.add(
            Figure::count(
                format!("{}: received by the application", case.name),
                received as f64,
            )
            .beside("bare, started for nobody", dead as f64)
            .exactly(0.0),
        );
    }
    Ok(verdict)
}

fn setup(shop: SocketAddr) -> GatewaySetup {
    let mut setup = GatewaySetup::app(
        shop,
        &format!(
            "workers = {WORKERS}
hold = \"1m\"
response_timeout = \"10m\"

[[app.route]]
name = \"impatient\"
path = \"/impatient\"
patience = \"{WAIT_MS}ms\"

[[app.route]]
name = \"hang\"
path = \"/hang\"
patience = \"1h\""
        ),
    );
    setup.sections += &format!("\n[trust]\nproxies = [\"{TRUSTED}/32\"]\n");
    setup
}

fn cases() -> anyhow::Result<Vec<Case>> {
    let a_minute_ago = SystemTime::now().duration_since(UNIX_EPOCH)? - Duration::from_secs(60);
    let with = |path, name: &str, value: String| {
        let mut request = Request::get(path);
        request.headers.push((name.to_owned(), value));
        request
    };
    let case = |name, reason, from, request, ending| Case {
        name,
        reason,
        from,
        request,
        body_bytes: 0,
        ending,
    };
    Ok(vec![
        case(
            "no time left",
            "expired",
            TRUSTED,
            with("/expired", "Tidegate-Timeout-Ms", "0".to_owned()),
            Ending::Answered,
        ),
        case(
            "waited too long before us",
            "expired",
            TRUSTED,
            with(
                "/waited",
                "X-Request-Start",
                format!("t={}", a_minute_ago.as_millis()),
            ),
            Ending::Answered,
        ),
        case(
            "header's time ends in the queue",
            "expired_in_queue",
            TRUSTED,
            with("/timeout", "Tidegate-Timeout-Ms", WAIT_MS.to_string()),
            Ending::Answered,
        ),
        case(
            "route's patience ends in the queue",
            "expired_in_queue",
            UNTRUSTED,
            Request::get("/impatient"),
            Ending::Answered,
        ),
        case(
            "client leaves the queue",
            "client_gone",
            UNTRUSTED,
            Request::get("/gone"),
            Ending::Leaves,
        ),
        Case {
            body_bytes: HALF_BODY_BYTES,
            ..case(
                "client leaves the queue inside its body",
                "client_gone",
                UNTRUSTED,
                Request::post("/gone-inside", 2 * HALF_BODY_BYTES),
                Ending::Leaves,
            )
        },
    ])
}

/// Sends the requests of `case` and waits until all of them have ended.
fn show(case: &Case, runtime: &Runtime, gateway: &Gateway) -> anyhow::Result<()> {
    let queued = |wanted: usize| {
        let what = format!("{wanted} requests are queued ({})", case.name);
        wait_for(&what, || {
            let metrics = gateway.metrics()?;
            Ok(metrics.sum("tidegate_queue_length", &[]) == wanted as f64)
        })
    };
    let clients = runtime.block_on(send(case, gateway.address()))?;
    match case.ending {
        Ending::Answered => {
            let reasons = runtime.block_on(answers(clients))?;
            let right = reasons.iter().filter(|reason| *reason == case.reason);
            ensure!(
                right.count() == REQUESTS,
                "{}: not every answer says {}",
                case.name,
                case.reason
            );
        }
        Ending::Leaves => {
            queued(REQUESTS)?;
            drop(clients);
        }
    }
    queued(0)
}

/// All requests of `case`, each on a connection of its own.
async fn send(case: &Case, target: SocketAddr) -> anyhow::Result<Vec<Client>> {
    let mut bytes = case.request.head(&target.to_string());
    bytes.extend_from_slice(&case.request.body[..case.body_bytes]);
    let mut clients = Vec::new();
    for _ in 0..REQUESTS {
        let mut client = Client::connect_from(case.from, target).await?;
        client.send(&bytes).await?;
        clients.push(client);
    }
    Ok(clients)
}

/// The reasons that the answers give.
async fn answers(clients: Vec<Client>) -> anyhow::Result<Vec<String>> {
    let mut waiting = JoinSet::new();
    for mut client in clients {
        waiting.spawn(async move {
            let answer = tokio::time::timeout(ANSWER_TIME_MAX, client.answer()).await??;
            let reason = answer.headers.get("tidegate-reason");
            let reason = reason.and_then(|reason| reason.to_str().ok());
            anyhow::Ok(reason.unwrap_or("none").to_owned())
        });
    }
    waiting.join_all().await.into_iter().collect()
}

/// Fills all workers with requests for `path`.
fn hang(runtime: &Runtime, target: SocketAddr, path: &str) -> anyhow::Result<Vec<Client>> {
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..WORKERS {
            let mut client = Client::connect(target).await?;
            let request = Request::get(path);
            client.send(&request.bytes(&target.to_string())).await?;
            clients.push(client);
        }
        Ok(clients)
    })
}

/// How many requests of clients who had left the bare application starts.
fn bare(runtime: &Runtime) -> anyhow::Result<u64> {
    let shop = ShopProcess::open(&ShopSetup::new(WORKERS, 1))?;
    let _hanging = hang(runtime, shop.address(), &format!("/hang?ms={BARE_HANG_MS}"))?;
    wait_for("the bare application's workers hang", || {
        Ok(shop.stats()?.busy == WORKERS)
    })?;
    let cases = cases()?;
    let gone = cases
        .iter()
        .find(|case| case.ending == Ending::Leaves)
        .context("a case in which clients leave")?;
    drop(runtime.block_on(send(gone, shop.address()))?);
    let all = u64::from(WORKERS) + REQUESTS as u64;
    wait_for("the bare application has done them all", || {
        Ok(shop.stats()?.finished == all)
    })?;
    Ok(shop.stats()?.started_dead)
}

//! Visitors who lose patience and send again do not fill a blocking application with dead work.
//!
//! A worker that blocks goes on working when its client has left. So the slot stays taken until the
//! answer has ended, and no more requests are ever inside than there are workers, however often
//! everybody sends again. With `free`, for applications that stop, the slots do not say that.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_lab::load::Request;
use tidegate_lab::load::raw::Client;
use tidegate_lab::shop::ShopStats;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::harness::{Args, Drill, Figure, Gateway, GatewaySetup, ShopProcess, ShopSetup, Verdict};

const WORKERS: u32 = 20;
/// Longer than anybody waits.
const SERVICE_MS: u64 = 5_000;
const VISITORS: u32 = 200;
/// How long a visitor waits before it sends again.
const PATIENCE: Duration = Duration::from_secs(2);
const SECONDS: u64 = 21;
/// Bytes of the body that every other visitor sends.
const BODY_BYTES: usize = 4 * 1024;

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "gateway-client-gone",
    promise: "visitors who abort and send again never put more inside the app than it has workers",
    takes: Duration::from_secs(65),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let length = args.length(SECONDS);

    let shop = open()?;
    let bare = insist(shop.address(), &shop, length)?;
    drop(shop);
    let hold = protected("hold", length)?;
    let free = protected("free", length)?;

    verdict.add(
        Figure::count("most inside the application", hold.inside_max as f64)
            .at_most(f64::from(WORKERS))
            .beside("free", free.inside_max as f64)
            .beside("bare", bare.inside_max as f64),
    );
    // Every worker had a second job at least: slots are kept, not lost.
    verdict.add(
        Figure::count("jobs started", hold.started as f64)
            .at_least(f64::from(2 * WORKERS))
            .beside("free", free.started as f64)
            .beside("bare", bare.started as f64),
    );
    Ok(verdict)
}

fn open() -> anyhow::Result<ShopProcess> {
    ShopProcess::open(&ShopSetup::new(WORKERS, SERVICE_MS))
}

fn protected(policy: &str, length: Duration) -> anyhow::Result<ShopStats> {
    let shop = open()?;
    let keys = format!("workers = {WORKERS}\non_client_gone = \"{policy}\"");
    let gateway = Gateway::start(&GatewaySetup::app(shop.address(), &keys))?;
    insist(gateway.address(), &shop, length)
}

/// Lets all visitors send again and again for `length`, and says what the application saw.
fn insist(target: SocketAddr, shop: &ShopProcess, length: Duration) -> anyhow::Result<ShopStats> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let begin = Instant::now();
        let mut visitors = JoinSet::new();
        for number in 0..VISITORS {
            // Not all in the same moment, as nobody tells them to.
            let first = begin + PATIENCE.mul_f64(f64::from(number) / f64::from(VISITORS));
            visitors.spawn(send_again(target, number, first, begin + length));
        }
        visitors
            .join_all()
            .await
            .into_iter()
            .collect::<Result<(), _>>()
    })?;
    shop.stats()
}

async fn send_again(
    target: SocketAddr,
    number: u32,
    first: Instant,
    until: Instant,
) -> std::io::Result<()> {
    let request = match number % 2 {
        0 => Request::get("/browse/again"),
        _ => Request::post("/browse/again", BODY_BYTES),
    };
    let bytes = request.bytes(&target.to_string());
    let mut next = first;
    while next < until {
        sleep_until(next).await;
        next += PATIENCE;
        let mut client = Client::connect(target).await?;
        client.send(&bytes).await?;
        // An answer or a refusal is no reason to come back earlier.
        let _ = timeout_at(next, client.answer()).await;
        // Half of them hang up, the others vanish.
        if number % 4 < 2 {
            client.reset()?;
        }
    }
    Ok(())
}

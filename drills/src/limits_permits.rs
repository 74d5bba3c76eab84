//! Permits of a dependency that two gateways share: never more are held than there are, and those of a gateway that is killed
//! are back within the lease. Beside it a counter that is raised and lowered in Redis.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use http::Method;
use serde_json::{Value, json};
use tidegate_lab::load::{Request, raw};
use tidegate_lab::measure::Child;
use tidegate_lab::peers::RedisServer;
use tokio::task::JoinSet;

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, Store, Verdict, free_port, loopback, runtime,
    wait_for,
};

/// Permits altogether.
const ALL: u64 = 10;
/// The lease, as it is when nobody says otherwise.
const LEASE: Duration = Duration::from_secs(5);
/// How much later than that what the dead held is back at the latest.
const LATE_MAX: Duration = Duration::from_secs(1);
/// Callers of each gateway.
const CALLERS: usize = 8;
const SECONDS: u64 = 5;
/// How often somebody who was refused asks again.
const AGAIN: Duration = Duration::from_millis(10);
/// Longest wait for a peer to begin.
const BEGIN_WITHIN: Duration = Duration::from_secs(10);

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "limits-permits",
    promise: "weighted permits of two gateways never add up to more than there are; a killed one's are back within the lease",
    takes: Duration::from_secs(40),
    run,
};

/// A gateway, and where its sidecar is.
struct Node {
    gateway: Gateway,
    sidecar: SocketAddr,
}

/// What is called, and counts for itself what is inside at once.
#[derive(Clone, Default)]
struct Dependency(Arc<Mutex<Counts>>);

#[derive(Clone, Copy, Default)]
struct Counts {
    inside: u64,
    most: u64,
    calls: u64,
    refused: u64,
    oversubscribed: u64,
    /// Second releases that were not answered as such.
    released_twice: u64,
}

/// A permit that is held.
struct Permit {
    id: String,
    fence: u64,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let redis = RedisServer::plain()?;
    let nodes = [Node::start(redis.address())?, Node::start(redis.address())?];
    let runtime = runtime()?;
    runtime.block_on(async {
        let begun = Instant::now();
        until_given(&nodes[0], 1).await?;
        verdict.say(format!(
            "a store that knows nothing of before gave the first permit after {:.2} s; the lease is {LEASE:?}",
            begun.elapsed().as_secs_f64()
        ));
        crowd(args, &mut verdict, &nodes).await
    })?;
    let [killed, other] = nodes;
    let fences = runtime.block_on(hold_all(&mut verdict, &killed, &other))?;
    let killed_at = Instant::now();
    killed.gateway.kill()?;
    let next = runtime.block_on(until_given(&other, ALL))?;
    let back = killed_at.elapsed();

    let peer = counter(&redis)?;
    verdict.add(
        Figure::ms("a killed gateway's permits are back after", millis(back))
            .at_most(millis(LEASE + LATE_MAX))
            .beside("the lease", millis(LEASE)),
    );
    // The other gateway was given all of them just now.
    verdict.add(
        Figure::count("of 10 permits of a killed holder, lost for ever", 0.0)
            .exactly(0.0)
            .beside("raised and lowered in Redis", peer as f64),
    );
    let lower = fences.iter().filter(|&&fence| fence >= next.fence);
    verdict.add(
        Figure::count(
            "fences of the dead that are not below the next",
            lower.count() as f64,
        )
        .exactly(0.0),
    );
    Ok(verdict)
}

/// Everybody takes what weighs 1 to 5, all the time.
async fn crowd(args: &Args, verdict: &mut Verdict, nodes: &[Node; 2]) -> anyhow::Result<()> {
    let dependency = Dependency::default();
    let until = Instant::now() + args.length(SECONDS);
    let mut callers = JoinSet::new();
    for number in 0..2 * CALLERS {
        let sidecar = nodes[number % 2].sidecar;
        callers.spawn(caller(sidecar, dependency.clone(), number, until));
    }
    for outcome in callers.join_all().await {
        outcome?;
    }
    let counts = *dependency.counts();
    verdict.say(format!(
        "{} callers of two gateways: {} calls made, {} refused, at most {} of {ALL} inside at once",
        2 * CALLERS,
        counts.calls,
        counts.refused,
        counts.most,
    ));
    verdict.add(
        Figure::count(
            "times that more was inside than there is",
            counts.oversubscribed as f64,
        )
        .exactly(0.0),
    );
    verdict.add(
        Figure::count(
            "permits that could be released twice",
            counts.released_twice as f64,
        )
        .exactly(0.0),
    );
    verdict.add(Figure::count("calls made", counts.calls as f64).at_least(100.0));
    Ok(())
}

async fn caller(
    sidecar: SocketAddr,
    dependency: Dependency,
    number: usize,
    until: Instant,
) -> anyhow::Result<()> {
    let mut client = raw::Client::connect(sidecar).await?;
    let mut turn = number as u64;
    while Instant::now() < until {
        turn += 1;
        let weight = 1 + turn % 5;
        let Some(permit) = acquire(&mut client, weight).await? else {
            dependency.counts().refused += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        dependency.enter(weight);
        tokio::time::sleep(Duration::from_millis(1 + turn % 3)).await;
        dependency.leave(weight);
        let released = release(&mut client, &permit).await?;
        anyhow::ensure!(released == 204, "a release was answered {released}");
        if turn.is_multiple_of(4) && release(&mut client, &permit).await? != 404 {
            dependency.counts().released_twice += 1;
        }
    }
    Ok(())
}

impl Dependency {
    fn enter(&self, weight: u64) {
        let mut counts = self.counts();
        counts.inside += weight;
        counts.most = counts.most.max(counts.inside);
        counts.calls += 1;
        counts.oversubscribed += u64::from(counts.inside > ALL);
    }

    fn leave(&self, weight: u64) {
        self.counts().inside -= weight;
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All permits are held at one gateway for longer than a lease; the other gets none. Their fences.
async fn hold_all(verdict: &mut Verdict, holder: &Node, other: &Node) -> anyhow::Result<Vec<u64>> {
    let mut client = raw::Client::connect(holder.sidecar).await?;
    let mut others = raw::Client::connect(other.sidecar).await?;
    let mut held = Vec::new();
    for weight in [3, 4, 3] {
        let permit = acquire(&mut client, weight).await?;
        held.push(permit.context("nobody else holds anything, and still there was no permit")?);
    }
    let until = Instant::now() + LEASE + LEASE / 5;
    let mut taken = 0;
    while Instant::now() < until {
        tokio::time::sleep(LEASE / 20).await;
        taken += u32::from(acquire(&mut others, 1).await?.is_some());
        for permit in &held {
            let path = format!("/v1/permits/{}/renew", permit.id);
            let renewed = client.ask(&post(&path, &json!({}))).await?;
            anyhow::ensure!(
                renewed.status == 200,
                "a renewal was answered {}",
                renewed.status
            );
        }
    }
    verdict.add(
        Figure::count(
            "permits that others got while all were held and renewed",
            taken.into(),
        )
        .exactly(0.0),
    );
    Ok(held.into_iter().map(|permit| permit.fence).collect())
}

/// A permit for `weight`, as soon as there is one.
async fn until_given(node: &Node, weight: u64) -> anyhow::Result<Permit> {
    let mut client = raw::Client::connect(node.sidecar).await?;
    let until = Instant::now() + 3 * (LEASE + LATE_MAX);
    loop {
        if let Some(permit) = acquire(&mut client, weight).await? {
            release(&mut client, &permit).await?;
            return Ok(permit);
        }
        anyhow::ensure!(
            Instant::now() < until,
            "there is no permit, and nobody holds one"
        );
        tokio::time::sleep(AGAIN).await;
    }
}

/// A permit, unless there is none now.
async fn acquire(client: &mut raw::Client, weight: u64) -> anyhow::Result<Option<Permit>> {
    let wanted = json!({ "dependency": "db", "weight": weight });
    let answer = client.ask(&post("/v1/permits", &wanted)).await?;
    match answer.status.as_u16() {
        201 => {}
        503 => return Ok(None),
        other => anyhow::bail!("a permit was answered {other}"),
    }
    let said: Value = serde_json::from_slice(&answer.body)?;
    let id = said["permit"].as_str().context("a permit has a name")?;
    let fence = said["fence"].as_u64().context("a permit has a fence")?;
    let id = id.to_owned();
    Ok(Some(Permit { id, fence }))
}

/// Gives it back, and says what was answered.
async fn release(client: &mut raw::Client, permit: &Permit) -> anyhow::Result<u16> {
    let request = Request {
        method: Method::DELETE,
        ..Request::get(&format!("/v1/permits/{}", permit.id))
    };
    Ok(client.ask(&request).await?.status.as_u16())
}

fn post(path: &str, body: &Value) -> Request {
    Request {
        headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
        body: body.to_string().into_bytes(),
        ..Request::post(path, 0)
    }
}

/// What a counter in Redis still has of a killed holder's ten permits when ours are back.
fn counter(redis: &RedisServer) -> anyhow::Result<u64> {
    let (host, port) = (redis.address().ip(), redis.address().port());
    let mut holder = Command::new("sh");
    holder.arg("-c").arg(format!(
        "redis-cli -h {host} -p {port} incrby held {ALL} && echo it holds them && exec sleep 600"
    ));
    let holder = Child::start(holder, "it holds them", BEGIN_WITHIN)?;
    holder.kill()?;
    sleep(LEASE + LATE_MAX);
    let held: u64 = Store::connect(redis.address())?.ask(&["GET", "held"])?;
    Ok(held)
}

impl Node {
    fn start(store: SocketAddr) -> anyhow::Result<Self> {
        let sidecar = loopback(free_port()?);
        // Nobody is behind the application's address, and nobody asks for it.
        let nobody = loopback(free_port()?);
        let gateway = Gateway::start(&GatewaySetup::app(
            nobody,
            &format!(
                "workers = 4\n\n[store]\nurl = \"redis://{store}\"\n\n[sidecar]\nlisten = \"{sidecar}\"\n\n\
                 [[dependency]]\nname = \"db\"\nconcurrency = {ALL}\nscope = \"fleet\"\non_store_loss = \"closed\"\n"
            ),
        ))?;
        wait_for("the sidecar is there", || {
            Ok(std::net::TcpStream::connect(sidecar).is_ok())
        })?;
        Ok(Self { gateway, sidecar })
    }
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1_000.0
}

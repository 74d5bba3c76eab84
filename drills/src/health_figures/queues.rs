//! What the kernel tells of accept queues, and what the agent makes of it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use crate::harness::{Figure, Verdict, free_port, loopback, probe, runtime};

/// What the listener is told to hold; it holds one more.
const BACKLOG: u32 = 5;
const CLIENTS: usize = 12;
/// When the kernel is asked: the first tries are over, and the clients have tried again.
const FIRST: Duration = Duration::from_millis(300);
const LATER: Duration = Duration::from_millis(3_500);
/// Each of those that found no room has tried twice more by then, or three times, as kernels differ.
const OVERFLOWS_LATER_MIN: f64 = 18.0;

/// Sockets of one address, what each holds, and clients.
const SOCKETS: usize = 3;
const BACKLOG_EACH: u32 = 4;
const CLIENTS_SPREAD: usize = 9;
/// Until a connection that is there is seen, at most.
const ACCEPT_WITHIN: Duration = Duration::from_millis(50);

/// Nobody accepts, and 12 clients come.
pub(super) fn backlog(verdict: &mut Verdict) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let (seen, first, later) = runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(loopback(0))?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let (before, begun) = (overflows()?, tokio::time::Instant::now());
        let clients = connect(address, CLIENTS);
        sleep_until(begun + FIRST).await;
        let first = overflows()? - before;
        // The agent looks meanwhile, and the clients are still there.
        let seen = tokio::task::spawn_blocking(move || look(address)).await??;
        sleep_until(begun + LATER).await;
        let later = overflows()? - before;
        drop((clients, listener));
        anyhow::Ok((seen, first, later))
    })?;
    let (pending, limit, used) = seen;
    verdict.add(
        Figure::count("listen(5), 12 clients: connections that wait", pending)
            .exactly(f64::from(BACKLOG) + 1.0)
            .beside("of", limit),
    );
    verdict.add(Figure::share("used of the queue, as the agent has it", used).exactly(1.0));
    let turned_away = CLIENTS as f64 - f64::from(BACKLOG) - 1.0;
    verdict.add(
        Figure::count("ListenOverflows after 0.3 s", first)
            .at_least(turned_away)
            .beside("clients that found no room", turned_away),
    );
    verdict.add(
        Figure::count("ListenOverflows after 3.5 s, by the same clients", later)
            .at_least(OVERFLOWS_LATER_MIN)
            .beside("expected", 24.0),
    );
    Ok(())
}

/// Three sockets at one address, filled as the kernel likes: the fullest counts.
pub(super) fn reuse_port(verdict: &mut Verdict) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let (seen, counts) = runtime.block_on(async {
        let address = loopback(free_port()?);
        let mut listeners = Vec::new();
        for _ in 0..SOCKETS {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseport(true)?;
            socket.bind(address)?;
            listeners.push(socket.listen(BACKLOG_EACH)?);
        }
        let clients = connect(address, CLIENTS_SPREAD);
        tokio::time::sleep(FIRST).await;
        let seen = tokio::task::spawn_blocking(move || look(address)).await??;
        // What was in each queue, by emptying it.
        let mut counts = Vec::new();
        for listener in &listeners {
            counts.push(accepted(listener).await?);
        }
        drop(clients);
        anyhow::Ok((seen, counts))
    })?;
    let (pending, limit, used) = seen;
    let fullest = f64::from(counts.iter().copied().max().unwrap_or(0));
    let mean = f64::from(counts.iter().sum::<u32>()) / SOCKETS as f64;
    let each: Vec<String> = counts.iter().map(u32::to_string).collect();
    verdict.say(format!(
        "three sockets of one address held {}",
        each.join("/")
    ));
    verdict.add(
        Figure::count("SO_REUSEPORT: connections in the fullest queue", pending)
            .exactly(fullest)
            .beside("of", limit)
            .beside("on average", mean),
    );
    let expected = (fullest / f64::from(BACKLOG_EACH)).min(1.0);
    verdict.add(
        Figure::share("used, as the agent has it", used)
            .exactly(expected)
            .beside("by the mean", mean / f64::from(BACKLOG_EACH)),
    );
    Ok(())
}

/// Clients that want a connection until they are dropped.
fn connect(address: SocketAddr, count: usize) -> JoinSet<Option<TcpStream>> {
    let mut clients = JoinSet::new();
    for _ in 0..count {
        // One that finds no room waits here for as long as the kernel tries.
        clients.spawn(async move {
            let stream = TcpStream::connect(address).await.ok();
            std::future::pending::<()>().await;
            stream
        });
    }
    clients
}

/// Connections that wait at `listener`.
async fn accepted(listener: &TcpListener) -> anyhow::Result<u32> {
    let mut count = 0;
    let until = Instant::now() + Duration::from_secs(5);
    while let Ok(accepted) = timeout(ACCEPT_WITHIN, listener.accept()).await {
        accepted?;
        count += 1;
        anyhow::ensure!(Instant::now() < until, "connections keep coming");
    }
    Ok(count)
}

/// What the agent sees at `address`: connections in the fullest queue, what it is told to hold, and how much of it is used.
fn look(address: SocketAddr) -> anyhow::Result<(f64, f64, f64)> {
    let seen = probe(&["--listen", &address.to_string()], 1)?;
    let number = |it: &Value| it.as_f64().context("the agent does not know");
    let signals = seen["signals"].as_array().context("no signals")?;
    let queue = signals
        .iter()
        .find(|it| it["dimension"] == "queue")
        .context("no queue")?;
    Ok((
        number(&seen["listeners"]["pending"])?,
        number(&seen["listeners"]["limit"])?,
        number(&queue["ratio"])?.min(1.0),
    ))
}

/// How often somebody found no room at a listener of this network namespace.
fn overflows() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/net/netstat")?;
    let mut rows = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = rows.next().zip(rows.next()).context("no TcpExt")?;
    let at = names
        .split_whitespace()
        .position(|name| name == "ListenOverflows");
    let value = values.split_whitespace().nth(at.context("not counted")?);
    Ok(value.context("no value")?.parse()?)
}

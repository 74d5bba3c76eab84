//! What the agent itself takes: processor time and memory, looking once a second at a machine with many connections.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tidegate_lab::measure::{self, HostTimes};

use crate::harness::{Args, Drill, Figure, Invalid, Peer, Verdict, binary};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "health-agent-cost",
    promise: "looking once a second beside 10,000 connections takes ≤ 0.3 % of a core and < 20 MB",
    takes: Duration::from_secs(30),
    run,
};

const CONNECTIONS: usize = 10_000;
const SECONDS: u64 = 20;
/// The first looks open files and make room.
const WARM_UP: Duration = Duration::from_secs(3);
const CORE_SHARE_MAX: f64 = 0.003;
const MIB_MAX: f64 = 20.0;
const STEAL_SHARE_MAX: f64 = 0.05;
/// How often the peer reads its file.
const PEER_READS: u32 = 10;

/// Ends the agent whatever happens.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    // Another process has the other ends: a machine may not let one have so many files.
    let far = Peer::answering(1, None)?;
    let address = far.address();
    let connections = (0..CONNECTIONS).map(|_| TcpStream::connect(address));
    let _connections = connections
        .collect::<Result<Vec<_>, _>>()
        .context("so many connections")?;
    let length = args.length(SECONDS);
    let host = HostTimes::now()?;

    let agent = start(address, length + 2 * WARM_UP)?;
    let pid = agent.0.id();
    std::thread::sleep(WARM_UP);
    let (before, begun) = (measure::cpu_time(pid)?, Instant::now());
    std::thread::sleep(length);
    let spent = measure::cpu_time(pid)?.saturating_sub(before);
    let share = spent.as_secs_f64() / begun.elapsed().as_secs_f64();
    let used = measure::sample(pid)?;
    let (peer, open) = peer(address)?;
    verdict.add(
        Figure::count("ends of connections that are open", open).at_least(2.0 * CONNECTIONS as f64),
    );

    let steal = HostTimes::now()?.steal_share_since(&host);
    if steal > STEAL_SHARE_MAX {
        return Err(Invalid(format!("steal {steal:.3} is over {STEAL_SHARE_MAX}")).into());
    }
    let per_look = spent.as_secs_f64() * 1e6 / length.as_secs_f64();
    verdict.add(Figure::us("processor time for each look", per_look).beside(
        "reading /proc/net/tcp, for the queue alone",
        peer.as_secs_f64() * 1e6,
    ));
    verdict.add(
        Figure::share("of a core", share)
            .beside(
                "reading /proc/net/tcp, for the queue alone",
                peer.as_secs_f64(),
            )
            .at_most(CORE_SHARE_MAX),
    );
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
    verdict.add(Figure::mib("the most memory it had", mib(used.rss_max_bytes)).below(MIB_MAX));
    verdict.say(format!(
        "{} threads, {:.1} MiB resident at the end",
        used.threads,
        mib(used.rss_bytes)
    ));
    Ok(verdict)
}

fn start(listen: SocketAddr, length: Duration) -> anyhow::Result<Ended> {
    let mut command = Command::new(binary()?);
    command.args(["agent", "probe", "--json", "--listen", &listen.to_string()]);
    command.args(["--seconds", &length.as_secs().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(Ended(command.spawn().context("the agent does not start")?))
}

/// Processor time that it takes to find one listener in the file of all connections, which does not even tell how much
/// its queue holds; and how many ends of connections are in it.
fn peer(address: SocketAddr) -> anyhow::Result<(Duration, f64)> {
    let port = format!(":{:04X} ", address.port());
    let mut open = 0;
    let before = measure::cpu_time(std::process::id())?;
    for _ in 0..PEER_READS {
        let table = std::fs::read_to_string("/proc/net/tcp")?;
        let of_it = table.lines().filter(|line| line.contains(&port));
        let (listening, others): (Vec<_>, Vec<_>) = of_it.partition(|line| line.contains(" 0A "));
        anyhow::ensure!(
            !listening.is_empty(),
            "the listener is not in /proc/net/tcp"
        );
        open = others.iter().filter(|line| line.contains(" 01 ")).count();
    }
    let spent = measure::cpu_time(std::process::id())?.saturating_sub(before);
    Ok((spent / PEER_READS, open as f64))
}

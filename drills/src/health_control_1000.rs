//! What a fleet of 1,000 nodes asks of its store and of its leader.
//!
//! The leader has a thread and a connection of its own, and so its CPU time can be told from that of the nodes, which
//! are 999 stations in another thread. Everything else is real: one Redis, a beacon a second of each, verdicts back.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tidegate_core::health::{Dimension, Load, Settings, Signal};
use tidegate_core::session::Name;
use tidegate_core::time::Mono;
use tidegate_fleet::control::{Said, Standing, Station, StationPlan, TICK};
use tidegate_lab::measure::{self, HostTimes};
use tidegate_lab::peers::RedisServer;
use tidegate_store::redis::{Address, Arrangement, Redis, RedisPlan, Use};
use tidegate_store::{Background, Call, Fleet, Issue, Node};

use crate::harness::{Args, Cores, Drill, Figure, Invalid, Verdict};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "health-control-1000",
    promise: "1,000 nodes, one leader: ≤ 2 store operations a node and second, and a leader that takes ≤ 10 % of a core",
    takes: Duration::from_secs(40),
    run,
};

const NODES: usize = 1_000;
/// Seconds that are measured, after [`WARM_UP`].
const SECONDS: u32 = 20;
const WARM_UP: u32 = 5;
/// Stations that are in their turn at the same time.
const AT_ONCE: usize = 37;
/// Workers of a node.
const WORKERS: f64 = 200.0;
const OPERATIONS_MAX: f64 = 2.0;
const LEADER_CORE_SHARE_MAX: f64 = 0.10;
const STEAL_SHARE_MAX: f64 = 0.05;
const TIMEOUT: Duration = Duration::from_millis(400);

/// What the nodes heard over the measured time.
#[derive(Default)]
struct Heard {
    turns: u64,
    from_control: u64,
    late: u64,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let cores = Cores::pick()?;
    let server = RedisServer::plain()?;
    let pid = server.pid().context("the server is up")?;
    let host = HostTimes::now()?;
    let seconds = args.rounds.unwrap_or(SECONDS).max(1);

    // The leader first, so that nobody else is it.
    let leader = Leader::start(&server, WARM_UP + seconds)?;
    measure::pin_thread(cores.others)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (fleet, _background) = fleet(&server)?;
    let mut stations: Vec<Station> = (1..NODES)
        .map(|number| station(number, false, fleet.clone()))
        .collect::<anyhow::Result<_>>()?;
    let begun = Instant::now();
    runtime.block_on(turns(&mut stations, begun, WARM_UP))?;
    let before = Sample::of(&server, pid, &leader.threads)?;
    let heard = runtime.block_on(turns(&mut stations, begun, seconds))?;
    let after = Sample::of(&server, pid, &leader.threads)?;
    let issue = runtime.block_on(fleet.published(Call::within(TIMEOUT)))?;
    let issue = issue.context("nothing was published")?;
    leader.finish()?;

    let steal = HostTimes::now()?.steal_share_since(&host);
    if steal > STEAL_SHARE_MAX {
        return Err(Invalid(format!("steal {steal:.3} is over {STEAL_SHARE_MAX}")).into());
    }
    if heard.late * 20 > heard.turns {
        let share = heard.late as f64 / heard.turns as f64;
        return Err(Invalid(format!("{share:.3} of the turns came over a second late")).into());
    }
    spent(&mut verdict, &before, &after, &issue);
    verdict.add(
        Figure::count("nodes with a verdict", issue.verdicts.len() as f64).exactly(NODES as f64),
    );
    verdict.add(
        Figure::share(
            "of the turns in which a node went by the leader's word",
            heard.from_control as f64 / heard.turns as f64,
        )
        .at_least(0.99),
    );
    Ok(verdict)
}

/// What was spent between the two.
fn spent(verdict: &mut Verdict, before: &Sample, after: &Sample, issue: &Issue) {
    let span = (after.at - before.at).as_secs_f64();
    let operations = (after.calls - before.calls) as f64 / span;
    let whole: usize = issue.verdicts.values().map(Vec::len).sum::<usize>()
        + issue
            .verdicts
            .keys()
            .map(|name| name.as_str().len())
            .sum::<usize>();
    let read = (after.bytes_out - before.bytes_out) as f64 / span;
    verdict.add(Figure::per_second(
        "store operations in a second",
        operations,
    ));
    verdict.add(Figure::ratio("for each node", operations / NODES as f64).at_most(OPERATIONS_MAX));
    verdict.add(
        Figure::per_second("bytes that the store says in a second", read)
            .beside("if every node read all verdicts", (whole * NODES) as f64),
    );
    verdict.add(
        Figure::share(
            "of a core that the leader takes",
            (after.leader - before.leader).as_secs_f64() / span,
        )
        .at_most(LEADER_CORE_SHARE_MAX),
    );
    verdict.add(Figure::share(
        "of a core that Redis takes",
        (after.server - before.server).as_secs_f64() / span,
    ));
}

/// What has been spent so far.
struct Sample {
    at: Instant,
    calls: u64,
    bytes_out: u64,
    leader: Duration,
    server: Duration,
}

impl Sample {
    fn of(server: &RedisServer, pid: u32, threads: &[u32]) -> anyhow::Result<Self> {
        let ours = std::process::id();
        let mut leader = Duration::ZERO;
        for &thread in threads {
            leader += measure::cpu_time_of_thread(ours, thread)?;
        }
        let calls = server.calls()?;
        // What scripts call themselves is counted beside them.
        let asked = ["evalsha", "eval", "hdel", "get", "ping"];
        let calls = calls
            .iter()
            .filter(|(name, _)| asked.contains(&name.as_str()));
        Ok(Self {
            calls: calls.map(|(_, calls)| *calls).sum(),
            bytes_out: server.info("total_net_output_bytes")?.trim().parse()?,
            leader,
            server: measure::cpu_time(pid)?,
            at: Instant::now(),
        })
    }
}

/// The node that decides, in threads of its own.
struct Leader {
    threads: Vec<u32>,
    thread: std::thread::JoinHandle<anyhow::Result<()>>,
}

impl Leader {
    fn start(server: &RedisServer, seconds: u32) -> anyhow::Result<Self> {
        let before = measure::thread_ids(std::process::id())?;
        let (fleet, background) = fleet(server)?;
        let mut station = station(0, true, fleet)?;
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || -> anyhow::Result<()> {
            // Held until the end: its thread has the leader's connection.
            let _background = background;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let begun = Instant::now();
                let mut ticks = tokio::time::interval(TICK);
                let mut is_told = false;
                // Longer than the others: whoever leads goes last.
                while begun.elapsed() < Duration::from_secs(u64::from(seconds) + 5) {
                    ticks.tick().await;
                    let now = mono(begun);
                    station.turn(now, said(0, now)).await;
                    if !is_told && station.judged(now).is_some() {
                        is_told = ready.send(()).is_ok();
                    }
                }
                Ok(())
            })
        });
        is_ready
            .recv_timeout(Duration::from_secs(10))
            .context("nobody leads")?;
        let threads = measure::thread_ids(std::process::id())?;
        Ok(Self {
            threads: threads
                .into_iter()
                .filter(|it| !before.contains(it))
                .collect(),
            thread,
        })
    }

    fn finish(self) -> anyhow::Result<()> {
        self.thread
            .join()
            .map_err(|_| anyhow::anyhow!("the leader's thread has failed"))?
    }
}

/// Gives every station a turn in each of `seconds`, spread over the second.
async fn turns(stations: &mut [Station], begun: Instant, seconds: u32) -> anyhow::Result<Heard> {
    let mut heard = Heard::default();
    let chunks = stations.len().div_ceil(AT_ONCE) as u32;
    let mut ticks = tokio::time::interval(TICK / chunks);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    for _ in 0..seconds {
        for (at, chunk) in stations.chunks_mut(AT_ONCE).enumerate() {
            let due = ticks.tick().await;
            let numbered = chunk.iter_mut().enumerate();
            let turns = numbered.map(|(number, station)| {
                let now = mono(begun);
                station.turn(now, said(1 + at * AT_ONCE + number, now))
            });
            for standing in futures_util::future::join_all(turns).await {
                heard.note(&standing, due.elapsed() > TICK);
            }
        }
    }
    Ok(heard)
}

impl Heard {
    fn note(&mut self, standing: &Standing, is_late: bool) {
        self.turns += 1;
        self.late += u64::from(is_late);
        self.from_control += u64::from(standing.source.name() == "control");
    }
}

fn station(number: usize, may_lead: bool, fleet: Fleet) -> anyhow::Result<Station> {
    let plan = StationPlan {
        node: Node {
            id: Name::new(&format!("node-{number:04}"))?,
            incarnation: 1,
        },
        may_lead,
        settings: Settings::default(),
        timeout: TIMEOUT,
    };
    Ok(Station::new(plan, fleet, None))
}

/// What node `number` reads: all that a node with an agent has, each another and none twice the same.
fn said(number: usize, now: Mono) -> Said {
    let wave = ((now.as_nanos() / 1_000_000_000) as usize + number) % 17;
    let used = 0.2 + 0.3 * (wave as f64 / 17.0);
    let signals =
        Dimension::ALL.map(|dimension| Signal::read(dimension, used * WORKERS * 0.5, WORKERS, now));
    Said {
        signals: signals.to_vec(),
        load: Some(Load {
            offered_rps: used * 1_000.0,
            completed_rps: used * 1_000.0,
            error_ratio: 0.001,
            utilisation: used * 0.5,
            at: now,
        }),
        inflight: Some((used * WORKERS) as u32),
        release: env!("CARGO_PKG_VERSION").to_owned(),
        ..Said::nothing()
    }
}

fn fleet(server: &RedisServer) -> anyhow::Result<(Fleet, Background)> {
    let background = Background::start()?;
    let mut plan = RedisPlan::usual(Arrangement::Standalone(Address::parse(
        &server.address().to_string(),
    )?));
    // What is counted is operations, and this machine may be busy with something else.
    plan.operation_timeout = TIMEOUT;
    let redis = Redis::start(&plan, Use::Bus, &background);
    Ok((Fleet::Redis(redis), background))
}

fn mono(begun: Instant) -> Mono {
    Mono::from_millis(60_000) + begun.elapsed()
}

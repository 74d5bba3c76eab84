//! What opening a session costs the store: writes, and CPU time beside the usual touch script.
//!
//! The server has one core to itself. Both sides are driven alike, over pipelines of one connection;
//! rounds alternate, and the figure is the median.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tidegate_core::session::{Fields, Format, Opened, Value, Version};
use tidegate_lab::measure::{self, HostTimes};
use tidegate_store::SessionStore;

use crate::harness::session_server::{LONG, PATIENT, SessionServer, create, id, name, runtime};
use crate::harness::{Args, Cores, Drill, Figure, Invalid, Verdict};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-open-cost",
    promise: "an opening writes nothing most of the time and costs Redis ≤ 1.25 × the usual touch script",
    takes: Duration::from_secs(60),
    run,
};

const ROUNDS: u32 = 9;
const SESSIONS: u32 = 2_000;
/// Openings of one measurement.
const OPENINGS: u32 = 60_000;
/// Openings that are under way at the same time.
const PIPELINE: u32 = 16;
const OPEN_US_MAX: f64 = 12.5;
const TOUCH_RATIO_MAX: f64 = 1.25;
const STEAL_SHARE_MAX: f64 = 0.05;
/// A server that is busy for less than this part of a measurement was starved, or not asked.
const CPU_SHARE_MIN: f64 = 0.15;

const OPEN: &str = include_str!("../../crates/tidegate-store/src/redis/scripts/open.lua");
/// The usual script: one version for the session, bumped by every request.
const TOUCH: &str = "
local version = redis.call('HGET', KEYS[1], '_ver')
if not version then return -1 end
if ARGV[1] ~= '' and ARGV[1] ~= version then return -2 end
redis.call('HSET', KEYS[1], '_seen', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return redis.call('HINCRBY', KEYS[1], '_ver', 1)
";

/// What writes, of all that the scripts call.
const WRITES: [&str; 6] = ["hset", "hincrby", "expire", "pexpire", "pexpireat", "hdel"];

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let cores = Cores::pick()?;
    let mut server = SessionServer::start()?;
    let pid = server.server().pid().context("the server is up")?;
    measure::pin_process(pid, cores.measured)?;
    measure::pin_thread(cores.others)?;
    let store = server.gateway()?;
    let versions = runtime()?.block_on(fill(&store))?;
    let mut raw = server.raw()?;

    let before = writes(&server)?;
    runtime()?.block_on(open_all(&store, &versions))?;
    let written = writes(&server)? - before;
    verdict.add(Figure::count(format!("writes in {SESSIONS} openings"), written).exactly(0.0));

    let hashes = [OPEN, TOUCH].map(|script| redis::Script::new(script).get_hash().to_owned());
    for script in [OPEN, TOUCH] {
        let () = redis::cmd("SCRIPT")
            .arg("LOAD")
            .arg(script)
            .query(&mut raw)?;
    }
    let host = HostTimes::now()?;
    let (mut open, mut touch, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..args.rounds.unwrap_or(ROUNDS) {
        let measure = |raw: &mut redis::Connection, ours: bool| {
            let hash = &hashes[usize::from(!ours)];
            cost_us(pid, raw, |number| {
                if ours {
                    opening(hash, number, &versions)
                } else {
                    touching(hash, number)
                }
            })
        };
        let ours_first = round % 2 == 0;
        let first = measure(&mut raw, ours_first)?;
        let second = measure(&mut raw, !ours_first)?;
        let (ours, theirs) = if ours_first {
            (first, second)
        } else {
            (second, first)
        };
        verdict.say(format!(
            "round {}: open {ours:.2} µs, touch script {theirs:.2} µs",
            round + 1
        ));
        open.push(ours);
        touch.push(theirs);
        ratios.push(ours / theirs);
    }
    let steal = HostTimes::now()?.steal_share_since(&host);
    if steal > STEAL_SHARE_MAX {
        return Err(Invalid(format!("steal {steal:.3} is over {STEAL_SHARE_MAX}")).into());
    }
    verdict.add(
        Figure::us("Redis's CPU time for an opening", median(&mut open))
            .beside("touch script", median(&mut touch))
            .at_most(OPEN_US_MAX),
    );
    verdict
        .add(Figure::ratio("of the touch script's", median(&mut ratios)).at_most(TOUCH_RATIO_MAX));
    Ok(verdict)
}

/// Sessions of about half a kilobyte, and what the touch script takes for one.
async fn fill(store: &SessionStore) -> anyhow::Result<Vec<Version>> {
    let mut versions = Vec::new();
    for number in 0..SESSIONS {
        let attributes = (0..8).map(|at| {
            let value = Value {
                format: Format::Json,
                bytes: vec![b'x'; 40],
            };
            (name(&format!("attribute-{at}")), value)
        });
        let now = create(store, id(number), LONG, attributes.collect()).await?;
        versions.push(Version(now.as_micros()));
    }
    Ok(versions)
}

async fn open_all(store: &SessionStore, versions: &[Version]) -> anyhow::Result<()> {
    let touch = Some(LONG.touch_after());
    for (number, &version) in (0..).zip(versions) {
        let id = id(number);
        let opened = store.open(&id, version, &Fields::All, touch, PATIENT);
        let opened = opened.await?;
        anyhow::ensure!(matches!(opened, Opened::Unchanged { .. }), "{opened:?}");
    }
    Ok(())
}

/// Calls so far that write.
fn writes(server: &SessionServer) -> anyhow::Result<f64> {
    let calls = server.server().calls()?;
    let writes = calls
        .iter()
        .filter(|(name, _)| WRITES.contains(&name.as_str()));
    Ok(writes.map(|(_, calls)| *calls as f64).sum())
}

fn opening(hash: &str, number: u32, versions: &[Version]) -> redis::Cmd {
    let at = number % SESSIONS;
    let id = id(at);
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(hash).arg(2);
    cmd.arg(format!("tg:s:{{{}}}:{}", id.tag(), id.hash()));
    cmd.arg(format!("tg:x:{{{}}}:{}", id.tag(), id.hash()));
    cmd.arg(versions[at as usize].to_string());
    cmd.arg(LONG.touch_after().as_millis() as u64);
    cmd
}

fn touching(hash: &str, number: u32) -> redis::Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    let key = format!("sess:{{{}}}", id(number % SESSIONS));
    cmd.arg(hash).arg(1).arg(key);
    cmd.arg("")
        .arg(1_795_000_000 + u64::from(number))
        .arg(1_800);
    cmd
}

/// CPU time of the server per command, of [`OPENINGS`] commands.
fn cost_us(
    pid: u32,
    raw: &mut redis::Connection,
    command: impl Fn(u32) -> redis::Cmd,
) -> anyhow::Result<f64> {
    // What the touch script works on: a hash like ours, in its own fields.
    let mut fill = redis::pipe();
    for number in 0..SESSIONS {
        let key = format!("sess:{{{}}}", id(number));
        fill.cmd("HSET").arg(key).arg("_ver").arg(1);
        for at in 0..8 {
            fill.arg(format!("attribute-{at}")).arg("x".repeat(40));
        }
        fill.ignore();
    }
    let () = fill.query(raw)?;
    let pipelines: Vec<_> = (0..OPENINGS / PIPELINE)
        .map(|at| {
            let mut pipeline = redis::pipe();
            for number in 0..PIPELINE {
                pipeline
                    .add_command(command(at * PIPELINE + number))
                    .ignore();
            }
            pipeline
        })
        .collect();
    let (begun, before) = (Instant::now(), measure::cpu_time(pid)?);
    for pipeline in &pipelines {
        let () = pipeline.query(raw)?;
    }
    let spent = measure::cpu_time(pid)?.saturating_sub(before);
    let share = spent.as_secs_f64() / begun.elapsed().as_secs_f64();
    if share < CPU_SHARE_MIN {
        return Err(Invalid(format!("the server ran for {share:.2} of the time")).into());
    }
    Ok(spent.as_secs_f64() * 1e6 / f64::from(pipelines.len() as u32 * PIPELINE))
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

//! A primary is killed with -9 under Sentinel while its replicas are behind: what becomes of the
//! writes that it had acknowledged, for each durability, and in which parts the store was away.
//!
//! Bytes on their way to the replicas are lost with the primary: without that, the system delivers
//! what is in its buffers, and hardly anything is ever lost on one machine.

mod crowd;

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tidegate_core::session::{
    Durability, Fields, OnShort, Opened, Replication, SessionId, Version, Wait,
};
use tidegate_lab::peers::{SentinelSetup, Sentinels, Toward};
use tidegate_lab::report::Table;
use tidegate_store::desk::{Desk, DeskError, DeskPatched};
use tidegate_store::redis::{Recovery, Redis, RedisPlan, Use};
use tidegate_store::{Background, Call, SessionStore};

use crate::harness::{Args, Drill, Figure, Invalid, Verdict};
use crowd::{
    BUDGET, Crowd, DESKS, PACE, SESSIONS, Tally, WITHIN, arrangement, create, hit, id_of, plan,
};

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-failover",
    promise: "a primary killed with -9 loses no acknowledged write that is kept, and none is made twice",
    takes: Duration::from_secs(150),
    run,
};

/// How far the replicas are behind.
const LAG: Duration = Duration::from_millis(200);
/// How far the second one is behind where the first is to be the one that acknowledges.
const LONG_LAG: Duration = Duration::from_secs(2);
/// Seconds of writes before the primary is killed.
const BEFORE: u64 = 5;
/// A replica that has the write, waited for as long as it takes.
const ONE: Wait = Wait {
    replicas: 1,
    within: Duration::from_secs(1),
    on_short: OnShort::Degrade,
};
/// Longest wait for a last write to arrive.
const SETTLE: Duration = Duration::from_secs(1);
/// Writes while no replica can be reached.
const CUT_OFF_WRITES: u64 = 20;

/// One run.
struct Scene {
    name: &'static str,
    durability: Durability,
    /// The replica that acknowledges dies with the primary, and the other one is far behind.
    acker_dies: bool,
}

/// What became of the writes of one run.
#[derive(Default)]
struct Outcome {
    /// Acknowledged by the store, as far as the durability says: by a replica if one was waited for.
    acknowledged: u64,
    /// Made by the store, but fewer replicas had them in time than wanted.
    unpromised: u64,
    /// Accepted by a gateway while the store was away.
    accepted_away: u64,
    /// Refused, or without an answer.
    failed: u64,
    /// Acknowledged, and not there in the end.
    lost: u64,
    /// There more often than sent.
    twice: u64,
    /// From the oldest acknowledgement that was lost until the primary was killed.
    window: Duration,
    /// Writes that the gateways found lost and made again.
    repaired: u64,
    /// The longest of the gateways' times.
    recovery: Option<Recovery>,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let before = args.length(BEFORE);
    verdict.say(format!(
        "{DESKS} gateways, {} sessions, a write to each every {PACE:?}; replicas {LAG:?} behind; \
         where the replica that acknowledges is to die, the other one is {LONG_LAG:?} behind",
        DESKS * SESSIONS
    ));
    let waits = Durability {
        redo: false,
        wait: Some(ONE),
    };
    let scene = |name, durability, acker_dies| Scene {
        name,
        durability,
        acker_dies,
    };
    let scenes = [
        scene("async", Durability::ASYNC, false),
        scene("redo", Durability::REDO, false),
        scene("wait(1), the acknowledging replica survives", waits, false),
        scene("wait(1), it dies as well", waits, true),
    ];
    let mut outcomes = Vec::new();
    for scene in &scenes {
        let outcome = runtime
            .block_on(play(scene, before))
            .with_context(|| format!("with {}", scene.name))?;
        tell(&verdict, scene, &outcome);
        outcomes.push(outcome);
    }
    show(&verdict, &scenes, &outcomes);
    let told = |it: &Outcome| {
        it.recovery
            .is_some_and(|recovery| recovery.rewarm.is_some())
    };
    if !outcomes.iter().any(told) {
        let why = "answers never became as quick as before the loss";
        return Err(Invalid(why.to_owned()).into());
    }
    judge(&mut verdict, &outcomes);
    runtime.block_on(cut_off(&mut verdict))?;
    Ok(verdict)
}

fn tell(verdict: &Verdict, scene: &Scene, outcome: &Outcome) {
    verdict.say(format!(
        "{}: {} acknowledged, {} lost, {} twice",
        scene.name, outcome.acknowledged, outcome.lost, outcome.twice
    ));
}

fn show(verdict: &Verdict, scenes: &[Scene], outcomes: &[Outcome]) {
    let mut table = Table::new([
        "durability",
        "acknowledged",
        "without replicas",
        "accepted while away",
        "failed",
        "lost",
        "window",
        "made again",
        "twice",
        "detect",
        "promote",
        "reconnect",
        "rewarm",
    ]);
    for (scene, it) in scenes.iter().zip(outcomes) {
        let recovery = it.recovery.unwrap_or_default();
        let ms = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
        table.row([
            scene.name.to_owned(),
            it.acknowledged.to_string(),
            it.unpromised.to_string(),
            it.accepted_away.to_string(),
            it.failed.to_string(),
            it.lost.to_string(),
            ms(it.window),
            it.repaired.to_string(),
            it.twice.to_string(),
            ms(recovery.detect),
            ms(recovery.promote),
            ms(recovery.reconnect),
            recovery.rewarm.map_or_else(|| "not yet".to_owned(), ms),
        ]);
    }
    verdict.table(&table);
}

fn judge(verdict: &mut Verdict, outcomes: &[Outcome]) {
    let [bare, redo, waited, both_died] = outcomes else {
        return;
    };
    let share = |it: &Outcome| it.lost as f64 / it.acknowledged.max(1) as f64;
    verdict.add(Figure::count("async: acknowledged writes lost", bare.lost as f64).at_least(1.0));
    verdict.add(Figure::ms(
        "async: window of loss",
        bare.window.as_secs_f64() * 1e3,
    ));
    verdict.add(
        Figure::count("redo: acknowledged writes lost", redo.lost as f64)
            .beside("async", bare.lost as f64)
            .exactly(0.0),
    );
    verdict.add(Figure::count("redo: writes made again", redo.repaired as f64).at_least(1.0));
    verdict.add(Figure::count("redo: writes made twice", redo.twice as f64).exactly(0.0));
    verdict.add(
        Figure::count(
            "wait(1): writes lost that a replica had",
            waited.lost as f64,
        )
        .beside("async", bare.lost as f64)
        .exactly(0.0),
    );
    verdict.add(
        Figure::count(
            "wait(1), that replica dies as well: writes lost",
            both_died.lost as f64,
        )
        .at_least(1.0),
    );
    verdict.add(
        Figure::share(
            "wait(1), that replica dies as well: part lost",
            share(both_died),
        )
        .beside("async", share(bare)),
    );
    let told = outcomes.iter().filter_map(|outcome| outcome.recovery);
    let parts = told.max_by_key(|it| it.rewarm).unwrap_or_default();
    for (part, time) in [
        ("detect", parts.detect),
        ("promote", parts.promote),
        ("reconnect", parts.reconnect),
        ("rewarm", parts.rewarm.unwrap_or_default()),
    ] {
        verdict.add(Figure::ms(
            format!("recovery: {part}"),
            time.as_secs_f64() * 1e3,
        ));
    }
}

/// Kills the primary under writes.
async fn play(scene: &Scene, before: Duration) -> anyhow::Result<Outcome> {
    let mut servers = Sentinels::start(&SentinelSetup::proxied())?;
    let [first, second] = servers.proxies() else {
        anyhow::bail!("two replicas were wanted");
    };
    first.delay(Toward::Client, LAG);
    second.delay(
        Toward::Client,
        if scene.acker_dies { LONG_LAG } else { LAG },
    );
    let mut crowd = Crowd::start(&servers, scene.durability).await?;

    tokio::time::sleep(before).await;
    let killed = Instant::now();
    servers.server(0).kill()?;
    for proxy in servers.proxies() {
        proxy.refuse();
        proxy.cut();
    }
    if scene.acker_dies {
        servers.server(1).kill()?;
    }
    let back = crowd.wait_until_back().await?;
    let recovery = crowd.wait_until_warm(back).await;
    let mut outcome = Outcome {
        repaired: crowd.repaired(),
        recovery,
        ..Outcome::default()
    };
    let tallies = crowd.stop().await?;
    settle(&mut outcome, &servers, &tallies, killed).await?;
    Ok(outcome)
}

/// Compares what was acknowledged with what is there.
async fn settle(
    outcome: &mut Outcome,
    servers: &Sentinels,
    tallies: &[Tally],
    killed: Instant,
) -> anyhow::Result<()> {
    let background = Background::start()?;
    let redis = Redis::start(&patient(servers), Use::Sessions, &background);
    let store = SessionStore::Redis(redis);
    // What is lost never comes: all sessions wait together.
    let end = Instant::now() + SETTLE;
    for tally in tallies {
        let known = tally.made.len() as u64 + tally.accepted_away;
        let there = read(&store, tally, known, end).await?;
        outcome.acknowledged += tally.made.iter().filter(|made| made.as_wanted).count() as u64;
        outcome.unpromised += tally.made.iter().filter(|made| !made.as_wanted).count() as u64;
        outcome.accepted_away += tally.accepted_away;
        outcome.failed += tally.failed;
        outcome.twice += there.saturating_sub(known + tally.failed);
        // Replicas have what came first: what is missing are the last ones before the kill.
        let missing = known.saturating_sub(there) as usize;
        let before = tally.made.iter().filter(|made| made.at < killed);
        for made in before.rev().take(missing).filter(|made| made.as_wanted) {
            outcome.lost += 1;
            outcome.window = outcome.window.max(killed - made.at);
        }
    }
    Ok(())
}

/// The counter of one session, for which a last write may still be under way.
async fn read(
    store: &SessionStore,
    tally: &Tally,
    wanted: u64,
    end: Instant,
) -> anyhow::Result<u64> {
    loop {
        let call = Call::within(Duration::from_secs(5));
        let opening = store.open(&tally.id, Version::NONE, &Fields::All, None, call);
        let there = match opening.await? {
            Opened::Found { found, .. } => found.counters.first().map_or(0, |(_, it)| *it),
            // The session itself was lost.
            _ => 0,
        };
        let there = u64::try_from(there)?;
        if there >= wanted || Instant::now() >= end {
            return Ok(there);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Writes while no replica can be reached, with either answer to that.
async fn cut_off(verdict: &mut Verdict) -> anyhow::Result<()> {
    let servers = Sentinels::start(&SentinelSetup::proxied())?;
    for (number, on_short) in [OnShort::Degrade, OnShort::Fail].into_iter().enumerate() {
        let durability = Durability {
            redo: false,
            wait: Some(Wait {
                within: Duration::from_millis(50),
                on_short,
                ..ONE
            }),
        };
        let desk = Desk::start(plan(&servers, durability))?;
        let id = id_of(number)?;
        create(&desk, id).await?;
        for proxy in servers.proxies() {
            proxy.hold(Toward::Client);
        }
        let told = write_cut_off(&desk, id, on_short).await?;
        for proxy in servers.proxies() {
            proxy.heal();
        }
        let all = CUT_OFF_WRITES as f64;
        let name = match on_short {
            OnShort::Degrade => "replicas cut off, degrade: writes that stand and say so",
            OnShort::Fail => "replicas cut off, fail: writes reported as not replicated",
        };
        verdict.add(Figure::count(name, told as f64).exactly(all));
    }
    Ok(())
}

/// Of some writes to a session, those that say that no replica has them, in the way of `on_short`.
async fn write_cut_off(desk: &Desk, id: SessionId, on_short: OnShort) -> anyhow::Result<u64> {
    let (mut written, mut told) = (0, 0);
    let end = Instant::now() + WITHIN;
    while written < CUT_OFF_WRITES {
        anyhow::ensure!(Instant::now() < end, "the store is away all the time");
        let said = match desk.patch(&id, None, hit(), BUDGET + ONE.within).await {
            Ok(DeskPatched::Applied {
                standing,
                replication,
                ..
            }) if !standing.is_degraded() => {
                replication == Replication::Short(0) && on_short == OnShort::Degrade
            }
            Err(DeskError::NotReplicated { replicas }) => {
                replicas == 0 && on_short == OnShort::Fail
            }
            // A busy machine: nothing was learnt of replicas.
            _ => {
                tokio::time::sleep(PACE).await;
                continue;
            }
        };
        written += 1;
        told += u64::from(said);
    }
    Ok(told)
}

/// For reading what is there: a busy machine is not to be mistaken for a fault.
fn patient(servers: &Sentinels) -> RedisPlan {
    RedisPlan {
        operation_timeout: Duration::from_secs(5),
        connect_timeout: Duration::from_secs(5),
        ..RedisPlan::usual(arrangement(servers))
    }
}

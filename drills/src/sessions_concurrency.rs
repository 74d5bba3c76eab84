//! Many requests of one session at the same time.
//!
//! The same work three times: every writer reads the session, thinks, and writes a field of its own,
//! again and again. With the session's patches; with the usual touch script, whose one version is
//! bumped by every request; and with the session as one value, as most session stores keep it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use tidegate_core::session::{
    Ceilings, Expect, Fields, Format, Found, Op, OpSeq, Opened, Patched, SessionId, Value, Version,
    Writer,
};
use tidegate_store::SessionStore;
use tokio::task::JoinSet;

use crate::harness::session_server::{LONG, PATIENT, SessionServer, create, id, name, runtime};
use crate::harness::{Args, Drill, Figure, Verdict};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-concurrency",
    promise: "16 writers × 50 writes to one session: 800 attempts, no conflict, nothing lost",
    takes: Duration::from_secs(60),
    run,
};

const WRITERS: u64 = 16;
const WRITES: u64 = 50;
/// Between reading and writing.
const THINK: Duration = Duration::from_millis(2);
/// The touch script may need tens of thousands of attempts; longer than this it is not watched.
const PEER_TIME_MAX: Duration = Duration::from_secs(60);
/// Room for a field of each write, so that every write that survives can be seen.
const ROOMY: Ceilings = Ceilings {
    value: 4_096,
    session: 1 << 20,
    count: 4_096,
};

/// What a run came to.
#[derive(Default)]
struct Outcome {
    attempts: u64,
    conflicts: u64,
    survived: u64,
    seconds: f64,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let mut server = SessionServer::start()?;
    let gateways = [server.gateway()?, server.gateway()?];
    let runtime = runtime()?;

    let ours = runtime.block_on(patches(&gateways))?;
    let client = redis::Client::open(format!("redis://{}/", server.server().address()))?;
    let touch = runtime.block_on(async {
        let connection = client.get_multiplexed_async_connection().await?;
        touch_script(connection).await
    })?;
    let blob = runtime.block_on(async {
        let connection = client.get_multiplexed_async_connection().await?;
        one_value(connection).await
    })?;

    let all = (WRITERS * WRITES) as f64;
    let counted = |what: &str, of: fn(&Outcome) -> u64, bar: f64| {
        Figure::count(what, of(&ours) as f64)
            .beside("touch script", of(&touch) as f64)
            .beside("session as one value", of(&blob) as f64)
            .exactly(bar)
    };
    verdict.add(counted("attempts", |run| run.attempts, all));
    verdict.add(counted("conflicts", |run| run.conflicts, 0.0));
    verdict.add(counted("writes lost", lost, 0.0));
    verdict.add(
        Figure::ms("time for all of it", ours.seconds * 1e3)
            .beside("touch script", touch.seconds * 1e3)
            .beside("session as one value", blob.seconds * 1e3),
    );

    let (sum, repeated) = runtime.block_on(increments(&gateways))?;
    verdict.add(Figure::count("increments of one counter, every 5th sent twice", sum).exactly(all));
    verdict.add(Figure::count("second deliveries recognised", repeated).exactly(all / 5.0));
    let (sum, attempts) = runtime.block_on(one_field(&gateways))?;
    verdict.add(
        Figure::count("one field raised by whoever has read it, in the end", sum)
            .beside("attempts", attempts)
            .exactly(all),
    );
    Ok(verdict)
}

const fn lost(run: &Outcome) -> u64 {
    WRITERS * WRITES - run.survived
}

fn field(writer: u64, write: u64) -> String {
    format!("field-{writer}-{write}")
}

fn text(bytes: &str) -> Value {
    Value {
        format: Format::Text,
        bytes: bytes.as_bytes().to_vec(),
    }
}

const fn seq(writer: u64, number: u64) -> OpSeq {
    OpSeq {
        writer: Writer {
            incarnation: writer + 1,
            lane: 0,
        },
        number,
    }
}

async fn all_of(store: &SessionStore, id: &SessionId) -> anyhow::Result<Found> {
    let touch = Some(LONG.touch_after());
    let opened = store.open(id, Version::NONE, &Fields::All, touch, PATIENT);
    match opened.await? {
        Opened::Found { found, .. } => Ok(found),
        other => anyhow::bail!("not the session: {other:?}"),
    }
}

async fn patch(
    store: &SessionStore,
    id: &SessionId,
    op: Op,
    seq: Option<OpSeq>,
) -> anyhow::Result<Patched> {
    let patched = store.patch(id, &[op], seq, ROOMY, None, PATIENT).await?;
    Ok(patched.reply)
}

async fn patches(gateways: &[SessionStore; 2]) -> anyhow::Result<Outcome> {
    let id = id(1);
    create(&gateways[0], id, LONG, Vec::new()).await?;
    create(&gateways[1], self::id(2), LONG, Vec::new()).await?;
    let attempts = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = gateways[(writer % 2) as usize].clone();
        let attempts = attempts.clone();
        writers.spawn(async move {
            for write in 1..=WRITES {
                all_of(&store, &id).await?;
                tokio::time::sleep(THINK).await;
                loop {
                    attempts.fetch_add(1, Ordering::Relaxed);
                    let set = Op::Set {
                        name: name(&field(writer, write)),
                        value: text("x"),
                        expect: Expect::Absent,
                    };
                    let patched = patch(&store, &id, set, Some(seq(writer, write))).await?;
                    if matches!(patched, Patched::Applied { .. }) {
                        break;
                    }
                    anyhow::ensure!(matches!(patched, Patched::Conflict { .. }), "{patched:?}");
                }
            }
            anyhow::Ok(())
        });
    }
    joined(writers).await?;
    let attempts = attempts.load(Ordering::Relaxed);
    Ok(Outcome {
        attempts,
        conflicts: attempts - WRITERS * WRITES,
        seconds: begun.elapsed().as_secs_f64(),
        survived: all_of(&gateways[1], &id).await?.attributes.len() as u64,
    })
}

/// The usual script: one version for the session, bumped by every request.
const TOUCH: &str = "
local version = redis.call('HGET', KEYS[1], '_ver')
if not version then return -1 end
if ARGV[1] ~= '' and ARGV[1] ~= version then return -2 end
if ARGV[4] then redis.call('HSET', KEYS[1], ARGV[4], ARGV[5]) end
redis.call('HSET', KEYS[1], '_seen', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return redis.call('HINCRBY', KEYS[1], '_ver', 1)
";

async fn touch_script(mut connection: MultiplexedConnection) -> anyhow::Result<Outcome> {
    let script = Arc::new(redis::Script::new(TOUCH));
    let () = connection.hset("sess:{1}", "_ver", 1).await?;
    let attempts = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (script, attempts) = (script.clone(), attempts.clone());
        let mut connection = connection.clone();
        writers.spawn(async move {
            for write in 1..=WRITES {
                while begun.elapsed() < PEER_TIME_MAX {
                    let touch = |known: String| {
                        let mut run = script.key("sess:{1}");
                        run.arg(known).arg(1).arg(1_800);
                        run
                    };
                    let version: i64 = touch(String::new()).invoke_async(&mut connection).await?;
                    tokio::time::sleep(THINK).await;
                    attempts.fetch_add(1, Ordering::Relaxed);
                    let mut write_if = touch(version.to_string());
                    write_if.arg(field(writer, write)).arg("x");
                    let wrote: i64 = write_if.invoke_async(&mut connection).await?;
                    if wrote > 0 {
                        break;
                    }
                }
            }
            anyhow::Ok(())
        });
    }
    joined(writers).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let fields: u64 = connection.hlen("sess:{1}").await?;
    let (attempts, survived) = (attempts.load(Ordering::Relaxed), fields.saturating_sub(2));
    Ok(Outcome {
        attempts,
        conflicts: attempts - survived,
        survived,
        seconds,
    })
}

async fn one_value(connection: MultiplexedConnection) -> anyhow::Result<Outcome> {
    let begun = Instant::now();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let mut connection = connection.clone();
        writers.spawn(async move {
            for write in 1..=WRITES {
                let read: Option<String> = connection.get("blob:1").await?;
                tokio::time::sleep(THINK).await;
                let mut session = read.unwrap_or_default();
                session.push_str(&field(writer, write));
                session.push('\n');
                let () = connection.set_ex("blob:1", session, 1_800).await?;
            }
            anyhow::Ok(())
        });
    }
    joined(writers).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut connection = connection;
    let session: String = connection.get("blob:1").await?;
    Ok(Outcome {
        attempts: WRITERS * WRITES,
        // Nobody notices any.
        conflicts: 0,
        survived: session.lines().count() as u64,
        seconds,
    })
}

/// The counter in the end, and deliveries that were recognised as second ones.
async fn increments(gateways: &[SessionStore; 2]) -> anyhow::Result<(f64, f64)> {
    let id = id(3);
    create(&gateways[0], id, LONG, Vec::new()).await?;
    let repeated = Arc::new(AtomicU64::new(0));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = gateways[(writer % 2) as usize].clone();
        let repeated = repeated.clone();
        writers.spawn(async move {
            for number in 1..=WRITES {
                // As if the answer to every fifth had been lost.
                for _ in 0..1 + u64::from(number % 5 == 0) {
                    let op = Op::Increment {
                        name: name("visits"),
                        by: 1,
                    };
                    let patched = patch(&store, &id, op, Some(seq(writer, number))).await?;
                    if matches!(patched, Patched::AlreadyApplied { .. }) {
                        repeated.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            anyhow::Ok(())
        });
    }
    joined(writers).await?;
    let found = all_of(&gateways[0], &id).await?;
    let sum = found.counters.first().map_or(0, |(_, sum)| *sum);
    Ok((sum as f64, repeated.load(Ordering::Relaxed) as f64))
}

/// A number in one attribute that every write raises by one, on condition that it is the one that
/// was read; and the attempts that took.
async fn one_field(gateways: &[SessionStore; 2]) -> anyhow::Result<(f64, f64)> {
    let id = id(4);
    let begin = vec![(name("sum"), text("0"))];
    create(&gateways[0], id, LONG, begin).await?;
    let attempts = Arc::new(AtomicU64::new(0));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = gateways[(writer % 2) as usize].clone();
        let attempts = attempts.clone();
        writers.spawn(async move {
            let (mut known, mut sum) = (Version(1), 0_u64);
            let mut written = 0;
            while written < WRITES {
                attempts.fetch_add(1, Ordering::Relaxed);
                let set = Op::Set {
                    name: name("sum"),
                    value: text(&(sum + 1).to_string()),
                    expect: Expect::At(known),
                };
                match patch(&store, &id, set, None).await? {
                    Patched::Applied { version, .. } => {
                        (known, sum) = (version, sum + 1);
                        written += 1;
                    }
                    Patched::Conflict { current, .. } => (known, sum) = there(&current)?,
                    other => anyhow::bail!("{other:?}"),
                }
            }
            anyhow::Ok(())
        });
    }
    joined(writers).await?;
    let found = all_of(&gateways[0], &id).await?;
    let current: Vec<_> = found
        .attributes
        .into_iter()
        .map(|(name, attribute)| (name, Some(attribute)))
        .collect();
    let attempts = attempts.load(Ordering::Relaxed) as f64;
    Ok((there(&current)?.1 as f64, attempts))
}

/// The version and the number that are there; a refusal says so, and no second read is needed.
fn there(
    current: &[(
        tidegate_core::session::Name,
        Option<tidegate_core::session::Attribute>,
    )],
) -> anyhow::Result<(Version, u64)> {
    let Some((_, Some(attribute))) = current.first() else {
        anyhow::bail!("it is not there");
    };
    let sum = std::str::from_utf8(&attribute.value.bytes)?.parse()?;
    Ok((attribute.version, sum))
}

async fn joined(mut tasks: JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

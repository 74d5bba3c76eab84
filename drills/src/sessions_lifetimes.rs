//! The two ends of a session's life, by the store's clock.

use std::time::Duration;

use tidegate_core::rng::Rng;
use tidegate_core::session::{Fields, Lifetimes, Opened, SessionId, Version};
use tidegate_core::time::Wall;
use tidegate_store::{Fate, SessionStore};
use tokio::time::sleep;

use crate::harness::session_server::{PATIENT, SessionServer, create, id, runtime};
use crate::harness::{Args, Drill, Figure, Verdict};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-lifetimes",
    promise: "touched every second a session still dies at its absolute deadline; idle end ≤ 5 % early",
    takes: Duration::from_secs(35),
    run,
};

const ABSOLUTE: Lifetimes = Lifetimes {
    idle: Duration::from_secs(5),
    absolute: Duration::from_secs(12),
};
const IDLE: Lifetimes = Lifetimes {
    idle: Duration::from_secs(8),
    absolute: Duration::from_secs(600),
};
/// Sessions that are used at random moments and then left alone.
const LEFT_ALONE: u32 = 200;
/// How long they are used.
const USED: Duration = Duration::from_secs(8);
/// The most that a session may end early, as a part of its idle time.
const EARLY_SHARE_MAX: f64 = 0.05;
/// Idle times to show the grain of touches for.
const IDLE_TIMES_MIN: [u64; 4] = [1, 20, 30, 240];

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let mut server = SessionServer::start()?;
    let store = server.gateway()?;
    let plain = redis::Client::open(format!("redis://{}/", server.server().address()))?;
    let runtime = runtime()?;

    let (alive, early, touch_alive) = runtime.block_on(touched_every_second(&store, &plain))?;
    verdict.add(
        Figure::ms(
            "lived past its absolute deadline, touched every second",
            alive,
        )
        .beside("sliding EXPIRE, so far", touch_alive)
        .at_most(0.0),
    );
    verdict.add(Figure::ms("ended before its absolute deadline", early).at_most(0.0));

    let ends = runtime.block_on(left_alone(&store))?;
    let most = |of: &dyn Fn(&End) -> f64| ends.iter().map(of).fold(0.0, f64::max);
    let idle = IDLE.idle.as_secs_f64();
    verdict.add(
        Figure::count("sessions left alone that ended", ends.len() as f64)
            .exactly(f64::from(LEFT_ALONE)),
    );
    verdict.add(
        Figure::share(
            "ended early at most, of the idle time",
            most(&|end| end.early_s / idle),
        )
        .at_most(EARLY_SHARE_MAX),
    );
    verdict.add(
        Figure::ms(
            "lived past the idle time at most",
            most(&|end| end.late_s * 1e3),
        )
        .at_most(0.0),
    );
    for minutes in IDLE_TIMES_MIN {
        let idle = Duration::from_secs(60 * minutes);
        let grain = Lifetimes { idle, ..IDLE }.touch_after();
        verdict.add(
            Figure::count(
                format!("s that a session of {minutes} min may end early"),
                grain.as_secs_f64(),
            )
            .at_most((idle.as_secs_f64() * EARLY_SHARE_MAX).min(60.0)),
        );
    }
    Ok(verdict)
}

/// What the store says of a session: its clock and the deadline, or that it is gone.
async fn used(
    store: &SessionStore,
    id: &SessionId,
    touch_after: Option<Duration>,
) -> anyhow::Result<Option<(Wall, Wall)>> {
    let opened = store.open(id, Version::NONE, &Fields::All, touch_after, PATIENT);
    Ok(match opened.await? {
        Opened::Found { now, head, .. } => Some((now, head.deadline)),
        Opened::Unchanged { now, deadline } => Some((now, deadline)),
        Opened::Gone(_) => None,
    })
}

/// Milliseconds that it was seen alive after its absolute deadline, that it was seen gone before it,
/// and that a key with a sliding `EXPIRE` outlives that deadline.
async fn touched_every_second(
    store: &SessionStore,
    plain: &redis::Client,
) -> anyhow::Result<(f64, f64, f64)> {
    let mut plain = plain.get_multiplexed_async_connection().await?;
    let clock = id(1);
    create(store, clock, IDLE, Vec::new()).await?;
    let id = id(2);
    let begun = create(store, id, ABSOLUTE, Vec::new()).await?;
    let end = Wall::from_micros(begun.as_micros() + ABSOLUTE.absolute.as_micros() as u64);
    let () = redis::cmd("SET")
        .arg("sess:{1}")
        .arg("x")
        .query_async(&mut plain)
        .await?;

    let mut late: f64 = 0.0;
    loop {
        let () = redis::cmd("EXPIRE")
            .arg("sess:{1}")
            .arg(ABSOLUTE.idle.as_secs())
            .query_async(&mut plain)
            .await?;
        match used(store, &id, Some(ABSOLUTE.touch_after())).await? {
            Some((now, _)) => late = late.max(now.since(end).as_secs_f64() * 1e3),
            None => break,
        }
        let left = end.since(now(store, &clock).await?);
        // Every second, and closely around the end.
        sleep(left.clamp(Duration::from_millis(1), Duration::from_secs(1))).await;
    }
    let gone = now(store, &clock).await?;
    let early = end.since(gone).as_secs_f64() * 1e3;
    sleep(Duration::from_secs(1)).await;
    let there: bool = redis::cmd("EXISTS")
        .arg("sess:{1}")
        .query_async(&mut plain)
        .await?;
    let outlives = if there {
        now(store, &clock).await?.since(end)
    } else {
        Duration::ZERO
    };
    Ok((late, early, outlives.as_secs_f64() * 1e3))
}

async fn now(store: &SessionStore, clock: &SessionId) -> anyhow::Result<Wall> {
    let touch = Some(Duration::ZERO);
    let seen = used(store, clock, touch).await?;
    Ok(seen
        .ok_or_else(|| anyhow::anyhow!("the session that tells the time is gone"))?
        .0)
}

/// How one session ended, against the idle time after its last use.
struct End {
    early_s: f64,
    late_s: f64,
}

async fn left_alone(store: &SessionStore) -> anyhow::Result<Vec<End>> {
    let mut rng = Rng::new(5);
    let mut last_used = Vec::new();
    for number in 0..LEFT_ALONE {
        last_used.push(create(store, id(100 + number), IDLE, Vec::new()).await?);
    }
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < USED {
        let number = rng.below(u64::from(LEFT_ALONE)) as u32;
        let seen = used(store, &id(100 + number), Some(IDLE.touch_after())).await?;
        let seen = seen.ok_or_else(|| anyhow::anyhow!("a session in use has ended"))?;
        last_used[number as usize] = seen.0;
        sleep(Duration::from_micros(2_000 + rng.below(8_000))).await;
    }
    let mut ends = Vec::new();
    for (number, last_used) in (0..).zip(last_used) {
        let id = id(100 + number);
        // When it ends is stored in it; that it does then, the first part has shown.
        let deadline = match store.fate(&id, PATIENT).await? {
            Fate::Lives { deadline } => deadline,
            other => anyhow::bail!("it ought to live for a while: {other:?}"),
        };
        let alive = deadline.since(last_used).as_secs_f64();
        let idle = IDLE.idle.as_secs_f64();
        ends.push(End {
            early_s: (idle - alive).max(0.0),
            // The store's clock has more digits than the deadline.
            late_s: (alive - idle).max(0.0),
        });
        let left = deadline.since(last_used);
        anyhow::ensure!(left <= IDLE.idle, "a deadline past the idle time");
    }
    // And they do end.
    let longest = IDLE.idle;
    let begun = tokio::time::Instant::now();
    for number in 0..LEFT_ALONE {
        while matches!(
            store.fate(&id(100 + number), PATIENT).await?,
            Fate::Lives { .. }
        ) {
            anyhow::ensure!(begun.elapsed() < longest * 2, "a session does not end");
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(ends)
}

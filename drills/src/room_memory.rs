//! What a million people who wait take in memory, in Redis and in a process, and what moving them on costs.
//!
//! Everybody has been heard of twice, the second time in an order that has nothing to do with when they came: a set
//! that was only ever added to at its end is smaller than one that has lived.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::try_join_all;
use tidegate_core::rng::Rng;
use tidegate_core::room::{Beat, Calling, Epoch, Order, Place, RELEASE_MAX, RoomName, Rules, Tier};
use tidegate_lab::measure;
use tidegate_lab::peers::RedisServer;
use tidegate_store::embedded::{Embedded, EmbeddedPlan};
use tidegate_store::redis::{Redis, Use};
use tidegate_store::rooms::{BEATS_MAX, JOINS_MAX, RedisRooms, Room, RoomStore, RoomTable};
use tidegate_store::{Background, Call, Fence};

use crate::harness::session_server::plan;
use crate::harness::{Args, Drill, Figure, Verdict, runtime};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "room-memory",
    promise: "a million people who wait take 300 bytes each at most, in Redis and in a process, and a look at them costs no more than at ten thousand",
    takes: Duration::from_secs(60),
    run,
};

const WAITING: u64 = 1_000_000;
const FEW: u64 = 10_000;
/// Of what is usually written, so many.
const USUAL: u64 = 100_000;
const BYTES_MAX: f64 = 300.0;
const CALL: Call = Call::within(Duration::from_secs(30));
/// Batches of beats under way at the same time.
const UNDER_WAY: usize = 8;
/// Looks and releases of which the cost is taken.
const MEASURED: u64 = 50;
/// A look at so many more may cost so much more: a set of a hundred times as many is some levels deeper.
const LOOK_RATIO_MAX: f64 = 3.0;

const RULES: Rules = Rules {
    waiting_max: 10 * WAITING,
    misses_max: 3,
    settle_ms: 160_000,
    ticket_ms: 86_400_000,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    // First, as what Redis's client takes in this process would count with it.
    in_a_process(&mut verdict)?;
    in_redis(&mut verdict)?;
    Ok(verdict)
}

/// A room with a line.
struct Line {
    room: Room,
    epoch: Epoch,
}

impl Line {
    async fn open(store: &RoomStore, name: &str) -> anyhow::Result<Self> {
        let name = RoomName::new(name).map_err(|error| anyhow::anyhow!("{error}"))?;
        let room = store.room(&name, RULES);
        let mut tries = 0;
        loop {
            match room.open(None, CALL).await {
                Ok(epoch) => return Ok(Self { room, epoch }),
                Err(error) if tries == 500 => {
                    return Err(error).context("the store does not answer");
                }
                Err(_) => tries += 1,
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Gives so many a place, and hears of each of them twice.
    async fn fill(&self, many: u64) -> anyhow::Result<()> {
        let mut places = Vec::new();
        for _ in 0..many / JOINS_MAX {
            let first = self.room.join(self.epoch, JOINS_MAX, CALL).await?;
            places.extend((0..JOINS_MAX).map(|number| first.plus(number)));
        }
        self.beat(&places).await?;
        let mut rng = Rng::new(7);
        for last in (1..places.len()).rev() {
            places.swap(last, rng.below(last as u64 + 1) as usize);
        }
        self.beat(&places).await
    }

    async fn beat(&self, places: &[Place]) -> anyhow::Result<()> {
        for some in places.chunks(BEATS_MAX * UNDER_WAY) {
            let batches = some.chunks(BEATS_MAX).map(|batch| {
                let beats: Vec<_> = batch.iter().map(|place| beat(*place)).collect();
                async move { self.room.beat(self.epoch, &beats, CALL).await }
            });
            try_join_all(batches).await?;
        }
        Ok(())
    }

    async fn look(&self) -> anyhow::Result<u64> {
        let looked = self.room.look(self.epoch, Place(0), CALL).await?;
        Ok(looked.census.waiting.iter().sum())
    }

    async fn release(&self, tick: u64) -> anyhow::Result<u64> {
        let calling = Calling {
            order: Order::Strict,
            tick,
            count: RELEASE_MAX,
            claim_ms: 120_000,
            grace_ms: 3_600_000,
            enough: 0,
        };
        let led = (self.epoch, Fence(1));
        Ok(self.room.release(led, &calling, CALL).await?.count)
    }
}

/// Of ten who wait one has something to go on with, two are signed in.
fn beat(place: Place) -> Beat {
    let tier = match place.0 % 10 {
        0 => Tier::Returning,
        1 | 2 => Tier::SignedIn,
        _ => Tier::Anonymous,
    };
    Beat {
        place,
        tier,
        may_enter: true,
    }
}

fn in_a_process(verdict: &mut Verdict) -> anyhow::Result<()> {
    let own = std::process::id();
    let store = Embedded::start(EmbeddedPlan::at(None))?;
    let store = RoomStore::Embedded(Arc::new(RoomTable::new(store)));
    let (bytes, waiting) = runtime()?.block_on(async {
        let line = Line::open(&store, "shop").await?;
        let before = measure::sample(own)?.rss_bytes;
        line.fill(WAITING).await?;
        // What the drill itself holds, the list of places, was given back.
        let after = measure::sample(own)?.rss_bytes;
        anyhow::Ok((after.saturating_sub(before), line.look().await?))
    })?;
    anyhow::ensure!(waiting == WAITING, "{waiting} wait");
    verdict.add(
        Figure::count(
            "bytes for each who waits, in a process",
            bytes as f64 / WAITING as f64,
        )
        .at_most(BYTES_MAX),
    );
    Ok(())
}

fn in_redis(verdict: &mut Verdict) -> anyhow::Result<()> {
    let server = RedisServer::plain()?;
    let pid = server.pid().context("the server is up")?;
    let thread = Background::start()?;
    let redis = Redis::start(&plan(server.address()), Use::Room, &thread);
    let store = RoomStore::Redis(RedisRooms::new(redis));
    let few = runtime()?.block_on(async {
        let line = Line::open(&store, "few").await?;
        line.fill(FEW).await?;
        looks(&line, pid, FEW).await
    })?;
    server.ask(&["FLUSHALL"])?;
    let usual = usual(&server)?;
    server.ask(&["FLUSHALL"])?;
    let before: f64 = server.info("used_memory")?.parse()?;
    let (many, beats, calls, after) = runtime()?.block_on(async {
        let line = Line::open(&store, "shop").await?;
        let begun = measure::cpu_time(pid)?;
        line.fill(WAITING).await?;
        let beats = measure::cpu_time(pid)?.saturating_sub(begun);
        let after: f64 = server.info("used_memory")?.parse()?;
        let many = looks(&line, pid, WAITING).await?;
        let begun = measure::cpu_time(pid)?;
        for tick in 1..=MEASURED {
            let count = line.release(tick).await?;
            anyhow::ensure!(count == RELEASE_MAX, "{count} were called");
        }
        let calls = measure::cpu_time(pid)?.saturating_sub(begun);
        anyhow::Ok((many, beats, calls, after))
    })?;
    let us = |spent: Duration, count: u64| spent.as_secs_f64() * 1e6 / count as f64;
    verdict.add(
        Figure::count(
            "bytes for each who waits, in Redis",
            (after - before) / WAITING as f64,
        )
        .beside("two sorted sets of 32 hex digits", usual)
        .at_most(BYTES_MAX),
    );
    verdict.add(
        Figure::us(
            "Redis's CPU time to hear of somebody, in batches",
            us(beats, 2 * WAITING),
        )
        .beside(
            "to call somebody, a thousand at once",
            us(calls, MEASURED * RELEASE_MAX),
        ),
    );
    verdict.add(
        Figure::us("to look at a million", us(many, MEASURED))
            .beside("at ten thousand", us(few, MEASURED)),
    );
    verdict.add(
        Figure::ratio(
            "that, of what it is at ten thousand",
            many.as_secs_f64() / few.as_secs_f64(),
        )
        .at_most(LOOK_RATIO_MAX),
    );
    Ok(())
}

/// CPU time of the server for all measured looks.
async fn looks(line: &Line, pid: u32, waiting: u64) -> anyhow::Result<Duration> {
    let begun = measure::cpu_time(pid)?;
    for _ in 0..MEASURED {
        let seen = line.look().await?;
        anyhow::ensure!(seen == waiting, "{seen} wait");
    }
    Ok(measure::cpu_time(pid)?.saturating_sub(begun))
}

/// Bytes for each who waits where a line is a sorted set by arrival, another by when they were heard of, and ids are 128
/// random bits in hex.
fn usual(server: &RedisServer) -> anyhow::Result<f64> {
    let client = redis::Client::open(format!("redis://{}/", server.address()))?;
    let mut raw = client.get_connection()?;
    let mut rng = Rng::new(9);
    let before: f64 = server.info("used_memory")?.parse()?;
    for first in (0..USUAL).step_by(1_000) {
        let mut pipeline = redis::pipe();
        for number in first..first + 1_000 {
            let id = format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64());
            pipeline
                .cmd("ZADD")
                .arg("waiting")
                .arg(number)
                .arg(&id)
                .ignore();
            pipeline
                .cmd("ZADD")
                .arg("seen")
                .arg(number)
                .arg(&id)
                .ignore();
        }
        let () = pipeline.query(&mut raw)?;
    }
    let after: f64 = server.info("used_memory")?.parse()?;
    Ok((after - before) / USUAL as f64)
}

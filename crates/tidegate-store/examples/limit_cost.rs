//! What limits cost: decisions a second in this process, CPU time of a Redis server for each request by its number of
//! limits, and bytes of a key in it.
//!
//! `cargo run --release -p tidegate-store --example limit_cost`; needs `redis-server`.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream;
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Algorithm, Rate, Spec, Tick};
use tidegate_core::session::SlotTag;
use tidegate_lab::peers::RedisServer;
use tidegate_store::limits::{Asked, LimitStore, LimitTable, LimitTablePlan, RedisLimits};
use tidegate_store::redis::{Address, Arrangement, Redis, RedisPlan, Use};
use tidegate_store::{Background, Call};

const CALL: Call = Call::within(Duration::from_secs(5));
/// Keys that decisions are spread over.
const KEYS: u64 = 10_000;
/// Requests under way at a server.
const AT_A_TIME: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let limit = spec(1_000_000)?;
    println!("in this process, {KEYS} keys, one thread:");
    for limits in [1, 3, 17] {
        let per_second = in_process(&limit, limits);
        println!("  {limits:2} limits: {:5.2} M requests/s", per_second / 1e6);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(in_redis(&limit))
}

fn in_process(limit: &Arc<Spec>, limits: u64) -> f64 {
    let table = LimitTable::new(LimitTablePlan::default());
    let rounds = 3_000_000 / limits;
    let begun = Instant::now();
    for round in 0..rounds {
        let asked: Vec<_> = (0..limits).map(|n| asked(limit, round + n)).collect();
        black_box(table.take(&asked, Tick(1_000_000 + round)));
    }
    rounds as f64 / begun.elapsed().as_secs_f64()
}

async fn in_redis(limit: &Arc<Spec>) -> Result<(), Box<dyn Error>> {
    let server = RedisServer::plain()?;
    let address = Address::parse(&server.address().to_string())?;
    let background = Background::start()?;
    let mut plan = RedisPlan::usual(Arrangement::Standalone(address));
    plan.operation_timeout = CALL.timeout;
    plan.connect_timeout = CALL.timeout;
    let redis = Redis::start(&plan, Use::Limits, &background);
    let store = LimitStore::Redis(RedisLimits::new(redis));

    println!(
        "Redis {}, {AT_A_TIME} requests at a time:",
        server.info("redis_version")?
    );
    for limits in [1, 2, 3, 5, 17] {
        let cpu_us = cpu_us(&server, &store, limit, limits, 30_000).await?;
        println!("  {limits:2} limits: {cpu_us:5.1} us of CPU a request");
    }
    let none = spec(1)?;
    store.take(&[asked(&none, u64::MAX)], Tick(0), CALL).await?;
    let before: f64 = cpu_s(&server)?;
    for _ in 0..10_000 {
        store.ask(&[asked(&none, u64::MAX)], Tick(0), CALL).await?;
    }
    let refused_us = (cpu_s(&server)? - before) * 1e6 / 10_000.0;
    println!("   1 limit, refused: {refused_us:5.1} us, one request at a time");

    server.ask(&["FLUSHALL"])?;
    let before: f64 = server.info("used_memory")?.parse()?;
    let keys = 200_000;
    let slow = spec(10)?;
    fill(&store, &slow, keys).await?;
    let after: f64 = server.info("used_memory")?.parse()?;
    println!(
        "  {:5.0} bytes a key, of {keys}",
        (after - before) / keys as f64
    );
    Ok(())
}

async fn cpu_us(
    server: &RedisServer,
    store: &LimitStore,
    limit: &Arc<Spec>,
    limits: u64,
    requests: u64,
) -> Result<f64, Box<dyn Error>> {
    let before = cpu_s(server)?;
    let requests_done = stream::iter(0..requests).map(async |n| {
        let asked: Vec<_> = (0..limits).map(|i| asked(limit, n * limits + i)).collect();
        store.take(&asked, Tick(0), CALL).await
    });
    let answers: Vec<_> = requests_done.buffer_unordered(AT_A_TIME).collect().await;
    for answer in answers {
        assert!(answer?.passes(), "the limit is not to be reached");
    }
    Ok((cpu_s(server)? - before) * 1e6 / requests as f64)
}

async fn fill(store: &LimitStore, limit: &Arc<Spec>, keys: u64) -> Result<(), Box<dyn Error>> {
    let filled = stream::iter(0..keys).map(async |n| {
        let asked = [Asked {
            key: key(n),
            ..asked(limit, 0)
        }];
        store.take(&asked, Tick(0), CALL).await
    });
    let answers: Vec<_> = filled.buffer_unordered(AT_A_TIME).collect().await;
    answers
        .into_iter()
        .try_for_each(|answer| answer.map(drop))?;
    Ok(())
}

fn cpu_s(server: &RedisServer) -> Result<f64, Box<dyn Error>> {
    let user: f64 = server.info("used_cpu_user")?.parse()?;
    let system: f64 = server.info("used_cpu_sys")?.parse()?;
    Ok(user + system)
}

/// So many a minute.
fn spec(tokens: u64) -> Result<Arc<Spec>, Box<dyn Error>> {
    let rate = Rate {
        tokens,
        period_us: 60_000_000,
    };
    let spec = Spec::new(Algorithm::Bucket, rate, None);
    Ok(Arc::new(spec.map_err(|error| error.to_string())?))
}

fn asked(spec: &Arc<Spec>, n: u64) -> Asked<'_> {
    Asked {
        key: key(n % KEYS),
        tag: SlotTag::from_bits(0),
        spec,
        cost: 1,
        standing: Standing::Enforced,
    }
}

/// A key that looks like a hash.
fn key(n: u64) -> u128 {
    let mix = |n: u64| {
        let n = (n ^ n >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let n = (n ^ n >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        n ^ n >> 31
    };
    u128::from(mix(n + 1)) << 64 | u128::from(mix(!n))
}

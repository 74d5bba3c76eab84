//! Two nodes whose clocks differ, and one limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Algorithm, Rate, Spec, Tick};
use tidegate_core::session::SlotTag;
use tidegate_lab::peers::RedisServer;
use tidegate_store::limits::{Asked, LimitStore, RedisLimits};
use tidegate_store::redis::{Redis, Use};
use tidegate_store::{Background, Call};

use super::usual::{Bucket, Late};
use super::{Ours, SECOND, START};
use crate::harness::clockwork::Clockwork;
use crate::harness::session_server::plan;
use crate::harness::{Args, Figure, Verdict, runtime};

/// By how much the second node's clock is ahead.
const SKEWS_MS: [u64; 5] = [0, 1, 10, 50, 1_000];
/// What the limit lets pass in a second, and at once.
const RATE: u64 = 150;
/// What is offered in a second, by both in turns.
const OFFERED: u64 = 2_000;
/// Seconds of the drill's time.
const SECONDS: u64 = 10;
const CALL: Call = Call::within(Duration::from_secs(5));

/// Lets both ask for more than there is, with clocks that differ by more and more.
pub(super) fn of_two_nodes(
    verdict: &mut Verdict,
    redis: &mut Clockwork,
    args: &Args,
) -> anyhow::Result<()> {
    let usual = Bucket::new(redis, RATE as f64, RATE as f64, Late::WrittenBack)?;
    let ours = Ours::new(redis, "two-nodes", Algorithm::Bucket, "150/s", None)?;
    let mut passed = 0;
    for call in 0..OFFERED * SECONDS {
        // By the store's clock, which is one.
        let now = START.plus(call * SECOND / OFFERED);
        passed += u64::from(ours.take(redis, 1, now)?.0);
    }
    let most = RATE + RATE * SECONDS;
    verdict.add(
        Figure::count(
            "150/s, 2,000/s offered for 10 s by the store's clock",
            passed as f64,
        )
        .at_most(most as f64),
    );
    let mut worst = f64::MAX;
    for skew_ms in SKEWS_MS {
        let key = format!("skewed:{skew_ms}");
        let mut theirs = 0;
        for call in 0..OFFERED * SECONDS {
            let now = START.plus(call * SECOND / OFFERED + call % 2 * skew_ms * 1_000);
            theirs += u64::from(usual.take(redis, &key, now)?);
        }
        let real = in_real_time(skew_ms, args.length(3))?;
        worst = worst.min(real);
        verdict.add(
            Figure::ratio(
                format!("clocks {skew_ms} ms apart: passed, of burst + rate × time"),
                real,
            )
            .beside("node's clock written back", theirs as f64 / most as f64)
            .at_most(1.0),
        );
    }
    verdict.add(Figure::ratio("the least of these", worst).at_least(0.95));
    Ok(())
}

/// The same with two clients of a real store, each with a clock of its own: what passed, of what may.
fn in_real_time(skew_ms: u64, length: Duration) -> anyhow::Result<f64> {
    let server = RedisServer::plain()?;
    let threads = [Background::start()?, Background::start()?];
    let nodes = threads.each_ref().map(|thread| {
        let redis = Redis::start(&plan(server.address()), Use::Limits, thread);
        LimitStore::Redis(RedisLimits::new(redis))
    });
    let rate = Rate {
        tokens: RATE,
        period_us: SECOND,
    };
    let spec = Spec::new(Algorithm::Bucket, rate, None);
    let spec = Arc::new(spec.map_err(|error| anyhow::anyhow!("{error}"))?);
    let asked = [Asked {
        key: 1 << 100,
        tag: SlotTag::from_bits(0),
        spec: &spec,
        cost: 1,
        standing: Standing::Enforced,
    }];
    runtime()?.block_on(async {
        // Until both are connected; what this looks at is free.
        for (at, node) in (0u64..).zip(&nodes) {
            let mut tries = 0;
            while node.ask(&asked, Tick(at), CALL).await.is_err() {
                tries += 1;
                anyhow::ensure!(tries < 500, "the store does not answer");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        let begun = Instant::now();
        let mut passed = 0u64;
        let mut pace = tokio::time::interval(Duration::from_micros(2 * SECOND / OFFERED));
        while begun.elapsed() < length {
            pace.tick().await;
            for (at, node) in (0u64..).zip(&nodes) {
                let elapsed_us = u64::try_from(begun.elapsed().as_micros())?;
                let now = START.plus(elapsed_us + at * skew_ms * 1_000);
                passed += u64::from(node.take(&asked, now, CALL).await?.passes());
            }
        }
        let may = RATE as f64 * (1.0 + begun.elapsed().as_secs_f64());
        Ok(passed as f64 / may)
    })
}

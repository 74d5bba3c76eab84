//! What reports cost the store where a limit is large: twenty nodes in this process, each with the gateway's own bookkeeping,
//! report to a real Redis what they let pass.

use std::time::{Duration, Instant};

use tidegate_core::rate::share::aggregate::{AggregatePlan, Reporter};
use tidegate_core::rate::share::{Life, Verdict as Said};
use tidegate_core::rate::{BucketSpec, Tick};
use tidegate_core::rng::Rng;
use tidegate_core::session::SlotTag;
use tidegate_lab::peers::RedisServer;
use tidegate_store::limits::{RedisLimits, Reported};
use tidegate_store::redis::{Address, Arrangement, Redis, RedisPlan, Use};
use tidegate_store::{Background, Call};

use crate::harness::{Args, Figure, Verdict};

const NODES: u64 = 20;
/// Tokens a second, and at once.
const RATE: u64 = 10_000;
/// Requests a second, to all nodes together.
const OFFERED: u64 = 20_000;
const SECONDS: u64 = 5;
/// How often nodes look at the clock.
const GRAIN: Duration = Duration::from_millis(1);
/// As long as a gateway waits.
const CALL: Call = Call::within(Duration::from_millis(8));

/// Adds what it has found to `verdict`.
pub(super) fn add(verdict: &mut Verdict, args: &Args) -> anyhow::Result<()> {
    let length = args.length(SECONDS);
    let server = RedisServer::plain()?;
    let background = Background::start()?;
    let address = Address {
        host: server.address().ip().to_string(),
        port: server.address().port(),
    };
    let plan = RedisPlan::usual(Arrangement::Standalone(address));
    let limits = RedisLimits::new(Redis::start(&plan, Use::Limits, &background));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;

    let (passed, seconds, calls) = runtime.block_on(async {
        let nobody = SlotTag::from_bits(1);
        let mut tries = 0;
        while limits.forget(nobody, 0, CALL).await.is_err() {
            tries += 1;
            anyhow::ensure!(tries < 5_000, "the store does not answer");
            tokio::time::sleep(GRAIN).await;
        }
        let before = scripts(&server)?;
        let begun = Instant::now();
        let nodes: Vec<_> = (1..=NODES)
            .map(|number| tokio::spawn(node(limits.clone(), number, begun, length)))
            .collect();
        let mut passed = 0;
        for node in nodes {
            passed += node.await?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        anyhow::Ok((passed, seconds, scripts(&server)? - before))
    })?;

    let plan = AggregatePlan::usual(RATE);
    verdict.add(
        Figure::per_second(
            "20 nodes at 20,000/s, reports every 100 ms: calls to the store",
            calls as f64 / seconds,
        )
        .at_most(plan.reports_per_s(NODES as u32) as f64 * 1.1)
        .beside("with one for each request", OFFERED as f64),
    );
    let over = plan.overshoot(NODES as u32, OFFERED, 8_000) as f64;
    let limit = RATE as f64 * (1.0 + seconds);
    verdict.add(
        Figure::count("20 nodes at 20,000/s: passed of 10,000/s", passed as f64)
            .at_most(limit + over)
            .beside("the limit", limit),
    );
    Ok(())
}

/// Lets what comes to one node pass, or not, and says how much did.
async fn node(limits: RedisLimits, number: u64, begun: Instant, length: Duration) -> u64 {
    let spec = BucketSpec::new(RATE, 1_000_000, RATE).expect("a limit in round numbers");
    let plan = AggregatePlan::usual(RATE);
    let tick = || Tick(1 + begun.elapsed().as_micros() as u64);
    let mut reporter = Reporter::new(spec, plan, Life(number), tick());
    let mut rng = Rng::new(number);
    let (mut come, mut passed) = (0, 0);
    while begun.elapsed() < length {
        let due = begun.elapsed().as_micros() as u64 * (OFFERED / NODES) / 1_000_000;
        for _ in come..due {
            passed += u64::from(reporter.take(tick(), 1) == Said::Passed);
        }
        come = due;
        if let Some(report) = reporter.report(tick(), &mut rng) {
            let reported = Reported {
                key: 7,
                tag: SlotTag::from_bits(7),
                spec: &spec,
                kept_us: plan.kept_us,
                report,
            };
            let told = limits.report(&[reported], CALL).await;
            match told.into_iter().next() {
                Some(Ok(told)) => reporter.told(tick(), &told),
                _ => reporter.lost(report.seq),
            }
        }
        tokio::time::sleep(GRAIN).await;
    }
    passed
}

/// Scripts that the store has run so far.
fn scripts(server: &RedisServer) -> anyhow::Result<u64> {
    let calls = server.calls()?;
    let scripts = calls.iter().filter(|(name, _)| name.starts_with("eval"));
    Ok(scripts.map(|(_, count)| count).sum())
}

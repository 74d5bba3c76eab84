//! One limit for ten gateways, in each way that they can share it: never more passes than is promised, whoever the traffic
//! comes to, and while gateways come and go. Beside it ten gateways that know nothing of each other.

mod reports;

use std::time::{Duration, Instant};

use tidegate_core::rate::share::aggregate::AggregatePlan;
use tidegate_lab::load::{Kind, Run};

use crate::harness::{
    Args, Drill, Figure, Gateway, SharedLimits, Verdict, come_of, send, send_all,
};

const NODES: usize = 10;
/// Tokens a second, and at once.
const RATE: f64 = 100.0;
/// Requests a second, to all gateways together.
const OFFERED: f64 = 1_000.0;
const SECONDS: u64 = 10;
/// How often gateways report, in milliseconds.
const INTERVALS_MS: [u64; 3] = [20, 100, 500];
/// How long a report and its answer may take at most.
const DELAY_US: u64 = 8_000;

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "limits-fleet",
    promise: "ten gateways share a limit of 100/s at 1,000/s offered, and no more passes than each mode promises",
    takes: Duration::from_secs(150),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let length = args.length(SECONDS);
    let shared = SharedLimits::start(NODES)?;

    let alone = shared.gateways(&limit("scope = \"node\""))?;
    let came = send_all(&addresses(&alone), OFFERED / NODES as f64, length)?;
    let uncoordinated = came.passed as f64;
    drop(alone);

    for mode in ["shared", "lease"] {
        let gateways = shared.gateways(&fleet(mode, "on_store_loss = \"closed\""))?;
        let came = send_all(&addresses(&gateways), OFFERED / NODES as f64, length)?;
        let most = bound(came.seconds);
        verdict.say(format!(
            "{mode}: {} of {} passed in {:.2} s; without the store {:.0}",
            came.passed,
            came.offered,
            came.seconds,
            lost(&gateways)?
        ));
        verdict.add(
            Figure::count(format!("{mode}: passed"), came.passed as f64)
                .at_most(most)
                .beside("each for itself", uncoordinated),
        );
        verdict.add(
            Figure::share(
                format!("{mode}: of what may pass"),
                came.passed as f64 / most,
            )
            .at_least(0.9),
        );
    }
    divided(&mut verdict, &shared, length, uncoordinated)?;
    for every_ms in INTERVALS_MS {
        aggregate(&mut verdict, &shared, length, every_ms)?;
    }
    reports::add(&mut verdict, args)?;
    for mode in ["lease", "divided"] {
        coming_and_going(&mut verdict, &shared, mode)?;
    }
    verdict.add(
        Figure::ratio(
            "each for itself: times the limit",
            uncoordinated / bound(length.as_secs_f64()),
        )
        .at_least(8.0),
    );
    Ok(verdict)
}

/// Even traffic, and all of it at one gateway.
fn divided(
    verdict: &mut Verdict,
    shared: &SharedLimits,
    length: Duration,
    uncoordinated: f64,
) -> anyhow::Result<()> {
    let gateways = shared.gateways(&fleet("divided", "on_store_loss = \"closed\""))?;
    SharedLimits::wait_for_parts(&gateways)?;

    let came = send_all(&addresses(&gateways), OFFERED / NODES as f64, length)?;
    verdict.add(
        Figure::count("divided: passed", came.passed as f64)
            .at_most(bound(came.seconds))
            .beside("each for itself", uncoordinated),
    );
    // They fill up meanwhile.
    std::thread::sleep(Duration::from_secs(2));
    let came = send_all(&addresses(&gateways)[..1], OFFERED / NODES as f64, length)?;
    let part = RATE / NODES as f64 * (1.0 + came.seconds);
    verdict.add(
        Figure::count(
            "divided, one gateway has all traffic: passed",
            came.passed as f64,
        )
        .at_most(part + 1.0)
        .beside("its part of burst and rate", part),
    );
    // The time is measured from before the first request to after the last answer.
    let least = RATE / NODES as f64 * (1.0 + length.as_secs_f64());
    verdict.add(
        Figure::count(
            "divided, one gateway has all traffic: least",
            came.passed as f64,
        )
        .at_least(least - 1.5),
    );
    Ok(())
}

fn aggregate(
    verdict: &mut Verdict,
    shared: &SharedLimits,
    length: Duration,
    every_ms: u64,
) -> anyhow::Result<()> {
    let keys = format!("on_store_loss = \"closed\"\nreport_every = \"{every_ms}ms\"");
    let gateways = shared.gateways(&fleet("aggregate", &keys))?;
    let came = send_all(&addresses(&gateways), OFFERED / NODES as f64, length)?;
    let plan = AggregatePlan {
        every_us: every_ms * 1_000,
        ..AggregatePlan::usual(RATE as u64)
    };
    let over = plan.overshoot(NODES as u32, OFFERED as u64, DELAY_US) as f64;
    verdict.add(
        Figure::count(
            format!("aggregate, reports every {every_ms} ms: passed"),
            came.passed as f64,
        )
        .at_most(bound(came.seconds) + over)
        .beside("the limit", bound(came.seconds)),
    );
    let reports = sum(
        &gateways,
        "tidegate_rate_store_calls_total",
        &[("mode", "aggregate")],
    )?;
    let expected = NODES as f64 * length.as_secs_f64() * 1_000.0 / every_ms as f64;
    verdict.add(
        Figure::ratio(
            format!("calls to the store for each gateway and {every_ms} ms"),
            reports / expected,
        )
        .at_most(1.3),
    );
    Ok(())
}

/// Ten gateways, then twelve, then six.
fn coming_and_going(
    verdict: &mut Verdict,
    shared: &SharedLimits,
    mode: &str,
) -> anyhow::Result<()> {
    let limits = fleet(mode, "on_store_loss = \"closed\"");
    let mut gateways = shared.gateways(&limits)?;
    if mode == "divided" {
        SharedLimits::wait_for_parts(&gateways)?;
    }
    let per_s = OFFERED / NODES as f64;
    let begun = Instant::now();
    let run = |gateway: &Gateway, seconds: u64| -> anyhow::Result<Run> {
        let kinds = vec![Kind::get("client", "/browse/x")];
        send(
            gateway.address(),
            kinds,
            per_s,
            Duration::from_secs(seconds),
        )
    };
    let mut runs = Vec::new();
    for (at, gateway) in gateways.iter().enumerate() {
        // Those that leave are asked until they do.
        runs.push(run(gateway, if at < 6 { 8 } else { 14 })?);
    }
    std::thread::sleep(Duration::from_secs(3));
    for _ in 0..2 {
        let gateway = shared.gateway(&limits)?;
        runs.push(run(&gateway, 10)?);
        gateways.push(gateway);
    }
    std::thread::sleep(Duration::from_secs(5).saturating_sub(Duration::from_millis(200)));
    for gateway in gateways.drain(..6) {
        gateway.stop()?;
    }
    let came = come_of(runs, begun)?;
    verdict.add(
        Figure::count(
            format!("{mode}, ten gateways, then twelve, then six: passed"),
            came.passed as f64,
        )
        .at_most(bound(came.seconds)),
    );
    // No promise: a part that joins or has nobody behind it is not used, and to stop six takes its time.
    verdict.add(Figure::share(
        format!("{mode}, ten, twelve, six: of what may pass"),
        came.passed as f64 / bound(came.seconds),
    ));
    Ok(())
}

fn limit(keys: &str) -> String {
    format!("[[limit]]\nname = \"all\"\nrate = \"100/s\"\nkey = []\n{keys}\n")
}

fn fleet(mode: &str, keys: &str) -> String {
    limit(&format!("scope = \"fleet\"\nmode = \"{mode}\"\n{keys}"))
}

/// Burst and rate over so many seconds.
fn bound(seconds: f64) -> f64 {
    (RATE + RATE * seconds).floor()
}

fn addresses(gateways: &[Gateway]) -> Vec<std::net::SocketAddr> {
    gateways.iter().map(Gateway::address).collect()
}

fn lost(gateways: &[Gateway]) -> anyhow::Result<f64> {
    sum(gateways, "tidegate_rate_store_lost_total", &[])
}

fn sum(gateways: &[Gateway], name: &str, labels: &[(&str, &str)]) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for gateway in gateways {
        sum += gateway.metrics()?.sum(name, labels);
    }
    Ok(sum)
}

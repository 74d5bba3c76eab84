//! The worked example: 100 slots × 50 ms do 2,000/s, callers leave after a second, and half as many
//! again come.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_lab::load::{Kind, LoadPlan, Phase, Report};

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, ShopProcess, ShopSetup, Verdict, capacity, play,
    series, until_valid,
};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "gateway-worked-example",
    promise: "at 1.5 × capacity nearly all of the capacity is goodput; the bare shop serves nobody",
    takes: Duration::from_secs(250),
    run,
};

const SHOP: ShopSetup = ShopSetup::new(100, 50);
/// Offered load as a multiple of C.
const OVERLOAD: f64 = 1.5;
/// How much of the offered load is background in the run that has some.
const BACKGROUND: f64 = 0.3;
const WITH_WORKERS: &str = "workers = 100\npatience = \"1s\"";
const WITHOUT_WORKERS: &str = "patience = \"1s\"";

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let length = args.length(60);

    let c = capacity(ShopProcess::open(&SHOP)?.address(), SHOP.slots)?.per_second;
    verdict.say(format!(
        "shop of 100 × 50 ms: C = {c:.0}/s; {:.0}/s are offered for {length:?} in each run, by \
         visitors who wait 1 s and come once",
        OVERLOAD * c
    ));

    let bare = until_valid(args, || {
        let shop = ShopProcess::open(&SHOP)?;
        play(offer(shop.address(), c, length, vec![user()]))
    })?;
    verdict.say(format!("bare shop, good/s: {}", series(&bare)));
    // Its queue needs some seconds to grow past what visitors wait for.
    let bare_steady = bare.steady(0);
    let bare_late = bare_steady.start + bare_steady.len() / 2..bare_steady.end;
    let bare_share = bare.goodput(bare_late, |_| true) / c;

    let behind = protected(args, WITH_WORKERS, c, length, vec![user()])?;
    verdict.say(format!(
        "behind Tidegate, good/s: {}",
        series(&behind.report)
    ));
    let steady = behind.report.steady(0);
    let least = steady
        .clone()
        .map(|second| behind.report.goodput(second..second + 1, |_| true))
        .fold(f64::INFINITY, f64::min);
    let goodput = behind.report.goodput(steady, |_| true);
    verdict.add(
        Figure::share("goodput from second 2 on, of C", goodput / c)
            .beside("bare shop", bare_share)
            .at_least(0.95),
    );
    verdict.add(Figure::share("the least of these seconds, of C", least / c));
    verdict.add(Figure::share("bare shop's second half, of C", bare_share).below(0.10));
    verdict.add(Figure::ms("queue wait p99", behind.wait_p99_ms).at_most(200.0));
    verdict.add(Figure::ms(
        "p99 of good answers",
        behind.report.phases[0].good_all.p99_ms,
    ));

    let kinds = vec![
        user().share(1.0 - BACKGROUND),
        background().share(BACKGROUND),
    ];
    let mixed = protected(args, WITH_WORKERS, c, length, kinds)?.report;
    let steady = mixed.steady(0);
    let users = mixed.sum(steady.clone(), |kind| kind.name == "user");
    let seconds = steady.len().max(1) as f64;
    let wanted = c.min(users.offered as f64 / seconds);
    verdict.add(
        Figure::share(
            "user goodput with 30 % background, of min(C, user demand)",
            users.good as f64 / seconds / wanted,
        )
        .at_least(0.95),
    );
    verdict.add(Figure::share(
        "background served meanwhile",
        mixed
            .sum(steady, |kind| kind.name == "background")
            .good_share(),
    ));

    let learnt = protected(args, WITHOUT_WORKERS, c, length, vec![user()])?;
    let steady = learnt.report.steady(0);
    verdict.say(format!("learnt limit, good/s: {}", series(&learnt.report)));
    verdict.add(Figure::share(
        "goodput without workers (adaptive limit), of C",
        learnt.report.goodput(steady, |_| true) / c,
    ));
    Ok(verdict)
}

struct Protected {
    report: Report,
    wait_p99_ms: f64,
}

/// One run at a new shop behind a new gateway.
fn protected(
    args: &Args,
    app: &str,
    c: f64,
    length: Duration,
    kinds: Vec<Kind>,
) -> anyhow::Result<Protected> {
    until_valid(args, || {
        let shop = ShopProcess::open(&SHOP)?;
        let setup = GatewaySetup {
            threads: args.threads,
            ..GatewaySetup::app(shop.address(), app)
        };
        let gateway = Gateway::start(&setup)?;
        let report = play(offer(gateway.address(), c, length, kinds.clone()))?;
        let metrics = gateway.metrics()?;
        let wait_p99 = metrics.quantile("tidegate_queue_wait_seconds", &[], 0.99);
        Ok(Protected {
            report,
            wait_p99_ms: wait_p99.unwrap_or(f64::NAN) * 1_000.0,
        })
    })
}

fn offer(target: SocketAddr, c: f64, length: Duration, kinds: Vec<Kind>) -> LoadPlan {
    LoadPlan::new(
        target,
        kinds,
        vec![Phase::new("overload", OVERLOAD * c, length)],
    )
}

fn user() -> Kind {
    Kind::get("user", "/browse/shoes")
}

fn background() -> Kind {
    Kind::get("background", "/browse/next").header("Sec-Purpose", "prefetch")
}

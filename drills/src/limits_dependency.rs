//! Recommendations hang, and pages ask for them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use tidegate_lab::load::{Kind, LoadPlan, Phase, Report};
use tidegate_lab::report::Table;
use tidegate_lab::shop::ShopStats;

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, ShopProcess, ShopSetup, Verdict, capacity,
    play_watched, until_valid,
};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "limits-dependency",
    promise: "recommendations hang: pages come without them and checkout is as it was; without the permit all waits",
    takes: Duration::from_secs(90),
    run,
};

const SHOP: ShopSetup = ShopSetup::new(30, 50);
const RECOMMENDATIONS: ShopSetup = ShopSetup::new(50, 5);
/// Offered load as a share of C.
const LOAD: f64 = 0.6;
/// What of it are pages with recommendations.
const PAGES: f64 = 0.5;
const DEPENDENCY: &str = "[[dependency]]\nname = \"recommendations\"\nlisten = \"127.0.0.1:0\"\n\
                          concurrency = 8\ntimeout = \"200ms\"\n";

/// What one run came to.
struct Outcome {
    report: Report,
    /// While the dependency hung.
    hanging: ShopStats,
    /// Calls through Tidegate that were not made or not answered, and requests for the shop that it refused.
    calls_refused: f64,
    requests_refused: f64,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let length = args.length(15);
    verdict.say(format!(
        "shop of 30 × 50 ms at 0.6 C, half of it pages that ask for recommendations; {length:?} as usual, then \
         {length:?} in which recommendations hang; visitors wait 1 s. The shop has no timeout for its calls; through \
         Tidegate they have 200 ms, 8 at once and a breaker"
    ));

    let with = until_valid(args, || hang(args, length, Calls::ThroughTidegate))?;
    let without = until_valid(args, || hang(args, length, Calls::Direct))?;

    let mut table = Table::new([
        "",
        "checkout before",
        "checkout hanging",
        "pages before",
        "pages hanging",
        "of these without recommendations",
    ]);
    for (name, outcome) in [("through Tidegate", &with), ("direct calls", &without)] {
        let cell = |kind, phase| format!("{:.2} %", served(&outcome.report, kind, phase) * 100.0);
        table.row([
            name.to_owned(),
            cell("checkout", 0),
            cell("checkout", 1),
            cell("page", 0),
            cell("page", 1),
            outcome.hanging.pages_without.to_string(),
        ]);
    }
    verdict.table(&table);

    let kept = |outcome: &Outcome, kind| {
        served(&outcome.report, kind, 1) / served(&outcome.report, kind, 0)
    };
    for (what, kind) in [
        ("checkout keeps of its goodput", "checkout"),
        ("pages keep of theirs", "page"),
    ] {
        verdict.add(
            Figure::share(what, kept(&with, kind))
                .beside("direct calls", kept(&without, kind))
                .at_least(0.98),
        );
    }
    verdict.add(
        Figure::share(
            "direct calls: checkout keeps of its goodput",
            kept(&without, "checkout"),
        )
        .below(0.5),
    );
    verdict.add(
        Figure::count(
            "pages that came without recommendations",
            with.hanging.pages_without as f64,
        )
        .at_least(1.0),
    );
    verdict.add(Figure::count("calls refused or cut off", with.calls_refused).at_least(1.0));
    verdict.add(
        Figure::count("requests for the shop refused", with.requests_refused)
            .beside("direct calls", without.requests_refused)
            .exactly(0.0),
    );
    Ok(verdict)
}

/// How the shop calls for recommendations.
#[derive(Clone, Copy, PartialEq)]
enum Calls {
    ThroughTidegate,
    Direct,
}

fn hang(args: &Args, length: Duration, calls: Calls) -> anyhow::Result<Outcome> {
    let recommendations = ShopProcess::open(&RECOMMENDATIONS)?;
    let shop = ShopProcess::open(&SHOP)?;
    let c = capacity(shop.address(), SHOP.slots)?.per_second;
    let gateway = Gateway::start(&GatewaySetup {
        threads: args.threads,
        ..GatewaySetup::app(
            shop.address(),
            &format!(
                "workers = 30\npatience = \"1s\"\n\n[[app.route]]\nname = \"checkout\"\npath = \"/checkout/**\"\n\n\
                 {DEPENDENCY}url = \"http://{}\"\n",
                recommendations.address()
            ),
        )
    })?;
    let called = match calls {
        Calls::ThroughTidegate => egress(&gateway)?,
        Calls::Direct => recommendations.address(),
    };
    shop.control(&format!("recommendations={called}"))?;

    let mut before = ShopStats::default();
    let report = play_watched(plan(gateway.address(), LOAD * c, length), &[length], |_| {
        before = shop.stats()?;
        // Beyond the end of the run.
        recommendations.control(&format!("stall_ms={}", 3 * length.as_millis()))?;
        Ok(())
    })?;
    let mut hanging = shop.stats()?;
    hanging.pages_without -= before.pages_without;
    hanging.pages_with -= before.pages_with;
    let metrics = gateway.metrics()?;
    Ok(Outcome {
        report,
        hanging,
        calls_refused: metrics.sum("tidegate_dependency_refused_total", &[]),
        requests_refused: metrics.sum("tidegate_refused_total", &[])
            - metrics.sum("tidegate_refused_total", &[("reason", "client_gone")]),
    })
}

/// Where the gateway takes calls for recommendations.
fn egress(gateway: &Gateway) -> anyhow::Result<SocketAddr> {
    let status: Value = serde_json::from_slice(&gateway.told("/status.json")?)?;
    let listens = status
        .pointer("/dependencies/0/listens")
        .and_then(Value::as_str);
    let listens = listens.context("the gateway says nothing of a dependency")?;
    Ok(listens.parse()?)
}

fn plan(target: SocketAddr, rate: f64, length: Duration) -> LoadPlan {
    let kinds = vec![
        Kind::get("page", "/product/shoes").share(PAGES),
        Kind::get("checkout", "/checkout/pay").share(1.0 - PAGES),
    ];
    let phases = vec![
        Phase::new("usual", rate, length),
        Phase::new("hanging", rate, length),
    ];
    LoadPlan::new(target, kinds, phases)
}

fn served(report: &Report, kind: &str, phase: usize) -> f64 {
    let seconds = report.steady(phase);
    report.sum(seconds, |own| own.name == kind).good_share()
}

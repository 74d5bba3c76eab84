//! A slow dependency and the routes that have nothing to do with it.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_lab::load::{Kind, LoadPlan, Phase, Report};
use tidegate_lab::report::Table;

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, ShopProcess, ShopSetup, Verdict, capacity,
    play_watched, until_valid,
};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "gateway-bulkhead",
    promise: "a dependency made 20 × slower takes only its own share; without bulkheads it takes all",
    takes: Duration::from_secs(150),
    run,
};

const SHOP: ShopSetup = ShopSetup::new(60, 50);
/// Offered load as a share of C: a busy day, below the knee.
const LOAD: f64 = 0.7;
/// What of it needs the dependency.
const RECOMMENDATIONS: f64 = 0.2;
const ROUTE: &str = "[[app.route]]\nname = \"recommendations\"\npath = \"/recommend/**\"\n";
const GROUP: &str = "[[app.group]]\nname = \"recommendations\"\nshare = 0.25\n";

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let length = args.length(20);
    verdict.say(format!(
        "shop of 60 × 50 ms at 0.7 C, a fifth of it recommendations; {length:?} as usual, then \
         {length:?} with the dependency 20 × slower; visitors wait 1 s"
    ));

    let grouped = format!("{GROUP}\n{ROUTE}group = \"recommendations\"\n");
    let with = until_valid(args, || slow_dependency(args, Some(&grouped), length))?;
    let without = until_valid(args, || slow_dependency(args, Some(ROUTE), length))?;
    let bare = until_valid(args, || slow_dependency(args, None, length))?;

    let mut table = Table::new([
        "",
        "browse before",
        "browse slow",
        "recommend before",
        "recommend slow",
    ]);
    for (name, report) in [
        ("bulkheads", &with),
        ("no bulkheads", &without),
        ("bare shop", &bare),
    ] {
        let cell = |kind, phase| format!("{:.2} %", served(report, kind, phase) * 100.0);
        table.row([
            name.to_owned(),
            cell("browse", 0),
            cell("browse", 1),
            cell("recommend", 0),
            cell("recommend", 1),
        ]);
    }
    verdict.table(&table);

    verdict.add(
        Figure::share("with bulkheads: browse keeps of its goodput", kept(&with))
            .beside("bare shop", kept(&bare))
            .at_least(0.98),
    );
    verdict.add(
        Figure::share(
            "without bulkheads: browse keeps of its goodput",
            kept(&without),
        )
        .below(0.98),
    );
    Ok(verdict)
}

/// One run; `routes` behind Tidegate, `None` for the bare shop.
fn slow_dependency(args: &Args, routes: Option<&str>, length: Duration) -> anyhow::Result<Report> {
    let shop = ShopProcess::open(&SHOP)?;
    let c = capacity(shop.address(), SHOP.slots)?.per_second;
    let gateway = match routes {
        Some(routes) => {
            let app = format!("workers = 60\npatience = \"1s\"\n\n{routes}");
            Some(Gateway::start(&GatewaySetup {
                threads: args.threads,
                ..GatewaySetup::app(shop.address(), &app)
            })?)
        }
        None => None,
    };
    let target = gateway
        .as_ref()
        .map_or_else(|| shop.address(), Gateway::address);
    play_watched(plan(target, LOAD * c, length), &[length], |_| {
        shop.control("recommend_factor=20")?;
        Ok(())
    })
}

fn plan(target: SocketAddr, rate: f64, length: Duration) -> LoadPlan {
    let kinds = vec![
        Kind::get("browse", "/browse/shoes").share(1.0 - RECOMMENDATIONS),
        Kind::get("recommend", "/recommend/shoes").share(RECOMMENDATIONS),
    ];
    let phases = vec![
        Phase::new("usual", rate, length),
        Phase::new("slow", rate, length),
    ];
    LoadPlan::new(target, kinds, phases)
}

fn served(report: &Report, kind: &str, phase: usize) -> f64 {
    let seconds = report.steady(phase);
    report.sum(seconds, |own| own.name == kind).good_share()
}

/// What browsing keeps: the share served with the slow dependency, of that before.
fn kept(report: &Report) -> f64 {
    served(report, "browse", 1) / served(report, "browse", 0)
}

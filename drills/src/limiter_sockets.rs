//! The simulator against real sockets: the same traffic, the same limiter, and the service times
//! that the real application had.

use std::fs;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use tidegate_lab::load::{Kind, LoadPlan, Phase, Report};
use tidegate_lab::sim::{self, policy::Policy};
use tidegate_lab::suite;

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, ShopProcess, ShopSetup, TempDir, Verdict,
    play_watched, series, until_valid,
};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "limiter-sockets",
    promise: "S1, S4 and X4 over real sockets come to within 3 % of their simulation",
    takes: Duration::from_secs(160),
    run,
};

/// How far the ratio of real to simulated goodput may be from 1.
const APART_MAX: f64 = 0.03;
/// Seeds that the simulated figure is the mean of.
const SEEDS: Range<u64> = 1..6;
/// Time at the beginning that does not count.
const WARM_UP: Duration = Duration::from_secs(5);
/// When the outage of X4 begins, and how long it lasts.
const OUTAGE: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(10));

/// One scenario, for both worlds.
struct Case {
    id: &'static str,
    shop: ShopSetup,
    rate: f64,
    visitors: fn() -> Vec<Kind>,
    /// The simulated traffic and routes that are the same as `visitors` and `shop`.
    simulated: &'static str,
    outage: bool,
    seconds: u64,
}

const CASES: [Case; 3] = [
    Case {
        id: "S1",
        shop: shop(100, 50, 1),
        rate: 3000.0,
        visitors: || {
            let background = Kind::get("background", "/browse/next");
            vec![
                Kind::get("user", "/browse/shoes").share(0.7),
                background.header("Sec-Purpose", "prefetch").share(0.3),
            ]
        },
        simulated: r#"
[[traffic]]
name = "user"
rate = 2100
routes = [{ route = "usual", weight = 1 }]

[[traffic]]
name = "background"
rate = 900
class = "background"
routes = [{ route = "usual", weight = 1 }]
"#,
        outage: false,
        seconds: 30,
    },
    Case {
        id: "S4",
        shop: shop(100, 10, 40),
        rate: 3000.0,
        visitors: || {
            vec![
                Kind::get("quick", "/browse/shoes").share(0.9),
                Kind::get("slow", "/recommend/shoes").share(0.1),
            ]
        },
        simulated: r#"
[[traffic]]
name = "both"
rate = 3000
routes = [{ route = "usual", weight = 9 }, { route = "recommend", weight = 1 }]
"#,
        outage: false,
        seconds: 30,
    },
    Case {
        id: "X4",
        shop: shop(100, 50, 1),
        rate: 1500.0,
        visitors: || vec![Kind::get("user", "/browse/shoes")],
        simulated: r#"
[[traffic]]
name = "user"
rate = 1500
routes = [{ route = "usual", weight = 1 }]
"#,
        outage: true,
        seconds: 45,
    },
];

/// Nothing is said of the application's workers; the two routes have names, as in S4.
const CONFIGURED: &str = r#"patience = "1s"

[[app.route]]
name = "recommend"
path = "/recommend/**"
"#;

const fn shop(slots: u32, service_ms: u64, recommend_factor: u32) -> ShopSetup {
    ShopSetup {
        recommend_factor,
        times_kept: true,
        ..ShopSetup::new(slots, service_ms)
    }
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    for case in &CASES {
        let dir = TempDir::new()?;
        let length = args.length(case.seconds);
        let report = until_valid(args, || real(args, case, length, dir.path()))?;
        verdict.say(format!("{}, real good/s: {}", case.id, series(&report)));
        let window = WARM_UP.as_secs() as usize..length.as_secs() as usize;
        let real = report.goodput(window, |_| true);

        let simulated = simulate(case, length, dir.path())?;
        verdict.say(format!(
            "{}: {real:.0} good/s over sockets, {simulated:.0} simulated",
            case.id
        ));
        verdict.add(
            Figure::share(
                format!("{}: real and simulated goodput apart", case.id),
                (real / simulated - 1.0).abs(),
            )
            .at_most(APART_MAX),
        );
    }
    Ok(verdict)
}

/// One run over sockets. Leaves the service times of its shop in `dir`.
fn real(args: &Args, case: &Case, length: Duration, dir: &Path) -> anyhow::Result<Report> {
    let shop = ShopProcess::open(&case.shop)?;
    let setup = GatewaySetup {
        threads: args.threads,
        ..GatewaySetup::app(shop.address(), CONFIGURED)
    };
    let gateway = Gateway::start(&setup)?;
    let marks: &[Duration] = if case.outage { &[OUTAGE.0] } else { &[] };
    let report = play_watched(offer(gateway.address(), case, length), marks, |_| {
        let stall = format!("stall_ms={}", OUTAGE.1.as_millis());
        shop.control(&stall).map(drop)
    })?;
    gateway.metrics()?;
    fs::write(dir.join("usual"), shop.times(false)?)?;
    fs::write(dir.join("recommend"), shop.times(true)?)?;
    Ok(report)
}

fn offer(target: SocketAddr, case: &Case, length: Duration) -> LoadPlan {
    let phase = Phase::new(case.id, case.rate, length);
    LoadPlan::new(target, (case.visitors)(), vec![phase])
}

/// Mean goodput over the seeds, with the times that [`real`] has left in `dir`.
fn simulate(case: &Case, length: Duration, dir: &Path) -> anyhow::Result<f64> {
    let routes: &[&str] = if case.shop.recommend_factor > 1 {
        &["usual", "recommend"]
    } else {
        &["usual"]
    };
    let mut text = format!(
        "id = \"{}\"\ntitle = \"as over sockets\"\nlength = \"{}s\"\n{}\n[app]\nkind = \"slots\"\n\
         slots = {}\n",
        case.id,
        length.as_secs(),
        case.simulated,
        case.shop.slots
    );
    for route in routes {
        text.push_str(&format!(
            "\n[[app.route]]\nname = \"{route}\"\nservice = {{ kind = \"recorded\", file = \"{route}\" }}\n"
        ));
    }
    if case.outage {
        text.push_str(&format!(
            "\n[[fault]]\nkind = \"stall\"\nat = \"{}s\"\nfor = \"{}s\"\n",
            OUTAGE.0.as_secs(),
            OUTAGE.1.as_secs()
        ));
    }
    let file = dir.join("scenario.toml");
    fs::write(&file, text)?;

    let scenario = suite::read(&file)?;
    let policy = Policy::named("tidegate")?;
    let mut sum = 0.0;
    for seed in SEEDS {
        let record = sim::run(&scenario, &policy, seed);
        sum += record.window(WARM_UP, length).goodput(None);
    }
    Ok(sum / SEEDS.count() as f64)
}

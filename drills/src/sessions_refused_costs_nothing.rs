//! A request that is refused for capacity costs the store nothing. Every command that the store is
//! given is listened to: at ten times the load, with signed-in visitors only, there are no more of them
//! than requests that were served, though many of the others had waited. Beside it an application with a session library and a
//! limit of its own: the library comes first.

use std::time::Duration;

use tidegate_lab::load::{Kind, LoadPlan, Patience, Phase, Report};

use crate::harness::{
    Args, Drill, Figure, Fleet, Keeps, Monitor, SessionSettings, Site, Verdict, Visitor, play,
    runtime, until_valid,
};

const WORKERS: u32 = 8;
const SERVICE_MS: u64 = 50;
/// What that serves, times ten.
const RATE: f64 = 1_600.0;
const LENGTH: u64 = 8;
/// Different visitors.
const VISITORS: usize = 40;
/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-refused-costs-nothing",
    promise: "at ten times the load a request refused for capacity causes no operation in the store",
    takes: Duration::from_secs(40),
    run,
};

/// What was served and refused, and what the store heard of it.
struct Told {
    served: f64,
    refused: f64,
    /// Refusals by their reason.
    reasons: Vec<(String, f64)>,
    operations: f64,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let library = until_valid(args, || with_library(args))?;
    verdict.say(format!(
        "with a session library: served {:.0}, refused {:.0}; commands about sessions {:.0}",
        library.served, library.refused, library.operations
    ));
    let ours = until_valid(args, || in_tidegate(args))?;

    verdict.say(format!(
        "in Tidegate: served {:.0}, refused {:.0}; commands about sessions {:.0}",
        ours.served, ours.refused, ours.operations
    ));
    for (reason, count) in &ours.reasons {
        verdict.say(format!("  refused {count:.0}: {reason}"));
    }
    verdict.add(
        Figure::share(
            "refused at ten times the load",
            ours.refused / (ours.refused + ours.served),
        )
        .at_least(0.8)
        .beside(
            "session library and a limit",
            library.refused / (library.refused + library.served),
        ),
    );
    let beyond = |told: &Told| (told.operations - told.served).max(0.0);
    verdict.add(
        Figure::count(
            "store operations beyond one for each request that was served",
            beyond(&ours),
        )
        .exactly(0.0)
        .beside("session library and a limit", beyond(&library)),
    );
    Ok(verdict)
}

fn in_tidegate(args: &Args) -> anyhow::Result<Told> {
    let fleet = Fleet::start()?;
    let settings = SessionSettings::default().app(&format!("workers = {WORKERS}"));
    let node = fleet.node("node", &settings)?;
    let visitors = runtime()?.block_on(sign_in(node.address()))?;
    let before = node.metrics()?;
    let monitor = Monitor::start(fleet.address())?;

    play(plan(args, node.address(), &visitors, ""))?;

    let heard = monitor.stop()?;
    let now = node.metrics()?.since(&before);
    let refused = now.sum("tidegate_refused_total", &[]);
    let reasons = now.by("tidegate_refused_total", "reason");
    Ok(Told {
        served: now.sum("tidegate_admitted_total", &[]),
        refused,
        reasons: reasons
            .into_iter()
            .filter(|(_, count)| *count > 0.0)
            .collect(),
        operations: count(&heard, "tg:s:{"),
    })
}

fn with_library(args: &Args) -> anyhow::Result<Told> {
    let fleet = Fleet::start()?;
    let site = Site::start("site", Keeps::AsBlob(fleet.address()))?;
    let visitors = runtime()?.block_on(sign_in(site.address()))?;
    let monitor = Monitor::start(fleet.address())?;
    let limit = format!("&limit={WORKERS}");
    let report: Report = play(plan(args, site.address(), &visitors, &limit))?;
    let heard = monitor.stop()?;
    let tally = report.sum(0..report.seconds.len(), |_| true);
    Ok(Told {
        served: tally.good as f64,
        refused: tally.refused as f64,
        reasons: Vec::new(),
        operations: count(&heard, "sess:"),
    })
}

/// Cookies of visitors who are signed in at `target`.
async fn sign_in(target: std::net::SocketAddr) -> anyhow::Result<Vec<String>> {
    let mut cookies = Vec::new();
    for number in 0..VISITORS {
        let mut visitor = Visitor::new(format!("busy-{number}"), number as u64);
        visitor.sign_in(target).await?;
        visitor.look(target).await?;
        cookies.extend(visitor.jar.field());
    }
    anyhow::ensure!(cookies.len() == VISITORS, "somebody has no cookie");
    Ok(cookies)
}

fn plan(args: &Args, target: std::net::SocketAddr, visitors: &[String], query: &str) -> LoadPlan {
    let path = format!("/page?ms={SERVICE_MS}{query}");
    let kinds = visitors.iter().enumerate().map(|(number, cookies)| {
        Kind::get(format!("visitor {number}"), &path)
            .header("Cookie", cookies)
            .patience(Patience::of(Duration::from_secs(2)))
    });
    let phase = Phase::new("ten times", RATE, args.length(LENGTH));
    LoadPlan::new(target, kinds.collect(), vec![phase])
}

/// Commands of clients, not of scripts, that name a key beginning with `prefix`.
fn count(heard: &[u8], prefix: &str) -> f64 {
    let heard = String::from_utf8_lossy(heard);
    let commands = heard
        .lines()
        .filter(|line| !line.contains(" lua] ") && line.contains(prefix));
    commands.count() as f64
}

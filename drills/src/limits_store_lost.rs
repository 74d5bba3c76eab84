//! The store of limits is killed, and stopped so that it hangs: each limit does what its `on_store_loss` says, and requests
//! do not wait for more than the one timeout that it takes to notice. Beside it the same gateway while all is well.

use std::time::Duration;

use tidegate_lab::load::{Kind, LoadPlan, Phase, Report};

use crate::harness::{Args, Drill, Figure, SharedLimits, Verdict, play};

/// What each limit lets pass each second: less than is asked for.
const RATE: f64 = 50.0;
/// Requests a second for each of them.
const OFFERED: f64 = 100.0;
const SECONDS: u64 = 8;
const KINDS: [&str; 3] = ["local", "open", "closed"];
/// A call to the store may take so long, and then the machine has to get round to it.
const P99_MAX_MS: f64 = 15.0;

/// What is done to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    None,
    Killed,
    Hung,
}

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "limits-store-lost",
    promise: "with the store of limits killed or hung each limit does what it says, and p99 stays within 15 ms",
    takes: Duration::from_secs(50),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let length = args.length(SECONDS);
    let usual = offer(Loss::None, length)?;
    for loss in [Loss::Killed, Loss::Hung] {
        let report = offer(loss, length)?;
        let seconds = report.length().as_secs_f64();
        let count = |report: &Report, kind: &str| {
            let kind = report.kinds.iter().find(|it| it.name == kind);
            kind.map_or((0.0, 0.0), |it| {
                (it.total.good as f64, it.total.offered as f64)
            })
        };
        for kind in KINDS {
            let (passed, offered) = count(&report, kind);
            let (well, _) = count(&usual, kind);
            let what = format!("{loss:?}, {kind}: passed of {offered:.0}");
            let figure = Figure::count(what, passed).beside("with the store", well);
            verdict.add(match kind {
                // Its part, which is all of it for a gateway that is alone.
                "local" => figure.at_most((RATE + RATE * seconds).floor()),
                "open" => figure.at_least(offered * 0.99),
                _ => figure.exactly(0.0),
            });
        }
        let p99 = report
            .kinds
            .iter()
            .flat_map(|kind| [kind.good.p99_ms, kind.refusal.p99_ms])
            .fold(0.0, f64::max);
        let usual_p99 = usual
            .kinds
            .iter()
            .flat_map(|kind| [kind.good.p99_ms, kind.refusal.p99_ms])
            .fold(0.0, f64::max);
        verdict.add(
            Figure::ms(format!("{loss:?}: longest p99 of passed and refused"), p99)
                .at_most(P99_MAX_MS)
                .beside("with the store", usual_p99),
        );
    }
    Ok(verdict)
}

/// Offers as much to each limit, after `loss`.
fn offer(loss: Loss, length: Duration) -> anyhow::Result<Report> {
    let mut shared = SharedLimits::start(1)?;
    let limits: String = KINDS
        .iter()
        .map(|kind| {
            format!(
                "[[limit]]\nname = \"{kind}\"\nrate = \"50/s\"\nkey = [{{ header = \"X-{kind}\" }}]\nabsent = \"skip\"\n\
                 scope = \"fleet\"\nmode = \"shared\"\non_store_loss = \"{kind}\"\n"
            )
        })
        .collect();
    let gateway = shared.gateway(&limits)?;
    SharedLimits::wait_for_parts(std::slice::from_ref(&gateway))?;
    match loss {
        Loss::None => {}
        Loss::Killed => shared.redis.kill()?,
        Loss::Hung => shared.redis.pause()?,
    }
    let kinds = KINDS
        .iter()
        .map(|kind| Kind::get(*kind, "/browse/x").header(&format!("X-{kind}"), "somebody"));
    let phase = Phase::new("offered", OFFERED * KINDS.len() as f64, length);
    let report = play(LoadPlan::new(
        gateway.address(),
        kinds.collect(),
        vec![phase],
    ));
    if loss == Loss::Hung {
        shared.redis.resume()?;
    }
    report
}

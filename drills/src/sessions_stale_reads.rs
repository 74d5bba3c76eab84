//! What one gateway wrote, the next one reads: writes and reads that alternate between two
//! gateways. Beside it the same with copies that are trusted for a second.

use std::net::SocketAddr;

use tidegate_lab::load::Request;
use tokio::task::JoinSet;

use crate::harness::{
    Args, Drill, Figure, Fleet, Node, SessionSettings, Verdict, Visitor, runtime, until_valid,
};

const READS: u32 = 100_000;
/// Reads beside copies that are trusted: enough to see what comes of it.
const READS_TRUSTING: u32 = 5_000;
/// Visitors who write and read at the same time, each in its own session.
const VISITORS: u32 = 8;

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-stale-reads",
    promise: "what was written through one gateway is read through the other, 100,000 times of 100,000",
    takes: std::time::Duration::from_secs(90),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let fleet = Fleet::start()?;
    let settings = SessionSettings::default();
    let ours = until_valid(args, || alternate(&fleet, &settings, READS))?;
    verdict.say("the same with copies that are trusted for a second:");
    let settings = settings.with("trust = \"1s\"");
    let trusting = until_valid(args, || alternate(&fleet, &settings, READS_TRUSTING))?;

    verdict.add(Figure::count("reads", f64::from(ours.reads)).at_least(f64::from(READS)));
    verdict.add(
        Figure::count("reads that missed the last write", f64::from(ours.stale))
            .exactly(0.0)
            .beside(
                format!("copies trusted for 1 s, of {}", trusting.reads),
                f64::from(trusting.stale),
            ),
    );
    verdict.add(Figure::share(
        "opened without its content",
        unchanged_share(&ours),
    ));
    Ok(verdict)
}

#[derive(Default)]
struct Told {
    reads: u32,
    stale: u32,
    /// Openings, and those of them for which the local copy was still right.
    opened: f64,
    unchanged: f64,
}

fn unchanged_share(told: &Told) -> f64 {
    told.unchanged / told.opened
}

fn alternate(fleet: &Fleet, settings: &SessionSettings, reads: u32) -> anyhow::Result<Told> {
    let nodes = [
        fleet.node("first", settings)?,
        fleet.node("second", settings)?,
    ];
    let targets = [nodes[0].address(), nodes[1].address()];
    let mut told = runtime()?.block_on(async {
        let mut lanes = JoinSet::new();
        for number in 0..VISITORS {
            lanes.spawn(lane(targets, number, reads.div_ceil(VISITORS)));
        }
        let mut told = Told::default();
        while let Some(lane) = lanes.join_next().await {
            let (reads, stale) = lane??;
            told.reads += reads;
            told.stale += stale;
        }
        anyhow::Ok(told)
    })?;
    Fleet::ensure_never_away(&nodes)?;
    for metrics in nodes.iter().map(Node::metrics) {
        let metrics = metrics?;
        told.opened += metrics.sum("tidegate_session_opened_total", &[]);
        told.unchanged += metrics.sum("tidegate_session_opened_unchanged_total", &[]);
    }
    Ok(told)
}

/// One visitor: writes through one gateway, reads through the other, and the other way round.
async fn lane(targets: [SocketAddr; 2], number: u32, rounds: u32) -> anyhow::Result<(u32, u32)> {
    let mut visitor = Visitor::new(format!("r{number}"), u64::from(number));
    visitor.sign_in(targets[0]).await?;
    let mut stale = 0;
    for round in 1..=rounds {
        let writer = targets[(round % 2) as usize];
        let reader = targets[((round + 1) % 2) as usize];
        visitor.known(writer, Request::post("/count", 0)).await?;
        let known = visitor.look(reader).await?;
        stale += u32::from(known.hits() != u64::from(round));
    }
    Ok((rounds, stale))
}

//! A sign-out everywhere needs no list of sessions: a thousand of one user, on three gateways that
//! all have copies of them, with the user's index lost. Beside it the usual practice, which ends the
//! sessions that an index knows.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tidegate_lab::load::Request;
use tokio::task::JoinSet;

use crate::harness::{
    Args, Blobs, Drill, Figure, Fleet, Known, Node, SessionSettings, Verdict, Visitor, runtime,
};

const SESSIONS: usize = 1_000;
const GATEWAYS: usize = 3;
/// Sessions opened at the same time while they are made and looked at.
const AT_ONCE: usize = 16;
/// By when all must be refused.
const WITHIN: Duration = Duration::from_secs(1);
const USER: &str = "everywhere";

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-sign-out",
    promise: "signed out everywhere, a thousand sessions are refused by three gateways within a second, index or not",
    takes: Duration::from_secs(30),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let fleet = Fleet::start()?;
    let settings = SessionSettings::default();
    let mut nodes = Vec::new();
    for name in ["first", "second", "third"] {
        nodes.push(fleet.node(name, &settings)?);
    }
    let targets: Vec<SocketAddr> = nodes.iter().map(Node::address).collect();
    let runtime = runtime()?;
    let mut visitors = runtime.block_on(sign_in_all(&targets))?;
    let (warm, _) = runtime.block_on(look_all(&mut visitors, &targets))?;
    verdict.add(
        Figure::count("pages for a signed-in user before", warm as f64)
            .exactly((SESSIONS * GATEWAYS) as f64),
    );

    let mut store = fleet.store()?;
    let index = format!("tg:u:{{{USER}}}:s");
    let removed: u64 = store.ask(&["DEL", &index])?;
    anyhow::ensure!(removed == 1, "there was no index {index} to lose");
    let begun = Instant::now();
    let first = runtime.block_on(async {
        let leaver = &mut visitors[0];
        let request = Request::post("/sign-out-everywhere", 0);
        leaver.known(targets[0], request).await
    })?;
    anyhow::ensure!(first.uid.as_deref() == Some(USER), "nobody to sign out");
    // What any gateway still takes for signed in, again and again until it is none or time is up.
    let mut last_accepted = Duration::ZERO;
    while begun.elapsed() < WITHIN {
        let (_, last) = runtime.block_on(look_all(&mut visitors, &targets))?;
        last_accepted = last.map_or(last_accepted, |last| last.duration_since(begun));
    }
    let (left, _) = runtime.block_on(look_all(&mut visitors, &targets))?;
    Fleet::ensure_never_away(&nodes)?;
    let by_index = runtime.block_on(by_index(fleet.address(), &mut store))?;

    verdict.add(
        Figure::count(
            "accepted by any of three gateways, one second after",
            left as f64,
        )
        .exactly(0.0)
        .beside("sessions listed in an index that is lost", by_index as f64),
    );
    verdict.add(Figure::ms(
        "the last one accepted was seen after",
        last_accepted.as_secs_f64() * 1_000.0,
    ));
    Ok(verdict)
}

async fn sign_in_all(targets: &[SocketAddr]) -> anyhow::Result<Vec<Visitor>> {
    let mut visitors = Vec::new();
    let mut lanes = JoinSet::new();
    for lane in 0..AT_ONCE {
        let targets = targets.to_vec();
        lanes.spawn(async move {
            let mut own = Vec::new();
            for number in (lane..SESSIONS).step_by(AT_ONCE) {
                let mut visitor = Visitor::new(USER, number as u64);
                visitor.sign_in(targets[number % targets.len()]).await?;
                visitor.disconnect();
                own.push(visitor);
            }
            anyhow::Ok(own)
        });
    }
    while let Some(own) = lanes.join_next().await {
        visitors.extend(own??);
    }
    Ok(visitors)
}

/// Asks every gateway with every session's cookies; how many answers were for a user, and when the
/// last one of these came.
async fn look_all(
    visitors: &mut Vec<Visitor>,
    targets: &[SocketAddr],
) -> anyhow::Result<(usize, Option<Instant>)> {
    let mut lanes = JoinSet::new();
    let mut all = std::mem::take(visitors);
    let per_lane = all.len().div_ceil(AT_ONCE);
    while !all.is_empty() {
        let mut own = all.split_off(all.len().saturating_sub(per_lane));
        let targets = targets.to_vec();
        lanes.spawn(async move {
            let mut accepted = 0;
            let mut last = None;
            for visitor in &mut own {
                // What a gateway answers with must not keep another one from being asked.
                let cookies = visitor.jar.clone();
                for target in &targets {
                    visitor.jar.clone_from(&cookies);
                    let known = visitor.look(*target).await?;
                    if known.uid.is_some() {
                        accepted += 1;
                        last = Some(Instant::now());
                    }
                }
                visitor.jar = cookies;
                visitor.disconnect();
            }
            anyhow::Ok((own, accepted, last))
        });
    }
    let mut sum = 0;
    let mut latest = None;
    while let Some(lane) = lanes.join_next().await {
        let (own, accepted, last) = lane??;
        visitors.extend(own);
        sum += accepted;
        latest = latest.max(last);
    }
    Ok((sum, latest))
}

/// The usual practice: a set of the user's sessions, which a sign-out everywhere deletes. With the
/// set lost it finds nothing to delete. How many sessions are still there afterwards.
async fn by_index(address: SocketAddr, store: &mut crate::harness::Store) -> anyhow::Result<usize> {
    let blobs = Blobs::new(address)?;
    let known = Known {
        uid: Some(USER.to_owned()),
        ..Known::default()
    };
    let index = format!("sessions-of:{USER}");
    for number in 0..SESSIONS {
        let id = format!("indexed-{number}");
        blobs.save(&id, &known).await?;
        store.ask::<()>(&["SADD", &index, &id])?;
    }
    store.ask::<()>(&["DEL", &index])?;
    let listed: Vec<String> = store.ask(&["SMEMBERS", &index])?;
    for id in listed {
        blobs.remove(&id).await?;
    }
    let mut left = 0;
    for number in 0..SESSIONS {
        left += usize::from(blobs.load(&format!("indexed-{number}")).await?.is_some());
    }
    Ok(left)
}

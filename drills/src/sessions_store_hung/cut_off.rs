//! One gateway of two is cut off from the store, and both write to the same sessions: what is there
//! when it is back goes by the merge rules.

use std::net::SocketAddr;

use tidegate_lab::load::Request;
use tidegate_lab::peers::FaultProxy;

use crate::harness::{Figure, Fleet, SessionSettings, Verdict, Visitor, runtime, wait_for};

const VISITORS: u32 = 50;
/// Counts at each of the two gateways.
const COUNTS: u64 = 3;

pub(super) fn show(verdict: &mut Verdict) -> anyhow::Result<()> {
    let fleet = Fleet::start()?;
    let settings = SessionSettings::default();
    let way = FaultProxy::start(fleet.address())?;
    let cut_off = fleet.node_at("cut-off", &settings, way.address())?;
    let connected = fleet.node("connected", &settings)?;
    let third = fleet.node("third", &settings)?;
    let (away, here) = (cut_off.address(), connected.address());
    let runtime = runtime()?;
    let mut visitors = Vec::new();
    runtime.block_on(async {
        for number in 0..2 * VISITORS {
            let mut visitor = Visitor::new(format!("both-{number}"), u64::from(number));
            visitor.sign_in(here).await?;
            visitor.known(here, Request::post("/add?item=1", 0)).await?;
            // The cut-off one has seen it: so it goes on with a copy.
            visitor.look(away).await?;
            visitors.push(visitor);
        }
        anyhow::Ok(())
    })?;

    way.hang();
    runtime.block_on(async {
        for (number, visitor) in visitors.iter_mut().enumerate() {
            both_write(visitor, away, here).await?;
            if number % 2 == 1 {
                let old = visitor.jar.clone();
                visitor.known(here, Request::post("/sign-out", 0)).await?;
                visitor.jar = old;
                // The cut-off one cannot know.
                visitor.known(away, Request::post("/count", 0)).await?;
            }
        }
        anyhow::Ok(())
    })?;
    way.heal();
    wait_for("everything is in the store", || {
        let waiting = cut_off
            .metrics()?
            .sum("tidegate_session_away_sessions", &[]);
        Ok(waiting == 0.0)
    })?;

    let targets = [away, here, third.address()];
    let told = runtime.block_on(tell(&mut visitors, &targets))?;
    verdict.add(
        Figure::count(
            format!("{VISITORS} sessions written at both sides of a cut: carts put together"),
            f64::from(told.carts),
        )
        .exactly(f64::from(VISITORS)),
    );
    verdict.add(
        Figure::count("counters that are exact", f64::from(told.counts))
            .exactly(f64::from(VISITORS)),
    );
    verdict.add(
        Figure::count(
            format!("of {VISITORS} signed out at the other side, back"),
            f64::from(told.back),
        )
        .exactly(0.0),
    );
    Ok(())
}

async fn both_write(
    visitor: &mut Visitor,
    away: SocketAddr,
    here: SocketAddr,
) -> anyhow::Result<()> {
    let cookies = visitor.jar.clone();
    for _ in 0..COUNTS {
        for target in [away, here] {
            visitor.jar.clone_from(&cookies);
            visitor.known(target, Request::post("/count", 0)).await?;
        }
    }
    for (target, item) in [(away, 2), (here, 3)] {
        visitor.jar.clone_from(&cookies);
        let request = Request::post(&format!("/add?item={item}"), 0);
        visitor.known(target, request).await?;
    }
    visitor.jar = cookies;
    Ok(())
}

#[derive(Default)]
struct Told {
    carts: u32,
    counts: u32,
    back: u32,
}

async fn tell(visitors: &mut [Visitor], targets: &[SocketAddr]) -> anyhow::Result<Told> {
    let mut told = Told::default();
    for (number, visitor) in visitors.iter_mut().enumerate() {
        let mut carts = 0;
        let mut counts = 0;
        for target in targets {
            let cookies = visitor.jar.clone();
            let known = visitor.look(*target).await?;
            visitor.jar = cookies;
            if number % 2 == 1 {
                told.back += u32::from(known.uid.is_some() || !known.cart().is_empty());
            }
            carts += usize::from((1..=3).all(|item| known.cart().contains(&item)));
            counts += usize::from(known.hits() == 2 * COUNTS);
        }
        if number % 2 == 0 {
            told.carts += u32::from(carts == targets.len());
            told.counts += u32::from(counts == targets.len());
        }
    }
    Ok(told)
}

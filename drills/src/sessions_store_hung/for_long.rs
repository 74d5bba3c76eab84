//! The store hangs for long, behind a balancer: new visitors, and what is there when it is back.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_lab::load::Request;

use crate::harness::{
    Balancer, BalancerSetup, Crowd, CrowdPlan, Figure, Fleet, HEALTH, Jar, Keeps, Loss, Node,
    SessionSettings, Site, Verdict, Visitor, Visits, runtime, visitors, wait_for,
};

use super::PATIENCE;

const RATE: f64 = 500.0;
const VISITORS: usize = 100;
/// Requests of each visitor while the store is away.
const REQUESTS: usize = 100;
/// Visitors who sign out, before or meanwhile.
const LEAVING: usize = 50;
/// The same for sessions kept as one value: nothing changes after a while.
const BLOB_LENGTH: Duration = Duration::from_secs(6);

pub(super) fn show(verdict: &mut Verdict) -> anyhow::Result<()> {
    let blob = blobs()?;
    verdict.say(format!(
        "sessions as one value each, the store hung: {} of {} requests failed",
        blob.errors(),
        blob.all.len()
    ));
    let mut fleet = Fleet::start()?;
    let settings = SessionSettings::default().with_affinity();
    let nodes = [
        fleet.node("first", &settings)?,
        fleet.node("second", &settings)?,
    ];
    let entries = nodes.iter().map(Node::entry).collect();
    let balancer = Balancer::start(&BalancerSetup::new(entries, HEALTH).guided())?;
    let runtime = runtime()?;
    let mut gone = runtime.block_on(leave(balancer.address(), "left-before", true))?;
    let mut leaving = runtime.block_on(leave(balancer.address(), "leaving", false))?;

    fleet.redis().pause()?;
    let crowd = send(&balancer)?;
    runtime.block_on(try_on(&balancer, &nodes, &mut leaving, &mut gone))?;
    let (mut crowd, visits) = crowd.join()?;
    fleet.redis().resume()?;
    wait_until_healed(&nodes)?;

    add_losses(verdict, &visits, &blob);
    let third = fleet.node("third", &settings)?;
    let targets = [nodes[0].address(), nodes[1].address(), third.address()];
    let kept = runtime.block_on(found(&mut crowd, &targets))?;
    verdict.add(
        Figure::share(
            "after it resumed, of what was written meanwhile, there at 3 gateways",
            kept,
        )
        .exactly(1.0),
    );
    let back = runtime.block_on(signed_in(&gone, &targets))?
        + runtime.block_on(signed_in(&leaving, &targets))?;
    verdict.add(
        Figure::count(
            format!("of {} who had signed out, signed in again", 2 * LEAVING),
            back as f64,
        )
        .exactly(0.0),
    );
    Ok(())
}

/// New visitors, so many that each has its requests.
fn send(balancer: &Balancer) -> anyhow::Result<Crowd> {
    Crowd::start(
        visitors(VISITORS),
        CrowdPlan {
            target: balancer.address(),
            rate: RATE,
            length: Duration::from_secs_f64((VISITORS * REQUESTS) as f64 / RATE),
            patience: PATIENCE,
        },
    )
}

/// Some sign out, and keep their cookies; who signed out before tries these at every node.
async fn try_on(
    balancer: &Balancer,
    nodes: &[Node],
    leaving: &mut [Visitor],
    gone: &mut [Visitor],
) -> anyhow::Result<()> {
    for visitor in leaving {
        let old = visitor.jar.clone();
        let request = Request::post("/sign-out", 0);
        visitor.known(balancer.address(), request).await?;
        visitor.jar = old;
    }
    for visitor in gone {
        let cookies = visitor.jar.clone();
        for node in nodes {
            visitor.jar.clone_from(&cookies);
            let request = Request::post("/count", 0);
            visitor.known(node.address(), request).await?;
        }
        visitor.jar = cookies;
    }
    Ok(())
}

/// Waits until no gateway has anything that the store has not seen.
fn wait_until_healed(nodes: &[Node]) -> anyhow::Result<()> {
    wait_for("everything is in the store", || {
        let mut waiting = 0.0;
        for node in nodes {
            waiting += node.metrics()?.sum("tidegate_session_away_sessions", &[]);
        }
        Ok(waiting == 0.0)
    })
}

/// Visitors who sign in and, if `out`, out again; with the cookies of before that.
async fn leave(target: SocketAddr, name: &str, out: bool) -> anyhow::Result<Vec<Visitor>> {
    let mut left = Vec::new();
    for number in 0..LEAVING {
        let mut visitor = Visitor::new(format!("{name}-{number}"), number as u64);
        visitor.sign_in(target).await?;
        visitor
            .known(target, Request::post("/add?item=9", 0))
            .await?;
        let old = visitor.jar.clone();
        if out {
            visitor.known(target, Request::post("/sign-out", 0)).await?;
            visitor.jar = old;
        }
        left.push(visitor);
    }
    Ok(left)
}

/// How many of the answers to these cookies are for somebody, or for a cart.
async fn signed_in(visitors: &[Visitor], targets: &[SocketAddr]) -> anyhow::Result<usize> {
    let mut count = 0;
    for visitor in visitors {
        for target in targets {
            let mut again = Visitor::new(&visitor.name, 0);
            again.jar = Jar::clone(&visitor.jar);
            let known = again.look(*target).await?;
            count += usize::from(known.uid.is_some() || !known.cart().is_empty());
        }
    }
    Ok(count)
}

/// The part of the visitors who find at every gateway all that they were told.
async fn found(visitors: &mut [Visitor], targets: &[SocketAddr]) -> anyhow::Result<f64> {
    let mut there = 0;
    for visitor in visitors.iter_mut() {
        let mut losses = 0;
        for target in targets {
            let visited = visitor
                .visit(*target, crate::harness::Step::Look, PATIENCE)
                .await;
            losses += visited.losses.len() + usize::from(!visited.is_answered());
        }
        there += usize::from(losses == 0 && visitor.is_signed_in());
    }
    Ok(there as f64 / visitors.len() as f64)
}

/// The same with sessions as one value each, without a gateway.
fn blobs() -> anyhow::Result<Visits> {
    let mut fleet = Fleet::start()?;
    let keeps = Keeps::AsBlob(fleet.address());
    let sites = [Site::start("first", keeps)?, Site::start("second", keeps)?];
    let nodes = vec![
        ("first".to_owned(), sites[0].address()),
        ("second".to_owned(), sites[1].address()),
    ];
    let balancer = Balancer::start(&BalancerSetup::new(nodes, "/health"))?;
    fleet.redis().pause()?;
    let crowd = Crowd::start(
        visitors(VISITORS),
        CrowdPlan {
            target: balancer.address(),
            rate: RATE / 10.0,
            length: BLOB_LENGTH,
            patience: PATIENCE,
        },
    )?;
    let (_, visits) = crowd.join()?;
    Ok(visits)
}

fn add_losses(verdict: &mut Verdict, visits: &Visits, blob: &Visits) {
    let share = |visits: &Visits| visits.errors() as f64 / visits.all.len() as f64;
    verdict.add(
        Figure::share(
            format!("new visitors, {REQUESTS} requests each without the store: failed"),
            share(visits),
        )
        .exactly(0.0)
        .beside("one value each, timeout of 2 s", share(blob)),
    );
    let p99 = |visits: &Visits| {
        let took = visits.took(0.99, Duration::ZERO, Duration::MAX);
        took.as_secs_f64() * 1_000.0
    };
    verdict.add(
        Figure::ms("99 % of answers within", p99(visits))
            .beside("one value each, timeout of 2 s", p99(blob)),
    );
    for (what, loss) in [
        ("login", Loss::Login),
        ("cart", Loss::Cart),
        ("count", Loss::Count),
    ] {
        verdict.add(
            Figure::count(
                format!("of {VISITORS} new visitors, lost a {what}"),
                visits.losers(loss) as f64,
            )
            .exactly(0.0),
        );
    }
}

//! Who comes back within 24 hours of the last activity finds the cart again, and who comes later does
//! not. Time passes by making everything older that the store has: its own notes of times, the scores
//! of its indexes, and what is left of every key's life. The gateways are new ones afterwards.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_lab::load::Request;
use tokio::task::JoinSet;

use crate::harness::{
    Args, Blobs, Drill, Figure, Fleet, Jar, Known, SessionSettings, Verdict, Visitor, runtime,
};

const DAY: Duration = Duration::from_secs(24 * 3_600);
const MINUTE: Duration = Duration::from_secs(60);
/// Sessions of one user.
const SESSIONS: u32 = 10_000;
/// Sign-ins at the same time while these are made.
const AT_ONCE: u32 = 8;
/// Sessions that the index of a user knows at most when nothing is set.
const INDEX_MAX: u32 = 1_000;

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-resume",
    promise: "back 23 h 59 min after the last activity the cart is there, after 24 h 01 min it is not",
    takes: Duration::from_secs(60),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    for (what, away, there) in [
        ("23 h 59 min", DAY - MINUTE, 1.0),
        ("24 h 01 min", DAY + MINUTE, 0.0),
    ] {
        let found = come_back_after(away)?;
        verdict.add(
            Figure::count(format!("back after {what}: cart found"), found)
                .exactly(there)
                .beside("session of 30 min as one value", blob_after(away)?),
        );
    }
    verdict.add(
        Figure::count(
            "of 3 sessions the newest is gone: cart of the next found",
            adopt_next()?,
        )
        .exactly(1.0),
    );
    let index = index_of_many()?;
    verdict.add(
        Figure::count(
            format!("in the index after {SESSIONS} sessions of one user"),
            index,
        )
        .at_most(f64::from(INDEX_MAX))
        .beside("an index that only grows", f64::from(SESSIONS)),
    );
    Ok(verdict)
}

/// A user fills a cart, looks on 20 minutes later, and comes back after `away` without a cookie. 1
/// when the cart is there, 0 when it is empty.
fn come_back_after(away: Duration) -> anyhow::Result<f64> {
    let fleet = Fleet::start()?;
    let settings = SessionSettings::default();
    let runtime = runtime()?;
    let before = fleet.node("before", &settings)?;
    let target = before.address();
    let mut visitor = Visitor::new("returning", 1);
    runtime.block_on(async {
        visitor.sign_in(target).await?;
        visitor.known(target, Request::post("/add?item=7", 0)).await
    })?;
    // The window begins with the last activity, which need not be a change.
    fleet.store()?.age(20 * MINUTE)?;
    let seen = runtime.block_on(visitor.look(target))?;
    anyhow::ensure!(seen.cart().contains(&7), "the cart was never there");
    before.stop()?;
    fleet.store()?.age(away)?;

    let after = fleet.node("after", &settings)?;
    let cart = runtime.block_on(cart_at_return(after.address(), "returning"))?;
    Ok(f64::from(u8::from(cart.contains(&7))))
}

/// What a user finds who signs in with an empty browser.
async fn cart_at_return(target: SocketAddr, user: &str) -> anyhow::Result<BTreeSet<u32>> {
    let mut visitor = Visitor::new(user, 2);
    visitor.sign_in(target).await?;
    Ok(visitor.look(target).await?.cart())
}

/// The same with a session that is one value in Redis, which lives half an hour.
fn blob_after(away: Duration) -> anyhow::Result<f64> {
    let fleet = Fleet::start()?;
    let mut store = fleet.store()?;
    runtime()?.block_on(async {
        let blobs = Blobs::new(fleet.address())?;
        let mut known = Known::default();
        known.attributes.insert("cart".to_owned(), "[7]".to_owned());
        blobs.save("returning", &known).await?;
        store.age(away)?;
        let cart = blobs.load("returning").await?.map(|known| known.cart());
        Ok(f64::from(u8::from(
            cart.is_some_and(|cart| cart.contains(&7)),
        )))
    })
}

/// A user with three sessions, the newest of which is gone, and nothing else is kept of it. 1 when
/// a fourth one finds the cart of the second.
fn adopt_next() -> anyhow::Result<f64> {
    let fleet = Fleet::start()?;
    let settings = SessionSettings::default().with("idle = \"2d\"\nabsolute = \"7d\"");
    let node = fleet.node("node", &settings)?;
    let target = node.address();
    let mut store = fleet.store()?;
    let cart = runtime()?.block_on(async {
        let mut newest = None;
        for item in 1..=3 {
            let mut visitor = Visitor::new("thrice", item);
            visitor.sign_in(target).await?;
            let request = Request::post(&format!("/add?item={item}"), 0);
            visitor.known(target, request).await?;
            newest = visitor.look(target).await?.session;
            store.age(MINUTE)?;
        }
        let newest = newest.context("the last session has no name")?;
        let (tag, hash) = newest.split_once('.').context("no session's name")?;
        // As its idle time does, and the time of what is kept beside.
        let gone: u64 = store.ask(&["DEL", &format!("tg:s:{{{tag}}}:{hash}")])?;
        anyhow::ensure!(gone == 1, "the newest session was not where it should be");
        store.ask::<()>(&["DEL", "tg:u:{thrice}:c"])?;
        cart_at_return(target, "thrice").await
    })?;
    Ok(f64::from(u8::from(cart.contains(&2) && !cart.contains(&3))))
}

/// How many sessions the index of a user knows who has begun very many.
fn index_of_many() -> anyhow::Result<f64> {
    let fleet = Fleet::start()?;
    let node = fleet.node("node", &SessionSettings::default())?;
    let target = node.address();
    runtime()?.block_on(async {
        let mut lanes = JoinSet::new();
        for lane in 0..AT_ONCE {
            lanes.spawn(async move {
                let mut connection = Visitor::new("often", u64::from(lane));
                for _ in 0..SESSIONS / AT_ONCE {
                    connection.jar = Jar::default();
                    connection.sign_in(target).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(lane) = lanes.join_next().await {
            lane??;
        }
        anyhow::Ok(())
    })?;
    Fleet::ensure_never_away([&node])?;
    let signed_in = node.metrics()?.sum("tidegate_session_signed_in_total", &[]);
    anyhow::ensure!(
        signed_in >= f64::from(SESSIONS),
        "only {signed_in} sign-ins"
    );
    // What is written on the side is written by now, or is held back no longer than this.
    node.stop()?;
    Ok(fleet
        .store()?
        .ask::<u32>(&["ZCARD", "tg:u:{often}:s"])?
        .into())
}

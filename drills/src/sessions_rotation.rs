//! An id is worth nothing after a sign-in, and none is ever taken over from a visitor: the old id at
//! three gateways that all had a copy of it, ids and attributes that somebody planted, two sign-ins
//! at the same time. And nobody learns an id from a log or from the store. Beside it PHP with the
//! settings it comes with.

mod leaks;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_lab::load::Request;

use crate::harness::{
    Args, Drill, Figure, Fleet, Jar, Monitor, Node, SessionSettings, Store, Verdict, Visitor, php,
    runtime, wait_for,
};
use leaks::Secrets;

/// Visitors in each part.
const ROUNDS: u32 = 200;
/// The session's cookie.
const COOKIE: &str = "__Host-tg";
/// PHP's.
const PHP_COOKIE: &str = "PHPSESSID";

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-rotation",
    promise: "a sign-in kills the old id everywhere at once, planted ids and attributes are never adopted, no id leaks",
    takes: Duration::from_secs(30),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let fleet = Fleet::start()?;
    let settings = SessionSettings::default().exposing("role");
    let mut nodes = Vec::new();
    for name in ["first", "second", "third"] {
        nodes.push(fleet.node(name, &settings)?);
    }
    let targets: Vec<SocketAddr> = nodes.iter().map(Node::address).collect();
    let monitor = Monitor::start(fleet.address())?;
    let mut store = fleet.store()?;
    let mut secrets = Secrets::default();
    let php = runtime()?.block_on(usual_practice())?;

    let old = runtime()?.block_on(old_ids(&targets, &mut secrets))?;
    verdict.add(
        Figure::count(
            format!(
                "of {} uses of an old id right after the sign-in, accepted",
                old.uses
            ),
            f64::from(old.accepted),
        )
        .exactly(0.0)
        .beside("PHP, of 1", f64::from(php.old)),
    );
    verdict.add(Figure::count("writes through an old id that arrived", old.written).exactly(0.0));
    let planted = runtime()?.block_on(planted(&targets, &mut store, &mut secrets))?;
    verdict.add(
        Figure::count(
            format!("of {} planted ids, adopted", planted.ids),
            f64::from(planted.adopted),
        )
        .exactly(0.0)
        .beside("PHP, of 1", f64::from(php.adopted)),
    );
    verdict.add(
        Figure::count(
            format!("of {ROUNDS} planted attributes, found after the sign-in"),
            f64::from(planted.attributes),
        )
        .exactly(0.0)
        .beside("PHP, of 1", f64::from(php.attributes)),
    );
    let (pairs, empty) = runtime()?.block_on(parallel(&targets, &mut secrets))?;
    verdict.add(
        Figure::count(
            format!("{ROUNDS} pairs of sign-ins at once: browsers without the cart"),
            f64::from(empty),
        )
        .exactly(0.0),
    );
    add_orphans(&mut verdict, &mut store, &pairs)?;
    Fleet::ensure_never_away(&nodes)?;
    let heard = monitor.stop()?;
    leaks::add(&mut verdict, &secrets, &nodes, &mut store, &heard)?;
    Ok(verdict)
}

/// What became of old ids.
#[derive(Default)]
struct Old {
    uses: u32,
    accepted: u32,
    written: f64,
}

/// What became of planted ones.
#[derive(Default)]
struct Planted {
    ids: u32,
    adopted: u32,
    attributes: u32,
}

/// The same as the usual practice has it, tried once each: 1 is accepted, adopted, found.
struct Usual {
    old: u8,
    adopted: u8,
    attributes: u8,
}

async fn old_ids(targets: &[SocketAddr], secrets: &mut Secrets) -> anyhow::Result<Old> {
    let mut old = Old::default();
    for round in 0..ROUNDS {
        let mut visitor = Visitor::new(format!("rotating-{round}"), u64::from(round));
        let home = targets[round as usize % targets.len()];
        visitor.known(home, Request::post("/add?item=1", 0)).await?;
        secrets.learn(&visitor.jar);
        for target in targets {
            let known = visitor.look(*target).await?;
            anyhow::ensure!(known.cart().contains(&1), "there was no session to rotate");
            secrets.name(&known);
        }
        let mut thief = Visitor::new("thief", 0);
        thief.jar = visitor.jar.clone();
        let stolen = visitor.look(home).await?.session;

        visitor.sign_in(home).await?;

        secrets.learn(&visitor.jar);
        let cookies = thief.jar.clone();
        for target in targets {
            thief.jar.clone_from(&cookies);
            let known = thief.known(*target, Request::post("/count", 0)).await?;
            let same = known.session.is_some() && known.session == stolen;
            old.uses += 1;
            old.accepted += u32::from(known.uid.is_some() || !known.cart().is_empty() || same);
            secrets.learn(&thief.jar);
        }
        let known = visitor.look(home).await?;
        secrets.name(&known);
        anyhow::ensure!(known.uid.is_some(), "the visitor is not signed in");
        old.written += known.hits() as f64;
    }
    Ok(old)
}

async fn planted(
    targets: &[SocketAddr],
    store: &mut Store,
    secrets: &mut Secrets,
) -> anyhow::Result<Planted> {
    let mut planted = Planted::default();
    for round in 0..ROUNDS {
        let home = targets[round as usize % targets.len()];
        // A session of the attacker's own, with something in it that must not come along.
        let mut attacker = Visitor::new("attacker", 0);
        let put = Request::post("/put?name=role&bytes=5", 0);
        attacker.known(home, put).await?;
        secrets.learn(&attacker.jar);
        let known = attacker.look(home).await?;
        anyhow::ensure!(
            known.attributes.contains_key("role"),
            "the attribute was never there"
        );
        let bait = attacker.jar.get(COOKIE).context("no cookie")?.to_owned();
        let mut victim = Visitor::new(format!("victim-{round}"), u64::from(round));
        victim.jar.plant(COOKIE, &bait);
        victim.sign_in(home).await?;
        secrets.learn(&victim.jar);
        let seen = victim.look(home).await?;
        anyhow::ensure!(seen.uid.is_some(), "the victim is not signed in");
        planted.ids += 1;
        planted.adopted += u32::from(seen.session == known.session);
        planted.attributes += u32::from(seen.attributes.contains_key("role"));

        // An id that is well made, and that no session has any more.
        let mut attacker = Visitor::new("attacker", 1);
        attacker
            .known(home, Request::post("/add?item=2", 0))
            .await?;
        let session = attacker.look(home).await?.session.context("no session")?;
        secrets.learn(&attacker.jar);
        let (tag, hash) = session.split_once('.').context("no session's name")?;
        store.ask::<()>(&["DEL", &format!("tg:s:{{{tag}}}:{hash}")])?;
        let other = targets[(round as usize + 1) % targets.len()];
        let mut victim = Visitor::new(format!("late-victim-{round}"), u64::from(round));
        victim.jar = attacker.jar.clone();
        victim.known(other, Request::post("/add?item=3", 0)).await?;
        secrets.learn(&victim.jar);
        let anonymous = victim.look(other).await?.session;
        victim.sign_in(other).await?;
        secrets.learn(&victim.jar);
        let signed_in = victim.look(other).await?.session;
        planted.ids += 2;
        for adopted in [anonymous, signed_in] {
            planted.adopted += u32::from(adopted.as_deref() == Some(&session));
        }
    }
    Ok(planted)
}

/// A pair of sign-ins with one old id: the user, and the sessions that the two browsers have.
type Pair = (String, [String; 2]);

/// The pairs, and how many of their sessions lack the cart.
async fn parallel(
    targets: &[SocketAddr],
    secrets: &mut Secrets,
) -> anyhow::Result<(Vec<Pair>, u32)> {
    let (mut pairs, mut empty) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        let name = format!("twice-{round}");
        let home = targets[round as usize % targets.len()];
        let other = targets[(round as usize + 1) % targets.len()];
        let mut one = Visitor::new(&name, 1);
        one.known(home, Request::post("/add?item=4", 0)).await?;
        secrets.learn(&one.jar);
        let mut two = Visitor::new(&name, 2);
        two.jar = one.jar.clone();

        let (first, second) = tokio::join!(one.sign_in(home), two.sign_in(other));
        first?;
        second?;

        let mut sessions = Vec::new();
        for (visitor, at) in [(&mut one, other), (&mut two, home)] {
            let known = visitor.look(at).await?;
            secrets.learn(&visitor.jar);
            secrets.name(&known);
            anyhow::ensure!(
                known.uid.as_ref() == Some(&name),
                "of two sign-ins one did not succeed"
            );
            empty += u32::from(!known.cart().contains(&4));
            sessions.push(known.session.context("a session without a name")?);
        }
        let sessions = sessions.try_into().ok().context("two sessions")?;
        pairs.push((name, sessions));
    }
    Ok((pairs, empty))
}

/// Sessions of these users in the store, and in their indexes, that no browser has.
fn add_orphans(verdict: &mut Verdict, store: &mut Store, pairs: &[Pair]) -> anyhow::Result<()> {
    let known: std::collections::BTreeSet<&str> = pairs
        .iter()
        .flat_map(|(_, sessions)| sessions.iter().map(String::as_str))
        .collect();
    let mut stored = 0;
    let mut orphans = 0;
    for key in store.keys("tg:s:*")? {
        let user: Option<String> = store.ask(&["HGET", &key, "_u"])?;
        if user.is_some_and(|user| user.starts_with("twice-")) {
            let name = key.replace("tg:s:{", "").replace("}:", ".");
            stored += 1;
            orphans += u32::from(!known.contains(name.as_str()));
        }
    }
    verdict.add(
        Figure::count(
            format!("{ROUNDS} pairs of sign-ins at once: sessions without a browser"),
            f64::from(orphans),
        )
        .exactly(0.0)
        .beside("sessions", f64::from(stored)),
    );
    // The index is written on the side.
    wait_for("every session is in its user's index", || {
        let mut indexed = 0_usize;
        for (name, _) in pairs {
            indexed += store.ask::<usize>(&["ZCARD", &format!("tg:u:{{{name}}}:s")])?;
        }
        Ok(indexed == known.len())
    })
}

/// PHP: an id planted before the sign-in, an attribute planted, and the old id afterwards.
async fn usual_practice() -> anyhow::Result<Usual> {
    let peer = php::start()?;
    let target = peer.address();
    let mut attacker = Visitor::new("attacker", 0);
    attacker.jar.plant(PHP_COOKIE, "plantedplantedplanted");
    let put = Request::post("/put?name=role&bytes=5", 0);
    attacker.known(target, put).await?;
    let known = attacker.look(target).await?;
    let adopted = known.session.as_deref() == Some("plantedplantedplanted");

    let mut victim = Visitor::new("victim", 0);
    victim.jar.plant(PHP_COOKIE, "plantedplantedplanted");
    victim.sign_in(target).await?;
    let seen = victim.look(target).await?;
    anyhow::ensure!(seen.uid.is_some(), "nobody signed in at PHP");
    let old: Jar = attacker.jar.clone();
    let mut thief = Visitor::new("thief", 0);
    thief.jar = old;
    let stolen = thief.look(target).await?;
    Ok(Usual {
        old: u8::from(stolen.attributes.contains_key("role")),
        adopted: u8::from(adopted),
        attributes: u8::from(seen.attributes.contains_key("role")),
    })
}

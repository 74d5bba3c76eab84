//! Values that are too large for a session: beside it, or refused.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use http::Method;
use serde_json::{Value, json};
use tidegate_lab::load::Request;
use tidegate_lab::load::raw::{self, Answer};
use tidegate_lab::peers::{FaultProxy, Toward};

use crate::harness::{
    Figure, Fleet, SessionSettings, Store, Verdict, Visitor, free_port, loopback, runtime,
};

/// Sessions with such a value.
const SESSIONS: u64 = 20;
const LARGE_BYTES: usize = 100 * 1024;
/// Over `blob_max`, which is 1 MiB when nothing is set.
const TOO_LARGE_BYTES: usize = 1024 * 1024 + 1;
/// Values of one patch that are small one by one, and too many for a session of 64 KiB.
const VALUES: usize = 20;
const VALUE_BYTES: usize = 3_900;
/// Longer than any session may live when nothing is set.
const LIFETIME: Duration = Duration::from_secs(8 * 24 * 3_600);

/// A session, and where the sidecar is that knows it.
struct Place {
    sidecar: SocketAddr,
    session: String,
}

pub(super) fn show(verdict: &mut Verdict) -> anyhow::Result<()> {
    let fleet = Fleet::start()?;
    let sidecar = loopback(free_port()?);
    let settings = SessionSettings::default()
        .exposing("large")
        .section(&format!("[sidecar]\nlisten = \"{sidecar}\""));
    let node = fleet.node("node", &settings)?;
    let way = FaultProxy::start(fleet.address())?;
    let cold = SessionSettings::default().exposing("large");
    let cold = fleet.node_at("cold", &cold, way.address())?;
    let mut store = fleet.store()?;
    runtime()?.block_on(async {
        let mut visitors = Vec::new();
        let mut places = Vec::new();
        for number in 0..SESSIONS {
            let mut visitor = Visitor::new(format!("large-{number}"), number);
            let add = Request::post("/add?item=1", 0);
            visitor.known(node.address(), add).await?;
            let session = visitor.look(node.address()).await?.session;
            let place = Place {
                sidecar,
                session: session.context("the visitor has no session")?,
            };
            let answer = place.put(LARGE_BYTES, None).await?;
            anyhow::ensure!(answer.status == 200, "PUT answered {}", answer.status);
            visitors.push(visitor);
            places.push(place);
        }
        let place = &places[0];
        beside(verdict, place, &mut store)?;
        not_moved(verdict, place, &mut visitors, cold.address(), &way).await?;
        refused(verdict, place, &mut store).await?;
        orphans(verdict, place, &mut store).await
    })
}

impl Place {
    fn key(&self) -> anyhow::Result<String> {
        let (tag, hash) = self.session.split_once('.').context("no session's name")?;
        Ok(format!("tg:s:{{{tag}}}:{hash}"))
    }

    /// Gives the attribute `large` a value of `bytes` bytes, by the sidecar.
    async fn put(&self, bytes: usize, condition: Option<&str>) -> anyhow::Result<Answer> {
        let mut request = Request::post(&self.path("/blobs/large"), bytes);
        request.method = Method::PUT;
        if let Some(version) = condition {
            let field = ("If-Match".to_owned(), format!("\"{version}\""));
            request.headers.push(field);
        }
        Ok(raw::ask(self.sidecar, &request).await?)
    }

    async fn patch(&self, ops: Value) -> anyhow::Result<Answer> {
        let mut request = Request::get(&self.path(""));
        request.method = Method::PATCH;
        let kind = ("Content-Type".to_owned(), "application/json".to_owned());
        request.headers.push(kind);
        request.body = json!({ "ops": ops }).to_string().into_bytes();
        Ok(raw::ask(self.sidecar, &request).await?)
    }

    fn path(&self, below: &str) -> String {
        format!("/v1/sessions/{}{below}", self.session)
    }
}

/// A value of 100 KB: a pointer in the session, and the value beside it.
fn beside(verdict: &mut Verdict, place: &Place, store: &mut Store) -> anyhow::Result<()> {
    let pointer: Vec<u8> = store.ask(&["HGET", &place.key()?, "a:large"])?;
    // Sixteen digits, then the letter that says how to read the rest.
    anyhow::ensure!(pointer.get(16) == Some(&b'p'), "it is no pointer");
    let blobs = store.keys("tg:b:*")?;
    let mut bytes = 0.0;
    for blob in &blobs {
        bytes += f64::from(store.ask::<u32>(&["STRLEN", blob])?);
    }
    verdict.add(
        Figure::count("100 KB: bytes in the session", pointer.len() as f64)
            .below(200.0)
            .beside("beside it", bytes / blobs.len() as f64),
    );
    Ok(())
}

/// A gateway without a copy opens the sessions for a route that names the attribute.
async fn not_moved(
    verdict: &mut Verdict,
    place: &Place,
    visitors: &mut [Visitor],
    cold: SocketAddr,
    way: &FaultProxy,
) -> anyhow::Result<()> {
    let moved = || way.bytes(Toward::Client) as f64;
    let before = moved();
    for visitor in visitors.iter_mut() {
        let known = visitor.look(cold).await?;
        anyhow::ensure!(known.cart().contains(&1), "the session was not opened");
    }
    let opened = (moved() - before) / visitors.len() as f64;
    let answer = raw::ask(place.sidecar, &Request::get(&place.path("/blobs/large"))).await?;
    anyhow::ensure!(
        answer.status == 200 && answer.body.len() == LARGE_BYTES,
        "asked for, the value is not there"
    );
    verdict.add(
        Figure::count("moved from the store to open it, the 100 KB named", opened)
            .below(1_024.0)
            .beside("bytes of the value, asked for", answer.body.len() as f64),
    );
    Ok(())
}

/// What is over a ceiling is refused with the reason, and nothing of it is there.
async fn refused(verdict: &mut Verdict, place: &Place, store: &mut Store) -> anyhow::Result<()> {
    let before = everything(place, store)?;
    let value = "v".repeat(VALUE_BYTES);
    let mut ops = vec![json!({ "op": "increment", "name": "hits", "by": 1 })];
    ops.extend((0..VALUES).map(|number| {
        let name = format!("many{number}");
        json!({ "op": "set", "name": name, "text": value })
    }));
    let answers = [
        place.put(TOO_LARGE_BYTES, None).await?,
        place.patch(ops.into()).await?,
    ];

    let mut typed = 0;
    for answer in &answers {
        let problem: Value = serde_json::from_slice(&answer.body)?;
        typed += u32::from(answer.status == 413 && problem["reason"] == "too_large");
    }
    verdict.add(
        Figure::count(
            "2 writes over a ceiling: refused with the reason",
            f64::from(typed),
        )
        .exactly(2.0),
    );
    let same = everything(place, store)? == before;
    verdict
        .add(Figure::count("traces of them in the store", f64::from(u8::from(!same))).exactly(0.0));
    Ok(())
}

/// Everything that a write to the session could change.
fn everything(place: &Place, store: &mut Store) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let mut fields: Vec<String> = store
        .ask::<std::collections::BTreeMap<String, String>>(&["HGETALL", &place.key()?])?
        .into_iter()
        // That the session is in use is no part of what is written.
        .filter(|(name, _)| !matches!(name.as_str(), "_l" | "_d"))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    fields.sort_unstable();
    Ok((fields, store.keys("tg:b:*")?))
}

/// Values that no session points to any more, or never did, end by themselves.
async fn orphans(verdict: &mut Verdict, place: &Place, store: &mut Store) -> anyhow::Result<()> {
    // One that is replaced, one that was written for a change which then was not made, and the one
    // of a session that has gone.
    place.put(LARGE_BYTES, None).await?;
    let conflict = place.put(LARGE_BYTES, Some("0000000000000001")).await?;
    anyhow::ensure!(
        conflict.status == 409,
        "not a conflict: {}",
        conflict.status
    );
    store.ask::<()>(&["DEL", &place.key()?])?;
    let left = store.keys("tg:b:*")?;
    let mut lasting = 0;
    for blob in &left {
        lasting += u32::from(store.ask::<i64>(&["PTTL", blob])? < 0);
    }
    store.age(LIFETIME)?;
    let still = store.keys("tg:b:*")?.len();
    verdict.add(
        Figure::count(
            "values without a session that have no end",
            f64::from(lasting),
        )
        .exactly(0.0)
        .beside("values without a session", left.len() as f64),
    );
    verdict.add(
        Figure::count(
            "of these there after the longest life of a session",
            still as f64,
        )
        .exactly(0.0),
    );
    Ok(())
}

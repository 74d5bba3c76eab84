//! Bytes between a gateway that has no copies and the store, counted by a proxy between them.

use std::net::SocketAddr;

use tidegate_lab::load::Request;
use tidegate_lab::peers::{FaultProxy, Toward};

use crate::harness::{Blobs, Figure, Fleet, Known, SessionSettings, Verdict, Visitor, runtime};

const SESSIONS: u32 = 500;
/// Values of a session, each below what may be in the session itself.
const VALUES: u32 = 4;
const VALUE_BYTES: usize = 3_800;
/// What one opening may move.
const BYTES_MAX: f64 = 1_024.0;

pub(super) fn show(verdict: &mut Verdict) -> anyhow::Result<()> {
    let fleet = Fleet::start()?;
    let settings = SessionSettings::default();
    let warm = fleet.node("warm", &settings)?;
    let way = FaultProxy::start(fleet.address())?;
    let cold = fleet.node_at("cold", &settings, way.address())?;
    let runtime = runtime()?;
    let mut visitors = runtime.block_on(fill(warm.address()))?;
    let stored: u64 = stored_bytes(&fleet)? / u64::from(SESSIONS);

    let before = moved(&way);
    let told = runtime.block_on(async {
        let mut told = 0;
        for visitor in &mut visitors {
            let known = visitor.look(cold.address()).await?;
            told += u32::from(known.cart().contains(&1) && known.hits() == 1);
        }
        anyhow::Ok(told)
    })?;
    Fleet::ensure_never_away([&warm, &cold])?;
    anyhow::ensure!(told == SESSIONS, "only {told} were told both fields");
    let per_open = (moved(&way) - before) as f64 / f64::from(SESSIONS);
    let blob = runtime.block_on(as_blobs(&fleet, &way))?;

    verdict.add(
        Figure::count("bytes of a session in the store", stored as f64)
            .at_least(f64::from(VALUES) * VALUE_BYTES as f64),
    );
    verdict.add(
        Figure::count("bytes moved to open it for two fields, both ways", per_open)
            .below(BYTES_MAX)
            .beside("kept as one value", blob),
    );
    Ok(())
}

fn moved(way: &FaultProxy) -> u64 {
    way.bytes(Toward::Client) + way.bytes(Toward::Server)
}

async fn fill(target: SocketAddr) -> anyhow::Result<Vec<Visitor>> {
    let mut visitors = Vec::new();
    for number in 0..SESSIONS {
        let mut visitor = Visitor::new(format!("large-{number}"), u64::from(number));
        visitor
            .known(target, Request::post("/add?item=1", 0))
            .await?;
        visitor.known(target, Request::post("/count", 0)).await?;
        for value in 0..VALUES {
            let path = format!("/put?name=large{value}&bytes={VALUE_BYTES}");
            visitor.known(target, Request::post(&path, 0)).await?;
        }
        visitor.disconnect();
        visitors.push(visitor);
    }
    Ok(visitors)
}

/// Bytes of all attributes of all sessions.
fn stored_bytes(fleet: &Fleet) -> anyhow::Result<u64> {
    let mut store = fleet.store()?;
    let mut sum = 0;
    for key in store.keys("tg:s:*")? {
        let values: Vec<Vec<u8>> = store.ask(&["HVALS", &key])?;
        sum += values.iter().map(|value| value.len() as u64).sum::<u64>();
    }
    Ok(sum)
}

/// The same with sessions that are one value each: bytes moved to read one.
async fn as_blobs(fleet: &Fleet, way: &FaultProxy) -> anyhow::Result<f64> {
    let blobs = Blobs::new(way.address())?;
    let mut known = Known::default();
    for value in 0..VALUES {
        let bytes = "v".repeat(VALUE_BYTES);
        known.attributes.insert(format!("large{value}"), bytes);
    }
    let direct = Blobs::new(fleet.address())?;
    for number in 0..SESSIONS {
        direct.save(&number.to_string(), &known).await?;
    }
    let before = moved(way);
    for number in 0..SESSIONS {
        anyhow::ensure!(
            blobs.load(&number.to_string()).await?.is_some(),
            "a value is not there"
        );
    }
    Ok((moved(way) - before) as f64 / f64::from(SESSIONS))
}

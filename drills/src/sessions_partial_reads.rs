//! A large session of which a route wants two fields.

use std::time::Duration;

use tidegate_core::session::{Fields, Format, Name, Opened, Value, Version};
use tidegate_lab::peers::{FaultProxy, Toward};
use tidegate_store::SessionStore;

use crate::harness::session_server::{LONG, PATIENT, SessionServer, create, id, name, runtime};
use crate::harness::{Args, Drill, Figure, Verdict};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-partial-reads",
    promise: "15 KB session, nothing known of it, two fields wanted: less than 1 KB is transferred",
    takes: Duration::from_secs(5),
    run,
};

const SESSIONS: u32 = 300;
/// Attributes of each session, and bytes of each.
const ATTRIBUTES: u32 = 15;
const ATTRIBUTE_BYTES: usize = 1_000;
const TRANSFERRED_MAX: f64 = 1_024.0;

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let mut server = SessionServer::start()?;
    let line = FaultProxy::start(server.server().address())?;
    let store = server.gateway_by(line.address())?;
    let runtime = runtime()?;
    runtime.block_on(fill(&store))?;
    let wanted: Fields = Fields::Only([name("cart"), name("locale")].into());
    let transferred = |fields: &Fields, known: Option<&[Version]>| {
        let before = bytes(&line);
        let versions = runtime.block_on(open_all(&store, fields, known))?;
        let each = (bytes(&line) - before) as f64 / f64::from(SESSIONS);
        anyhow::Ok((each, versions))
    };

    let (all, versions) = transferred(&Fields::All, None)?;
    let (two, _) = transferred(&wanted, None)?;
    let (known, _) = transferred(&wanted, Some(&versions))?;

    verdict.add(
        Figure::count("bytes both ways, two fields of 15 KB", two)
            .beside("all of it", all)
            .below(TRANSFERRED_MAX),
    );
    verdict.add(
        Figure::count("bytes both ways when the copy is still right", known).below(TRANSFERRED_MAX),
    );
    Ok(verdict)
}

fn bytes(line: &FaultProxy) -> u64 {
    line.bytes(Toward::Server) + line.bytes(Toward::Client)
}

async fn fill(store: &SessionStore) -> anyhow::Result<()> {
    let value = |bytes: usize| Value {
        format: Format::Json,
        bytes: vec![b'x'; bytes],
    };
    for number in 0..SESSIONS {
        let small = [("cart", 120), ("locale", 5)].map(|(at, bytes)| (name(at), value(bytes)));
        let large =
            (0..ATTRIBUTES).map(|at| (name(&format!("attribute-{at}")), value(ATTRIBUTE_BYTES)));
        let attributes: Vec<(Name, Value)> = small.into_iter().chain(large).collect();
        create(store, id(number), LONG, attributes).await?;
    }
    Ok(())
}

async fn open_all(
    store: &SessionStore,
    fields: &Fields,
    known: Option<&[Version]>,
) -> anyhow::Result<Vec<Version>> {
    let mut versions = Vec::new();
    for number in 0..SESSIONS {
        let known = known.map_or(Version::NONE, |known| known[number as usize]);
        let touch = Some(LONG.touch_after());
        match store
            .open(&id(number), known, fields, touch, PATIENT)
            .await?
        {
            Opened::Found { head, found, .. } => {
                anyhow::ensure!(found.attributes.len() >= 2, "not what was wanted");
                versions.push(head.version);
            }
            Opened::Unchanged { .. } => anyhow::ensure!(known != Version::NONE, "it is not known"),
            Opened::Gone(gone) => anyhow::bail!("{gone:?}"),
        }
    }
    Ok(versions)
}

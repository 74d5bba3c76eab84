//! Whether what opens a session can be found anywhere but in its browser.

use std::collections::HashSet;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::harness::{Figure, Jar, Known, Node, Store, Verdict};

/// Characters of a secret in a cookie.
const SECRET_LEN: usize = 32;
/// Bytes of it.
const SECRET_BYTES: usize = 24;
/// Characters of a session's name that is no secret, but that logs do not have whole either.
const HASH_LEN: usize = 22;
/// Characters of a ticket that are looked for: none of it is anywhere else.
const TICKET_PIECE: usize = 32;

/// Everything that browsers were given.
#[derive(Default)]
pub(super) struct Secrets {
    texts: HashSet<Vec<u8>>,
    bytes: HashSet<Vec<u8>>,
    names: HashSet<Vec<u8>>,
}

impl Secrets {
    /// Takes note of the cookies in `jar`.
    pub(super) fn learn(&mut self, jar: &Jar) {
        if let Some(secret) = jar
            .get(super::COOKIE)
            .and_then(|cookie| cookie.split('.').nth(2))
        {
            self.texts.insert(secret.as_bytes().to_vec());
            self.bytes.extend(URL_SAFE_NO_PAD.decode(secret));
        }
        if let Some(ticket) = jar.get("__Host-tgt")
            && let Some(piece) = ticket.len().checked_sub(TICKET_PIECE)
        {
            self.texts.insert(ticket.as_bytes()[piece..].to_vec());
        }
    }

    /// Takes note of a session's name.
    pub(super) fn name(&mut self, known: &Known) {
        if let Some((_, hash)) = known
            .session
            .as_deref()
            .and_then(|name| name.split_once('.'))
        {
            self.names.insert(hash.as_bytes().to_vec());
        }
    }

    /// How many places of `text` have a secret.
    fn found_in(&self, text: &[u8]) -> usize {
        places(text, SECRET_LEN, &self.texts) + places(text, SECRET_BYTES, &self.bytes)
    }
}

fn places(text: &[u8], length: usize, wanted: &HashSet<Vec<u8>>) -> usize {
    let pieces = text.windows(length);
    pieces.filter(|piece| wanted.contains(*piece)).count()
}

/// Looks for secrets in everything that the store was told and has, and in what gateways say.
pub(super) fn add(
    verdict: &mut Verdict,
    secrets: &Secrets,
    nodes: &[Node],
    store: &mut Store,
    heard: &[u8],
) -> anyhow::Result<()> {
    anyhow::ensure!(
        secrets.texts.iter().all(|text| text.len() == SECRET_LEN)
            && secrets
                .bytes
                .iter()
                .all(|bytes| bytes.len() == SECRET_BYTES)
            && !secrets.bytes.is_empty(),
        "cookies look otherwise than this drill thinks"
    );
    let dump = dump(store)?;
    let mut said = Vec::new();
    for node in nodes {
        said.extend(node.gateway().log().into_bytes());
        said.extend(node.gateway().told("/metrics")?);
        said.extend(node.gateway().told("/status.json")?);
    }
    verdict.say(format!(
        "{} secrets looked for in {} KB of commands, {} KB on disk, {} KB of logs and metrics",
        secrets.texts.len(),
        heard.len() / 1024,
        dump.len() / 1024,
        said.len() / 1024,
    ));
    // A look that finds nothing at all would prove nothing.
    let names = places(heard, HASH_LEN, &secrets.names);
    anyhow::ensure!(names > 0, "not even the names of sessions were heard");
    for (what, text) in [
        ("commands to the store", heard),
        ("the store's file", &dump),
        ("logs and metrics", &said),
    ] {
        let found = secrets.found_in(text);
        verdict.add(Figure::count(format!("secrets in {what}"), found as f64).exactly(0.0));
    }
    let whole = places(&said, HASH_LEN, &secrets.names);
    verdict.add(
        Figure::count("whole names of sessions in logs and metrics", whole as f64).exactly(0.0),
    );
    Ok(())
}

/// The file that the store would keep, written without compression.
fn dump(store: &mut Store) -> anyhow::Result<Vec<u8>> {
    store.ask::<()>(&["CONFIG", "SET", "rdbcompression", "no"])?;
    store.ask::<()>(&["SAVE"])?;
    let mut path = std::path::PathBuf::new();
    for setting in ["dir", "dbfilename"] {
        let (_, value): (String, String) = store.ask(&["CONFIG", "GET", setting])?;
        path.push(value);
    }
    std::fs::read(&path).with_context(|| format!("no file at {}", path.display()))
}

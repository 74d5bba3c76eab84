//! Tokens as a request brings them: what is good, and that nothing else is.

mod forgeries;
mod keyfiles;
mod lives;
mod passes;
mod tickets;

use http::{HeaderMap, HeaderValue};
use tidegate_core::rate::Tick;
use tidegate_core::room::{Epoch, Place, RoomName, Tier};
use tidegate_core::time::Wall;
use tidegate_http::names::{TIDEGATE_DEVICE, TIDEGATE_PASS, TIDEGATE_TICKET};

use super::*;

/// When everything in here happens: 2026-11-30.
const NOW_S: u64 = 1_796_000_000;
const DAY_S: u64 = 86_400;
const EPOCH: Epoch = Epoch(NOW_S * 1_000 - 60_000);

const ADMISSION: Admission = Admission {
    epoch: EPOCH,
    place: Place(60_000 * 4_096),
    nth: 0,
    fence: 7,
    tier: Tier::SignedIn,
    class: 0,
};

fn at(second: u64) -> Wall {
    Wall::from_micros(second * 1_000_000)
}

/// The moment of `second`, by both clocks.
fn moment(second: u64) -> Moment {
    Moment {
        wall: at(second),
        tick: Tick(second * 1_000_000),
    }
}

fn room(name: &str) -> RoomName {
    RoomName::new(name).unwrap()
}

/// A file of keys with these times beside those of [`draw_key`].
fn file(keys: &[(&str, Algorithm, u64, &str)]) -> String {
    let keys: Vec<String> = keys
        .iter()
        .map(|(kid, algorithm, published, more)| {
            let key = draw_key(kid, *algorithm, *published);
            let (key, _) = key.rsplit_once('}').unwrap();
            format!("{key}{more}}}")
        })
        .collect();
    format!("{{\"keys\":[{}]}}", keys.join(","))
}

/// One key for each algorithm, and all of them sign.
fn keys() -> Keys {
    let published = NOW_S - 2 * DAY_S;
    let keys = [
        ("h", Algorithm::Hs256, published, ""),
        ("d", Algorithm::EdDsa, published, ""),
        ("s", Algorithm::Es256, published, ""),
    ];
    Keys::from_json(&file(&keys)).unwrap()
}

fn standing(keys: &Keys) -> Standing {
    Standing {
        keys: keys.clone(),
        epoch: Some(EPOCH),
        revoked: Revoked::default(),
    }
}

/// Nothing here is to be refused because too much was verified, unless that is what it is about.
fn plan(algorithm: Algorithm) -> TokensPlan {
    TokensPlan {
        algorithm,
        checks: ChecksPlan {
            network_us: 1_000_000_000,
            all_us: 1_000_000_000,
            networks_max: 128,
        },
        verified_max: 128,
        passes_max: 128,
        ..TokensPlan::of(room("shop"))
    }
}

fn tokens(algorithm: Algorithm, keys: &Keys) -> Tokens {
    Tokens::new(plan(algorithm), standing(keys)).unwrap()
}

fn visitor<'a>(sessions: &'a [&'a [u8]]) -> Visitor<'a> {
    Visitor {
        address: "192.0.2.1".parse().unwrap(),
        sessions,
    }
}

/// Shows a pass and the secret of a device in headers, as they are.
fn shown(pass: &[u8], device: Option<&Device>) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(TIDEGATE_PASS, HeaderValue::from_bytes(pass).ok()?);
    if let Some(device) = device {
        let text = HeaderValue::from_str(&device.write()).unwrap();
        headers.insert(TIDEGATE_DEVICE, text);
    }
    Some(headers)
}

fn ticket_shown(ticket: &[u8]) -> Option<HeaderMap> {
    let line = (TIDEGATE_TICKET, HeaderValue::from_bytes(ticket).ok()?);
    Some([line].into_iter().collect())
}

/// What comes of `pass` for the owner of `device`; a text that is in no header is none.
fn come_of(
    tokens: &Tokens,
    second: u64,
    pass: &[u8],
    device: Option<&Device>,
) -> Result<PassId, Why> {
    let headers = shown(pass, device).ok_or(Why::Malformed)?;
    let held = tokens
        .read(moment(second), &headers, &visitor(&[]))
        .unwrap();
    held.pass.map(|pass| pass.id())
}

/// The same of a ticket.
fn ticket_of(tokens: &Tokens, second: u64, ticket: &[u8]) -> Result<Ticket, Why> {
    let headers = ticket_shown(ticket).ok_or(Why::Malformed)?;
    let held = tokens
        .read(moment(second), &headers, &visitor(&[]))
        .unwrap();
    held.ticket
}

/// Every text that differs from `text` in one bit.
fn bits_of(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..text.len() * 8).map(|bit| {
        let mut changed = text.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        changed
    })
}

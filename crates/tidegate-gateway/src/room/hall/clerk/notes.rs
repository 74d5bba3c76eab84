//! Facts that everybody is to know, as they are in the store.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_page::Language;
use tidegate_page::document::Reason;

use crate::room::Revoked;

/// How many can still be had.
pub(crate) const STOCK: &str = "stock";
/// What the operator says.
pub(crate) const MESSAGE: &str = "message";
/// Why it is over.
pub(crate) const REASON: &str = "reason";
/// Which passes were taken back.
pub(crate) const REVOKED: &str = "revoked";
/// Longest fact, in bytes.
pub(crate) const NOTE_MAX: usize = 8 * 1024;

/// What everybody is to know of a room, whoever leads and whichever epoch it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Notes {
    /// How many can still be had of what people wait for.
    pub(crate) stock: Option<u64>,
    /// What the operator says, by language.
    pub(crate) message: Option<BTreeMap<Language, String>>,
    /// Why it is over, once it is.
    pub(crate) reason: Option<Reason>,
    /// Which passes were taken back.
    pub(crate) revoked: Revoked,
    /// All of it as it is in the store, also what only a later release can read.
    pub(crate) raw: BTreeMap<String, Vec<u8>>,
}

/// How what was taken back is written.
#[derive(Serialize, Deserialize)]
struct Wire {
    /// What was given before this second is not good.
    before_s: u32,
    /// Ids, as a room's document has them.
    ids: String,
}

impl Notes {
    /// What is in the store. What cannot be read is as if it were not there.
    pub(super) fn read(notes: &BTreeMap<String, Vec<u8>>) -> Self {
        let text = |name: &str| notes.get(name).and_then(|it| str::from_utf8(it).ok());
        Self {
            stock: text(STOCK).and_then(|stock| stock.parse().ok()),
            message: text(MESSAGE).and_then(read_message),
            reason: text(REASON).and_then(read_reason),
            revoked: text(REVOKED).and_then(read_revoked).unwrap_or_default(),
            raw: notes.clone(),
        }
    }
}

/// A message as it is written.
pub(crate) fn write_message(message: &BTreeMap<Language, String>) -> Vec<u8> {
    let by_tag: BTreeMap<&str, &str> = (message.iter())
        .map(|(language, text)| (language.tag(), text.as_str()))
        .collect();
    serde_json::to_vec(&by_tag).expect("texts by texts are JSON")
}

/// A reason as it is written; one that is no end is that the time is over.
pub(crate) const fn write_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::SoldOut => "sold-out",
        Reason::Ended | Reason::Slower | Reason::Surge | Reason::Restoring => "ended",
    }
}

/// What was taken back as it is written.
pub(crate) fn write_revoked(revoked: &Revoked) -> Vec<u8> {
    let wire = Wire {
        before_s: revoked.issued_from_s,
        ids: revoked.ids(),
    };
    serde_json::to_vec(&wire).expect("a number and a text are JSON")
}

/// Languages that there are; of others a later release may know.
fn read_message(text: &str) -> Option<BTreeMap<Language, String>> {
    let by_tag: BTreeMap<String, String> = serde_json::from_str(text).ok()?;
    let known = by_tag
        .into_iter()
        .filter_map(|(tag, text)| Some((Language::of_tag(&tag)?, text)));
    Some(known.collect())
}

fn read_reason(text: &str) -> Option<Reason> {
    match text {
        "sold-out" => Some(Reason::SoldOut),
        "ended" => Some(Reason::Ended),
        _ => None,
    }
}

fn read_revoked(text: &str) -> Option<Revoked> {
    let wire: Wire = serde_json::from_str(text).ok()?;
    Revoked::read(wire.before_s, &wire.ids)
}

#[cfg(test)]
mod tests {
    use tidegate_core::time::Wall;

    use super::*;
    use crate::room::PassId;

    fn stored(notes: &[(&str, &[u8])]) -> BTreeMap<String, Vec<u8>> {
        let each = notes.iter();
        each.map(|(name, value)| ((*name).to_owned(), value.to_vec()))
            .collect()
    }

    #[test]
    fn what_is_written_reads_back() {
        let message = BTreeMap::from([
            (Language::De, "Bald geht es weiter.".to_owned()),
            (Language::En, "It goes on \"soon\".".to_owned()),
        ]);
        let mut revoked = Revoked::default();
        revoked.issued_from_s = 1_796_000_000;
        revoked
            .revoke(Wall::from_micros(0), PassId([3; 16]), 1_796_100_000)
            .unwrap();
        let (said, taken) = (write_message(&message), write_revoked(&revoked));

        let raw = stored(&[
            (STOCK, b"2500"),
            (MESSAGE, &said),
            (REASON, write_reason(Reason::SoldOut).as_bytes()),
            (REVOKED, &taken),
        ]);

        let expected = Notes {
            stock: Some(2_500),
            message: Some(message),
            reason: Some(Reason::SoldOut),
            revoked,
            raw: raw.clone(),
        };
        assert_eq!(Notes::read(&raw), expected);
    }

    #[test]
    fn as_many_as_can_be_revoked_one_by_one_are_one_fact() {
        let mut revoked = Revoked::default();
        for number in 0..Revoked::COUNT_MAX as u128 {
            let id = PassId(number.to_be_bytes());
            revoked.revoke(Wall::from_micros(0), id, u32::MAX).unwrap();
        }

        assert!(write_revoked(&revoked).len() <= NOTE_MAX);
    }

    #[test]
    fn what_makes_no_sense_is_as_if_it_were_not_there() {
        let odd = stored(&[
            (STOCK, b"-1"),
            (MESSAGE, b"[]"),
            (REASON, b"rain"),
            (REVOKED, b"{\"before_s\":1}"),
            ("later", b"?"),
        ]);

        let nothing = Notes {
            raw: odd.clone(),
            ..Notes::default()
        };
        assert_eq!(Notes::read(&odd), nothing);
        let later = stored(&[(MESSAGE, b"{\"en\":\"a\",\"xx\":\"b\"}")]);
        let message = Notes::read(&later).message.unwrap();
        assert_eq!(message, BTreeMap::from([(Language::En, "a".to_owned())]));
    }
}

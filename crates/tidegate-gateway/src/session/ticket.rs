//! The sealed ticket: what a visitor's browser keeps for us, so that any gateway knows them while the
//! store is away.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidegate_core::time::Wall;
use tidegate_store::desk::Ticket;

use crate::session::keys::{Keys, Purpose, SEAL_LEN};

/// A ticket and what the gateway adds to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issued {
    /// What it says of the session.
    pub(crate) ticket: Ticket,
    /// When the session got the id that it has. Nothing in the store says that.
    pub(crate) born: Wall,
}

/// Most characters of a sealed ticket.
pub(crate) const LEN_MAX: usize = 512;

/// How old a ticket gets before another is issued.
const RENEWED_AFTER: Duration = Duration::from_secs(60);

/// The first byte of what is sealed.
const FORM: u8 = 1;
const LEAD_LEN: usize = 1 + 8;
/// Most bytes that the ticket itself may have.
const CONTENT_MAX: usize = LEN_MAX / 4 * 3 - SEAL_LEN - LEAD_LEN;

impl Issued {
    /// The value of its cookie. What does not fit is left out, the attribute named last first; `None`
    /// when not even the rest fits.
    pub(crate) fn seal(mut self, keys: &Keys) -> Option<String> {
        let content = loop {
            let content = self.ticket.encode();
            if content.len() <= CONTENT_MAX {
                break content;
            }
            if self.ticket.counters.pop().is_none() {
                self.ticket.attributes.pop()?;
            }
        };
        let mut plain = Vec::with_capacity(LEAD_LEN + content.len());
        plain.push(FORM);
        plain.extend_from_slice(&self.born.as_micros().to_le_bytes());
        plain.extend_from_slice(&content);
        Some(URL_SAFE_NO_PAD.encode(keys.seal(Purpose::Ticket, &plain)))
    }

    /// The ticket in a cookie's value; `None` when it is not one of ours.
    pub(crate) fn unseal(text: &[u8], keys: &Keys) -> Option<Self> {
        if text.len() > LEN_MAX {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let plain = keys.open(Purpose::Ticket, &sealed)?;
        let [FORM, rest @ ..] = &plain[..] else {
            return None;
        };
        let (born, content) = rest.split_first_chunk()?;
        Some(Self {
            ticket: Ticket::decode(content).ok()?,
            born: Wall::from_micros(u64::from_le_bytes(*born)),
        })
    }
}

/// Whether another one is due at `now`.
pub(crate) fn is_stale(ticket: &Ticket, now: Wall) -> bool {
    now.since(ticket.issued) >= RENEWED_AFTER
}

#[cfg(test)]
mod tests {
    use tidegate_core::session::{
        Attribute, Format, Name, Principal, SessionId, Uid, Value, Version,
    };

    use super::*;

    fn issued(attributes: &[(&str, usize)], uid_bytes: usize) -> Issued {
        let attributes = attributes.iter().map(|(name, bytes)| {
            let value = Value {
                format: Format::Text,
                bytes: vec![b'x'; *bytes],
            };
            let version = Version(1_795_000_000_000_000);
            (Name::new(name).unwrap(), Attribute { version, value })
        });
        let principal = Principal {
            uid: Uid::new("u".repeat(uid_bytes)).unwrap(),
            tier: Some(Name::new("gold").unwrap()),
            epoch: 3,
        };
        Issued {
            ticket: Ticket {
                id: SessionId::parse("abcd.ABCDEFGHIJKLMNOPQRSTUV").unwrap(),
                principal: Some(principal),
                version: Version(9),
                issued: Wall::from_micros(60_000_000),
                deadline: Wall::from_micros(2),
                absolute: Wall::from_micros(3),
                attributes: attributes.collect(),
                counters: vec![(Name::new("items").unwrap(), -1)],
            },
            born: Wall::from_micros(17),
        }
    }

    #[test]
    fn a_ticket_opens_under_the_fleets_keys_and_says_what_was_sealed() {
        let keys = Keys::draw();
        let ticket = issued(&[("cart", 20), ("locale", 5)], 8);

        let sealed = ticket.clone().seal(&keys).unwrap();

        assert!(sealed.len() <= LEN_MAX);
        assert_eq!(Issued::unseal(sealed.as_bytes(), &keys), Some(ticket));
        assert_eq!(Issued::unseal(sealed.as_bytes(), &Keys::draw()), None);
        assert_eq!(Issued::unseal(&sealed.as_bytes()[1..], &keys), None);
        assert_eq!(Issued::unseal(b"", &keys), None);
        assert_eq!(Issued::unseal(&[b'A'; LEN_MAX + 1], &keys), None);
    }

    #[test]
    fn a_ticket_fits_into_its_cookie_by_leaving_out_attributes_from_the_end() {
        let keys = Keys::draw();
        let large = issued(&[("cart", 20), ("note", 300), ("more", 100)], Uid::LEN_MAX);

        let sealed = large.seal(&keys).unwrap();

        assert!(sealed.len() <= LEN_MAX, "{}", sealed.len());
        let opened = Issued::unseal(sealed.as_bytes(), &keys).unwrap();
        let names: Vec<&str> = opened
            .ticket
            .attributes
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["cart"]);
        assert!(opened.ticket.principal.is_some());
    }

    #[test]
    fn a_ticket_is_renewed_once_a_minute() {
        let ticket = issued(&[], 1).ticket;

        assert!(!is_stale(&ticket, Wall::from_micros(119_999_999)));
        assert!(is_stale(&ticket, Wall::from_micros(120_000_000)));
    }
}

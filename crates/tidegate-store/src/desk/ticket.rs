//! What a visitor carries so that any gateway knows them while the store is away.

use tidegate_core::session::{
    Attribute, Fields, Found, Head, Name, Principal, SessionId, Uid, Version,
};
use tidegate_core::time::Wall;

use super::Shared;
use super::opened::{Seen, Standing};
use super::session::Session;

/// What a visitor carries, sealed by the gateway, so that any gateway knows them while the store is
/// away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The session.
    pub id: SessionId,
    /// Whose it is.
    pub principal: Option<Principal>,
    /// The session's version at the time.
    pub version: Version,
    /// When it was issued, by the store's clock.
    pub issued: Wall,
    /// Until when it stands for the session: its deadline at the time.
    pub deadline: Wall,
    /// When the session ends whatever happens.
    pub absolute: Wall,
    /// Small attributes that the plan puts in.
    pub attributes: Vec<(Name, Attribute)>,
    /// Counters that the plan puts in.
    pub counters: Vec<(Name, i64)>,
}

/// Bytes that are no ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no ticket")]
pub struct BadTicket;

/// The first byte; another one is another format.
const FORMAT: u8 = 1;
/// Bytes of the attributes and counters in a ticket, so that the cookie stays small.
const CONTENT_MAX: usize = 300;

impl Ticket {
    /// Most bytes that [`encode`](Self::encode) yields.
    pub const LEN_MAX: usize = 640;

    /// The bytes to be sealed.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        put_text(&mut bytes, &self.id.to_string());
        let principal = self.principal.as_ref();
        put_text(
            &mut bytes,
            principal.map_or("", |principal| principal.uid.as_str()),
        );
        let tier = principal.and_then(|principal| principal.tier.as_ref());
        put_text(&mut bytes, tier.map_or("", Name::as_str));
        for number in [
            principal.map_or(0, |principal| principal.epoch),
            self.version.0,
            self.issued.as_micros(),
            self.deadline.as_micros(),
            self.absolute.as_micros(),
        ] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.push(u8::try_from(self.attributes.len()).unwrap_or(u8::MAX));
        for (name, attribute) in self.attributes.iter().take(usize::from(u8::MAX)) {
            put_text(&mut bytes, name.as_str());
            put(&mut bytes, &attribute.encode());
        }
        bytes.push(u8::try_from(self.counters.len()).unwrap_or(u8::MAX));
        for (name, count) in self.counters.iter().take(usize::from(u8::MAX)) {
            put_text(&mut bytes, name.as_str());
            bytes.extend_from_slice(&count.to_be_bytes());
        }
        bytes
    }

    /// The ticket that `bytes`, once unsealed, are.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadTicket> {
        let mut rest = Rest(bytes);
        if rest.take(1)? != [FORMAT] {
            return Err(BadTicket);
        }
        let id = SessionId::parse(rest.text()?).map_err(|_| BadTicket)?;
        let uid = rest.text()?;
        let tier = rest.text()?;
        let epoch = rest.number()?;
        let principal = match uid {
            "" => None,
            uid => Some(Principal {
                uid: Uid::new(uid).map_err(|_| BadTicket)?,
                tier: match tier {
                    "" => None,
                    tier => Some(Name::new(tier).map_err(|_| BadTicket)?),
                },
                epoch,
            }),
        };
        let version = Version(rest.number()?);
        let issued = Wall::from_micros(rest.number()?);
        let deadline = Wall::from_micros(rest.number()?);
        let absolute = Wall::from_micros(rest.number()?);
        let attributes = rest.list(|rest| {
            let name = rest.name()?;
            let attribute = Attribute::decode(rest.part()?).ok_or(BadTicket)?;
            Ok((name, attribute))
        })?;
        let counters = rest.list(|rest| {
            let name = rest.name()?;
            Ok((name, rest.number()? as i64))
        })?;
        let ticket = Self {
            id,
            principal,
            version,
            issued,
            deadline,
            absolute,
            attributes,
            counters,
        };
        if rest.0.is_empty() {
            Ok(ticket)
        } else {
            Err(BadTicket)
        }
    }
}

impl Ticket {
    /// The session as far as the ticket tells.
    pub(super) fn session(&self) -> Session {
        let attributes = self.attributes.iter().map(|(name, _)| name.clone());
        let counters = self.counters.iter().map(|(name, _)| name.clone());
        Session {
            head: Head {
                version: self.version,
                created: self.issued,
                last_used: self.issued,
                idle: self.deadline.since(self.issued),
                deadline: self.deadline,
                absolute: self.absolute,
                principal: self.principal.clone(),
                bytes: 0,
            },
            fields: Fields::Only(attributes.chain(counters).collect()),
            found: Found {
                attributes: self.attributes.clone(),
                counters: self.counters.clone(),
            },
        }
    }
}

impl Shared {
    /// A ticket for the visitor of `seen`, if the store has just vouched for it.
    pub(super) fn ticket(&self, seen: &Seen) -> Option<Ticket> {
        if !matches!(seen.standing, Standing::Live | Standing::Recovered) {
            return None;
        }
        let goes_in = |name: &Name| self.plan.attributes.of(name).ticket;
        let mut left = CONTENT_MAX;
        let mut fits = |bytes: usize| {
            let fits = bytes <= left;
            left -= if fits { bytes } else { 0 };
            fits
        };
        let session = &seen.session;
        let attributes = session.found.attributes.iter();
        let attributes = attributes.filter(|(name, attribute)| {
            goes_in(name) && fits(name.as_str().len() + attribute.value.bytes.len() + ENTRY)
        });
        let attributes = attributes.cloned().collect();
        let counters = session.found.counters.iter();
        let counters =
            counters.filter(|(name, _)| goes_in(name) && fits(name.as_str().len() + ENTRY));
        Some(Ticket {
            id: seen.id,
            principal: session.head.principal.clone(),
            version: session.version(),
            issued: seen.now,
            deadline: seen.deadline,
            absolute: session.head.absolute,
            attributes,
            counters: counters.cloned().collect(),
        })
    }
}

/// Bytes of an entry beside its name and value: two lengths and the version.
const ENTRY: usize = 2 + 2 + 16 + 2;

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.as_bytes());
}

/// Writes a part with its length before it. No part of a ticket is longer than a length can tell.
fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    let len = u16::try_from(part.len()).unwrap_or(u16::MAX);
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes.extend_from_slice(&part[..usize::from(len)]);
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], BadTicket> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(BadTicket)?;
        self.0 = rest;
        Ok(taken)
    }

    fn part(&mut self) -> Result<&'a [u8], BadTicket> {
        let len = self.take(2)?.try_into().map_err(|_| BadTicket)?;
        self.take(usize::from(u16::from_be_bytes(len)))
    }

    fn text(&mut self) -> Result<&'a str, BadTicket> {
        std::str::from_utf8(self.part()?).map_err(|_| BadTicket)
    }

    fn name(&mut self) -> Result<Name, BadTicket> {
        Name::new(self.text()?).map_err(|_| BadTicket)
    }

    fn number(&mut self) -> Result<u64, BadTicket> {
        let bytes = self.take(8)?.try_into().map_err(|_| BadTicket)?;
        Ok(u64::from_be_bytes(bytes))
    }

    fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, BadTicket>,
    ) -> Result<Vec<T>, BadTicket> {
        let count = self.take(1)?[0];
        (0..count).map(|_| read(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::session::{Format, SlotTag, Value};

    use super::*;

    fn ticket(principal: Option<Principal>) -> Ticket {
        let name = |text| Name::new(text).unwrap();
        let value = Value {
            format: Format::Json,
            bytes: br#"["c91a7"]"#.to_vec(),
        };
        let version = Version(1_795_000_000_000_000);
        Ticket {
            id: SessionId::new(SlotTag::from_bits(7), *b"ABCDEFGHIJKLMNOPQRSTUV").unwrap(),
            principal,
            version,
            issued: Wall::from_micros(1),
            deadline: Wall::from_micros(2),
            absolute: Wall::from_micros(3),
            attributes: vec![(name("cart"), Attribute { version, value })],
            counters: vec![(name("items"), -1)],
        }
    }

    fn user() -> Principal {
        Principal {
            uid: Uid::new("u".repeat(Uid::LEN_MAX)).unwrap(),
            tier: Some(Name::new("gold").unwrap()),
            epoch: 3,
        }
    }

    #[test]
    fn a_ticket_reads_back() {
        for ticket in [ticket(None), ticket(Some(user()))] {
            let bytes = ticket.encode();

            assert!(bytes.len() <= Ticket::LEN_MAX);
            assert_eq!(Ticket::decode(&bytes), Ok(ticket));
        }
    }

    #[test]
    fn bytes_that_are_cut_or_go_on_are_no_ticket() {
        let mut bytes = ticket(Some(user())).encode();
        for end in 0..bytes.len() {
            assert_eq!(Ticket::decode(&bytes[..end]), Err(BadTicket), "{end}");
        }
        bytes.push(0);
        assert_eq!(Ticket::decode(&bytes), Err(BadTicket));
    }
}

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

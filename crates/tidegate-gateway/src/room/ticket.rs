//! The ticket: a place in the line, as its owner carries it. Only gateways read it, so it has a tag and no signature.
//!
//! 66 bytes, 88 characters of base64url, the same for as long as it is good. Numbers are big-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 0 | version, 1 |
//! | 1–3 | which key made it |
//! | 4–15 | room, filled up with zeros |
//! | 16–23 | epoch, ms since 1970 |
//! | 24–31 | place |
//! | 32–39 | arrival, ms since 1970 |
//! | 40 | tier, 1 to 3 |
//! | 41 | flags |
//! | 42–49 | nonce |
//! | 50–65 | tag: the first half of HMAC-SHA256 over a label and all that is before it |
//!
//! Every field has its bytes, and a name no zero in it: nothing that is moved over a border makes another ticket.

use std::fmt;

use tidegate_core::room::{Epoch, PLACE_MAX, Place, RoomName, Tier};
use tidegate_core::time::Wall;

use super::keys::{Keys, Secret};
use super::spelling::{read, spelt};
use super::why::Why;
use crate::session::keys::random;

/// A place in the line of a room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// In which epoch of the room.
    pub epoch: Epoch,
    /// Which.
    pub place: Place,
    /// When its owner came, by the store's clock, to the millisecond.
    pub arrived: Wall,
    /// In which tier.
    pub tier: Tier,
    /// What else is to be known.
    pub flags: TicketFlags,
    /// Makes two tickets for one place two texts.
    nonce: [u8; 8],
}

/// What else is to be known of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TicketFlags(pub u8);

impl TicketFlags {
    /// It was given while the store was away, by the clock of a gateway.
    pub const PROVISIONAL: Self = Self(1);

    /// Whether all of `others` are set.
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

const VERSION: u8 = 1;
const BODY_LEN: usize = 50;
const LEN: usize = BODY_LEN + 16;

impl Ticket {
    /// Characters of a ticket.
    pub const LEN: usize = LEN / 3 * 4;

    /// A ticket that no other is the same as.
    pub fn new(epoch: Epoch, place: Place, arrived: Wall, tier: Tier, flags: TicketFlags) -> Self {
        Self {
            epoch,
            place,
            arrived: Wall::from_micros(arrived.as_micros() / 1_000 * 1_000),
            tier,
            flags,
            nonce: random(),
        }
    }

    /// The same place in another tier.
    pub(crate) fn in_tier(&self, tier: Tier) -> Self {
        Self::new(self.epoch, self.place, self.arrived, tier, self.flags)
    }

    /// The text of it, made with `secret`.
    pub(super) fn write(&self, room: &RoomName, secret: &Secret) -> String {
        let mut bytes = [0; LEN];
        bytes[0] = VERSION;
        bytes[1..4].copy_from_slice(&secret.ticket_id);
        bytes[4..16].copy_from_slice(&padded(room));
        bytes[16..24].copy_from_slice(&self.epoch.0.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.place.0.to_be_bytes());
        let arrived_ms = self.arrived.as_micros() / 1_000;
        bytes[32..40].copy_from_slice(&arrived_ms.to_be_bytes());
        bytes[40] = self.tier.number();
        bytes[41] = self.flags.0;
        bytes[42..50].copy_from_slice(&self.nonce);
        let tag = secret.ticket_tag(&bytes[..BODY_LEN]);
        bytes[BODY_LEN..].copy_from_slice(&tag);
        spelt(&bytes)
    }

    /// The ticket in `text`, if it was made for `room` with a key that is good at `now`; in `epoch`, if that is known.
    pub(super) fn read(
        text: &[u8],
        room: &RoomName,
        epoch: Option<Epoch>,
        keys: &Keys,
        now: Wall,
    ) -> Result<Self, Why> {
        let bytes: [u8; LEN] = read(text).ok_or(Why::Malformed)?;
        let (body, tag) = bytes.split_at(BODY_LEN);
        let [VERSION, a, b, c, ..] = *body else {
            return Err(Why::Malformed);
        };
        let secret = keys.secret_of([a, b, c], now).ok_or(Why::Key)?;
        let tag = tag.first_chunk().expect("the tag has 16 bytes");
        if !secret.ticket_has(body, tag) {
            return Err(Why::Signature);
        }
        if body[4..16] != padded(room) {
            return Err(Why::Foreign);
        }
        let number = |at: usize| {
            let bytes = body[at..].first_chunk().expect("a number has 8 bytes");
            u64::from_be_bytes(*bytes)
        };
        let ticket = Self {
            epoch: Epoch(number(16)),
            place: Place(number(24)),
            arrived: Wall::from_micros(number(32).saturating_mul(1_000)),
            tier: Tier::of_number(body[40].into()).ok_or(Why::Malformed)?,
            flags: TicketFlags(body[41]),
            nonce: *body[42..].first_chunk().expect("the nonce has 8 bytes"),
        };
        if ticket.place.0 > PLACE_MAX {
            return Err(Why::Malformed);
        }
        match epoch {
            Some(epoch) if epoch != ticket.epoch => Err(Why::Epoch),
            _ => Ok(ticket),
        }
    }
}

/// A name of a room in as many bytes as the longest has.
pub(super) fn padded(room: &RoomName) -> [u8; RoomName::LEN_MAX] {
    let mut bytes = [0; RoomName::LEN_MAX];
    bytes[..room.as_str().len()].copy_from_slice(room.as_str().as_bytes());
    bytes
}

/// The nonce is what nobody else knows of it.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (epoch, place) = (self.epoch.0, self.place.0);
        write!(f, "Ticket({epoch}, {place}, tier {})", self.tier.number())
    }
}

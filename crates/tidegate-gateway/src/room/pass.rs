//! The pass: a JSON Web Signature in its compact form (RFC 7515, 7.1) that says who was let in.
//!
//! Its header is one of the few that our keys write, byte by byte. So there is no algorithm to choose, no second member of
//! a name, and no parser for what has not been verified.

use serde::{Deserialize, Serialize};
use tidegate_core::room::{Epoch, RoomName, Tier};
use tidegate_core::time::Wall;

use super::bond::BondTag;
use super::keys::{Key, Keys, seconds};
use super::spelling::{read, read_into, spelt};
use super::why::Why;

/// What a pass is called in its own header, so that no other token is taken for one.
pub const PASS_TYPE: &str = "tg-pass+jwt";

/// Longest text that is looked at as a pass, in bytes.
pub const PASS_LEN_MAX: usize = 1_024;

/// By how much the clocks of gateways may differ.
pub const LEEWAY_S: u64 = 30;

/// Which pass it is, however often it is renewed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PassId(pub(super) [u8; 16]);

/// What a pass says. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claims {
    pub(super) id: PassId,
    pub(super) issued: u32,
    pub(super) expires: u32,
    pub(super) absolute: u32,
    pub(super) epoch: Epoch,
    pub(super) fence: u64,
    pub(super) tier: Tier,
    pub(super) bond: BondTag,
    pub(super) class: u8,
}

/// A text in the form of a pass, with the key that it names.
pub(super) struct Form<'r> {
    pub(super) key: &'r Key,
    /// What is signed: header and payload.
    message: &'r str,
    payload: &'r str,
    signature: &'r str,
}

/// The payload as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload<'a> {
    iss: &'a str,
    aud: &'a str,
    jti: &'a str,
    iat: u32,
    nbf: u32,
    exp: u32,
    abs: u32,
    ep: u64,
    #[serde(rename = "fn")]
    fence: u64,
    tr: u8,
    bd: &'a str,
    bl: u8,
}

impl PassId {
    /// The id that is written as `text`, as an operator has it from a log.
    pub fn read(text: &str) -> Option<Self> {
        read(text).map(Self)
    }

    pub(super) const fn number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

impl std::fmt::Display for PassId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&spelt(&self.0))
    }
}

impl std::fmt::Debug for PassId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PassId({self})")
    }
}

impl Claims {
    /// The pass that says so for `room`, signed by `key`.
    pub(super) fn write(&self, issuer: &str, room: &RoomName, key: &Key) -> String {
        let payload = Payload {
            iss: issuer,
            aud: room.as_str(),
            jti: &spelt(&self.id.0),
            iat: self.issued,
            nbf: self.issued,
            exp: self.expires,
            abs: self.absolute,
            ep: self.epoch.0,
            fence: self.fence,
            tr: self.tier.number(),
            bd: &spelt(&self.bond),
            bl: self.class,
        };
        let payload = serde_json::to_vec(&payload).expect("numbers and texts are JSON");
        let mut text = format!("{}.{}", key.head, spelt(&payload));
        let signature = key.sign(text.as_bytes());
        text.push('.');
        text.push_str(&spelt(&signature));
        text
    }

    /// Whether they hold at `now`, as far as time goes.
    pub(super) const fn hold_at(issued: u32, expires: u32, now: Wall) -> Result<(), Why> {
        let now = seconds(now);
        if issued as u64 > now.saturating_add(LEEWAY_S) {
            return Err(Why::Early);
        }
        if expires as u64 + LEEWAY_S <= now {
            return Err(Why::Expired);
        }
        Ok(())
    }
}

impl<'r> Form<'r> {
    /// The form of `text`, if a key that is good at `now` writes passes with its header.
    pub(super) fn of(text: &'r str, keys: &'r Keys, now: Wall) -> Result<Self, Why> {
        if text.len() > PASS_LEN_MAX {
            return Err(Why::Malformed);
        }
        let (message, signature) = text.rsplit_once('.').ok_or(Why::Malformed)?;
        let (head, payload) = message.split_once('.').ok_or(Why::Malformed)?;
        Ok(Self {
            key: keys.by_head(head, now).ok_or(Why::Key)?,
            message,
            payload,
            signature,
        })
    }

    /// What it says, once the key has verified it.
    pub(super) fn verified(&self, issuer: &str, room: &RoomName) -> Result<Claims, Why> {
        let signature = self.signature;
        if !self.key.has_signed(self.message.as_bytes(), signature) {
            return Err(Why::Signature);
        }
        self.claims(issuer, room)
    }

    /// What it says, if it is known to be verified.
    pub(super) fn claims(&self, issuer: &str, room: &RoomName) -> Result<Claims, Why> {
        let mut bytes = [0; PASS_LEN_MAX];
        let json = read_into(self.payload, &mut bytes).ok_or(Why::Malformed)?;
        let said: Payload<'_> = serde_json::from_slice(json).map_err(|_| Why::Malformed)?;
        if said.iss != issuer || said.aud != room.as_str() {
            return Err(Why::Foreign);
        }
        let is_whole = said.nbf <= said.iat && said.iat <= said.exp && said.exp <= said.abs;
        if !is_whole {
            return Err(Why::Malformed);
        }
        Ok(Claims {
            id: PassId::read(said.jti).ok_or(Why::Malformed)?,
            issued: said.iat,
            expires: said.exp,
            absolute: said.abs,
            epoch: Epoch(said.ep),
            fence: said.fence,
            tier: Tier::of_number(said.tr.into()).ok_or(Why::Malformed)?,
            bond: read(said.bd).ok_or(Why::Malformed)?,
            class: said.bl,
        })
    }
}

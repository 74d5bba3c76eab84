//! What a visitor carries so that any gateway knows them while the store is away.

use tidegate_core::session::{Attribute, Name, Principal, SessionId, Version};
use tidegate_core::time::Wall;

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

#[allow(clippy::missing_const_for_fn)]
impl Ticket {
    /// Most bytes that [`encode`](Self::encode) yields.
    pub const LEN_MAX: usize = 640;

    /// The bytes to be sealed.
    pub fn encode(&self) -> Vec<u8> {
        unimplemented!()
    }

    /// The ticket that `bytes`, once unsealed, are.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadTicket> {
        let _ = bytes;
        unimplemented!()
    }
}

//! The waiting room at the gateway.
//!
//! A visitor carries two tokens through it: a [`Ticket`] is a place in the line, a [`Pass`] says that its owner was let in. Both are
//! verified here, with [`Keys`] alone: no request of somebody who was let in asks the store for it. [`Tokens`] is all of it
//! for one room: it reads what a request has, gives new ones, and says when a pass has used up its budget. Times come in as
//! arguments, and nothing there waits. docs/room-tokens.md has the layout of both, and what others may verify.
//!
//! `hall` is one room at one gateway: what requests read and whom they ask. `visit` is step 9 of the request path, where it is
//! decided who goes in and who waits, and `answer` what those get who do, and the room's own paths. `lead` moves the line at
//! one of the gateways, and keeps what all of them know the same. `herald` writes down what happens, `admin` takes orders.

pub(crate) mod admin;
pub(crate) mod answer;
mod bond;
mod budget;
mod checks;
mod cookies;
pub(crate) mod hall;
mod held;
pub mod herald;
mod jwks;
mod keyfile;
mod keys;
mod lead;
mod pass;
mod plan;
mod revoked;
mod spelling;
mod ticket;
mod tokens;
mod verified;
pub(crate) mod visit;
mod why;

use std::sync::Arc;

use tidegate_store::rooms::RoomStore;
use tidegate_store::{Background, Node};

use crate::context::Shared;

pub use bond::{Bond, Device};
pub use budget::{Budget, Spent, Using};
pub use checks::ChecksPlan;
pub use cookies::KEPT;
pub(crate) use hall::Hall;
pub use hall::{BadRoom, EventPlan, OnRoomLoss, RoomPlan, WebhookPlan};
pub use held::{Admission, Given, Held, Moment, Pass, Visitor};
pub use jwks::{JWKS_MAX_AGE_S, JWKS_PATH};
pub use keyfile::{BadKeys, draw_key};
pub use keys::{Algorithm, KeyState, Keys, NoSigner, PUBLIC_BEFORE_SIGNING_S};
pub(crate) use lead::Leads;
pub use pass::{LEEWAY_S, PASS_LEN_MAX, PASS_TYPE, PassId};
pub use plan::{BadTokens, TokensPlan};
pub use revoked::{Revoked, RevokedFull};
pub use ticket::{Ticket, TicketFlags};
pub use tokens::{Standing, Tokens};
pub use verified::VERIFIED_ENTRY_BYTES;
pub use why::{Ambiguous, Why};

/// Where rooms are kept, and as who this gateway takes part in moving them.
#[derive(Clone)]
pub struct RoomStoreAt {
    /// Where.
    pub store: RoomStore,
    /// What goes on without a request goes on there, for as long as the gateway runs.
    pub background: Background,
    /// Who this gateway is among all.
    pub node: Node,
    /// Whether it may move a line.
    pub leads: bool,
}

/// Has the rooms of a gateway looked after from now on.
pub(crate) fn open(shared: &Shared, at: RoomStoreAt) -> Leads {
    let RoomStoreAt {
        background,
        node,
        leads,
        ..
    } = at;
    let heard = Arc::clone(&shared.heard);
    lead::start(&shared.halls, heard, shared.clock, &background, node, leads)
}

#[cfg(test)]
mod tests;

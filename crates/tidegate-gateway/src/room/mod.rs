//! The waiting room at the gateway: the two tokens that a visitor carries through it.
//!
//! A [`Ticket`] is a place in the line, a [`Pass`] says that its owner was let in. Both are verified here, with [`Keys`] alone:
//! no request of somebody who was let in asks the store for it. [`Tokens`] is all of it for one room: it reads what a request
//! has, gives new ones, and says when a pass has used up its budget. Times come in as arguments, and nothing here waits.
//!
//! docs/room-tokens.md has the layout of both, and what others may verify.

mod bond;
mod budget;
mod checks;
mod cookies;
mod held;
mod jwks;
mod keyfile;
mod keys;
mod pass;
mod plan;
mod revoked;
mod spelling;
mod ticket;
mod tokens;
mod verified;
mod why;

pub use bond::{Bond, Device};
pub use budget::{Budget, Spent, Using};
pub use checks::ChecksPlan;
pub use cookies::KEPT;
pub use held::{Admission, Given, Held, Moment, Pass, Visitor};
pub use jwks::{JWKS_MAX_AGE_S, JWKS_PATH};
pub use keyfile::{BadKeys, draw_key};
pub use keys::{Algorithm, KeyState, Keys, NoSigner, PUBLIC_BEFORE_SIGNING_S};
pub use pass::{LEEWAY_S, PASS_LEN_MAX, PASS_TYPE, PassId};
pub use plan::{BadTokens, TokensPlan};
pub use revoked::{Revoked, RevokedFull};
pub use ticket::{Ticket, TicketFlags};
pub use tokens::{Standing, Tokens};
pub use verified::VERIFIED_ENTRY_BYTES;
pub use why::{Ambiguous, Why};

#[cfg(test)]
mod tests;

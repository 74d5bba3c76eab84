//! A running sidecar over an embedded store, asked over real sockets.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asking;
mod bounds;
mod ends;
mod errors;
mod signals;
mod site;
mod values;

//! What a real HAProxy makes of what it is told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agent;
mod runtime;
mod site;

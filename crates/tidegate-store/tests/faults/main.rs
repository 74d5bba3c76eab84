//! What becomes of calls when the servers, or the way to them, fail. Real servers, real faults.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod failing_over;
mod hanging;
mod store;

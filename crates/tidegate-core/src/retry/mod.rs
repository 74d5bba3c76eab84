//! Trying again: how often, how late, and out of which budget.
//!
//! A refusal that is answered by an immediate retry is no refusal. The three parts in here keep
//! retries from becoming the load: [`Policy`] spreads one caller's attempts in time, [`Budget`]
//! keeps the retries of many callers a fraction of their first attempts, and [`Slots`] lets whoever
//! refuses hand out times to come back at.

mod budget;
mod policy;
mod slots;

use std::time::Duration;

pub use budget::Budget;
pub use policy::{Pause, Policy};
pub use slots::Slots;

/// The longest `Retry-After` that is heeded or handed out. A longer one is a maintenance window, a
/// mistake or malice; whoever wrote it does not get to park a caller for a day.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

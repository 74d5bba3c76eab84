//! Traps in a configuration of HAProxy.

mod sections;
mod server;
mod traps;
mod words;

use super::finding::{Finding, Unreadable};

/// What is found in `text`.
pub(super) fn lint(text: &str) -> Result<Vec<Finding>, Unreadable> {
    let config = sections::read(text)?;
    Ok(traps::all(&config))
}

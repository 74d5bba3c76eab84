//! Traps in a configuration of Envoy.

mod traps;
mod tree;

use super::finding::{Finding, Unreadable};

/// Keys of which one is in any file of Envoy's: its configuration, what it reads of files at run time, and what it says of
/// itself.
const KNOWN: &[&str] = &[
    "@type",
    "admin",
    "clusters",
    "configs",
    "dynamic_resources",
    "endpoints",
    "load_assignment",
    "resources",
    "static_resources",
];

/// What is found in `text`; `guarded` nodes never let the last of them go.
pub(super) fn lint(text: &str, guarded: bool) -> Result<Vec<Finding>, Unreadable> {
    let root = tree::read(text)?;
    if !KNOWN.iter().any(|key| root.get(key).is_some()) {
        return Err(Unreadable::whole(
            "nothing of Envoy's is in it, such as static_resources",
        ));
    }
    Ok(traps::all(&root, guarded))
}

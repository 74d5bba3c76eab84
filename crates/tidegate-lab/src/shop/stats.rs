//! What the shop knows of itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The shop's own counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShopStats {
    /// Requests received whose job has not ended, queued ones included. It falls before the last
    /// byte of the answer is written.
    pub inside: u64,
    /// The most that were inside at once.
    pub inside_max: u64,
    /// Slots there are.
    pub slots: u32,
    /// Slots in use.
    pub busy: u32,
    /// Jobs that wait for a slot.
    pub queue: u64,
    /// The most that waited at once.
    pub queue_max: u64,
    /// Jobs that were given a slot.
    pub started: u64,
    /// Of these: jobs whose caller had left before they started. Dead work.
    pub started_dead: u64,
    /// Jobs that have ended.
    pub finished: u64,
    /// Of these: jobs whose caller had left by then.
    pub finished_dead: u64,
    /// Pages that came with recommendations.
    #[serde(default)]
    pub pages_with: u64,
    /// Pages that came without them, though there were some to be had.
    #[serde(default)]
    pub pages_without: u64,
    /// Connections open now.
    pub connections: u64,
    /// Requests received by path without its query; paths past the first 1,000 under `(more)`.
    pub received: BTreeMap<String, u64>,
}

//! What an operator orders about a node.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::time::Wall;
use tidegate_store::Order;

/// Characters of a name or a reason that are kept.
const TEXT_CHARS_MAX: usize = 120;

/// A node is to be drained: nothing new, while what is there ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Who ordered it.
    pub by: String,
    /// Why, in the operator's words.
    pub why: Option<String>,
    /// For how long it has held.
    pub since: Duration,
    /// For how long it will hold; `None` until it is taken back.
    pub left: Option<Duration>,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    order: String,
    by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl Drain {
    /// What is noted in the store when `by` orders it.
    pub fn encode(by: &str, why: Option<&str>) -> Vec<u8> {
        let short = |text: &str| text.chars().take(TEXT_CHARS_MAX).collect();
        let wire = Wire {
            order: "drain".to_owned(),
            by: short(by),
            why: why.map(short),
        };
        serde_json::to_vec(&wire).expect("texts are JSON")
    }

    /// What `order` says at `now` by the store's clock; `None` for an order of a later release.
    pub fn of(order: &Order, now: Wall) -> Option<Self> {
        let wire: Wire = serde_json::from_slice(&order.said).ok()?;
        (wire.order == "drain").then(|| Self {
            by: wire.by,
            why: wire.why,
            since: now.since(order.since),
            left: order.until.map(|until| until.since(now)),
        })
    }
}

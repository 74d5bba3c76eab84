//! How a room is, as everything at a gateway sees it: made once a second, and read without asking anybody.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::room::{Brake, Epoch, Phase, Policy, Positions};
use tidegate_core::time::{Mono, Wall};
use tidegate_page::document::Reason;

/// Where the line is kept at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Nobody has asked the store yet.
    Unknown,
    /// In the store.
    Stored,
    /// In the store, which had forgotten it: for so many more milliseconds people only come back to their places.
    Restoring {
        /// How long.
        left_ms: u64,
    },
    /// The store has been away since then, and this gateway goes on by itself.
    Away {
        /// Since when.
        since: Mono,
    },
}

/// How a room is.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// When it was made.
    pub(crate) at: Mono,
    /// The store's clock then; the machine's own where the store was not heard of.
    pub(crate) store_now: Wall,
    /// Which line this is; `None` while nobody knows.
    pub(crate) epoch: Option<Epoch>,
    /// What the room does.
    pub(crate) phase: Phase,
    /// Whether an operator has said so, and not the configuration.
    pub(crate) is_ordered: bool,
    /// Where the line is kept.
    pub(crate) line: Line,
    /// Everybody passes: the store has been away for as long as is configured.
    pub(crate) is_open: bool,
    /// Who waits, and where.
    pub(crate) positions: Arc<Positions>,
    /// How many were called and have not come yet.
    pub(crate) ready: u64,
    /// How many are inside, at all gateways.
    pub(crate) active: u64,
    /// How often pages ask.
    pub(crate) policy: Policy,
    /// Visitors per second that may come in, at all gateways, and what keeps it from being more.
    pub(crate) rate: f64,
    /// See `rate`.
    pub(crate) brake: Brake,
    /// What a visitor brings, in requests per second.
    pub(crate) load_each: f64,
    /// What part of those called does not come, 0 to 0.5.
    pub(crate) no_shows: f64,
    /// Gateways that take part, this one included: 1 or more.
    pub(crate) gateways: u32,
    /// Who leads, and by which fence; the last that was heard of.
    pub(crate) leader: Option<Arc<str>>,
    /// See `leader`.
    pub(crate) fence: u64,
    /// Since when nobody is called, in milliseconds since 1970, where that is so.
    pub(crate) paused_since_ms: Option<u64>,
    /// Why a wait has become longer, or why it is over.
    pub(crate) reason: Option<Reason>,
    /// How many can still be had of what people wait for.
    pub(crate) stock: Option<u64>,
    /// How far off the waits were that were told, as a part of them, in the mean of late; `None` while none has ended.
    pub(crate) estimate_error: Option<f64>,
    /// What part of them ended within their band.
    pub(crate) estimate_within: Option<f64>,
    /// More came in during the last minute than was planned, as a part of the plan; 0 where that is not so.
    pub(crate) overshoot: f64,
    /// The room's document, the same bytes for everybody.
    pub(crate) document: Bytes,
}

impl View {
    /// Whether nobody waits.
    pub(crate) fn is_line_empty(&self) -> bool {
        self.positions.waiting() == 0
    }

    /// The store's clock at `now`.
    pub(crate) fn wall(&self, now: Mono) -> Wall {
        let micros = u64::try_from(now.since(self.at).as_micros()).unwrap_or(u64::MAX);
        Wall::from_micros(self.store_now.as_micros().saturating_add(micros))
    }
}

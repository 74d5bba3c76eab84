//! What an operator may set of a fleet's health.

use super::guard::OUT_PERCENT_MAX;
use super::smoothing::Smoothing;
use super::spare::TARGET_USED;
use super::state::{Bands, Turns};

/// How nodes are judged. The defaults are meant to be kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Where the states begin and end.
    pub bands: Bands,
    /// How long it takes to turn.
    pub turns: Turns,
    /// How fast news is believed.
    pub smoothing: Smoothing,
    /// How much of a node should be used, 0 to 1.
    pub target_used: f64,
    /// Of so many nodes in a hundred may be out, 1 to 90; of every fleet of two or more at least one.
    pub out_percent_max: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bands: Bands::default(),
            turns: Turns::default(),
            smoothing: Smoothing::default(),
            target_used: TARGET_USED,
            out_percent_max: OUT_PERCENT_MAX,
        }
    }
}

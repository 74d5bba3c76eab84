//! What an operator may set of a fleet's health.

use super::smoothing::Smoothing;
use super::spare::TARGET_USED;
use super::state::Bands;

/// How nodes are judged. The defaults are meant to be kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Where the states begin and end.
    pub bands: Bands,
    /// How fast news is believed.
    pub smoothing: Smoothing,
    /// How much of a node should be used, 0 to 1.
    pub target_used: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bands: Bands::default(),
            smoothing: Smoothing::default(),
            target_used: TARGET_USED,
        }
    }
}

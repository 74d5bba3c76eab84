//! A cache in front of the slow part of the work.

use std::time::Duration;

use tidegate_core::rng::Rng;

use crate::scenario;

/// Entries that are asked for equally often, each there or not.
#[derive(Debug)]
pub(super) struct Cache {
    hit: Duration,
    there: Vec<bool>,
}

/// What a look into the cache comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// It is there.
    Hit { takes: Duration },
    /// It has to be worked for, and is there afterwards.
    Miss { entry: u32 },
}

impl Cache {
    /// A full cache.
    pub(super) fn new(of: &scenario::Cache) -> Self {
        Self {
            hit: of.hit,
            there: vec![true; of.entries as usize],
        }
    }

    pub(super) fn ask(&self, rng: &mut Rng) -> Asked {
        let entry = rng.below(self.there.len() as u64);
        match self.there.get(entry as usize) {
            Some(true) => Asked::Hit { takes: self.hit },
            _ => Asked::Miss {
                entry: entry as u32,
            },
        }
    }

    pub(super) fn fill(&mut self, entry: u32) {
        if let Some(there) = self.there.get_mut(entry as usize) {
            *there = true;
        }
    }

    pub(super) fn empty(&mut self) {
        self.there.fill(false);
    }
}

//! What other parts of the process have counted, shown among the gateway's own metrics.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::exposition::{Source, counter};

/// A count of another part of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The metric's name, without `_total`.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// What was counted since the start: one row, or one for each set of labels.
    pub rows: Vec<CountedRow>,
}

/// A row of a count: its labels, which no client may choose, and how many there were.
pub type CountedRow = (Vec<(&'static str, String)>, u64);

/// Asks another part of the process what it has counted.
pub type Others = Box<dyn Fn() -> Vec<Counted> + Send + Sync>;

/// The place for the other parts of the process.
#[derive(Default)]
pub struct Place(Mutex<Vec<Others>>);

impl Counted {
    /// A count without labels.
    pub fn one(name: &'static str, help: &'static str, count: u64) -> Self {
        Self {
            name,
            help,
            rows: vec![(Vec::new(), count)],
        }
    }
}

impl Place {
    /// Has `others` asked whenever metrics are, too.
    pub(crate) fn give(&self, others: Others) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(others);
    }

    fn all(&self) -> Vec<Counted> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().flat_map(|others| others()).collect()
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").finish_non_exhaustive()
    }
}

impl Source {
    /// What the others have counted.
    pub(super) fn others(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(shared) = self.shared() else {
            return Ok(());
        };
        for counted in shared.others.all() {
            let mut rows = counter(encoder, counted.name, counted.help)?;
            for (labels, count) in &counted.rows {
                let labels: Vec<_> = labels
                    .iter()
                    .map(|(name, value)| (*name, value.as_str()))
                    .collect();
                rows.count(&labels, *count)?;
            }
        }
        Ok(())
    }
}

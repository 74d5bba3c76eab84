//! What other parts of the process have counted, shown among the gateway's own metrics.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::exposition::{Source, counter, gauge};

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

/// What another part of the process measures: it may go up and down.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The metric's name.
    pub name: &'static str,
    /// What it measures.
    pub help: &'static str,
    /// What was measured last: one row, or one for each set of labels.
    pub rows: Vec<MeasuredRow>,
}

/// A row of a measure: its labels, which no client may choose, and its value.
pub type MeasuredRow = (Vec<(&'static str, String)>, f64);

/// Asks another part of the process what it measures.
pub type Measures = Box<dyn Fn() -> Vec<Measured> + Send + Sync>;

/// The place for the other parts of the process.
#[derive(Default)]
pub struct Place {
    counts: Mutex<Vec<Others>>,
    measures: Mutex<Vec<Measures>>,
}

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
        let mut all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(others);
    }

    /// Has `measures` asked whenever metrics are, too.
    pub(crate) fn give_measures(&self, measures: Measures) {
        let mut all = self.measures.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(measures);
    }

    fn all(&self) -> Vec<Counted> {
        let all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().flat_map(|others| others()).collect()
    }

    fn all_measures(&self) -> Vec<Measured> {
        let all = self.measures.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().flat_map(|measures| measures()).collect()
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
                rows.count(&texts(labels), *count)?;
            }
        }
        for measured in shared.others.all_measures() {
            let mut rows = gauge(encoder, measured.name, measured.help)?;
            for (labels, value) in &measured.rows {
                rows.gauge(&texts(labels), *value)?;
            }
        }
        Ok(())
    }
}

fn texts<'a>(labels: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    let labels = labels.iter();
    labels
        .map(|(name, value)| (*name, value.as_str()))
        .collect()
}

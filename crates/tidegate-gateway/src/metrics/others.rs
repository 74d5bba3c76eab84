//! What other parts of the process have counted, shown among the gateway's own metrics.

use std::fmt;
use std::sync::OnceLock;

use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::exposition::{Source, counter};

/// A count of another part of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The metric's name, without `_total`.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// How many there were since the start.
    pub count: u64,
}

/// Asks another part of the process what it has counted.
pub type Others = Box<dyn Fn() -> Vec<Counted> + Send + Sync>;

/// The place for one other part of the process.
#[derive(Default)]
pub struct Place(OnceLock<Others>);

impl Place {
    /// Has `others` asked whenever metrics are; nobody else after that.
    pub(crate) fn give(&self, others: Others) {
        let _ = self.0.set(others);
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.0.get().is_some())
    }
}

impl Source {
    /// What the others have counted.
    pub(super) fn others(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(others) = self.shared().and_then(|shared| shared.others.0.get()) else {
            return Ok(());
        };
        for counted in others() {
            counter(encoder, counted.name, counted.help)?.count(&[], counted.count)?;
        }
        Ok(())
    }
}

//! What is counted, per thread, without a lock, and how it is shown.
//!
//! Every thread adds to counters of its own; they are summed when somebody asks. What labels there
//! are is known from the plan, so nothing that a client sends makes a new one.

mod dependencies;
mod exposition;
mod histogram;
mod others;
mod rates;
mod recorder;
mod rooms;
mod sessions;
mod store;

pub use crate::metrics::exposition::{CONTENT_TYPE, Exposition};
pub(crate) use crate::metrics::histogram::{Histogram, HistogramTotal};
pub use crate::metrics::others::{
    Counted, CountedRow, Measured, MeasuredRow, Measures, Others, Place,
};
pub(crate) use crate::metrics::rates::RATE_COUNTS;
pub use crate::metrics::recorder::Recorder;
pub(crate) use crate::metrics::recorder::{
    Cell, ClassCells, RateCells, SessionCells, WorkCells, total,
};
pub(crate) use crate::metrics::sessions::{DESK_COUNTS, DESK_GAUGES};
pub(crate) use crate::metrics::store::PASSING;

/// How an admitted request's work was worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The answer was there before the caller's deadline.
    InTime,
    /// It was there, but later than that.
    Late,
    /// The caller had gone before the answer was there.
    Gone,
}

impl Completion {
    /// Every completion.
    pub const ALL: [Self; 3] = [Self::InTime, Self::Late, Self::Gone];

    /// Position in [`Completion::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::InTime => "in_time",
            Self::Late => "late",
            Self::Gone => "gone",
        }
    }
}

//! Rate limits: how much may happen, decided exactly and in whole numbers.
//!
//! [`spec`] reads what a limit is, in the words of a configuration. [`bucket`], [`log`] and [`window`] are the three
//! ways to count, and [`state`] is what any of them remembers. Decisions are functions of a state, a time and a
//! cost; who keeps the state, on this node or in a store, is no business of this module. Neither is
//! the adaptive limit on concurrency, which is [`crate::limit`].
//!
//! [`price`] is for a limit of which a part holds for a while.
//!
//! No decision uses floating point, and no count exceeds 2⁵³, so that a script whose numbers are doubles decides
//! the same to the microsecond.

pub mod bucket;
pub mod key;
pub mod log;
pub mod permits;
pub mod price;
pub mod set;
pub mod share;
pub mod spec;
pub mod state;
pub mod window;

pub use bucket::{BucketSpec, BucketState};
pub use price::Price;
pub use spec::{Algorithm, PERIOD_US_MAX, Rate, Spec, SpecError};
pub use state::State;

/// A reading, in microseconds, of the clock that is the authority for a state: a store's for what is shared, a
/// monotonic one for what a process keeps for itself. Readings of two clocks must not meet in one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

/// The tokens were there and are spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Whole tokens that are left.
    pub remaining: u64,
}

/// The tokens were not there, and nothing was spent. The longer wait is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Short {
    /// They will be there in `wait_us` microseconds, 1 or more, and not one earlier, if nobody else takes any until
    /// then. Counted from the later of now and the state's own time, so that a clock that was
    /// set back by an hour does not send clients away for an hour.
    Wait {
        /// How many microseconds.
        wait_us: u64,
    },
    /// They will never be there: the cost is more than there ever is at once.
    Never,
}

impl Tick {
    /// Microseconds from `earlier` to `self`, or 0 when `earlier` is the later one.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The reading so many microseconds later.
    pub const fn plus(self, micros: u64) -> Self {
        Self(self.0.saturating_add(micros))
    }
}

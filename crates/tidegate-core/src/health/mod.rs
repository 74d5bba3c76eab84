//! How much room nodes have left, and what follows for the balancers before them.
//!
//! What a node reads ([`Signal`]) becomes what it has left ([`Headroom`]): the least over all dimensions, never a mean. A
//! state ([`State`], by [`Evidence`]) with hysteresis follows from that.

mod headroom;
mod scale;
mod signal;
mod smoothing;
mod state;

pub use headroom::{Binding, Headroom, Readings};
pub use scale::{Reach, Scale, ScaleError, Scales, USED_STRESSED_MAX};
pub use signal::{Dimension, SIGNAL_AGE_MAX, Signal, Validity};
pub use smoothing::{Smoothing, SmoothingError};
pub use state::{
    Bands, BandsError, DWELL_MIN, Evidence, RECOVER_TICKS, Reason, SATURATED_TICKS, State,
    Transition,
};

//! How much room a node has left, and what follows for the balancers before it.

mod signal;

pub use signal::{Dimension, SIGNAL_AGE_MAX, Signal, Validity};

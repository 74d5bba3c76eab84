//! What an agent sees on a node: the kernel's figures, accept queues, and what the application tells.
//!
//! Every reading carries whether it may be believed; what is not known is said with its reason and is never zero. What
//! follows from the readings is decided elsewhere.

mod kernel;
mod listeners;
mod sight;

pub use kernel::{Host, HostView, Roots, in_container};
pub use listeners::{At, AtError, Depth, Diag, Watch};
pub use sight::{Blank, Sight};

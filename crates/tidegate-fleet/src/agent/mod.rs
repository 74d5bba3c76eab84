//! What an agent sees on a node: the kernel's figures, accept queues, and what the application tells.
//!
//! Every reading carries whether it may be believed; what is not known is said with its reason and is never zero. What
//! follows from the readings is decided elsewhere.

mod board;
mod kernel;
mod listeners;
mod probe;
mod profile;
mod sampler;
mod sight;
mod watcher;

pub use board::{Board, BoardFull, POSTED_MAX, Posted};
pub use kernel::{Host, HostView, Roots, in_container};
pub use listeners::{At, AtError, Depth, Diag, Watch};
pub use probe::{Asking, Budgets, FpmStatus, Login, PROBE_TIMEOUT, Probe, Terms, Url, UrlError};
pub use profile::{Fill, Runtime};
pub use sampler::{ASKING_MAX, AgentPlan, Sampler, Seen};
pub use sight::{Blank, Sight};
pub use watcher::{Agent, TICK};

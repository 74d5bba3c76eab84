//! What tells load balancers about nodes.
//!
//! Some balancers ask: those get the verdict that hangs on a node's board, by URL (in `tidegate_http::verdict`) or over TCP
//! ([`AgentCheck`]). Others are told: an [`Adapter`] knows what one of them holds, what it should hold, and the commands in
//! between, and a [`Reconciler`] keeps it so.

mod adapter;
mod agent_check;
mod counts;
pub mod haproxy;
mod reconcile;

pub use adapter::{Adapter, Desired, Wanted};
pub use agent_check::{AgentCheck, AgentCheckPlan};
pub use counts::{AgentCheckTally, ReconcileTally};
pub use reconcile::Reconciler;

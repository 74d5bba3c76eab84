//! What runs beside the data path on a node: the sidecar API for applications of any language, and what tells load
//! balancers about the node.
//!
//! An application that needs more of its sessions than headers can say asks here, over a Unix socket
//! or a loopback address: all of a session, changes that depend on what is there, large values, the
//! sessions of a user, the ends of sessions; and whether a call to a dependency is to be made now.
//! `src/api/openapi.json` describes it.

pub mod agent;
pub mod control;

mod api;
pub mod balancer;
mod counts;
mod drain;
mod mint;
mod permits;
mod plan;
mod server;
mod stream;

pub use counts::Tally;
pub use mint::{Mint, Minted};
pub use permits::{PermitCall, PermitDoor, PermitReply, PermitUsed, Replying};
pub use plan::SidecarPlan;
pub use server::{Sidecar, SidecarError};
pub use tidegate_http::local::{Listen, ListenError};

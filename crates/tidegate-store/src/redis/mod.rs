//! Sessions in Redis or Valkey.

mod blobs;
mod ends;
mod keys;
mod plan;
mod replies;
mod script;
mod scripts;
mod servers;
mod sessions;
mod users;

pub use plan::{Address, Arrangement, BadAddress, Credentials, LanePlan, RedisPlan, Use};

pub(crate) use script::Run;
pub(crate) use servers::{Lane, Servers};

use crate::background::Background;

/// A connection to Redis or Valkey: standalone, behind Sentinel, or a Cluster.
#[derive(Clone)]
pub struct Redis {
    servers: Servers,
}

impl Redis {
    /// Begins to connect and returns at once: whether there is a server shows at the first call.
    pub fn start(plan: &RedisPlan, purpose: Use, background: &Background) -> Self {
        Self {
            servers: Servers::start(plan, purpose, background),
        }
    }

    #[expect(clippy::unused_self, reason = "the breakers are not there yet")]
    pub(crate) const fn is_away(&self, _: &tidegate_core::session::SessionId) -> bool {
        false
    }
}

//! Redis and Valkey: sessions, the fleet, and the connections that all uses of them have.

mod answer;
mod beacons;
mod blobs;
mod cluster;
mod conversation;
mod counts;
mod ends;
mod failover;
mod fleet;
mod inspect;
mod keys;
mod line;
mod link;
mod map;
mod plan;
mod pool;
mod redo;
mod replies;
mod said;
mod script;
mod scripts;
mod sentinel;
mod servers;
mod sessions;
mod shard;
mod slot;
mod stats;
mod supervisor;
mod users;

pub use failover::Recovery;
pub use inspect::{Found, Inspection, inspect};
pub use plan::{Address, Arrangement, BadAddress, Credentials, LanePlan, RedisPlan, Use};
pub use stats::{Passing, RedoStats, ShardStats, StoreStats};

pub(crate) use keys::{
    DIVIDERS, LIMIT_SECRET, lead, limit as limit_key, limit_speakers, permit_ends, permits, room,
    room_part, room_reports,
};
pub(crate) use replies::Elements;
pub(crate) use script::Run;
pub(crate) use scripts::{DIVIDE, LIMIT, PERMITS, ROOM, ROOM_BOARD, ROOM_LEAD, SHARE};
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

    /// How the servers are, and what was counted about them.
    pub fn stats(&self) -> StoreStats {
        self.servers.stats()
    }

    pub(crate) const fn servers(&self) -> &Servers {
        &self.servers
    }

    pub(crate) fn is_away(&self, id: &tidegate_core::session::SessionId) -> bool {
        self.servers.is_away(keys::session(id).as_ref())
    }
}

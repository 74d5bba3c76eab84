//! Who belongs to the fleet and is alive.
//!
//! A node enrols when it starts and renews before its lease is over; who does not is taken for dead.
//! The store's clock decides. A node is the same node after a restart, in another life: its
//! incarnation tells the lives apart, and the life that enrolled last counts, so that a process
//! which was paused for a while does not take its successor's place.

use std::time::Duration;

use tidegate_core::session::Name;
use tidegate_core::time::Wall;

use crate::Call;
use crate::embedded::Embedded;
use crate::error::StoreError;
use crate::redis::Redis;

/// Most members of a fleet that are alive at the same time.
pub const MEMBERS_MAX: u32 = 4_096;
/// Longest lease of a member.
pub const MEMBER_LEASE_MAX: Duration = Duration::from_secs(3_600);

/// Where the fleet is known. A clone is the same one.
#[derive(Clone)]
pub enum Fleet {
    /// In Redis or Valkey, for every node that uses the same.
    Redis(Redis),
    /// In this process, which is a fleet of one.
    Embedded(Embedded),
}

/// One life of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// The node's name.
    pub id: Name,
    /// Drawn anew whenever its process starts.
    pub incarnation: u64,
}

/// A member that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which.
    pub node: Node,
    /// Since when this life of it belongs to the fleet, by the store's clock.
    pub since: Wall,
    /// Until when it is taken for alive, by the store's clock.
    pub until: Wall,
}

/// The reply to an enrolment or a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enrolled {
    /// It is a member until its lease is over.
    Member {
        /// The store's clock.
        now: Wall,
    },
    /// Another life of the node has enrolled since: this one is over.
    Superseded,
    /// There are [`MEMBERS_MAX`] members already.
    Full,
}

impl Fleet {
    /// Makes `node` a member for `lease`, in the place of an earlier life of it.
    pub async fn enrol(
        &self,
        node: &Node,
        lease: Duration,
        call: Call,
    ) -> Result<Enrolled, StoreError> {
        let lease = lease.min(MEMBER_LEASE_MAX);
        match self {
            Self::Redis(on) => on.enrol(node, lease, true, call).await,
            Self::Embedded(on) => Ok(on.enrol(node, lease, true)),
        }
    }

    /// Keeps `node` a member for another `lease` from now on, also when its lease is over by now.
    pub async fn renew(
        &self,
        node: &Node,
        lease: Duration,
        call: Call,
    ) -> Result<Enrolled, StoreError> {
        let lease = lease.min(MEMBER_LEASE_MAX);
        match self {
            Self::Redis(on) => on.enrol(node, lease, false, call).await,
            Self::Embedded(on) => Ok(on.enrol(node, lease, false)),
        }
    }

    /// Takes `node` out; false when it was not in, or another life of it is.
    pub async fn leave(&self, node: &Node, call: Call) -> Result<bool, StoreError> {
        match self {
            Self::Redis(on) => on.leave(node, call).await,
            Self::Embedded(on) => Ok(on.leave(node)),
        }
    }

    /// The members that are alive, by name.
    pub async fn living(&self, call: Call) -> Result<Vec<Member>, StoreError> {
        match self {
            Self::Redis(on) => on.living(call).await,
            Self::Embedded(on) => Ok(on.living()),
        }
    }
}

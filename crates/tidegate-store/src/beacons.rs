//! What nodes say about themselves, what the leader decides about them, and what operators order.
//!
//! A node posts its beacon every second, under a lease; one that falls silent is not there any more.
//! The leader reads all beacons in one call and publishes what it decided about all nodes at once,
//! with the fence of its lease: what a former leader says never takes the place of what a later one
//! said. A node hears what was decided about it with the reply to its beacon, so it costs one
//! operation a second, and a leader three more.
//!
//! All that is said is bytes here: what they mean is not the store's business.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::session::Name;
use tidegate_core::time::Wall;

use crate::Call;
use crate::error::StoreError;
use crate::lease::Fence;
use crate::members::{Fleet, MEMBERS_MAX, Node};

/// Bytes of the longest beacon.
pub const BEACON_BYTES_MAX: usize = 2_048;
/// Bytes of the longest verdict about one node, and of an operator's order.
pub const VERDICT_BYTES_MAX: usize = 1_024;
/// Bytes of the longest word about the whole fleet.
pub const FLEET_BYTES_MAX: usize = 4_096;
/// Most beacons that are kept, and most orders.
pub const BEACONS_MAX: u32 = MEMBERS_MAX;
/// Characters that are told of the name of an entry that makes no sense.
pub const ODD_NAME_CHARS_MAX: usize = 64;
/// Longest time that a beacon or what was published counts.
pub const BEACON_LEASE_MAX: Duration = Duration::from_secs(60);
/// The lease of whoever decides about the nodes of a fleet. It lies beside the beacons, in a Cluster
/// too, so that one script sees both.
pub const LEADERSHIP: &str = "fleet";

/// How long what was published is remembered, whether or not it counts: with it, its fence.
pub(crate) const PUBLISHED_KEPT: Duration = Duration::from_secs(86_400);

/// The reply to a beacon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It is there.
    Heard(Heard),
    /// Another life of the node has spoken since: this one is over, or two have one name.
    Superseded,
    /// There are [`BEACONS_MAX`] already.
    Full,
}

/// What a node hears when it has posted its beacon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The store's clock.
    pub now: Wall,
    /// For how long somebody leads, unless they renew; zero when nobody does.
    pub leader_left: Duration,
    /// What was published last, as far as it is about this node; it may count no more.
    pub mine: Option<Mine>,
}

/// What was published, as far as it is about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mine {
    /// When, and by whom.
    pub stamp: Stamp,
    /// What was said of the fleet.
    pub fleet: Vec<u8>,
    /// What was decided about the node, if anything.
    pub verdict: Option<Vec<u8>>,
}

/// Which of what was published something is: a later one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Of the leader who said it.
    pub fence: Fence,
    /// Which of that leader's it is.
    pub generation: u64,
    /// When it was published, by the store's clock.
    pub at: Wall,
    /// Until when it counts, by the store's clock.
    pub until: Wall,
}

/// A beacon that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beacon {
    /// Whose.
    pub node: Node,
    /// When it came, by the store's clock.
    pub at: Wall,
    /// What it says.
    pub said: Vec<u8>,
}

/// What an operator ordered about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// About which.
    pub node: Name,
    /// When, by the store's clock.
    pub since: Wall,
    /// Until when it holds, by the store's clock; `None` until it is taken back.
    pub until: Option<Wall>,
    /// What.
    pub said: Vec<u8>,
}

/// All that a leader decides by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beacons {
    /// The store's clock.
    pub now: Wall,
    /// Every beacon that counts, by name.
    pub beacons: Vec<Beacon>,
    /// What operators ordered, by name.
    pub orders: Vec<Order>,
    /// Names of the entries, of both kinds, that make no sense and were passed over, the first [`ODD_NAME_CHARS_MAX`]
    /// characters of each: somebody else writes to the store. They may hold anything.
    pub odd: Vec<String>,
}

/// What a leader publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Of its lease.
    pub fence: Fence,
    /// Grows with each that the leader publishes.
    pub generation: u64,
    /// What is said of the fleet: [`FLEET_BYTES_MAX`] at most.
    pub fleet: Vec<u8>,
    /// What was decided about each node: [`VERDICT_BYTES_MAX`] at most, [`BEACONS_MAX`] of them.
    pub verdicts: BTreeMap<Name, Vec<u8>>,
}

/// The reply to publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// It is what counts now.
    Done {
        /// The store's clock.
        now: Wall,
    },
    /// A later leader is known, or something later of this one: nothing was changed.
    Outranked {
        /// Whose fence that was.
        by: Fence,
    },
}

/// What was published, all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The store's clock at the reading.
    pub now: Wall,
    /// When, and by whom.
    pub stamp: Stamp,
    /// What was said of the fleet.
    pub fleet: Vec<u8>,
    /// What was decided about each node.
    pub verdicts: BTreeMap<Name, Vec<u8>>,
}

impl Fleet {
    /// Posts what `node` says about itself, to count for `lease` ([`BEACON_LEASE_MAX`] at most). The first
    /// beacon of a life takes an earlier life's place.
    pub async fn post_beacon(
        &self,
        node: &Node,
        said: &[u8],
        lease: Duration,
        is_first: bool,
        call: Call,
    ) -> Result<Posted, StoreError> {
        bounded("beacon", said, BEACON_BYTES_MAX)?;
        let lease = lease.min(BEACON_LEASE_MAX);
        match self {
            Self::Redis(on) => on.post_beacon(node, said, lease, is_first, call).await,
            Self::Embedded(on) => Ok(on.post_beacon(node, said, lease, is_first)),
        }
    }

    /// Every beacon that counts, and every order.
    pub async fn beacons(&self, call: Call) -> Result<Beacons, StoreError> {
        match self {
            Self::Redis(on) => on.beacons(call).await,
            Self::Embedded(on) => Ok(on.beacons()),
        }
    }

    /// Publishes what a leader decided, to count for `valid` ([`BEACON_LEASE_MAX`] at most), in the place of all
    /// that was published before.
    pub async fn publish(
        &self,
        decided: &Decided,
        valid: Duration,
        call: Call,
    ) -> Result<Published, StoreError> {
        bounded("word about the fleet", &decided.fleet, FLEET_BYTES_MAX)?;
        for verdict in decided.verdicts.values() {
            bounded("verdict", verdict, VERDICT_BYTES_MAX)?;
        }
        if decided.verdicts.len() > BEACONS_MAX as usize {
            return Err(too_long("list of verdicts", BEACONS_MAX as usize));
        }
        let valid = valid.min(BEACON_LEASE_MAX);
        match self {
            Self::Redis(on) => on.publish(decided, valid, call).await,
            Self::Embedded(on) => Ok(on.publish(decided, valid)),
        }
    }

    /// What was published last, whether or not it still counts.
    pub async fn published(&self, call: Call) -> Result<Option<Issue>, StoreError> {
        match self {
            Self::Redis(on) => on.published(call).await,
            Self::Embedded(on) => Ok(on.published()),
        }
    }

    /// Notes an operator's order about `node`, for `span` or until it is taken back. False when there are too many.
    pub async fn order(
        &self,
        node: &Name,
        said: &[u8],
        span: Option<Duration>,
        call: Call,
    ) -> Result<bool, StoreError> {
        bounded("order", said, VERDICT_BYTES_MAX)?;
        match self {
            Self::Redis(on) => on.order(node, said, span, call).await,
            Self::Embedded(on) => Ok(on.order(node, said, span)),
        }
    }

    /// Takes an order back; false when there was none.
    pub async fn take_order_back(&self, node: &Name, call: Call) -> Result<bool, StoreError> {
        match self {
            Self::Redis(on) => on.take_order_back(node, call).await,
            Self::Embedded(on) => Ok(on.take_order_back(node)),
        }
    }
}

fn bounded(what: &str, said: &[u8], bytes_max: usize) -> Result<(), StoreError> {
    if said.len() > bytes_max {
        return Err(too_long(what, bytes_max));
    }
    Ok(())
}

fn too_long(what: &str, most: usize) -> StoreError {
    StoreError::Refused(format!("a {what} is longer than {most}"))
}

//! The state that a fleet shares: sessions, rate limits, waiting rooms, who is a member, who leads.
//!
//! Two backends keep it: [`redis`] (Redis or Valkey: standalone, Sentinel, Cluster)
//! and [`embedded`] (in process, one file). [`SessionStore`] is either of them and
//! nothing more; [`Desk`](crate::desk::Desk) is what the gateway and the sidecar talk to: it adds
//! the local cache, and what happens while the store is away.

pub mod desk;
pub mod embedded;
pub mod limits;
pub mod permits;
pub mod redis;
pub mod rooms;

mod background;
mod beacons;
mod call;
mod ends;
mod error;
mod janitor;
mod lease;
mod members;
mod rate_key;
mod sessions;
mod sip;

pub use background::Background;
pub use beacons::{
    BEACON_BYTES_MAX, BEACON_LEASE_MAX, BEACONS_MAX, Beacon, Beacons, Decided, FLEET_BYTES_MAX,
    Heard, Issue, LEADERSHIP, Mine, ODD_NAME_CHARS_MAX, Order, Posted, Published, Stamp,
    VERDICT_BYTES_MAX,
};
pub use call::{Acked, Call};
pub use ends::{
    BUCKETS, BadEvent, Claimed, Consumer, Due, ENDED_KEPT, Ended, Event, EventId, Fate, Position,
    Reason, bucket_of,
};
pub use error::StoreError;
pub use janitor::{Janitor, JanitorStats};
pub use lease::{Fence, Held, LEASE_MAX, STORE_GRAIN, Taken};
pub use members::{Enrolled, Fleet, MEMBER_LEASE_MAX, MEMBERS_MAX, Member, Node};
pub use rate_key::{RateKeys, RateSecret};
pub use sessions::{NewSession, SessionStore, SignedOut};

//! Where rooms are kept, each with real servers where it has any.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::room::{
    Beat, Beaten, Calling, Claim, Epoch, Found, Order, Place, Released, RoomName, Rules, Tier,
    Whereabouts,
};
use tidegate_core::session::Name;
use tidegate_lab::patience::until;
use tidegate_lab::peers::{Cluster, ClusterSetup, RedisServer, SentinelSetup, Sentinels};
use tidegate_store::embedded::{Embedded, EmbeddedPlan};
use tidegate_store::redis::{Address, Arrangement, Credentials, Redis, RedisPlan, Use};
use tidegate_store::rooms::{Looked, RedisRooms, Room, RoomError, RoomStore, RoomTable};
use tidegate_store::{Background, Call, Fence, Node, Taken};

/// A call that is not mistaken for a fault on a loaded machine.
pub(crate) const CALL: Call = Call::within(Duration::from_secs(5));
/// Nobody is silent for so long in a test.
pub(crate) const GRACE: Duration = Duration::from_secs(600);
/// Nobody has to come within so little.
pub(crate) const CLAIM: Duration = Duration::from_secs(600);

pub(crate) const RULES: Rules = Rules {
    waiting_max: 2_000,
    misses_max: 2,
    settle_ms: 400,
    ticket_ms: 86_400_000,
};

/// A store of rooms, and what it runs on.
pub(crate) struct Backend {
    store: RoomStore,
    pub(crate) servers: Servers,
}

/// Kept for as long as the store is in use.
#[expect(dead_code, reason = "they are stopped when they are dropped")]
pub(crate) enum Servers {
    Nothing,
    Standalone(RedisServer, Background),
    Sentinels(Sentinels, Background),
    Cluster(Cluster, Background),
}

/// A room that is open, and a leader who has not been anybody yet.
pub(crate) struct Open {
    pub(crate) room: Room,
    pub(crate) epoch: Epoch,
    pub(crate) fence: Fence,
    tick: AtomicU64,
}

impl Backend {
    pub(crate) fn embedded() -> Self {
        let store = Embedded::start(EmbeddedPlan::at(None)).unwrap();
        Self {
            store: RoomStore::Embedded(Arc::new(RoomTable::new(store))),
            servers: Servers::Nothing,
        }
    }

    pub(crate) fn standalone() -> Self {
        let server = RedisServer::plain().unwrap();
        let (store, thread) = redis(Arrangement::Standalone(address(server.address())));
        Self {
            store,
            servers: Servers::Standalone(server, thread),
        }
    }

    pub(crate) fn sentinels() -> Self {
        let servers = Sentinels::start(&SentinelSetup::default()).unwrap();
        let (store, thread) = redis(Arrangement::Sentinel {
            sentinels: servers.addresses().into_iter().map(address).collect(),
            primary: Sentinels::NAME.to_owned(),
            credentials: Credentials::default(),
        });
        Self {
            store,
            servers: Servers::Sentinels(servers, thread),
        }
    }

    pub(crate) fn cluster() -> Self {
        let servers = Cluster::start(&ClusterSetup::default()).unwrap();
        let addresses = servers.addresses().into_iter().map(address).collect();
        let (store, thread) = redis(Arrangement::Cluster(addresses));
        Self {
            store,
            servers: Servers::Cluster(servers, thread),
        }
    }

    pub(crate) async fn wait_until_ready(&self) {
        let room = self.store.room(&RoomName::new("ready").unwrap(), RULES);
        until("the store answers", async || {
            room.open(None, CALL).await.ok()
        })
        .await;
    }

    /// A room that nobody has been in.
    pub(crate) async fn open(&self) -> Open {
        self.open_with(RULES).await
    }

    pub(crate) async fn open_with(&self, rules: Rules) -> Open {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = RoomName::new(&format!("room-{number}")).unwrap();
        let room = self.store.room(&name, rules);
        let epoch = room.open(None, CALL).await.unwrap();
        Open {
            room,
            epoch,
            fence: Fence(1),
            tick: AtomicU64::new(0),
        }
    }
}

impl Open {
    pub(crate) async fn join(&self) -> Place {
        self.room.join(self.epoch, 1, CALL).await.unwrap()
    }

    pub(crate) async fn beat(&self, place: Place, tier: Tier) -> Beaten {
        self.try_beat(place, tier).await.unwrap()
    }

    pub(crate) async fn try_beat(&self, place: Place, tier: Tier) -> Result<Beaten, RoomError> {
        let beat = Beat {
            place,
            tier,
            may_enter: true,
        };
        Ok(self.room.beat(self.epoch, &[beat], CALL).await?[0])
    }

    /// Somebody of `tier` who waits.
    pub(crate) async fn waits(&self, tier: Tier) -> Place {
        let place = self.join().await;
        assert_eq!(self.beat(place, tier).await, Beaten::Waiting(tier));
        place
    }

    pub(crate) fn calling(&self, count: u64) -> Calling {
        Calling {
            order: Order::Strict,
            tick: self.tick.fetch_add(1, Ordering::Relaxed) + 1,
            count,
            claim_ms: CLAIM.as_millis() as u64,
            grace_ms: GRACE.as_millis() as u64,
            enough: u64::MAX,
        }
    }

    pub(crate) async fn release(&self, count: u64) -> u64 {
        let calling = self.calling(count);
        self.release_as(self.fence, &calling).await.unwrap().count
    }

    pub(crate) async fn release_as(
        &self,
        fence: Fence,
        calling: &Calling,
    ) -> Result<Released, RoomError> {
        self.room.release((self.epoch, fence), calling, CALL).await
    }

    pub(crate) async fn settle(&self) -> u64 {
        let led = (self.epoch, self.fence);
        self.room.settle(led, 100, CALL).await.unwrap()
    }

    pub(crate) async fn claim(&self, place: Place) -> Claim {
        self.room.claim(self.epoch, place, CALL).await.unwrap()
    }

    pub(crate) async fn find(&self, tier: Tier, place: Place) -> (Whereabouts, u64) {
        let asked = (tier, place);
        let room = &self.room;
        let found = room.find(self.epoch, &Order::Strict, asked, CALL).await;
        let Found { whereabouts, ahead } = found.unwrap();
        (whereabouts, ahead)
    }

    pub(crate) async fn look(&self) -> Looked {
        self.room.look(self.epoch, Place(0), CALL).await.unwrap()
    }

    /// The fence that `node` leads with, as soon as nobody else does.
    pub(crate) async fn lead_at_last(&self, node: &Node, span: Duration) -> Fence {
        until("nobody else leads", async || {
            match self.room.lead(node, span, CALL).await.unwrap() {
                Taken::Held(held) => Some(held.fence),
                Taken::Others { .. } => None,
            }
        })
        .await
    }
}

pub(crate) fn node(id: &str) -> Node {
    Node {
        id: Name::new(id).unwrap(),
        incarnation: 1,
    }
}

pub(crate) fn block_on(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work);
}

fn redis(arrangement: Arrangement) -> (RoomStore, Background) {
    let thread = Background::start().unwrap();
    (rooms(arrangement, &thread), thread)
}

/// Rooms on servers that are given all the time that there is: rules are about what happens, not about how fast.
pub(crate) fn rooms(arrangement: Arrangement, thread: &Background) -> RoomStore {
    let mut plan = RedisPlan::usual(arrangement);
    plan.connect_timeout = CALL.timeout;
    plan.operation_timeout = CALL.timeout;
    RoomStore::Redis(RedisRooms::new(Redis::start(&plan, Use::Room, thread)))
}

pub(crate) fn address(of: SocketAddr) -> Address {
    Address {
        host: of.ip().to_string(),
        port: of.port(),
    }
}

//! Where limits are kept, each with real servers where it has any.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::rate::Tick;
use tidegate_core::session::SlotTag;
use tidegate_lab::patience;
use tidegate_lab::peers::{Cluster, ClusterSetup, RedisServer, SentinelSetup, Sentinels};
use tidegate_store::limits::{
    Answer, Asked, LimitStore, LimitTable, LimitTablePlan, RedisLimits, Settled,
};
use tidegate_store::redis::{Address, Arrangement, Credentials, Redis, RedisPlan, Use};
use tidegate_store::{Background, Call};

/// A call that is not mistaken for a fault on a loaded machine.
pub(crate) const CALL: Call = Call::within(Duration::from_secs(5));

/// A store of limits, a clock, and what it runs on.
pub(crate) struct Backend {
    pub(crate) store: LimitStore,
    /// Whether limits of different tags may be decided apart.
    pub(crate) is_cluster: bool,
    origin: Instant,
    _servers: Servers,
}

/// Kept for as long as the store is in use.
#[expect(dead_code, reason = "they are stopped when they are dropped")]
enum Servers {
    Nothing,
    Standalone(RedisServer, Background),
    Sentinels(Sentinels, Background),
    Cluster(Cluster, Background),
}

impl Backend {
    pub(crate) fn embedded() -> Self {
        let table = LimitTable::new(LimitTablePlan::default());
        Self::of(LimitStore::Embedded(Arc::new(table)), Servers::Nothing)
    }

    pub(crate) fn standalone() -> Self {
        let server = RedisServer::plain().unwrap();
        let arrangement = Arrangement::Standalone(address(server.address()));
        let (store, thread) = redis(arrangement);
        Self::of(store, Servers::Standalone(server, thread))
    }

    pub(crate) fn sentinels() -> Self {
        let servers = Sentinels::start(&SentinelSetup::default()).unwrap();
        let (store, thread) = redis(Arrangement::Sentinel {
            sentinels: servers.addresses().into_iter().map(address).collect(),
            primary: Sentinels::NAME.to_owned(),
            credentials: Credentials::default(),
        });
        Self::of(store, Servers::Sentinels(servers, thread))
    }

    pub(crate) fn cluster() -> Self {
        let servers = Cluster::start(&ClusterSetup::default()).unwrap();
        let addresses = servers.addresses().into_iter().map(address).collect();
        let (store, thread) = redis(Arrangement::Cluster(addresses));
        Self::of(store, Servers::Cluster(servers, thread))
    }

    fn of(store: LimitStore, servers: Servers) -> Self {
        Self {
            store,
            is_cluster: matches!(servers, Servers::Cluster(..)),
            origin: Instant::now(),
            _servers: servers,
        }
    }

    /// Waits until keys of every tag are answered for.
    pub(crate) async fn wait_until_ready(&self) {
        for bits in 0..256 {
            let tag = SlotTag::from_bits(bits * 4_099);
            until("every shard answers", async || {
                self.store.forget(tag, 0, CALL).await.is_ok()
            })
            .await;
        }
    }

    pub(crate) async fn take(&self, asked: &[Asked<'_>]) -> Answer {
        self.store.take(asked, self.now(), CALL).await.unwrap()
    }

    pub(crate) async fn ask(&self, asked: &[Asked<'_>]) -> Answer {
        self.store.ask(asked, self.now(), CALL).await.unwrap()
    }

    pub(crate) async fn settle(&self, settled: &[Settled<'_>]) {
        self.store.settle(settled, self.now(), CALL).await.unwrap();
    }

    /// This node's clock, with as many microseconds as a machine has that has been up for a year.
    fn now(&self) -> Tick {
        let year_us = 365 * 86_400 * 1_000_000;
        Tick(year_us + self.origin.elapsed().as_micros() as u64)
    }
}

fn redis(arrangement: Arrangement) -> (LimitStore, Background) {
    let thread = Background::start().unwrap();
    let mut plan = RedisPlan::usual(arrangement);
    // Rules are about what happens, not about how fast.
    plan.connect_timeout = CALL.timeout;
    plan.operation_timeout = CALL.timeout;
    let redis = Redis::start(&plan, Use::Limits, &thread);
    (LimitStore::Redis(RedisLimits::new(redis)), thread)
}

/// Looks until `it_is`.
pub(crate) async fn until(what: &str, it_is: impl AsyncFn() -> bool) {
    patience::until(what, async || it_is().await.then_some(())).await;
}

pub(crate) fn address(of: SocketAddr) -> Address {
    Address {
        host: of.ip().to_string(),
        port: of.port(),
    }
}

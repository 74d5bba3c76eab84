//! Where permits are kept, each with real servers where it has any.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::facts::Class;
use tidegate_core::rate::permits::{Answer, Asking, PermitId, Renewal, Terms};
use tidegate_core::rate::share::Life;
use tidegate_core::session::Name;
use tidegate_lab::peers::{Cluster, ClusterSetup, RedisServer, SentinelSetup, Sentinels};
use tidegate_store::permits::{PermitStore, PermitTable, RedisPermits};
use tidegate_store::redis::{Address, Arrangement, Credentials, Redis, RedisPlan, Use};
use tidegate_store::{Background, Call, StoreError};

/// A call that is not mistaken for a fault on a loaded machine.
const CALL: Call = Call::within(Duration::from_secs(5));

/// A store of permits, and what it runs on.
pub(crate) struct Backend {
    store: PermitStore,
    /// Whether others may hold what it does not know of.
    pub(crate) may_have_forgotten: bool,
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

/// A thing that there are permits of.
pub(crate) struct Thing {
    store: PermitStore,
    name: Name,
    pub(crate) terms: Terms,
}

impl Backend {
    pub(crate) fn embedded() -> Self {
        Self {
            store: PermitStore::Embedded(Arc::new(PermitTable::new())),
            may_have_forgotten: false,
            servers: Servers::Nothing,
        }
    }

    pub(crate) fn standalone() -> Self {
        let server = RedisServer::plain().unwrap();
        let (store, thread) = redis(Arrangement::Standalone(address(server.address())));
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

    fn of(store: PermitStore, servers: Servers) -> Self {
        Self {
            store,
            may_have_forgotten: true,
            servers,
        }
    }

    /// A thing that nobody has asked for yet.
    pub(crate) fn thing(&self, all: u64, lease: Duration) -> Thing {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Thing {
            store: self.store.clone(),
            name: Name::new(&format!("thing-{number}")).unwrap(),
            terms: Terms::of(all, lease.as_micros() as u64),
        }
    }
}

impl Thing {
    pub(crate) async fn acquire(&self, id: PermitId, weight: u64) -> Answer {
        self.acquire_as(id, weight, Class::Anonymous).await.unwrap()
    }

    pub(crate) async fn acquire_as(
        &self,
        id: PermitId,
        weight: u64,
        class: Class,
    ) -> Result<Answer, StoreError> {
        let asking = Asking { id, weight, class };
        let store = &self.store;
        store.acquire(&self.name, &self.terms, &asking, CALL).await
    }

    pub(crate) async fn renew(&self, renewals: &[Renewal]) -> Vec<Answer> {
        self.try_renew(renewals).await.unwrap()
    }

    pub(crate) async fn try_renew(&self, renewals: &[Renewal]) -> Result<Vec<Answer>, StoreError> {
        let store = &self.store;
        store.renew(&self.name, &self.terms, renewals, CALL).await
    }

    pub(crate) async fn release(&self, ids: &[PermitId]) {
        let store = &self.store;
        let said = store.release(&self.name, &self.terms, ids, CALL).await;
        said.unwrap();
    }
}

/// A permit of `life`.
pub(crate) const fn id(life: u64, number: u64) -> PermitId {
    PermitId {
        life: Life(life),
        number,
    }
}

pub(crate) fn block_on(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work);
}

fn redis(arrangement: Arrangement) -> (PermitStore, Background) {
    let thread = Background::start().unwrap();
    let mut plan = RedisPlan::usual(arrangement);
    // Rules are about what happens, not about how fast.
    plan.connect_timeout = CALL.timeout;
    plan.operation_timeout = CALL.timeout;
    let redis = Redis::start(&plan, Use::Limits, &thread);
    (PermitStore::Redis(RedisPermits::new(redis)), thread)
}

fn address(of: SocketAddr) -> Address {
    Address {
        host: of.ip().to_string(),
        port: of.port(),
    }
}

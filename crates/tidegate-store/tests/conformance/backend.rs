//! The backends, each with real servers where it has any.

use std::net::SocketAddr;
use std::path::PathBuf;

use tidegate_core::session::{Fields, Version};
use tidegate_lab::patience::until;
use tidegate_lab::peers::{Cluster, ClusterSetup, RedisServer, SentinelSetup, Sentinels};
use tidegate_store::embedded::{Embedded, EmbeddedPlan};
use tidegate_store::redis::{Address, Arrangement, Credentials, Redis, RedisPlan, Use};
use tidegate_store::{Background, SessionStore};

use crate::world::{CALL, World};

/// A store and what it runs on.
pub(crate) struct Backend {
    pub(crate) store: SessionStore,
    _thread: Background,
    _servers: Servers,
}

/// Kept for as long as the store is in use.
#[expect(dead_code, reason = "they are stopped when they are dropped")]
enum Servers {
    Standalone(RedisServer),
    Sentinels(Sentinels),
    Cluster(Cluster),
    File(Folder),
    Nothing,
}

/// A folder for one backend, removed with it.
struct Folder(PathBuf);

impl Backend {
    pub(crate) fn standalone() -> Self {
        let server = RedisServer::plain().unwrap();
        let arrangement = Arrangement::Standalone(address(server.address()));
        Self::redis(arrangement, Servers::Standalone(server))
    }

    pub(crate) fn sentinels() -> Self {
        let servers = Sentinels::start(&SentinelSetup::default()).unwrap();
        let arrangement = Arrangement::Sentinel {
            sentinels: servers.addresses().into_iter().map(address).collect(),
            primary: Sentinels::NAME.to_owned(),
            credentials: Credentials::default(),
        };
        Self::redis(arrangement, Servers::Sentinels(servers))
    }

    pub(crate) fn cluster() -> Self {
        let servers = Cluster::start(&ClusterSetup::default()).unwrap();
        let addresses = servers.addresses().into_iter().map(address).collect();
        Self::redis(Arrangement::Cluster(addresses), Servers::Cluster(servers))
    }

    pub(crate) fn memory() -> Self {
        Self::embedded(None, Servers::Nothing)
    }

    pub(crate) fn file() -> Self {
        let name = format!("tidegate-conformance-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let plan = Some(folder.clone());
        Self::embedded(plan, Servers::File(Folder(folder)))
    }

    fn embedded(folder: Option<PathBuf>, servers: Servers) -> Self {
        let store = Embedded::start(EmbeddedPlan::at(folder)).unwrap();
        Self {
            store: SessionStore::Embedded(store),
            _thread: Background::start().unwrap(),
            _servers: servers,
        }
    }

    fn redis(arrangement: Arrangement, servers: Servers) -> Self {
        let thread = Background::start().unwrap();
        let mut plan = RedisPlan::usual(arrangement);
        // Rules are about what happens, not about how fast.
        plan.connect_timeout = CALL.timeout;
        plan.operation_timeout = CALL.timeout;
        plan.lanes.fast_in_flight_max = 4_096;
        plan.lanes.bulk_in_flight_max = 4_096;
        Self {
            store: SessionStore::Redis(Redis::start(&plan, Use::Sessions, &thread)),
            _thread: thread,
            _servers: servers,
        }
    }

    /// Waits until sessions on every tag are answered for.
    pub(crate) async fn wait_until_ready(&self, world: &World) {
        for _ in 0..256 {
            let id = world.id();
            until("every shard answers", async || {
                let opened = self
                    .store
                    .open(&id, Version::NONE, &Fields::All, None, CALL);
                opened.await.ok()
            })
            .await;
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn address(of: SocketAddr) -> Address {
    Address {
        host: of.ip().to_string(),
        port: of.port(),
    }
}

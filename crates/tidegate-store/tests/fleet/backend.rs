//! Where the fleet is known, each with real servers where it has any.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_lab::patience::until;
use tidegate_lab::peers::{Cluster, ClusterSetup, RedisServer, SentinelSetup, Sentinels};
use tidegate_store::embedded::{Embedded, EmbeddedPlan};
use tidegate_store::redis::{Address, Arrangement, Credentials, Redis, RedisPlan, Use};
use tidegate_store::{Background, Call, Fleet};

/// A call that is not mistaken for a fault on a loaded machine.
pub(crate) const CALL: Call = Call::within(Duration::from_secs(5));

/// A fleet and what it is kept in.
pub(crate) struct Backend {
    pub(crate) fleet: Fleet,
    _thread: Option<Background>,
    pub(crate) servers: Servers,
}

/// Kept for as long as the fleet is in use.
pub(crate) enum Servers {
    Standalone(RedisServer),
    #[expect(dead_code, reason = "they are stopped when they are dropped")]
    Sentinels(Sentinels),
    #[expect(dead_code, reason = "they are stopped when they are dropped")]
    Cluster(Cluster),
    Nothing,
}

impl Backend {
    pub(crate) fn embedded() -> Self {
        let store = Embedded::start(EmbeddedPlan::at(None)).unwrap();
        Self {
            fleet: Fleet::Embedded(store),
            _thread: None,
            servers: Servers::Nothing,
        }
    }

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

    fn redis(arrangement: Arrangement, servers: Servers) -> Self {
        let thread = Background::start().unwrap();
        let mut plan = RedisPlan::usual(arrangement);
        // Rules are about what happens, not about how fast.
        plan.connect_timeout = CALL.timeout;
        plan.operation_timeout = CALL.timeout;
        Self {
            fleet: Fleet::Redis(Redis::start(&plan, Use::Bus, &thread)),
            _thread: Some(thread),
            servers,
        }
    }

    /// Waits until what is kept of the fleet is answered for.
    pub(crate) async fn wait_until_ready(&self) {
        until("the store answers", async || {
            self.fleet.beacons(CALL).await.ok()
        })
        .await;
    }

    /// What `command` is answered, where there is one Redis.
    pub(crate) fn ask(&self, command: &[&str]) {
        let Servers::Standalone(server) = &self.servers else {
            panic!("there is no Redis to ask")
        };
        server.ask(command).unwrap();
    }
}

fn address(of: SocketAddr) -> Address {
    Address {
        host: of.ip().to_string(),
        port: of.port(),
    }
}

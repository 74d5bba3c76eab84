//! A Redis of the drill's own with sessions in it, as several gateways would use it.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_core::session::{Created, Lifetimes, Name, SessionId, SlotTag, Value};
use tidegate_core::time::Wall;
use tidegate_lab::peers::RedisServer;
use tidegate_store::redis::{Address, Arrangement, Redis, RedisPlan, Use};
use tidegate_store::{Background, Call, NewSession, SessionStore};

/// Longest wait for an answer where how long it takes is not the question.
pub(crate) const PATIENT: Call = Call::within(Duration::from_secs(5));
/// Lifetimes that no drill lives to see the end of.
pub(crate) const LONG: Lifetimes = Lifetimes {
    idle: Duration::from_secs(1_800),
    absolute: Duration::from_secs(43_200),
};

/// The server, and a thread for every connection to it that sessions take.
pub(crate) struct SessionServer {
    server: RedisServer,
    threads: Vec<Background>,
}

impl SessionServer {
    /// Starts the server.
    pub(crate) fn start() -> anyhow::Result<Self> {
        Ok(Self {
            server: RedisServer::plain()?,
            threads: Vec::new(),
        })
    }

    /// The server itself.
    pub(crate) const fn server(&self) -> &RedisServer {
        &self.server
    }

    /// The store as one more gateway sees it.
    pub(crate) fn gateway(&mut self) -> anyhow::Result<SessionStore> {
        self.gateway_by(self.server.address())
    }

    /// The same by way of a proxy at `address`.
    pub(crate) fn gateway_by(&mut self, address: SocketAddr) -> anyhow::Result<SessionStore> {
        let thread = Background::start()?;
        let redis = Redis::start(&plan(address), Use::Sessions, &thread);
        self.threads.push(thread);
        Ok(SessionStore::Redis(redis))
    }

    /// A connection past everything that Tidegate does.
    pub(crate) fn raw(&self) -> anyhow::Result<redis::Connection> {
        let address = self.server.address();
        let client = redis::Client::open(format!("redis://{address}/"))?;
        client.get_connection().context("no connection to Redis")
    }
}

/// The usual plan for the server at `address`, with time for a busy machine.
pub(crate) fn plan(address: SocketAddr) -> RedisPlan {
    let mut plan = RedisPlan::usual(Arrangement::Standalone(Address {
        host: address.ip().to_string(),
        port: address.port(),
    }));
    plan.operation_timeout = PATIENT.timeout;
    plan.lanes.fast_in_flight_max = 4_096;
    plan
}

/// A runtime for the drill's own tasks.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}

/// The id number `number`; tags come up evenly.
pub(crate) fn id(number: u32) -> SessionId {
    let tag = SlotTag::from_bits(number.wrapping_mul(0x9_E375));
    let hash = format!("{number:022}").into_bytes();
    let hash = hash.try_into().expect("22 digits");
    SessionId::new(tag, hash).expect("digits are base64url")
}

/// The name `text`.
pub(crate) fn name(text: &str) -> Name {
    Name::new(text).expect("it is plain")
}

/// Creates a session; the store's clock.
pub(crate) async fn create(
    store: &SessionStore,
    id: SessionId,
    lifetimes: Lifetimes,
    attributes: Vec<(Name, Value)>,
) -> anyhow::Result<Wall> {
    let new = NewSession {
        id,
        lifetimes,
        principal: None,
        attributes,
        counters: Vec::new(),
    };
    // The first calls may find that the connection is not there yet.
    for _ in 0..500 {
        match store.create(&new, PATIENT).await {
            Ok(created) => match created.reply {
                Created::Created { now, .. } => return Ok(now),
                Created::Taken => anyhow::bail!("the id of {id:?} is taken"),
            },
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    anyhow::bail!("the store does not answer")
}

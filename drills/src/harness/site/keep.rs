//! What the application knows of a caller, and the two ways in which it keeps that by itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};

/// How long the usual Redis clients of web frameworks wait for an answer (Jedis, Lettuce under
/// Spring, phpredis: 2 s and more).
const BLOB_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a session lives without use where session libraries keep it.
const BLOB_IDLE_SECONDS: u64 = 1_800;
/// What the keys of such sessions begin with.
const BLOB_PREFIX: &str = "sess:";

/// What the application knows of its caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    /// The node that answered.
    #[serde(default)]
    pub(crate) node: String,
    /// The user; `None` for a stranger.
    pub(crate) uid: Option<String>,
    /// The session, as the gateway names it.
    pub(crate) session: Option<String>,
    /// What the gateway says about it.
    pub(crate) state: Option<String>,
    /// Its attributes and counters.
    pub(crate) attributes: BTreeMap<String, String>,
}

/// One change that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    SignIn(String),
    SignOut,
    SignOutEverywhere,
    Set(String, String),
    Count(String),
}

impl Known {
    /// How far the counter `hits` is.
    pub(crate) fn hits(&self) -> u64 {
        let hits = self.attributes.get("hits");
        hits.and_then(|hits| hits.parse().ok()).unwrap_or(0)
    }

    /// What is in the cart, which is an attribute like `[3,17]`.
    pub(crate) fn cart(&self) -> BTreeSet<u32> {
        let cart = self.attributes.get("cart");
        cart.and_then(|cart| serde_json::from_str(cart).ok())
            .unwrap_or_default()
    }

    /// Makes `change`; false when nothing of the session is left.
    pub(super) fn apply(&mut self, change: &Change) -> bool {
        match change {
            Change::Nothing => {}
            Change::SignIn(uid) => self.uid = Some(uid.clone()),
            Change::SignOut | Change::SignOutEverywhere => return false,
            Change::Set(name, value) => {
                self.attributes.insert(name.clone(), value.clone());
            }
            Change::Count(name) => {
                let value = self.attributes.entry(name.clone()).or_default();
                *value = (value.parse().unwrap_or(0_i64) + 1).to_string();
            }
        }
        true
    }
}

/// Sessions in the application's own memory.
#[derive(Default)]
pub(super) struct Heap(Mutex<HashMap<String, Known>>);

impl Heap {
    pub(super) fn load(&self, id: &str) -> Option<Known> {
        self.lock().get(id).cloned()
    }

    pub(super) fn save(&self, id: &str, known: &Known) {
        self.lock().insert(id.to_owned(), known.clone());
    }

    pub(super) fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sessions as one value each in Redis.
pub(crate) struct Blobs {
    client: redis::Client,
    /// Dialled again by the next request when it has failed.
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl Blobs {
    /// Sessions in the Redis at `store`, which is connected to when it is needed.
    pub(crate) fn new(store: SocketAddr) -> redis::RedisResult<Self> {
        Ok(Self {
            client: redis::Client::open(format!("redis://{store}/"))?,
            connection: Mutex::new(None),
        })
    }

    /// Reads a session, and slides its time.
    pub(crate) async fn load(&self, id: &str) -> redis::RedisResult<Option<Known>> {
        let mut load = redis::cmd("GETEX");
        load.arg(key(id)).arg("EX").arg(BLOB_IDLE_SECONDS);
        let bytes: Option<Vec<u8>> = self.ask(&load).await?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Writes a session, all of it.
    pub(crate) async fn save(&self, id: &str, known: &Known) -> redis::RedisResult<()> {
        let bytes = serde_json::to_vec(known).expect("it serialises");
        let mut save = redis::cmd("SET");
        save.arg(key(id)).arg(bytes);
        save.arg("EX").arg(BLOB_IDLE_SECONDS);
        self.ask(&save).await
    }

    /// Takes a session away.
    pub(crate) async fn remove(&self, id: &str) -> redis::RedisResult<()> {
        self.ask(redis::cmd("DEL").arg(key(id))).await
    }

    async fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> redis::RedisResult<T> {
        let mut connection = match self.connected() {
            Some(connection) => connection,
            None => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(BLOB_TIMEOUT))
                    .set_response_timeout(Some(BLOB_TIMEOUT));
                self.client
                    .get_multiplexed_async_connection_with_config(&config)
                    .await?
            }
        };
        let reply = command.query_async(&mut connection).await;
        *self.lock() = reply.is_ok().then_some(connection);
        reply
    }

    fn connected(&self) -> Option<MultiplexedConnection> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<MultiplexedConnection>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(id: &str) -> String {
    format!("{BLOB_PREFIX}{id}")
}

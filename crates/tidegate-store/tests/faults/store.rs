//! A store to be tried, with what tests do to it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tidegate_core::session::{
    Attribute, Ceilings, Created, Durability, Expect, Fields, Format, Lifetimes, Name, Op, OpSeq,
    Opened, Patched, SessionId, SlotTag, Value, Version, Writer,
};
use tidegate_lab::patience::{until, until_so};
use tidegate_store::redis::{Address, Arrangement, Redis, RedisPlan, Use};
use tidegate_store::{Acked, Background, Call, NewSession, SessionStore, StoreError};

/// Longest wait for a failover.
pub(crate) const WITHIN: Duration = Duration::from_secs(30);
/// An operation's time where a loaded machine is not to be mistaken for a fault.
pub(crate) const PATIENT: Duration = Duration::from_millis(250);

/// A store and the thread behind it.
pub(crate) struct Store {
    pub(crate) sessions: SessionStore,
    pub(crate) redis: Redis,
    _background: Background,
}

impl Store {
    /// The store that `arrangement` is, with an operation's time of `timeout`.
    pub(crate) fn start(arrangement: Arrangement, timeout: Duration) -> Self {
        let plan = RedisPlan {
            operation_timeout: timeout,
            connect_timeout: timeout,
            ..RedisPlan::usual(arrangement)
        };
        let background = Background::start().unwrap();
        let redis = Redis::start(&plan, Use::Sessions, &background);
        Self {
            sessions: SessionStore::Redis(redis.clone()),
            redis,
            _background: background,
        }
    }

    /// A store with one server at `address`.
    pub(crate) fn standalone(address: SocketAddr) -> Self {
        Self::start(Arrangement::Standalone(named(address)), PATIENT)
    }

    /// Creates a session without content.
    pub(crate) async fn create(&self, id: SessionId) -> Result<Acked<Created>, StoreError> {
        self.sessions.create(&new_session(id), call()).await
    }

    /// Adds 1 to the counter `hits` of a session, as the patch with this number.
    pub(crate) async fn hit(
        &self,
        id: &SessionId,
        number: u64,
        durability: Durability,
    ) -> Result<Acked<Patched>, StoreError> {
        let ops = [Op::Increment {
            name: hits(),
            by: 1,
        }];
        self.patch(id, &ops, number, durability).await
    }

    async fn patch(
        &self,
        id: &SessionId,
        ops: &[Op],
        number: u64,
        durability: Durability,
    ) -> Result<Acked<Patched>, StoreError> {
        let seq = OpSeq {
            writer: Writer {
                incarnation: 7,
                lane: 0,
            },
            number,
        };
        let call = call().with(durability);
        let patching = self
            .sessions
            .patch(id, ops, Some(seq), Ceilings::default(), None, call);
        patching.await
    }

    /// Gives the attribute `cart` of a session a value, as the patch with this number.
    pub(crate) async fn fill(
        &self,
        id: &SessionId,
        number: u64,
        cart: &str,
        expect: Expect,
        durability: Durability,
    ) -> Result<Patched, StoreError> {
        let ops = [Op::Set {
            name: Name::new("cart").unwrap(),
            value: Value {
                format: Format::Text,
                bytes: cart.into(),
            },
            expect,
        }];
        let patched = self.patch(id, &ops, number, durability).await;
        patched.map(|acked| acked.reply)
    }

    /// The attribute `cart` of a session; `None` when there is none.
    pub(crate) async fn cart(&self, id: &SessionId) -> Option<Attribute> {
        let opening = self
            .sessions
            .open(id, Version::NONE, &Fields::All, None, call());
        match opening.await.unwrap() {
            Opened::Found { found, .. } => found.attributes.first().map(|(_, it)| it.clone()),
            _ => None,
        }
    }

    /// The counter `hits` of a session; `None` when there is no such session.
    pub(crate) async fn hits(&self, id: &SessionId) -> Result<Option<i64>, StoreError> {
        let opening = self
            .sessions
            .open(id, Version::NONE, &Fields::All, None, call());
        Ok(match opening.await? {
            Opened::Found { found, .. } => {
                let counters = found.counters.iter();
                let mut hits = counters.filter(|(name, _)| *name == hits());
                Some(hits.next().map_or(0, |(_, value)| *value))
            }
            _ => None,
        })
    }

    /// Opens a session without asking for anything; how it ended and how long it took.
    pub(crate) async fn touch(&self, id: &SessionId) -> (Result<Opened, StoreError>, Duration) {
        let begun = Instant::now();
        let opening = self
            .sessions
            .open(id, Version::NONE, &Fields::All, None, call());
        (opening.await, begun.elapsed())
    }

    /// Waits until the session's shard answers again.
    pub(crate) async fn wait_until_back(&self, id: &SessionId) {
        until("the store is back", async || self.hits(id).await.ok()).await;
    }

    /// Waits until the session's shard is known to be away.
    pub(crate) async fn wait_until_away(&self, id: &SessionId) {
        until_so("the store is known to be away", || {
            self.sessions.is_away(id)
        })
        .await;
    }
}

/// A call with a second to spare: the plan's own bound is what counts.
pub(crate) const fn call() -> Call {
    Call::within(Duration::from_secs(1))
}

/// A session's id that no other test uses.
pub(crate) fn fresh_id() -> SessionId {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    id_at(number.wrapping_mul(7_919), number)
}

/// The id number `number` with the slot tag number `tag`.
pub(crate) fn id_at(tag: u32, number: u32) -> SessionId {
    let hash = format!("{:022}", number);
    let hash = hash.as_bytes().try_into().unwrap();
    SessionId::new(SlotTag::from_bits(tag), hash).unwrap()
}

/// `address` as a plan has it.
pub(crate) fn named(address: SocketAddr) -> Address {
    Address::parse(&address.to_string()).unwrap()
}

/// A session that lives for an hour.
pub(crate) fn new_session(id: SessionId) -> NewSession {
    NewSession {
        id,
        lifetimes: Lifetimes {
            idle: Duration::from_secs(3_600),
            absolute: Duration::from_secs(3_600),
        },
        principal: None,
        attributes: Vec::new(),
        counters: Vec::new(),
    }
}

fn hits() -> Name {
    Name::new("hits").unwrap()
}

//! The desk against real stores: several desks on one store, as gateways are.

mod away;
mod clicks;
mod endings;
mod heal;
mod listeners;
mod openings;
mod patches;
mod resumes;
mod sign_ins;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_core::session::{
    Durability, Expect, Fields, Format, Name, Op, SessionId, SlotTag, Uid, Value, WriteClass,
};
use tidegate_core::time::Wall;
use tidegate_lab::patience::until;
use tidegate_lab::peers::{Cluster, ClusterSetup, RedisServer, RedisSetup};

use super::{Desk, DeskPatched, DeskPlan, Patch, Seen, SignIn, Visit};
use crate::background::Background;
use crate::embedded::{Clock, Embedded, EmbeddedPlan};
use crate::redis::{Address, Arrangement, Redis, RedisPlan, Use};
use crate::{Call, SessionStore};

/// Long enough on any machine: these tests are not about time.
const BUDGET: Duration = Duration::from_secs(5);

/// Desks on one store.
struct Fleet {
    desks: Vec<Desk>,
    store: SessionStore,
    /// By how much the embedded store's clock is ahead, in microseconds.
    ahead_micros: Arc<AtomicU64>,
    server: Option<RedisServer>,
    _cluster: Option<Cluster>,
    _background: Background,
}

impl Fleet {
    fn embedded(desks: usize, plan: &DeskPlan) -> Self {
        let ahead_micros = Arc::new(AtomicU64::new(0));
        let ahead = ahead_micros.clone();
        let clock = Clock::new(move || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            Wall::from_micros(since.as_micros() as u64 + ahead.load(Ordering::Relaxed))
        });
        let plan_of_store = EmbeddedPlan {
            clock,
            ..EmbeddedPlan::at(None)
        };
        let store = Embedded::start(plan_of_store).unwrap();
        let store = SessionStore::Embedded(store);
        let background = Background::start().unwrap();
        Self {
            ahead_micros,
            ..Self::on(desks, plan, store, background)
        }
    }

    fn redis(desks: usize, plan: &DeskPlan) -> Self {
        Self::of_server(desks, plan, RedisServer::plain().unwrap())
    }

    /// All of a Cluster on one server, taken for a server on its own.
    fn whole_cluster(desks: usize, plan: &DeskPlan) -> Self {
        let setup = RedisSetup {
            extra: vec!["cluster-enabled yes".to_owned()],
            ..RedisSetup::default()
        };
        let server = RedisServer::start(setup).unwrap();
        let slots = ["CLUSTER", "ADDSLOTSRANGE", "0", "16383"];
        server.ask(&slots).unwrap();
        Self::of_server(desks, plan, server)
    }

    fn of_server(desks: usize, plan: &DeskPlan, server: RedisServer) -> Self {
        let address = Address::parse(&server.address().to_string()).unwrap();
        Self {
            server: Some(server),
            ..Self::arranged(desks, plan, Arrangement::Standalone(address))
        }
    }

    fn cluster(desks: usize, plan: &DeskPlan) -> Self {
        let cluster = Cluster::start(&ClusterSetup::default()).unwrap();
        let addresses = cluster.addresses();
        let addresses = addresses.iter().map(|address| address.to_string());
        let addresses = addresses.map(|address| Address::parse(&address).unwrap());
        let arrangement = Arrangement::Cluster(addresses.collect());
        Self {
            _cluster: Some(cluster),
            ..Self::arranged(desks, plan, arrangement)
        }
    }

    fn arranged(desks: usize, plan: &DeskPlan, arrangement: Arrangement) -> Self {
        let mut redis = RedisPlan::usual(arrangement);
        redis.operation_timeout = BUDGET;
        let background = Background::start().unwrap();
        let store = SessionStore::Redis(Redis::start(&redis, Use::Sessions, &background));
        Self::on(desks, plan, store, background)
    }

    fn on(desks: usize, plan: &DeskPlan, store: SessionStore, background: Background) -> Self {
        let desk = || {
            let background = Background::start().unwrap();
            Desk::on(plan.clone(), store.clone(), background).unwrap()
        };
        Self {
            desks: (0..desks).map(|_| desk()).collect(),
            store: store.clone(),
            ahead_micros: Arc::default(),
            server: None,
            _cluster: None,
            _background: background,
        }
    }

    /// Lets time go by in the store.
    fn pass(&self, span: Duration) {
        self.ahead_micros
            .fetch_add(span.as_micros() as u64, Ordering::Relaxed);
    }

    /// Waits until what the desks do on their own is done.
    async fn settle(&self) {
        for desk in &self.desks {
            let done = tokio::time::timeout(BUDGET, desk.shared.errands.flush());
            done.await.unwrap();
        }
    }

    async fn wait_until_ready(&self) {
        let uid = Uid::new("nobody").unwrap();
        until("the store answers", async || {
            self.store.epoch(&uid, Call::within(BUDGET)).await.ok()
        })
        .await;
    }
}

/// The plan of these tests: patient, because machines are busy.
fn plan() -> DeskPlan {
    DeskPlan {
        operation: BUDGET,
        blob: BUDGET,
        // These servers have no replicas to wait for.
        durability: [Durability::ASYNC; WriteClass::ALL.len()],
        ..DeskPlan::default()
    }
}

/// Runs `test` on an embedded store and on Redis.
fn on_every_store<F>(desks: usize, plan: &DeskPlan, test: impl Fn(Arc<Fleet>) -> F)
where
    F: Future<Output = ()>,
{
    for start in [Fleet::embedded, Fleet::redis] {
        run(start(desks, plan), &test);
    }
}

fn run<F>(fleet: Fleet, test: impl Fn(Arc<Fleet>) -> F)
where
    F: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let fleet = Arc::new(fleet);
    runtime.block_on(async {
        fleet.wait_until_ready().await;
        test(fleet.clone()).await;
    });
}

/// An id that nobody has.
fn id() -> SessionId {
    id_at(SlotTag::from_bits(getrandom::u32().unwrap()))
}

/// An id on a slot tag, that nobody has.
fn id_at(tag: SlotTag) -> SessionId {
    let hash = format!(
        "{:016x}{:06x}",
        getrandom::u64().unwrap(),
        getrandom::u32().unwrap() >> 8
    );
    SessionId::new(tag, hash.as_bytes().try_into().unwrap()).unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn uid(text: &str) -> Uid {
    Uid::new(text).unwrap()
}

fn text(text: &str) -> Value {
    Value {
        format: Format::Text,
        bytes: text.as_bytes().to_vec(),
    }
}

fn json(text: &str) -> Value {
    Value {
        format: Format::Json,
        bytes: text.as_bytes().to_vec(),
    }
}

fn set(to: &str, value: Value) -> Patch {
    Patch::of(vec![Op::Set {
        name: name(to),
        value,
        expect: Expect::Any,
    }])
}

fn add(to: &str, by: i64) -> Patch {
    Patch::of(vec![Op::Increment { name: name(to), by }])
}

async fn create(desk: &Desk, attributes: &[(&str, &str)]) -> Seen {
    let attributes = attributes.iter();
    let attributes = attributes.map(|(key, value)| (name(key), text(value)));
    let created = desk.create(id(), attributes.collect(), Vec::new(), BUDGET);
    created.await.unwrap()
}

async fn patch(desk: &Desk, id: &SessionId, patch: Patch) -> DeskPatched {
    desk.patch(id, None, patch, BUDGET).await.unwrap()
}

async fn open(desk: &Desk, id: &SessionId) -> Visit {
    desk.open(id, None, &Fields::All, BUDGET).await
}

async fn see(desk: &Desk, id: &SessionId) -> Seen {
    match open(desk, id).await {
        Visit::Open(seen) => seen,
        other => panic!("{other:?}"),
    }
}

async fn sign_in(desk: &Desk, old: Option<SessionId>, user: &str) -> Seen {
    let tag = old.map_or_else(|| id().tag(), |old| old.tag());
    let sign_in = SignIn {
        old,
        new: id_at(tag),
        uid: uid(user),
        tier: None,
    };
    desk.sign_in(sign_in, BUDGET).await.unwrap()
}

fn value_of(seen: &Seen, key: &str) -> Option<String> {
    let attribute = seen.session.attribute(&name(key))?;
    Some(String::from_utf8(attribute.value.bytes.clone()).unwrap())
}

//! The embedded store through its own face; what every store has to do is in `tests/conformance`.

mod disk;

use super::*;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::session::{
    Ceilings, Created, Expect, Fields, Format, Found, Gone, Lifetimes, Name, OnShort, Op, OpSeq,
    Opened, Patched, Principal, Rotation, SessionId, SlotTag, Uid, Value, Version, Wait, Writer,
};
use tidegate_lab::patience::until_so;

use crate::ends::{Claimed, Consumer, Ended, Fate, Reason, bucket_of};
use crate::sessions::NewSession;

const CALL: Call = Call::within(Duration::from_millis(500));
/// Waits for the disk, however busy the machine is.
const DURABLE: Call = Call {
    timeout: Duration::from_secs(20),
    wait: Some(Wait {
        replicas: 1,
        within: Duration::from_secs(20),
        on_short: OnShort::Fail,
    }),
    redo: true,
};
const START_MICROS: u64 = 1_795_000_000_000_000;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tidegate-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join(file::FILE_NAME)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A clock that a test moves.
#[derive(Clone)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START_MICROS)))
    }

    fn clock(&self) -> Clock {
        let hand = self.0.clone();
        Clock::new(move || Wall::from_micros(hand.load(Ordering::SeqCst)))
    }

    fn forward(&self, span: Duration) {
        let micros = span.as_micros() as u64;
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

fn at(folder: &Path) -> Embedded {
    Embedded::start(EmbeddedPlan::at(Some(folder.into()))).unwrap()
}

fn by(hand: &Hand) -> Embedded {
    let clock = hand.clock();
    Embedded::start(EmbeddedPlan {
        clock,
        ..EmbeddedPlan::at(None)
    })
    .unwrap()
}

fn id(number: u32) -> SessionId {
    let mut hash = [b'A'; SessionId::HASH_LEN];
    hash[..10].copy_from_slice(format!("{number:010}").as_bytes());
    SessionId::new(SlotTag::from_bits(number), hash).unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn ann() -> Principal {
    Principal {
        uid: Uid::new("ann").unwrap(),
        tier: None,
        epoch: 0,
    }
}

fn session(number: u32) -> NewSession {
    NewSession {
        id: id(number),
        lifetimes: Lifetimes {
            idle: Duration::from_secs(60),
            absolute: Duration::from_secs(600),
        },
        principal: Some(ann()),
        attributes: vec![(name("cart"), text("apple"))],
        counters: vec![],
    }
}

fn text(bytes: &str) -> Value {
    Value {
        format: Format::Text,
        bytes: bytes.into(),
    }
}

fn add(by: i64) -> Op {
    let name = name("hits");
    Op::Increment { name, by }
}

fn seq(number: u64) -> OpSeq {
    let writer = Writer {
        incarnation: 1,
        lane: 0,
    };
    OpSeq { writer, number }
}

async fn patch(store: &Embedded, number: u32, op: Op, call: Call) -> Acked<Patched> {
    patch_as(store, number, op, None, call).await.unwrap()
}

async fn patch_as(
    store: &Embedded,
    number: u32,
    op: Op,
    seq: Option<OpSeq>,
    call: Call,
) -> Result<Acked<Patched>, StoreError> {
    let ceilings = Ceilings::default();
    store
        .patch(&id(number), &[op], seq, ceilings, None, call)
        .await
}

async fn show(store: &Embedded, number: u32) -> Result<Found, Gone> {
    let id = id(number);
    let opened = store.open(&id, Version::NONE, &Fields::All, None, CALL);
    match opened.await.unwrap() {
        Opened::Found { found, .. } => Ok(found),
        Opened::Gone(gone) => Err(gone),
        Opened::Unchanged { .. } => panic!("nothing was known"),
    }
}

async fn hits(store: &Embedded, number: u32) -> i64 {
    let found = show(store, number).await.unwrap();
    found.counters.first().map_or(0, |(_, hits)| *hits)
}

#[tokio::test]
async fn sessions_and_what_remembers_them_survive_a_restart() {
    let folder = Folder::new("restart");
    let minute = Duration::from_secs(60);
    {
        let store = at(&folder.0);
        for number in 1..=3 {
            store.create(&session(number), CALL).await.unwrap();
        }
        let counted = patch_as(&store, 1, add(5), Some(seq(1)), CALL).await;
        counted.unwrap();
        let rotation = Rotation::Habit {
            successor: vec![7],
            tombstone: minute,
        };
        let (old, new, third) = (id(2), on_tag_of(2, 9), id(3));
        store.rotate(&old, &new, &rotation, CALL).await.unwrap();
        let destroyed = store.destroy(&third, Reason::SignedOut, minute, CALL);
        destroyed.await.unwrap();
        store.close();
    }

    let store = at(&folder.0);

    assert_eq!(hits(&store, 1).await, 5);
    let again = patch_as(&store, 1, add(5), Some(seq(1)), CALL).await;
    let again = again.unwrap().reply;
    assert!(matches!(again, Patched::AlreadyApplied { .. }), "{again:?}");
    let rotated = Gone::Rotated { successor: vec![7] };
    assert_eq!(show(&store, 2).await, Err(rotated));
    assert_eq!(show(&store, 3).await, Err(Gone::Destroyed));
    let fate = store.fate(&id(2), CALL).await.unwrap();
    let to = on_tag_of(2, 9);
    assert_eq!(fate, Fate::Moved { to });
}

#[tokio::test]
async fn what_is_kept_of_a_user_survives_a_restart() {
    let folder = Folder::new("user");
    let (uid, hour) = (ann().uid, Duration::from_secs(3600));
    let bob = Uid::new("bob").unwrap();
    let content = Found {
        attributes: vec![],
        counters: vec![(name("items"), 3)],
    };
    let until = Wall::from_micros(u64::MAX / 2);
    {
        let store = at(&folder.0);
        for number in 1..=3 {
            let id = id(number);
            store.index(&uid, &id, hour, 10, CALL).await.unwrap();
        }
        store.unindex(&uid, &[id(3)], CALL).await.unwrap();
        let kept = store.put_capsule(&uid, &content, Version(7), hour, CALL);
        kept.await.unwrap();
        let (id, bytes) = (id(1), [1; 5000]);
        let kept = store.put_blob(&id, "big", &bytes, until, CALL);
        kept.await.unwrap();
        store.sign_out(&bob, hour, CALL).await.unwrap();
        store.close();
    }

    let store = at(&folder.0);

    let nothing = Found::default();
    let older = store.put_capsule(&uid, &nothing, Version(6), hour, CALL);
    assert!(!older.await.unwrap().reply);
    assert_eq!(store.capsule(&uid, CALL).await, Ok(content));
    let blob = store.blob(&id(1), "big", CALL).await;
    assert_eq!(blob, Ok(Some(vec![1; 5000])));
    assert_eq!(store.sessions_of(&uid, 10, CALL).await.unwrap().len(), 2);
    assert_eq!(store.epoch(&bob, CALL).await, Ok(1));
}

#[tokio::test]
async fn ends_are_told_once_across_a_restart() {
    let folder = Folder::new("ends");
    let hour = Duration::from_secs(3600);
    let consumer = Consumer {
        group: name("mail"),
        member: name("one"),
    };
    let ended = |number| Ended {
        session: id(number),
        uid: Some(ann().uid),
        reason: Reason::SignedOut,
    };
    {
        let store = at(&folder.0);
        for number in 1..=2 {
            let past = Wall::from_micros(1);
            store.arm(&id(number), past, CALL).await.unwrap();
            let ended = ended(number);
            assert_eq!(store.finish(&ended, 10, CALL).await, Ok(true));
        }
        let events = store.events(&consumer, 1, hour, CALL).await.unwrap();
        assert_eq!(events[0].ended, ended(1));
        store.close();
    }

    let store = at(&folder.0);

    assert_eq!(store.finish(&ended(1), 10, CALL).await, Ok(false));
    let rest = store.events(&consumer, 10, hour, CALL).await.unwrap();
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].ended, ended(2));
    let abandoned = store.events(&consumer, 10, Duration::ZERO, CALL).await;
    let abandoned = abandoned.unwrap();
    assert_eq!(abandoned.len(), 2);
    let ids = abandoned.iter().map(|event| event.id).collect::<Vec<_>>();
    let acknowledged = store.acknowledge(&consumer.group, &ids, CALL).await;
    assert_eq!(acknowledged, Ok(2));
}

fn on_tag_of(number: u32, other: u32) -> SessionId {
    let hash = id(other).hash().as_bytes().try_into().unwrap();
    SessionId::new(id(number).tag(), hash).unwrap()
}

#[tokio::test]
async fn what_is_over_goes_and_is_told_for_a_while() {
    let hand = Hand::new();
    let store = by(&hand);
    store.create(&session(1), CALL).await.unwrap();
    store.create(&session(2), CALL).await.unwrap();
    let minute = Duration::from_secs(60);
    store
        .destroy(&id(2), Reason::Destroyed, minute, CALL)
        .await
        .unwrap();
    let full = store.stats().bytes;

    hand.forward(minute);
    assert_eq!(show(&store, 1).await, Err(Gone::Missing));
    let fate = store.fate(&id(1), CALL).await.unwrap();
    let uid = Some(ann().uid);
    assert_eq!(fate, Fate::Expired { uid });
    assert_eq!(show(&store, 2).await, Err(Gone::Missing));

    hand.forward(Duration::from_millis(state::KEPT_MS));
    until_so("what is over is forgotten", || store.stats().sessions == 0).await;
    assert_eq!(store.fate(&id(1), CALL).await, Ok(Fate::Missing));
    assert!(store.stats().bytes < full);
    assert_eq!(store.stats().bytes, 0);
}

#[tokio::test]
async fn a_full_memory_refuses_what_adds_and_nothing_else() {
    let plan = EmbeddedPlan {
        bytes_max: 2_000,
        ..EmbeddedPlan::at(None)
    };
    let store = Embedded::start(plan).unwrap();
    let mut created = 0;
    while store.create(&session(created), CALL).await.is_ok() {
        created += 1;
    }

    let set = Op::Set {
        name: name("more"),
        value: text("x"),
        expect: Expect::Any,
    };
    let refused = patch_as(&store, 0, set, None, CALL).await;
    let counted = patch(&store, 0, add(1), CALL).await.reply;
    assert!(matches!(refused, Err(StoreError::Refused(_))));
    assert!(matches!(counted, Patched::Applied { .. }));
    store
        .destroy(&id(0), Reason::Destroyed, Duration::ZERO, CALL)
        .await
        .unwrap();
    assert!(created >= 2);
    assert_eq!(store.stats().refused_full, 2);
}

#[tokio::test]
async fn a_part_of_the_expiry_index_is_one_holders_until_its_lease_is_over() {
    let hand = Hand::new();
    let store = by(&hand);
    let (bucket, lease) = (bucket_of(id(1).tag()), Duration::from_secs(5));
    store
        .arm(&id(1), Wall::from_micros(START_MICROS), CALL)
        .await
        .unwrap();

    let one = store.claim(bucket, 1, 10, lease, CALL).await.unwrap();
    let other = store.claim(bucket, 2, 10, lease, CALL).await.unwrap();
    hand.forward(lease);
    let later = store.claim(bucket, 2, 10, lease, CALL).await.unwrap();

    assert!(matches!(one, Claimed::Held { due, .. } if due[0].session == id(1)));
    assert_eq!(other, Claimed::Taken { left: lease });
    assert!(matches!(later, Claimed::Held { .. }));
}

#[tokio::test]
async fn many_at_once_lose_nothing() {
    let store = Embedded::start(EmbeddedPlan::at(None)).unwrap();
    store.create(&session(1), CALL).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..16 {
        let store = store.clone();
        tasks.spawn(async move {
            for round in 0..50 {
                let call = if round % 10 == 0 { DURABLE } else { CALL };
                patch(&store, 1, add(task), call).await;
            }
        });
    }

    tasks.join_all().await;

    assert_eq!(hits(&store, 1).await, 50 * (0..16).sum::<i64>());
}

#[tokio::test]
async fn an_id_that_is_taken_or_remembered_is_not_given_again() {
    let store = Embedded::start(EmbeddedPlan::at(None)).unwrap();
    store.create(&session(1), CALL).await.unwrap();
    let again = store.create(&session(1), CALL).await.unwrap();
    assert_eq!(again.reply, Created::Taken);

    let minute = Duration::from_secs(60);
    store
        .destroy(&id(1), Reason::Destroyed, minute, CALL)
        .await
        .unwrap();

    let again = store.create(&session(1), CALL).await.unwrap();
    assert_eq!(again.reply, Created::Taken);
}

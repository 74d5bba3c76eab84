//! Servers that do not answer, and ways to them that break.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::session::{
    Durability, Expect, Format, Found, Gone, Name, Opened, Patched, Rotated, Rotation, Uid, Value,
    Version,
};
use tidegate_lab::patience::until;
use tidegate_lab::peers::{FaultProxy, RedisServer, Toward};
use tidegate_store::StoreError;

use crate::store::{PATIENT, Store, fresh_id, id_at, new_session};

/// What a loaded machine may add to a bound.
const SLACK: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_hung_server_costs_only_those_under_way_and_nobody_more_than_the_bound() {
    let server = RedisServer::plain().unwrap();
    let store = Arc::new(Store::standalone(server.address()));
    let id = fresh_id();
    store.create(id).await.unwrap();

    server.pause().unwrap();
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.touch(&id).await })
        })
        .collect();
    for call in calls {
        let (ended, took) = call.await.unwrap();
        assert!(ended.is_err());
        assert!(took < PATIENT + SLACK, "{took:?}");
    }
    store.wait_until_away(&id).await;
    for _ in 0..100 {
        let (ended, _) = store.touch(&id).await;
        assert_eq!(ended, Err(StoreError::Away));
    }

    server.resume().unwrap();
    store.wait_until_back(&id).await;
    assert!(matches!(store.touch(&id).await.0, Ok(Opened::Found { .. })));
}

#[tokio::test]
async fn a_connection_that_breaks_is_replaced_without_the_breaker() {
    for half in [None, Some(Toward::Client), Some(Toward::Server)] {
        let server = RedisServer::plain().unwrap();
        let proxy = FaultProxy::start(server.address()).unwrap();
        let store = Store::standalone(proxy.address());
        let id = fresh_id();
        store.create(id).await.unwrap();

        match half {
            None => proxy.cut(),
            Some(toward) => proxy.half_close(toward),
        }
        store.wait_until_back(&id).await;

        let hit = store.hit(&id, 1, Durability::ASYNC).await;
        assert!(hit.is_ok(), "{half:?}: {hit:?}");
    }
}

#[tokio::test]
async fn a_way_that_swallows_everything_is_left_and_found_again() {
    let server = RedisServer::plain().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let store = Store::standalone(proxy.address());
    let id = fresh_id();
    store.create(id).await.unwrap();

    proxy.hang();
    store.wait_until_away(&id).await;
    proxy.heal();

    store.wait_until_back(&id).await;
    assert_eq!(store.hits(&id).await, Ok(Some(0)));
}

#[tokio::test]
async fn a_slow_way_is_away_while_it_is_too_slow() {
    let server = RedisServer::plain().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let store = Store::standalone(proxy.address());
    let id = fresh_id();
    store.create(id).await.unwrap();

    proxy.delay(Toward::Client, PATIENT * 2);
    store.wait_until_away(&id).await;
    proxy.heal();

    store.wait_until_back(&id).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_at_the_start_is_found_when_it_comes() {
    let server = RedisServer::plain().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    proxy.refuse();
    let store = Store::standalone(proxy.address());
    let id = fresh_id();

    assert!(store.create(id).await.is_err());
    proxy.heal();

    store.wait_until_back(&id).await;
    store.create(id).await.unwrap();
}

#[tokio::test]
async fn scripts_that_are_flushed_fail_nobody() {
    let server = RedisServer::plain().unwrap();
    let store = Arc::new(Store::standalone(server.address()));
    let id = fresh_id();
    store.create(id).await.unwrap();

    let calls: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for _ in 0..200 {
                    store.hits(&id).await.unwrap();
                }
            })
        })
        .collect();
    let mut wire = server.wire().unwrap();
    while !calls.iter().all(tokio::task::JoinHandle::is_finished) {
        wire.ask(&["SCRIPT", "FLUSH"]).unwrap();
        tokio::task::yield_now().await;
    }

    for call in calls {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_restarts_empty_gets_the_latest_writes_again() {
    let mut server = RedisServer::plain().unwrap();
    let store = Store::standalone(server.address());
    let id = fresh_id();
    let kept = tidegate_store::Call::within(PATIENT).with(Durability::REDO);
    let created = store.sessions.create(&new_session(id), kept).await;
    created.unwrap();
    for number in 1..=50 {
        store.hit(&id, number, Durability::REDO).await.unwrap();
    }

    server.restart().unwrap();
    store.wait_until_back(&id).await;

    assert_eq!(store.hits(&id).await, Ok(Some(50)));
}

#[tokio::test]
async fn writes_that_expected_each_other_are_done_again_in_order_and_with_their_versions() {
    let mut server = RedisServer::plain().unwrap();
    let store = Store::standalone(server.address());
    let id = fresh_id();
    let kept = tidegate_store::Call::within(PATIENT).with(Durability::REDO);
    let mut new = new_session(id);
    let empty = Value {
        format: Format::Text,
        bytes: Vec::new(),
    };
    new.attributes.push((Name::new("cart").unwrap(), empty));
    store.sessions.create(&new, kept).await.unwrap();
    for (number, cart) in [(1, "one"), (2, "two"), (3, "three")] {
        let there = store.cart(&id).await.unwrap().version;
        let filled = store
            .fill(&id, number, cart, Expect::At(there), Durability::REDO)
            .await;
        assert!(matches!(filled, Ok(Patched::Applied { .. })));
    }
    let last = store.cart(&id).await.unwrap();

    server.restart().unwrap();
    store.wait_until_back(&id).await;

    assert_eq!(store.cart(&id).await, Some(last.clone()));
    let next = store
        .fill(&id, 4, "four", Expect::At(last.version), Durability::REDO)
        .await;
    assert!(matches!(next, Ok(Patched::Applied { .. })), "{next:?}");
}

#[tokio::test]
async fn what_was_refused_is_not_done_when_the_reason_is_lost() {
    let mut server = RedisServer::plain().unwrap();
    let store = Store::standalone(server.address());
    let id = fresh_id();
    let kept = tidegate_store::Call::within(PATIENT).with(Durability::REDO);
    let new = new_session(id);
    store.sessions.create(&new, kept).await.unwrap();
    let there = store
        .fill(&id, 1, "there", Expect::Any, Durability::ASYNC)
        .await;
    assert!(matches!(there, Ok(Patched::Applied { .. })));
    let refused = store
        .fill(&id, 2, "refused", Expect::Absent, Durability::REDO)
        .await;
    assert!(matches!(refused, Ok(Patched::Conflict { .. })));

    server.restart().unwrap();
    store.wait_until_back(&id).await;

    assert_eq!(store.hits(&id).await, Ok(Some(0)));
    assert_eq!(store.cart(&id).await, None);
}

#[tokio::test]
async fn of_what_is_kept_of_a_user_the_newest_stays_whoever_writes_last_again() {
    let mut server = RedisServer::plain().unwrap();
    let stores = [server.address(); 2].map(Store::standalone);
    let id = fresh_id();
    stores[0].create(id).await.unwrap();
    let kept = tidegate_store::Call::within(PATIENT).with(Durability::REDO);
    let (uid, day) = (Uid::new("ann").unwrap(), Duration::from_secs(86_400));
    let holding = |count| Found {
        attributes: Vec::new(),
        counters: vec![(Name::new("items").unwrap(), count)],
    };
    for (store, version) in [(0, 1), (1, 3), (0, 2)] {
        let content = holding(version);
        let version = Version(version.unsigned_abs());
        let put = stores[store]
            .sessions
            .put_capsule(&uid, &content, version, day, kept);
        put.await.unwrap();
    }

    server.restart().unwrap();
    for store in &stores {
        store.wait_until_back(&id).await;
    }

    let capsule = stores[0].sessions.capsule(&uid, kept).await;
    assert_eq!(capsule, Ok(holding(3)));
}

#[tokio::test]
async fn an_id_that_somebody_signed_in_with_stays_dead_whoever_writes_first_again() {
    let mut server = RedisServer::plain().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (creator, other) = (
        Store::standalone(proxy.address()),
        Store::standalone(server.address()),
    );
    let kept = tidegate_store::Call::within(PATIENT).with(Durability::REDO);
    let (old, new) = (id_at(7, 1), id_at(7, 2));
    let created = creator.sessions.create(&new_session(old), kept).await;
    created.unwrap();
    let sign_in = Rotation::Privilege {
        principal: None,
        lifetimes: new_session(new).lifetimes,
        carry: Vec::new(),
        // Longer than a loaded machine takes for what follows.
        tombstone: Duration::from_secs(600),
    };
    let rotated = other.sessions.rotate(&old, &new, &sign_in, kept).await;
    assert!(matches!(rotated.unwrap().reply, Rotated::Rotated { .. }));

    proxy.hang();
    server.restart().unwrap();
    other.wait_until_back(&old).await;
    proxy.heal();
    creator.wait_until_back(&old).await;

    for store in [&creator, &other] {
        let (opened, _) = store.touch(&old).await;
        assert_eq!(opened, Ok(Opened::Gone(Gone::Replaced)));
    }
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_away_until_it_does() {
    // A command that makes a server refuse writes, and one that ends that.
    let demoted = (["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]);
    let alone = (
        ["CONFIG", "SET", "min-replicas-to-write 1"],
        ["CONFIG", "SET", "min-replicas-to-write 0"],
    );
    for (refuse, take) in [demoted, alone] {
        let server = RedisServer::plain().unwrap();
        let store = Store::standalone(server.address());
        let id = fresh_id();
        store.create(id).await.unwrap();
        let words = |command: [&'static str; 3]| -> Vec<&'static str> {
            command.iter().flat_map(|part| part.split(' ')).collect()
        };

        server.ask(&words(refuse)).unwrap();
        until("the store is known to be away", async || {
            if store.sessions.is_away(&id) {
                return Some(());
            }
            let hit = store.hit(&id, 1, Durability::ASYNC).await;
            assert!(hit.is_err(), "{hit:?}");
            None
        })
        .await;
        server.ask(&words(take)).unwrap();
        store.wait_until_back(&id).await;

        store.hit(&id, 2, Durability::ASYNC).await.unwrap();
    }
}

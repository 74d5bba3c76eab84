//! Primaries that are replaced.

use std::time::Duration;

use tidegate_core::session::{Durability, OnShort, Patched, Replication, SessionId, Wait};
use tidegate_core::time::Wall;
use tidegate_lab::patience::until_so;
use tidegate_lab::peers::{Cluster, ClusterSetup, SentinelSetup, Sentinels, Toward};
use tidegate_store::StoreError;
use tidegate_store::redis::{Arrangement, Credentials};

use crate::store::{PATIENT, Store, WITHIN, call, fresh_id, id_at, named};

/// Waits for one replica, shortly.
const ONE: Wait = Wait {
    replicas: 1,
    within: Duration::from_secs(2),
    on_short: OnShort::Degrade,
};

fn behind(sentinels: &Sentinels) -> Arrangement {
    Arrangement::Sentinel {
        sentinels: sentinels.addresses().into_iter().map(named).collect(),
        primary: sentinels.name().to_owned(),
        credentials: Credentials::default(),
    }
}

#[tokio::test]
async fn calls_follow_a_failover_and_no_kept_write_is_lost_or_done_twice() {
    let mut servers = Sentinels::start(&SentinelSetup::proxied()).unwrap();
    let store = Store::start(behind(&servers), PATIENT);
    let id = fresh_id();
    let kept = tidegate_store::Call::within(PATIENT).with(Durability::REDO);
    let created = crate::store::new_session(id);
    store.sessions.create(&created, kept).await.unwrap();
    let servers_primary = store.redis.stats().shards[0].primary.clone();
    assert_eq!(servers_primary, Some(named(servers.servers()[0].address())));

    // What is written from now on, no replica has before the primary is gone.
    for proxy in servers.proxies() {
        proxy.hold(Toward::Client);
    }
    for number in 1..=30 {
        store.hit(&id, number, Durability::REDO).await.unwrap();
    }
    servers.server(0).kill().unwrap();
    store.wait_until_away(&id).await;
    servers.wait_for_failover(0, WITHIN).unwrap();
    store.wait_until_back(&id).await;

    assert_eq!(store.hits(&id).await, Ok(Some(30)));
    let stats = store.redis.stats();
    assert!(stats.redo.repaired >= 30, "{stats:?}");
    assert_eq!(stats.shards[0].losses, 1);
    let recovery = stats.shards[0].recovery.unwrap();
    assert!(recovery.promote > Duration::ZERO, "{recovery:?}");
    let again = store.hit(&id, 30, Durability::REDO).await.unwrap();
    assert!(matches!(again.reply, Patched::AlreadyApplied { .. }));
}

#[tokio::test]
async fn a_primary_that_is_demoted_is_left_though_it_answers() {
    let servers = Sentinels::start(&SentinelSetup::default()).unwrap();
    let store = Store::start(behind(&servers), PATIENT);
    let id = fresh_id();
    store.create(id).await.unwrap();

    servers.fail_over().unwrap();
    let new = servers.wait_for_failover(0, WITHIN).unwrap();

    let wanted = Some(named(servers.servers()[new].address()));
    until_so("the old primary is left", || {
        store.redis.stats().shards[0].primary == wanted
    })
    .await;
    store.wait_until_back(&id).await;
    store.hit(&id, 1, Durability::REDO).await.unwrap();
}

#[tokio::test]
async fn a_write_that_waits_says_how_many_replicas_have_it() {
    let servers = Sentinels::start(&SentinelSetup::proxied()).unwrap();
    let store = Store::start(behind(&servers), PATIENT);
    let id = fresh_id();
    store.create(id).await.unwrap();
    let waiting = |wait| Durability {
        redo: false,
        wait: Some(wait),
    };

    let hit = store.hit(&id, 1, waiting(ONE)).await.unwrap();
    assert!(matches!(hit.replication, Replication::Reached(1..=2)));

    for proxy in servers.proxies() {
        proxy.hold(Toward::Client);
    }
    let short = Wait {
        within: Duration::from_millis(20),
        ..ONE
    };
    let hit = store.hit(&id, 2, waiting(short)).await.unwrap();
    assert_eq!(hit.replication, Replication::Short(0));
    assert_eq!(store.hits(&id).await, Ok(Some(2)));
}

#[tokio::test]
async fn a_slot_that_moves_takes_its_sessions_along_and_calls_follow() {
    let cluster = Cluster::start(&ClusterSetup::default()).unwrap();
    let seeds = cluster.addresses().into_iter().take(1).map(named).collect();
    let store = Store::start(Arrangement::Cluster(seeds), PATIENT);
    let id = id_at(77, 1);
    store.create(id).await.unwrap();
    store.hit(&id, 1, Durability::ASYNC).await.unwrap();
    let slot = cluster.slot(&format!("{{{}}}", id.tag())).unwrap();
    let from = cluster.owner(slot).unwrap();
    let to = (from + 1) % 3;

    cluster.begin_move(slot, from, to).unwrap();
    // Nowhere yet, so it is put where the slot goes.
    let put = store
        .sessions
        .put_blob(&id, "b", b"large", Wall::from_micros(u64::MAX / 4), call());
    put.await.unwrap();
    let blob = store.sessions.blob(&id, "b", call()).await;
    assert_eq!(blob, Ok(Some(b"large".to_vec())));
    // What needs two keys, of which one is on neither side, has to wait for the end of the move.
    assert_eq!(
        store.hit(&id, 2, Durability::ASYNC).await,
        Err(StoreError::Busy)
    );
    cluster.move_keys(slot, from, to).unwrap();
    cluster.finish_move(slot, to).unwrap();

    store.hit(&id, 2, Durability::ASYNC).await.unwrap();
    assert_eq!(store.hits(&id).await, Ok(Some(2)));
    let shards = store.redis.stats().shards;
    assert!(shards.iter().any(|shard| shard.moved > 0), "{shards:?}");
    assert!(shards.iter().any(|shard| shard.asked > 0), "{shards:?}");
}

#[tokio::test]
async fn one_shard_of_a_cluster_that_fails_over_leaves_the_others_alone() {
    let mut cluster = Cluster::start(&ClusterSetup::default()).unwrap();
    let seeds = cluster.addresses().into_iter().map(named).collect();
    let store = Store::start(Arrangement::Cluster(seeds), PATIENT);
    let slot_of = |id: SessionId| cluster.slot(&format!("{{{}}}", id.tag())).unwrap();
    let lost = id_at(1, 3);
    let slot = slot_of(lost);
    let primary = cluster.owner(slot).unwrap();
    let mut others = (2..).map(|tag| id_at(tag, 3));
    let elsewhere = |id: &SessionId| cluster.owner(slot_of(*id)) != Some(primary);
    let other = others.find(elsewhere).unwrap();
    for id in [lost, other] {
        store.create(id).await.unwrap();
    }

    cluster.server(primary).kill().unwrap();
    store.wait_until_away(&lost).await;
    assert_eq!(store.hits(&other).await, Ok(Some(0)));
    cluster.wait_for_failover(slot, primary, WITHIN).unwrap();
    store.wait_until_back(&lost).await;

    store.hit(&lost, 1, Durability::ASYNC).await.unwrap();
    assert_eq!(store.hits(&lost).await, Ok(Some(1)));
}

//! Members, leases and beacons, in Redis and in the embedded store: one list of rules for both.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod backend;
mod beacons;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use backend::{Backend, CALL};
use tidegate_core::session::Name;
use tidegate_core::time::Wall;
use tidegate_lab::patience::until;
use tidegate_store::embedded::{Clock, Embedded, EmbeddedPlan};
use tidegate_store::{Enrolled, Fence, Fleet, Held, Node, STORE_GRAIN, Taken};

/// A lease that is not over before the test is.
const LONG: Duration = Duration::from_secs(60);
/// A lease that is soon over.
const SHORT: Duration = Duration::from_millis(50);

fn node(id: &str, incarnation: u64) -> Node {
    Node {
        id: name(id),
        incarnation,
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

async fn names(fleet: &Fleet) -> Vec<String> {
    let living = fleet.living(CALL).await.unwrap();
    living
        .iter()
        .map(|member| format!("{}.{}", member.node.id, member.node.incarnation))
        .collect()
}

async fn lead(fleet: &Fleet, lease: &str, node: &Node, span: Duration) -> Result<Held, Node> {
    match fleet.take_lease(&name(lease), node, span, CALL).await {
        Ok(Taken::Held(held)) => Ok(held),
        Ok(Taken::Others { holder, .. }) => Err(holder),
        Err(error) => panic!("{error}"),
    }
}

/// Takes a lease as soon as it is to be had.
async fn lead_at_last(fleet: &Fleet, lease: &str, node: &Node) -> Held {
    until("nobody else has the lease", async || {
        lead(fleet, lease, node, LONG).await.ok()
    })
    .await
}

async fn members_come_and_go(fleet: &Fleet) {
    let (a, b) = (node("a", 1), node("b", u64::MAX));
    for one in [&a, &b] {
        let enrolled = fleet.enrol(one, LONG, CALL).await.unwrap();
        assert!(matches!(enrolled, Enrolled::Member { .. }));
    }
    assert_eq!(names(fleet).await, ["a.1", &format!("b.{}", u64::MAX)]);
    let since = fleet.living(CALL).await.unwrap()[0].since;
    fleet.renew(&a, LONG, CALL).await.unwrap();
    assert_eq!(fleet.living(CALL).await.unwrap()[0].since, since);

    assert!(fleet.leave(&b, CALL).await.unwrap());
    assert!(!fleet.leave(&b, CALL).await.unwrap());
    assert_eq!(names(fleet).await, ["a.1"]);

    fleet.enrol(&node("c", 1), SHORT, CALL).await.unwrap();
    until("the dead are gone", async || {
        (names(fleet).await == ["a.1"]).then_some(())
    })
    .await;
    // Late, but nobody has come in its place.
    let late = fleet.renew(&node("c", 1), LONG, CALL).await.unwrap();
    assert!(matches!(late, Enrolled::Member { .. }));
}

async fn a_former_life_does_not_come_back(fleet: &Fleet) {
    let (before, after) = (node("restarted", 1), node("restarted", 2));
    fleet.enrol(&before, LONG, CALL).await.unwrap();
    fleet.enrol(&after, LONG, CALL).await.unwrap();

    let resumed = fleet.renew(&before, LONG, CALL).await.unwrap();

    assert_eq!(resumed, Enrolled::Superseded);
    assert!(!fleet.leave(&before, CALL).await.unwrap());
    assert!(names(fleet).await.contains(&"restarted.2".to_owned()));
}

async fn one_leads_at_a_time(fleet: &Fleet) {
    let (a, b) = (node("a", 1), node("b", 1));
    let before = Instant::now();
    let first = lead(fleet, "room", &a, LONG).await.unwrap();
    assert!(first.is_valid(Instant::now()));
    let span = LONG - STORE_GRAIN;
    assert!(first.until <= Instant::now() + span && first.until >= before + span);
    assert_eq!(lead(fleet, "room", &b, LONG).await, Err(a.clone()));
    assert!(lead(fleet, "other", &b, LONG).await.is_ok());
    // Another life of the same node is somebody else.
    assert_eq!(
        lead(fleet, "room", &node("a", 2), LONG).await,
        Err(a.clone())
    );

    let extended = lead(fleet, "room", &a, LONG).await.unwrap();
    assert_eq!(extended.fence, first.fence);

    let gave_back = fleet
        .give_lease_back(&name("room"), first.fence, CALL)
        .await;
    assert_eq!(gave_back, Ok(true));
    let second = lead(fleet, "room", &b, LONG).await.unwrap();
    assert!(second.fence > first.fence);
    let again = fleet
        .give_lease_back(&name("room"), first.fence, CALL)
        .await;
    assert_eq!(again, Ok(false));
}

async fn a_leader_that_was_paused_is_found_out(fleet: &Fleet) {
    let (paused, successor) = (node("paused", 1), node("successor", 1));
    let lease = name("guarded");
    let old = lead(fleet, "guarded", &paused, SHORT).await.unwrap();
    assert_eq!(fleet.is_latest(&lease, old.fence, CALL).await, Ok(true));

    let new = lead_at_last(fleet, "guarded", &successor).await;

    assert!(new.fence > old.fence);
    assert!(!old.is_valid(Instant::now()));
    assert_eq!(fleet.is_latest(&lease, old.fence, CALL).await, Ok(false));
    assert_eq!(fleet.is_latest(&lease, new.fence, CALL).await, Ok(true));
    assert_eq!(lead(fleet, "guarded", &paused, LONG).await, Err(successor));
    // What has no fence at all is no leader.
    assert_eq!(fleet.is_latest(&lease, Fence(0), CALL).await, Ok(false));
}

async fn who_takes_a_lease_again_after_it_was_over_has_a_new_fence(fleet: &Fleet) {
    let holder = node("slow", 1);
    let old = lead(fleet, "slow", &holder, Duration::ZERO).await.unwrap();

    until("it is over", async || {
        let held = lead(fleet, "slow", &holder, Duration::ZERO).await.unwrap();
        (held.fence > old.fence).then_some(())
    })
    .await;
}

async fn all_rules(fleet: &Fleet) {
    members_come_and_go(fleet).await;
    a_former_life_does_not_come_back(fleet).await;
    one_leads_at_a_time(fleet).await;
    a_leader_that_was_paused_is_found_out(fleet).await;
    who_takes_a_lease_again_after_it_was_over_has_a_new_fence(fleet).await;
}

#[tokio::test]
async fn redis_keeps_members_and_leases() {
    all_rules(&Backend::standalone().fleet).await;
}

#[tokio::test]
async fn the_embedded_store_keeps_members_and_leases() {
    all_rules(&Backend::embedded().fleet).await;
}

#[tokio::test]
async fn a_fence_grows_though_redis_has_lost_everything() {
    let redis = Backend::standalone();
    let leader = node("a", 1);
    let before = lead(&redis.fleet, "room", &leader, LONG).await.unwrap();

    redis.ask(&["FLUSHALL"]);

    let after = lead(&redis.fleet, "room", &leader, LONG).await.unwrap();
    assert!(after.fence > before.fence);
}

/// A folder that goes with its owner.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_fence_grows_over_a_restart_though_the_clock_goes_back() {
    let path = std::env::temp_dir().join(format!("tidegate-fence-{}", std::process::id()));
    let folder = Folder(path);
    let micros = Arc::new(AtomicU64::new(5_000_000_000));
    let start = || {
        let micros = Arc::clone(&micros);
        let plan = EmbeddedPlan {
            clock: Clock::new(move || Wall::from_micros(micros.load(Ordering::Relaxed))),
            ..EmbeddedPlan::at(Some(folder.0.clone()))
        };
        Embedded::start(plan).unwrap()
    };
    let leader = node("a", 1);
    let store = start();
    let before = lead(&Fleet::Embedded(store.clone()), "room", &leader, LONG).await;
    store.close();
    drop(store);

    micros.store(1_000_000, Ordering::Relaxed);
    let after = lead(&Fleet::Embedded(start()), "room", &leader, LONG).await;

    assert!(after.unwrap().fence > before.unwrap().fence);
}

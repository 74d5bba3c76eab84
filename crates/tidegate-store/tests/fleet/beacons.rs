//! Beacons, what leaders publish about them, and what operators order.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_lab::patience::until;
use tidegate_store::{
    BEACON_BYTES_MAX, Decided, Fence, Fleet, Heard, LEADERSHIP, Node, Posted, Published,
    StoreError, VERDICT_BYTES_MAX,
};

use crate::backend::{Backend, CALL};
use crate::{LONG, SHORT, lead, lead_at_last, name, node};

async fn post(fleet: &Fleet, node: &Node, said: &str) -> Heard {
    match fleet
        .post_beacon(node, said.as_bytes(), LONG, true, CALL)
        .await
    {
        Ok(Posted::Heard(heard)) => heard,
        other => panic!("{other:?}"),
    }
}

async fn said(fleet: &Fleet) -> Vec<(String, String)> {
    let all = fleet.beacons(CALL).await.unwrap();
    all.beacons
        .iter()
        .map(|beacon| {
            let said = String::from_utf8(beacon.said.clone()).unwrap();
            (beacon.node.id.to_string(), said)
        })
        .collect()
}

fn decided(fence: Fence, generation: u64, verdicts: &[(&str, &str)]) -> Decided {
    let verdicts: BTreeMap<_, _> = verdicts
        .iter()
        .map(|(node, verdict)| (name(node), verdict.as_bytes().to_vec()))
        .collect();
    Decided {
        fence,
        generation,
        fleet: format!("{} nodes", verdicts.len()).into_bytes(),
        verdicts,
    }
}

async fn publish(fleet: &Fleet, decided: &Decided) -> Published {
    fleet.publish(decided, LONG, CALL).await.unwrap()
}

async fn beacons_are_read_in_one_call_while_they_count(fleet: &Fleet) {
    let before = post(fleet, &node("a", 1), "first").await;
    post(fleet, &node("b", u64::MAX), "with blanks\nand \0 bytes").await;
    let after = post(fleet, &node("a", 1), "second").await;

    let all = fleet.beacons(CALL).await.unwrap();

    assert!(before.now <= after.now && after.now <= all.now);
    assert_eq!(
        said(fleet).await,
        [
            ("a".to_owned(), "second".to_owned()),
            ("b".to_owned(), "with blanks\nand \0 bytes".to_owned()),
        ]
    );
    assert_eq!(all.beacons[1].node.incarnation, u64::MAX);
    assert!(all.now.since(all.beacons[0].at) < CALL.timeout);

    let silent = node("silent", 1);
    let posted = fleet.post_beacon(&silent, b"x", SHORT, true, CALL).await;
    assert!(matches!(posted, Ok(Posted::Heard(_))));
    until("the silent are gone", async || {
        (said(fleet).await.len() == 2).then_some(())
    })
    .await;
}

async fn a_former_life_does_not_speak_for_a_node(fleet: &Fleet) {
    post(fleet, &node("twice", 1), "before").await;
    post(fleet, &node("twice", 2), "after").await;

    let former = node("twice", 1);
    let resumed = fleet.post_beacon(&former, b"old", LONG, false, CALL);

    assert_eq!(resumed.await, Ok(Posted::Superseded));
    let there = said(fleet).await;
    assert!(there.contains(&("twice".to_owned(), "after".to_owned())));
}

async fn what_is_too_long_is_refused(fleet: &Fleet) {
    let long = vec![b'x'; BEACON_BYTES_MAX + 1];
    let most = &long[..BEACON_BYTES_MAX];

    let talker = node("long", 1);
    let posted = fleet.post_beacon(&talker, most, SHORT, true, CALL);
    assert!(matches!(posted.await, Ok(Posted::Heard(_))));
    let posted = fleet.post_beacon(&talker, &long, SHORT, true, CALL);
    assert!(matches!(posted.await, Err(StoreError::Refused(_))));
    let mut too_much = decided(Fence(1), 1, &[]);
    let verdict = vec![b'x'; VERDICT_BYTES_MAX + 1];
    too_much.verdicts.insert(name("a"), verdict);
    let published = fleet.publish(&too_much, LONG, CALL).await;
    assert!(matches!(published, Err(StoreError::Refused(_))));
}

async fn a_node_hears_what_was_decided_about_it(fleet: &Fleet) {
    let a = node("a", 1);
    let heard = post(fleet, &a, "nothing was decided").await;
    assert_eq!(heard.leader_left, Duration::ZERO);
    assert_eq!(heard.mine, None);
    assert_eq!(fleet.published(CALL).await, Ok(None));

    let held = lead(fleet, LEADERSHIP, &a, LONG).await.unwrap();
    let first = decided(held.fence, 1, &[("a", "healthy"), ("gone", "unknown")]);
    assert!(matches!(
        publish(fleet, &first).await,
        Published::Done { .. }
    ));

    let heard = post(fleet, &a, "something was").await;
    assert!(heard.leader_left > LONG / 2 && heard.leader_left <= LONG);
    let mine = heard.mine.unwrap();
    assert_eq!((mine.stamp.fence, mine.stamp.generation), (held.fence, 1));
    assert_eq!(mine.stamp.until.since(mine.stamp.at), LONG);
    assert_eq!(mine.fleet, b"2 nodes");
    assert_eq!(mine.verdict.as_deref(), Some(b"healthy".as_slice()));
    let other = post(fleet, &node("new", 1), "nobody knows me").await;
    assert_eq!(other.mine.unwrap().verdict, None);

    let second = decided(held.fence, 2, &[("a", "stressed")]);
    publish(fleet, &second).await;
    let issue = fleet.published(CALL).await.unwrap().unwrap();
    assert_eq!(issue.stamp.generation, 2);
    assert_eq!(issue.verdicts, second.verdicts);
    assert!(issue.now >= issue.stamp.at && issue.now < issue.stamp.until);
}

async fn a_former_leader_does_not_publish(fleet: &Fleet) {
    let (a, b) = (node("a", 1), node("b", 1));
    let old = lead_at_last(fleet, LEADERSHIP, &a).await;
    let ninth = decided(old.fence, 9, &[("a", "of the old")]);
    publish(fleet, &ninth).await;
    // Late on the way, of the same leader; then the same once more, which changes nothing.
    let eighth = decided(old.fence, 8, &[]);
    let late = publish(fleet, &eighth).await;
    assert_eq!(late, Published::Outranked { by: old.fence });
    assert!(matches!(
        publish(fleet, &ninth).await,
        Published::Done { .. }
    ));

    let leadership = name(LEADERSHIP);
    let gave_back = fleet.give_lease_back(&leadership, old.fence, CALL);
    assert_eq!(gave_back.await, Ok(true));
    let new = lead(fleet, LEADERSHIP, &b, LONG).await.unwrap();
    // Before the new one has said anything.
    let tenth = decided(old.fence, 10, &[("a", "of the old")]);
    let outranked = Published::Outranked { by: new.fence };
    assert_eq!(publish(fleet, &tenth).await, outranked);

    let first = decided(new.fence, 1, &[("a", "of the new")]);
    assert!(matches!(
        publish(fleet, &first).await,
        Published::Done { .. }
    ));
    assert_eq!(publish(fleet, &tenth).await, outranked);
    let issue = fleet.published(CALL).await.unwrap().unwrap();
    assert_eq!(issue.verdicts, first.verdicts);
}

async fn orders_hold_until_they_are_over_or_taken_back(fleet: &Fleet) {
    let (kept, short) = (name("kept"), name("short"));
    assert_eq!(fleet.order(&kept, b"drain", None, CALL).await, Ok(true));
    assert_eq!(
        fleet.order(&kept, b"drain it", Some(LONG), CALL).await,
        Ok(true)
    );
    assert_eq!(
        fleet.order(&short, b"drain", Some(SHORT), CALL).await,
        Ok(true)
    );

    until("the short one is over", async || {
        let orders = fleet.beacons(CALL).await.unwrap().orders;
        (orders.len() == 1).then_some(())
    })
    .await;
    let order = fleet.beacons(CALL).await.unwrap().orders.remove(0);
    assert_eq!(order.node, kept);
    assert_eq!(order.said, b"drain it");
    assert_eq!(order.until.unwrap().since(order.since), LONG);

    fleet.order(&kept, b"drain", None, CALL).await.unwrap();
    let order = fleet.beacons(CALL).await.unwrap().orders.remove(0);
    assert_eq!(order.until, None);
    assert_eq!(fleet.take_order_back(&kept, CALL).await, Ok(true));
    assert_eq!(fleet.take_order_back(&kept, CALL).await, Ok(false));
    assert_eq!(fleet.beacons(CALL).await.unwrap().orders, []);
}

/// More nodes than a script is passed values at a time.
async fn many_nodes_are_decided_about_at_once(fleet: &Fleet) {
    let leader = node("b", 1);
    let held = lead_at_last(fleet, LEADERSHIP, &leader).await;
    let mut all = decided(held.fence, 100, &[]);
    for number in 0..2_500 {
        let verdict = format!("verdict {number}").into_bytes();
        all.verdicts
            .insert(name(&format!("node-{number}")), verdict);
    }
    assert!(matches!(publish(fleet, &all).await, Published::Done { .. }));

    let issue = fleet.published(CALL).await.unwrap().unwrap();

    assert_eq!(issue.verdicts, all.verdicts);
}

/// Whoever can write to the store could end the fleet with one entry otherwise.
#[tokio::test]
async fn what_makes_no_sense_is_passed_over_and_named() {
    let backend = Backend::standalone();
    backend.wait_until_ready().await;
    let fleet = &backend.fleet;
    post(fleet, &node("a", 1), "there").await;
    fleet.order(&name("a"), b"drain", None, CALL).await.unwrap();
    let long = "x".repeat(200);
    // Until long after this.
    let (late, past_64_bits) = ("9999999999999", "99999999999999999999");
    for (entry, value) in [
        ("two words", format!("1 1 {late} x")),
        ("\u{1b}[2J", format!("1 1 {late} x")),
        (long.as_str(), format!("1 1 {late} x")),
        ("life", format!("{past_64_bits} 1 {late} x")),
        ("came", format!("1 {past_64_bits} {past_64_bits} x")),
        ("ahead", format!("1 {late} {late} x")),
    ] {
        backend.ask(&["HSET", "tg:hb:{fleet}", entry, &value]);
    }
    backend.ask(&["HSET", "tg:ho:{fleet}", "no node", "1 0 x"]);
    backend.ask(&["HSET", "tg:hv:{fleet}", "n:no node", "x"]);

    let all = fleet.beacons(CALL).await.unwrap();

    assert_eq!(said(fleet).await, [("a".to_owned(), "there".to_owned())]);
    let ordered: Vec<_> = all.orders.iter().map(|it| it.node.as_str()).collect();
    assert_eq!(ordered, ["a"]);
    let named = [
        "\u{1b}[2J",
        "ahead",
        "came",
        "life",
        "no node",
        "two words",
        &long[..64],
    ];
    assert_eq!(all.odd, named);
    let held = lead(fleet, LEADERSHIP, &node("a", 1), LONG).await.unwrap();
    let decided = decided(held.fence, 1, &[("a", "verdict")]);
    publish(fleet, &decided).await;
    backend.ask(&["HSET", "tg:hv:{fleet}", "n:no node", "x"]);
    let issue = fleet.published(CALL).await.unwrap().unwrap();
    assert_eq!(issue.verdicts, decided.verdicts);
}

async fn all_rules(backend: &Backend) {
    backend.wait_until_ready().await;
    let fleet = &backend.fleet;
    a_node_hears_what_was_decided_about_it(fleet).await;
    a_former_leader_does_not_publish(fleet).await;
    many_nodes_are_decided_about_at_once(fleet).await;
    a_former_life_does_not_speak_for_a_node(fleet).await;
    what_is_too_long_is_refused(fleet).await;
    orders_hold_until_they_are_over_or_taken_back(fleet).await;
}

async fn all_beacons(backend: &Backend) {
    backend.wait_until_ready().await;
    beacons_are_read_in_one_call_while_they_count(&backend.fleet).await;
}

#[tokio::test]
async fn the_embedded_store_keeps_beacons() {
    all_beacons(&Backend::embedded()).await;
    all_rules(&Backend::embedded()).await;
}

#[tokio::test]
async fn redis_keeps_beacons() {
    let backend = Backend::standalone();
    all_beacons(&backend).await;
    backend.ask(&["FLUSHALL"]);
    all_rules(&backend).await;
}

#[tokio::test]
async fn redis_behind_sentinels_keeps_beacons() {
    all_rules(&Backend::sentinels()).await;
}

#[tokio::test]
async fn a_redis_cluster_keeps_beacons() {
    all_rules(&Backend::cluster()).await;
}

#[tokio::test]
async fn a_leader_publishes_though_redis_has_lost_everything() {
    let backend = Backend::standalone();
    backend.wait_until_ready().await;
    let fleet = &backend.fleet;
    let a = node("a", 1);
    let held = lead(fleet, LEADERSHIP, &a, LONG).await.unwrap();
    publish(fleet, &decided(held.fence, 5, &[("a", "before")])).await;

    backend.ask(&["FLUSHALL"]);

    let after = decided(held.fence, 6, &[("a", "after")]);
    assert!(matches!(
        publish(fleet, &after).await,
        Published::Done { .. }
    ));
    let heard = post(fleet, &a, "there").await;
    assert_eq!(
        heard.mine.unwrap().verdict.as_deref(),
        Some(b"after".as_slice())
    );
}

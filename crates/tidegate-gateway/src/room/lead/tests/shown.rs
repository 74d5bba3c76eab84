//! What requests and visitors see.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_page::Language;
use tidegate_page::document::Reason;

use super::*;
use crate::room::hall::{EventPlan, Line, RoomOrder};

fn document(gateway: &Gateway) -> Value {
    serde_json::from_slice(&gateway.hall.view().document).unwrap()
}

#[tokio::test]
async fn all_gateways_serve_the_same_document() {
    let mut site = Site::new();
    let (mut one, mut other) = (site.gateway("gw1", plan()), site.gateway("gw2", plan()));
    site.tick(&mut [&mut one, &mut other]).await;
    site.come(300).await;

    for _ in 0..5 {
        site.pass(seconds(1), &mut [&mut one, &mut other]).await;
        let documents = [&one, &other].map(|it| it.hall.view().document.clone());
        assert_eq!(documents[0], documents[1]);
    }

    let said = document(&other);
    assert_eq!(said["room"], "shop");
    assert_eq!(said["phase"], "queue-all");
    let waiting = said["tiers"][2]["waiting"].as_u64().unwrap();
    assert!((190..=300).contains(&waiting), "{waiting}");
    assert_eq!(other.hall.view().epoch, one.hall.view().epoch);
}

#[tokio::test]
async fn who_hears_no_word_makes_a_document_of_its_own() {
    let mut site = Site::new();
    let (mut one, mut other) = (site.gateway("gw1", plan()), site.gateway("gw2", plan()));
    // Else it would lead.
    let heard = Arc::clone(&other.heard);
    let node = Node {
        id: Name::new("gw2").unwrap(),
        incarnation: 1,
    };
    other.lead = Lead::new(&other.hall, node, false, heard, site.now);
    site.pass(seconds(2), &mut [&mut one, &mut other]).await;
    site.come(50).await;

    site.pass(seconds(5), &mut [&mut other]).await;
    assert_eq!(document(&other)["tiers"][2]["waiting"], 50);
    let view = other.hall.view();
    assert_eq!(
        view.rate,
        RATE / 2.0,
        "nobody has said anything for four seconds"
    );
    site.pass(seconds(40), &mut [&mut other]).await;
    assert!(document(&other)["paused_since_ms"].is_u64());
}

#[tokio::test]
async fn what_is_ordered_is_seen_by_all_within_a_second() {
    let mut site = Site::new();
    let (mut one, mut other) = (site.gateway("gw1", plan()), site.gateway("gw2", plan()));
    site.pass(seconds(2), &mut [&mut one, &mut other]).await;
    let epoch = other.hall.view().epoch.unwrap();
    let message = BTreeMap::from([(Language::En, "Soon.".to_owned())]);
    let orders = [
        RoomOrder::Stock(Some(7)),
        RoomOrder::Message(Some(message)),
        RoomOrder::RevokeBefore(1_796_000_000),
        RoomOrder::Close(Reason::SoldOut),
    ];
    for order in orders {
        one.hall.clerk.order(order).await.unwrap();
    }

    // Whoever does not lead hears of it in the leader's next word.
    site.pass(seconds(2), &mut [&mut one, &mut other]).await;

    for gateway in [&one, &other] {
        let view = gateway.hall.view();
        assert_eq!((view.phase, view.is_ordered), (Phase::Closed, true));
        assert_eq!((view.stock, view.reason), (Some(7), Some(Reason::SoldOut)));
        let said = document(gateway);
        assert_eq!(said["message"]["en"], "Soon.");
        assert_eq!(said["reason"], "sold-out");
        assert_eq!(said["min_iat_ms"], 1_796_000_000_000_u64);
        let standing = gateway.hall.tokens.standing();
        assert_eq!(standing.revoked.issued_from_s, 1_796_000_000);
        assert_eq!(standing.epoch, Some(epoch));
    }

    other.hall.clerk.order(RoomOrder::Turn).await.unwrap();
    site.pass(seconds(2), &mut [&mut one, &mut other]).await;
    let next = one.hall.view().epoch.unwrap();
    assert!(next > epoch);
    assert_eq!(other.hall.tokens.standing().epoch, Some(next));
    assert_eq!(document(&other)["epoch"], next.0);
}

#[tokio::test]
async fn before_an_event_nobody_is_called_and_then_everybody_in_order() {
    let mut site = Site::new();
    let mut event = plan();
    event.event = Some(EventPlan {
        starts_ms: BEGAN_US / 1_000 + 10_000,
        opens_before: seconds(3_600),
    });
    let mut gateway = site.gateway("gw1", event);
    site.tick(&mut [&mut gateway]).await;
    site.come(40).await;

    site.pass(seconds(9), &mut [&mut gateway]).await;
    assert_eq!(site.called().await, 0);
    let said = document(&gateway);
    assert_eq!(said["phase"], "prequeue");
    assert_eq!(said["event"]["entrants"], 40);

    site.pass(seconds(4), &mut [&mut gateway]).await;
    assert!(site.called().await >= 20);
    assert_eq!(document(&gateway)["event"], Value::Null);
    assert_eq!(gateway.hall.view().line, Line::Stored);
}

#[tokio::test]
async fn the_door_has_its_part_of_the_rate_where_nobody_waits() {
    let mut site = Site::new();
    let (mut one, mut other) = (site.gateway("gw1", plan()), site.gateway("gw2", plan()));
    site.pass(seconds(10), &mut [&mut one, &mut other]).await;
    let admitted = |gateway: &Gateway| {
        (0..1_000)
            .filter(|_| gateway.hall.door.admits(site.now))
            .count()
    };

    // A second's.
    assert_eq!([&one, &other].map(admitted), [10, 10]);
}

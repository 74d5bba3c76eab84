//! Who calls, how many, and what becomes of that when a leader is lost.

use std::collections::BTreeMap;

use super::*;
use crate::heard::FleetWord;
use crate::room::hall::{Line, Outcome, RoomOrder};

#[tokio::test]
async fn the_leader_calls_at_the_rate() {
    let mut site = Site::new();
    let mut gateway = site.gateway("gw1", plan());
    site.tick(&mut [&mut gateway]).await;
    site.come(500).await;

    site.pass(seconds(10), &mut [&mut gateway]).await;

    let called = site.called().await;
    assert!((195..=205).contains(&called), "{called}");
    let view = gateway.hall.view();
    assert_eq!((view.rate, view.gateways), (RATE, 1));
    assert_eq!(view.leader.as_deref(), Some("gw1"));
    assert_eq!(gateway.hall.counts.called.value(), called);
}

#[tokio::test]
async fn more_than_are_called_at_once_are_called_in_several_calls() {
    let mut site = Site::new();
    let mut fast = plan();
    fast.bounds.rate_max = 6_000.0;
    fast.bounds.rate_min = 6_000.0;
    let mut gateway = site.gateway("gw1", fast);
    site.tick(&mut [&mut gateway]).await;
    site.come(5_000).await;

    site.tick(&mut [&mut gateway]).await;

    assert_eq!(site.called().await, 1_500, "a quarter of a second's");
}

#[tokio::test]
async fn one_leads_and_after_its_death_another_within_four_seconds_and_nobody_is_called_twice() {
    let mut site = Site::new();
    let (mut one, mut other) = (site.gateway("gw1", plan()), site.gateway("gw2", plan()));
    site.tick(&mut [&mut one, &mut other]).await;
    let places = site.come(160).await;
    site.pass(seconds(3), &mut [&mut one, &mut other]).await;
    assert!(one.lead.is_leading() && !other.lead.is_leading());
    assert_eq!(other.hall.view().leader.as_deref(), Some("gw1"));
    assert_eq!(other.hall.view().gateways, 2);

    let before = site.called().await;
    let mut gap = Duration::ZERO;
    while site.called().await == before {
        site.tick(&mut [&mut other]).await;
        gap += TICK;
        assert!(gap <= seconds(4), "nobody calls");
    }
    assert!(other.lead.is_leading());

    // The dead one was only asleep.
    site.pass(seconds(8), &mut [&mut one, &mut other]).await;
    assert!(!one.lead.is_leading() && other.lead.is_leading());
    assert_eq!(site.called().await, 160);
    for place in places {
        let whereabouts = site.whereabouts(place).await;
        assert!(matches!(whereabouts, Whereabouts::Ready(_)), "{place:?}");
    }
}

#[tokio::test]
async fn at_its_end_a_leader_makes_room_for_another() {
    let mut site = Site::new();
    let (mut one, mut other) = (site.gateway("gw1", plan()), site.gateway("gw2", plan()));
    site.pass(seconds(2), &mut [&mut one, &mut other]).await;
    assert!(one.lead.is_leading());

    one.lead.end(&one.hall).await;
    site.pass(Duration::from_millis(1_250), &mut [&mut other])
        .await;

    assert!(other.lead.is_leading());
}

#[tokio::test]
async fn who_may_not_lead_does_not() {
    let mut site = Site::new();
    let mut gateway = site.gateway("gw1", plan());
    let node = Node {
        id: Name::new("gw1").unwrap(),
        incarnation: 1,
    };
    let heard = Arc::clone(&gateway.heard);
    gateway.lead = Lead::new(&gateway.hall, node, false, heard, site.now);
    site.tick(&mut [&mut gateway]).await;
    site.come(10).await;

    site.pass(seconds(5), &mut [&mut gateway]).await;

    assert!(!gateway.lead.is_leading());
    assert_eq!(site.called().await, 0);
    assert_eq!(gateway.hall.view().positions.waiting(), 10);
}

#[tokio::test]
async fn who_goes_in_without_waiting_counts_against_the_rate() {
    let mut site = Site::new();
    let mut gateway = site.gateway("gw1", plan());
    site.pass(seconds(2), &mut [&mut gateway]).await;
    site.come(1_000).await;
    let hall = Arc::clone(&gateway.hall);

    for _ in 0..20 {
        hall.counts.outcomes[Outcome::Admitted as usize].add(15);
        site.pass(seconds(1), &mut [&mut gateway]).await;
    }

    let called = site.called().await;
    assert!((80..=130).contains(&called), "{called} of about 100");
}

#[tokio::test]
async fn the_rate_follows_what_is_heard_of_the_fleet() {
    let mut site = Site::new();
    let mut wide = plan();
    wide.bounds.rate_max = 100.0;
    wide.bounds.rate_min = 1.0;
    let mut gateway = site.gateway("gw1", wide);
    site.pass(seconds(1), &mut [&mut gateway]).await;
    assert_eq!(gateway.hall.view().rate, 1.0, "nothing is heard");

    for (spare_rps, utilisation, expected) in [
        (None, Some(0.1), 100.0),
        (None, Some(0.9), 0.0),
        (Some(300.0), Some(0.9), 10.0),
    ] {
        gateway.heard.hear(&FleetWord {
            admission: 1.0,
            room: None,
            budgets: BTreeMap::new(),
            why: None,
            spare_rps,
            utilisation,
            lasts: seconds(86_400),
        });
        site.pass(seconds(2), &mut [&mut gateway]).await;

        let rate = gateway.hall.view().rate;
        assert!((rate - expected).abs() < 1e-6, "{rate}");
    }
}

#[tokio::test]
async fn after_a_restart_of_everything_nobody_comes_in_before_enough_are_back() {
    let scratch = Scratch::new();
    let mut kept = plan();
    kept.state = Some(scratch.0.clone());
    let mut site = Site::new();
    let mut before = site.gateway("gw1", kept.clone());
    site.tick(&mut [&mut before]).await;
    let epoch = site.epoch().await;
    let hold = Some(Phase::Hold);
    site.room().set_phase(epoch, hold, CALL).await.unwrap();
    let places = site.come(100).await;
    let stock = RoomOrder::Stock(Some(7));
    before.hall.clerk.order(stock).await.unwrap();
    site.pass(seconds(2), &mut [&mut before]).await;
    before.lead.end(&before.hall).await;
    drop(before);

    site.forget();
    let mut gateway = site.gateway("gw2", kept);
    site.pass(seconds(2), &mut [&mut gateway]).await;
    let view = gateway.hall.view();
    assert_eq!((view.epoch, view.phase), (Some(epoch), Phase::Hold));
    assert!(matches!(view.line, Line::Restoring { .. }), "{view:?}");
    assert_eq!(site.look().await.phase, hold, "it is set again");
    assert_eq!(view.stock, Some(7));
    let mut late = site.gateway("gw3", plan());
    site.pass(seconds(2), &mut [&mut gateway, &mut late]).await;
    assert_eq!(late.hall.view().stock, Some(7), "and said again");

    site.room().set_phase(epoch, None, CALL).await.unwrap();
    site.beat(&places[30..]).await;
    site.pass(seconds(2), &mut [&mut gateway]).await;
    assert_eq!(gateway.hall.view().phase, Phase::QueueAll);
    assert_eq!(site.called().await, 0, "seventy are too few");
    assert!(!gateway.hall.door.admits(site.now));

    site.beat(&places[..10]).await;
    site.pass(seconds(2), &mut [&mut gateway]).await;
    assert!(site.called().await > 0);
    let first = site.whereabouts(places[0]).await;
    assert!(matches!(first, Whereabouts::Ready(_)), "{first:?}");
    let last = site.whereabouts(places[99]).await;
    assert_eq!(last, Whereabouts::Waiting(ANY));
}

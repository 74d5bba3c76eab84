//! A gateway whose store is away.

use tidegate_core::room::{Beaten, Claim};

use super::*;
use crate::room::TicketFlags;
use crate::room::hall::{ClerkError, Line};

/// A gateway in whose room so many wait, and whose store has gone for so long that it goes on by itself.
async fn alone(plan: RoomPlan, count: u64) -> (Site, Gateway, Vec<Place>) {
    let mut site = Site::new();
    let mut gateway = site.gateway("gw1", plan);
    site.pass(seconds(1), &mut [&mut gateway]).await;
    let places = site.come(count).await;
    gateway.hall.clerk.cut(true);
    site.pass(Duration::from_millis(2_500), &mut [&mut gateway])
        .await;
    let view = gateway.hall.view();
    assert!(matches!(view.line, Line::Away { .. }), "{view:?}");
    (site, gateway, places)
}

async fn is_called(gateway: &Gateway, epoch: Epoch, place: Place) -> bool {
    let heard = gateway.hall.clerk.beat(epoch, beat(place)).await;
    matches!(heard, Ok(Beaten::Ready { .. }))
}

#[tokio::test]
async fn it_calls_those_who_are_heard_of_in_their_order_at_four_fifths_of_the_rate() {
    let (mut site, mut gateway, places) = alone(plan(), 100).await;
    let epoch = site.epoch().await;
    for place in places.iter().rev() {
        let heard = gateway.hall.clerk.beat(epoch, beat(*place)).await;
        assert_eq!(heard, Ok(Beaten::Waiting(ANY)));
    }

    site.pass(seconds(3), &mut [&mut gateway]).await;

    let mut called = Vec::new();
    for place in &places {
        if is_called(&gateway, epoch, *place).await {
            called.push(*place);
        }
    }
    // What it might have called before anybody was heard of is a second's at most.
    assert!((47..=64).contains(&called.len()), "{}", called.len());
    assert_eq!(called, places[..called.len()]);
    assert_eq!(site.called().await, 0, "the store knows nothing of it");
    let view = gateway.hall.view();
    assert!((view.rate - 0.8 * RATE).abs() < 1e-9, "{}", view.rate);
    assert_eq!(view.paused_since_ms, None);
}

#[tokio::test]
async fn when_the_store_is_back_it_knows_who_waits_and_who_went_in() {
    let (mut site, mut gateway, places) = alone(plan(), 10).await;
    let hall = Arc::clone(&gateway.hall);
    let epoch = site.epoch().await;
    let new = hall.clerk.join().await.unwrap();
    assert_eq!(new.flags, TicketFlags::PROVISIONAL);
    for place in &places[..2] {
        hall.clerk.beat(epoch, beat(*place)).await.unwrap();
    }
    site.pass(seconds(1), &mut [&mut gateway]).await;
    let in_first = hall.clerk.claim(epoch, places[0]).await.unwrap();
    assert!(matches!(in_first, Claim::Passed { is_first: true, .. }));
    hall.clerk.beat(epoch, beat(new.place)).await.unwrap();

    hall.clerk.cut(false);
    site.room()
        .set_phase(epoch, Some(Phase::Hold), CALL)
        .await
        .unwrap();
    site.pass(seconds(1), &mut [&mut gateway]).await;

    assert_eq!(hall.view().line, Line::Stored);
    assert_eq!(site.whereabouts(new.place).await, Whereabouts::Waiting(ANY));
    assert_eq!(site.whereabouts(places[0]).await, Whereabouts::Absent);
    assert_eq!(site.whereabouts(places[5]).await, Whereabouts::Waiting(ANY));
    // The second was called here, and has not come yet.
    let second = hall.clerk.claim(epoch, places[1]).await.unwrap();
    assert!(matches!(second, Claim::Passed { is_first: true, .. }));
    assert_eq!(hall.clerk.with_own(|own| own.let_in()), 2);

    site.pass(seconds(130), &mut [&mut gateway]).await;
    let late = hall.clerk.with_own(|own| own.is_put_back());
    assert!(late, "nothing is left to be told");
    let again = hall.clerk.claim(epoch, places[1]).await;
    assert_eq!(again, Ok(Claim::Early), "it is as it was");
}

#[tokio::test]
async fn where_it_is_to_hold_nobody_is_let_in() {
    let mut holding = plan();
    holding.on_store_loss = OnRoomLoss::Hold;
    let (mut site, mut gateway, places) = alone(holding, 5).await;
    let epoch = site.epoch().await;
    let hall = Arc::clone(&gateway.hall);
    hall.clerk.beat(epoch, beat(places[0])).await.unwrap();

    site.pass(seconds(60), &mut [&mut gateway]).await;

    assert!(!is_called(&gateway, epoch, places[0]).await);
    let claim = hall.clerk.claim(epoch, places[0]).await;
    assert_eq!(claim, Err(ClerkError::Held));
    assert!(!hall.door.admits(site.now));
    let view = hall.view();
    assert!(view.paused_since_ms.is_some() && !view.is_open);
    let said = serde_json::from_slice::<serde_json::Value>(&view.document).unwrap();
    assert_eq!(said["eta"].as_array().unwrap().len(), 0);
    assert!(said["paused_since_ms"].is_u64());
}

#[tokio::test]
async fn where_it_is_to_open_everybody_passes_after_a_while() {
    let mut opening = plan();
    opening.on_store_loss = OnRoomLoss::Open { after: seconds(10) };
    let (mut site, mut gateway, _) = alone(opening, 5).await;

    site.pass(seconds(6), &mut [&mut gateway]).await;
    assert!(!gateway.hall.view().is_open);
    site.pass(seconds(3), &mut [&mut gateway]).await;
    assert!(gateway.hall.view().is_open);

    gateway.hall.clerk.cut(false);
    site.pass(seconds(2), &mut [&mut gateway]).await;
    assert!(!gateway.hall.view().is_open);
}

#[tokio::test]
async fn a_room_that_was_held_stays_so_without_its_store() {
    let mut site = Site::new();
    let mut gateway = site.gateway("gw1", plan());
    site.tick(&mut [&mut gateway]).await;
    let epoch = site.epoch().await;
    let hold = Some(Phase::Hold);
    site.room().set_phase(epoch, hold, CALL).await.unwrap();
    let places = site.come(3).await;
    site.pass(seconds(2), &mut [&mut gateway]).await;

    gateway.hall.clerk.cut(true);
    site.pass(seconds(4), &mut [&mut gateway]).await;
    let heard = gateway.hall.clerk.beat(epoch, beat(places[0])).await;
    assert_eq!(heard, Ok(Beaten::Waiting(ANY)));
    site.pass(seconds(30), &mut [&mut gateway]).await;

    assert_eq!(gateway.hall.view().phase, Phase::Hold);
    assert!(!is_called(&gateway, epoch, places[0]).await);
}

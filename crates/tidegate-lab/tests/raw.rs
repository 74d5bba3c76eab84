//! Clients that misbehave, against a shop that keeps count.

use std::time::Duration;

use tidegate_lab::load::Request;
use tidegate_lab::load::raw::{AbortAt, Client, abort, ask, read_slowly};
use tidegate_lab::shop::{Shop, ShopPlan, ShopStats};

fn shop(slots: u32) -> Shop {
    let plan = ShopPlan {
        slots,
        service: Duration::from_millis(1),
        ..ShopPlan::default()
    };
    Shop::open(([127, 0, 0, 1], 0).into(), plan).expect("a shop opens")
}

/// Asks the shop until its counters fulfil `condition`. Every question is a round trip.
async fn until(shop: &Shop, condition: impl Fn(&ShopStats) -> bool) -> ShopStats {
    for _ in 0..1_000_000 {
        let answer = ask(shop.address(), &Request::get("/headers")).await;
        assert!(answer.is_ok_and(|answer| answer.status == 200));
        if condition(&shop.stats()) {
            return shop.stats();
        }
    }
    panic!("the shop never got there: {:?}", shop.stats());
}

#[tokio::test]
async fn a_client_may_leave_at_any_point_and_nothing_of_it_stays() {
    let shop = shop(4);
    let request = Request::post("/checkout/pay", 2_000);
    let points = [
        (AbortAt::Connected, 0),
        (AbortAt::HalfHead, 0),
        (AbortAt::Head, 1),
        (AbortAt::HalfBody, 1),
        (AbortAt::Waiting(Duration::ZERO), 1),
        (AbortAt::Answering, 1),
    ];

    for (point, received_at_most) in points {
        let before = shop
            .stats()
            .received
            .get("/checkout/pay")
            .copied()
            .unwrap_or(0);
        abort(shop.address(), &request, point).await.unwrap();
        // The one that asks is the only one left.
        let stats = until(&shop, |stats| stats.connections == 1 && stats.inside == 0).await;

        let received = stats.received.get("/checkout/pay").copied().unwrap_or(0) - before;
        assert!(received <= received_at_most, "{point:?}: {received}");
    }
    assert_eq!(shop.stats().started, shop.stats().finished);
}

#[tokio::test]
async fn a_slow_reader_gets_little_and_holds_its_slot_meanwhile() {
    let shop = shop(1);
    let page = Request::get("/page?bytes=33554432");

    let got = read_slowly(shop.address(), &page, 10_000, Duration::from_secs(1))
        .await
        .unwrap();

    assert!((1..=20_000).contains(&got), "{got}");
    assert_eq!(
        until(&shop, |stats| stats.inside == 0).await.finished_dead,
        1
    );
}

#[tokio::test]
async fn one_connection_carries_many_requests_and_a_reset_ends_it() {
    let shop = shop(1);
    let mut client = Client::connect(shop.address()).await.unwrap();

    for _ in 0..10 {
        assert_eq!(
            client.ask(&Request::get("/browse/1")).await.unwrap().status,
            200
        );
    }
    let head = Request {
        method: http::Method::HEAD,
        ..Request::get("/browse/1")
    };
    assert!(client.ask(&head).await.unwrap().body.is_empty());
    client.send(b"GET /browse/1 HT").await.unwrap();
    client.reset().unwrap();

    let stats = until(&shop, |stats| stats.connections == 1).await;
    assert_eq!(stats.finished, 11);
}

#[tokio::test]
async fn a_half_closed_client_hears_when_the_server_closes() {
    let shop = shop(1);
    let mut client = Client::connect(shop.address()).await.unwrap();

    client.half_close().unwrap();

    assert_eq!(client.wait_for_close().await.unwrap(), 0);
}

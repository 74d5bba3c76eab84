use std::num::NonZeroU32;
use std::time::Duration;

use crate::app::App;
use crate::eventually;
use crate::site::{Site, plan};

#[tokio::test]
async fn connections_are_used_again() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 4));
    let mut client = site.client().await;

    client.get("/1").await;
    let mut call = app.call().await;
    call.answer("one").await;
    client.read().await;
    client.get("/2").await;

    let mut call = call.again().await.unwrap();
    assert!(call.head.starts_with("GET /2 "));
    call.answer("two").await;
    assert_eq!(client.read().await.text(), "two");
    assert_eq!(site.status().upstream_idle, 1);
    assert_eq!(site.status().upstream_busy, 0);
}

#[tokio::test]
async fn at_the_cap_a_request_waits_for_a_connection() {
    let app = App::open().await;
    let mut plan = plan(&app, 4);
    plan.apps[0].upstream.connections_max = NonZeroU32::MIN;
    let site = Site::start(plan);
    let (mut first, mut second) = (site.client().await, site.client().await);

    first.get("/1").await;
    let mut call = app.call().await;
    second.get("/2").await;
    site.settles_at(2, 0).await;
    assert_eq!(site.status().upstream_busy, 1);
    call.answer("one").await;

    let mut call = call.again().await.unwrap();
    assert!(call.head.starts_with("GET /2 "));
    call.answer("two").await;
    assert_eq!(second.read().await.text(), "two");
}

#[tokio::test]
async fn at_the_cap_an_idle_connection_of_another_thread_is_taken() {
    let app = App::open().await;
    let mut plan = plan(&app, 4);
    plan.threads = 2.try_into().unwrap();
    plan.apps[0].upstream.connections_max = NonZeroU32::MIN;
    let site = Site::start(plan);
    // Each goes to the thread with the fewest.
    let (mut first, mut second) = (site.client().await, site.client().await);

    first.get("/1").await;
    let mut call = app.call().await;
    call.answer("one").await;
    first.read().await;
    second.get("/2").await;
    let mut call = call.again().await.unwrap();
    assert!(call.head.starts_with("GET /2 "));
    call.answer("two").await;
    assert_eq!(second.read().await.text(), "two");

    first.get("/3").await;
    let mut call = call.again().await.unwrap();
    call.answer("three").await;
    assert_eq!(first.read().await.text(), "three");
    assert_eq!(
        (site.status().upstream_idle, site.status().upstream_busy),
        (1, 0)
    );
}

#[tokio::test]
async fn at_the_cap_the_wait_for_a_connection_goes_on_when_one_is_closed() {
    let app = App::open().await;
    let mut plan = plan(&app, 4);
    plan.apps[0].upstream.connections_max = NonZeroU32::MIN;
    let site = Site::start(plan);
    let (mut first, mut second) = (site.client().await, site.client().await);

    first.get("/1").await;
    let mut call = app.call().await;
    second.get("/2").await;
    site.settles_at(2, 0).await;
    call.write("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        .await;
    drop(call);

    let mut call = app.call().await;
    assert!(call.head.starts_with("GET /2 "));
    call.answer("two").await;
    assert_eq!(second.read().await.text(), "two");
}

#[tokio::test]
async fn the_wait_for_a_connection_has_a_bound() {
    let app = App::open().await;
    let mut plan = plan(&app, 4);
    plan.apps[0].upstream.connections_max = NonZeroU32::MIN;
    plan.apps[0].upstream.connect_timeout = Duration::from_millis(100);
    let site = Site::start(plan);
    let (mut first, mut second) = (site.client().await, site.client().await);

    first.get("/1").await;
    let _call = app.call().await;
    second.get("/2").await;
    let answer = second.read().await;

    assert_eq!(answer.status(), 503);
    assert_eq!(
        answer.header("tidegate-reason"),
        Some("upstream_connections")
    );
    site.settles_at(1, 0).await;
}

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_for_a_connection_gives_its_slot_back() {
    let app = App::open().await;
    let mut plan = plan(&app, 4);
    plan.apps[0].upstream.connections_max = NonZeroU32::MIN;
    let site = Site::start(plan);
    let (mut first, mut second, mut third) = (
        site.client().await,
        site.client().await,
        site.client().await,
    );

    first.get("/1").await;
    let mut call = app.call().await;
    second.get("/2").await;
    site.settles_at(2, 0).await;
    third.get("/3").await;
    site.settles_at(3, 0).await;
    drop(second);
    site.settles_at(2, 0).await;
    call.answer("one").await;

    assert!(call.again().await.unwrap().head.starts_with("GET /3 "));
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_no_request() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 4));
    let mut client = site.client().await;

    client.get("/1").await;
    let mut call = app.call().await;
    call.answer("one").await;
    client.read().await;
    drop(call);
    client.get("/2").await;

    let mut call = app.call().await;
    assert!(call.head.starts_with("GET /2 "));
    call.answer("two").await;
    assert_eq!(client.read().await.text(), "two");
}

#[tokio::test]
async fn without_keep_alive_every_request_has_a_connection_of_its_own() {
    let app = App::open().await;
    let mut plan = plan(&app, 4);
    plan.apps[0].upstream.keep_alive = false;
    let site = Site::start(plan);
    let mut client = site.client().await;

    client.get("/1").await;
    let mut call = app.call().await;
    assert_eq!(call.header("connection"), Some("close"));
    call.answer("one").await;
    assert_eq!(client.read().await.header("connection"), None);
    assert!(call.is_closed().await);

    client.get("/2").await;
    app.call().await.answer("two").await;
    assert_eq!(client.read().await.text(), "two");
    eventually(|| site.status().upstream_busy == 0).await;
    assert_eq!(site.status().upstream_idle, 0);
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_time() {
    let app = App::open().await;
    let mut plan = plan(&app, 4);
    plan.apps[0].upstream.idle_timeout = Duration::from_millis(50);
    let site = Site::start(plan);
    let mut client = site.client().await;

    client.get("/1").await;
    let mut call = app.call().await;
    call.answer("one").await;
    client.read().await;

    assert!(call.is_closed().await);
    eventually(|| site.status().upstream_idle == 0).await;
}

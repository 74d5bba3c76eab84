use std::time::Duration;

use tidegate_gateway::plan::OnClientGone;

use crate::app::App;
use crate::eventually;
use crate::site::{Site, plan};

#[tokio::test]
async fn a_slot_is_held_until_the_application_has_finished() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let (mut first, mut second) = (site.client().await, site.client().await);

    first.get("/1").await;
    let mut call = app.call().await;
    drop(first);
    second.get("/2").await;
    site.settles_at(1, 1).await;

    call.answer("nobody reads this").await;
    let mut call = call.again().await.expect("the connection is kept");
    assert!(call.head.starts_with("GET /2 "));
    call.answer("two").await;
    assert_eq!(second.read().await.text(), "two");
    site.ends_with(1, 0, 1).await;
}

#[tokio::test]
async fn a_slot_that_is_freed_at_once_closes_its_connection() {
    let app = App::open().await;
    let mut plan = plan(&app, 1);
    plan.apps[0].on_client_gone = OnClientGone::Free;
    let site = Site::start(plan);
    let mut client = site.client().await;

    client.get("/1").await;
    let mut call = app.call().await;
    drop(client);

    assert!(call.is_closed().await);
    site.ends_with(0, 0, 1).await;
    eventually(|| site.status().upstream_busy == 0).await;
}

#[tokio::test]
async fn a_slot_is_held_while_the_rest_of_an_answer_comes() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client.get("/1").await;
    let mut call = app.call().await;
    call.write("HTTP/1.1 200 OK\r\ncontent-length: 1000005\r\n\r\nhello")
        .await;
    client.read_head().await;
    client.read_until("hello").await;
    drop(client);
    assert!(call.try_write(&vec![b'x'; 999_999]).await);
    assert_eq!(site.status().in_flight, 1);
    assert!(call.try_write(b"y").await);

    site.ends_with(0, 0, 1).await;
    let mut next = site.client().await;
    next.get("/2").await;
    assert!(call.again().await.unwrap().head.starts_with("GET /2 "));
}

#[tokio::test]
async fn an_answer_that_goes_on_for_ever_is_not_read_for_ever() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client.get("/1").await;
    let mut call = app.call().await;
    call.write("HTTP/1.1 200 OK\r\n\r\nhello").await;
    client.read_head().await;
    drop(client);

    let chunk = vec![b'x'; 1024 * 1024];
    let mut written = 0;
    while call.try_write(&chunk).await {
        written += 1;
        assert!(written < 200, "nobody reads it, and it is still taken");
    }
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn an_answer_that_does_not_begin_is_a_timeout_and_its_slot_is_held() {
    let app = App::open().await;
    let mut plan = plan(&app, 1);
    plan.apps[0].upstream.response_timeout = Duration::from_millis(500);
    let site = Site::start(plan);
    let mut client = site.client().await;

    client.get("/1").await;
    let mut call = app.call().await;
    let answer = client.read().await;

    assert_eq!(
        (answer.status(), answer.header("tidegate-reason")),
        (504, Some("upstream_timeout"))
    );
    assert_eq!(site.status().in_flight, 1, "the worker is still at it");
    call.answer("too late").await;
    site.ends_with(0, 1, 0).await;
    client.get("/2").await;
    assert!(call.again().await.unwrap().head.starts_with("GET /2 "));
}

#[tokio::test]
async fn a_slot_is_not_held_for_ever() {
    let app = App::open().await;
    let mut plan = plan(&app, 1);
    plan.apps[0].upstream.response_timeout = Duration::from_millis(50);
    let site = Site::start(plan);
    let mut client = site.client().await;

    client.get("/1").await;
    let mut call = app.call().await;
    assert_eq!(client.read().await.status(), 504);

    assert!(call.is_closed().await);
    site.ends_with(0, 1, 0).await;
}

#[tokio::test]
async fn an_answer_that_falls_silent_ends() {
    let app = App::open().await;
    let mut plan = plan(&app, 1);
    plan.apps[0].upstream.body_timeout = Duration::from_millis(50);
    let site = Site::start(plan);
    let mut client = site.client().await;

    client.get("/1").await;
    let mut call = app.call().await;
    call.write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello")
        .await;

    client.read_head().await;
    assert_eq!(client.read_rest().await, b"hello");
    assert!(call.is_closed().await);
    site.settles_at(0, 0).await;
}

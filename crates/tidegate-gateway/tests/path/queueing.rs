use std::time::Duration;

use tidegate_gateway::plan::Mode;

use crate::app::App;
use crate::site::{Site, plan};

#[tokio::test]
async fn whoever_waits_starts_when_a_slot_is_free() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let (mut first, mut second) = (site.client().await, site.client().await);

    first.get("/1").await;
    let mut call = app.call().await;
    second.get("/2").await;
    site.settles_at(1, 1).await;
    call.answer("one").await;

    assert_eq!(first.read().await.text(), "one");
    let mut call = call.again().await.expect("the connection is kept");
    assert!(call.head.starts_with("GET /2 "));
    call.answer("two").await;
    assert_eq!(second.read().await.text(), "two");
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn a_refusal_says_when_to_come_back_and_keeps_the_connection() {
    let app = App::open().await;
    let mut plan = plan(&app, 1);
    plan.apps[0].admission.queue_max = 0;
    let site = Site::start(plan);
    let (mut first, mut second) = (site.client().await, site.client().await);

    first.get("/").await;
    let mut call = app.call().await;
    second.get("/").await;
    let refusal = second.read().await;

    assert_eq!(refusal.status(), 503);
    assert_eq!(refusal.header("tidegate-reason"), Some("queue_full"));
    assert!(
        refusal
            .header("retry-after")
            .unwrap()
            .parse::<u64>()
            .unwrap()
            >= 1
    );
    assert_eq!(refusal.header("connection"), None);

    call.answer("one").await;
    first.read().await;
    second.get("/again").await;
    call.again().await.unwrap().answer("two").await;
    assert_eq!(second.read().await.text(), "two");
}

#[tokio::test]
async fn a_higher_class_takes_the_place_of_a_lower_one_and_each_hears_its_own_news() {
    let app = App::open().await;
    let mut plan = plan(&app, 1);
    plan.apps[0].admission.queue_max = 1;
    let site = Site::start(plan);
    let (mut first, mut background, mut user) = (
        site.client().await,
        site.client().await,
        site.client().await,
    );

    first.get("/1").await;
    let mut call = app.call().await;
    background.get_with("/2", "sec-purpose: prefetch\r\n").await;
    site.settles_at(1, 1).await;
    user.get("/3").await;

    let refusal = background.read().await;
    assert_eq!(refusal.header("tidegate-reason"), Some("displaced"));
    site.settles_at(1, 1).await;
    call.answer("one").await;
    call.again().await.unwrap().answer("three").await;
    assert_eq!(user.read().await.text(), "three");
}

#[tokio::test]
async fn work_that_nobody_waits_for_is_not_begun() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client.get_with("/late", "tidegate-timeout-ms: 0\r\n").await;
    assert_eq!(
        client.read().await.header("tidegate-reason"),
        Some("expired")
    );

    client.get("/in-time").await;
    assert!(
        app.call().await.head.starts_with("GET /in-time "),
        "the other one never came"
    );
}

#[tokio::test]
async fn a_wait_ends_at_its_bound() {
    let app = App::open().await;
    let mut plan = plan(&app, 1);
    plan.apps[0].admission.hold = Duration::from_millis(400);
    let site = Site::start(plan);
    let (mut first, mut second, mut third) = (
        site.client().await,
        site.client().await,
        site.client().await,
    );

    first.get("/1").await;
    let _call = app.call().await;
    second.get("/2").await;
    third.get_with("/3", "tidegate-timeout-ms: 40\r\n").await;

    assert_eq!(
        second.read().await.header("tidegate-reason"),
        Some("queue_time")
    );
    assert_eq!(
        third.read().await.header("tidegate-reason"),
        Some("expired_in_queue")
    );
    site.settles_at(1, 0).await;
}

#[tokio::test]
async fn a_client_that_leaves_the_queue_is_never_forwarded() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let (mut first, mut second, mut third, mut fourth) = (
        site.client().await,
        site.client().await,
        site.client().await,
        site.client().await,
    );

    first.get("/1").await;
    let mut call = app.call().await;
    second.get("/gone").await;
    third
        .write("POST /gone HTTP/1.1\r\nhost: shop\r\ncontent-length: 1000\r\n\r\nhalf")
        .await;
    site.settles_at(1, 2).await;
    drop(second);
    drop(third);
    site.settles_at(1, 0).await;
    assert_eq!(site.refused("client_gone"), 2);

    fourth.get("/4").await;
    site.settles_at(1, 1).await;
    call.answer("one").await;
    assert!(call.again().await.unwrap().head.starts_with("GET /4 "));
}

#[tokio::test]
async fn a_body_that_waits_is_forwarded_whole() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let (mut first, mut second) = (site.client().await, site.client().await);
    let body = "b".repeat(300_000);

    first.get("/1").await;
    let mut call = app.call().await;
    second
        .write(format!(
            "POST /2 HTTP/1.1\r\nhost: shop\r\ncontent-length: {}\r\n\r\n{}",
            body.len() + 1,
            &body[..1000],
        ))
        .await;
    site.settles_at(1, 1).await;
    assert_eq!(site.status().queue_bytes, 64 * 1024);
    let sending = async {
        second.write(&body[1000..]).await;
        second.write("!").await;
    };
    let serving = async {
        call.answer("one").await;
        let mut call = call.again().await.unwrap();
        assert_eq!(call.read_until("!").await.len(), body.len() + 1);
        call.answer("two").await;
    };
    tokio::join!(sending, serving);

    assert_eq!(second.read().await.text(), "two");
}

#[tokio::test]
async fn in_shadow_everybody_is_let_in() {
    let app = App::open().await;
    let mut plan = plan(&app, 1);
    plan.apps[0].mode = Mode::Shadow;
    plan.apps[0].admission.queue_max = 0;
    let site = Site::start(plan);
    let (mut first, mut second) = (site.client().await, site.client().await);

    first.get("/").await;
    let mut one = app.call().await;
    second.get_with("/", "tidegate-timeout-ms: 0\r\n").await;
    let mut two = app.call().await;
    site.settles_at(2, 0).await;

    one.answer("one").await;
    two.answer("two").await;
    assert_eq!(first.read().await.text(), "one");
    assert_eq!(second.read().await.text(), "two");
    site.settles_at(0, 0).await;
}

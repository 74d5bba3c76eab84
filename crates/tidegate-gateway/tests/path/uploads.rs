use std::time::Duration;

use tokio::time::timeout;

use crate::app::App;
use crate::site::{Site, plan};

const HALF: &str = "POST / HTTP/1.1\r\nhost: shop\r\ncontent-length: 10\r\n\r\nhello";

#[tokio::test]
async fn a_client_is_asked_for_its_body_once_it_has_a_slot() {
    let app = App::open().await;
    let mut plan = plan(&app, 1);
    plan.apps[0].admission.queue_max = 0;
    let site = Site::start(plan);
    let (mut first, mut second) = (site.client().await, site.client().await);
    let head = "POST / HTTP/1.1\r\nhost: shop\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n";

    first.write(head).await;
    assert_eq!(first.read_head().await, "HTTP/1.1 100 Continue\r\n\r\n");
    second.write(head).await;
    assert_eq!(
        second.read_head().await.split(' ').nth(1),
        Some("503"),
        "without asking"
    );

    first.write("hello").await;
    let mut call = app.call().await;
    assert_eq!(call.header("expect"), None);
    assert_eq!(call.read_until("hello").await, "hello");
    call.answer("ok").await;
    assert_eq!(first.read().await.text(), "ok");
}

#[tokio::test]
async fn a_client_that_leaves_inside_its_body_takes_the_request_with_it() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client.write(HALF).await;
    let mut call = app.call().await;
    call.read_until("hello").await;
    drop(client);

    assert!(call.is_closed().await, "half a request is no request");
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn half_a_body_in_chunks_does_not_look_whole() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client
        .write("POST / HTTP/1.1\r\nhost: shop\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        .await;
    let mut call = app.call().await;
    call.read_until("5\r\nhello\r\n").await;
    drop(client);

    assert!(
        call.again().await.is_none(),
        "nothing more came, no last chunk either"
    );
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn a_client_that_falls_silent_inside_its_body_is_told_so() {
    let app = App::open().await;
    let mut plan = plan(&app, 1);
    plan.listener.body_timeout = Duration::from_millis(50);
    let site = Site::start(plan);
    let mut client = site.client().await;

    client.write(HALF).await;
    let mut call = app.call().await;
    let answer = client.read().await;

    assert_eq!(
        (answer.status(), answer.header("tidegate-reason")),
        (408, Some("body_timeout"))
    );
    assert!(call.is_closed().await);
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn the_answer_may_come_before_the_body_is_all_there() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client.write(HALF).await;
    let mut call = app.call().await;
    call.write("HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n")
        .await;

    assert_eq!(client.read().await.status(), 413);
    assert!(call.is_closed().await, "it will not get the rest");
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn a_body_that_takes_its_time_is_no_late_answer() {
    let app = App::open().await;
    let mut plan = plan(&app, 1);
    // The application's answer has to be quicker on a busy machine as well.
    let response_timeout = Duration::from_millis(300);
    plan.apps[0].upstream.response_timeout = response_timeout;
    let site = Site::start(plan);
    let mut client = site.client().await;

    client.write(HALF).await;
    let mut call = app.call().await;
    call.read_until("hello").await;
    let cut = timeout(3 * response_timeout, client.read()).await;
    assert!(cut.is_err(), "answered before it was all there: {cut:?}");
    client.write("world").await;
    call.read_until("world").await;
    call.answer("ok").await;

    assert_eq!(client.read().await.text(), "ok");
    site.ends_with(1, 0, 0).await;
}

#[tokio::test]
async fn a_body_that_turns_out_to_be_none_in_the_queue_is_counted_once_and_as_that() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let (mut first, mut second) = (site.client().await, site.client().await);

    first.get("/1").await;
    let _call = app.call().await;
    second
        .write("POST / HTTP/1.1\r\nhost: shop\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
        .await;
    site.settles_at(1, 1).await;
    second.write("-3\r\nabc\r\n").await;

    let answer = second.read().await;
    assert_eq!(
        (answer.status(), answer.header("tidegate-reason")),
        (400, Some("bad_framing"))
    );
    site.settles_at(1, 0).await;
    assert_eq!(site.refused("bad_framing"), 1);
    assert_eq!(site.refused("client_gone"), 0);
}

#[tokio::test]
async fn a_body_that_is_none_is_a_bad_request_and_not_a_refusal_for_capacity() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));

    for chunks in [
        "-3\r\nabc\r\n".to_owned(),
        "3\r\nabcd\r\n".to_owned(),
        "0\r\nhost: other\r\n\r\n".to_owned(),
        // More than the engine takes, in each of its counts.
        format!("0\r\n{}\r\n", "T: v\r\n".repeat(10_000)),
        format!("0\r\nT: {}\r\n\r\n", "v".repeat(20_000)),
        format!("{}0\r\n\r\n", "1;eeeeeeeeee\r\nx\r\n".repeat(2_000)),
    ] {
        let mut client = site.client().await;
        let head = "POST / HTTP/1.1\r\nhost: shop\r\ntransfer-encoding: chunked\r\n\r\n";
        client.write(format!("{head}{chunks}")).await;

        let answer = client.read().await;
        let begin = &chunks[..chunks.len().min(40)];
        assert_eq!(answer.status(), 400, "{begin:?}");
        assert_eq!(answer.header("tidegate-reason"), Some("bad_framing"));
        assert_eq!(answer.header("retry-after"), None);
    }
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn an_application_that_does_not_take_a_body_is_not_waited_for() {
    let app = App::open().await;
    let mut plan = plan(&app, 1);
    let short = Duration::from_millis(100);
    plan.listener.body_timeout = short;
    plan.apps[0].upstream.response_timeout = short;
    let site = Site::start(plan);
    let mut client = site.client().await;
    let bytes = 64 << 20;

    let head = format!("POST / HTTP/1.1\r\nhost: shop\r\ncontent-length: {bytes}\r\n\r\n");
    client.write(&head).await;
    let _untouched = app.call().await;
    let body = "x".repeat(bytes);
    // Far more than the sockets between here and there hold: it stops on the way.
    client.write_until_closed(&body).await;

    site.settles_at(0, 0).await;
}

use crate::app::App;
use crate::client::Client;
use crate::eventually;
use crate::site::{LONG, Site, plan};

/// Headers that an answer may have; docs/http-api.md says so.
const HEADERS_MAX: usize = 256;

#[tokio::test]
async fn a_request_and_its_answer_pass() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client
        .get_with(
            "/cart?x=1",
            "x-forwarded-for: 6.6.6.6\r\nconnection: x-hop\r\nx-hop: 1\r\n",
        )
        .await;
    let mut call = app.call().await;

    assert!(
        call.head.starts_with("GET /cart?x=1 HTTP/1.1\r\n"),
        "{}",
        call.head
    );
    assert_eq!(call.header("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(call.header("x-hop"), None);
    let left_ms: u64 = call.header("tidegate-timeout-ms").unwrap().parse().unwrap();
    assert!(left_ms <= LONG.as_millis() as u64);

    call.write("HTTP/1.1 201 Created\r\ncontent-length: 2\r\ntidegate-set: a=1\r\n\r\nok")
        .await;
    let answer = client.read().await;
    assert_eq!((answer.status(), answer.text()), (201, "ok"));
    assert_eq!(answer.header("tidegate-set"), None);
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn chunks_and_trailers_pass_both_ways() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client
        .write(
            "POST / HTTP/1.1\r\nhost: shop\r\nte: trailers\r\ntrailer: x-sum\r\n\
             transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 6\r\n\r\n",
        )
        .await;
    let mut call = app.call().await;
    assert_eq!(call.header("transfer-encoding"), Some("chunked"));
    assert_eq!(call.header("te"), Some("trailers"));
    assert!(
        call.read_until("0\r\nx-sum: 6\r\n\r\n")
            .await
            .starts_with("3\r\nabc\r\n")
    );

    call.write(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-cost\r\n\r\n\
         5\r\nhello\r\n0\r\nx-cost: 7\r\n\r\n",
    )
    .await;
    let head = client.read_head().await;
    assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
    assert_eq!(
        client.read_until("0\r\nx-cost: 7\r\n\r\n").await,
        "5\r\nhello\r\n0\r\nx-cost: 7\r\n\r\n"
    );
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn what_only_we_say_passes_in_no_trailer_and_in_no_answer() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client
        .write(
            "POST / HTTP/1.1\r\nhost: shop\r\nte: trailers\r\ntrailer: x-sum, tidegate-uid\r\n\
             transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\ntidegate-uid: 7\r\nx-sum: 6\r\n\
             tidegate_uid: 7\r\n\r\n",
        )
        .await;
    let mut call = app.call().await;
    assert_eq!(
        call.read_until("0\r\nx-sum: 6\r\n\r\n").await,
        "3\r\nabc\r\n0\r\nx-sum: 6\r\n\r\n"
    );

    call.write(
        "HTTP/1.1 200 OK\r\ntidegate-uid: 7\r\nTidegate-Session: aaaa.x\r\n\
         tidegate-attr-cart: c9\r\ntidegate_tier: gold\r\ntidegate-reason: queue_full\r\n\
         transfer-encoding: chunked\r\ntrailer: x-cost, tidegate-uid\r\n\r\n\
         5\r\nhello\r\n0\r\nx-cost: 7\r\ntidegate-uid: 7\r\n\r\n",
    )
    .await;
    let head = client.read_head().await;
    let ours: Vec<&str> = head
        .lines()
        .filter(|line| line.to_ascii_lowercase().starts_with("tidegate"))
        .collect();
    assert_eq!(ours, ["tidegate-reason: queue_full"], "{head}");
    assert_eq!(
        client.read_until("0\r\nx-cost: 7\r\n\r\n").await,
        "5\r\nhello\r\n0\r\nx-cost: 7\r\n\r\n"
    );
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn a_get_may_have_a_body_in_chunks() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client
        .write(
            "GET / HTTP/1.1\r\nhost: shop\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        )
        .await;
    let mut call = app.call().await;

    assert_eq!(call.read_until("0\r\n\r\n").await, "1\r\nx\r\n0\r\n\r\n");
    call.answer("ok").await;
    assert_eq!(client.read().await.text(), "ok");
}

#[tokio::test]
async fn answers_that_have_no_body_have_none() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client.write("HEAD / HTTP/1.1\r\nhost: shop\r\n\r\n").await;
    let mut call = app.call().await;
    call.write("HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n")
        .await;
    assert!(
        client
            .read_head()
            .await
            .contains("content-length: 1234\r\n")
    );

    client.get("/").await;
    let mut call = call.again().await.unwrap();
    call.write("HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
        .await;
    let answer = client.read().await;
    assert_eq!(answer.status(), 204);
    assert_eq!(answer.header("transfer-encoding"), None);

    client.get("/").await;
    let mut call = call.again().await.unwrap();
    call.write("HTTP/1.1 304 Not Modified\r\netag: \"1\"\r\n\r\n")
        .await;
    let answer = client.read().await;
    assert_eq!(
        (answer.status(), answer.header("etag")),
        (304, Some("\"1\""))
    );
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn a_client_of_http_1_0_gets_no_chunks() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client.write("GET / HTTP/1.0\r\n\r\n").await;
    let mut call = app.call().await;
    assert!(call.head.starts_with("GET / HTTP/1.1\r\n"));
    assert!(call.header("host").is_some());
    call.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
        .await;

    let answer = String::from_utf8(client.read_rest().await).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
}

#[tokio::test]
async fn a_slow_reader_holds_memory_and_no_slot() {
    let app = App::open().await;
    let mut plan = plan(&app, 1);
    // The gateway's side of the client's socket takes some as well.
    plan.apps[0].upstream.response_buffer_max = 16 * 1024 * 1024;
    plan.apps[0].upstream.response_buffers_max = 16 * 1024 * 1024;
    let site = Site::start(plan);
    let mut client = Client::connect_narrow(site.address).await;
    let page = vec![b'x'; 8 * 1024 * 1024];

    client.get("/").await;
    let mut call = app.call().await;
    call.write(format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
        page.len()
    ))
    .await;
    call.write(&page).await;

    site.settles_at(0, 0).await;
    assert!(site.status().response_buffer_bytes > 0);
    let answer = client.read().await;
    assert_eq!(answer.body.len(), page.len());
    eventually(|| site.status().response_buffer_bytes == 0).await;
}

#[tokio::test]
async fn an_answer_is_read_ahead_only_so_far() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = Client::connect_narrow(site.address).await;
    let page = vec![b'x'; 64 * 1024 * 1024];

    client.get("/").await;
    let mut call = app.call().await;
    call.write(format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
        page.len()
    ))
    .await;
    let writing = tokio::spawn(async move {
        call.write(&page).await;
        page.len()
    });

    // 256 KiB, an eighth for what frames cost beside their bytes, and the frame that goes over it.
    let bound = 256 * 1024;
    let most = bound + bound / 8 + 65 * 1024;
    eventually(|| site.status().response_buffer_bytes >= bound).await;
    let head = client.read_head().await;
    assert!(head.contains("content-length: 67108864\r\n"), "{head}");
    for _ in 0..1024 {
        client.read_bytes(64 * 1024).await;
        assert!(site.status().response_buffer_bytes <= most);
    }
    assert_eq!(writing.await.unwrap(), 64 * 1024 * 1024);
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn half_an_answer_does_not_look_whole() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client.get("/").await;
    let mut call = app.call().await;
    call.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        .await;
    assert!(client.read_head().await.starts_with("HTTP/1.1 200"));
    client.read_until("5\r\nhello\r\n").await;
    drop(call);

    assert_eq!(client.read_rest().await, b"", "no last chunk");
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn an_application_that_hangs_up_is_a_bad_gateway() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client.get("/").await;
    drop(app.call().await);
    let answer = client.read().await;

    assert_eq!(
        (answer.status(), answer.header("tidegate-reason")),
        (502, Some("upstream_reset"))
    );
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn an_application_that_is_not_there_is_a_bad_gateway() {
    let app = App::open().await;
    let plan = plan(&app, 1);
    drop(app);
    let site = Site::start(plan);
    let mut client = site.client().await;

    client.get("/").await;
    let answer = client.read().await;

    assert_eq!(
        (answer.status(), answer.header("tidegate-reason")),
        (502, Some("upstream_connect"))
    );
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn a_switch_of_protocols_that_nobody_asked_for_goes_no_further() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client
        .get_with("/", "connection: upgrade\r\nupgrade: websocket\r\n")
        .await;
    let mut call = app.call().await;
    assert_eq!(call.header("upgrade"), None);
    call.write("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n")
        .await;

    let answer = client.read().await;
    assert_eq!(
        (answer.status(), answer.header("tidegate-reason")),
        (502, Some("upstream_invalid"))
    );
    site.settles_at(0, 0).await;
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_not_called_a_reset() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let ok = "HTTP/1.1 200 OK\r\n";
    let answers = [
        "SSH-2.0-OpenSSH_9.6\r\n".to_owned(),
        format!("{ok}no colon\r\n\r\n"),
        format!(
            "{ok}{}content-length: 0\r\n\r\n",
            "x: y\r\n".repeat(HEADERS_MAX)
        ),
        format!("{ok}x: {}\r\n\r\n", "y".repeat(64 * 1024)),
        format!("{ok}content-length: many\r\n\r\n"),
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
        format!("{ok}transfer-encoding: gzip\r\n\r\n"),
        format!("{ok}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        format!("{ok}transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    ];
    let count = answers.len() as u64;

    for invalid in answers {
        let mut client = site.client().await;
        client.get("/").await;
        let mut call = app.call().await;
        call.try_write(invalid.as_bytes()).await;

        let answer = client.read().await;
        let begin = &invalid[..invalid.len().min(60)];
        assert_eq!(
            (answer.status(), answer.header("tidegate-reason")),
            (502, Some("upstream_invalid")),
            "{begin:?}"
        );
        assert!(call.is_closed().await, "{begin:?}");
    }
    assert_eq!(site.refused("upstream_invalid"), count);
    site.ends_with(0, 0, 0).await;
}

#[tokio::test]
async fn an_answer_may_have_as_many_headers_as_we_say() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client.get("/").await;
    let mut call = app.call().await;
    let headers = "x: y\r\n".repeat(HEADERS_MAX - 1);
    call.write(format!(
        "HTTP/1.1 200 OK\r\n{headers}content-length: 2\r\n\r\nok"
    ))
    .await;

    let answer = client.read().await;
    assert_eq!((answer.status(), answer.text()), (200, "ok"));
    assert_eq!(answer.head.matches("x: y\r\n").count(), HEADERS_MAX - 1);
}

#[tokio::test]
async fn an_answer_with_a_length_beside_its_chunks_ends_where_the_chunks_do() {
    let app = App::open().await;
    let site = Site::start(plan(&app, 1));
    let mut client = site.client().await;

    client.get("/").await;
    let mut call = app.call().await;
    call.write(
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\n\r\n",
    )
    .await;

    let answer = client.read().await;
    assert_eq!((answer.status(), answer.text()), (200, "hello"));
    site.settles_at(0, 0).await;
}

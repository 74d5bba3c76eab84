//! A route behind a waiting room, and the room's own paths.

use std::time::{Duration, SystemTime};

use http::StatusCode;
use tidegate_core::room::{Bounds, Budget, Order, Phase, RoomName, Rules};
use tidegate_gateway::plan::Mode;
use tidegate_gateway::room::{Algorithm, Keys, OnRoomLoss, RoomPlan, TokensPlan, draw_key};
use tidegate_gateway::session::Transport;
use tidegate_page::Theme;

use crate::app::App;
use crate::client::Answer;
use crate::site::{Site, plan};
use crate::within;

/// What a browser sends that goes to a page.
const NAVIGATES: &str = "accept: text/html\r\naccept-language: en\r\n\
                         sec-fetch-mode: navigate\r\nsec-fetch-site: none\r\n";
/// What the script of a page sends.
const FETCHES: &str =
    "accept: application/json\r\nsec-fetch-mode: cors\r\nsec-fetch-site: same-origin\r\n";
/// What an application sends that is no browser.
const ASKS: &str = "accept: application/json\r\n";

fn room(phase: Phase) -> RoomPlan {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let published_s = now.unwrap().as_secs() - 1_000;
    let key = draw_key("1", Algorithm::Hs256, published_s);
    let mut tokens = TokensPlan::of(RoomName::new("shop").unwrap());
    tokens.transport = Transport::Insecure;
    RoomPlan {
        tokens,
        key_file: "keys.json".into(),
        keys: Keys::from_json(&format!("{{\"keys\":[{key}]}}")).unwrap(),
        phase,
        order: Order::Strict,
        bounds: Bounds {
            rate_max: 1.0,
            rate_min: 1.0,
            fill: Duration::from_secs(30),
            active_max: None,
        },
        load_each: 1.0,
        rules: Rules {
            waiting_max: 1_000,
            misses_max: 3,
            settle_ms: 160_000,
            ticket_ms: 86_400_000,
        },
        claim_within: Duration::from_secs(120),
        extensions_max: 3,
        asks: Budget {
            polls: 500.0,
            beats: 3_000.0,
        },
        on_store_loss: OnRoomLoss::LocalBudget,
        joins: None,
        page_status: StatusCode::SERVICE_UNAVAILABLE,
        theme: Theme::default(),
        message: None,
        event: None,
        state: None,
        audit: None,
        webhooks: Vec::new(),
    }
}

fn site(app: &App, phase: Phase) -> Site {
    Site::start_behind(plan(app, 4), room(phase))
}

async fn ask(site: &Site, method: &str, path: &str, headers: &str) -> Answer {
    let mut client = site.client().await;
    let length = match method {
        "POST" => "content-length: 0\r\n",
        _ => "",
    };
    let head = format!("{method} {path} HTTP/1.1\r\nhost: shop\r\n{headers}{length}\r\n");
    client.write(head).await;
    client.read().await
}

/// What `look` finds, as soon as it finds anything.
async fn until<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    within(async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
}

/// The first answer that gives a place: until the line is known, there is none.
async fn placed(site: &Site, headers: &str) -> Answer {
    until(async || {
        let answer = ask(site, "GET", "/basket", headers).await;
        assert_eq!(answer.status(), 503);
        answer.head.contains("tgq-shop=").then_some(answer)
    })
    .await
}

/// The cookies that an answer sets, as a browser sends them.
fn kept(answer: &Answer) -> String {
    let lines = answer.head.lines();
    let lines = lines.filter_map(|line| line.strip_prefix("set-cookie: "));
    let pairs: Vec<&str> = lines.map(|line| line.split(';').next().unwrap()).collect();
    format!("cookie: {}\r\n", pairs.join("; "))
}

#[tokio::test]
async fn who_has_to_wait_gets_a_place_and_keeps_it() {
    let app = App::open().await;
    let site = site(&app, Phase::Hold);
    let page = placed(&site, NAVIGATES).await;
    let cookies = kept(&page);

    assert!(cookies.contains("tgd="), "{cookies}");
    let kind = page.header("content-type");
    assert_eq!(kind, Some("text/html; charset=utf-8"));
    assert_eq!(page.header("cache-control"), Some("private, no-store"));
    assert_eq!(page.header("cdn-cache-control"), Some("no-store"));
    assert_eq!(page.header("tidegate-state"), Some("queued"));
    assert!(page.header("retry-after").is_some());
    assert!(page.text().contains("http-equiv=\"refresh\""));

    let visits = format!("{NAVIGATES}{cookies}");
    let again = ask(&site, "GET", "/basket", &visits).await;
    assert_eq!(again.status(), 503);
    assert_eq!(again.header("set-cookie"), None, "{}", again.head);

    let script = format!("{FETCHES}{cookies}");
    let me = ask(&site, "GET", "/.tidegate/v1/me/shop?vis=1", &script).await;
    assert_eq!(me.status(), 200, "{}", me.text());
    assert!(me.text().contains("\"state\":\"waiting\""), "{}", me.text());
    assert!(me.text().contains("\"ahead\":0"), "{}", me.text());
    let claim = ask(&site, "POST", "/.tidegate/v1/claim/shop", &script).await;
    assert_eq!(claim.status(), 409, "{}", claim.text());
    let leave = ask(&site, "POST", "/.tidegate/v1/leave/shop", &script).await;
    assert_eq!(leave.status(), 200, "{}", leave.text());
    assert!(leave.head.contains("tgq-shop=; "), "{}", leave.head);
    let refused = site.refused("room");
    assert!(refused >= 2, "{refused}");
}

#[tokio::test]
async fn a_form_that_has_to_wait_is_answered_before_it_was_read() {
    let app = App::open().await;
    let site = site(&app, Phase::Hold);

    for expects in ["", "expect: 100-continue\r\n"] {
        let mut client = site.client().await;
        let length = "content-length: 10000000\r\n";
        let head = format!("POST /order HTTP/1.1\r\nhost: shop\r\n{NAVIGATES}{expects}{length}");
        client.write(format!("{head}\r\n")).await;
        if expects.is_empty() {
            client.write(vec![b'x'; 32 * 1024]).await;
        }
        let page = client.read().await;

        assert_eq!(page.status(), 503, "{}", page.head);
        let text = page.text();
        assert!(text.contains("What you entered has not been sent yet."));
        assert!(!text.contains("http-equiv=\"refresh\""));
    }
}

#[tokio::test]
async fn an_application_keeps_its_place_by_headers() {
    let app = App::open().await;
    let site = site(&app, Phase::Hold);
    let first = placed(&site, ASKS).await;
    let ticket = first.header("tidegate-ticket").unwrap();
    let device = first.header("tidegate-device").unwrap();
    assert!(first.text().contains("\"state\":\"provisional\""));

    let own = format!("{ASKS}tidegate-ticket: {ticket}\r\ntidegate-device: {device}\r\n");
    let again = ask(&site, "POST", "/order", &own).await;

    assert_eq!(again.status(), 503);
    let kind = again.header("content-type");
    assert_eq!(kind, Some("application/problem+json"));
    assert_eq!(again.header("tidegate-ticket"), None);
    let text = again.text();
    assert!(text.contains("\"state\":\"waiting\""), "{text}");
    assert!(text.contains("\"reason\":\"room\""), "{text}");
    let other = placed(&site, ASKS).await;
    let other = other.header("tidegate-ticket").unwrap();
    let both = format!("{own}cookie: tgq-shop={other}\r\n");
    let bad = ask(&site, "GET", "/", &both).await;
    assert_eq!(bad.status(), 400, "{}", bad.text());
}

#[tokio::test]
async fn a_browser_that_keeps_no_cookies_is_told_so_and_one_that_does_gets_a_place() {
    let app = App::open().await;
    let site = site(&app, Phase::Hold);
    drop(placed(&site, NAVIGATES).await);
    let again = NAVIGATES.replace("none", "same-origin");

    let page = ask(&site, "GET", "/basket", &again).await;

    let text = page.text();
    assert!(text.contains("data-state=\"nocookie\""), "{text}");
    assert!(!text.contains("http-equiv=\"refresh\""), "no loop");
    let cookies = kept(&page);
    assert!(cookies.contains("tgd=") && !cookies.contains("tgq-shop="));
    let keeps = placed(&site, &format!("{again}{cookies}")).await;
    assert!(keeps.text().contains("data-state=\"start\""));
}

#[tokio::test]
async fn a_head_takes_no_place() {
    let app = App::open().await;
    let site = site(&app, Phase::Hold);
    drop(placed(&site, NAVIGATES).await);

    let mut client = site.client().await;
    let head = format!("HEAD / HTTP/1.1\r\nhost: shop\r\n{NAVIGATES}\r\n");
    client.write(head).await;
    let head = client.read_head().await;

    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert!(!head.contains("set-cookie"), "{head}");
}

#[tokio::test]
async fn the_rooms_paths_answer_to_their_methods() {
    let app = App::open().await;
    let site = site(&app, Phase::Hold);

    for (method, path, status, allow) in [
        ("OPTIONS", "me/shop", 204, Some("GET, HEAD, OPTIONS")),
        ("DELETE", "me/shop", 405, Some("GET, HEAD, OPTIONS")),
        ("GET", "join/shop", 405, Some("OPTIONS, POST")),
        ("GET", "nojs/shop", 200, None),
        ("GET", "me/nowhere", 404, None),
        ("GET", "room/shop", 404, None),
        ("POST", "more-time/shop", 409, None),
        ("POST", "claim/shop", 409, None),
    ] {
        let path = format!("/.tidegate/v1/{path}");
        let answer = ask(&site, method, &path, FETCHES).await;
        assert_eq!(answer.status(), status, "{method} {path}");
        assert_eq!(answer.header("allow"), allow, "{method} {path}");
    }
    let nobody = ask(&site, "GET", "/.tidegate/v1/me/shop", FETCHES).await;
    assert!(nobody.text().contains("\"state\":\"nobody\""));
    let keys = ask(&site, "GET", "/.well-known/tidegate/jwks.json", "").await;
    assert_eq!(keys.text(), "{\"keys\":[]}", "a secret is not public");
}

#[tokio::test]
async fn the_rooms_document_is_sent_once() {
    let app = App::open().await;
    let site = site(&app, Phase::Hold);
    let path = "/.tidegate/v1/room/shop.json";

    // It is another one every second.
    let unchanged = until(async || {
        let document = ask(&site, "GET", path, FETCHES).await;
        let tag = document.header("etag")?.to_owned();
        assert_eq!(document.status(), 200);
        assert!(document.text().contains("\"phase\":\"hold\""));
        let known = format!("{FETCHES}if-none-match: {tag}\r\n");
        let mut client = site.client().await;
        client.get_with(path, &known).await;
        let head = client.read_head().await;
        head.starts_with("HTTP/1.1 304 ").then_some(head)
    })
    .await;

    let cached = "cache-control: public, max-age=1, s-maxage=1, stale-while-revalidate=5";
    assert!(unchanged.contains(cached), "{unchanged}");
}

#[tokio::test]
async fn the_application_is_told_the_tier_and_no_token() {
    let app = App::open().await;
    let site = site(&app, Phase::Off);
    let mut client = site.client().await;

    let cookies = "cookie: a=b; tgq-shop=x; tga-shop=y; tgd=z; c=d\r\n";
    client
        .get_with("/", &format!("{cookies}tidegate-tier: 1\r\n"))
        .await;
    let mut call = app.call().await;

    assert_eq!(call.header("tidegate-tier"), Some("3"));
    assert_eq!(call.header("cookie"), Some("a=b; c=d"));
    call.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        .await;
    let answer = client.read().await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.header("set-cookie"), None);
}

#[tokio::test]
async fn a_room_in_front_of_an_application_in_shadow_counts_alone() {
    let app = App::open().await;
    let mut shadow = plan(&app, 4);
    shadow.apps[0].mode = Mode::Shadow;
    let site = Site::start_behind(shadow, room(Phase::Closed));
    let mut client = site.client().await;

    client.get_with("/", NAVIGATES).await;
    let mut call = app.call().await;
    call.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        .await;

    let answer = client.read().await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.header("set-cookie"), None);
}

#[tokio::test]
async fn whoever_calls_a_request_static_has_to_wait() {
    let app = App::open().await;
    let site = site(&app, Phase::Closed);

    let answer = ask(&site, "GET", "/basket", "tidegate-class: static\r\n").await;

    assert_eq!(answer.status(), 503);
    assert_eq!(answer.header("tidegate-reason"), Some("room_closed"));
}

#[tokio::test]
async fn what_is_static_and_a_question_before_the_question_need_no_pass() {
    let app = App::open().await;
    let mut plan = plan(&app, 4);
    plan.apps[0].static_extensions = vec![".css".to_owned()];
    let site = Site::start_behind(plan, room(Phase::Closed));

    let preflight = "origin: https://a\r\naccess-control-request-method: PUT\r\n";
    for (method, path, headers) in [
        ("GET", "/brand.css", "sec-fetch-mode: no-cors\r\n"),
        ("OPTIONS", "/api", preflight),
    ] {
        let mut client = site.client().await;
        let head = format!("{method} {path} HTTP/1.1\r\nhost: shop\r\n{headers}\r\n");
        client.write(head).await;
        let mut call = app.call().await;
        assert_eq!(call.header("tidegate-tier"), Some("0"), "{path}");
        call.write("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            .await;
        assert_eq!(client.read().await.status(), 200, "{path}");
    }
}

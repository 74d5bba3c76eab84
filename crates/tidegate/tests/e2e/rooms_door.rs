//! Who comes to a site with a room, and what they get: in every phase, with a browser, a script, and neither.

use serde_json::Value;

use crate::backend::{Backend, Sum};
use crate::client::{Answer, ask, get};
use crate::process::{TempDir, Tidegate};
use crate::rooms_visitor::{
    ASKS, Browser, FETCHES, FLOWS, NAVIGATES, STANDS, Site, document, documents, order,
    set_cookies, told, until, waiting,
};

/// An event that has not begun, 2099-12-24T10:00:00Z.
const EVENT: &str = "starts = \"2099-12-24T10:00:00Z\"\nopens_before = \"30m\"\n";
const STARTS_MS: u64 = 4_101_789_600_000;

/// One that nobody knows yet.
fn stranger(gateway: &Tidegate, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    Browser::default().ask(gateway, method, path, headers)
}

/// What is for no cache: neither the browser's nor one on the way.
fn is_for_nobody_else(answer: &Answer) {
    assert_eq!(answer.header("cache-control"), Some("private, no-store"));
    assert_eq!(answer.header("cdn-cache-control"), Some("no-store"));
    let vary = answer.header("vary").unwrap().to_ascii_lowercase();
    for name in [
        "cookie",
        "accept",
        "accept-encoding",
        "accept-language",
        "sec-fetch-mode",
    ] {
        let mut names = vary.split(',').map(str::trim);
        assert!(names.any(|known| known == name), "{name}: {vary}");
    }
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!(wait >= 1);
}

/// The page for who has to wait.
fn is_the_page(page: &Answer, says: &[&str]) {
    assert_eq!(page.status, 503);
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    is_for_nobody_else(page);
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'sha256-"),
        "{policy}"
    );
    let text = page.text();
    for says in says {
        assert!(text.contains(says), "{says} is not in {text}");
    }
}

/// What a program is told that has to wait.
fn is_the_problem(answer: &Answer) -> Value {
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(answer.header("tidegate-state"), Some("queued"));
    assert_eq!(answer.header("tidegate-reason"), Some("room"));
    is_for_nobody_else(answer);
    let problem: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(
        (&problem["status"], &problem["reason"]),
        (&503.into(), &"room".into())
    );
    assert_eq!(problem["room"], "shop");
    assert_eq!(problem["me"], "/.tidegate/v1/me/shop");
    assert_eq!(problem["room_document"], "/.tidegate/v1/room/shop.json");
    for name in ["title", "state", "poll_s", "position", "eta_s"] {
        assert!(problem.get(name).is_some(), "{name}: {problem}");
    }
    problem
}

#[test]
fn who_waits_gets_the_page_and_a_program_a_problem_whatever_makes_them_wait() {
    for (phase, more) in [("queue-all", ""), ("hold", ""), ("prequeue", EVENT)] {
        let (site, directory) = (Site::alone(), TempDir::new());
        let room = format!("phase = \"{phase}\"\n{STANDS}{more}");
        let gateway = site.gateway(&directory, "gw1", &room);

        let page = stranger(&gateway, "GET", "/basket?item=7", &NAVIGATES);
        let line = "<h1 id=\"head\">You are in line</h1>";
        is_the_page(
            &page,
            &[
                line,
                "data-state=\"start\"",
                "http-equiv=\"refresh\"",
                "<html lang=\"en\"",
            ],
        );
        let cookies = set_cookies(&page);
        let ticket = cookies.iter().find(|(name, _)| name.ends_with("tgq-shop"));
        assert_eq!(ticket.expect("a ticket").1.len(), 88, "{cookies:?}");
        assert!(!cookies.iter().any(|(name, _)| name.ends_with("tga-shop")));

        let form = stranger(&gateway, "POST", "/order", &NAVIGATES);
        is_the_page(&form, &["What you entered has not been sent yet."]);
        assert!(
            !form.text().contains("http-equiv=\"refresh\""),
            "it would be lost"
        );

        let head = stranger(&gateway, "HEAD", "/", &NAVIGATES);
        assert_eq!((head.status, head.body.len()), (503, 0));

        for method in ["GET", "POST", "DELETE"] {
            let script = stranger(&gateway, method, "/api/basket", &FETCHES);
            is_the_problem(&script);
            assert_eq!(script.header("tidegate-ticket"), None, "a page has cookies");

            let program = stranger(&gateway, method, "/api/basket", &ASKS);
            is_the_problem(&program);
            assert_eq!(program.header("tidegate-ticket").unwrap().len(), 88);
            assert!(program.header("tidegate-device").is_some());
            assert_eq!(program.header("tidegate-pass"), None);
        }

        assert_eq!(document(&gateway).unwrap()["phase"], phase);
        assert_eq!(
            site.app.asked(),
            0,
            "{phase}: nobody came to the application"
        );
    }
}

#[test]
fn without_what_a_browser_says_of_itself_the_best_of_accept_decides() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(&directory, "gw1", &format!("phase = \"hold\"\n{STANDS}"));
    let asks = |accept: &str| stranger(&gateway, "GET", "/", &[("accept", accept)]);

    for page in [
        "text/html",
        "application/json;q=0.5, text/html",
        "text/html, */*;q=0.1",
    ] {
        is_the_page(&asks(page), &["You are in line"]);
    }
    for problem in [
        "application/json",
        "text/html;q=0.5, application/json",
        "*/*",
        "image/png",
    ] {
        is_the_problem(&asks(problem));
    }
    let script = [
        ("accept", "text/html"),
        ("sec-fetch-mode", "cors"),
        ("sec-fetch-site", "same-origin"),
    ];
    is_the_problem(&stranger(&gateway, "GET", "/", &script));
}

#[test]
fn the_page_comes_in_the_language_and_as_small_as_it_was_asked_for() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(&directory, "gw1", &format!("phase = \"hold\"\n{STANDS}"));

    let headers = [
        ("accept", "text/html"),
        ("accept-language", "he, en;q=0.5"),
        ("accept-encoding", "gzip"),
    ];
    let page = stranger(&gateway, "GET", "/", &headers);

    assert_eq!(
        (page.status, page.header("content-encoding")),
        (503, Some("gzip"))
    );
    assert_eq!(page.body[..2], [0x1f, 0x8b]);
    assert!(page.body.len() <= 14 * 1_024, "{}", page.body.len());
    let page = stranger(&gateway, "GET", "/", &headers[..2]);
    is_the_page(&page, &["<html lang=\"he\" dir=\"rtl\""]);
}

#[test]
#[ignore = "in the first seconds of a gateway too little is known of what its node can do, and some have to wait: open"]
fn where_nobody_has_to_wait_everybody_goes_on() {
    for phase in ["off", "drain", "auto"] {
        let (site, directory) = (Site::alone(), TempDir::new());
        let gateway = site.gateway(&directory, "gw1", &format!("phase = \"{phase}\"\n{FLOWS}"));
        // Until the leader has worked out how fast people may come, a newcomer may wait.
        until("somebody goes in", || {
            (stranger(&gateway, "GET", "/", &NAVIGATES).status == 200).then_some(())
        });

        for (method, headers) in [
            ("GET", &NAVIGATES[..]),
            ("POST", &NAVIGATES),
            ("GET", &FETCHES),
            ("POST", &FETCHES),
            ("GET", &ASKS),
            ("POST", &ASKS),
        ] {
            let answer = stranger(&gateway, method, "/order", headers);
            assert_eq!(answer.status, 200, "{phase}: {method} {headers:?}");
            assert!(answer.text().starts_with(&format!("{method} /order ")));
        }
        let mut browser = Browser::default();
        assert_eq!(browser.go(&gateway, "/").status, 200);
        let has_pass = browser.cookie("tga-shop").is_some();
        assert_eq!(has_pass, phase == "auto", "{phase}: {:?}", browser.cookies);
        let tier = told(&browser.go(&gateway, "/"), "tidegate-tier");
        if phase == "auto" {
            assert_eq!(tier.as_deref(), Some("3"));
        }
    }
}

#[test]
fn a_room_that_is_closed_says_so_and_takes_nobody() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(&directory, "gw1", &format!("phase = \"closed\"\n{FLOWS}"));

    let page = stranger(&gateway, "GET", "/", &NAVIGATES);
    assert!(page.status >= 400, "{}", page.status);
    let text = page.text();
    assert!(
        text.contains("data-state=\"closed\"") && text.contains("This has ended"),
        "{text}"
    );
    assert!(!text.contains("http-equiv=\"refresh\""));
    for headers in [&FETCHES[..], &ASKS] {
        let told = stranger(&gateway, "GET", "/api/basket", headers);
        assert!(told.status >= 400, "{}", told.status);
        let reason = told.header("tidegate-reason").unwrap();
        assert!(reason.starts_with("room"), "{reason}");
        assert_eq!(
            told.header("content-type"),
            Some("application/problem+json")
        );
    }
    assert_eq!(site.app.asked(), 0);
    let joined = stranger(&gateway, "POST", "/.tidegate/v1/join/shop", &FETCHES);
    assert!(
        set_cookies(&joined).is_empty(),
        "{:?}",
        set_cookies(&joined)
    );
}

#[test]
fn what_is_critical_goes_on_in_every_phase_and_without_the_store() {
    let (mut site, backend) = (Site::shared(), Backend::start());
    let directory = TempDir::new();
    // The room stands before an application that takes what is uploaded.
    let room = format!("phase = \"hold\"\n{STANDS}");
    let configuration = site.configuration(&directory, "gw1", &room);
    let upstream = site.app.address.to_string();
    let configuration = configuration.replace(&upstream, &backend.address.to_string());
    let configuration = configuration.replace("\"/pay/**\"", "[\"/pay/**\", \"/sink\"]");
    let gateway = Tidegate::start(&directory, &configuration.replace("path = [", "paths = ["));
    until("the line is known", || document(&gateway));
    let bytes = vec![b'x'; 300_000];
    let mut sum = Sum::default();
    sum.add(&bytes);
    let passes = |when: &str| {
        let callback = ask(gateway.clients, "POST", "/pay/callback", &ASKS, b"paid=1");
        assert_eq!(callback.status, 200, "{when}: {}", callback.text());
        let upload = ask(gateway.clients, "POST", "/sink", &ASKS, &bytes);
        assert_eq!(
            upload.text(),
            format!("{} {}", sum.bytes, sum.sum),
            "{when}"
        );
        let page = stranger(&gateway, "GET", "/pay/done", &NAVIGATES);
        assert_eq!(page.status, 200, "{when}");
        assert!(
            set_cookies(&page).is_empty(),
            "{when}: {:?}",
            set_cookies(&page)
        );
    };

    for phase in ["hold", "queue-all", "auto", "off", "drain"] {
        order(&gateway, &[phase]);
        passes(phase);
    }
    order(&gateway, &["close"]);
    until("it is closed", || {
        (document(&gateway)?["phase"] == "closed").then_some(())
    });
    passes("closed");
    site.redis.as_mut().unwrap().kill().unwrap();
    for _ in 0..10 {
        passes("without the store");
    }
}

#[test]
fn what_pictures_and_styles_are_made_of_comes_without_a_pass() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(&directory, "gw1", &format!("phase = \"hold\"\n{STANDS}"));

    let style = [
        ("accept", "text/css"),
        ("sec-fetch-mode", "no-cors"),
        ("sec-fetch-site", "same-origin"),
    ];
    let style = stranger(&gateway, "GET", "/brand.css", &style);

    assert_eq!(style.status, 200);
    assert!(set_cookies(&style).is_empty());
}

#[test]
fn who_keeps_no_cookie_never_makes_a_line() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(&directory, "gw1", &format!("phase = \"hold\"\n{STANDS}"));

    for number in 0..200 {
        let headers = if number % 2 == 0 {
            &NAVIGATES[..]
        } else {
            &ASKS
        };
        assert_eq!(stranger(&gateway, "GET", "/", headers).status, 503);
    }
    let mut browser = Browser::waiting(&gateway);

    until("the one who came back counts", || {
        (waiting(&gateway)? == 1).then_some(())
    });
    documents(&gateway, 2);
    assert_eq!(waiting(&gateway), Some(1));
    assert_eq!(browser.me(&gateway)["ahead"], 0);
}

#[test]
fn fifty_reloads_and_a_second_tab_are_one_place() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(&directory, "gw1", &format!("phase = \"hold\"\n{STANDS}"));
    let mut browser = Browser::waiting(&gateway);
    let (place, cookies) = (
        browser.me(&gateway)["place"].clone(),
        browser.cookies.clone(),
    );
    assert!(place.is_u64(), "{place}");

    for _ in 0..50 {
        let page = browser.go(&gateway, "/");
        assert_eq!(page.status, 503);
        assert!(set_cookies(&page).is_empty(), "{:?}", set_cookies(&page));
    }
    let mut tab = browser.clone();

    for tab in [&mut browser, &mut tab] {
        let me = tab.me(&gateway);
        assert_eq!(
            (&me["place"], &me["state"], &me["tier"]),
            (&place, &"waiting".into(), &3.into())
        );
        assert_eq!(tab.cookies, cookies);
    }
    until("the line is looked at", || {
        (waiting(&gateway)? == 1).then_some(())
    });
    documents(&gateway, 2);
    assert_eq!(waiting(&gateway), Some(1));
}

#[test]
fn the_rooms_document_is_for_caches_and_the_same_for_everybody() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let room = format!(
        "phase = \"prequeue\"\n{STANDS}{EVENT}message = {{ en = \"Soon.\", de = \"Bald.\" }}\n"
    );
    let gateway = site.gateway(&directory, "gw1", &room);
    let path = "/.tidegate/v1/room/shop.json";

    // One who waits asks between two who do not; a document made meanwhile is another one.
    let mut browser = Browser::waiting(&gateway);
    until("three looks at one document", || {
        let first = get(gateway.clients, path);
        let own = browser.ask(&gateway, "GET", path, &FETCHES);
        let last = get(gateway.clients, path);
        assert_eq!(own.header("set-cookie"), None);
        (first.body == last.body).then(|| assert_eq!(own.body, first.body))
    });

    let answer = get(gateway.clients, path);
    let cached = "public, max-age=1, s-maxage=1, stale-while-revalidate=5";
    assert_eq!(answer.header("cache-control"), Some(cached));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let document: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(
        (&document["v"], &document["room"]),
        (&1.into(), &"shop".into())
    );
    assert_eq!(document["event"]["starts_ms"], STARTS_MS);
    assert_eq!(
        document["message"],
        serde_json::json!({ "de": "Bald.", "en": "Soon." })
    );
    assert_eq!(document["tiers"].as_array().unwrap().len(), 3);
    let own = browser.ask(&gateway, "GET", "/.tidegate/v1/me/shop?vis=0", &FETCHES);
    assert!(own.header("cache-control").unwrap().contains("no-store"));
}

#[test]
fn without_script_the_page_that_does_not_refresh_is_there() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(&directory, "gw1", &format!("phase = \"hold\"\n{STANDS}"));

    let still = stranger(&gateway, "GET", "/.tidegate/v1/nojs/shop", &NAVIGATES);

    let text = still.text();
    assert!(
        text.contains("This page no longer checks by itself."),
        "{text}"
    );
    assert!(!text.contains("http-equiv=\"refresh\""));
    for path in [
        "/.tidegate/v1/room/nowhere.json",
        "/.tidegate/v1/me/nowhere",
        "/.tidegate/v1/room/shop",
    ] {
        assert_eq!(
            stranger(&gateway, "GET", path, &FETCHES).status,
            404,
            "{path}"
        );
    }
}

#[test]
fn keys_that_others_may_know_are_published_and_no_secret_is() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(&directory, "gw1", &format!("phase = \"auto\"\n{FLOWS}"));

    let answer = get(gateway.clients, "/.well-known/tidegate/jwks.json");

    assert_eq!(answer.status, 200);
    let cached = answer.header("cache-control").unwrap();
    assert!(cached.contains("max-age=300"), "{cached}");
    let set: Value = serde_json::from_slice(&answer.body).unwrap();
    for key in set["keys"].as_array().unwrap() {
        assert!(key["k"].is_null() && key["d"].is_null(), "{key}");
    }
}

#[test]
fn one_network_takes_no_more_places_than_it_may() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let room = format!("phase = \"hold\"\n{STANDS}");
    let configuration = site.configuration(&directory, "gw1", &room);
    let configuration = configuration.replace("\"none\"", "\"10/day\"");
    let trusting = format!("[trust]\nproxies = [\"127.0.0.0/8\"]\n{configuration}");
    let gateway = Tidegate::start(&directory, &trusting);
    until("the line is known", || document(&gateway));
    let places = |client: &str, count: usize| {
        let headers = [&FETCHES[..], &[("x-forwarded-for", client)]].concat();
        let answers = (0..count).map(|_| stranger(&gateway, "GET", "/", &headers));
        let given = answers.filter(|answer| !set_cookies(answer).is_empty());
        given.count()
    };

    assert_eq!(places("203.0.113.1", 20), 10);
    assert_eq!(places("203.0.113.200", 5), 0, "the same /24");
    assert_eq!(places("198.51.100.1", 5), 5);
}

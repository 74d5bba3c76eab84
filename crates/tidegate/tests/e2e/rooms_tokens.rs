//! From a place to a pass, and what a pass is good for.

use serde_json::Value;

use crate::client::{Answer, ask};
use crate::process::{TempDir, Tidegate};
use crate::rooms_visitor::{
    ASKS, Browser, FLOWS, NAVIGATES, STANDS, Site, order, set_cookies, told, until, waiting,
};

/// Everybody waits, and is called soon.
fn flowing(site: &Site, directory: &TempDir, more: &str) -> Tidegate {
    let room = format!("phase = \"queue-all\"\n{FLOWS}{more}");
    site.gateway(directory, "gw1", &room)
}

fn json(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

/// The cookie that an answer sets whose name ends so.
fn given(answer: &Answer, name: &str) -> Option<String> {
    let mut cookies = set_cookies(answer).into_iter();
    let cookie = cookies.find(|(known, value)| known.ends_with(name) && !value.is_empty());
    cookie.map(|(_, value)| value)
}

/// How many seconds a cookie is kept that the answer sets and whose name ends so.
fn kept_s(answer: &Answer, name: &str) -> Option<u64> {
    let mut lines = answer.headers.iter();
    let line = lines.find(|(header, line)| {
        let cookie = line.split('=').next().unwrap();
        header == "set-cookie" && cookie.ends_with(name)
    });
    let (_, rest) = line?.1.split_once("Max-Age=")?;
    rest.split(';').next()?.parse().ok()
}

#[test]
fn who_is_called_claims_and_is_inside_and_a_second_claim_gives_the_same_pass() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = flowing(&site, &directory, "");
    let mut browser = Browser::waiting(&gateway);

    let ready = browser.until_state(&gateway, "ready");
    let left_ms = ready["left_ms"].as_u64().unwrap();
    assert!((1..=120_000).contains(&left_ms), "{ready}");
    let mut second_tab = browser.clone();
    let claimed = browser.claim(&gateway);
    let again = second_tab.claim(&gateway);

    assert_eq!(json(&claimed)["state"], "passed");
    assert_eq!(json(&again)["state"], "passed");
    let pass = given(&claimed, "tga-shop").unwrap();
    assert_eq!(pass.split('.').count(), 3, "{pass}");
    assert_eq!(given(&again, "tga-shop"), Some(pass));
    assert!(
        claimed
            .header("cache-control")
            .unwrap()
            .contains("no-store")
    );
    for (method, headers) in [
        ("GET", &NAVIGATES[..]),
        ("POST", &NAVIGATES),
        ("DELETE", &ASKS),
    ] {
        let page = browser.ask(&gateway, method, "/basket", headers);
        assert_eq!(told(&page, "tidegate-tier").as_deref(), Some("3"));
        assert!(
            given(&page, "tga-shop").is_none(),
            "it is not half over yet"
        );
    }
    // What is outside the room has nothing to do with it.
    let outside = browser.go(&gateway, "/door/x");
    let tier = told(&outside, "tidegate-tier");
    assert!(matches!(tier.as_deref(), None | Some("0")), "{tier:?}");
}

#[test]
fn a_lie_about_the_tier_does_not_reach_the_application() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = flowing(&site, &directory, "");
    let mut browser = Browser::inside(&gateway);

    let lies = [&NAVIGATES[..], &[("tidegate-tier", "1")]].concat();
    let page = browser.ask(&gateway, "GET", "/", &lies);

    assert_eq!(told(&page, "tidegate-tier").as_deref(), Some("3"));
}

#[test]
fn without_script_a_visit_goes_in_by_itself_when_it_is_ones_turn() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = flowing(&site, &directory, "");
    let mut browser = Browser::default();
    assert_eq!(browser.go(&gateway, "/basket").status, 503);

    let page = until("the page lets in", || {
        let page = browser.go(&gateway, "/basket");
        (page.status == 200).then_some(page)
    });

    assert!(page.text().starts_with("GET /basket "));
    assert!(
        given(&page, "tga-shop").is_some(),
        "{:?}",
        set_cookies(&page)
    );
    let cached = page.header("cache-control").unwrap();
    assert!(
        cached.contains("private") && cached.contains("no-store"),
        "{cached}"
    );
    assert_eq!(browser.go(&gateway, "/").status, 200);

    let mut form = Browser::default();
    let answer = until("the form is sent", || {
        let answer = form.ask(&gateway, "POST", "/order", &NAVIGATES);
        (answer.status == 200).then_some(answer)
    });
    assert!(answer.text().starts_with("POST /order "));
}

#[test]
fn an_application_without_cookies_waits_and_goes_in_by_headers() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = flowing(&site, &directory, "");
    let mut tokens: Vec<(String, String)> = Vec::new();

    let answer = until("it is let in", || {
        let own = tokens
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let headers: Vec<(&str, &str)> = ASKS.into_iter().chain(own).collect();
        let answer = ask(gateway.clients, "GET", "/api/basket", &headers, b"");
        for name in ["tidegate-ticket", "tidegate-pass", "tidegate-device"] {
            if let Some(value) = answer.header(name) {
                tokens.retain(|(known, _)| known != name);
                tokens.push((name.to_owned(), value.to_owned()));
            }
        }
        (answer.status == 200).then_some(answer)
    });

    assert!(answer.header("tidegate-pass").is_some());
    let own = tokens
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let headers: Vec<(&str, &str)> = ASKS.into_iter().chain(own).collect();
    let next = ask(gateway.clients, "POST", "/api/order", &headers, b"");
    assert_eq!(told(&next, "tidegate-tier").as_deref(), Some("3"));
    // Nobody could say which of two that differ is meant.
    let ticket = tokens.iter().find(|(name, _)| name == "tidegate-ticket");
    let other = Browser::waiting(&gateway);
    let cookie = other
        .cookies
        .iter()
        .find(|(name, _)| name.ends_with("tgq-shop"));
    let (name, value) = cookie.unwrap();
    let cookie = format!("{name}={value}");
    let two = [
        ("tidegate-ticket", ticket.unwrap().1.as_str()),
        ("cookie", &cookie),
    ];
    assert_eq!(ask(gateway.clients, "GET", "/", &two, b"").status, 400);
}

#[test]
fn who_comes_too_late_is_told_so_and_is_called_again_at_the_same_place() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = flowing(&site, &directory, "claim_within = \"5s\"\n");
    let mut browser = Browser::waiting(&gateway);
    let place = browser.until_state(&gateway, "ready")["place"].clone();
    order(&gateway, &["hold"]);

    let missed = until("the turn is over", || {
        let me = browser.me(&gateway);
        (me["state"] != "ready").then_some(me)
    });

    assert_eq!(
        (&missed["state"], &missed["reason"]),
        (&"waiting".into(), &"missed".into())
    );
    assert_eq!(browser.claim(&gateway).status, 409);
    assert_eq!(browser.go(&gateway, "/").status, 503);
    order(&gateway, &["release", "--room", "shop"]);
    let ready = browser.until_state(&gateway, "ready");
    assert_eq!(ready["place"], place);
    assert_eq!(json(&browser.claim(&gateway))["state"], "passed");
}

#[test]
fn whose_turn_has_not_come_is_not_let_in_by_asking() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let room = format!("phase = \"queue-all\"\n{STANDS}");
    let gateway = site.gateway(&directory, "gw1", &room);
    let mut browser = Browser::waiting(&gateway);

    assert_eq!(browser.claim(&gateway).status, 409);

    assert_eq!(browser.cookie("tga-shop"), None);
    assert_eq!(browser.go(&gateway, "/").status, 503);
    let mut nobody = Browser::default();
    assert_ne!(nobody.post(&gateway, "claim").status, 200);
}

#[test]
fn who_needs_more_time_gets_it_as_often_as_is_configured() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = flowing(&site, &directory, "claim_within = \"1m\"\nmore_time = 2\n");
    let mut browser = Browser::waiting(&gateway);
    let ready = browser.until_state(&gateway, "ready");
    assert_eq!(ready["extensions_left"], 2);
    // So that the time is seen to be longer: it is counted from the request on.
    let before = until("some of it has passed", || {
        let left_ms = browser.me(&gateway)["left_ms"].as_u64().unwrap();
        (left_ms < 59_000).then_some(left_ms)
    });

    for left in [1, 0] {
        let more = json(&browser.post(&gateway, "more-time"));
        assert_eq!(
            (&more["state"], &more["extensions_left"]),
            (&"ready".into(), &left.into())
        );
        let left_ms = more["left_ms"].as_u64().unwrap();
        assert!(left_ms > before && left_ms <= 60_000, "{before} {left_ms}");
    }
    browser.post(&gateway, "more-time");

    let me = browser.me(&gateway);
    assert_eq!(
        (&me["state"], &me["extensions_left"]),
        (&"ready".into(), &0.into())
    );
    assert_eq!(json(&browser.claim(&gateway))["state"], "passed");
}

#[test]
fn who_leaves_is_nobody_that_others_wait_behind() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let room = format!("phase = \"hold\"\n{STANDS}");
    let gateway = site.gateway(&directory, "gw1", &room);
    let mut leaves = Browser::waiting(&gateway);
    let mut stays = Browser::waiting(&gateway);
    until("both count", || (waiting(&gateway)? == 2).then_some(()));
    assert_eq!(stays.me(&gateway)["ahead"], 1);

    assert_eq!(leaves.post(&gateway, "leave").status, 200);

    assert_eq!(leaves.cookie("tgq-shop"), None, "{:?}", leaves.cookies);
    until("one counts", || (waiting(&gateway)? == 1).then_some(()));
    assert_eq!(stays.me(&gateway)["ahead"], 0);
    assert_eq!(leaves.me(&gateway)["state"], "nobody");
}

#[test]
fn a_pass_is_good_for_nobody_and_nothing_else() {
    let (site, directory) = (Site::alone(), TempDir::new());
    // The other room is before what is outside this one, and has the same keys.
    let keys = directory.path().join("room.jwks").display().to_string();
    let gala = format!(
        "[[room]]\nname = \"gala\"\nroutes = [\"door\"]\nkey_file = \"{keys}\"\nphase = \"queue-all\"\n{STANDS}"
    );
    let gateway = flowing(&site, &directory, &gala);
    let mut browser = Browser::inside(&gateway);
    // From now on nobody goes in with a place of their own.
    order(&gateway, &["hold", "--room", "shop"]);
    let mut other = Browser::waiting(&gateway);
    assert_eq!(browser.go(&gateway, "/").status, 200);

    let mut copied = other.clone();
    copied.take("tga-shop", &browser);
    assert_eq!(copied.go(&gateway, "/").status, 503, "another device");
    let mut elsewhere = browser.clone();
    let pass = browser.cookie("tga-shop").unwrap().to_owned();
    elsewhere
        .cookies
        .insert("tga-gala".to_owned(), pass.clone());
    elsewhere.cookies.insert("__Host-tga-gala".to_owned(), pass);
    assert_eq!(
        elsewhere.go(&gateway, "/door/x").status,
        503,
        "another room"
    );

    // A place is none in another room either.
    let ticket = other.cookie("tgq-shop").unwrap().to_owned();
    other.cookies.insert("tgq-gala".to_owned(), ticket);
    let page = other.go(&gateway, "/door/x");
    assert_eq!(page.status, 503);
    assert!(
        given(&page, "tgq-gala").is_some(),
        "{:?}",
        set_cookies(&page)
    );

    order(&gateway, &["turn", "--room", "shop"]);
    until("the pass is of an earlier line", || {
        (browser.go(&gateway, "/").status == 503).then_some(())
    });
}

#[test]
fn a_pass_that_is_tied_to_a_session_is_good_with_it_alone() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = flowing(&site, &directory, "");
    let mut browser = Browser::default();
    let door = browser.go_where(&gateway, "/door/in", "Tidegate-Rotate: uid=7");
    assert_eq!(door.status, 200);
    browser.stand(&gateway);
    browser.until_state(&gateway, "ready");
    assert_eq!(browser.claim(&gateway).status, 200);
    assert_eq!(
        told(&browser.go(&gateway, "/"), "tidegate-uid").as_deref(),
        Some("7")
    );

    let mut thief = Browser::default();
    thief.take("tga-shop", &browser);
    thief.take("tgd", &browser);
    assert_eq!(thief.go(&gateway, "/").status, 503);

    assert_eq!(browser.go(&gateway, "/").status, 200);
}

#[test]
fn signing_in_and_out_inside_does_not_lead_back_to_the_line() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = flowing(&site, &directory, "");
    let mut browser = Browser::inside(&gateway);

    for says in [
        "Tidegate-Set: cart=c9",
        "Tidegate-Rotate: uid=7",
        "Tidegate-Set: cart=c10",
        "Tidegate-Rotate: uid=7;tier=gold",
    ] {
        let page = browser.go_where(&gateway, "/account", says);
        assert_eq!(page.status, 200, "{says}");
        for path in ["/", "/basket", "/.tidegate/v1/me/shop"] {
            assert_eq!(browser.go(&gateway, path).status, 200, "{says}: {path}");
        }
    }

    let page = browser.go(&gateway, "/");
    assert_eq!(told(&page, "tidegate-uid").as_deref(), Some("7"));
    assert_eq!(told(&page, "tidegate-attr-cart").as_deref(), Some("c10"));
    assert_eq!(browser.me(&gateway)["state"], "passed");
}

#[test]
fn the_application_ends_a_pass_or_makes_it_last_longer() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = flowing(&site, &directory, "pass_idle = \"1m\"\n");
    let mut browser = Browser::inside(&gateway);

    let page = browser.go_where(&gateway, "/pay-soon", "Tidegate-Command: extend=600");
    assert_eq!(page.status, 200);
    assert_eq!(page.header("tidegate-command"), None);
    let kept_s = kept_s(&page, "tga-shop").unwrap_or_else(|| panic!("{:?}", page.headers));
    assert!((590..=660).contains(&kept_s), "{kept_s}");
    assert_eq!(browser.go(&gateway, "/").status, 200);

    let page = browser.go_where(&gateway, "/thanks", "Tidegate-Command: end");
    assert_eq!(page.status, 200);
    assert_eq!(browser.cookie("tga-shop"), None, "{:?}", browser.cookies);
    assert_eq!(browser.go(&gateway, "/").status, 503);
}

#[test]
fn a_pass_brings_no_more_than_its_budget() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let budget = "pass_per_second = 1\npass_burst = 5\n";
    let gateway = flowing(&site, &directory, budget);
    let mut browser = Browser::inside(&gateway);

    let answers: Vec<Answer> = (0..20)
        .map(|_| browser.ask(&gateway, "GET", "/", &ASKS))
        .collect();

    let passed = answers.iter().filter(|answer| answer.status == 200);
    assert!((1..20).contains(&passed.count()));
    let spent = answers.iter().find(|answer| answer.status != 200).unwrap();
    assert_eq!(spent.status, 429, "{}", spent.text());
    assert!(spent.header("retry-after").is_some());
    // It is still good.
    until("there is budget again", || {
        (browser.go(&gateway, "/").status == 200).then_some(())
    });
}

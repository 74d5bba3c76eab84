//! No network, no server, no cookies.

use std::time::Duration;

use tidegate_core::room::Stage;

use crate::browser::{Browser, Wish};
use crate::site::Site;

#[test]
fn offline_is_said_the_place_is_kept_and_it_goes_on() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.go(&site.url("/"));
    browser.until_state("waiting");
    let sub = browser.text("sub");

    browser.offline(true);
    browser.until_text("head", "You are offline");
    assert!(browser.text("sub").starts_with("Your place is kept."));
    assert_eq!(browser.text("big"), "", "an old figure would be a guess");
    assert!(browser.text("seen").starts_with("Last checked at "));
    site.world().heard.clear();
    browser.offline(false);

    drop(site.until("a look", |world| world.count("room") >= 2));
    browser.until_state("waiting");
    assert_eq!(browser.text("sub"), sub);
    assert_eq!(site.world().people.len(), 1);
}

#[test]
fn a_server_that_does_not_answer_is_said_and_asked_ever_more_rarely() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.go(&site.url("/"));
    browser.until_state("waiting");

    site.world().is_up = false;
    browser.until_text("head", "We cannot reach the line right now");
    site.hears("room", 2);
    {
        let world = site.world();
        let waited = world.heard[1].at - world.heard[0].at;
        // What it asks for with Retry-After, which is more than the room's 0.3 s.
        assert!(waited >= Duration::from_millis(900), "{waited:?}");
    }
    site.world().is_up = true;

    browser.until_state("waiting");
    assert_eq!(site.world().people.len(), 1);
}

#[test]
fn without_cookies_it_is_explained_once_and_nothing_goes_round_in_circles() {
    let site = Site::start();
    let browser = Browser::wish(Wish {
        no_cookies: true,
        ..Wish::default()
    });

    browser.go(&site.url("/"));

    browser.until_state("nocookie");
    assert_eq!(browser.text("head"), "Please allow cookies");
    assert_eq!(browser.text("go"), "Try again");
    let heard = site.world().heard.len();
    // Ten intervals of a page that would go on asking.
    browser.run("window.over = false; setTimeout(() => window.over = true, 3000)");
    browser.until("window.over");
    assert_eq!(site.world().heard.len(), heard);
    assert_eq!(site.world().count("page"), 1);
}

#[test]
fn a_browser_that_says_that_it_takes_no_cookies_is_believed() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.go(&site.url("/elsewhere"));
    browser.cdp(
        "Emulation.setDocumentCookieDisabled",
        serde_json::json!({ "disabled": true }),
    );

    browser.go(&site.url("/"));

    browser.until_state("nocookie");
    assert_eq!(site.world().count("me"), 0);
}

#[test]
fn a_cookie_that_gets_lost_on_its_way_is_noticed_too() {
    let (site, browser) = (Site::start(), Browser::start());
    site.world().loses_cookies = true;

    browser.go(&site.url("/.tidegate/w/shop/page.html"));

    browser.until_state("nocookie");
    let world = site.world();
    assert_eq!((world.count("join"), world.count("me")), (1, 2));
}

#[test]
fn who_is_not_known_any_more_joins_again_by_themselves() {
    let (site, browser) = (Site::start(), Browser::start());
    // Of a CDN's page nobody has a place yet.
    browser.go(&site.url("/.tidegate/w/shop/page.html"));
    browser.until_state("waiting");
    assert_eq!(site.world().count("join"), 1);

    site.world().people.clear();
    site.world().poll.beat_s = 0.0;

    drop(site.until("a second join", |world| world.count("join") == 2));
    browser.until_state("waiting");
    assert_eq!(site.world().people.len(), 1);
}

#[test]
fn a_place_that_lapsed_is_said_and_can_be_taken_anew() {
    let (site, browser) = (Site::start(), Browser::start());
    site.world().poll.beat_s = 0.0;
    browser.go(&site.url("/"));
    browser.until_state("waiting");

    site.world().people[0].stage = Stage::Ghost;
    browser.until_state("ghost");
    assert_eq!(browser.text("head"), "Your place has lapsed");
    browser.click("#go");

    browser.until_state("waiting");
    assert_eq!(site.world().people.len(), 2);
}

//! It is somebody's turn.

use std::time::Duration;

use crate::browser::Browser;
use crate::site::Site;

const KEPT: Duration = Duration::from_secs(300);

/// A browser that waits at `/basket` and then is called.
fn called(site: &Site, browser: &Browser) {
    browser.go(&site.url("/basket"));
    browser.until_state("waiting");
    {
        let mut world = site.world();
        world.poll.beat_s = 0.0;
        world.call(KEPT);
    }
    browser.until_state("ready");
}

#[test]
fn a_call_has_a_button_a_deadline_and_is_said_at_once() {
    let (site, browser) = (Site::start(), Browser::start());

    called(&site, &browser);

    assert_eq!(browser.text("head"), "It is your turn");
    assert_eq!(browser.text("go"), "Continue");
    assert!(
        browser
            .text("until_text")
            .starts_with("Your turn is kept until ")
    );
    assert!(
        browser
            .text("auto_left")
            .starts_with("Continuing by itself in ")
    );
    assert_eq!(
        browser.eval("document.title"),
        "● It is your turn · Harbour Records"
    );
    assert!(
        browser
            .eval("document.getElementById('called').textContent")
            .as_str()
            .unwrap()
            .starts_with("It is your turn.")
    );
    assert_eq!(
        browser.eval("document.activeElement === document.body"),
        true,
        "the focus is not taken"
    );

    browser.click("#go");
    browser.until("document.getElementById('shop').textContent === '/basket'");
    assert_eq!(site.world().count("claim"), 1);
}

#[test]
fn it_goes_on_by_itself_after_twenty_seconds() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.hurry(10);

    called(&site, &browser);
    let from = site.world().now_ms();

    browser.until("document.getElementById('shop')");
    let taken = site.world().now_ms() - from;
    assert!(
        (1_500..6_000).contains(&taken),
        "twenty seconds in a tenth of their time: {taken} ms"
    );
}

#[test]
fn who_needs_time_stops_it_and_gets_more_with_the_keyboard_alone() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.hurry(4);
    called(&site, &browser);
    let left = "document.getElementById('until_text').textContent";
    let before = browser.eval(left);
    let (tab, enter) = ('\u{e004}', '\u{e007}');

    // Continue, Do not continue by itself.
    browser.press(tab);
    browser.press(tab);
    assert_eq!(browser.eval("document.activeElement.id"), "stop");
    browser.press(enter);
    browser.until("document.getElementById('auto').hidden");
    assert_eq!(
        browser.eval("document.activeElement.id"),
        "go",
        "the focus is not lost with the button"
    );
    browser.press(tab);
    assert_eq!(browser.eval("document.activeElement.id"), "more");
    browser.press(enter);
    browser.until(&format!("{left} !== {before}"));

    // Far longer than twenty hurried seconds.
    site.hears("me", 5);
    browser.run("window.over = false; setTimeout(() => window.over = true, 40000)");
    browser.until("window.over");
    assert_eq!(browser.text("head"), "It is your turn");
    let world = site.world();
    assert_eq!((world.count("more-time"), world.count("claim")), (0, 0));
    drop(world);
    assert_eq!(site.world().people[0].extensions_left, 1);
}

#[test]
fn a_call_that_was_missed_is_said_and_the_place_is_kept() {
    let (site, browser) = (Site::start(), Browser::start());
    called(&site, &browser);
    browser.click("#stop");

    site.world().call(Duration::ZERO);

    browser.until_state("waiting");
    assert_eq!(
        browser.text("notes"),
        "Your turn came and went. Your place is kept, and you will be called again."
    );
    assert_eq!(site.world().people.len(), 1);
}

#[test]
fn who_is_told_to_wait_at_the_door_gets_in_without_doing_anything() {
    let (site, browser) = (Site::start(), Browser::start());
    called(&site, &browser);
    site.world().claims_are_late = true;

    browser.click("#go");
    browser.until_text("go", "Letting you in…");
    drop(site.until("two claims", |world| world.count("claim") >= 2));
    site.world().claims_are_late = false;

    browser.until("document.getElementById('shop')");
}

#[test]
fn a_form_is_sent_once_and_whole_when_its_turn_comes() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.go(&site.url("/elsewhere"));
    browser.click("button");
    browser.until_state("waiting");
    assert!(
        browser
            .told()
            .contains("What you entered has not been sent yet.")
    );
    assert_eq!(site.world().orders, Vec::<String>::new());

    {
        let mut world = site.world();
        world.poll.beat_s = 0.0;
        world.call(KEPT);
    }
    browser.until_state("ready");
    browser.click("#go");

    browser.until("document.getElementById('shop').textContent === '/order'");
    assert_eq!(site.world().orders, ["what=7"]);
}

#[test]
fn from_a_cdn_the_fragment_says_where_to_go_and_never_to_another_site() {
    let browser = Browser::start();
    for (fragment, to) in [
        ("#/basket?item=7", "/basket"),
        ("#//evil.example/", "/"),
        ("#https://evil.example/", "/"),
        ("#/\\evil.example", "/"),
        ("", "/"),
    ] {
        let site = Site::start();
        browser.cdp("Network.clearBrowserCookies", serde_json::json!({}));
        browser.go(&site.url(&format!("/.tidegate/w/shop/page.html{fragment}")));
        browser.until_state("waiting");
        {
            let mut world = site.world();
            world.poll.beat_s = 0.0;
            world.call(KEPT);
        }
        browser.until_state("ready");

        browser.click("#go");

        browser.until("document.getElementById('shop')");
        assert_eq!(browser.eval("location.pathname"), to, "{fragment}");
        let host = browser.eval("location.host");
        assert!(host.as_str().unwrap().starts_with("localhost:"));
    }
}

#[test]
fn going_in_with_one_tab_leaves_the_others_to_their_reader() {
    let (site, browser) = (Site::start(), Browser::start());
    let first = browser.tab();
    browser.go(&site.url("/one"));
    browser.until_state("waiting");
    let second = browser.new_tab();
    browser.switch(&second);
    called(&site, &browser);

    browser.click("#go");
    browser.until("document.getElementById('shop')");
    browser.switch(&first);

    browser.until_state("in");
    assert_eq!(browser.text("head"), "You have been let in");
    browser.click("#go");
    browser.until("document.getElementById('shop').textContent === '/one'");
}

#[test]
fn who_leaves_is_asked_once_and_can_come_back() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.go(&site.url("/"));
    browser.until_state("waiting");

    browser.click("#leave");
    assert_eq!(browser.eval("document.activeElement.id"), "stay");
    browser.click("#stay");
    assert_eq!(site.world().count("leave"), 0);
    browser.click("#leave");
    browser.click("#really");

    browser.until_state("left");
    assert_eq!(site.world().count("leave"), 1);
    browser.click("#go");
    browser.until_state("waiting");
    assert_eq!(site.world().people.len(), 2);
}

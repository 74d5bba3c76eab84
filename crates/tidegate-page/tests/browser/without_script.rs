//! Visitors whose browser runs no script.

use serde_json::json;
use tidegate_core::room::Stage;

use crate::browser::Browser;
use crate::site::Site;

fn without_script() -> Browser {
    let browser = Browser::start();
    browser.cdp(
        "Emulation.setScriptExecutionDisabled",
        json!({ "value": true }),
    );
    browser
}

#[test]
fn without_script_the_page_explains_checks_when_asked_and_lets_in() {
    let (site, browser) = (Site::start(), without_script());

    browser.go(&site.url("/basket"));

    let told = browser.told();
    assert!(told.contains("You are in line"), "{told}");
    assert!(told.contains("This page checks by itself every 30 seconds. Your place is kept."));
    assert_eq!(
        browser.eval("document.querySelectorAll('button:not([hidden] *)').length"),
        0,
        "nothing that does nothing"
    );
    browser.click("noscript a.main");
    // A click has gone before the page has.
    let world = site.until("it is asked for again", |world| world.count("page") > 1);
    assert_eq!((world.people.len(), world.count("page")), (1, 2));
    drop(world);

    site.world().people[0].stage = Stage::Passed;
    browser.click("noscript a.main");
    browser.until("document.getElementById('shop').textContent === '/basket'");
}

#[test]
fn without_script_the_refreshing_can_be_stopped() {
    let (site, browser) = (Site::start(), without_script());
    browser.go(&site.url("/basket"));
    assert_eq!(
        browser.eval("document.querySelectorAll('meta[http-equiv=refresh]').length"),
        1
    );

    browser.click("noscript a:not(.main)");

    browser.until("location.pathname === '/.tidegate/v1/nojs/shop'");
    assert_eq!(
        browser.eval("document.querySelectorAll('meta[http-equiv=refresh]').length"),
        0
    );
    assert!(browser.told().contains("no longer checks by itself"));
    site.world().people[0].stage = Stage::Passed;
    browser.click("a.main");
    browser.until("document.getElementById('shop').textContent === '/'");
}

#[test]
fn without_script_a_form_is_not_lost() {
    let (site, browser) = (Site::start(), without_script());
    browser.go(&site.url("/elsewhere"));
    browser.click("button");

    browser.until("document.body.innerText.includes('What you entered has not been sent yet.')");
    let told = browser.told();
    assert!(told.contains("reload this page"), "{told}");
    assert_eq!(
        browser.eval("document.querySelectorAll('meta[http-equiv=refresh]').length"),
        0
    );
    assert_eq!(
        browser.eval("document.querySelectorAll('main a').length"),
        0,
        "a link would lose it"
    );

    site.world().people[0].stage = Stage::Passed;
    browser.reload();
    browser.until("document.getElementById('shop').textContent === '/order'");
    assert_eq!(site.world().orders, ["what=7"]);
}

//! For everybody: what a screen reader says, contrast, size, and what axe-core finds.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tidegate_core::room::{Phase, Stage};
use tidegate_page::Language;
use tidegate_page::document::{Event, Reason};

use crate::browser::{Browser, Wish};
use crate::site::Site;

/// axe-core, as tools/setup.sh fetches it.
fn axe() -> String {
    let file = std::env::var_os("TIDEGATE_AXE").map_or_else(
        || {
            let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
            root.join(".test-tools/axe-core-4.14.1/package/axe.min.js")
        },
        PathBuf::from,
    );
    std::fs::read_to_string(&file).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; `. tools/setup.sh && find_axe` fetches it",
            file.display()
        )
    })
}

/// What axe-core has against the page as it is.
fn complaints(browser: &Browser, axe: &str) -> serde_json::Value {
    browser.run(&format!(
        "{axe}; return window.axe.run(document, {{ resultTypes: ['violations'] }}).then(found => found.violations.map(
            violation => violation.id + ': ' + violation.nodes.map(node => node.html + ' ' + node.failureSummary).join('; ')));"
    ))
}

/// Brings a browser that waits into each state that there is, one after the other.
fn through_states(site: &Site, browser: &Browser, mut each: impl FnMut(&str)) {
    {
        let mut world = site.world();
        *world = world.anew();
        world.poll.beat_s = 0.0;
        world.stock = Some(10);
    }
    browser.cdp("Network.clearBrowserCookies", json!({}));
    browser.go(&site.url("/"));
    browser.until_state("waiting");
    each("waiting");
    browser.click("#leave");
    each("asked whether to leave");
    browser.click("#stay");
    site.world().eta.clear();
    browser.until_state("paused");
    each("paused");
    site.world().phase = Phase::Prequeue;
    let starts_ms = site.world().now_ms() + 900_000;
    site.world().event = Some(Event {
        starts_ms,
        entrants: 3,
        draw: true,
        commitment: None,
    });
    browser.until_state("prequeue");
    each("prequeue");
    site.world().phase = Phase::Closed;
    site.world().reason = Some(Reason::SoldOut);
    browser.until_state("closed");
    each("closed");
    site.world().phase = Phase::Auto;
    site.world().is_up = false;
    browser.until_state("away");
    each("away");
    site.world().is_up = true;
    site.world().call(Duration::from_secs(300));
    browser.until_state("ready");
    each("ready");
    browser.click("#stop");
    each("ready and stopped");
    site.world().people[0].stage = Stage::Ghost;
    browser.until_state("ghost");
    each("ghost");
}

#[test]
fn axe_finds_nothing_in_any_state_in_the_light_and_in_the_dark() {
    let (site, browser, axe) = (Site::start(), Browser::start(), axe());
    for (language, scheme) in [
        ("en", "light"),
        ("en", "dark"),
        ("ar", "light"),
        ("ar", "dark"),
    ] {
        browser.language(language);
        browser.scheme(scheme);
        through_states(&site, &browser, |state| {
            let found = complaints(&browser, &axe);
            assert_eq!(found, json!([]), "{state}, {language}, {scheme}");
        });
    }
}

#[test]
fn pages_without_script_are_clean_too() {
    let (site, browser, axe) = (Site::start(), Browser::start(), axe());
    for scheme in ["light", "dark"] {
        browser.scheme(scheme);
        browser.go(&site.url("/.tidegate/v1/nojs/shop"));
        assert_eq!(complaints(&browser, &axe), json!([]), "{scheme}");
    }
}

#[test]
fn only_a_new_range_is_read_aloud_and_at_most_once_a_minute() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.hurry(60);
    browser.before_pages(
        "window.spoken = [];
         addEventListener('DOMContentLoaded', () => new MutationObserver(() =>
             spoken.push([performance.now(), document.getElementById('spoken').textContent]))
             .observe(document.getElementById('spoken'), { childList: true, characterData: true, subtree: true }));",
    );
    {
        // Once in 30 of the page's seconds.
        let mut world = site.world();
        (world.poll.least_s, world.poll.most_s) = (30.0, 30.0);
    }
    browser.go(&site.url("/"));
    browser.until_state("waiting");
    assert_eq!(browser.eval("spoken.length"), 1);
    let first = browser.eval("spoken[0][1]");
    assert_eq!(
        first,
        "You are in line. About 12–16 min. About 5,000 people are ahead of you"
    );

    // Another position in the same range is nothing new.
    site.world().newcomer.1 = tidegate_core::room::Place(0);
    for ahead in [4_900, 4_800, 4_700] {
        site.world().positions.tiers[2].places.drain(..1);
        site.world().positions.tiers[2].waiting -= 100;
        browser.until_text(
            "sub",
            &format!("About {},{:03}", ahead / 1_000, ahead % 1_000),
        );
    }
    assert_eq!(browser.eval("spoken.length"), 1);

    // Another range with every look, twice a minute.
    for minutes in 1..=14_u64 {
        site.world().eta = vec![
            [0, 0, 0, 0],
            [4_700, minutes * 600 - 60, minutes * 600, minutes * 600 + 60],
        ];
        site.hears("room", 2);
    }
    let times = browser.eval("spoken.map(each => each[0])");
    let times: Vec<f64> = times
        .as_array()
        .unwrap()
        .iter()
        .map(|time| time.as_f64().unwrap())
        .collect();
    assert!(times.len() >= 4, "{times:?}");
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= 60_000.0, "{times:?}");
    }
    assert_eq!(
        browser.eval("document.activeElement === document.body"),
        true
    );
}

#[test]
fn twice_as_large_text_fits_a_phone() {
    let site = Site::start();
    let browser = Browser::wish(Wish {
        width: 500,
        height: 800,
        ..Wish::default()
    });
    browser.cdp(
        "Emulation.setDeviceMetricsOverride",
        json!({ "width": 360, "height": 640, "deviceScaleFactor": 1, "mobile": false }),
    );
    site.world().poll.beat_s = 0.0;
    site.world().stock = Some(10);
    let fits = "document.documentElement.scrollWidth <= 360";
    for language in Language::ALL {
        browser.language(language.tag());
        browser.go(&site.url("/"));
        browser.until_state("waiting");
        browser.run("document.documentElement.style.fontSize = '200%'");
        assert_eq!(browser.eval(fits), true, "{language}");
        site.world().call(Duration::from_secs(300));
        browser.until_state("ready");
        assert_eq!(browser.eval(fits), true, "{language}");
        site.world().people[0].stage = Stage::Waiting;
    }
}

#[test]
fn motion_stops_for_those_who_asked_for_that() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.cdp(
        "Emulation.setEmulatedMedia",
        json!({ "features": [{ "name": "prefers-reduced-motion", "value": "reduce" }] }),
    );
    browser.go(&site.url("/"));
    browser.until_state("waiting");

    assert_eq!(
        browser.eval("getComputedStyle(document.getElementById('fill')).transitionDuration"),
        "0s"
    );
}

/// It leaves a picture of every state to look at, in `pictures` of Cargo's folder for tests.
#[test]
fn nothing_is_wider_than_its_screen_in_any_state() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pictures");
    std::fs::create_dir_all(&folder).unwrap();
    let (site, browser) = (Site::start(), Browser::start());
    for (name, width, height, mobile) in [("phone", 390, 844, true), ("desktop", 1_280, 800, false)]
    {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
        browser.cdp("Emulation.setDeviceMetricsOverride", metrics);
        for (language, scheme) in [
            ("en", "light"),
            ("de", "dark"),
            ("ar", "light"),
            ("he", "dark"),
        ] {
            browser.language(language);
            browser.scheme(scheme);
            through_states(&site, &browser, |state| {
                // Not of the window, which grows on a phone with what is too wide for it.
                let wide = browser.eval("document.documentElement.scrollWidth");
                assert!(
                    wide.as_i64() <= Some(width),
                    "{wide}: {name} {language} {state}"
                );
                let file = format!("{name}-{language}-{scheme}-{}.png", state.replace(' ', "-"));
                std::fs::write(folder.join(file), browser.screenshot()).unwrap();
            });
        }
    }
}

//! Several tabs, and tabs that nobody looks at.

use std::time::Duration;

use tidegate_core::room::Place;

use crate::browser::Browser;
use crate::site::Site;

#[test]
fn of_five_tabs_one_asks_and_all_show_it() {
    let (site, browser) = (Site::start(), Browser::start());
    let mut tabs = vec![browser.tab()];
    browser.go(&site.url("/"));
    browser.until_state("waiting");
    for _ in 0..4 {
        let tab = browser.new_tab();
        browser.switch(&tab);
        browser.go(&site.url("/"));
        browser.until_state("waiting");
        tabs.push(tab);
    }
    assert_eq!(site.world().people.len(), 1);

    site.hears("room", 8);
    let world = site.world();
    let rooms: Vec<_> = world
        .heard
        .iter()
        .filter(|heard| heard.what == "room")
        .collect();
    // Every 0.3 s: five that ask would be through in 0.42 s.
    let taken = rooms[7].at - rooms[0].at;
    assert!(taken > Duration::from_millis(1_800), "{taken:?}");
    drop(world);

    // Half of those before them have gone in.
    {
        let mut world = site.world();
        let marks = &mut world.positions.tiers[2];
        marks.places.drain(..25);
        marks.waiting -= 2_500;
    }
    for tab in &tabs {
        browser.switch(tab);
        browser.until_text("sub", "About 2,500 people");
    }

    // Whichever of them asked: when it is closed, another one does.
    for tab in &tabs[..4] {
        browser.switch(tab);
        browser.close_tab();
        browser.switch(&tabs[4]);
        site.hears("room", 3);
    }
}

#[test]
fn a_tab_that_nobody_looks_at_only_gives_signs_of_life() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.before_pages(
        "{ let seen = 'visible';
           Object.defineProperty(document, 'visibilityState', { get: () => seen });
           Object.defineProperty(document, 'hidden', { get: () => seen === 'hidden' });
           window.look = state => { seen = state; document.dispatchEvent(new Event('visibilitychange')); }; }",
    );
    browser.go(&site.url("/"));
    browser.until_state("waiting");
    {
        let mut world = site.world();
        world.poll.beat_s = 0.5;
    }
    site.hears("room", 2);

    browser.run("look('hidden')");
    // The look that is under way may still come in.
    site.hears("me", 2);
    site.hears("me", 4);

    let world = site.world();
    assert_eq!(world.count("room"), 0, "{:?}", world.heard);
    assert!(world.heard.iter().all(|heard| !heard.is_visible));
    drop(world);

    // Back again: at once, not when the next sign of life is due.
    site.world().poll.beat_s = 600.0;
    browser.run("look('visible')");
    site.hears("room", 2);
    site.world().people[0].place = Place(4_000_000);
    assert_eq!(site.world().people.len(), 1);
}

#[test]
fn a_tab_whose_reader_looks_at_it_takes_over_from_one_that_is_hidden() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.before_pages(
        "{ let seen = 'visible';
           Object.defineProperty(document, 'hidden', { get: () => seen === 'hidden' });
           window.look = state => { seen = state; document.dispatchEvent(new Event('visibilitychange')); }; }",
    );
    let first = browser.tab();
    browser.go(&site.url("/"));
    browser.until_state("waiting");
    let second = browser.new_tab();
    browser.switch(&second);
    browser.go(&site.url("/elsewhere"));
    let asking =
        "navigator.locks.query().then(locks => locks.held.length && locks.held[0].clientId)";
    let before = browser.eval(asking);
    browser.switch(&first);
    browser.run("look('hidden')");
    browser.switch(&second);
    browser.before_pages(
        "{ let seen = 'hidden';
           Object.defineProperty(document, 'hidden', { get: () => seen === 'hidden' });
           window.look = state => { seen = state; document.dispatchEvent(new Event('visibilitychange')); }; }",
    );
    browser.go(&site.url("/"));
    browser.until("document.getElementById('main')");
    assert_eq!(
        browser.eval(asking),
        before,
        "a hidden tab takes nothing over"
    );

    browser.run("look('visible')");

    browser.until_state("waiting");
    site.hears("room", 3);
    assert_ne!(browser.eval(asking), before);
    assert_eq!(site.world().people.len(), 1);
}

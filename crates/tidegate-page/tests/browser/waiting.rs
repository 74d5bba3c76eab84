//! Somebody waits: where they stand, how long it may take, and what becomes of that when they reload, go away and come back.

use tidegate_core::rng::Rng;
use tidegate_core::room::{Order, Place, Tier};

use crate::browser::Browser;
use crate::site::{Site, World};

#[test]
fn a_visitor_sees_how_many_are_ahead_and_a_range_of_minutes() {
    let (site, browser) = (Site::start(), Browser::start());

    browser.go(&site.url("/basket?item=7"));

    browser.until_state("waiting");
    assert_eq!(browser.text("head"), "You are in line");
    assert_eq!(browser.text("big"), "About 12–16 min");
    assert_eq!(browser.text("sub"), "About 5,000 people are ahead of you");
    assert_eq!(
        browser.eval("document.title"),
        "About 12–16 min · Harbour Records"
    );
    assert_eq!(
        browser.eval("location.pathname + location.search"),
        "/basket?item=7"
    );
    let world = site.world();
    assert_eq!(
        (world.people.len(), world.count("page"), world.count("join")),
        (1, 1, 0)
    );
}

#[test]
fn the_range_changes_only_when_it_is_no_longer_true_and_says_why_it_grew() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.go(&site.url("/"));
    browser.until_state("waiting");

    // Likely are 14 minutes; 12.5 and 15.5 are still what is shown.
    for part in [125, 155] {
        scale(&mut site.world(), part);
        site.hears("room", 2);
        assert_eq!(browser.text("big"), "About 12–16 min");
        assert_eq!(browser.text("notes"), "");
    }
    scale(&mut site.world(), 100);
    browser.until_text("big", "About 8–12 min");
    assert_eq!(browser.text("notes"), "");
    scale(&mut site.world(), 200);
    browser.until_text("big", "About 17–23 min");
    assert_eq!(
        browser.text("notes"),
        "The line is moving more slowly than before, so the wait has become longer."
    );
}

/// Has those who stand where newcomers stand wait for about `tenths` tenths of a minute.
fn scale(world: &mut World, tenths: u64) {
    let likely = tenths * 6;
    world.eta = vec![
        [0, 0, 0, 0],
        [5_000, likely * 86 / 100, likely, likely * 114 / 100],
    ];
}

#[test]
fn the_page_counts_as_the_gateway_does() {
    let (site, browser) = (Site::start(), Browser::start());
    site.world().poll.near = 0;
    browser.go(&site.url("/"));
    browser.until_state("waiting");
    let mut rng = Rng::new(11);

    for round in 0..40 {
        let mut world = site.world();
        for marks in &mut world.positions.tiers {
            let count = rng.below(60);
            marks.step = 50 + rng.below(900);
            marks.waiting = (count * marks.step).saturating_sub(rng.below(marks.step));
            let mut places: Vec<_> = (0..count)
                .map(|_| Place(rng.below(9_000_000_000)))
                .collect();
            places.sort_unstable();
            places.dedup();
            marks.waiting = marks.waiting.min(places.len() as u64 * marks.step);
            marks.places = places;
        }
        world.positions.order = match round % 2 {
            0 => Order::Strict,
            _ => Order::Credit([rng.below(2_000_000), rng.below(900_000), 0]),
        };
        let tier = Tier::ALL[rng.below(3) as usize];
        let place = Place(rng.below(9_000_000_000));
        (world.people[0].tier, world.people[0].place) = (tier, place);
        // So that the page asks for its own place again.
        world.poll.beat_s = 0.0;
        let exact = world.positions.ahead(tier, place);
        let steps = world.positions.tiers.iter();
        let step = steps
            .map(|marks| if marks.waiting > 0 { marks.step } else { 1 })
            .max()
            .unwrap();
        drop(world);
        let unit = 10_u64.pow(step.ilog10());
        let told = if step == 1 {
            exact
        } else {
            exact.div_ceil(unit) * unit
        };

        site.hears("me", 2);
        let sub = "document.getElementById('sub').textContent.replace(/\\D/g, '')";
        browser.until(&format!(
            "{sub} === '{}'",
            if told == 0 {
                String::new()
            } else {
                told.to_string()
            }
        ));
    }
}

#[test]
fn reloading_fifty_times_keeps_the_place() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.go(&site.url("/"));
    browser.until_state("waiting");
    let (sub, since) = (browser.text("sub"), browser.text("since"));
    site.world().newcomer.1 = Place(9_900_000);

    for _ in 0..50 {
        browser.reload();
        browser.until_state("waiting");
        assert_eq!(
            (browser.text("sub"), browser.text("since")),
            (sub.clone(), since.clone())
        );
    }

    let world = site.world();
    assert_eq!(world.people.len(), 1);
    assert_eq!(world.count("page"), 51);
}

#[test]
fn near_the_front_the_position_is_exact_and_the_bar_shows_the_way_behind() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.go(&site.url("/"));
    browser.until_state("waiting");
    let width = "document.getElementById('fill').style.width";
    assert_eq!(browser.eval(width), "0%");

    // A fifth of those before are left.
    site.world().people[0].place = Place(5_000_000);
    {
        let mut world = site.world();
        let marks = &mut world.positions.tiers[2];
        marks.places.drain(..40);
        marks.waiting -= 4_000;
    }
    browser.until(&format!("{width} === '80%'"));
    {
        let mut world = site.world();
        world.poll.near = 2_000;
        world.ahead = Some(3);
    }
    browser.until_text("sub", "3 people are ahead of you");
    site.world().ahead = Some(1);
    browser.until_text("sub", "1 person is ahead of you");
    site.world().ahead = Some(0);
    browser.until_text("sub", "You are next");
}

#[test]
fn going_on_and_coming_back_keeps_the_place() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.go(&site.url("/"));
    browser.until_state("waiting");
    let sub = browser.text("sub");

    browser.go(&site.url("/elsewhere"));
    browser.until("document.title === 'Elsewhere'");
    browser.back();

    browser.until_state("waiting");
    assert_eq!(browser.text("sub"), sub);
    site.hears("room", 3);
    assert_eq!(site.world().people.len(), 1);
}

#[test]
fn a_page_that_the_browser_kept_goes_on_where_it_was() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.go(&site.url("/.tidegate/w/shop/page.html"));
    browser.until_state("waiting");
    browser.run("window.kept = true");

    browser.go(&site.url("/elsewhere"));
    browser.until("document.title === 'Elsewhere'");
    browser.back();

    browser.until("window.kept && document.getElementById('main').dataset.state === 'waiting'");
    site.hears("room", 3);
    let world = site.world();
    assert_eq!((world.people.len(), world.count("join")), (1, 0));
    drop(world);
}

#[test]
fn a_page_that_comes_out_of_the_browsers_memory_goes_on_as_one() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.go(&site.url("/"));
    browser.until_state("waiting");

    // What a browser does when it keeps a page, and takes it out again.
    browser.run("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))");
    let quiet =
        "new Promise(done => navigator.locks.query().then(locks => done(locks.held.length)))";
    browser.until("navigator.locks !== undefined");
    assert_eq!(browser.eval(quiet), 0);
    site.world().heard.clear();
    browser.run("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))");

    drop(site.until("a look at once, and more", |world| world.count("room") >= 4));
    let world = site.world();
    let rooms: Vec<_> = world
        .heard
        .iter()
        .filter(|heard| heard.what == "room")
        .collect();
    let taken = rooms[3].at - rooms[0].at;
    // Every 0.3 s; two that ask would be through in half the time.
    assert!(taken.as_secs_f64() > 0.75, "{taken:?}");
    assert_eq!(world.people.len(), 1);
}

#[test]
fn a_visitors_clock_says_nothing() {
    for day in ["-864e5", "864e5"] {
        let (site, browser) = (Site::start(), Browser::start());
        browser.before_pages(&format!(
            "{{ const real = Date.now; Date.now = () => real() + {day}; }}"
        ));
        {
            let mut world = site.world();
            world.phase = tidegate_core::room::Phase::Prequeue;
            let starts_ms = world.now_ms() + 20 * 60_000;
            world.event = Some(tidegate_page::document::Event {
                starts_ms,
                entrants: 9,
                draw: false,
                commitment: None,
            });
        }

        browser.go(&site.url("/"));

        browser.until_state("prequeue");
        assert_eq!(browser.text("big"), "20 minutes");
    }
}

//! What a room can be, besides a line that moves.

use tidegate_core::room::Phase;
use tidegate_page::Language;
use tidegate_page::document::{Event, Reason};

use crate::browser::Browser;
use crate::site::{EPOCH, Site};

#[test]
fn a_line_that_stands_has_no_figure_and_says_since_when() {
    let (site, browser) = (Site::start(), Browser::start());
    {
        let mut world = site.world();
        world.eta.clear();
        world.paused_since_ms = Some(EPOCH.0);
    }

    browser.go(&site.url("/"));

    browser.until_state("paused");
    assert_eq!(browser.text("head"), "The line is paused");
    assert_eq!(browser.text("big"), "");
    assert_eq!(browser.text("sub"), "About 5,000 people are ahead of you");
    assert!(
        browser
            .text("notes")
            .starts_with("Nobody has been let in since ")
    );

    site.world().phase = Phase::Hold;
    site.world().paused_since_ms = None;
    browser.until_text("notes", "Nobody is being let in at the moment.");
    assert_eq!(browser.text("big"), "");
}

#[test]
fn before_a_start_there_is_a_countdown_and_no_position() {
    let (site, browser) = (Site::start(), Browser::start());
    {
        let mut world = site.world();
        world.phase = Phase::Prequeue;
        let starts_ms = world.now_ms() + 3 * 60_000 - 500;
        world.event = Some(Event {
            starts_ms,
            entrants: 12_345,
            draw: true,
            commitment: Some("00".repeat(32)),
        });
    }

    browser.go(&site.url("/"));

    browser.until_state("prequeue");
    assert_eq!(browser.text("head"), "Time until the start");
    assert_eq!(browser.text("big"), "3 minutes");
    assert!(
        browser
            .text("notes")
            .starts_with("12,345 people are waiting for the start.")
    );
    assert!(browser.text("notes").contains("drawn by lot"));
    assert!(!browser.told().contains("ahead of you"));

    {
        let mut world = site.world();
        let starts_ms = world.now_ms() + 2_000;
        world.event.as_mut().unwrap().starts_ms = starts_ms;
    }
    browser.until_text("head", "It is about to start");
    site.world().phase = Phase::Auto;
    site.world().event = None;
    browser.until_text("sub", "About 5,000 people are ahead of you");
}

#[test]
fn what_is_sold_out_or_over_is_said_and_nothing_is_promised() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.go(&site.url("/"));
    browser.until_state("waiting");

    for (reason, head) in [
        (Reason::SoldOut, "Sold out"),
        (Reason::Ended, "This has ended"),
    ] {
        site.world().phase = Phase::Closed;
        site.world().reason = Some(reason);
        browser.until_text("head", head);
        assert!(!browser.told().contains("ahead of you"));
        assert_eq!(browser.text("calm"), "");
    }
    // It opens again: nobody has lost anything.
    site.world().phase = Phase::Auto;
    browser.until_state("waiting");
    assert_eq!(site.world().people.len(), 1);
}

#[test]
fn less_left_than_people_ahead_is_said_with_numbers() {
    let (site, browser) = (Site::start(), Browser::start());
    site.world().stock = Some(2_500);
    browser.go(&site.url("/"));

    browser.until_text("notes", "Left: 2,500. People ahead of you: 5,000.");
    site.world().stock = Some(6_000);
    browser.until("document.getElementById('notes').hidden");
}

#[test]
fn long_waits_are_told_in_hours_and_never_beyond_a_day() {
    let (site, browser) = (Site::start(), Browser::start());
    site.world().eta = vec![[0, 0, 0, 0], [5_000, 7_300, 9_000, 10_700]];
    browser.go(&site.url("/"));
    browser.until_text("big", "About 2–3 hours");

    site.world().eta = vec![[0, 0, 0, 0], [5_000, 90_000, 100_000, 130_000]];
    browser.until_text("big", "More than a day");
    site.world().eta = vec![[0, 0, 0, 0], [5_000, 10, 20, 55]];
    browser.until_text("big", "Less than a minute");
}

#[test]
fn what_the_operator_says_is_shown_as_text_in_the_readers_language() {
    let (site, browser) = (Site::start(), Browser::start());
    let says = [
        (Language::De, "Hallo".to_owned()),
        (Language::En, "Doors at 8 <b>pm</b>".to_owned()),
    ];
    site.world().message = Some(says.into());
    browser.go(&site.url("/"));

    browser.until_text("message", "Doors at 8 <b>pm</b>");
    assert_eq!(
        browser.eval("document.querySelectorAll('#message *').length"),
        0
    );
    site.world().message = Some([(Language::Ja, "こんにちは".to_owned())].into());
    browser.until_text("message", "こんにちは");
    assert_eq!(
        browser.eval("document.getElementById('message').lang"),
        "ja"
    );
    site.world().message = None;
    browser.until("document.getElementById('message').hidden");
}

#[test]
fn a_room_that_is_switched_off_lets_everybody_in() {
    let (site, browser) = (Site::start(), Browser::start());
    browser.go(&site.url("/basket"));
    browser.until_state("waiting");

    site.world().phase = Phase::Off;

    browser.until("document.getElementById('shop').textContent === '/basket'");
}

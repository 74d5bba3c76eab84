//! Who goes before whom, and a line that several gateways show.

use serde_json::Value;

use crate::client::get;
use crate::process::{TempDir, Tidegate};
use crate::rooms_visitor::{Browser, FLOWS, STANDS, Site, document, order, told, until, waiting};

/// Somebody who was signed in as `uid` with a cart, and is back: all that their browser has kept is that there is something to
/// go on with.
fn returning(gateway: &Tidegate, uid: &str) -> Browser {
    let mut before = Browser::default();
    before.go_where(gateway, "/door/in", &format!("Tidegate-Rotate: uid={uid}"));
    before.go_where(gateway, "/door/cart", "Tidegate-Set: cart=c9");
    until("it is noted that there is a cart", || {
        before.go(gateway, "/door/x");
        before.cookie("tg_resume").map(|_| ())
    });
    let mut browser = Browser::default();
    browser.take("tg_resume", &before);
    browser
}

fn signed_in(gateway: &Tidegate, uid: &str) -> Browser {
    let mut browser = Browser::default();
    browser.go_where(gateway, "/door/in", &format!("Tidegate-Rotate: uid={uid}"));
    browser
}

/// Waits until exactly so many are ahead.
fn until_ahead(gateway: &Tidegate, browser: &mut Browser, ahead: u64) -> Value {
    until(&format!("{ahead} are ahead"), || {
        let me = browser.me(gateway);
        (me["ahead"] == ahead).then_some(me)
    })
}

#[test]
fn who_is_back_for_a_cart_goes_before_who_is_signed_in_and_they_before_strangers() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let slow = "phase = \"queue-all\"\nrate_min = \"1/s\"\nrate_max = \"1/s\"\n";
    let gateway = site.gateway(&directory, "gw1", slow);
    order(&gateway, &["hold"]);
    let mut strangers = [Browser::waiting(&gateway), Browser::waiting(&gateway)];
    let mut member = signed_in(&gateway, "7");
    member.stand(&gateway);
    let mut back = returning(&gateway, "8");
    back.stand(&gateway);

    for (browser, ahead, tier) in [(&mut back, 0, 1), (&mut member, 1, 2)] {
        assert_eq!(until_ahead(&gateway, browser, ahead)["tier"], tier);
    }
    for (ahead, stranger) in (2..).zip(&mut strangers) {
        assert_eq!(until_ahead(&gateway, stranger, ahead)["tier"], 3);
    }

    order(&gateway, &["release"]);
    let is_called = |browser: &mut Browser| browser.me(&gateway)["state"] == "ready";
    let line = [&mut back, &mut member].into_iter().chain(&mut strangers);
    let mut line: Vec<&mut Browser> = line.collect();
    until("all are called", || {
        // From behind: whoever is asked later may have been called meanwhile.
        let called: Vec<bool> = line.iter_mut().rev().map(|it| is_called(it)).collect();
        assert!(called.is_sorted(), "{called:?}");
        called[0].then_some(())
    });
    drop(line);
    assert_eq!(back.claim(&gateway).status, 200);
    assert_eq!(
        told(&back.go(&gateway, "/"), "tidegate-tier").as_deref(),
        Some("1")
    );
    assert_eq!(member.claim(&gateway).status, 200);
    assert_eq!(
        told(&member.go(&gateway, "/"), "tidegate-tier").as_deref(),
        Some("2")
    );
}

#[test]
fn a_hint_that_somebody_has_made_up_leads_nowhere() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(&directory, "gw1", &format!("phase = \"hold\"\n{STANDS}"));
    let real = returning(&gateway, "8");
    let hint = real.cookie("tg_resume").unwrap().to_owned();
    let last = if hint.ends_with('A') { 'B' } else { 'A' };
    let changed = format!("{}{last}", &hint[..hint.len() - 1]);

    for hint in ["1", "", "AAAA", &changed] {
        let mut liar = Browser::default();
        liar.cookies.insert("tg_resume".to_owned(), hint.to_owned());
        liar.cookies
            .insert("__Host-tg_resume".to_owned(), hint.to_owned());
        liar.stand(&gateway);
        assert_eq!(liar.me(&gateway)["tier"], 3, "{hint}");
    }
}

#[test]
fn signing_in_while_one_waits_improves_the_place_and_signing_out_does_not_worsen_it() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(&directory, "gw1", &format!("phase = \"hold\"\n{STANDS}"));
    let mut first = Browser::waiting(&gateway);
    let mut browser = Browser::waiting(&gateway);
    let place = until_ahead(&gateway, &mut browser, 1)["place"].clone();

    browser.go_where(&gateway, "/door/in", "Tidegate-Rotate: uid=7");

    let me = until_ahead(&gateway, &mut browser, 0);
    assert_eq!((&me["tier"], &me["place"]), (&2.into(), &place));
    until_ahead(&gateway, &mut first, 1);
    for says in [
        "Tidegate-Destroy: ?1",
        "Tidegate-Rotate: uid=9",
        "Tidegate-Destroy: ?1",
    ] {
        browser.go_where(&gateway, "/door/out", says);
        browser.go(&gateway, "/");
        let me = browser.me(&gateway);
        assert_eq!((&me["tier"], &me["place"]), (&2.into(), &place), "{says}");
        assert_eq!(me["ahead"], 0, "{says}");
    }
    assert_eq!(waiting(&gateway), Some(2));
}

#[test]
fn an_operator_lets_somebody_go_first_and_the_place_stays_theirs() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(&directory, "gw1", &format!("phase = \"hold\"\n{STANDS}"));
    let _first = Browser::waiting(&gateway);
    let mut browser = Browser::waiting(&gateway);
    let place = until_ahead(&gateway, &mut browser, 1)["place"].clone();

    order(&gateway, &["vip", &place.to_string(), "--tier", "1"]);

    let me = until_ahead(&gateway, &mut browser, 0);
    assert_eq!((&me["tier"], &me["place"]), (&1.into(), &place));
}

#[test]
fn two_gateways_show_one_line_and_one_of_them_leads() {
    let site = Site::shared();
    let directories = [TempDir::new(), TempDir::new()];
    let room = format!("phase = \"hold\"\n{STANDS}message = {{ en = \"Soon.\" }}\n");
    let one = site.gateway(&directories[0], "gw1", &room);
    let two = site.gateway(&directories[1], "gw2", &room);
    let mut browser = Browser::waiting(&one);
    let place = browser.me(&one)["place"].clone();
    let mut later = Browser::waiting(&two);

    let me = browser.me(&two);
    assert_eq!((&me["state"], &me["place"]), (&"waiting".into(), &place));
    assert!(later.me(&one)["place"].as_u64() > place.as_u64());
    until_ahead(&one, &mut later, 1);
    for gateway in [&one, &two] {
        until("both are counted", || {
            (waiting(gateway)? == 2).then_some(())
        });
    }
    let path = "/.tidegate/v1/room/shop.json";
    until("both show the same bytes", || {
        let [first, second] = [&one, &two].map(|gateway| get(gateway.clients, path).body);
        (first == second).then_some(())
    });
    assert!(
        ["gw1", "gw2"].contains(&site.leader().as_str()),
        "{}",
        site.leader()
    );
    // What one is told the other knows.
    order(&one, &["stock", "2500"]);
    until("the other one knows", || {
        (document(&two)?["stock"] == 2_500).then_some(())
    });
}

#[test]
fn whom_one_gateway_has_let_in_the_other_one_knows() {
    let site = Site::shared();
    let directories = [TempDir::new(), TempDir::new()];
    let room = format!("phase = \"queue-all\"\n{FLOWS}");
    let one = site.gateway(&directories[0], "gw1", &room);
    let two = site.gateway(&directories[1], "gw2", &room);

    let mut browser = Browser::inside(&one);

    for gateway in [&two, &one, &two] {
        let page = browser.go(gateway, "/");
        assert_eq!(told(&page, "tidegate-tier").as_deref(), Some("3"));
    }
    // A ticket of the one is called by the other.
    let mut other = Browser::waiting(&one);
    other.until_state(&two, "ready");
    assert_eq!(other.claim(&two).status, 200);
    assert_eq!(other.go(&one, "/").status, 200);
}

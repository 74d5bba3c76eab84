//! The life of a session by its cookies.

use crate::client::ask;
use crate::process::TempDir;
use crate::sessions_visitor::{App, Visitor, gateway, metric, sign_in_twice};

#[test]
fn a_session_begins_when_something_is_stored_and_is_told_from_then_on() {
    let (directory, app) = (TempDir::new(), App::start());
    let tidegate = gateway(&directory, &app, "", "");
    let mut visitor = Visitor::default();

    let first = visitor.ask(tidegate.clients, "/", &[]);
    assert_eq!(first.told("tidegate-session-state").as_deref(), Some("new"));
    assert_eq!(first.told("tidegate-session"), None);
    assert_eq!(first.cookies_set(), [""; 0]);
    assert_eq!(first.answer.header("cache-control"), None);

    let set = ["Tidegate-Set: cart=\"c 9\"", "Tidegate-Incr: visits=1"];
    let begun = visitor.ask(tidegate.clients, "/", &set);
    assert_eq!(begun.cookies_set(), ["tg", "tgt"]);
    assert_eq!(
        begun.answer.header("cache-control"),
        Some("private, no-store")
    );
    assert_eq!(begun.answer.header("tidegate-set"), None);

    let later = visitor.ask(tidegate.clients, "/", &["Tidegate-Incr: visits=2"]);
    assert_eq!(later.told("tidegate-session-state").as_deref(), Some("ok"));
    assert_eq!(later.told("tidegate-attr-cart").as_deref(), Some("c 9"));
    assert_eq!(later.told("tidegate-attr-visits").as_deref(), Some("1"));
    assert_eq!(later.told("tidegate-uid"), None);
    assert_eq!(
        later.told("cookie"),
        None,
        "secrets are not for the application"
    );
    assert_eq!(later.cookies_set(), [""; 0]);
    let now = visitor.ask(tidegate.clients, "/", &[]);
    assert_eq!(now.told("tidegate-attr-visits").as_deref(), Some("3"));

    let outcome = |outcome| {
        let name = "tidegate_session_requests_total{app=\"app\",outcome=";
        metric(&tidegate, &format!("{name}\"{outcome}\"}}"))
    };
    assert_eq!((outcome("absent"), outcome("live")), (2.0, 2.0));
    assert_eq!(metric(&tidegate, "tidegate_session_created_total"), 1.0);
}

#[test]
fn a_sign_in_takes_a_fresh_id_and_leaves_everything_behind_but_the_carried() {
    let (directory, app) = (TempDir::new(), App::start());
    let tidegate = gateway(&directory, &app, "tiers = { gold = \"critical\" }", "");
    let mut visitor = Visitor::default();
    visitor.ask(tidegate.clients, "/", &["Tidegate-Set: cart=c9, visits=7"]);
    let before = visitor.clone();

    let signed_in = visitor.ask(
        tidegate.clients,
        "/login",
        &["Tidegate-Rotate: uid=44182;tier=gold"],
    );

    assert_eq!(signed_in.cookies_set(), ["tg", "tgt"]);
    assert_ne!(visitor.token(), before.token());
    assert_eq!(
        visitor.token()[..6],
        before.token()[..6],
        "the same slot tag"
    );
    let page = visitor.ask(tidegate.clients, "/", &[]);
    assert_eq!(page.told("tidegate-uid").as_deref(), Some("44182"));
    assert_eq!(page.told("tidegate-tier").as_deref(), Some("gold"));
    assert_eq!(page.told("tidegate-attr-cart").as_deref(), Some("c9"));
    assert_eq!(page.told("tidegate-attr-visits"), None);
    let class = "tidegate_arrivals_total{app=\"app\",class=\"critical\"}";
    assert_eq!(metric(&tidegate, class), 1.0);

    // The old id is dead for everybody, and a late answer to it must not put it back.
    let mut late = before;
    let page = late.ask(tidegate.clients, "/", &["Tidegate-Set: cart=late"]);
    assert_eq!(page.told("tidegate-session-state").as_deref(), Some("new"));
    assert_eq!(page.cookies_set(), [""; 0]);
    let dropped = "tidegate_session_changes_dropped_total{app=\"app\",reason=\"replaced\"}";
    assert_eq!(metric(&tidegate, dropped), 1.0);
}

#[test]
fn whichever_cookie_of_a_double_click_stays_the_cart_is_there() {
    let (directory, app) = (TempDir::new(), App::start());
    // A counter comes along only because it is listed: a user's last cart is theirs anyway.
    let tidegate = gateway(&directory, &app, "carry = [\"cart\", \"visits\"]", "");
    let address = tidegate.clients;
    for pair in 0..20 {
        let mut visitor = Visitor::default();
        visitor.ask(address, "/", &["Tidegate-Set: cart=c9, evil=1"]);
        visitor.ask(address, "/", &["Tidegate-Incr: visits=7"]);
        let before = visitor.clone();

        let uid = format!("user-{pair}");
        let mut browsers = sign_in_twice(&visitor, [address; 2], &uid).to_vec();
        // And a click whose request is there only after the sign-in.
        visitor.ask(address, "/login", &[&format!("Tidegate-Rotate: uid={uid}")]);
        browsers.push(visitor);

        for mut browser in browsers {
            assert_ne!(browser.token(), before.token());
            let page = browser.ask(address, "/", &[]);
            assert_eq!(page.told("tidegate-uid"), Some(uid.clone()), "{pair}");
            assert_eq!(page.told("tidegate-attr-cart").as_deref(), Some("c9"));
            assert_eq!(page.told("tidegate-attr-visits").as_deref(), Some("7"));
        }

        // Whoever planted the cookie, or had it too, is somebody else.
        let mut attacker = before;
        attacker.ask(address, "/login", &["Tidegate-Rotate: uid=eve"]);
        let page = attacker.ask(address, "/", &[]);
        assert_eq!(page.told("tidegate-uid").as_deref(), Some("eve"));
        assert_eq!(page.told("tidegate-attr-cart"), None);
        assert_eq!(page.told("tidegate-attr-visits"), None);
    }
}

#[test]
fn who_ends_the_session_and_signs_in_again_begins_anew() {
    let (directory, app) = (TempDir::new(), App::start());
    let tidegate = gateway(&directory, &app, "carry = [\"visits\"]", "");
    let mut visitor = Visitor::default();
    visitor.ask(tidegate.clients, "/", &["Tidegate-Incr: visits=7"]);
    let mut late = visitor.clone();
    visitor.ask(tidegate.clients, "/login", &["Tidegate-Rotate: uid=7"]);

    let anew = ["Tidegate-Destroy: ?1", "Tidegate-Rotate: uid=7"];
    for browser in [&mut late, &mut visitor] {
        browser.ask(tidegate.clients, "/login", &anew);
        let page = browser.ask(tidegate.clients, "/", &[]);
        assert_eq!(page.told("tidegate-uid").as_deref(), Some("7"));
        assert_eq!(page.told("tidegate-attr-visits"), None);
    }
}

#[test]
fn a_planted_id_is_never_taken_over() {
    let (directory, app) = (TempDir::new(), App::start());
    let tidegate = gateway(&directory, &app, "", "");
    let mut attacker = Visitor::default();
    attacker.ask(tidegate.clients, "/", &["Tidegate-Set: cart=c9, evil=1"]);

    // The victim's browser has got the attacker's cookie, and the victim signs in.
    let mut victim = attacker.clone();
    victim.ask(tidegate.clients, "/login", &["Tidegate-Rotate: uid=7"]);

    assert_eq!(
        victim
            .ask(tidegate.clients, "/", &[])
            .told("tidegate-uid")
            .as_deref(),
        Some("7")
    );
    let page = attacker.ask(tidegate.clients, "/", &[]);
    assert_eq!(page.told("tidegate-uid"), None);
    assert_eq!(page.told("tidegate-session"), None);

    // An id that was never one of ours opens nothing, and nothing is created under it.
    let planted = attacker.token().replace(|c: char| c.is_ascii_digit(), "7");
    let mut visitor = Visitor::default();
    visitor.cookies.insert("tg".to_owned(), planted.clone());
    let page = visitor.ask(tidegate.clients, "/", &["Tidegate-Set: cart=mine"]);
    assert_eq!(page.told("tidegate-session-state").as_deref(), Some("new"));
    assert_ne!(visitor.token(), planted);
}

#[test]
fn a_sign_out_ends_the_session_and_takes_the_cookies_away() {
    let (directory, app) = (TempDir::new(), App::start());
    let tidegate = gateway(&directory, &app, "", "");
    let mut visitor = Visitor::default();
    visitor.ask(tidegate.clients, "/", &["Tidegate-Rotate: uid=7"]);
    let mut copied = visitor.clone();

    let page = visitor.ask(tidegate.clients, "/logout", &["Tidegate-Destroy: ?1"]);

    assert_eq!(page.cookies_set(), ["-tg", "-tgt"]);
    assert!(visitor.cookies.is_empty());
    let page = copied.ask(tidegate.clients, "/", &[]);
    assert_eq!(page.told("tidegate-uid"), None);
    assert_eq!(page.told("tidegate-session-state").as_deref(), Some("new"));
    assert_eq!(page.cookies_set(), ["-tg", "-tgt"]);
    assert_eq!(
        page.answer.header("cache-control"),
        Some("private, no-store")
    );
}

#[test]
fn signing_out_everywhere_ends_the_others_or_all() {
    let (directory, app) = (TempDir::new(), App::start());
    let tidegate = gateway(&directory, &app, "", "");
    let sign_in = || {
        let mut visitor = Visitor::default();
        visitor.ask(tidegate.clients, "/", &["Tidegate-Rotate: uid=7"]);
        visitor
    };
    let uid = |visitor: &mut Visitor| visitor.ask(tidegate.clients, "/", &[]).told("tidegate-uid");
    let [mut one, mut two, mut three] = [sign_in(), sign_in(), sign_in()];

    one.ask(tidegate.clients, "/", &["Tidegate-Signout-User: others"]);
    assert_eq!(uid(&mut one).as_deref(), Some("7"));
    assert_eq!(uid(&mut two), None);
    assert_eq!(uid(&mut three), None);

    let mut again = sign_in();
    let page = one.ask(tidegate.clients, "/", &["Tidegate-Signout-User: all"]);
    assert_eq!(page.cookies_set(), ["-tg", "-tgt"]);
    assert_eq!(uid(&mut again), None);

    let (mut other, mut admin) = (sign_in(), Visitor::default());
    admin.ask(tidegate.clients, "/", &["Tidegate-Signout-User: uid=7"]);
    assert_eq!(uid(&mut other), None);
}

#[test]
fn the_good_one_of_several_cookies_is_found_and_bad_ones_cost_no_question() {
    let (directory, app) = (TempDir::new(), App::start());
    let tidegate = gateway(&directory, &app, "", "");
    let mut visitor = Visitor::default();
    visitor.ask(tidegate.clients, "/", &["Tidegate-Set: cart=c9"]);
    let good = visitor.token().to_owned();
    let opened = || metric(&tidegate, "tidegate_session_opened_total");
    let told = |cookie: &str| {
        let answer = ask(tidegate.clients, "GET", "/", &[("cookie", cookie)], b"");
        let text = answer.text();
        (text.contains("tidegate-attr-cart: c9"), text)
    };

    assert!(told(&format!("tg=nonsense; tg={good}")).0);
    assert!(told(&format!("a=b; tg=\"{good}\"")).0);
    assert_eq!(opened(), 2.0);
    // A cookie that looks right and was not made with the key.
    let (head, check) = good.split_at(good.len() - 2);
    let other = if check == "AA" { "BB" } else { "AA" };
    assert!(!told(&format!("tg={head}{other}")).0);
    assert!(!told("tg=1.aaaa.short.AA").0);
    assert!(!told(&"tg=x; ".repeat(9)).0);
    assert_eq!(opened(), 2.0);

    let bad = |reason| {
        let name = "tidegate_session_bad_cookies_total{app=\"app\",reason=";
        metric(&tidegate, &format!("{name}\"{reason}\"}}"))
    };
    assert_eq!(
        (bad("malformed"), bad("unchecked"), bad("surplus")),
        (6.0, 1.0, 5.0)
    );
}

#[test]
fn an_answer_with_a_cookie_of_ours_is_for_no_cache_and_static_ones_have_none() {
    let (directory, app) = (TempDir::new(), App::start());
    let tidegate = gateway(&directory, &app, "", "");
    let public = [
        "Tidegate-Set: cart=c9",
        "Cache-Control: public, max-age=3600",
        "CDN-Cache-Control: max-age=3600",
        "Expires: Thu, 01 Dec 2033 16:00:00 GMT",
    ];

    let page = Visitor::default().ask(tidegate.clients, "/", &public);
    assert_eq!(page.cookies_set(), ["tg", "tgt"]);
    assert_eq!(
        page.answer.header("cache-control"),
        Some("private, no-store")
    );
    assert_eq!(page.answer.header("cdn-cache-control"), None);
    assert_eq!(page.answer.header("expires"), None);

    let page = Visitor::default().ask(tidegate.clients, "/style.css", &public);
    assert_eq!(page.cookies_set(), [""; 0]);
    assert_eq!(
        page.answer.header("cache-control"),
        Some("public, max-age=3600")
    );
    assert_eq!(page.answer.header("tidegate-set"), None);
    assert_eq!(page.told("tidegate-session-state"), None);
    let dropped = "tidegate_session_changes_dropped_total{app=\"app\",reason=\"uninvolved\"}";
    assert_eq!(metric(&tidegate, dropped), 1.0);
}

#[test]
fn what_clients_and_proxies_say_of_sessions_never_reaches_the_application() {
    let (directory, app) = (TempDir::new(), App::start());
    let more = "\n[[app.route]]\nname = \"none\"\npath = \"/none\"\nsession = \"none\"\n\
                [trust]\nproxies = [\"127.0.0.0/8\"]";
    for more in ["", more] {
        let tidegate = gateway(&directory, &app, "", more);
        let forged = [
            ("Tidegate-Session", "aaaa.AAAAAAAAAAAAAAAAAAAAAA"),
            ("Tidegate-Session-State", "ok"),
            ("Tidegate-Uid", "1"),
            ("Tidegate_Uid", "1"),
            ("Tidegate-Tier", "gold"),
            ("Tidegate-Attr-Cart", "evil"),
            ("Tidegate-Set", "cart=evil"),
        ];
        for path in ["/", "/none", "/style.css"] {
            let page = Visitor::default().ask_with(tidegate.clients, path, &[], &forged);
            for name in ["session", "uid", "tier", "attr-cart"] {
                assert_eq!(
                    page.told(&format!("tidegate-{name}")),
                    None,
                    "{path} {name}"
                );
            }
            assert_eq!(page.told("tidegate_uid"), None);
            assert_ne!(page.told("tidegate-session-state").as_deref(), Some("ok"));
        }
    }
}

#[test]
fn an_id_changes_as_a_habit_and_the_old_one_leads_to_it() {
    let (directory, app) = (TempDir::new(), App::start());
    // A minute is the least: the ticket says that the id is older than that.
    let tidegate = gateway(&directory, &app, "rotate_every = \"1m\"", "");
    let mut visitor = Visitor::default();
    visitor.ask(tidegate.clients, "/", &["Tidegate-Rotate: uid=7"]);
    let token = visitor.token().to_owned();

    let page = visitor.ask(tidegate.clients, "/", &[]);

    assert_eq!(page.cookies_set(), [""; 0], "too young");
    assert_eq!(visitor.token(), token);
}

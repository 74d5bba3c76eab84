//! What is accepted about sessions, what is refused, and how it is said.

use std::path::Path;

use tidegate_core::session::{Durability, Fields};

use super::*;
use crate::config::tests::{MINIMAL, errors, setup};

/// Keys of `[sessions]` and below that make no sense, what is said, and what is said to write.
const SENSELESS: &[(&str, &str, &str)] = &[
    ("cookie = \"a b\"", "is no name of a cookie", "__Host-tg"),
    ("cookie = \"__Secure-tg\"", "a weaker prefix", "__Host-tg"),
    (
        "cookie = \"tg_a\"\ninsecure = true\naffinity = \"gw1\"",
        "the session's cookie and the cookie of `affinity` would both be called tg_a",
        "__Host-tg",
    ),
    ("key_file = \"/etc/\"", "names no file", "session.key"),
    ("idle = \"13h\"", "less than `idle`, 13h", "lower idle"),
    (
        "absolute_anonymous = \"1m\"",
        "less than `idle`, 30m",
        "raise absolute_anonymous",
    ),
    (
        "session_max = \"1KiB\"",
        "less than `value_max`",
        "room of one",
    ),
    ("blob_max = \"1KiB\"", "`blob_max` has no effect", "\"0B\""),
    ("trust = \"1m\"", "is out of range", "from 0s to 5s"),
    (
        "carry = [\"a b\"]",
        "`a b` is no name of an attribute",
        "\"cart\"",
    ),
    (
        "tiers = { gold = \"critcal\" }",
        "tier \"gold\" has no class",
        "\"critical\"",
    ),
    (
        "tiers = { gold = 1 }",
        "tier \"gold\" has no class",
        "signed-in",
    ),
    (
        "tiers = { \"a b\" = \"critical\" }",
        "`a b` is no name of a tier",
        "gold",
    ),
    ("affinity = \"gw 1\"", "will not do", "gw1"),
    (
        "on_conflict = \"retry\"",
        "is not one of \"drop\", \"fail\"",
        "write one of",
    ),
    (
        "[[sessions.attribute]]\nname = \"\"",
        "is no name of an attribute",
        "\"cart\"",
    ),
    (
        "[[sessions.attribute]]\nname = \"a\"\n[[sessions.attribute]]\nname = \"a\"",
        "has a second row",
        "put into one",
    ),
    (
        "[[sessions.attribute]]\nname = \"a/b\"\nexpose = true",
        "cannot be told in a header",
        "sidecar",
    ),
    (
        "[[sessions.attribute]]\nname = \"a\"\nresume = true",
        "`resume` is true or false",
        "resume = ",
    ),
    (
        "[sessions.durability]\nwork = \"sync\"",
        "`work = \"sync\"` is no durability",
        "redo + wait(1, 50ms) fail",
    ),
    (
        "[sessions.durability]\ntouch = \"redo\"",
        "unknown key `touch`",
        "",
    ),
];

fn sessions_of(text: &str) -> Sessions {
    let setup = setup(&format!("{MINIMAL}{text}\n"));
    setup.sessions.expect("there is a section")
}

/// The only error of `text` behind a sound application: its message and its help.
fn error(text: &str) -> (String, String) {
    let mut errors = errors(&format!("{MINIMAL}{text}\n"));
    assert_eq!(errors.len(), 1, "{errors:#?}");
    let (_, message, help) = errors.remove(0);
    (message, help)
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

#[test]
fn a_cookie_of_ours_is_no_cookie_of_the_applications() {
    for (sessions, cookie, what) in [
        ("", "__Host-tg", "the session's cookie"),
        ("", "__Host-tgt", "the ticket's cookie"),
        (
            "cookie = \"shop\"\ninsecure = true",
            "shop",
            "the session's cookie",
        ),
        (
            "cookie = \"shop\"\ninsecure = true",
            "shopt",
            "the ticket's cookie",
        ),
        ("affinity = \"gw1\"", "tg_a", "the cookie of `affinity`"),
    ] {
        let text =
            format!("session_cookies = [\"JSESSIONID\", \"{cookie}\"]\n[sessions]\n{sessions}");

        let (message, help) = error(&text);

        assert!(
            message.contains(&format!("`{cookie}` is {what}")),
            "{message}"
        );
        assert!(help.contains("leave it out"), "{help}");
    }

    // Names that nobody sets are anybody's, and so are those that differ in a prefix.
    for sessions in [
        "",
        "cookie = \"tg_a\"\naffinity = \"gw1\"",
        "cookie = \"tg_a\"\ninsecure = true",
    ] {
        let text = format!("session_cookies = [\"tg\", \"tg_b\"]\n[sessions]\n{sessions}");
        sessions_of(&text);
    }
    setup(&format!(
        "{MINIMAL}session_cookies = [\"tg_a\", \"__Host-tg\"]\n"
    ));
}

#[test]
fn an_empty_section_is_the_usual_plan_in_a_file() {
    let sessions = sessions_of("[store]\npath = \"/state\"\n[sessions]\n");

    let usual = DeskPlan {
        backend: Backend::Embedded(Some("/state".into())),
        ..DeskPlan::default()
    };
    assert_eq!(sessions.desk, usual);
    assert_eq!(sessions.key_file, KeyFile::Own("/state/session.key".into()));
    assert_eq!(sessions.gateway.cookies.session(), "__Host-tg");
    assert!(sessions.gateway.tickets);
    assert!(setup(MINIMAL).gateway.apps[0].sessions.is_none());
}

#[test]
fn everything_said_finds_its_place() {
    let sessions = sessions_of(
        "[store]\nurl = \"redis://a\"\ntimeout = \"5ms\"\n\
         [sessions]\ncookie = \"shop\"\ninsecure = true\nkey_file = \"/k\"\nidle = \"10m\"\n\
         absolute = \"1h\"\nabsolute_anonymous = \"2h\"\nvalue_max = \"1KiB\"\nsession_max = \"8KiB\"\n\
         attributes_max = 9\nblob_max = \"0B\"\nl1 = \"1MiB\"\ntrust = \"100ms\"\nresume = \"1h\"\n\
         sessions_per_user_max = 7\ncarry = [\"basket\"]\ntiers = { gold = \"critical\" }\n\
         ticket = false\naffinity = \"gw1\"\nrotate_every = \"4h\"\non_conflict = \"fail\"\n\
         [[sessions.attribute]]\nname = \"flash\"\nclass = \"disposable\"\nmerge = \"store-wins\"\n\
         resume = \"keep-session\"\nticket = true\nexpose = true\n\
         [[sessions.attribute]]\nname = \"cart\"\nexpose = true\n\
         [sessions.durability]\nwork = \"wait(2, 20ms) fail\"\n",
    );

    let desk = &sessions.desk;
    assert!(matches!(desk.backend, Backend::Redis(_)));
    assert_eq!(desk.operation, Duration::from_millis(5));
    assert_eq!(desk.lives.signed_in.absolute, Duration::from_secs(3600));
    assert_eq!(desk.lives.anonymous.absolute, Duration::from_secs(7200));
    assert_eq!((desk.ceilings.value, desk.ceilings.count), (1024, 9));
    assert_eq!((desk.blob_bytes_max, desk.resume.sessions_max), (0, 7));
    let flash = desk.attributes.of(&name("flash"));
    assert_eq!(flash.class, WriteClass::Disposable);
    assert_eq!(flash.merge, MergePolicy::StoreWins);
    assert_eq!(flash.resume, Some(ResumePolicy::KeepSession));
    assert!(flash.ticket && !flash.carry);
    assert!(desk.attributes.of(&name("basket")).carry);
    let cart = desk.attributes.of(&name("cart"));
    assert_eq!((cart.carry, cart.merge), (false, MergePolicy::Union));
    assert_eq!(desk.durability(WriteClass::Work).wait.unwrap().replicas, 2);
    assert_eq!(desk.durability(WriteClass::Disposable), Durability::ASYNC);
    assert_eq!(
        desk.durability(WriteClass::SignIn),
        Durability::REDO,
        "one server has no replicas"
    );
    let gateway = &sessions.gateway;
    assert_eq!(gateway.cookies.session(), "shop");
    assert_eq!(gateway.tiers, [(name("gold"), Class::Critical)]);
    assert_eq!(gateway.on_unstored, OnUnstored::Fail);
    assert_eq!(sessions.exposed, [name("flash"), name("cart")]);
    assert_eq!(sessions.key_file, KeyFile::Shared("/k".into()));
}

#[test]
fn a_route_reads_what_is_exposed_unless_it_says_otherwise() {
    let plan = setup(&format!(
        "{MINIMAL}[[app.route]]\nname = \"a\"\npath = \"/a\"\nsession = \"required\"\n\
         session_fields = [\"cart\", \"locale\"]\n\
         [[app.route]]\nname = \"b\"\npath = \"/b\"\nsession = \"none\"\n\
         [sessions]\n[[sessions.attribute]]\nname = \"tests\"\nexpose = true\n"
    ))
    .gateway;

    let routes = &plan.apps[0].routes;
    let fields = |at: usize| routes[at].session.exposed.fields().clone();
    assert_eq!(routes[0].session.need, Need::Required);
    assert_eq!(
        fields(0),
        Fields::Only([name("cart"), name("locale")].into())
    );
    assert_eq!(routes[1].session.need, Need::None);
    assert_eq!(routes[2].session.need, Need::Optional);
    assert_eq!(fields(2), Fields::Only([name("tests")].into()));
}

#[test]
fn a_fleet_shares_its_keys() {
    let (message, help) = error("[store]\nurl = \"redis://a\"\n[sessions]");

    assert_eq!(message, "sessions that a fleet shares need `key_file`");
    assert!(help.contains("tidegate session key"), "{help}");
    let own = sessions_of("[store]\npath = \"p\"\n[sessions]\nkey_file = \"/etc/k\"");
    assert_eq!(own.key_file, KeyFile::Shared(Path::new("/etc/k").into()));
}

#[test]
fn rows_that_one_header_would_stand_for_name_themselves_and_their_partner() {
    let rows: String = ["a/b", "a_b", "a-b", "A-B", "cart"]
        .iter()
        .map(|name| format!("[[sessions.attribute]]\nname = \"{name}\"\nexpose = true\n"))
        .collect();

    let said = errors(&format!("{MINIMAL}[sessions]\n{rows}"));

    let said: Vec<String> = said.into_iter().map(|error| format!("{error:?}")).collect();
    let expected = [
        "'a/b' cannot be part of a header's name",
        "'a-b' is the same as 'a_b', in a header",
        "'A-B' is the same as 'a_b', in a header",
    ];
    assert_eq!(said.len(), expected.len(), "{said:?}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_write() {
    for (text, message, help) in SENSELESS {
        let said = error(&format!("[sessions]\n{text}"));
        assert!(said.0.contains(message), "{text}: {said:?}");
        assert!(said.1.contains(help), "{text}: {said:?}");
    }
}

#[test]
fn a_route_cannot_ask_for_sessions_that_there_are_not() {
    let route = "[[app.route]]\nname = \"a\"\npath = \"/a\"\n";
    for (text, message) in [
        (
            format!("{route}session = \"required\""),
            "there are no sessions",
        ),
        (
            format!("{route}session_fields = [\"cart\"]"),
            "there are no sessions",
        ),
        (
            format!("{route}session = \"none\"\nsession_fields = [\"cart\"]\n[sessions]"),
            "the route's session is \"none\"",
        ),
        (
            format!("{route}session_fields = [\"a\", \"A\"]\n[sessions]"),
            "cannot be told in headers",
        ),
        (
            format!("{route}session_fields = [\"ä\"]\n[sessions]"),
            "is no name of an attribute",
        ),
    ] {
        let said = error(&text);
        assert!(said.0.contains(message), "{text}: {said:?}");
    }
}

use std::path::Path;
use std::time::Duration;

use http::StatusCode;
use tidegate_core::rate::Spec;
use tidegate_core::room::{Bounds, Budget as Asks, Order, Phase, Rules};
use tidegate_gateway::room::{Algorithm, Budget, EventPlan, OnRoomLoss, RoomPlan};
use tidegate_gateway::session::Transport;
use tidegate_page::Language;

use super::super::keys::room::{ALGORITHMS, PHASES};
use super::super::tests::{MINIMAL, errors, plan, setup};
use super::super::{Flags, Summary, parse};

const ROUTES: &str = "[[app.route]]\nname = \"pay\"\npath = \"/pay/**\"\nclass = \"critical\"\n\
                      [[app.route]]\nname = \"search\"\npath = \"/search\"\n";

/// A room with these keys, in front of all of an application.
fn text(keys: &str) -> String {
    format!("{MINIMAL}{ROUTES}[[room]]\nname = \"sale\"\nkey_file = \"keys.json\"\n{keys}\n")
}

pub(super) fn room(keys: &str) -> RoomPlan {
    plan(&text(keys)).rooms.remove(0)
}

/// The rooms that the routes of the first application are behind, in their order.
fn behind(text: &str) -> Vec<Option<usize>> {
    let app = plan(text).apps.remove(0);
    app.routes.iter().map(|route| route.room).collect()
}

/// The only error that these keys of a room cause.
pub(super) fn error(keys: &str) -> (String, String) {
    let mut errors = errors(&text(keys));
    assert_eq!(errors.len(), 1, "{keys}: {errors:#?}");
    let (_, message, help) = errors.remove(0);
    (message, help)
}

fn summary(text: &str) -> String {
    Summary(&setup(text)).to_string()
}

#[test]
fn a_room_is_a_name_and_keys() {
    let room = room("");

    assert_eq!(room.tokens.room.as_str(), "sale");
    assert_eq!(room.key_file, Path::new("keys.json"));
    assert_eq!((room.phase, room.order), (Phase::Auto, Order::Strict));
    assert_eq!(
        room.bounds,
        Bounds {
            rate_max: 1_000.0,
            rate_min: 1.0,
            fill: Duration::from_secs(30),
            active_max: None,
        }
    );
    assert_eq!(
        room.rules,
        Rules {
            waiting_max: 1_000_000,
            misses_max: 3,
            settle_ms: 160_000,
            ticket_ms: 86_400_000,
        }
    );
    let asks = Asks {
        polls: 500.0,
        beats: 3_000.0,
    };
    assert_eq!((room.asks, room.load_each), (asks, 1.0));
    assert_eq!(
        (room.claim_within, room.extensions_max),
        (Duration::from_secs(120), 3)
    );
    assert_eq!(room.on_store_loss, OnRoomLoss::LocalBudget);
    let Some(Spec::Bucket(joins)) = room.joins else {
        panic!("joins are counted");
    };
    assert_eq!(joins.burst(), 300);
    let tokens = &room.tokens;
    assert_eq!(
        (tokens.algorithm, tokens.issuer.as_str()),
        (Algorithm::Hs256, "tidegate")
    );
    assert_eq!(
        (tokens.idle, tokens.absolute),
        (Duration::from_secs(900), Duration::from_secs(43_200))
    );
    assert_eq!(tokens.budgets, [Budget::default()]);
    assert_eq!(tokens.transport, Transport::Tls);
    assert_eq!(room.page_status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(room.message.is_none() && room.event.is_none());
    assert!(room.state.is_none() && room.audit.is_none() && room.webhooks.is_empty());
    assert!(plan(MINIMAL).rooms.is_empty());
}

#[test]
fn every_key_is_heard() {
    let room = room(
        "routes = [\"search\"]\nphase = \"queue-all\"\norder = \"credit\"\ncredit = { returning = \"30m\" }\n\
         rate_max = \"600/min\"\nrate_min = \"1/2s\"\nfill = \"10s\"\nactive_max = 20000\nvisitor_rps = 0.5\n\
         waiting_max = 1000\nclaim_within = \"1m\"\nmore_time = 0\nmisses_max = 2\nsettle = \"10s\"\n\
         polls_per_second = 5\nbeats_per_second = 6\non_store_loss = \"open\"\nopen_after = \"5s\"\n\
         joins_per_network = \"none\"\nalgorithm = \"EdDSA\"\nissuer = \"shop.example\"\ninsecure = true\n\
         pass_idle = \"5m\"\npass_absolute = \"1h\"\npass_in_flight = 1\npass_per_second = 2\npass_burst = 3\n\
         page_status = 202\ntheme = \"theme.toml\"\nmessage = { en = \"Soon.\", de = \"Bald.\" }\n\
         starts = \"2026-12-24T11:00:00+01:00\"\nopens_before = \"1h\"\nstate = \"/var/state.json\"\n\
         audit = \"audit.jsonl\"\n[[room.webhook]]\nurl = \"http://[::1]:9000/hook?a=b\"\nsecret_file = \"/etc/hook\"",
    );

    assert_eq!(room.phase, Phase::QueueAll);
    assert_eq!(room.order, Order::Credit([1_800_000, 300_000, 0]));
    assert_eq!((room.bounds.rate_max, room.bounds.rate_min), (10.0, 0.5));
    assert_eq!(
        (room.bounds.fill, room.bounds.active_max),
        (Duration::from_secs(10), Some(20_000))
    );
    assert_eq!((room.load_each, room.extensions_max), (0.5, 0));
    assert_eq!((room.rules.waiting_max, room.rules.misses_max), (1_000, 2));
    assert_eq!(room.rules.settle_ms, 10_000);
    assert_eq!((room.asks.polls, room.asks.beats), (5.0, 6.0));
    let after = Duration::from_secs(5);
    assert_eq!(room.on_store_loss, OnRoomLoss::Open { after });
    assert!(room.joins.is_none());
    let tokens = &room.tokens;
    assert_eq!(
        (tokens.algorithm, tokens.issuer.as_str()),
        (Algorithm::EdDsa, "shop.example")
    );
    assert_eq!(tokens.transport, Transport::Insecure);
    let budget = Budget {
        in_flight: 1,
        per_second: 2,
        burst: 3,
    };
    assert_eq!(tokens.budgets, [budget]);
    assert_eq!(room.page_status, StatusCode::ACCEPTED);
    let message = room.message.unwrap();
    assert_eq!(message[&Language::De], "Bald.");
    assert_eq!(message.len(), 2);
    let event = EventPlan {
        starts_ms: 1_798_106_400_000,
        opens_before: Duration::from_secs(3_600),
    };
    assert_eq!(room.event, Some(event));
    assert_eq!(room.state.as_deref(), Some(Path::new("/var/state.json")));
    assert_eq!(room.audit.as_deref(), Some(Path::new("audit.jsonl")));
    let [hook] = &room.webhooks[..] else {
        panic!("one webhook");
    };
    assert_eq!(
        (hook.host.as_str(), hook.port, hook.path.as_str()),
        ("::1", 9_000, "/hook?a=b")
    );
    assert_eq!(hook.secret_file, Path::new("/etc/hook"));
}

#[test]
fn a_room_is_before_all_that_can_wait_unless_routes_are_named() {
    assert_eq!(behind(&text("")), [None, Some(0), Some(0)]);
    assert_eq!(
        behind(&text("routes = [\"search\"]")),
        [None, Some(0), None]
    );
    let two = text("routes = [\"search\"]")
        + "[[room]]\nname = \"other\"\nkey_file = \"keys.json\"\nroutes = [\"other\"]\n";
    assert_eq!(behind(&two), [None, Some(0), Some(1)]);
}

#[test]
fn of_several_applications_one_is_named() {
    let two = |keys: &str| {
        format!(
            "{MINIMAL}name = \"shop\"\nhosts = [\"a\"]\n[[app]]\nname = \"blog\"\nupstream = \"http://127.0.0.1:1\"\n\
             [[room]]\nname = \"sale\"\nkey_file = \"k\"\n{keys}\n"
        )
    };

    assert_eq!(behind(&two("app = \"shop\"")), [Some(0)]);
    assert_eq!(behind(&two("app = \"blog\"")), [None]);
    for (keys, message, help) in [
        (
            "",
            "needs `app`: there are 2 applications",
            "app = \"shop\"",
        ),
        (
            "app = \"shp\"",
            "no application called \"shp\"",
            "did you mean \"shop\"?",
        ),
    ] {
        let errors = errors(&two(keys));
        assert_eq!(errors.len(), 1, "{errors:#?}");
        assert!(errors[0].1.contains(message), "{errors:#?}");
        assert!(errors[0].2.contains(help), "{errors:#?}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_to_write() {
    for (keys, message, help) in [
        (
            "routes = [\"serch\"]",
            "has no route called \"serch\"",
            "did you mean \"search\"?",
        ),
        ("routes = [\"zzz\"]", "no route called \"zzz\"", "\"other\""),
        ("routes = [\"pay\"]", "\"pay\" is critical", "leave it out"),
        ("routes = []", "before nothing", "name a route"),
        ("phase = \"on\"", "is not one of", "\"queue-all\""),
        (
            "credit = { returning = \"1m\" }",
            "`credit` has no effect",
            "order = \"credit\"",
        ),
        (
            "order = \"credit\"\ncredit = { returning = \"1m\" }",
            "tier 2 would go before tier 1",
            "signed-in ≤ returning",
        ),
        (
            "order = \"credit\"\ncredit = { anonymous = \"1m\" }",
            "unknown key `anonymous`",
            "known here: returning",
        ),
        (
            "rate_max = \"10\"",
            "is no rate",
            "a number, / and a period",
        ),
        ("rate_max = \"0/s\"", "nobody would ever", "above zero"),
        (
            "rate_max = \"10/s\"\nrate_min = \"601/min\"",
            "`rate_min = \"601/min\"` is more than `rate_max = \"10/s\"`",
            "rate_min ≤ rate_max",
        ),
        (
            "rate_max = \"1/min\"",
            "`rate_min = \"1/s\"` is more than",
            "rate_min ≤ rate_max",
        ),
    ] {
        refuses(keys, message, help);
    }
}

#[test]
fn what_is_out_of_range_or_of_no_use_is_refused_with_what_to_write() {
    for (keys, message, help) in [
        ("fill = \"1s\"", "out of range", "from 5s to 10m"),
        ("visitor_rps = 0", "out of range", "from 0.001 to 1000"),
        ("visitor_rps = \"1\"", "is a text", "visitor_rps = 0.001"),
        ("misses_max = 10", "out of range", "from 1 to 9"),
        ("claim_within = \"2h\"", "out of range", "from 5s to 1h"),
        (
            "open_after = \"5s\"",
            "`open_after` has no effect",
            "on_store_loss = \"open\"",
        ),
        (
            "joins_per_network = \"some\"",
            "is no rate",
            "a number, / and a period",
        ),
        (
            "joins_per_network = \"0/s\"",
            "nobody could take a place",
            "\"none\"",
        ),
        ("algorithm = \"hs256\"", "is not one of", "write one of"),
        ("issuer = \"a b\"", "nobody that passes can name", "visible"),
        (
            "pass_idle = \"13h\"",
            "longer than `pass_absolute`",
            "pass_idle ≤ pass_absolute",
        ),
        (
            "pass_absolute = \"1m\"",
            "longer than `pass_absolute`",
            "pass_idle ≤ pass_absolute",
        ),
        (
            "pass_idle = \"2500ms\"",
            "a part of a second",
            "pass_idle = \"3s\"",
        ),
        ("page_status = 500", "none that the page", "write 503"),
        ("page_status = \"503\"", "is a text", "write 503"),
        ("theme = \"themes/\"", "names no file", "the path of a file"),
        ("state = \"\"", "names no file", "the path of a file"),
        (
            "state = \"a\"\naudit = \"a\"",
            "`audit` names a file that room \"sale\" writes as well",
            "its own file",
        ),
        ("insecure = \"yes\"", "is a text", "insecure = false"),
    ] {
        refuses(keys, message, help);
    }
}

fn refuses(keys: &str, message: &str, help: &str) {
    let (said, fix) = error(keys);
    assert!(said.contains(message), "{keys}: {said}");
    assert!(fix.contains(help), "{keys}: {fix}");
}

#[test]
fn a_name_is_one_that_a_cookie_can_have_and_given_once() {
    let named = |name: &str| text("").replace("\"sale\"", &format!("\"{name}\""));
    for name in ["", "Sale", "black friday", "thirteen-char"] {
        let errors = errors(&named(name));
        assert_eq!(errors.len(), 1, "{errors:#?}");
        assert!(errors[0].1.contains("is no name of a room"), "{errors:#?}");
    }
    let twice = text("routes = [\"search\"]")
        + "[[room]]\nname = \"sale\"\nkey_file = \"k\"\nroutes = [\"other\"]\n";
    assert!(
        errors(&twice)[0]
            .1
            .contains("a second room is called \"sale\"")
    );
    let unnamed = format!("{MINIMAL}[[room]]\n");
    let said: Vec<String> = errors(&unnamed).into_iter().map(|it| it.1).collect();
    assert_eq!(said, ["[[room]] needs `name`", "[[room]] needs `key_file`"]);
}

#[test]
fn a_route_is_behind_one_room() {
    let second = |routes: &str| {
        text("routes = [\"search\"]")
            + &format!("[[room]]\nname = \"second\"\nkey_file = \"k\"\n{routes}\n")
    };
    for routes in ["routes = [\"search\"]", ""] {
        let errors = errors(&second(routes));
        assert_eq!(errors.len(), 1, "{errors:#?}");
        assert!(
            errors[0].1.contains("behind room \"sale\" already"),
            "{errors:#?}"
        );
    }
    let shared = second("routes = [\"other\"]\nstate = \"s\"").replacen(
        "key_file = \"keys.json\"",
        "key_file = \"keys.json\"\naudit = \"s\"",
        1,
    );
    assert!(
        errors(&shared)[0]
            .1
            .contains("room \"sale\" writes as well")
    );
}

#[test]
fn there_are_no_more_than_sixteen() {
    let rooms = |count: usize| -> String {
        let routes =
            (0..count).map(|at| format!("[[app.route]]\nname = \"r{at}\"\npath = \"/r{at}\"\n"));
        let rooms = (0..count).map(|at| {
            format!("[[room]]\nname = \"r{at}\"\nkey_file = \"k\"\nroutes = [\"r{at}\"]\n")
        });
        let all: String = routes.chain(rooms).collect();
        format!("{MINIMAL}{all}")
    };

    assert_eq!(plan(&rooms(16)).rooms.len(), 16);
    assert_eq!(errors(&rooms(17))[0].1, "17 rooms");
}

#[test]
fn rooms_make_a_node_of_a_gateway() {
    let fleet = setup(&text("")).fleet.unwrap();
    assert!(fleet.leads && fleet.node.is_none());
    let named = setup(&format!("{}[fleet]\nnode = \"a\"\n", text("")));
    assert_eq!(named.fleet.unwrap().node.unwrap().as_str(), "a");
    // What needs a fleet may rely on it.
    let limit = "[[limit]]\nname = \"l\"\nrate = \"100/s\"\nheadroom = {}\n";
    plan(&(text("") + limit));
}

#[test]
fn nodes_that_share_what_they_say_share_rooms_too() {
    let bus = "[store.bus]\nurl = \"redis://127.0.0.1:1\"\n";
    let apart = errors(&(text("") + bus));
    assert_eq!(apart.len(), 1, "{apart:#?}");
    assert!(apart[0].1.contains("share [store.bus] but no rooms"));
    assert!(apart[0].2.contains("[store.room]"));

    plan(&(text("") + bus + "[store.room]\nurl = \"redis://127.0.0.1:2\"\n"));
    plan(&(text("") + "[store]\nurl = \"redis://127.0.0.1:1\"\n"));
}

#[test]
fn cookies_of_a_room_need_tls_where_those_of_sessions_do() {
    let transport = |sessions: &str, keys: &str| {
        let room = plan(&(text(keys) + sessions)).rooms.remove(0);
        room.tokens.transport
    };

    assert_eq!(transport("[sessions]\n", ""), Transport::Tls);
    let insecure = "[sessions]\ninsecure = true\n";
    assert_eq!(transport(insecure, ""), Transport::Insecure);
    assert_eq!(transport(insecure, "insecure = false"), Transport::Tls);
}

#[test]
fn paths_begin_where_the_configuration_is() {
    let parsed = parse(
        "/etc/tidegate/t.toml",
        &text("theme = \"look/theme.toml\"\nstate = \"/var/s\""),
        &Flags::default(),
    );

    let setup = parsed.unwrap_or_else(|refused| panic!("{refused}"));
    let room = &setup.gateway.rooms[0];
    assert_eq!(room.key_file, Path::new("/etc/tidegate/keys.json"));
    assert_eq!(
        setup.themes[0].as_deref(),
        Some(Path::new("/etc/tidegate/look/theme.toml"))
    );
    assert_eq!(room.state.as_deref(), Some(Path::new("/var/s")));
}

#[test]
fn what_follows_is_printed() {
    let page = summary(&text(
        "order = \"credit\"\non_store_loss = \"open\"\nstarts = \"2026-12-24T10:00:00Z\"\naudit = \"a.jsonl\"\n\
         message = { en = \"Soon.\" }\n[[room.webhook]]\nurl = \"http://h/x\"\nsecret_file = \"s\"",
    ));

    for said in [
        "\nroom sale\n",
        "application app, routes search other; what is static passes",
        "auto: a line forms",
        "who is back counts as if they had come 20m earlier, who is signed in 5m",
        "1 to 1000 visitors a second over all gateways",
        "2m to come in, 3 times as long again",
        "300 places at once for one network",
        "HS256 by tidegate, 15m without use and 12h at most, keys in keys.json",
        "in this process: another gateway would have a line of its own",
        "nobody is let in for 30s, and then everybody passes",
        "with a message in en",
        "begins at 2026-12-24T10:00:00Z; for 30m before it",
        "http://h:80/x, signed with what is in s",
        "without [sessions] nobody is known",
        "without state nobody knows",
        "\nfleet\n",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
}

#[test]
fn what_may_be_meant_is_only_warned_of() {
    let warned = |keys: &str, more: &str| summary(&(text(keys) + more));
    let quiet = warned(
        "state = \"s\"",
        "[sessions]\n[store]\npath = \"/var/lib/tidegate\"\n",
    );
    assert!(!quiet.contains("warning"), "{quiet}");
    for (keys, more, said) in [
        (
            "claim_within = \"30m\"",
            "",
            "claim_within = 30m is longer than pass_idle = 15m",
        ),
        ("settle = \"10s\"", "", "settle is shorter than 2m 40s"),
        (
            "phase = \"prequeue\"\nstarts = \"2026-12-24T10:00:00Z\"",
            "",
            "phase = prequeue holds after the event",
        ),
        ("insecure = true", "", "insecure: tokens"),
        (
            "",
            "[sessions]\nticket = false\n",
            "ticket = false in [sessions]",
        ),
    ] {
        let page = warned(keys, more);
        assert!(page.contains(said), "{said}: {page}");
    }
    let shadow = text("").replacen("[[app.route]]", "mode = \"shadow\"\n[[app.route]]", 1);
    assert!(summary(&shadow).contains("everybody passes all the same"));
}

#[test]
fn names_are_those_of_the_core() {
    assert!(
        Phase::ALL
            .iter()
            .map(|it| it.name())
            .eq(PHASES.iter().copied())
    );
    let algorithms = Algorithm::ALL.iter().map(|it| it.name());
    assert!(algorithms.eq(ALGORITHMS.iter().copied()));
}

#[test]
fn an_agent_has_no_rooms() {
    let text = "[[room]]\nname = \"sale\"\nkey_file = \"k\"\n";
    let refused =
        super::super::parse_for(super::super::Role::Agent, "a.toml", text, &Flags::default());
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("`[[room]]` has no effect"), "{refused}");
}

#[test]
fn the_example_is_one() {
    let setup = setup(include_str!("../../../../../examples/waiting-room.toml"));

    let [room] = &setup.gateway.rooms[..] else {
        panic!("one room");
    };
    assert_eq!(room.tokens.room.as_str(), "shop");
    let page = Summary(&setup).to_string();
    assert!(!page.contains("warning"), "{page}");
}

//! What is accepted, what is refused, and how it is said.

use std::time::Duration;

use tidegate_core::bulkhead::{Loan, Portion, Reserve};
use tidegate_core::facts::{Class, GroupId};
use tidegate_core::limit::adaptive::Settings;
use tidegate_core::limit::{Bounds, Kind};
use tidegate_gateway::plan::{Mode, Plan};

use super::{Flags, Setup, Summary, parse};

pub(super) const MINIMAL: &str = "[[app]]\nupstream = \"http://127.0.0.1:8000\"\n";

pub(super) fn plan(text: &str) -> Plan {
    setup(text).gateway
}

pub(super) fn setup(text: &str) -> Setup {
    parse("t.toml", text, &Flags::default()).unwrap_or_else(|refused| panic!("{refused}"))
}

/// Every error of `text`: its line, its message, its help.
pub(super) fn errors(text: &str) -> Vec<(usize, String, String)> {
    let refused = parse("t.toml", text, &Flags::default()).expect_err("refused");
    let page = refused.to_string();
    let part = |block: &str, start: &str| {
        let line = block
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(start));
        line.unwrap_or_default().to_owned()
    };
    page.split("\n\n")
        .filter(|block| block.starts_with("error"))
        .map(|block| {
            let place = part(block, "--> t.toml:");
            let line = place.split(':').next().and_then(|line| line.parse().ok());
            (
                line.unwrap_or(0),
                part(block, "error: "),
                part(block, "= help: "),
            )
        })
        .collect()
}

/// The only error that `keys` in an otherwise sound `[[app]]` cause.
pub(super) fn app_error(keys: &str) -> (String, String) {
    let mut errors = errors(&format!("{MINIMAL}{keys}\n"));
    assert_eq!(errors.len(), 1, "{errors:#?}");
    let (_, message, help) = errors.remove(0);
    (message, help)
}

#[test]
fn the_smallest_file_gets_every_default() {
    let plan = plan(MINIMAL);

    let app = &plan.apps[0];
    assert_eq!((app.name.as_str(), app.mode), ("app", Mode::Enforce));
    assert_eq!(
        app.limit,
        Kind::Adaptive(Settings {
            bounds: Bounds::new(20, 4, 8_000).unwrap(),
            latency_healthy_max: None,
        })
    );
    assert_eq!(app.upstream.connections_max.get(), 8_000);
    assert_eq!(app.admission.hold, Duration::from_millis(200));
    assert_eq!(
        app.admission.bulkheads.reserves[Class::Critical.index()],
        Some(Reserve {
            portion: Portion::Share(0.1),
            loan: Loan::Lent
        })
    );
    assert_eq!(app.routes.len(), 1);
    assert_eq!(app.routes[0].name, "other");
    assert_eq!(app.routes[0].patience, Duration::from_secs(10));
    assert_eq!(plan.admin, Some(([127, 0, 0, 1], 9090).into()));
    assert_eq!(plan.drain.delay, Duration::from_secs(5));
    assert!(app.static_extensions.contains(&".css".to_owned()));
}

#[test]
fn flags_alone_make_a_plan() {
    let flags = Flags {
        upstream: Some("http://[::1]:8000".to_owned()),
        listen: Some("127.0.0.1:0".to_owned()),
        admin: Some("off".to_owned()),
        workers: Some(8),
        threads: Some(2),
        mode: Some("shadow".to_owned()),
    };

    let plan = parse("no file", "", &flags).unwrap().gateway;

    assert_eq!(plan.threads.get(), 2);
    assert_eq!(plan.admin, None);
    assert_eq!(plan.listener.address, Some(([127, 0, 0, 1], 0).into()));
    let app = &plan.apps[0];
    assert_eq!(
        (app.upstream.host.as_str(), app.upstream.port),
        ("::1", 8000)
    );
    assert_eq!(app.limit, Kind::Static(8.try_into().unwrap()));
    assert_eq!(app.mode, Mode::Shadow);
}

#[test]
fn a_flag_overrides_the_file_and_is_named_when_it_is_wrong() {
    let flags = Flags {
        workers: Some(0),
        ..Flags::default()
    };

    let refused = parse("t.toml", &format!("{MINIMAL}workers = 8\n"), &flags).unwrap_err();

    assert_eq!(
        refused.to_string(),
        "error: `workers = 0` is out of range\n \
          --> --workers on the command line\n \
          = help: write a value from 1 to 60000\n\n\
         1 error: the configuration is refused as a whole"
    );
}

#[test]
fn a_flag_about_the_application_needs_there_to_be_one() {
    let flags = Flags {
        workers: Some(8),
        ..Flags::default()
    };
    let two = format!("{MINIMAL}name = \"a\"\npath_prefix = \"/a/\"\n{MINIMAL}");

    let refused = parse("t.toml", &two, &flags).unwrap_err();

    assert!(
        refused
            .to_string()
            .contains("--workers is about one application, but the file has 2")
    );
}

#[test]
fn everything_in_a_file_finds_its_place() {
    let plan = plan(include_str!("../../../../examples/one-box.toml"));

    let app = &plan.apps[0];
    assert_eq!(app.groups, ["recommendations"]);
    let [checkout, recommendations, other] = app.routes.as_slice() else {
        panic!("three routes")
    };
    assert_eq!(checkout.class, Some(Class::Critical));
    assert_eq!(checkout.patience, Duration::from_secs(30));
    assert_eq!(recommendations.group, GroupId(1));
    assert_eq!((other.name.as_str(), other.group), ("other", GroupId(0)));
    assert_eq!(
        app.admission.bulkheads.reserves[Class::Critical.index()],
        Some(Reserve {
            portion: Portion::Share(0.2),
            loan: Loan::Strict
        })
    );
    assert_eq!(plan.trusted.len(), 1);
    assert_eq!(plan.probes.paths, ["/health"]);
}

#[test]
fn a_misspelt_key_is_shown_where_it_stands_with_what_was_meant() {
    let refused = parse(
        "t.toml",
        &format!("[listen]\nadress = \"0.0.0.0:80\"\n\n{MINIMAL}"),
        &Flags::default(),
    );

    assert_eq!(
        refused.unwrap_err().to_string(),
        "error: unknown key `adress` in [listen]\n \
          --> t.toml:2:1\n  \
           |\n\
         2 | adress = \"0.0.0.0:80\"\n  \
           | ^^^^^^\n  \
           = help: did you mean `address`?\n\n\
         1 error: the configuration is refused as a whole"
    );
}

#[test]
fn one_run_shows_every_error_in_the_order_of_the_file() {
    let errors = errors(
        "thread = 2\n\
         [listen]\n\
         head_timeout = 5\n\
         connections_max = \"100\"\n\
         [trust]\n\
         proxies = [\"10.0.0.1/8\", \"ten\"]\n\
         [[app]]\n\
         name = \"my shop\"\n\
         upstream = \"https://127.0.0.1:8000\"\n\
         hold = \"5ms\"\n\
         discipline = \"lifo\"\n\
         [app.reserve.critcal]\n\
         share = 0.2\n",
    );

    let lines: Vec<usize> = errors.iter().map(|(line, _, _)| *line).collect();
    assert_eq!(lines, [1, 3, 4, 6, 6, 8, 9, 10, 11, 12], "{errors:#?}");
    let helps: Vec<&str> = errors.iter().map(|(_, _, help)| help.as_str()).collect();
    assert_eq!(helps[0], "did you mean `threads`?");
    assert_eq!(
        helps[1],
        "write the unit: head_timeout = \"5ms\" or head_timeout = \"5s\""
    );
    assert_eq!(helps[2], "write it without quotes: connections_max = 100");
    assert!(helps[3].starts_with("write \"10.0.0.0/8\" for the network"));
    assert_eq!(helps[7], "write a value from 10ms to 1m");
    assert_eq!(helps[8], "did you mean \"fifo\"?");
    assert_eq!(helps[9], "did you mean [app.reserve.critical]?");
}

#[test]
fn a_file_that_is_no_toml_says_where_it_stops_being_one() {
    let errors = errors("[listen]\naddress = 0.0.0.0:80\n");
    assert!(errors.iter().all(|(line, _, _)| *line == 2), "{errors:#?}");

    let errors = self::errors("threads = 1\nthreads = 2\n");
    assert_eq!(errors[0].0, 2);
    assert_eq!(
        errors[0].2,
        "each key and section may appear once: remove one of them"
    );
}

#[test]
fn a_file_without_application_is_refused() {
    let errors = errors("threads = 1\n");

    assert_eq!(errors[0].1, "there is no application");
}

#[test]
fn one_bracket_too_few_is_explained() {
    let errors = errors("[app]\nupstream = \"http://127.0.0.1:8000\"\n");

    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].1, "`app` is a list of sections, not a table");
    assert_eq!(errors[0].2, "write [[app]], with two brackets");
}

#[test]
fn upstreams_that_cannot_be_used_are_refused() {
    let message = |upstream: &str| {
        let errors = errors(&format!("[[app]]\nupstream = \"{upstream}\"\n"));
        assert_eq!(errors.len(), 1, "{errors:#?}");
        errors[0].1.clone()
    };

    assert!(message("https://a:443").contains("asks for TLS, which comes later"));
    assert!(message("127.0.0.1:8000").contains("is no http:// URL"));
    assert!(message("http://a:8000/shop").contains("has a path"));
    assert!(message("http://").contains("has no"));
    assert!(message("http://u:p@a:80").contains("carries credentials"));
    assert!(message("http://a:99999").contains("has no"));
    assert_eq!(
        plan("[[app]]\nupstream = \"http://a/\"\n").apps[0]
            .upstream
            .port,
        80
    );
}

#[test]
fn reserves_leave_room_for_the_rest() {
    let reserve = |class: &str, keys: &str| format!("[app.reserve.{class}]\n{keys}\n");

    let total = format!(
        "workers = 10\n{}{}",
        reserve("critical", "share = 0.5"),
        reserve("signed-in", "slots = 5")
    );
    assert!(
        app_error(&total)
            .0
            .starts_with("the reserves take 1.00 of the limit together")
    );
    // Critical keeps its 0.1 when nothing is said about it.
    assert!(
        app_error(&reserve("signed-in", "share = 0.85"))
            .0
            .contains("0.95")
    );
    assert_eq!(
        app_error(&format!(
            "workers = 4\n{}",
            reserve("critical", "slots = 4")
        ))
        .0,
        "class \"critical\" reserves 4 of 4 workers"
    );
    assert_eq!(
        app_error(&reserve("critical", "loan = \"lent\"")).0,
        "how large is not said"
    );
    assert_eq!(
        app_error(&reserve("critical", "share = 0.1\nslots = 2")).0,
        "`share` and `slots` say the same thing twice"
    );
    assert!(
        app_error(&reserve("critical", "share = 1.5"))
            .0
            .contains("is not above 0 and up to 0.9")
    );
}

#[test]
fn groups_and_routes_belong_together() {
    let group = "[[app.group]]\nname = \"reviews\"\nshare = 0.2\n";
    let route = |keys: &str| format!("[[app.route]]\nname = \"r\"\n{keys}\n");

    assert_eq!(app_error(group).0, "no route is in group \"reviews\"");
    assert_eq!(
        app_error(&format!(
            "{group}{}",
            route("path = \"/r\"\ngroup = \"revews\"")
        ))
        .1,
        "did you mean \"reviews\"?"
    );
    assert!(
        app_error(&route("path = \"/r\"\ngroup = \"x\""))
            .1
            .starts_with("add an [[app.group]]")
    );
    assert!(
        app_error(&route("path = \"/**\"").replace("\"r\"", "\"other\""))
            .0
            .contains("is kept for")
    );
    assert_eq!(app_error(&route("")).0, "a route without a path");
    assert!(
        app_error(&route("path = \"/img*\""))
            .0
            .contains("'*' stands for a whole segment")
    );
    assert!(
        app_error(&route("path = \"/s?q=1\""))
            .0
            .contains("can never fit")
    );
    assert_eq!(
        app_error(&route("path = \"/r\"\nmethods = [\"post\"]")).1,
        "write \"POST\""
    );
    assert!(
        app_error(&route("path = \"/r\"\nheaders = { \"a b\" = \"*\" }"))
            .0
            .contains("no header name")
    );
    assert!(
        app_error(&route("path = \"/r\"\nheaders = { dnt = 1 }"))
            .0
            .contains("the value of header")
    );
}

#[test]
fn a_route_or_application_that_can_never_be_reached_is_refused() {
    let route = |name: &str, keys: &str| format!("[[app.route]]\nname = \"{name}\"\n{keys}\n");

    let same = format!(
        "{}{}",
        route("a", "path = \"/x\""),
        route("b", "path = \"/x\"\nmethods = [\"GET\"]")
    );
    assert_eq!(
        app_error(&same).0,
        "route \"b\" can never match: \"a\" above takes all of it"
    );
    let narrower = format!(
        "{MINIMAL}{}{}",
        route("a", "path = \"/x\"\nmethods = [\"GET\"]"),
        route("b", "path = \"/x\"")
    );
    plan(&narrower);
    let second = format!("{MINIMAL}name = \"a\"\n{MINIMAL}path_prefix = \"/b/\"\n");
    assert_eq!(
        errors(&second)[0].1,
        "application \"app\" gets no request: \"a\" above takes all of them"
    );
}

#[test]
fn names_are_given_once_and_fit_into_a_metric() {
    let two = format!("{MINIMAL}path_prefix = \"/a/\"\n{MINIMAL}");
    assert_eq!(errors(&two)[0].1, "a second application is called \"app\"");
    assert!(
        app_error("name = \"my shop\"")
            .0
            .contains("will not do as a metric label")
    );
    assert!(
        app_error("name = \"\"")
            .0
            .contains("will not do as a metric label")
    );
}

#[test]
fn two_listeners_do_not_share_an_address() {
    let text = format!("[admin]\naddress = \"127.0.0.1:8080\"\n{MINIMAL}");

    assert!(errors(&text)[0].1.contains("is taken by the listener"));
}

#[test]
fn hosts_are_names_alone_and_compare_in_lower_case() {
    assert_eq!(
        plan(&format!("{MINIMAL}hosts = [\"Shop.Example\"]\n")).apps[0].hosts,
        ["shop.example"]
    );
    assert!(
        app_error("hosts = [\"shop.example:443\"]")
            .1
            .contains("requests to any port")
    );
    assert!(
        app_error("hosts = [\"https://shop.example\"]")
            .1
            .contains("without scheme")
    );
    assert!(
        app_error("hosts = [\"*.example\"]")
            .0
            .contains("is no host")
    );
    assert!(app_error("hosts = [\"a\", \"a\"]").0.contains("twice"));
}

#[test]
fn the_summary_says_what_follows() {
    let summary = Summary(&setup(include_str!("../../../../examples/one-box.toml"))).to_string();

    assert!(summary.contains("64 at once, as many as there are workers"));
    assert!(summary.contains("576 when S is 20ms, 192 when S is 50ms, 64 when S is 100ms"));
    assert!(summary.contains("critical: 13 of 64 slots; nobody else uses them"));
    assert!(summary.contains("recommendations: at most 13 of 64 slots"));
    assert!(summary.contains("/checkout/**   critical    default"));
    assert!(!summary.contains("warning"), "{summary}");
}

#[test]
fn a_hold_longer_than_a_patience_is_warned_of() {
    let text = format!(
        "{MINIMAL}hold = \"3s\"\n\
         [[app.route]]\nname = \"search\"\npath = \"/search\"\npatience = \"2s\"\n"
    );

    let summary = Summary(&setup(&text)).to_string();

    let warnings: Vec<&str> = summary
        .lines()
        .filter(|line| line.contains("warning"))
        .collect();
    assert_eq!(
        warnings,
        [
            "  warning   hold = 3s is longer than patience = 2s of route search: its requests leave the \
             queue by their deadline (expired_in_queue), before hold is over"
        ]
    );
}

#[test]
fn an_application_is_never_at_an_address_of_tidegates_own() {
    for (own, upstream) in [
        ("listen]\naddress = \"0.0.0.0:8000\"", "127.0.0.1:8000"),
        ("listen]\naddress = \"[::]:8000\"", "localhost:8000"),
        ("listen]\naddress = \"127.0.0.1:8000\"", "127.0.0.1:8000"),
        (
            "listen]\naddress = \"127.0.0.1:8000\"",
            "[::ffff:127.0.0.1]:8000",
        ),
        ("admin]\naddress = \"127.0.0.1:9000\"", "127.0.0.1:9000"),
    ] {
        let text = format!("[{own}\n[[app]]\nupstream = \"http://{upstream}\"\n");
        let errors = errors(&text);
        assert!(errors[0].1.contains("is Tidegate's own"), "{errors:?}");
    }
    plan("[listen]\naddress = \"192.0.2.1:8000\"\n[[app]]\nupstream = \"http://127.0.0.1:8000\"\n");
}

#[test]
fn what_no_path_can_be_is_refused_with_what_it_can() {
    for (path, same) in [
        ("/a/../b", "/b"),
        ("//x", "/x"),
        ("/%61", "/a"),
        ("/é", "/%C3%A9"),
        ("/a\\n", "/a%0A"),
        ("/a;b=c", "/a"),
    ] {
        for key in ["path_prefix = ", "[[app.route]]\nname = \"r\"\npath = "] {
            let (_, help) = app_error(&format!("{key}\"{path}\""));
            assert!(
                help.ends_with(&format!("write \"{same}\"")),
                "{path}: {help}"
            );
        }
    }
}

#[test]
fn a_header_is_the_same_in_capitals() {
    let keys = "[[app.route]]\nname = \"r\"\npath = \"/a\"\nheaders = { X-A = \"1\", x-a = \"2\" }";

    assert_eq!(app_error(keys).0, "header `x-a` is there twice");
}

#[test]
fn far_too_many_routes_are_refused_in_no_time() {
    let routes: String = (0..20_000)
        .map(|n| format!("[[app.route]]\nname = \"r{n}\"\npath = \"/r{n}\"\n"))
        .collect();

    assert_eq!(app_error(&routes).0, "20000 routes in one application");
}

#[test]
fn the_summary_says_where_sessions_are_and_how_safe() {
    let text = format!(
        "{MINIMAL}[[app.route]]\nname = \"pay\"\npath = \"/pay\"\nsession = \"required\"\n\
         session_fields = [\"cart\"]\n\
         [store]\nurl = \"redis://10.0.0.5\"\n[store.limits]\nurl = \"redis://10.0.0.6\"\n\
         [sessions]\nkey_file = \"/k\"\n[sidecar]\nlisten = \"unix:/run/t.sock\"\n"
    );

    let summary = Summary(&setup(&text)).to_string();

    for said in [
        "sessions, room, bus in the server 10.0.0.5:6379, database 0",
        "limits in the server 10.0.0.6:6379",
        "cookie    __Host-tg, ticket __Host-tgt, keys in /k",
        "at a sign-in cart locale; for the next session cart",
        "work redo, sign-in redo,",
        "sidecar   on unix:/run/t.sock",
        "required: cart",
    ] {
        assert!(summary.contains(said), "{said}\n{summary}");
    }
    assert!(!summary.contains("warning"), "{summary}");
    assert!(!Summary(&setup(MINIMAL)).to_string().contains("session"));
}

#[test]
fn uses_that_need_different_eviction_policies_are_warned_of_on_one_server() {
    let warnings = |limits: &str| {
        let text = format!("{MINIMAL}[store]\nurl = \"redis://a\"\n[store.limits]\n{limits}\n");
        let summary = Summary(&setup(&text)).to_string();
        summary.matches("warning   limits may be evicted").count()
    };

    assert_eq!(warnings("database = 1"), 1, "a database is no server");
    assert_eq!(warnings("url = \"redis://a:6379\""), 1);
    assert_eq!(warnings("url = \"redis://b\""), 0);
    let shared = format!("{MINIMAL}[store]\nurl = \"redis://a\"\n");
    assert!(
        Summary(&setup(&shared))
            .to_string()
            .contains("needs     maxmemory-policy noeviction at a:6379")
    );
}

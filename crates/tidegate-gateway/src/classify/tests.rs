use std::num::{NonZeroU32, NonZeroUsize};

use http::{HeaderName, HeaderValue};
use tidegate_core::admission;
use tidegate_core::bulkhead::Bulkheads;
use tidegate_core::limit;
use tidegate_core::queue::Discipline;

use super::*;
use crate::plan::{Mode, OnClientGone, PathPattern, UpstreamPlan};

const PATIENCE: Duration = Duration::from_secs(10);

fn route(name: &str, paths: &[&str], class: Option<Class>) -> RoutePlan {
    RoutePlan {
        name: name.into(),
        matches: Matcher {
            methods: Vec::new(),
            paths: paths
                .iter()
                .map(|path| PathPattern::parse(path).unwrap())
                .collect(),
            headers: Vec::new(),
        },
        class,
        group: GroupId(0),
        patience: PATIENCE,
        session: crate::session::RouteSession::default(),
        dependencies: Vec::new(),
        room: None,
    }
}

pub(crate) fn app() -> AppPlan {
    let mut beta = route("beta", &["/**"], Some(Class::Critical));
    beta.matches.methods = vec![Method::PUT];
    beta.matches.headers = vec![(
        HeaderName::from_static("x-beta"),
        Some(HeaderValue::from_static("yes")),
    )];
    let routes = vec![
        route("checkout", &["/checkout/**"], Some(Class::Critical)),
        beta,
        route("other", &["/**"], None),
    ];
    AppPlan {
        name: "shop".into(),
        hosts: Vec::new(),
        path_prefix: "/".into(),
        upstream: UpstreamPlan {
            host: "127.0.0.1".into(),
            port: 1,
            connections_max: NonZeroU32::MIN,
            keep_alive: true,
            idle_timeout: PATIENCE,
            connect_timeout: PATIENCE,
            response_timeout: PATIENCE,
            body_timeout: PATIENCE,
            response_buffer_max: NonZeroUsize::MIN.get(),
            response_buffers_max: NonZeroUsize::MIN.get(),
        },
        breaker: None,
        mode: Mode::Enforce,
        on_client_gone: OnClientGone::Hold,
        limit: limit::Kind::Static(NonZeroU32::MIN),
        journal: None,
        warm_start: None,
        admission: admission::Config {
            hold: Duration::from_millis(200),
            queue_max: 1,
            queue_bytes_max: 1,
            discipline: Discipline::Fifo,
            bulkheads: Bulkheads::default(),
            routes: routes.len() as u16,
            escape: false,
            level: false,
        },
        routes,
        groups: Vec::new(),
        session_cookies: vec!["JSESSIONID".into()],
        sessions: None,
        static_extensions: vec![".css".into()],
    }
}

const NOW: Mono = Mono::from_millis(50_000);

fn wall() -> Wall {
    Wall::from_micros(1_700_000_000_500_000)
}

fn request(method: Method, target: &str, lines: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

fn labelled(target: &str, lines: &[(&str, &str)], trusted: bool) -> Label {
    label(
        &request(Method::GET, target, lines),
        &app(),
        trusted,
        NOW,
        wall,
        |header| panic!("{header:?} makes sense"),
    )
}

fn class(target: &str, lines: &[(&str, &str)], trusted: bool) -> Class {
    labelled(target, lines, trusted).class
}

fn patience(lines: &[(&str, &str)], trusted: bool) -> Duration {
    labelled("/", lines, trusted).deadline.since(NOW)
}

#[test]
fn the_first_route_that_takes_all_of_a_request_has_it() {
    let app = app();
    let route = |request: Request<()>| label(&request, &app, false, NOW, wall, |_| {}).route;

    assert_eq!(route(request(Method::GET, "/checkout/pay?x=1", &[])), 0);
    assert_eq!(route(request(Method::PUT, "/a", &[("x-beta", "yes")])), 1);
    assert_eq!(route(request(Method::PUT, "/a", &[("x-beta", "no")])), 2);
    assert_eq!(route(request(Method::GET, "/a", &[("x-beta", "yes")])), 2);
}

#[test]
fn a_request_earns_its_class_by_route_then_cookie_then_path() {
    let cookie = [("cookie", "a=b; JSESSIONID=1234")];

    assert_eq!(class("/checkout/pay", &[], false), Class::Critical);
    assert_eq!(class("/a", &cookie, false), Class::SignedIn);
    assert_eq!(class("/a.css", &cookie, false), Class::SignedIn);
    assert_eq!(class("/a.css", &[], false), Class::Static);
    assert_eq!(
        class("/a", &[("cookie", "JSESSIONID=")], false),
        Class::Anonymous
    );
    assert_eq!(
        class("/a", &[("cookie", "XJSESSIONID=1")], false),
        Class::Anonymous
    );
}

#[test]
fn only_what_says_nothing_of_itself_counts_as_unlabelled() {
    assert!(!labelled("/a", &[], false).labelled);
    assert!(labelled("/a.css", &[], false).labelled);
    assert!(labelled("/a", &[("sec-purpose", "prefetch")], false).labelled);
    assert!(labelled("/a", &[("tidegate-class", "SHEDDABLE_PLUS")], true).labelled);
}

#[test]
fn a_stranger_may_only_lower_itself() {
    assert_eq!(
        class("/a", &[("tidegate-class", "critical")], false),
        Class::Anonymous
    );
    assert_eq!(
        class("/a", &[("tidegate-class", "background")], false),
        Class::Background
    );
    assert_eq!(
        class("/checkout/x", &[("tidegate-class", "SHEDDABLE")], false),
        Class::Background
    );
}

#[test]
fn a_trusted_peers_word_on_the_class_is_final() {
    assert_eq!(
        class("/a", &[("tidegate-class", "CRITICAL_PLUS")], true),
        Class::Critical
    );
    assert_eq!(
        class("/checkout/x", &[("tidegate-class", "static")], true),
        Class::Static
    );
}

#[test]
fn a_page_that_nobody_has_asked_for_yet_is_background() {
    assert_eq!(
        class("/a", &[("sec-purpose", "prefetch;prerender")], false),
        Class::Background
    );
    assert_eq!(
        class("/a", &[("purpose", "prefetch")], true),
        Class::Background
    );
    assert_eq!(
        class("/checkout/x", &[("sec-purpose", "prefetch")], false),
        Class::Background
    );
}

#[test]
fn a_stranger_may_only_shorten_its_patience() {
    assert_eq!(patience(&[], false), PATIENCE);
    assert_eq!(
        patience(&[("tidegate-timeout-ms", "300")], false),
        Duration::from_millis(300)
    );
    assert_eq!(
        patience(&[("tidegate-timeout-ms", "99000")], false),
        PATIENCE
    );
}

#[test]
fn a_trusted_peer_says_how_long_there_is_and_has_been() {
    let seconds = Duration::from_secs;

    assert_eq!(
        patience(&[("tidegate-timeout-ms", "99000")], true),
        seconds(99)
    );
    assert_eq!(patience(&[("grpc-timeout", "3S")], true), seconds(3));
    assert_eq!(
        patience(&[("x-envoy-expected-rq-timeout-ms", "4000")], true),
        seconds(4)
    );
    assert_eq!(
        patience(&[("x-request-start", "t=1699999998.5")], true),
        seconds(8)
    );
    assert_eq!(
        patience(&[("x-request-start", "t=1699999998.5")], false),
        PATIENCE
    );
    assert_eq!(
        patience(&[("x-request-start", "t=1699999980")], true),
        Duration::ZERO
    );
}

#[test]
fn anybody_may_say_that_a_request_comes_once_more() {
    for (name, first, second) in [
        ("tidegate-attempt", "1", "2"),
        ("x-envoy-attempt-count", "1", "3"),
        ("grpc-previous-rpc-attempts", "0", "1"),
    ] {
        for trusted in [false, true] {
            assert!(!labelled("/a", &[(name, first)], trusted).retry, "{name}");
            assert!(labelled("/a", &[(name, second)], trusted).retry, "{name}");
        }
    }
    assert!(
        labelled(
            "/a",
            &[("tidegate-attempt", "1"), ("x-envoy-attempt-count", "2")],
            false
        )
        .retry
    );
    assert!(!labelled("/a", &[], false).retry);
}

#[test]
fn a_session_is_its_cookie_whatever_stands_around_it() {
    let found = |line: &str| {
        let request = request(Method::GET, "/", &[("cookie", line)]);
        session(request.headers(), &app()).map(<[u8]>::to_vec)
    };

    let expected = Some(b"JSESSIONID=1234".to_vec());
    assert_eq!(found("a=b; JSESSIONID=1234;c=d"), expected);
    assert_eq!(found("JSESSIONID=1234"), expected);
    assert_eq!(found("JSESSIONID="), None);
    assert_eq!(found("JSESSIONID"), None);
}

#[test]
fn nonsense_is_ignored_and_counted() {
    let request = request(
        Method::GET,
        "/",
        &[
            ("tidegate-class", "urgent"),
            ("tidegate-timeout-ms", "soon"),
            ("x-request-start", "yesterday"),
            ("tidegate-attempt", "again"),
        ],
    );
    let mut seen = Vec::new();

    let label = label(&request, &app(), true, NOW, wall, |header| {
        seen.push(header)
    });

    assert_eq!(label.class, Class::Anonymous);
    assert_eq!(label.deadline, NOW + PATIENCE);
    assert!(!label.retry);
    assert_eq!(
        seen,
        [
            Malformed::Class,
            Malformed::Timeout,
            Malformed::Start,
            Malformed::Attempt
        ]
    );
}

#[test]
fn an_application_is_found_by_host_and_path() {
    let mut api = app();
    api.hosts = vec!["api.example".into(), "[::1]".into()];
    let mut admin = app();
    admin.path_prefix = "/admin".into();
    let apps = [api, admin];
    let found = |target: &str, host: &str| {
        app_of(
            &request(Method::GET, target, &[("host", host)]),
            apps.iter(),
        )
    };

    assert_eq!(found("/", "api.example"), Some(0));
    assert_eq!(found("/", "API.Example:8080"), Some(0));
    assert_eq!(found("/", "[::1]:8080"), Some(0));
    assert_eq!(found("/", "[::1]"), Some(0));
    assert_eq!(
        found("http://api.example:8080/x", "api.example:8080"),
        Some(0)
    );
    assert_eq!(found("/admin/x", "www.example"), Some(1));
    assert_eq!(found("/", "www.example"), None);
}

#[test]
fn tunnels_are_for_no_application() {
    let apps = [app()];
    let connect = request(
        Method::CONNECT,
        "shop.example:443",
        &[("host", "shop.example:443")],
    );

    assert_eq!(app_of(&connect, apps.iter()), None);
}

#[test]
fn another_spelling_of_a_path_makes_no_other_class() {
    for path in [
        "/checkout/../browse",
        "/checkout/%2e%2e/browse",
        "/checkout/..;/browse",
        "/checkout%2F..%2Fbrowse",
    ] {
        assert_eq!(class(path, &[], false), Class::Anonymous, "{path}");
    }
    for path in [
        "//checkout/pay",
        "/%63heckout/pay",
        "/browse/../checkout/pay",
        "/checkout;jsessionid=1/pay",
    ] {
        assert_eq!(class(path, &[], false), Class::Critical, "{path}");
    }
    assert_eq!(class("/report;x=.css", &[], false), Class::Anonymous);
}

#[test]
fn another_spelling_of_a_path_reaches_no_other_application() {
    let mut admin = app();
    admin.path_prefix = "/admin/".into();
    let apps = [admin, app()];
    let index = |path| app_of(&request(Method::GET, path, &[]), apps.iter());

    for path in ["//admin/x", "/%61dmin/x", "/shop/../admin/x"] {
        assert_eq!(index(path), Some(0), "{path}");
    }
    assert_eq!(index("/admin/../shop"), Some(1));
}

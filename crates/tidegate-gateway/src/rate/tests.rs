use std::net::SocketAddr;

use http::HeaderValue;
use tidegate_core::rate::Algorithm;

use super::*;
use tidegate_http::framing::FramingLog;

pub(super) fn limit(key: Vec<KeyPart>, absent: Absent) -> LimitPlan {
    let rate = "10/min".parse().unwrap();
    LimitPlan {
        name: "limit".to_owned(),
        algorithm: Algorithm::Bucket,
        rate,
        spec: Spec::new(Algorithm::Bucket, rate, None).unwrap(),
        cost: Cost::Header {
            name: HeaderName::from_static("x-cost"),
            otherwise: 2,
        },
        key,
        absent,
        apps: Vec::new(),
        routes: Vec::new(),
        standing: Standing::Enforced,
        stage: Stage::Edge,
        follows: None,
        fleet: None,
        instead: None,
    }
}

fn rates(plan: &LimitPlan) -> Rates {
    let limits = vec![Limit::new(plan, &RateSecret::new([7; 16]))];
    Rates {
        table: table(&limits, 100),
        limits,
        met: Vec::new(),
        deny: Arc::new(Spec::Deny),
        who: Who::new(&RatePlan::default(), Clock::start()),
        key_hash: KeyHash::new([7; 16]),
        fleet: None,
        heard: Arc::new(Heard::new(Clock::start(), std::iter::empty())),
    }
}

fn conn(peer: &str, trusted: bool) -> Conn {
    let peer: SocketAddr = format!("{peer}:4711").parse().unwrap();
    let mut conn = Conn::new(peer, FramingLog::default());
    conn.trusted = trusted;
    conn
}

/// The one limit with the key and cost of a request with these headers.
fn wanted<'r>(
    rates: &'r Rates,
    conn: &Conn,
    headers: &[(&'static str, &'static str)],
    uid: Option<&str>,
) -> Few<limits::Asked<'r>> {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        })
        .collect();
    let asked = Asked {
        app: 0,
        route: 0,
        route_name: "checkout",
        headers: &headers,
        conn,
        bearer: &Bearer::default(),
        uid,
    };
    let trusted = ["10.0.0.0/8".parse().unwrap()];
    let met = [(0, Standing::Enforced)];
    rates.wanted(&met, &asked, &trusted, |_| {}).asked
}

#[test]
fn a_stranger_chooses_neither_address_nor_header_nor_cost() {
    let key = vec![
        KeyPart::Client { v4: 32, v6: 64 },
        KeyPart::Header(HeaderName::from_static("x-tenant")),
    ];
    let rates = rates(&limit(key, Absent::Shared));
    let one = [
        ("x-forwarded-for", "198.51.100.1"),
        ("x-tenant", "a"),
        ("x-cost", "0"),
    ];
    let other = [
        ("x-forwarded-for", "198.51.100.2"),
        ("x-tenant", "b"),
        ("x-cost", "9"),
    ];

    let stranger = conn("203.0.113.9", false);
    let (first, second) = (
        wanted(&rates, &stranger, &one, None),
        wanted(&rates, &stranger, &other, None),
    );
    assert_eq!(first[0].key, second[0].key);
    assert_eq!((first[0].cost, second[0].cost), (2, 2));

    let proxy = conn("10.0.0.1", true);
    let (first, second) = (
        wanted(&rates, &proxy, &one, None),
        wanted(&rates, &proxy, &other, None),
    );
    assert_ne!(first[0].key, second[0].key);
    assert_eq!((first[0].cost, second[0].cost), (0, 9));
}

#[test]
fn what_a_request_lacks_is_dealt_with_as_configured() {
    let plan = |absent| limit(vec![KeyPart::Session], absent);
    let client = conn("203.0.113.9", false);

    assert!(wanted(&rates(&plan(Absent::Skip)), &client, &[], None).is_empty());
    let denying = rates(&plan(Absent::Deny));
    assert_eq!(**wanted(&denying, &client, &[], None)[0].spec, Spec::Deny);
    let shared = rates(&plan(Absent::Shared));
    let other = conn("203.0.113.10", false);
    let (one, two) = (
        wanted(&shared, &client, &[], None),
        wanted(&shared, &other, &[], None),
    );
    assert_eq!(one[0].key, two[0].key);
    let known = wanted(&shared, &client, &[], Some("u7"));
    assert_ne!(one[0].key, known[0].key);
    assert_ne!(**known[0].spec, Spec::Deny);
}

#[test]
fn of_a_header_that_is_there_twice_the_nearest_proxy_has_the_last_word() {
    let key = vec![KeyPart::Header(HeaderName::from_static("x-tenant"))];
    let rates = rates(&limit(key, Absent::Skip));
    let proxy = conn("10.0.0.1", true);

    let forged = wanted(
        &rates,
        &proxy,
        &[("x-tenant", "a"), ("x-tenant", "b")],
        None,
    );
    let plain = wanted(&rates, &proxy, &[("x-tenant", "b")], None);

    assert_eq!(forged[0].key, plain[0].key);
}

#[test]
fn an_api_key_counts_as_its_hash_whoever_shows_it_and_no_key_as_none() {
    let key = vec![KeyPart::ApiKey(HeaderName::from_static("x-key"))];
    let rates = rates(&limit(key.clone(), Absent::Skip));
    let stranger = conn("203.0.113.9", false);
    let of = |headers: &[(&'static str, &'static str)]| {
        wanted(&rates, &stranger, headers, None)
            .first()
            .map(|it| it.key)
    };

    let one = of(&[("x-key", "secret-one")]).unwrap();

    assert_ne!(one, of(&[("x-key", "secret-two")]).unwrap());
    assert_eq!(
        one,
        of(&[("x-key", "secret-one"), ("x-key", "other")]).unwrap()
    );
    assert_eq!((of(&[]), of(&[("x-key", "")])), (None, None));
    let raw = rates.limits[0].keys.key(&[Part::ApiKey(b"secret-one")]);
    assert_ne!(one, raw, "what is hashed for the state is a hash already");
}

#[test]
fn a_part_that_requests_lack_is_a_key_of_its_own_only_where_they_are_counted_together() {
    let counted = |absent| counted_key(&limit(vec![KeyPart::Session], absent), &[None]);

    assert_eq!(counted(Absent::Shared), Ok(vec![None]));
    for absent in [Absent::Skip, Absent::Deny] {
        assert_eq!(
            counted(absent).unwrap_err(),
            "requests that lack a part of it are not counted, as they are with absent = \"shared\""
        );
    }
}

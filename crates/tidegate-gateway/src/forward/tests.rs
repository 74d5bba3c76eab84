use std::num::NonZeroU32;
use std::time::Duration;

use http::Request;

use super::*;
use tidegate_http::framing::FramingLog;

fn upstream() -> UpstreamPlan {
    UpstreamPlan {
        host: "127.0.0.1".into(),
        port: 8000,
        connections_max: NonZeroU32::new(8).unwrap(),
        keep_alive: true,
        idle_timeout: Duration::from_secs(60),
        connect_timeout: Duration::from_secs(1),
        response_timeout: Duration::from_secs(60),
        body_timeout: Duration::from_secs(60),
        response_buffer_max: 1,
        response_buffers_max: 1,
    }
}

fn conn(peer: &str, trusted: bool) -> Conn {
    let mut conn = Conn::new(peer.parse().unwrap(), FramingLog::default());
    conn.trusted = trusted;
    conn
}

fn head(target: &str, lines: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().uri(target);
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn rewritten(lines: &[(&str, &str)], peer: &str, trusted: bool) -> HeaderMap {
    let mut head = head("/", lines);
    rewrite(&mut head, &conn(peer, trusted), &upstream());
    head.headers
}

#[test]
fn what_a_stranger_says_of_its_origin_is_replaced() {
    let headers = rewritten(
        &[
            ("host", "shop.example"),
            ("x-forwarded-for", "6.6.6.6"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil.example"),
            ("forwarded", "for=6.6.6.6"),
        ],
        "192.0.2.7:4711",
        false,
    );

    assert_eq!(headers["x-forwarded-for"], "192.0.2.7");
    assert_eq!(headers["x-forwarded-proto"], "http");
    assert_eq!(headers["x-forwarded-host"], "shop.example");
    assert_eq!(headers["forwarded"], "for=192.0.2.7;proto=http");
    assert_eq!(headers.len(), 5);
}

#[test]
fn a_trusted_peer_is_believed_and_added() {
    let headers = rewritten(
        &[
            ("host", "shop.example"),
            ("x-forwarded-for", "198.51.100.1"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-proto", "https"),
        ],
        "10.0.0.2:4711",
        true,
    );

    assert_eq!(
        headers["x-forwarded-for"],
        "198.51.100.1, 10.0.0.1, 10.0.0.2"
    );
    assert_eq!(headers.get_all("x-forwarded-for").iter().count(), 1);
    assert_eq!(headers["x-forwarded-proto"], "https");
    assert_eq!(headers["forwarded"], "for=10.0.0.2;proto=http");
}

#[test]
fn an_ipv6_origin_is_quoted_and_a_mapped_one_is_ipv4() {
    let host = [("host", "shop.example")];

    let six = rewritten(&host, "[2001:db8::1]:4711", false);
    let mapped = rewritten(&host, "[::ffff:192.0.2.7]:4711", false);

    assert_eq!(six["forwarded"], "for=\"[2001:db8::1]\";proto=http");
    assert_eq!(six["x-forwarded-for"], "2001:db8::1");
    assert_eq!(mapped["x-forwarded-for"], "192.0.2.7");
}

#[test]
fn a_proxys_request_line_becomes_an_origins() {
    let mut absolute = head("http://shop.example/cart?x=1", &[("host", "shop.example")]);
    let mut bare = head("http://shop.example", &[("host", "shop.example")]);
    let conn = conn("192.0.2.7:4711", false);

    rewrite(&mut absolute, &conn, &upstream());
    rewrite(&mut bare, &conn, &upstream());

    assert_eq!(absolute.uri, "/cart?x=1");
    assert_eq!(bare.uri, "/");
}

#[test]
fn a_request_of_http_1_0_without_host_gets_one() {
    let headers = rewritten(&[], "192.0.2.7:4711", false);

    assert_eq!(headers["host"], "127.0.0.1:8000");
    assert!(!headers.contains_key("x-forwarded-host"));
}

#[test]
fn without_keep_alive_the_application_is_told_to_close() {
    let mut head = head(
        "/",
        &[("host", "shop.example"), ("connection", "keep-alive")],
    );
    let upstream = UpstreamPlan {
        keep_alive: false,
        ..upstream()
    };

    rewrite(&mut head, &conn("192.0.2.7:4711", false), &upstream);

    assert_eq!(head.headers["connection"], "close");
}

#[test]
fn the_application_hears_what_is_left_and_not_what_there_was() {
    let mut head = head("/", &[("tidegate-timeout-ms", "5000")]);

    say_deadline(&mut head, Mono::from_millis(1_900), Mono::from_millis(400));
    assert_eq!(head.headers["tidegate-timeout-ms"], "1500");

    say_deadline(
        &mut head,
        Mono::from_millis(1_900),
        Mono::from_millis(2_000),
    );
    assert_eq!(head.headers["tidegate-timeout-ms"], "0");
}

#[test]
fn an_application_at_an_ipv6_address_is_named_in_brackets() {
    for (host, port, named) in [
        ("::1", 8000, "[::1]:8000"),
        ("[::1]", 80, "[::1]"),
        ("shop", 8000, "shop:8000"),
    ] {
        let upstream = UpstreamPlan {
            host: host.into(),
            port,
            ..upstream()
        };

        assert_eq!(authority(&upstream), named);
    }
}

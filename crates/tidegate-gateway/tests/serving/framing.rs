use std::collections::HashMap;

use tidegate_gateway::Gateway;

use crate::support::{App, Client, listeners, plan, plan_with_egress, wait_for_metric};

#[test]
fn requests_pass_in_whatever_pieces_they_come() {
    let app = App::start();
    let gateway = Gateway::start(plan(&app)).unwrap();
    let mut client = Client::connect(&gateway);

    for piece in [
        "POST /a HT",
        "TP/1.1\r\nHo",
        "st: shop\r\nContent-Length: 4\r",
        "\n\r",
        "\nab",
        "cd",
    ] {
        client.send(piece);
    }

    assert_eq!(client.answer().status, 200);
    assert!(app.heads()[0].starts_with("POST /a HTTP/1.1\r\n"));
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let app = App::start();
    let gateway = Gateway::start(plan(&app)).unwrap();
    let mut client = Client::connect(&gateway);

    client.send(
        "GET /1 HTTP/1.1\r\nHost: shop\r\n\r\n\
         POST /2 HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n\
         GET /.tidegate/healthz HTTP/1.1\r\nHost: shop\r\n\r\n\
         GET /3 HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n",
    );

    let statuses = [
        client.answer(),
        client.answer(),
        client.answer(),
        client.answer(),
    ];
    assert!(statuses.iter().all(|answer| answer.status == 200));
    assert!(statuses[2].body.contains("ready"));
    assert!(client.is_closed());
    assert_eq!(app.heads().len(), 3);
}

/// Heads without their last line, and what is wrong with them.
const AMBIGUOUS: [(&str, &str); 24] = [
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n",
        "length_and_coding",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n",
        "length_and_coding",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n",
        "length_repeated",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
        "length_repeated",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n",
        "length_repeated",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n",
        "length_invalid",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n",
        "length_invalid",
    ),
    ("GET /a<b HTTP/1.1\r\nHost: a\r\n", "request_line"),
    ("GET / HTTP/1.2\r\nHost: a\r\n", "version"),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n",
        "coding_unknown",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "coding_repeated",
    ),
    (
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n",
        "coding_in_http10",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n",
        "space_before_colon",
    ),
    ("GET / HTTP/1.1\r\nX: y\r\n", "host_missing"),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n", "host_repeated"),
    ("GET / HTTP/1.1\r\nHost: a/b\r\n", "host_invalid"),
    ("GET http://b/ HTTP/1.1\r\nHost: a\r\n", "host_disagrees"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: y\n", "bare_lf"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: y\rZ: y\r\n", "bare_cr"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n", "folded_line"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX y\r\n", "field_name"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: \u{1}\r\n", "control_byte"),
    (
        "CONNECT a:443 HTTP/1.1\r\nHost: b:443\r\n",
        "host_disagrees",
    ),
    ("GET / / HTTP/1.1\r\nHost: a\r\n", "request_line"),
];

#[test]
fn ambiguous_requests_and_calls_are_refused_and_nothing_of_them_is_forwarded() {
    let app = App::start();
    let gateway = Gateway::start(plan_with_egress(&app)).unwrap();
    let mut counts = HashMap::new();

    for (head, fault) in AMBIGUOUS {
        for listener in listeners(&gateway) {
            let mut client = Client::connect_to(listener);
            client.send(&format!(
                "{head}\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
            ));

            let answer = client.answer();
            assert_eq!(answer.status, 400, "{head:?}");
            assert_eq!(answer.header("tidegate-reason"), Some("bad_framing"));
            assert!(answer.body.contains("bad_framing"), "{head:?}");
            assert!(client.is_closed(), "{head:?}");
            let series = format!("tidegate_bad_requests_total{{reason=\"{fault}\"}}");
            let count = counts.entry(fault).or_insert(0.0);
            *count += 1.0;
            wait_for_metric(&gateway, &series, *count);
        }
    }
    assert_eq!(app.heads().len(), 0);
}

#[test]
fn a_good_request_is_answered_though_the_next_is_bad() {
    let app = App::start();
    let gateway = Gateway::start(plan_with_egress(&app)).unwrap();

    for listener in listeners(&gateway) {
        let mut client = Client::connect_to(listener);
        client.send("GET /good HTTP/1.1\r\nHost: a\r\n\r\nGET /bad HTTP/1.1\r\n\r\n");

        assert_eq!(client.answer().status, 200);
        assert_eq!(client.answer().status, 400);
        assert!(client.is_closed());
    }
    assert_eq!(app.heads().len(), 2);
}

#[test]
fn an_answer_on_its_way_is_whole_though_the_next_request_is_bad() {
    let app = App::start();
    let gateway = Gateway::start(plan_with_egress(&app)).unwrap();

    for listener in listeners(&gateway) {
        let mut client = Client::connect_to(listener);
        client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\nGET /bad HTTP/1.1\r\n\r\n");

        let large = client.answer();
        assert_eq!((large.status, large.body.len()), (200, 256 * 1024 * 1024));
        assert_eq!(client.answer().status, 400);
        assert!(client.is_closed());
    }
}

#[test]
fn a_chunk_that_is_not_what_it_says_ends_the_request() {
    let app = App::start();
    let gateway = Gateway::start(plan_with_egress(&app)).unwrap();

    for (listener, count) in listeners(&gateway).into_iter().zip([1.0, 2.0]) {
        for (body, fault) in [
            ("0x2\r\nab\r\n0\r\n\r\n", "chunk_size"),
            ("2\r\nabc\r\n0\r\n\r\n", "chunk_end"),
            ("2\r\nab\r\n0\r\nHost: b\r\n\r\n", "trailer"),
        ] {
            let mut client = Client::connect_to(listener);
            client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
            // The gateway may end the connection before all of it is written.
            let _ = client.try_send(body);
            let _ = client.try_send("GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");

            // Whether an answer still comes is the engine's affair; the connection does not go on.
            while !client.is_closed() {}
            let series = format!("tidegate_bad_requests_total{{reason=\"{fault}\"}}");
            wait_for_metric(&gateway, &series, count);
        }
    }
    assert!(app.heads().iter().all(|head| !head.contains("smuggled")));
}

#[test]
fn a_head_that_is_too_large_is_refused_as_that() {
    let app = App::start();
    let gateway = Gateway::start(plan_with_egress(&app)).unwrap();

    // What the plan says for clients, and what calls have.
    let bounds = [(16 * 1024, 100), (64 * 1024, 128)];
    for (listener, (bytes, fields)) in listeners(&gateway).into_iter().zip(bounds) {
        for fields in [
            format!("X: {}\r\n", "x".repeat(2 * bytes)),
            "X: y\r\n".repeat(1_000),
            "X: y\r\n".repeat(fields),
        ] {
            let mut client = Client::connect_to(listener);
            // The gateway may answer before all of it is written.
            let _ = client.try_send(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));

            let answer = client.answer();
            assert_eq!(answer.status, 431);
            assert_eq!(answer.header("tidegate-reason"), Some("head_too_large"));
            assert!(client.is_closed());
        }
        // One that is as large as may be passes.
        let mut client = Client::connect_to(listener);
        let most = "X: y\r\n".repeat(fields - 1);
        client.send(&format!("GET / HTTP/1.1\r\nHost: a\r\n{most}\r\n"));
        assert_eq!(client.answer().status, 200);
    }
    wait_for_metric(
        &gateway,
        "tidegate_bad_requests_total{reason=\"head_too_large\"}",
        6.0,
    );
}

#[test]
fn what_is_no_http_is_refused() {
    let app = App::start();
    let gateway = Gateway::start(plan_with_egress(&app)).unwrap();

    for listener in listeners(&gateway) {
        let mut client = Client::connect_to(listener);
        client.send("\u{16}\u{3}\u{1} hello\r\n\r\n");

        assert_eq!(client.answer().status, 400);
        assert!(client.is_closed());
    }
}

#[test]
fn a_refusal_arrives_though_the_client_is_still_sending() {
    let app = App::start();
    let gateway = Gateway::start(plan_with_egress(&app)).unwrap();

    for listener in listeners(&gateway) {
        let mut client = Client::connect_to(listener);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000, 200000\r\n\r\n");
        client.send(&"x".repeat(200_000));

        assert_eq!(client.answer().status, 400);
    }
}

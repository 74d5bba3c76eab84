//! What makes no sense is refused with the name of what it is about.

use serde_json::json;

use crate::site::Site;

/// Bodies of a patch and the field that is wrong with them.
const PATCHES: &[(&str, &str)] = &[
    ("[]", "body"),
    ("{", "body"),
    (r#"{"ops":[]}"#, "ops"),
    (r#"{"ops":7}"#, "ops"),
    (r#"{"op":[]}"#, "op"),
    (r#"{"ops":[7]}"#, "ops[0]"),
    (r#"{"ops":[{"op":"set"}]}"#, "ops[0].name"),
    (
        r#"{"ops":[{"op":"set","name":"a b","text":""}]}"#,
        "ops[0].name",
    ),
    (r#"{"ops":[{"op":"add","name":"a"}]}"#, "ops[0].op"),
    (r#"{"ops":[{"op":"set","name":"a"}]}"#, "ops[0].value"),
    (
        r#"{"ops":[{"op":"set","name":"a","value":{"price":1e400}}]}"#,
        "ops[0].value",
    ),
    (
        r#"{"ops":[{"op":"increment","name":"n"},{"op":"set","name":"a","value":["\ud800"]}]}"#,
        "ops[1].value",
    ),
    (
        r#"{"ops":[{"op":"set","name":"a","text":"","integer":1}]}"#,
        "ops[0].value",
    ),
    (
        r#"{"ops":[{"op":"set","name":"a","text":7}]}"#,
        "ops[0].text",
    ),
    (
        r#"{"ops":[{"op":"set","name":"a","integer":1.5}]}"#,
        "ops[0].integer",
    ),
    (
        r#"{"ops":[{"op":"set","name":"a","base64":"%"}]}"#,
        "ops[0].base64",
    ),
    (
        r#"{"ops":[{"op":"set","name":"a","base64":"","format":"j"}]}"#,
        "ops[0].format",
    ),
    (
        r#"{"ops":[{"op":"set","name":"a","text":"","format":"bytes"}]}"#,
        "ops[0].format",
    ),
    (
        r#"{"ops":[{"op":"set","name":"a","text":"","if":"new"}]}"#,
        "ops[0].if",
    ),
    (
        r#"{"ops":[{"op":"set","name":"a","text":"","fi":1}]}"#,
        "ops[0].fi",
    ),
    (
        r#"{"ops":[{"op":"increment","name":"a","by":99999999999999999999}]}"#,
        "ops[0].by",
    ),
    (
        r#"{"ops":[{"op":"increment","name":"a"},{"op":"max","name":"a"}]}"#,
        "ops[1].to",
    ),
    (
        r#"{"ops":[{"op":"delete","name":"a","text":""}]}"#,
        "ops[0].text",
    ),
];

#[test]
fn a_patch_that_makes_no_sense_is_refused_by_the_member() {
    let site = Site::new();
    let session = site.session();
    for (body, field) in PATCHES {
        let refused = site.ask("PATCH", &format!("/v1/sessions/{session}"), body);
        assert_eq!(refused.status, 400, "{body}");
        let said = refused.json();
        assert_eq!(said["field"], *field, "{body}: {said}");
        assert_eq!(said["reason"], "invalid");
        assert!(!said["detail"].as_str().unwrap().is_empty());
    }
}

#[test]
fn paths_and_headers_that_make_no_sense_are_refused_by_name() {
    let site = Site::new();
    let session = site.session();
    let of = |rest: &str| format!("/v1/sessions/{session}{rest}");
    for (method, path, headers, field) in [
        ("GET", "/v1/sessions/nobody".to_owned(), &[][..], "session"),
        ("GET", "/v1/sessions/%FF".to_owned(), &[], "path"),
        ("GET", of("?field=a"), &[], "field"),
        ("GET", of("?fields=a&fields=b"), &[], "fields"),
        ("GET", of("?fields=a%20b"), &[], "fields"),
        ("GET", of("?touch=no"), &[], "touch"),
        (
            "GET",
            of(""),
            &[("Tidegate-Timeout-Ms", "soon")],
            "Tidegate-Timeout-Ms",
        ),
        ("DELETE", of("?reason=bored"), &[], "reason"),
        ("PATCH", of(""), &[("If-Match", "\"1\"")], "If-Match"),
        ("PATCH", of("?touch=true"), &[], "touch"),
        ("GET", of("/blobs/a%20b"), &[], "name"),
        ("PUT", of("/blobs/a"), &[("If-Match", "1")], "If-Match"),
        (
            "PUT",
            of("/blobs/a"),
            &[("If-None-Match", "\"1\"")],
            "If-None-Match",
        ),
        (
            "PUT",
            of("/blobs/a"),
            &[("Content-Type", "application/json")],
            "body",
        ),
        ("GET", "/v1/users/%0A/sessions".to_owned(), &[], "uid"),
        ("GET", "/v1/events".to_owned(), &[], "group"),
        ("GET", "/v1/events?group=g".to_owned(), &[], "consumer"),
        (
            "GET",
            "/v1/events?group=g&consumer=c&max=0".to_owned(),
            &[],
            "max",
        ),
        (
            "GET",
            "/v1/events?group=g&consumer=c&wait_ms=99999".to_owned(),
            &[],
            "wait_ms",
        ),
        ("GET", "/v1/events?after=x".to_owned(), &[], "after"),
        ("GET", "/v1/events?after=0&group=g".to_owned(), &[], "group"),
    ] {
        let refused = site.ask_with(method, &path, headers, "");
        assert_eq!(refused.status, 400, "{method} {path}: {refused:?}");
        assert_eq!(refused.json()["field"], field, "{method} {path}");
    }
}

#[test]
fn bodies_that_make_no_sense_are_refused_by_the_member() {
    let site = Site::new();
    let session = site.session();
    let of = |rest: &str| format!("/v1/sessions/{session}{rest}");
    for (path, body, field) in [
        ("/v1/sessions", r#"{"uid":""}"#, "uid"),
        ("/v1/sessions", r#"{"user":"a"}"#, "user"),
        ("/v1/sessions", r#"{"tier":"gold"}"#, "tier"),
        ("/v1/users/ada/sign-out", r#"{"except":"x"}"#, "except"),
        (
            "/v1/events/ack",
            r#"{"group":"g","events":["x"]}"#,
            "events",
        ),
        ("/v1/events/ack", r#"{"events":[]}"#, "group"),
    ] {
        let refused = site.ask("POST", path, body);
        assert_eq!(
            (refused.status, &refused.json()["field"]),
            (400, &json!(field)),
            "{path} {body}"
        );
    }
    let refused = site.ask("POST", &of("/rotate"), r#"{"tier":"gold"}"#);
    assert_eq!(refused.json()["field"], "tier");
    let long = "k".repeat(129);
    let refused = site.ask_with(
        "PATCH",
        &of(""),
        &[("Idempotency-Key", &long)],
        r#"{"ops":[{"op":"increment","name":"a"}]}"#,
    );
    assert_eq!(refused.json()["field"], "Idempotency-Key");
}

#[test]
fn a_key_is_refused_where_it_would_make_no_difference() {
    let site = Site::new();
    let session = site.session();
    let of = |rest: &str| format!("/v1/sessions/{session}{rest}");
    let key = [("Idempotency-Key", "order-17")];

    for (method, path, body) in [
        ("POST", "/v1/sessions".to_owned(), r#"{"uid":"ada"}"#),
        ("POST", of("/rotate"), "{}"),
        ("POST", "/v1/users/ada/sign-out".to_owned(), "{}"),
        (
            "POST",
            "/v1/events/ack".to_owned(),
            r#"{"group":"g","events":["7-1-0"]}"#,
        ),
        ("DELETE", of(""), ""),
    ] {
        let refused = site.ask_with(method, &path, &key, body);
        let said = refused.json();
        assert_eq!(
            (refused.status, &said["field"]),
            (400, &json!("Idempotency-Key")),
            "{method} {path}"
        );
        let detail = said["detail"].as_str().unwrap();
        assert!(detail.contains("PATCH /v1/sessions/{session}"), "{detail}");
    }

    // Nothing was done, and reading is let through.
    assert_eq!(site.ask_with("GET", &of(""), &key, "").status, 200);
}

#[test]
fn json_that_some_language_could_not_read_back_is_refused_with_the_limit() {
    let site = Site::new();
    let session = site.session();
    let path = format!("/v1/sessions/{session}");
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);

    for (value, limit) in [
        (nested(61), "60 deep"),
        (nested(1500), "60 deep"),
        ("1e400".to_owned(), "1.8e308"),
        (format!("[-{}]", "9".repeat(310)), "1.8e308"),
    ] {
        let patch = format!("{{\"ops\":[{{\"op\":\"set\",\"name\":\"a\",\"value\":{value}}}]}}");
        for refused in [
            site.ask("PATCH", &path, &patch),
            site.ask("PUT", &format!("{path}/blobs/a"), &value),
        ] {
            assert_eq!(refused.status, 400, "{value}: {refused:?}");
            let detail = refused.json()["detail"].to_string();
            assert!(detail.contains(limit), "{detail}");
        }
    }

    let found = site.ask("GET", &path, "").json();
    assert_eq!(found["attributes"], json!({}));
    let deepest = nested(60);
    site.patch(
        &session,
        &format!("{{\"op\":\"set\",\"name\":\"a\",\"value\":{deepest}}}"),
    );
    let found = site.ask("GET", &path, "");
    assert!(String::from_utf8_lossy(&found.body).contains(&deepest));
}

#[test]
fn a_counter_that_cannot_count_is_named() {
    let site = Site::new();
    let session = site.session();
    let path = format!("/v1/sessions/{session}");
    site.patch(
        &session,
        r#"{"op":"set","name":"cart","text":"x"},{"op":"max","name":"n","to":9223372036854775807}"#,
    );

    let kind = site.ask(
        "PATCH",
        &path,
        r#"{"ops":[{"op":"increment","name":"cart"}]}"#,
    );
    let over = site.ask("PATCH", &path, r#"{"ops":[{"op":"increment","name":"n"}]}"#);

    assert_eq!(
        (kind.status, kind.json()["reason"].clone()),
        (422, json!("wrong_kind"))
    );
    assert_eq!(
        (over.status, over.json()["reason"].clone()),
        (422, json!("overflow"))
    );
    assert_eq!(
        (kind.json()["field"].clone(), over.json()["field"].clone()),
        (json!("cart"), json!("n"))
    );
}

#[test]
fn what_is_not_there_is_a_problem_like_any_other() {
    let site = Site::new();
    for (method, path, status, reason) in [
        ("GET", "/", 404, "no_such_path"),
        ("GET", "/v2/sessions", 404, "no_such_path"),
        ("PUT", "/v1/sessions", 405, "no_such_method"),
        ("GET", "/v1/permits", 405, "no_such_method"),
        ("POST", "/v1/permits/abc/renewals", 404, "no_such_path"),
        (
            "GET",
            "/v1/sessions/abcd.ABCDEFGHIJKLMNOPQRSTUV",
            404,
            "no_such_session",
        ),
    ] {
        let refused = site.ask(method, path, "");
        assert_eq!(refused.status, status, "{method} {path}");
        assert_eq!(
            refused.header("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(refused.json()["reason"], reason, "{method} {path}");
    }
}

#[test]
fn the_description_of_the_api_is_served() {
    let site = Site::new();

    let document = site.ask("GET", "/v1/openapi.json", "");

    assert_eq!(document.header("content-type"), Some("application/json"));
    assert_eq!(document.json()["openapi"], "3.1.0");
}

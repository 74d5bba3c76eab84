//! Large values.

use serde_json::json;

use crate::site::Site;

#[test]
fn a_large_value_lies_beside_its_session() {
    let site = Site::new();
    let session = site.session();
    let path = format!("/v1/sessions/{session}/blobs/project");
    let project = format!("\"{}\"", "x".repeat(100_000));

    let put = site.ask("PUT", &path, &project);
    assert_eq!(put.status, 200, "{put:?}");

    let found = site.ask("GET", &format!("/v1/sessions/{session}"), "");
    assert!(
        found.body.len() < 2000,
        "the pointer alone: {}",
        found.body.len()
    );
    let found = found.json();
    assert_eq!(
        found["attributes"]["project"]["blob"],
        json!({ "bytes": project.len(), "format": "json" })
    );
    let got = site.ask("GET", &path, "");
    assert_eq!(got.header("content-type"), Some("application/json"));
    assert_eq!(got.body, project.as_bytes());
    let tag = got.header("etag").unwrap();
    assert_eq!(
        site.ask_with("GET", &path, &[("If-None-Match", tag)], "")
            .status,
        304
    );
}

#[test]
fn a_small_value_is_read_and_stored_the_same_way() {
    let site = Site::new();
    let session = site.session();
    let path = format!("/v1/sessions/{session}/blobs/note");
    let text = [("Content-Type", "text/plain; charset=utf-8")];

    assert_eq!(site.ask("GET", &path, "").status, 404);
    let first = site.ask_with("PUT", &path, &[text[0], ("If-None-Match", "*")], "one");
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(
        site.ask_with("PUT", &path, &[text[0], ("If-None-Match", "*")], "two")
            .status,
        409
    );

    let got = site.ask("GET", &path, "");
    assert_eq!(
        (got.header("content-type"), got.body.as_slice()),
        (Some("text/plain; charset=utf-8"), &b"one"[..])
    );
    let tag = got.header("etag").unwrap();
    assert_eq!(
        site.ask_with("PUT", &path, &[text[0], ("If-Match", tag)], "two")
            .status,
        200
    );
    let late = site.ask_with("PUT", &path, &[text[0], ("If-Match", tag)], "three");
    assert_eq!(late.json()["current"]["note"]["value"], "two");
}

#[test]
fn what_is_over_a_ceiling_is_refused_by_name() {
    let site = Site::new();
    let session = site.session();
    let path = format!("/v1/sessions/{session}/blobs/film");

    let refused = site.ask_with(
        "PUT",
        &path,
        &[("Content-Type", "application/octet-stream")],
        &"x".repeat(1024 * 1024 + 1),
    );

    assert_eq!(refused.status, 413, "{:?}", refused.status);
    let said = refused.json();
    assert_eq!(
        (said["reason"].clone(), said["field"].clone()),
        (json!("too_large"), json!("film"))
    );
    assert_eq!(said["ceiling"], 1024 * 1024);
    let found = site
        .ask("GET", &format!("/v1/sessions/{session}"), "")
        .json();
    assert_eq!(found["attributes"], json!({}));
}

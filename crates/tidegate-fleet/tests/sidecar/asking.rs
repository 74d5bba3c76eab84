//! Reading, changing and ending sessions.

use serde_json::json;

use crate::site::{Site, wait_until};

#[test]
fn a_session_begins_is_changed_read_and_ended() {
    let site = Site::new();
    let session = site.session();

    let patched = site.patch(
        &session,
        r#"{"op":"set","name":"cart","value":{"items":[1,2]}},
           {"op":"set","name":"locale","text":"de"},
           {"op":"set","name":"size","integer":-7},
           {"op":"set","name":"raw","base64":"AAEC"},
           {"op":"increment","name":"visits"},
           {"op":"max","name":"best","to":9}"#,
    );
    assert_eq!(patched["counters"], json!({ "visits": 1, "best": 9 }));
    assert_eq!(patched["state"], "ok");

    let path = format!("/v1/sessions/{session}");
    let found = site.ask("GET", &path, "");
    assert_eq!(found.status, 200);
    assert_eq!(found.header("cache-control"), Some("no-store"));
    let found = found.json();
    assert_eq!(found["session"], session);
    assert_eq!(found["uid"], json!(null));
    assert_eq!(
        found["attributes"]["cart"]["value"],
        json!({ "items": [1, 2] })
    );
    assert_eq!(found["attributes"]["locale"]["value"], "de");
    assert_eq!(found["attributes"]["size"]["value"], -7);
    assert_eq!(found["attributes"]["raw"]["base64"], "AAEC");
    assert_eq!(found["counters"], json!({ "visits": 1, "best": 9 }));
    assert!(found["deadline_ms"].as_u64() > found["last_used_ms"].as_u64());

    let ended = site.ask("DELETE", &format!("{path}?reason=signed-out"), "");
    assert_eq!(ended.json(), json!({ "existed": true }));
    let gone = site.ask("GET", &path, "");
    assert_eq!(
        (gone.status, gone.json()["reason"].clone()),
        (410, json!("destroyed"))
    );
    let gone = site.ask(
        "PATCH",
        &path,
        r#"{"ops":[{"op":"increment","name":"visits"}]}"#,
    );
    assert_eq!(gone.status, 410, "nothing comes back");
}

#[test]
fn only_what_is_asked_for_is_told() {
    let site = Site::new();
    let session = site.session();
    site.patch(
        &session,
        r#"{"op":"set","name":"a","text":"1"},{"op":"set","name":"b","text":"2"},{"op":"increment","name":"n"}"#,
    );

    let found = site.ask(
        "GET",
        &format!("/v1/sessions/{session}?fields=b,n,none"),
        "",
    );

    let found = found.json();
    let names: Vec<&String> = found["attributes"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["b"]);
    assert_eq!(found["counters"], json!({ "n": 1 }));
}

#[test]
fn numbers_and_texts_of_json_stay_as_they_were_written() {
    let site = Site::new();
    let session = site.session();
    let value = r#"{"z":12345678901234567890123,"a":1.10,"u":"\u00e4"}"#;

    site.patch(
        &session,
        &format!(r#"{{"op":"set","name":"cart","value":{value}}}"#),
    );

    let found = site.ask("GET", &format!("/v1/sessions/{session}"), "");
    let found = String::from_utf8(found.body).unwrap();
    assert!(found.contains(value), "{found}");
}

#[test]
fn a_caller_that_has_it_already_is_told_so() {
    let site = Site::new();
    let session = site.session();
    let path = format!("/v1/sessions/{session}");
    let tag = site
        .ask("GET", &path, "")
        .header("etag")
        .unwrap()
        .to_owned();

    let same = site.ask_with("GET", &path, &[("If-None-Match", &tag)], "");
    assert_eq!((same.status, same.body.len()), (304, 0));
    assert_eq!(same.header("etag"), Some(tag.as_str()));
    let weak = format!("\"1\", W/{tag}");
    assert_eq!(
        site.ask_with("GET", &path, &[("If-None-Match", &weak)], "")
            .status,
        304
    );

    site.patch(&session, r#"{"op":"increment","name":"n"}"#);
    assert_eq!(
        site.ask_with("GET", &path, &[("If-None-Match", &tag)], "")
            .status,
        200
    );
}

#[test]
fn a_conflict_says_what_is_there_and_changes_nothing() {
    let site = Site::new();
    let session = site.session();
    let path = format!("/v1/sessions/{session}");
    let first =
        site.patch(&session, r#"{"op":"set","name":"cart","text":"one"}"#)["version"].clone();
    let second =
        site.patch(&session, r#"{"op":"set","name":"cart","text":"two"}"#)["version"].clone();

    let ops = format!(
        r#"{{"ops":[{{"op":"increment","name":"n"}},
            {{"op":"set","name":"cart","text":"mine","if":{first}}},
            {{"op":"set","name":"other","text":"x","if":7}}]}}"#
    );
    let refused = site.ask("PATCH", &path, &ops);

    assert_eq!(refused.status, 409);
    assert_eq!(
        refused.header("content-type"),
        Some("application/problem+json")
    );
    let refused = refused.json();
    assert_eq!(refused["reason"], "conflict");
    assert_eq!(refused["field"], "cart");
    assert_eq!(refused["current"]["cart"]["value"], "two");
    assert_eq!(refused["current"]["cart"]["version"], second);
    assert_eq!(refused["current"]["other"], json!(null));
    let found = site.ask("GET", &path, "").json();
    assert_eq!(found["counters"], json!({}));

    site.patch(
        &session,
        &format!(r#"{{"op":"set","name":"cart","text":"mine","if":{second}}}"#),
    );
    let absent = r#"{"ops":[{"op":"set","name":"cart","text":"x","if":"absent"}]}"#;
    assert_eq!(site.ask("PATCH", &path, absent).status, 409);
    site.patch(
        &session,
        r#"{"op":"set","name":"new","text":"x","if":"absent"}"#,
    );
}

#[test]
fn a_change_that_is_sent_again_under_its_key_is_made_once() {
    let site = Site::new();
    let session = site.session();
    let path = format!("/v1/sessions/{session}");
    let body = r#"{"ops":[{"op":"increment","name":"n","by":5}]}"#;
    let send = || site.ask_with("PATCH", &path, &[("Idempotency-Key", "order-17")], body);

    let first = send();
    let again = send();

    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(first.json()["repeated"], false);
    assert_eq!(again.json()["repeated"], true);
    let found = site.ask("GET", &path, "").json();
    assert_eq!(found["counters"], json!({ "n": 5 }));
}

#[test]
fn a_key_that_names_a_change_is_not_taken_for_another() {
    let site = Site::new();
    let session = site.session();
    let path = format!("/v1/sessions/{session}");
    let key = [("Idempotency-Key", "order-17")];
    let by = |by: u32| format!(r#"{{"ops":[{{"op":"increment","name":"n","by":{by}}}]}}"#);
    assert_eq!(site.ask_with("PATCH", &path, &key, &by(5)).status, 200);

    let other = site.ask_with("PATCH", &path, &key, &by(6));
    let blob = site.ask_with("PUT", &format!("{path}/blobs/a"), &key, "{}");

    for refused in [other, blob] {
        assert_eq!(refused.status, 422, "{refused:?}");
        let said = refused.json();
        assert_eq!(
            (&said["reason"], &said["field"]),
            (&json!("key_reused"), &json!("Idempotency-Key"))
        );
    }
    let again = site.ask_with("PATCH", &path, &key, &by(5));
    assert_eq!(again.json()["repeated"], true);
    let found = site.ask("GET", &path, "").json();
    assert_eq!(found["counters"], json!({ "n": 5 }));
    assert_eq!(found["attributes"], json!({}));
    // A key is its session's.
    let elsewhere = format!("/v1/sessions/{}", site.session());
    let elsewhere = site.ask_with("PATCH", &elsewhere, &key, &by(6));
    assert_eq!(elsewhere.json()["counters"], json!({ "n": 6 }));
}

#[test]
fn a_key_under_which_nothing_was_changed_may_name_another_change() {
    let site = Site::new();
    let session = site.session();
    let path = format!("/v1/sessions/{session}");
    let key = [("Idempotency-Key", "order-17")];
    let set = |expected: &str| {
        format!(r#"{{"ops":[{{"op":"set","name":"cart","text":"x","if":{expected}}}]}}"#)
    };

    let conflict = site.ask_with("PATCH", &path, &key, &set("7"));
    let made = site.ask_with("PATCH", &path, &key, &set("\"absent\""));

    assert_eq!((conflict.status, made.status), (409, 200));
    assert_eq!(made.json()["repeated"], false);
    assert_eq!(site.ask_with("PATCH", &path, &key, &set("7")).status, 422);
}

#[test]
fn a_sign_in_gives_another_id_and_leaves_what_is_not_carried() {
    let site = Site::new();
    let old = site.session();
    site.patch(
        &old,
        r#"{"op":"set","name":"cart","value":[1]},{"op":"set","name":"planted","text":"x"}"#,
    );

    let path = format!("/v1/sessions/{old}/rotate");
    let signed_in = site.ask("POST", &path, r#"{"uid":"44 182/ä","tier":"gold"}"#);

    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    assert!(signed_in.header("set-cookie").unwrap().starts_with("tg="));
    let new = signed_in.json();
    assert_eq!(
        (new["uid"].as_str(), new["tier"].as_str()),
        (Some("44 182/ä"), Some("gold"))
    );
    assert_ne!(new["session"], old);
    assert_eq!(new["attributes"]["cart"]["value"], json!([1]));
    assert_eq!(new["attributes"]["planted"], json!(null));
    let gone = site.ask("GET", &format!("/v1/sessions/{old}"), "");
    assert_eq!(
        (gone.status, gone.json()["reason"].clone()),
        (410, json!("replaced"))
    );

    let listed = site
        .ask("GET", "/v1/users/44%20182%2F%C3%A4/sessions", "")
        .json();
    assert_eq!(listed["sessions"][0]["session"], new["session"]);
}

#[test]
fn a_habitual_change_of_id_takes_everything_along() {
    let site = Site::new();
    let old = site.session();
    site.patch(&old, r#"{"op":"set","name":"note","text":"x"}"#);

    let rotated = site.ask("POST", &format!("/v1/sessions/{old}/rotate"), "");

    assert_eq!(rotated.status, 200, "{rotated:?}");
    let new = rotated.json();
    let found = site.ask(
        "GET",
        &format!("/v1/sessions/{}", new["session"].as_str().unwrap()),
        "",
    );
    assert_eq!(found.json()["attributes"]["note"]["value"], "x");
    let gone = site.ask("GET", &format!("/v1/sessions/{old}"), "");
    assert_eq!(
        (gone.status, gone.json()["reason"].clone()),
        (410, json!("rotated"))
    );
}

#[test]
fn a_user_signs_out_everywhere_but_here() {
    let site = Site::new();
    let sessions: Vec<String> = (0..3).map(|_| site.session_of("ada")).collect();
    let other = site.session_of("bob");

    let body = format!("{{\"except\":\"{}\"}}", sessions[1]);
    let done = site.ask("POST", "/v1/users/ada/sign-out", &body);

    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(done.json()["pending"], false);
    let status = |session: &str| {
        site.ask("GET", &format!("/v1/sessions/{session}"), "")
            .status
    };
    assert_eq!(status(&sessions[1]), 200);
    assert_eq!(status(&other), 200);
    for ended in [&sessions[0], &sessions[2]] {
        assert!(matches!(status(ended), 404 | 410));
    }
    wait_until("the list", || {
        let listed = site.ask("GET", "/v1/users/ada/sessions", "").json();
        let listed = listed["sessions"].as_array().unwrap();
        listed.len() == 1 && listed[0]["session"] == sessions[1]
    });
}

//! The ends of sessions, as listeners hear of them.

use std::collections::BTreeSet;

use serde_json::json;

use crate::site::{PATIENCE, Site, wait_until};

#[test]
fn each_end_is_told_once_to_every_group() {
    let site = Site::new();
    let sessions: Vec<String> = (0..3).map(|_| site.session_of("ada")).collect();
    for session in &sessions {
        let path = format!("/v1/sessions/{session}?reason=signed-out");
        assert_eq!(site.ask("DELETE", &path, "").status, 200);
    }

    for group in ["mail", "stock"] {
        let mut heard = BTreeSet::new();
        wait_until("the third end", || {
            let next = site.ask(
                "GET",
                &format!("/v1/events?group={group}&consumer=one&wait_ms=1000"),
                "",
            );
            assert_eq!(next.status, 200, "{next:?}");
            let mut ids = Vec::new();
            for event in next.json()["events"].as_array().unwrap() {
                assert_eq!(event["reason"], "signed-out");
                assert_eq!(event["uid"], "ada");
                let session = event["session"].as_str().unwrap().to_owned();
                assert!(heard.insert(session), "told twice");
                ids.push(event["id"].clone());
            }
            if !ids.is_empty() {
                let body = json!({ "group": group, "events": ids }).to_string();
                let acked = site.ask("POST", "/v1/events/ack", &body);
                assert_eq!(acked.json()["acked"], ids.len());
            }
            heard.len() == 3
        });
        assert!(sessions.iter().all(|session| heard.contains(session)));
    }
}

#[test]
fn a_reader_that_keeps_account_itself_goes_on_where_it_was() {
    let site = Site::new();
    let end_one = || {
        let session = site.session();
        site.ask("DELETE", &format!("/v1/sessions/{session}"), "");
        session
    };
    let after = |position: &str| {
        let next = site.ask(
            "GET",
            &format!("/v1/events?after={position}&wait_ms=20000"),
            "",
        );
        assert_eq!(next.status, 200, "{next:?}");
        next.json()
    };

    let first = end_one();
    let heard = after("0");
    assert_eq!(heard["events"][0]["session"], first);
    let second = end_one();
    let heard = after(heard["next"].as_str().unwrap());
    assert_eq!(heard["events"].as_array().unwrap().len(), 1);
    assert_eq!(heard["events"][0]["session"], second);
}

#[test]
fn who_waits_for_an_end_keeps_nobody_else_from_asking() {
    let mut plan = crate::site::plan();
    plan.requests_max = 1;
    let site = Site::with(plan);
    let mut waiting = site.connect();
    std::io::Write::write_all(
        &mut waiting,
        b"GET /v1/events?group=g&consumer=c&wait_ms=25000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    )
    .unwrap();
    wait_until("the request", || site.sidecar.tally().requests == 1);

    let session = site.session();
    site.ask("DELETE", &format!("/v1/sessions/{session}"), "");

    waiting.set_read_timeout(Some(PATIENCE)).unwrap();
    let heard = crate::site::read(waiting);
    assert_eq!(heard.json()["events"][0]["session"], session);
}

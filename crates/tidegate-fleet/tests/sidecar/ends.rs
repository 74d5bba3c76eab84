//! The ends of sessions, as listeners hear of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tidegate_lab::peers::RedisServer;

use crate::site::{PATIENCE, Site, plan, wait_until};

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
    let mut plan = plan();
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

/// What one listener of a group hears until all together have heard `enough`.
fn listen(site: &Site, consumer: usize, heard_by_all: &AtomicUsize, enough: usize) -> Vec<String> {
    let path = format!("/v1/events?group=g&consumer=c{consumer}&max=4&wait_ms=1000");
    let mut heard = Vec::new();
    while heard_by_all.load(Ordering::Relaxed) < enough {
        let next = site.ask("GET", &path, "");
        assert_eq!(next.status, 200, "{next:?}");
        let next = next.json();
        let events = next["events"].as_array().unwrap();
        if events.is_empty() {
            continue;
        }
        let ids: Vec<_> = events.iter().map(|event| event["id"].clone()).collect();
        let body = json!({ "group": "g", "events": ids }).to_string();
        let acked = site.ask("POST", "/v1/events/ack", &body);
        assert_eq!(acked.json()["acked"], ids.len(), "{acked:?}");
        heard_by_all.fetch_add(ids.len(), Ordering::Relaxed);
        let sessions = events.iter().map(|event| event["session"].as_str());
        heard.extend(sessions.map(|session| session.unwrap().to_owned()));
    }
    heard
}

#[test]
fn a_hundred_listeners_wait_at_once_and_none_is_turned_away() {
    const LISTENERS: usize = 100;
    const ENDS: usize = 20;
    let server = RedisServer::plain().unwrap();
    let mut plan = plan();
    plan.connections_max = 256;
    plan.requests_max = 128;
    let site = Site::on_redis(plan, &server);
    let heard_by_all = AtomicUsize::new(0);

    let (mut heard, mut ended) = std::thread::scope(|scope| {
        let listeners: Vec<_> = (0..LISTENERS)
            .map(|number| {
                let (site, heard_by_all) = (&site, &heard_by_all);
                scope.spawn(move || listen(site, number, heard_by_all, ENDS))
            })
            .collect();
        let ended: Vec<String> = (0..ENDS)
            .map(|_| {
                let session = site.session();
                let gone = site.ask("DELETE", &format!("/v1/sessions/{session}"), "");
                assert_eq!(gone.json()["existed"], true, "{gone:?}");
                session
            })
            .collect();
        let heard: Vec<String> = listeners
            .into_iter()
            .flat_map(|listener| listener.join().unwrap())
            .collect();
        (heard, ended)
    });

    heard.sort_unstable();
    ended.sort_unstable();
    assert_eq!(heard, ended, "each end once");
    assert_eq!(site.sidecar.tally().busy, 0);
}

#[test]
fn listeners_leave_half_of_the_connections_to_others() {
    let mut narrow = plan();
    narrow.connections_max = 4;
    let site = Site::with(narrow);
    let wait =
        b"GET /v1/events?group=g&consumer=c&wait_ms=25000 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let mut waiting = site.connect();
            std::io::Write::write_all(&mut waiting, wait).unwrap();
            waiting
        })
        .collect();
    wait_until("both", || site.sidecar.tally().requests == 2);

    let third = site.ask("GET", "/v1/events?group=g&consumer=c&wait_ms=25000", "");

    assert_eq!(third.json()["reason"], "busy");
    site.session();
    drop(waiting);
}

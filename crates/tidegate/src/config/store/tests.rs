//! What is accepted about servers, what is refused, and how it is said.

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::config::tests::{MINIMAL, errors, setup};

fn store_of(text: &str) -> Store {
    setup(&format!("{MINIMAL}{text}\n")).store
}

/// The only error of `text` behind a sound application: its message and its help.
fn error(text: &str) -> (String, String) {
    let mut errors = errors(&format!("{MINIMAL}{text}\n"));
    assert_eq!(errors.len(), 1, "{errors:#?}");
    let (_, message, help) = errors.remove(0);
    (message, help)
}

#[test]
fn without_servers_state_is_kept_in_a_file() {
    let store = store_of("[store]\npath = \"/var/lib/tidegate\"");

    assert_eq!(store.path, Path::new("/var/lib/tidegate"));
    assert!(Use::ALL.iter().all(|&which| store.servers(which).is_none()));
}

#[test]
fn every_use_has_the_servers_of_the_store() {
    let store = store_of(
        "[store]\nurl = \"redis://10.0.0.5\"\nusername = \"tidegate\"\n\
         password_file = \"/etc/tidegate/password\"\ndatabase = 3\n",
    );

    for which in Use::ALL {
        let servers = store.servers(which).unwrap();
        assert_eq!(
            servers.plan.arrangement,
            Arrangement::Standalone(Address::parse("10.0.0.5:6379").unwrap())
        );
        assert_eq!(servers.plan.database, 3);
        assert_eq!(servers.plan.credentials.user.as_deref(), Some("tidegate"));
        assert_eq!(
            servers.password_file.as_deref(),
            Some(Path::new("/etc/tidegate/password"))
        );
        assert_eq!(servers.plan.operation_timeout, Duration::from_millis(8));
    }
}

#[test]
fn sentinels_and_members_of_a_cluster_are_named_in_a_list() {
    let sentinels = store_of(
        "[store]\nmode = \"sentinel\"\nmaster = \"shop\"\nurls = [\"redis://a\", \"valkey://b:1\"]\n",
    );
    let cluster = store_of("[store]\nmode = \"cluster\"\nurls = [\"redis://[::1]\"]\n");

    let plan = &sentinels.servers(Use::Bus).unwrap().plan;
    let Arrangement::Sentinel {
        sentinels, primary, ..
    } = &plan.arrangement
    else {
        panic!("Sentinels")
    };
    assert_eq!(primary, "shop");
    assert_eq!(sentinels[0].to_string(), "a:26379");
    assert_eq!(sentinels[1].to_string(), "b:1");
    let Arrangement::Cluster(members) = &cluster.servers(Use::Room).unwrap().plan.arrangement
    else {
        panic!("a cluster")
    };
    assert_eq!(members[0].to_string(), "[::1]:6379");
}

#[test]
fn a_use_differs_in_what_it_says_and_sends_no_password_to_other_servers() {
    let store = store_of(
        "[store]\nurl = \"redis://a\"\npassword_file = \"/p\"\ntimeout = \"5ms\"\n\
         [store.limits]\nurl = \"redis://b\"\n\
         [store.room]\ndatabase = 2\nconnections = 4\n",
    );

    let limits = store.servers(Use::Limits).unwrap();
    assert_eq!(limits.password_file, None);
    assert_eq!(limits.plan.operation_timeout, Duration::from_millis(5));
    assert!(matches!(&limits.plan.arrangement, Arrangement::Standalone(at) if at.host == "b"));
    let room = store.servers(Use::Room).unwrap();
    assert_eq!((room.plan.database, room.plan.lanes.fast), (2, 4));
    assert!(room.password_file.is_some());
    assert_eq!(store.servers(Use::Sessions).unwrap().plan.database, 0);
    assert_eq!(store.own, [Use::Limits, Use::Room]);
}

#[test]
fn a_use_may_have_servers_where_the_others_have_none() {
    let store = store_of("[store.sessions]\nurl = \"redis://a\"\n");

    assert!(store.servers(Use::Sessions).is_some());
    assert!(store.servers(Use::Bus).is_none());
}

#[test]
fn one_lane_takes_the_calls_of_all_workers() {
    let text = "workers = 900\n[store]\nurl = \"redis://a\"\n";
    let lanes = store_of(text).servers(Use::Sessions).unwrap().plan.lanes;
    assert_eq!(lanes.fast_in_flight_max, 900);

    let (message, help) = error(&format!("{text}in_flight_max = 449\n"));
    assert!(message.contains("less than the 900 workers"), "{message}");
    assert!(help.contains("write 900"), "{help}");
}

#[test]
fn addresses_that_cannot_be_used_are_refused() {
    for (url, why) in [
        ("rediss://a:6379", "TLS to the store, which comes later"),
        ("unix:/run/redis.sock", "a socket, which comes later"),
        ("10.0.0.5:6379", "is no redis:// address"),
        ("redis://u:p@a:6379", "carries credentials"),
        ("redis://a:6379/2", "has more than host and port"),
        ("redis://a:0", "has no usable host and port"),
        ("redis://:6379", "has no usable host and port"),
        ("redis://", "has no usable host and port"),
    ] {
        let (message, help) = error(&format!("[store]\nurl = \"{url}\""));
        assert!(message.contains(why), "{url}: {message}");
        assert!(!help.is_empty());
    }
}

#[test]
fn what_contradicts_itself_is_refused_with_what_to_write() {
    let url = "[store]\nurl = \"redis://a\"\n";
    for (text, message, help) in [
        (
            "[store]\nmode = \"cluster\"",
            "`mode` has no effect: no server is named",
            "add url = \"redis://127.0.0.1:6379\"",
        ),
        (
            "[store]\nurls = [\"redis://a\", \"redis://b\"]",
            "2 servers, but a standalone one is one",
            "mode = \"cluster\"",
        ),
        (
            "[store]\nurls = []",
            "`urls = []` names no server",
            "redis://10.0.0.1:6379",
        ),
        (
            &format!("{url}urls = [\"redis://b\"]"),
            "say the same thing twice",
            "put it into urls",
        ),
        (
            &format!("{url}mode = \"sentinel\""),
            "needs `master`",
            "master = \"mymaster\"",
        ),
        (
            &format!("{url}master = \"shop\""),
            "there are no Sentinels",
            "mode = \"sentinel\"",
        ),
        (
            &format!("{url}mode = \"cluster\"\ndatabase = 1"),
            "a cluster has database 0 only",
            "remove database",
        ),
        (
            &format!("{url}username = \"tidegate\""),
            "`username` needs `password_file`",
            "only Tidegate can read",
        ),
        (
            &format!("{url}timeout = \"50ms\""),
            "`timeout = \"50ms\"` is out of range",
            "write a value from 1ms to 9ms",
        ),
        (
            &format!("{url}[store.bus]\nmode = \"cluster\""),
            "is about servers that are named elsewhere",
            "url or urls",
        ),
        ("[store.bus]\ndatabase = 1", "no server is named", "add url"),
        (
            "[store.rooms]\ndatabase = 1",
            "unknown key `rooms` in [store]",
            "did you mean `room`?",
        ),
        (
            "[store]\npath = \"\"",
            "names no directory",
            "/var/lib/tidegate",
        ),
    ] {
        let said = error(text);
        assert!(said.0.contains(message), "{text}: {said:?}");
        assert!(said.1.contains(help), "{text}: {said:?}");
    }
}

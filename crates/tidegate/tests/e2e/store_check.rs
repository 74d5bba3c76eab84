//! `tidegate check --online`: asks real servers.

use std::net::SocketAddr;
use std::process::Output;

use tidegate_lab::peers::{Cluster, ClusterSetup, RedisServer, SentinelSetup, Sentinels};

use crate::process::{TempDir, output};

fn check(directory: &TempDir, store: &str) -> (Option<i32>, String) {
    let file = directory.write(
        "store.toml",
        &format!(
            "[[app]]\nupstream = \"http://127.0.0.1:9\"\n[store]\n{store}\n[sessions]\nkey_file = \"/k\"\n\
             [sessions.durability]\nsign-in = \"wait(1, 50ms) degrade\"\n"
        ),
    );
    let checked: Output = output(&["check", "--online", file.to_str().unwrap()]);
    let text = String::from_utf8(checked.stdout).unwrap();
    let asked = text.split("\n\nsessions, limits, room, bus: ").nth(1);
    (
        checked.status.code(),
        asked.unwrap_or_else(|| panic!("{text}")).to_owned(),
    )
}

#[test]
fn a_server_is_told_what_to_change_and_then_nothing_more() {
    let directory = TempDir::new();
    let redis = RedisServer::plain().unwrap();
    let url = format!("url = \"redis://{}\"", redis.address());
    let set = |name: &str, value: &str| {
        redis.ask(&["CONFIG", "SET", name, value]).unwrap();
    };
    set("hash-max-listpack-value", "64");
    set("maxmemory", "100mb");
    set("maxmemory-policy", "allkeys-lru");

    let (code, said) = check(&directory, &url);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("error: maxmemory-policy is allkeys-lru"),
        "{said}"
    );
    assert!(
        said.contains("help: CONFIG SET maxmemory-policy noeviction"),
        "{said}"
    );
    assert!(
        said.contains("warning: hash-max-listpack-value is 64"),
        "{said}"
    );
    assert!(
        said.contains("0 replicas are connected, but writes wait for 1"),
        "{said}"
    );

    set("hash-max-listpack-value", "1024");
    set("maxmemory-policy", "noeviction");
    set("appendonly", "yes");
    set("appendfsync", "everysec");
    let (code, said) = check(&directory, &url);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("warning").count(), 1, "{said}");
}

#[test]
fn every_server_that_sentinels_or_a_cluster_know_is_asked() {
    let directory = TempDir::new();
    let list = |addresses: Vec<SocketAddr>| {
        let urls = addresses
            .iter()
            .map(|address| format!("\"redis://{address}\""));
        urls.collect::<Vec<_>>().join(", ")
    };

    let sentinels = Sentinels::start(&SentinelSetup::default()).unwrap();
    let store = format!(
        "mode = \"sentinel\"\nmaster = \"{}\"\nurls = [{}]",
        Sentinels::NAME,
        list(sentinels.addresses())
    );
    let (code, said) = check(&directory, &store);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches(", master\n").count(), 1, "{said}");
    assert_eq!(said.matches(", replica\n").count(), 2, "{said}");
    assert!(said.contains("min-replicas-to-write is 0"), "{said}");
    drop(sentinels);

    let cluster = Cluster::start(&ClusterSetup::default()).unwrap();
    // One member is enough to find the others.
    let one = list(cluster.addresses().into_iter().take(1).collect());
    let (code, said) = check(&directory, &format!("mode = \"cluster\"\nurls = [{one}]"));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches(", master\n").count(), 3, "{said}");
    assert_eq!(said.matches(", replica\n").count(), 3, "{said}");
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let directory = TempDir::new();

    let (code, said) = check(&directory, "url = \"redis://127.0.0.1:9\"");

    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("127.0.0.1:9: error: "), "{said}");
}

#[test]
fn the_password_is_taken_from_its_file() {
    let directory = TempDir::new();
    let redis = RedisServer::plain().unwrap();
    let password = directory.write("password", "sesame\n");
    let rules = [
        "ACL", "SETUSER", "tidegate", "on", ">sesame", "~tg:*", "+@all",
    ];
    redis.ask(&rules).unwrap();
    let store = |file: &std::path::Path| {
        format!(
            "url = \"redis://{}\"\nusername = \"tidegate\"\npassword_file = \"{}\"",
            redis.address(),
            file.display()
        )
    };

    let (code, said) = check(&directory, &store(&password));
    assert_eq!(code, Some(0), "{said}");
    let wrong = directory.write("wrong", "mellon\n");
    let (code, said) = check(&directory, &store(&wrong));
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("authentication failed") && !said.contains("mellon"),
        "{said}"
    );
}

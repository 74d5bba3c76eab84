//! From what an agent sees to what balancers are told, in one process: a fleet of one.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::listen;

use crate::client::{ask_socket, get};
use crate::process::{PATIENCE, TempDir, Tidegate};

/// Connections that an accept queue takes beyond what it is asked to.
const OVER: usize = 1;
const BACKLOG: usize = 4;

/// The first line of the verdict.
fn line(gateway: SocketAddr) -> String {
    let verdict = get(gateway, "/.tidegate/verdict");
    assert_eq!(verdict.status, 200, "the last node is never told to leave");
    verdict.text().lines().next().unwrap_or_default().to_owned()
}

/// Waits until the line is as `is_so` says. What else this machine is busy with may be told in between.
fn wait_until(gateway: SocketAddr, what: &str, is_so: impl Fn(&str) -> bool) {
    let begun = Instant::now();
    loop {
        let line = line(gateway);
        if is_so(&line) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "never {what}: {line}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

fn is_stressed_by(dimension: &str) -> impl Fn(&str) -> bool {
    move |line| line.starts_with("TIDEGATE STRESSED") && line.ends_with(dimension)
}

#[test]
fn a_full_accept_queue_is_told_to_balancers_by_name_and_the_last_node_stays() {
    let application = TcpListener::bind("127.0.0.1:0").unwrap();
    listen(&application, BACKLOG as i32).unwrap();
    let at = application.local_addr().unwrap();
    let directory = TempDir::new();
    let tidegate = Tidegate::start(
        &directory,
        &format!(
            "[[app]]\nupstream = \"http://{at}\"\n[fleet]\nnode = \"one\"\n\
             [agent]\nlisten = [\"{at}\"]\n"
        ),
    );
    let is_decided = |line: &str| !line.starts_with("TIDEGATE UNKNOWN");
    wait_until(tidegate.clients, "decided about", is_decided);

    let waiting: Vec<TcpStream> = (0..BACKLOG + OVER)
        .map(|_| TcpStream::connect(at).unwrap())
        .collect();
    wait_until(tidegate.clients, "full", is_stressed_by("dim=queue"));

    for _ in &waiting {
        application.accept().unwrap();
    }
    wait_until(tidegate.clients, "free again", |line| {
        !is_stressed_by("dim=queue")(line)
    });
}

#[test]
fn what_an_application_posts_of_itself_counts_without_an_agent() {
    let directory = TempDir::new();
    let socket = directory.path().join("side.sock");
    let tidegate = Tidegate::start(
        &directory,
        &format!(
            "[[app]]\nupstream = \"http://127.0.0.1:9\"\n[fleet]\nnode = \"one\"\n[sidecar]\nlisten = \"unix:{}\"\n",
            socket.display()
        ),
    );
    let full = r#"{"source":"shop","signals":[{"dimension":"pool","value":10,"limit":10}]}"#;

    let begun = Instant::now();
    loop {
        let posted = ask_socket(&socket, "POST", "/v1/signals", full);
        assert_eq!(posted.status, 204);
        let line = line(tidegate.clients);
        if is_stressed_by("dim=pool")(&line) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{line}");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

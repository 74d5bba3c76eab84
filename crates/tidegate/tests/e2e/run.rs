//! `tidegate run`: its start, what it forwards, its end.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use crate::backend::Backend;
use crate::client::{ask, get};
use tidegate_lab::measure::Child;

use crate::process::{PATIENCE, TempDir, Tidegate, output, tidegate};

fn configuration(backend: &Backend) -> String {
    format!(
        "[drain]\ndelay = \"0s\"\n[[app]]\nupstream = \"http://{}\"\nworkers = 4\n",
        backend.address
    )
}

#[test]
fn a_request_reaches_the_application_with_where_it_came_from_and_how_long_there_is() {
    let (backend, directory) = (Backend::start(), TempDir::new());
    let tidegate = Tidegate::start(&directory, &configuration(&backend));

    let answer = ask(
        tidegate.clients,
        "GET",
        "/a?b=c",
        &[
            ("tidegate-timeout-ms", "3000"),
            ("x-forwarded-for", "203.0.113.9"),
        ],
        b"",
    );

    assert_eq!(answer.status, 200);
    let seen = answer.text();
    assert!(seen.starts_with("GET /a?b=c HTTP/1.1\n"), "{seen}");
    assert!(seen.contains("host: app.test"), "{seen}");
    assert!(seen.contains("x-forwarded-for: 127.0.0.1"), "{seen}");
    let left: u32 = seen
        .split_once("tidegate-timeout-ms: ")
        .and_then(|(_, rest)| rest.lines().next()?.parse().ok())
        .unwrap();
    assert!(left <= 3000, "{seen}");
}

#[test]
fn flags_alone_are_enough() {
    let backend = Backend::start();
    let mut command = tidegate();
    command.args([
        "run",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "off",
        "--workers",
        "4",
    ]);
    command.args([
        "--threads",
        "2",
        "--upstream",
        &format!("http://{}", backend.address),
    ]);

    let child = Child::start(command, "tidegate: listening on ", PATIENCE).unwrap();

    let (address, rest) = child
        .ready_line()
        .strip_prefix("tidegate: listening on ")
        .and_then(|line| line.split_once(", "))
        .unwrap();
    assert_eq!(rest.trim(), "admin off");
    assert_eq!(get(address.parse().unwrap(), "/").status, 200);
}

#[test]
fn sigterm_finishes_what_is_inside_and_exits_0() {
    let (backend, directory) = (Backend::start(), TempDir::new());
    let tidegate = Tidegate::start(&directory, &configuration(&backend));
    let clients = tidegate.clients;
    let request = thread::spawn(move || get(clients, "/hold"));
    backend.wait_for_arrival();

    tidegate.terminate();
    while get(tidegate.admin, "/readyz").status == 200 {
        thread::yield_now();
    }
    backend.release();

    assert_eq!(request.join().unwrap().text(), "released");
    assert_eq!(tidegate.wait().code(), Some(0));
}

#[test]
fn a_second_signal_does_not_wait_for_what_is_inside() {
    let (backend, directory) = (Backend::start(), TempDir::new());
    let tidegate = Tidegate::start(&directory, &configuration(&backend));
    let clients = tidegate.clients;
    let request = thread::spawn(move || std::panic::catch_unwind(|| get(clients, "/hold")));
    backend.wait_for_arrival();

    tidegate.terminate();
    while get(tidegate.admin, "/readyz").status == 200 {
        thread::yield_now();
    }
    tidegate.terminate();

    assert_eq!(tidegate.wait().code(), Some(1));
    backend.release();
    assert!(request.join().unwrap().is_err(), "the request was cut off");
}

#[test]
fn an_address_in_use_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();

    let ran = output(&[
        "run",
        "--upstream",
        "http://127.0.0.1:1",
        "--listen",
        &address,
    ]);

    assert_eq!(ran.status.code(), Some(1));
    let text = String::from_utf8(ran.stderr).unwrap();
    assert!(
        text.contains(&format!("cannot listen on {address}")),
        "{text}"
    );
}

#[test]
fn an_application_that_is_not_there_is_a_502_with_its_reason() {
    let directory = TempDir::new();
    // Bound and dropped: nobody listens there.
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let tidegate = Tidegate::start(
        &directory,
        &format!("[[app]]\nupstream = \"http://{nobody}\"\nworkers = 4\n"),
    );

    let answer = get(tidegate.clients, "/");

    assert_eq!(answer.status, 502);
    assert_eq!(answer.header("tidegate-reason"), Some("upstream_connect"));
}

#[test]
fn more_than_limit_and_queue_is_refused_at_once_and_told_when_to_come_back() {
    let (backend, directory) = (Backend::start(), TempDir::new());
    let tidegate = Tidegate::start(
        &directory,
        &format!(
            "[[app]]\nupstream = \"http://{}\"\nworkers = 1\nqueue_max = 0\n",
            backend.address
        ),
    );
    let clients = tidegate.clients;
    let request = thread::spawn(move || get(clients, "/hold"));
    backend.wait_for_arrival();

    let refused = get(clients, "/");

    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("tidegate-reason"), Some("queue_full"));
    assert!(
        refused
            .header("retry-after")
            .unwrap()
            .parse::<u64>()
            .unwrap()
            >= 1
    );
    backend.release();
    assert_eq!(request.join().unwrap().status, 200);
}

#[test]
fn shadow_mode_lets_everything_in() {
    let (backend, directory) = (Backend::start(), TempDir::new());
    let tidegate = Tidegate::start(
        &directory,
        &format!(
            "[[app]]\nupstream = \"http://{}\"\nworkers = 1\nqueue_max = 0\nmode = \"shadow\"\n\
             ",
            backend.address
        ),
    );
    let clients = tidegate.clients;
    let request = thread::spawn(move || get(clients, "/hold"));
    backend.wait_for_arrival();

    assert_eq!(get(clients, "/").status, 200);

    let metrics = get(tidegate.admin, "/metrics").text();
    let counted = "tidegate_shadow_total{app=\"app\",class=\"anonymous\",verdict=\"queue_full\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    backend.release();
    request.join().unwrap();
}

#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    let directory = TempDir::new();
    let file = directory.write(
        "tidegate.toml",
        "[drain]\ndelay = \"0s\"\n[[app]]\nupstream = \"http://127.0.0.1:1\"\n",
    );
    let mut command = tidegate();
    command.arg("run").arg("--config").arg(file);
    command.args(["--listen", "127.0.0.1:0", "--admin", "off"]);
    command.stderr(
        std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap(),
    );
    let mut child = Child::start(command, "tidegate: listening on ", PATIENCE).unwrap();

    child.terminate().unwrap();

    let begun = std::time::Instant::now();
    let status = loop {
        if let Some(status) = child.ended().unwrap() {
            break status;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        thread::park_timeout(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(0));
}

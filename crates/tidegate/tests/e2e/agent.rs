//! `tidegate agent probe`, as an operator runs it.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

use serde_json::Value;

use crate::process::{TempDir, output};

/// What a probe with `flags` shows as JSON.
fn probe(flags: &[&str]) -> Value {
    let output = output(&[&["agent", "probe", "--json"][..], flags].concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What it says about flags that make no sense.
fn refusal(flags: &[&str]) -> String {
    let output = output(&[&["agent", "probe"][..], flags].concat());
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

fn signal<'a>(seen: &'a Value, dimension: &str) -> &'a Value {
    let signals = seen["signals"].as_array().unwrap();
    signals
        .iter()
        .find(|it| it["dimension"] == dimension)
        .unwrap()
}

#[test]
fn a_queue_that_nobody_accepts_from_is_seen_on_tcp_and_on_a_unix_socket() {
    let directory = TempDir::new();
    let path = directory.path().join("app.sock");
    let (tcp, unix) = (
        TcpListener::bind("127.0.0.1:0").unwrap(),
        UnixListener::bind(&path).unwrap(),
    );
    let address = tcp.local_addr().unwrap();
    let _waiting: Vec<TcpStream> = (0..3)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let _more: Vec<UnixStream> = (0..4)
        .map(|_| UnixStream::connect(&path).unwrap())
        .collect();

    let by_tcp = probe(&["--listen", &address.to_string()]);
    let by_path = probe(&[
        "--listen",
        &format!("unix:{}", path.display()),
        "--profile",
        "php-fpm",
        "--workers",
        "2",
    ]);

    assert_eq!(by_tcp["listeners"]["pending"], 3);
    assert_eq!(signal(&by_tcp, "queue")["value"], 3.0);
    assert_eq!(by_path["listeners"]["pending_all"].as_u64().unwrap(), 4);
    // Workers that accept when they are idle are not idle.
    assert_eq!(signal(&by_path, "threads")["ratio"], 1.0);
    assert_eq!(by_path["fullest"], "threads");
    drop((tcp, unix));
}

#[test]
fn a_machine_that_is_not_this_one_is_read_below_other_roots() {
    let directory = TempDir::new();
    for folder in ["proc/self", "sys/fs/cgroup", "sys/devices/system/cpu"] {
        std::fs::create_dir_all(directory.path().join(folder)).unwrap();
    }
    directory.write("proc/stat", "cpu  1 1 1 1 1 1 1 1\n");
    directory.write("proc/self/cgroup", "0::/\n");
    directory.write("sys/devices/system/cpu/online", "0-7\n");
    directory.write("sys/fs/cgroup/cgroup.controllers", "cpu\n");
    directory.write("sys/fs/cgroup/cpu.max", "150000 100000\n");
    let root = |name: &str| directory.path().join(name).display().to_string();

    let seen = probe(&["--proc-root", &root("proc"), "--sys-root", &root("sys")]);

    assert_eq!(seen["host"]["cores"], 1.5);
    assert_eq!(seen["host"]["cores_online"], 8);
    let pressure = signal(&seen, "psi_memory");
    assert_eq!(
        (pressure["validity"].as_str(), pressure["value"].as_f64()),
        (Some("unsupported"), None)
    );
}

#[test]
fn the_page_says_what_is_not_seen_and_what_to_switch_on() {
    let output = output(&["agent", "probe", "--profile", "tomcat"]);

    let page = String::from_utf8(output.stdout).unwrap();
    for said in [
        "runtime     tomcat",
        "manager-status",
        "manager-jmx",
        "maxConnections",
        "/proc/stat",
    ] {
        assert!(page.contains(said), "{said} is not in\n{page}");
    }
}

#[test]
fn flags_that_make_no_sense_are_named_with_what_would() {
    assert!(refusal(&["--profile", "tomact"]).contains("did you mean tomcat?"));
    assert!(refusal(&["--listen", "8080"]).contains("127.0.0.1:8080"));
    assert!(
        refusal(&["--profile", "puma", "--url", "https://127.0.0.1/stats"]).contains("only http")
    );
    assert!(refusal(&["--statsd", "127.0.0.1:8125"]).contains("gunicorn"));
    assert!(
        refusal(&["--profile", "tomcat", "--url", "http://u:p@127.0.0.1/"]).contains("in a file")
    );
    assert!(
        refusal(&[
            "--profile",
            "tomcat",
            "--user",
            "a",
            "--password-file",
            "/nowhere",
            "--url",
            "http://127.0.0.1/"
        ])
        .contains("/nowhere")
    );
}

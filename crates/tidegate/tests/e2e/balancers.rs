//! What load balancers are told by a running process, and `tidegate lint-lb`.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_lab::peers::{Haproxy, free_port};

use crate::backend::Backend;
use crate::client::get;
use crate::process::{PATIENCE, TempDir, Tidegate, output};

const APP: &str = "[[app]]\nupstream = \"http://127.0.0.1:1\"\n[drain]\ndelay = \"0s\"\n";

/// What an agent check says to whoever connects.
pub(crate) fn hear(agent: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(agent)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut heard = String::new();
    stream.read_to_string(&mut heard)?;
    Ok(heard)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn a_node_that_nobody_decides_about_is_all_right_in_every_dialect() {
    let directory = TempDir::new();
    let port = free_port().unwrap();
    let tidegate = Tidegate::start(
        &directory,
        &format!("{APP}[balancer]\nagent_listen = \"127.0.0.1:{port}\"\nmaxconn = 7\n"),
    );

    let verdict = get(tidegate.clients, "/.tidegate/verdict");

    assert_eq!(verdict.status, 200);
    assert!(verdict.text().starts_with("TIDEGATE UNKNOWN weight=100 "));
    let agent = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(hear(agent).unwrap(), "up ready 100% maxconn:7\n");
    let metrics = get(tidegate.admin, "/metrics").text();
    let told = "tidegate_agent_checks_total{outcome=\"told\"} 1";
    assert!(metrics.contains(told), "{metrics}");
}

#[test]
fn after_sigterm_the_agent_says_for_two_intervals_that_all_is_well_and_then_goes() {
    let directory = TempDir::new();
    let port = free_port().unwrap();
    let tidegate = Tidegate::start(
        &directory,
        &format!(
            "{APP}[balancer]\nagent_listen = \"127.0.0.1:{port}\"\nagent_interval = \"200ms\"\n"
        ),
    );
    let agent = SocketAddr::from(([127, 0, 0, 1], port));
    assert!(hear(agent).is_ok());

    let begun = Instant::now();
    tidegate.terminate();

    let mut last = String::new();
    while let Ok(heard) = hear(agent) {
        assert!(begun.elapsed() < PATIENCE);
        // Who connects at the very moment at which it goes may hear nothing, which no balancer minds.
        if !heard.is_empty() {
            last = heard;
        }
    }
    assert!(begun.elapsed() >= Duration::from_millis(400));
    assert_eq!(last, "up ready 100%\n");
    assert!(tidegate.wait().success());
}

#[test]
fn what_a_dead_agent_has_left_at_an_haproxy_is_put_right_by_a_running_process() {
    let [node, nobody] = [(); 2].map(|()| free_port().unwrap());
    let haproxy = Haproxy::start(&format!(
        "frontend node\n bind 127.0.0.1:{node}\n http-request return status 200\n\
         backend nodes\n server a 127.0.0.1:{node} weight 100 check inter 100ms agent-check agent-port {nobody} agent-inter 100ms\n"
    ))
    .unwrap();
    // What an agent has said before it died.
    for line in ["weight 25%", "agent down"] {
        haproxy
            .command(&format!("set server nodes/a {line}"))
            .unwrap();
    }
    let says = |column| haproxy.stat("nodes", "a", column).unwrap();
    assert_eq!(says("uweight"), "25");
    let directory = TempDir::new();
    let socket = haproxy.socket().display();

    let tidegate = Tidegate::start(
        &directory,
        &format!(
            "{APP}[[balancer.haproxy]]\nsocket = \"unix:{socket}\"\nbackends = [\"nodes\"]\ninterval = \"100ms\"\nlease = \"500ms\"\n"
        ),
    );

    wait_until("the weight is right", || says("uweight") == "100");
    wait_until("the node is up", || says("status") == "UP");
    let metrics = get(tidegate.admin, "/metrics").text();
    let adapter = format!("adapter=\"haproxy unix:{socket}\"");
    for line in [
        format!("tidegate_lb_mismatch_total{{{adapter}}} 2"),
        format!("tidegate_lb_apply_total{{{adapter},result=\"ok\"}} 2"),
        format!("tidegate_lb_apply_total{{{adapter},result=\"unsettled\"}} 0"),
    ] {
        assert!(metrics.contains(&line), "{line} is not in {metrics}");
    }
}

/// A report, as strictly as the strictest balancer reads it.
fn parse(report: &str) -> (f64, f64) {
    let pairs = report
        .strip_prefix("TEXT application_utilization=")
        .unwrap();
    let (used, rps) = pairs.split_once(",rps_fractional=").unwrap();
    (used.parse().unwrap(), rps.parse().unwrap())
}

#[test]
fn every_answer_carries_the_load_report_of_the_verdict_where_that_is_wanted_and_nothing_of_others()
{
    let backend = Backend::start();
    let directory = TempDir::new();
    let app = format!(
        "[[app]]\nupstream = \"http://{}\"\nworkers = 4\n",
        backend.address
    );
    let fleet = "[fleet]\nnode = \"one\"\n";
    let tidegate = Tidegate::start(
        &directory,
        &format!("{app}{fleet}[balancer]\nload_reports = true\n"),
    );
    // Nothing is known yet, and what the application says of itself is none of the node's.
    let first = get(tidegate.clients, "/report");
    assert_eq!(first.header("endpoint-load-metrics-bin"), None);

    let mut report = None;
    wait_until("a load is measured", || {
        let answer = get(tidegate.clients, "/report");
        let said = answer.header("endpoint-load-metrics").map(str::to_owned);
        assert_ne!(said.as_deref(), Some("TEXT rps=5"), "the application's own");
        assert_eq!(answer.header("x-endpoint-load-metrics"), said.as_deref());
        assert_eq!(answer.header("endpoint-load-metrics-bin"), None);
        report = said;
        report.is_some()
    });

    let (used, rps) = parse(report.as_deref().unwrap());
    assert!(used > 0.0 && rps > 0.0, "{report:?}");
    wait_until("the verdict says the same", || {
        let answer = get(tidegate.clients, "/report");
        let verdict = get(tidegate.clients, "/.tidegate/verdict");
        let said = verdict.header("endpoint-load-metrics");
        said.is_some() && said == answer.header("endpoint-load-metrics")
    });

    // Without it an answer is the application's.
    let directory = TempDir::new();
    let plain = Tidegate::start(&directory, &format!("{app}{fleet}"));
    let answer = get(plain.clients, "/report");
    assert_eq!(answer.header("endpoint-load-metrics"), Some("TEXT rps=5"));
}

#[test]
fn load_reports_need_somebody_who_measures_the_load() {
    let directory = TempDir::new();
    let file = directory.write("t.toml", &format!("{APP}[balancer]\nload_reports = true\n"));

    let checked = output(&["check", file.to_str().unwrap()]);

    let page = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(checked.status.code(), Some(1));
    assert!(
        page.contains("`load_reports` has nothing to report"),
        "{page}"
    );
}

#[test]
fn the_examples_for_balancers_have_no_traps() {
    for name in ["haproxy.cfg", "envoy.yaml"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../deploy")
            .join(name);

        let linted = output(&["lint-lb", file.to_str().unwrap()]);

        let said = String::from_utf8_lossy(&linted.stdout);
        assert_eq!(linted.status.code(), Some(0), "{said}");
        assert!(said.contains("no known trap"), "{said}");
    }
}

#[test]
fn the_exit_code_says_what_was_found() {
    let directory = TempDir::new();
    let lint = |name: &str, bytes: &[u8], more: &[&str]| {
        let file = directory.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let mut args = vec!["lint-lb", file.to_str().unwrap()];
        args.extend(more);
        let linted = output(&args);
        let said = String::from_utf8(linted.stdout).unwrap();
        (linted.status.code(), said)
    };
    let trap = b"backend x\n balance static-rr\n server a h:1 check agent-check weight 100\n";

    let (code, said) = lint("a.cfg", trap, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("a.cfg:2:10: "), "{said}");
    let (code, said) = lint("b.cfg", trap, &["--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(said["balancer"], "haproxy");
    assert_eq!(said["findings"][0]["trap"], "ignored-weight");
    assert_eq!(said["findings"][0]["line"], 2);
    for (name, bytes) in [
        ("binary", &b"\x7fELF\0\xff\xfe"[..]),
        ("empty", b""),
        ("deep.yaml", "[".repeat(200_000).as_bytes()),
        ("half.cfg", b"backend x\n server \"a\n"),
    ] {
        let (code, said) = lint(name, bytes, &["--json"]);
        assert_eq!(code, Some(2), "{name}: {said}");
        let said: Value = serde_json::from_str(&said).unwrap();
        assert!(said["unreadable"]["what"].is_string(), "{name}: {said}");
    }
    assert_eq!(output(&["lint-lb", "/nowhere"]).status.code(), Some(2));
    // A device that has no end is read no further than a file may be.
    assert_eq!(output(&["lint-lb", "/dev/zero"]).status.code(), Some(2));
}

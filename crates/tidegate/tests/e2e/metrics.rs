//! The admin listener.

use std::io::Write;
use std::process::{Command, Stdio};

use tidegate_http::refusal::Refusal;

use crate::backend::Backend;
use crate::client::{ask, get};
use crate::process::{TempDir, Tidegate};

const REFERENCE: &str = include_str!("../../../../docs/http-api.md");

fn start() -> (Backend, TempDir, Tidegate) {
    let (backend, directory) = (Backend::start(), TempDir::new());
    let configuration = format!(
        "[[app]]\nname = \"shop\"\nupstream = \"http://{}\"\nworkers = 4\n\
         [[app.route]]\nname = \"checkout\"\npath = \"/checkout\"\nclass = \"critical\"\n\
         [[app]]\nname = \"other\"\nupstream = \"http://{}\"\nhosts = [\"other.test\"]\n",
        backend.address, backend.address
    );
    // The first application would take everything otherwise.
    let configuration =
        configuration.replacen("workers = 4", "workers = 4\nhosts = [\"app.test\"]", 1);
    let tidegate = Tidegate::start(&directory, &configuration);
    (backend, directory, tidegate)
}

#[test]
fn promtool_finds_nothing_to_complain_about() {
    let (_backend, _directory, tidegate) = start();
    assert_eq!(get(tidegate.clients, "/").status, 200);
    assert_eq!(get(tidegate.clients, "/checkout").status, 200);
    assert_eq!(
        ask(
            tidegate.clients,
            "GET",
            "/",
            &[("host", "second.test")],
            b""
        )
        .status,
        400
    );

    let metrics = get(tidegate.admin, "/metrics");

    assert_eq!(metrics.status, 200);
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is in Debian's package prometheus; ./test installs it");
    promtool
        .stdin
        .take()
        .unwrap()
        .write_all(&metrics.body)
        .unwrap();
    let checked = promtool.wait_with_output().unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    assert_eq!(String::from_utf8_lossy(&checked.stderr), "");
}

#[test]
fn requests_are_counted_by_application_class_and_route() {
    let (_backend, _directory, tidegate) = start();
    get(tidegate.clients, "/");
    get(tidegate.clients, "/checkout");

    let metrics = get(tidegate.admin, "/metrics").text();

    for line in [
        "tidegate_arrivals_total{app=\"shop\",class=\"critical\"} 1",
        "tidegate_arrivals_total{app=\"shop\",class=\"anonymous\"} 1",
        "tidegate_unlabelled_total{app=\"shop\"} 1",
        "tidegate_admitted_total{app=\"shop\",class=\"critical\",how=\"at_once\"} 1",
        "tidegate_completions_total{app=\"shop\",route=\"checkout\",class=\"critical\",outcome=\"in_time\"} 1",
        "tidegate_answers_total{app=\"shop\",code=\"2xx\"} 2",
        "tidegate_limit{app=\"shop\"} 4",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[test]
fn every_metric_and_every_reason_is_in_the_reference() {
    let (_backend, _directory, tidegate) = start();

    let metrics = get(tidegate.admin, "/metrics").text();

    for line in metrics.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.split(' ').next().unwrap();
            assert!(
                REFERENCE.contains(&format!("`{name}`")),
                "the reference lacks {name}"
            );
        }
    }
    for refusal in Refusal::ALL {
        let row = format!("| `{}` | {}", refusal.label(), refusal.status().as_u16());
        assert!(REFERENCE.contains(&row), "the reference lacks {row}");
    }
}

#[test]
fn the_status_page_shows_every_application() {
    let (_backend, _directory, tidegate) = start();

    let status = get(tidegate.admin, "/status.json");

    let status: serde_json::Value = serde_json::from_slice(&status.body).unwrap();
    assert_eq!(status["state"], "ready");
    assert_eq!(status["apps"][0]["name"], "shop");
    assert_eq!(status["apps"][0]["limit"], 4);
    assert_eq!(status["apps"][1]["name"], "other");
}

#[test]
fn health_is_answered_on_both_listeners() {
    let (_backend, _directory, tidegate) = start();

    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(tidegate.admin, path).status, 200);
        assert_eq!(
            get(tidegate.clients, &format!("/.tidegate{path}")).status,
            200
        );
    }
    assert_eq!(get(tidegate.admin, "/nothing").status, 404);
}

//! `tidegate node`: two gateways of one fleet over a real Redis, asked through a sidecar and past it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tidegate_lab::peers::RedisServer;

use crate::client::get;
use crate::process::{TempDir, Tidegate, output, tidegate};

/// Longest wait for what takes a few seconds.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(100);

/// A gateway that is a node, and its configuration.
struct Site {
    directory: TempDir,
    gateway: Tidegate,
    file: String,
    log: PathBuf,
}

impl Site {
    fn start(node: &str, redis: &str, more: &str) -> Self {
        let directory = TempDir::new();
        let log = directory.path().join("decisions.jsonl");
        let configuration = format!(
            "[[app]]\nupstream = \"http://127.0.0.1:9\"\nworkers = 4\n[store]\n{redis}\n{more}\
             [fleet]\nnode = \"{node}\"\ndecision_log = \"{}\"\n",
            log.display()
        );
        let file = directory.write("site.toml", &configuration);
        Self {
            gateway: Tidegate::start(&directory, &configuration),
            file: file.display().to_string(),
            directory,
            log,
        }
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = tidegate();
        command.arg("node").args(args).args(["-c", &self.file]);
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn nodes(&self) -> Value {
        let output = self.run(&["list", "--json"]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Looks until `found` finds something.
fn until<T>(what: &str, found: impl Fn() -> Option<T>) -> T {
    for _ in 0..TRIES {
        if let Some(found) = found() {
            return found;
        }
        std::thread::park_timeout(PAUSE);
    }
    panic!("never: {what}")
}

fn state_of(nodes: &Value, name: &str) -> Option<String> {
    let all = nodes["nodes"].as_array()?;
    let node = all.iter().find(|node| node["node"] == name)?;
    Some(node["state"].as_str()?.to_owned())
}

#[test]
fn two_gateways_are_a_fleet_that_operators_see_and_drain() {
    let redis = RedisServer::plain().unwrap();
    let servers = format!("url = \"redis://{}\"", redis.address());
    let first = Site::start("shop-1", &servers, "");
    let second = Site::start("shop-2", &servers, "");

    let nodes = until("a leader knows both", || {
        let nodes = first.nodes();
        let known = ["shop-1", "shop-2"].map(|name| state_of(&nodes, name));
        let is_led = nodes["fleet"]["heard"] == 2;
        (is_led && known == [Some("healthy".to_owned()), Some("healthy".to_owned())])
            .then_some(nodes)
    });
    assert_eq!(nodes["fleet"]["nodes"], 2);

    let page = said(&first.run(&["list"]));
    assert!(
        page.starts_with("2 nodes, 2 heard of, 0 out, 0 drained; shop-"),
        "{page}"
    );
    let why = said(&first.run(&["why", "shop-2"]));
    assert!(why.starts_with("shop-2 is healthy for "), "{why}");
    let drained = first.run(&["drain", "shop-2", "--by", "kim", "--for", "10m", "--yes"]);
    assert!(said(&drained).contains("shop-2 is to be drained for 10m"));
    until("it is carried out", || {
        (first.nodes()["fleet"]["drained"] == 1).then_some(())
    });
    assert!(said(&first.run(&["list"])).contains("drained by kim for 9m"));
    assert!(said(&first.run(&["undrain", "shop-2"])).contains("gets traffic again"));
    assert!(said(&first.run(&["undrain", "shop-2"])).contains("had no order"));
    let unknown = first.run(&["why", "shop-9"]);
    assert_eq!(unknown.status.code(), Some(1));

    // Whoever leads has written down how it came to know both.
    let logs = [&first.log, &second.log];
    let log = logs.into_iter().find(|log| holds_something(log)).unwrap();
    let replayed = said(&output(&["sim", "replay", &log.display().to_string()]));
    assert!(replayed.contains("every decision reproduced"), "{replayed}");

    // Who leaves says so, and is no node any more at once.
    second.gateway.terminate();
    until("one has left", || {
        let nodes = first.nodes();
        let is_alone = nodes["fleet"]["nodes"] == 1 && state_of(&nodes, "shop-2").is_none();
        is_alone.then_some(())
    });
}

fn holds_something(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|it| it.len() > 0)
}

#[test]
fn a_fleet_of_one_process_is_asked_through_its_sidecar() {
    let folder = TempDir::new();
    let socket = folder.path().join("sidecar.sock");
    let state = folder.path().join("state");
    let sidecar = format!("[sidecar]\nlisten = \"unix:{}\"\n", socket.display());
    let path = format!("path = \"{}\"", state.display());
    let site = Site::start("alone", &path, &sidecar);

    until("it is healthy", || {
        (state_of(&site.nodes(), "alone").as_deref() == Some("healthy")).then_some(())
    });

    for line in [
        "tidegate_node_state{node=\"alone\",state=\"healthy\"} 1.0",
        "tidegate_leads 1.0",
        "tidegate_verdict_source{source=\"control\"} 1.0",
        "tidegate_node_weight{node=\"alone\"} 100.0",
        "tidegate_fleet_guard_active{reason=\"dependency\"} 0.0",
        "tidegate_fleet_decisions_total{result=\"lost\"} 0",
    ] {
        until(line, || {
            let metrics = get(site.gateway.admin, "/metrics").text();
            metrics.contains(line).then_some(())
        });
    }
    // The last is never drained.
    said(&site.run(&["drain", "alone", "--by", "kim", "--yes"]));
    let page = until("the leader has seen the order", || {
        let page = said(&site.run(&["list"]));
        page.contains("to be drained by kim").then_some(page)
    });
    assert!(page.contains("0 drained"), "{page}");
    drop(site.directory);
}

#[test]
fn alert_rules_are_sound_and_fire_when_they_should() {
    let alerts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/alerts");
    for args in [
        ["check", "rules", "tidegate.yml"],
        ["test", "rules", "tidegate.test.yml"],
    ] {
        let mut promtool = Command::new("promtool");
        promtool.args(args).current_dir(&alerts);
        let output = promtool
            .output()
            .expect("promtool is in Debian's package prometheus");
        assert!(output.status.success(), "{output:?}");
    }
}

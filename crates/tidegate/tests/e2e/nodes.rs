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
    shop_2_is_shown_as_drained([&first, &second]);
    let unasked = first.run(&["undrain", "shop-2"]);
    assert!(
        String::from_utf8_lossy(&unasked.stderr).contains("add --yes"),
        "{unasked:?}"
    );
    assert!(said(&first.run(&["undrain", "shop-2", "-y"])).contains("gets traffic again"));
    assert!(said(&first.run(&["undrain", "shop-2", "-y"])).contains("had no order"));
    orders_that_make_no_sense_are_refused(&first);

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

/// By either, which read the same store, and by the metrics of whichever leads.
fn shop_2_is_shown_as_drained(sites: [&Site; 2]) {
    let [first, _] = sites;
    let drained = first.nodes();
    let drained = &drained["nodes"][1];
    assert_eq!(
        (drained["state"].as_str(), drained["weight"].as_u64()),
        (Some("drained"), Some(0))
    );
    assert!(drained["dimension"].is_string(), "{drained}");
    let page = said(&first.run(&["list"]));
    assert!(
        page.starts_with("2 nodes, 2 heard of, 0 out, 1 drained; shop-"),
        "{page}"
    );
    assert!(
        page.contains("drained by kim ") && page.contains(" ago, for 9m"),
        "{page}"
    );
    let why = said(&first.run(&["why", "shop-2"]));
    assert!(
        why.starts_with("shop-2 is drained for ") && why.contains("with weight 0 of 100"),
        "{why}"
    );
    assert!(
        why.contains("What it has least of is ") && why.contains("kim has it drained since "),
        "{why}"
    );
    let metrics = sites.map(|site| get(site.gateway.admin, "/metrics").text());
    let line = "tidegate_node_state{node=\"shop-2\",state=\"drained\"} 1.0";
    assert!(
        metrics.iter().any(|page| page.contains(line)),
        "{metrics:?}"
    );
}

fn orders_that_make_no_sense_are_refused(site: &Site) {
    let refused = |args: &[&str]| {
        let output = site.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let unknown = refused(&["why", "shop-9"]);
    assert!(unknown.contains("there is shop-"), "{unknown}");
    let misspelt = refused(&["drain", "shpo-1", "--by", "kim", "-y"]);
    for said in [
        "node shpo-1 has not been heard of",
        "there is shop-1",
        "--force",
    ] {
        assert!(misspelt.contains(said), "{misspelt}");
    }
    assert!(state_of(&site.nodes(), "shpo-1").is_none());
    for (more, said) in [
        (["--by", ""], "--by: it is empty"),
        (["--why", ""], "--why: it is empty"),
        (["--why", "a\nb"], "--why: it has control characters in it"),
        (
            ["--why", &"w".repeat(241)],
            "--why: it has 241 bytes, and 240 are allowed",
        ),
    ] {
        // The environment says who it is, unless that is what is asked for.
        let mut args = vec!["drain", "shop-1", "-y"];
        args.extend(more);
        if more[0] != "--by" {
            args.extend(["--by", "kim"]);
        }
        let page = refused(&args);
        assert!(page.contains(said), "{said} is not in {page}");
        assert_eq!(page.lines().count(), 1, "{page}");
    }
    let nameless = refused(&["why", ""]);
    assert_eq!(nameless.matches("1 to 64").count(), 1, "{nameless}");

    said(&site.run(&["drain", "shop-9", "--force", "--by", "kim", "-y"]));
    let coming = site.nodes();
    assert_eq!(state_of(&coming, "shop-9").as_deref(), Some("drained"));
    said(&site.run(&["undrain", "shop-9", "-y"]));
}

#[test]
fn a_store_that_is_gone_is_told_within_two_seconds() {
    let directory = TempDir::new();
    // Nobody listens at the first; at the second somebody does, who says nothing.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = [
        format!("127.0.0.1:{}", tidegate_lab::peers::free_port().unwrap()),
        deaf.local_addr().unwrap().to_string(),
    ];
    for address in addresses {
        let text = format!("[store]\nurl = \"redis://{address}\"\n[fleet]\nnode = \"a\"\n");
        let file = directory.write("agent.toml", &text);
        for command in [&["list"][..], &["why", "a"]] {
            let begun = std::time::Instant::now();

            let output = output(&[&["node"], command, &["-c", file.to_str().unwrap()]].concat());

            let (took, page) = (begun.elapsed(), String::from_utf8_lossy(&output.stderr));
            assert_eq!(output.status.code(), Some(1));
            assert!(
                page.contains("the store has not answered within 1s 400ms"),
                "{page}"
            );
            assert!(took < Duration::from_secs(4), "{took:?} at {address}");
        }
    }
}

#[test]
fn a_store_that_refuses_is_named_in_the_log_with_what_it_says() {
    let redis = RedisServer::plain().unwrap();
    let set = ["CONFIG", "SET", "requirepass", "sesame"];
    redis.ask(&set).unwrap();
    let address = redis.address().to_string();
    let directory = TempDir::new();
    let log = directory.path().join("log");
    directory.write(
        "tidegate.toml",
        &format!(
            "[[app]]\nupstream = \"http://127.0.0.1:9\"\n[store]\nurl = \"redis://{address}\"\n\
             [fleet]\nnode = \"a\"\n"
        ),
    );

    let _gateway = Tidegate::start_logging(&directory, "warn", &log);

    let line = until("the store is away", || {
        let log = std::fs::read_to_string(&log).unwrap();
        let line = log.lines().find(|line| line.contains("a store is away"))?;
        Some(line.to_owned())
    });
    assert!(line.contains(&address), "{line}");
    assert!(line.contains("Authentication required"), "{line}");
}

#[test]
fn every_metric_that_an_alert_goes_by_is_exported() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/alerts/tidegate.yml");
    let rules = std::fs::read_to_string(rules).unwrap();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names: Vec<&str> = (rules.split(|c: char| !is_part(c)))
        .filter(|word| word.starts_with("tidegate_"))
        .collect();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() >= 8, "{names:?}");
    // A queue that is full makes the node change its state.
    let application = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&application, 1).unwrap();
    let at = application.local_addr().unwrap();
    let folder = TempDir::new();
    let keys = folder.path().join("room-keys.json").display().to_string();
    assert!(output(&["room", "key", "--file", &keys]).status.success());
    let more = format!(
        "path = \"{}\"\n[agent]\nlisten = [\"{at}\"]\n\
         [[balancer.haproxy]]\nsocket = \"127.0.0.1:9\"\nbackends = [\"x\"]\n\
         [[room]]\nname = \"shop\"\nkey_file = \"{keys}\"\n",
        folder.path().join("state").display()
    );
    let site = Site::start("one", &more, "");
    let _waiting = [(); 2].map(|()| std::net::TcpStream::connect(at).unwrap());

    for name in names {
        until(name, || {
            let metrics = get(site.gateway.admin, "/metrics").text();
            let has_row = |line: &str| {
                let rest = line.strip_prefix(name);
                rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
            };
            metrics.lines().any(has_row).then_some(())
        });
    }
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

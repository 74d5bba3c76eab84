//! What gateways do with what is said of their fleet: two of them over a real Redis, whose applications say how full they are.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_lab::peers::RedisServer;

use crate::backend::Backend;
use crate::client::{Answer, ask, ask_socket, get};
use crate::limit_command::said;
use crate::process::{TempDir, Tidegate, output};

/// Longest wait for what takes seconds: shares move once a second, and by a part of their way.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// A gateway that is a node, and whose application posts readings of itself.
struct Node {
    gateway: Tidegate,
    directory: TempDir,
    file: String,
}

/// Two of them before one application.
struct Site {
    nodes: [Node; 2],
    redis: RedisServer,
    backend: Backend,
}

impl Node {
    fn start(name: &str, redis: &RedisServer, upstream: &str, limits: &str) -> Self {
        let directory = TempDir::new();
        let configuration = format!(
            "limit_nodes = 2\n[store]\nurl = \"redis://{}\"\n[trust]\nproxies = [\"127.0.0.0/8\"]\n\
             [sidecar]\nlisten = \"unix:{}\"\n[fleet]\nnode = \"{name}\"\n\
             [[app]]\nname = \"shop\"\nupstream = \"http://{upstream}\"\nworkers = 64\n{limits}",
            redis.address(),
            directory.path().join("sidecar.sock").display()
        );
        let file = directory.write("site.toml", &configuration);
        Self {
            gateway: Tidegate::start(&directory, &configuration),
            file: file.display().to_string(),
            directory,
        }
    }

    /// Its application says how full its workers are.
    fn post(&self, used: f64) {
        let body = format!(
            "{{\"source\":\"shop\",\"signals\":[{{\"dimension\":\"threads\",\"value\":{},\"limit\":100}}]}}",
            used * 100.0
        );
        let socket = self.directory.path().join("sidecar.sock");
        let answer = ask_socket(&socket, "POST", "/v1/signals", &body);
        assert!((200..300).contains(&answer.status), "{}", answer.text());
    }

    /// As the system kills it: without a word to anybody.
    fn kill(&self) {
        let killed = Command::new("kill")
            .args(["-9", &self.gateway.id().to_string()])
            .status();
        assert!(killed.unwrap().success());
    }

    fn ask(&self, class: &str, client: u32) -> Answer {
        let client = format!("203.0.113.{}", client % 250);
        let headers = [("tidegate-class", class), ("x-forwarded-for", &*client)];
        ask(self.gateway.clients, "GET", "/", &headers, b"")
    }

    /// The sample of `/metrics` with this name and these labels.
    fn metric(&self, series: &str) -> Option<f64> {
        let metrics = get(self.gateway.admin, "/metrics").text();
        let of = |line: &str| line.strip_prefix(series)?.trim().parse().ok();
        metrics.lines().find_map(of)
    }

    fn fleet(&self) -> Value {
        let said = output(&["node", "list", "--json", "-c", &self.file]);
        let said: Value = serde_json::from_slice(&said.stdout).unwrap();
        said["fleet"].clone()
    }
}

impl Site {
    fn start(limits: &str) -> Self {
        let (redis, backend) = (RedisServer::plain().unwrap(), Backend::start());
        let upstream = backend.address.to_string();
        let site = Self {
            nodes: ["shop-1", "shop-2"].map(|name| Node::start(name, &redis, &upstream, limits)),
            redis,
            backend,
        };
        site.until(0.3, "somebody leads and knows both", || {
            let fleet = site.nodes[0].fleet();
            let used = fleet["utilisation"].as_f64().unwrap_or(1.0);
            fleet["heard"] == 2 && (0.2..0.4).contains(&used)
        });
        site
    }

    /// Looks until `is`, while both applications are so full.
    fn until(&self, used: f64, what: &str, mut is: impl FnMut() -> bool) {
        let begun = Instant::now();
        loop {
            self.nodes.iter().for_each(|node| node.post(used));
            if is() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "never: {what}");
            thread::park_timeout(PAUSE);
        }
    }
}

const SHARE: &str = "tidegate_rate_share_ratio{limit=\"all\"} ";

#[test]
fn a_limit_follows_the_headroom_of_the_fleet_alike_on_all_gateways() {
    let site = Site::start(
        "[[limit]]\nname = \"all\"\nrate = \"20/day\"\nkey = []\nscope = \"fleet\"\nmode = \"shared\"\n\
         headroom = { floor = 0.2, hold = \"1s\" }\n",
    );
    let [first, second] = &site.nodes;
    assert_eq!(first.metric(SHARE), Some(1.0));

    site.until(1.0, "both have a small part, and the same", || {
        let shares = site
            .nodes
            .each_ref()
            .map(|node| node.metric(SHARE).unwrap());
        shares[0] < 0.4 && shares[0] == shares[1]
    });

    // What is critical is let in though both are full. 20 a day at such a share is 4 to 8 for both together.
    let passed = (0..30).filter(|number| {
        let answer = site.nodes[number % 2].ask("critical", 1);
        assert!(
            answer.status == 200 || answer.status == 429,
            "{}",
            answer.status
        );
        answer.status == 200
    });
    let passed = passed.count();
    assert!((3..=8).contains(&passed), "{passed}");
    let refused = first.ask("critical", 1);
    let policy = refused.header("ratelimit-policy").unwrap().to_owned();
    let told: u64 = policy
        .strip_prefix("\"all\";q=")
        .and_then(|rest| rest.strip_suffix(";w=86400"))
        .and_then(|tokens| tokens.parse().ok())
        .unwrap_or_else(|| panic!("{policy}"));
    assert!((4..=8).contains(&told), "{policy}");
    assert!(
        refused
            .header("ratelimit")
            .unwrap()
            .starts_with("\"all\";r=0;t=")
    );
    let shown = said(&second.gateway, &["show", "all"]);
    assert!(shown.contains("by the headroom of the fleet"), "{shown}");

    site.until(0.1, "it rises again", || {
        first.metric(SHARE).is_some_and(|share| share > 0.5)
    });
}

#[test]
fn a_limit_holds_what_it_heard_last_and_then_the_whole_rate() {
    let mut site = Site::start(
        "[[limit]]\nname = \"all\"\nrate = \"20/day\"\nkey = []\nheadroom = { floor = 0.2, hold = \"2s\" }\n",
    );
    site.until(1.0, "it has a small part", || {
        site.nodes[0].metric(SHARE).is_some_and(|share| share < 0.6)
    });

    site.redis.kill().unwrap();

    let source = |node: &Node, source: &str| {
        let series = format!("tidegate_rate_share_source{{limit=\"all\",source=\"{source}\"}} ");
        node.metric(&series) == Some(1.0)
    };
    let node = &site.nodes[0];
    site.until(1.0, "it holds", || source(node, "held"));
    assert!(node.metric(SHARE).unwrap() < 0.7 || source(node, "nobody"));
    site.until(1.0, "nobody says anything", || source(node, "nobody"));
    assert_eq!(node.metric(SHARE), Some(1.0));
}

#[test]
fn where_all_suffer_alike_the_lowest_classes_are_let_in_less() {
    let site = Site::start("");
    let [first, second] = &site.nodes;
    let mut client = 0;
    let mut visit = |node: &Node| {
        client += 1;
        let critical = node.ask("critical", client);
        assert_eq!(critical.status, 200, "nothing cuts what is critical");
        node.ask("background", client)
    };

    let mut refused = [0; 2];
    site.until(0.95, "both turn away most of what matters least", || {
        for (count, node) in refused.iter_mut().zip(&site.nodes) {
            let answer = visit(node);
            let is_fleet = answer.header("tidegate-reason") == Some("fleet");
            *count = if is_fleet { *count + 1 } else { 0 };
            assert_eq!(is_fleet, answer.status == 503, "{}", answer.status);
            assert_eq!(is_fleet, answer.header("retry-after").is_some());
        }
        refused.iter().all(|&count| count >= 10)
    });

    let word = first.fleet();
    assert_eq!(word["freeze"], "dependency", "{word}");
    assert!(word["admission"].as_f64().unwrap() < 0.8, "{word}");
    let why = output(&["node", "why", "shop-2", "-c", &second.file]);
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("Gateways let in"), "{why}");
    let ratio = "tidegate_fleet_slow_ratio{app=\"shop\"} ";
    assert!(first.metric(ratio).unwrap() < 0.8);
    let counted = "tidegate_refused_total{app=\"shop\",class=\"background\",reason=\"fleet\"} ";
    assert!(first.metric(counted).unwrap() >= 10.0);
    let status: Value =
        serde_json::from_str(&get(first.gateway.admin, "/status.json").text()).unwrap();
    assert_eq!(status["fleet_slow"], "dependency", "{status}");

    let mut passed = [0; 2];
    site.until(0.2, "they are let in again", || {
        for (count, node) in passed.iter_mut().zip(&site.nodes) {
            let answer = visit(node);
            *count = if answer.status == 200 { *count + 1 } else { 0 };
        }
        passed.iter().all(|&count| count >= 3)
    });
}

#[test]
fn less_is_asked_of_what_fails_also_by_gateways_that_do_not_know_yet() {
    // Nobody listens there: every call fails at once, and then the breaker of the first gateway trips.
    let site = Site::start(
        "[[dependency]]\nname = \"recs\"\nurl = \"http://127.0.0.1:9\"\nlisten = \"127.0.0.1:0\"\nconcurrency = 20\n\
         rate = \"1000/s\"\nheadroom = { floor = 0.2, hold = \"1s\" }\n",
    );
    let [first, second] = &site.nodes;
    let status = |node: &Node| -> Value {
        let status = get(node.gateway.admin, "/status.json").text();
        let status: Value = serde_json::from_str(&status).unwrap();
        status["dependencies"][0].clone()
    };
    let egress = status(first)["listens"].as_str().unwrap().parse().unwrap();
    assert_eq!(status(second)["concurrency"], 20);
    assert_eq!(status(second)["share"], 1.0);

    site.until(0.3, "both ask less", || {
        for _ in 0..10 {
            ask(egress, "GET", "/", &[], b"");
        }
        site.nodes.iter().all(|node| {
            let status = status(node);
            status["share"].as_f64().unwrap() < 0.6 && status["concurrency"].as_u64().unwrap() <= 12
        })
    });

    assert_eq!(status(second)["share_by"], "told");
    let ratio = "tidegate_dependency_share_ratio{dependency=\"recs\"} ";
    assert!(second.metric(ratio).unwrap() < 0.7);
    site.until(0.3, "who is left alone comes back", || {
        status(second)["share"].as_f64().unwrap() > 0.7
    });
}

#[test]
fn a_leader_that_is_killed_takes_no_decision_with_it() {
    let site = Site::start("");
    let upstream = site.backend.address.to_string();
    // With it more than half of what is heard of is well, also when the leader is gone.
    let third = Node::start("shop-3", &site.redis, &upstream, "");
    let state = |node: &Node, name: &str| -> (String, u64) {
        let said = output(&["node", "list", "--json", "-c", &node.file]);
        let said: Value = serde_json::from_slice(&said.stdout).unwrap();
        let nodes = said["nodes"].as_array().unwrap();
        let node = nodes.iter().find(|node| node["node"] == name).unwrap();
        let state = node["state"].as_str().unwrap().to_owned();
        (state, node["weight"].as_u64().unwrap())
    };
    let leads = |node: &Node| node.metric("tidegate_leads ") == Some(1.0);
    let leader = usize::from(leads(&site.nodes[1]));
    let (leader, other, name) = (
        &site.nodes[leader],
        &site.nodes[1 - leader],
        ["shop-2", "shop-1"][leader],
    );
    // Stressed by little enough that nothing else becomes of it.
    let stressed = ("stressed".to_owned(), 70);
    let begun = Instant::now();
    while state(&third, name) != stressed {
        assert!(begun.elapsed() < PATIENCE, "never stressed");
        leader.post(0.3);
        third.post(0.3);
        other.post(0.6);
        thread::park_timeout(PAUSE);
    }

    leader.kill();
    let begun = Instant::now();
    let new = loop {
        if let Some(new) = [other, &third].into_iter().find(|node| leads(node)) {
            break new;
        }
        assert!(begun.elapsed() < PATIENCE, "nobody leads");
        third.post(0.3);
        other.post(0.6);
        thread::park_timeout(PAUSE);
    };

    assert_eq!(state(new, name), stressed);
    let metrics = get(new.gateway.admin, "/metrics").text();
    let turns = "tidegate_node_state_transitions_total{node=";
    let of_those_that_live = |line: &&str| {
        let is_turn = line.starts_with(turns);
        is_turn
            && [name, "shop-3"]
                .iter()
                .any(|name| line.contains(&format!("\"{name}\"")))
    };
    let turned: Vec<&str> = metrics.lines().filter(of_those_that_live).collect();
    assert!(turned.is_empty(), "{turned:?}");
}

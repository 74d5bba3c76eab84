//! `tidegate agent`: nodes whose proxy is something else, in one fleet over a real Redis.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use rustix::net::listen;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tidegate_lab::measure::Child;
use tidegate_lab::peers::{RedisServer, free_port};

use crate::balancers::hear;
use crate::client::get;
use crate::process::{PATIENCE, TempDir, output, tidegate};

/// Connections that an accept queue takes beyond what it is asked to.
const OVER: usize = 1;
const BACKLOG: usize = 4;
const READY: &str = "tidegate: agent alone, admin on ";

/// A running agent, and its configuration.
struct Agent {
    child: Child,
    admin: SocketAddr,
    check: SocketAddr,
    file: String,
    _kernel: TempDir,
    _directory: TempDir,
}

impl Agent {
    /// An agent of node `name`, which looks at the queue of `application` if there is one.
    fn start(name: &str, redis: &RedisServer, application: Option<SocketAddr>) -> Self {
        Self::start_with_delay(name, redis, "0s", application)
    }

    /// The same, which says goodbye for `delay` at least.
    fn start_with_delay(
        name: &str,
        redis: &RedisServer,
        delay: &str,
        application: Option<SocketAddr>,
    ) -> Self {
        let directory = TempDir::new();
        // What else this machine is busy with is no matter here.
        let kernel = TempDir::new();
        let counters = std::fs::read_to_string("/proc/net/netstat").unwrap();
        std::fs::create_dir(kernel.path().join("net")).unwrap();
        kernel.write("net/netstat", &counters);
        let listen = application.map(|at| format!("listen = [\"{at}\"]\n"));
        let roots = kernel.path().display();
        let looks = format!(
            "proc_root = \"{roots}\"\nsys_root = \"{roots}\"\n{}",
            listen.unwrap_or_default()
        );
        let check = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let text = format!(
            "[admin]\naddress = \"127.0.0.1:0\"\n[store]\nurl = \"redis://{}\"\n[fleet]\nnode = \"{name}\"\n\
             [balancer]\nagent_listen = \"{check}\"\nagent_interval = \"400ms\"\n[drain]\ndelay = \"{delay}\"\n[agent]\n{looks}",
            redis.address()
        );
        let file = directory.write("agent.toml", &text).display().to_string();
        let mut command = tidegate();
        command.args(["agent", "-c", &file, "--log", "warn"]);
        let child = Child::start(command, READY, PATIENCE).unwrap();
        let admin = child.ready_line().strip_prefix(READY).unwrap();
        Self {
            admin: admin.trim().parse().unwrap(),
            child,
            check,
            file,
            _kernel: kernel,
            _directory: directory,
        }
    }

    fn node(&self, args: &[&str]) -> Output {
        let mut command = tidegate();
        command.arg("node").args(args).args(["-c", &self.file]);
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn page(&self, args: &[&str]) -> String {
        let output = self.node(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The node called `name`, as a list has it.
    fn seen(&self, name: &str) -> Option<Value> {
        let all: Value = serde_json::from_str(&self.page(&["list", "--json"])).unwrap();
        let nodes = all["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["node"] == name).cloned()
    }

    /// The first line of the verdict.
    fn verdict(&self) -> String {
        let verdict = get(self.admin, "/.tidegate/verdict").text();
        verdict.lines().next().unwrap_or_default().to_owned()
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// An application that accepts nobody, and where it listens.
fn full() -> (TcpListener, SocketAddr) {
    let application = TcpListener::bind("127.0.0.1:0").unwrap();
    listen(&application, BACKLOG as i32).unwrap();
    let at = application.local_addr().unwrap();
    (application, at)
}

fn fill(at: SocketAddr) -> Vec<TcpStream> {
    (0..BACKLOG + OVER)
        .map(|_| TcpStream::connect(at).unwrap())
        .collect()
}

#[test]
fn an_agent_alone_is_a_node_that_says_what_it_is_short_of_until_it_is_killed() {
    let redis = RedisServer::plain().unwrap();
    let (application, at) = full();
    let php = Agent::start("php-1", &redis, Some(at));
    let (_idle, idle) = full();
    let other = Agent::start("php-2", &redis, Some(idle));
    wait_until("both are known", || {
        let is_judged = |name| {
            let seen = other.seen(name);
            seen.is_some_and(|node| node["source"] == "control" && node["state"] != "unknown")
        };
        is_judged("php-1") && is_judged("php-2")
    });
    // What else this machine is busy with may have taken one of them out.
    let page = other.page(&["list"]);
    assert!(
        page.starts_with("2 nodes, 2 heard of, ") && page.contains(" out, 0 drained; php-"),
        "{page}"
    );
    assert!(php.verdict().starts_with("TIDEGATE "), "{}", php.verdict());

    let waiting = fill(at);
    wait_until("its queue binds", || {
        other.seen("php-1").unwrap()["dimension"] == "queue"
    });
    wait_until("it is told how full it is", || {
        let why = other.page(&["why", "php-1"]);
        why.contains("the queue before its workers (queue)") && why.contains(": 5 of 4")
    });
    // It is kept in where the other could not carry all of it, for what else this machine is busy with.
    wait_until("balancers hear of it", || {
        let verdict = php.verdict();
        let is_told = ["STRESSED", "SATURATED"].map(|word| format!("TIDEGATE {word} "));
        is_told.iter().any(|it| verdict.starts_with(it)) && verdict.ends_with("dim=queue")
    });
    let metrics = get(php.admin, "/metrics").text();
    assert!(
        metrics.contains("\ntidegate_listen_overflows_total "),
        "{metrics}"
    );
    assert!(
        metrics.contains("\ntidegate_agent_looks_failed_total 0\n"),
        "{metrics}"
    );
    assert!(
        !metrics.contains("tidegate_arrivals"),
        "nothing is carried here"
    );

    // Nobody can say goodbye: what was said last stays at the balancer, and the fleet notices.
    php.signal(Signal::KILL);
    wait_until("it is missed", || {
        let seen = other.seen("php-1").unwrap();
        seen["beacon_age_ms"].is_null() && seen["silent_for_ms"].as_u64() >= Some(3_000)
    });
    wait_until("it is counted", || {
        let page = other.page(&["list"]);
        page.starts_with("2 nodes, 1 heard of, ")
            && page.contains(" out, 0 drained; php-2 leads")
            && page.contains("silent for ")
    });
    let seen = other.seen("php-1").unwrap();
    assert_eq!(
        (seen["state"].as_str(), seen["weight"].as_u64()),
        (Some("unknown"), Some(100))
    );
    assert!(TcpStream::connect(php.check).is_err());
    drop((waiting, application));
}

#[test]
fn an_agent_that_is_ended_says_for_two_intervals_that_all_is_well_and_leaves_the_fleet() {
    let redis = RedisServer::plain().unwrap();
    let (_application, at) = full();
    let agent = Agent::start("php-1", &redis, Some(at));
    // Two that can carry what comes without it.
    let (_idle, idle) = full();
    let other = Agent::start("php-2", &redis, Some(idle));
    let _third = Agent::start("php-3", &redis, Some(idle));
    let _waiting = fill(at);
    wait_until("it has less than its share", || {
        hear(agent.check).unwrap() != "up ready 100%\n" && agent.verdict().ends_with("dim=queue")
    });

    let begun = Instant::now();
    agent.child.terminate().unwrap();

    let mut lines = Vec::new();
    while let Ok(line) = hear(agent.check) {
        assert!(begun.elapsed() < PATIENCE);
        // Who connects at the very moment at which it goes may hear nothing.
        if !line.is_empty() && lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    assert!(
        begun.elapsed() >= Duration::from_millis(800),
        "two intervals"
    );
    assert_eq!(
        lines.last().map(String::as_str),
        Some("up ready 100%\n"),
        "{lines:?}"
    );
    let mut child = agent.child;
    wait_until_ended(&mut child);
    wait_until("it is no node any more", || other.seen("php-1").is_none());
}

fn wait_until_ended(child: &mut Child) {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.ended().unwrap() {
            assert!(status.success(), "{status:?}");
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn while_an_agent_leaves_its_verdict_is_that_nobody_knows_anything_against_the_node() {
    let redis = RedisServer::plain().unwrap();
    let (_application, at) = full();
    let agent = Agent::start_with_delay("php-1", &redis, "2s", Some(at));
    let _waiting = fill(at);
    wait_until("it is full", || agent.verdict().ends_with("dim=queue"));

    agent.child.terminate().unwrap();

    let mut last = None;
    let begun = Instant::now();
    while let Some(line) = line_if_there(agent.admin) {
        assert!(begun.elapsed() < PATIENCE);
        last = Some(line);
    }
    let healthy = "TIDEGATE UNKNOWN weight=100 headroom=unknown dim=none";
    assert_eq!(last.as_deref(), Some(healthy));
}

/// The first line of the verdict, while there is one.
fn line_if_there(admin: SocketAddr) -> Option<String> {
    use std::io::{Read, Write};

    let mut stream = TcpStream::connect(admin).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream
        .write_all(b"GET /verdict HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    Some(body.lines().next()?.to_owned())
}

#[test]
fn a_hangup_shows_whether_the_file_is_what_runs_and_ends_nothing() {
    let redis = RedisServer::plain().unwrap();
    let agent = Agent::start("php-1", &redis, None);
    let says = |value: &str| {
        let line = format!("tidegate_config_last_reload_successful {value}\n");
        get(agent.admin, "/metrics").text().contains(&line)
    };
    assert!(says("1.0"));
    let text = std::fs::read_to_string(&agent.file).unwrap();

    std::fs::write(&agent.file, format!("{text}runtime = \"puma\"\n")).unwrap();
    agent.signal(Signal::HUP);
    wait_until("the file is newer than what runs", || says("0.0"));
    std::fs::write(&agent.file, text).unwrap();
    agent.signal(Signal::HUP);
    wait_until("they are the same again", || says("1.0"));

    let metrics = get(agent.admin, "/metrics").text();
    assert!(
        metrics.contains("\ntidegate_config_last_reload_success_timestamp_seconds "),
        "{metrics}"
    );
}

#[test]
fn what_is_about_requests_is_refused_and_a_sound_file_is_explained() {
    let directory = TempDir::new();
    let sound = directory.write("agent.toml", "[agent]\nruntime = \"puma\"\n");
    let sound = sound.to_str().unwrap();
    let gateway = "[[app]]\nupstream = \"http://127.0.0.1:1\"\n[[limit]]\nname = \"x\"\n";
    let gateway = directory.write("gateway.toml", gateway);
    let gateway = gateway.to_str().unwrap();

    let checked = output(&["check", "--agent", sound]);
    assert!(checked.status.success(), "{checked:?}");
    let page = String::from_utf8(checked.stdout).unwrap();
    for said in [
        "an agent alone: no requests, admin 127.0.0.1:9090",
        "on SIGTERM: says for 5s that all is well, and ends",
        "looks at  puma",
    ] {
        assert!(page.contains(said), "{said} is not in\n{page}");
    }
    for args in [
        &["agent", "-c", gateway][..],
        &["check", "--agent", gateway],
    ] {
        let refused = output(args);
        assert_eq!(refused.status.code(), Some(1));
        let page = String::from_utf8(refused.stderr).unwrap();
        assert!(
            page.contains("`[[app]]` has no effect: an agent alone carries no requests"),
            "{page}"
        );
        assert!(page.contains("2 errors"), "{page}");
    }
    assert_eq!(
        output(&["agent"]).status.code(),
        Some(2),
        "a file is needed"
    );
    let mut probe = tidegate();
    probe
        .env("TIDEGATE_LOG", "info")
        .args(["agent", "probe", "--json"]);
    assert!(probe.output().unwrap().status.success());
}

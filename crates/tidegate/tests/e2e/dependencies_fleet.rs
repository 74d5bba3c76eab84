//! Dependencies that gateways share, through the real binary: two gateways with one store.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_lab::peers::RedisServer;

use crate::backend::Backend;
use crate::client::{Answer, get};
use crate::process::{PATIENCE, TempDir, Tidegate};

/// For so long a gateway may stand still and not lose what it holds.
const LEASE: Duration = Duration::from_secs(2);

/// Two gateways whose applications call one backend, at most two at a time.
struct Fleet {
    redis: RedisServer,
    nodes: [Node; 2],
    backend: Backend,
    _directories: [TempDir; 2],
}

struct Node {
    tidegate: Tidegate,
    egress: SocketAddr,
}

impl Fleet {
    fn start(keys: &str) -> Self {
        let (redis, backend) = (RedisServer::plain().unwrap(), Backend::start());
        let directories = [TempDir::new(), TempDir::new()];
        let nodes = directories
            .each_ref()
            .map(|directory| Node::start(directory, &redis, backend.address, keys));
        Self {
            redis,
            nodes,
            backend,
            _directories: directories,
        }
    }

    /// Waits until a call of the first gateway comes through.
    fn until_called(&self) {
        self.nodes[0].until("no call comes through", |node| node.call("/").status == 200);
    }
}

impl Node {
    fn start(directory: &TempDir, redis: &RedisServer, backend: SocketAddr, keys: &str) -> Self {
        let configuration = format!(
            "limit_nodes = 2\n[store]\nurl = \"redis://{}\"\n[[app]]\nupstream = \"http://{backend}\"\nworkers = 8\n\
             [[app.route]]\nname = \"recommend\"\npath = \"/r\"\ndependency = [\"recs\"]\n\
             [[dependency]]\nname = \"recs\"\nurl = \"http://{backend}\"\nlisten = \"127.0.0.1:0\"\nconcurrency = 2\n\
             timeout = \"1m\"\nscope = \"fleet\"\nlease = \"{}s\"\n{keys}",
            redis.address(),
            LEASE.as_secs(),
        );
        let tidegate = Tidegate::start(directory, &configuration);
        let mut node = Self {
            egress: tidegate.clients,
            tidegate,
        };
        let listens = node.status()["listens"].clone();
        node.egress = listens.as_str().unwrap().parse().unwrap();
        node
    }

    fn status(&self) -> Value {
        let status = get(self.tidegate.admin, "/status.json").text();
        let status: Value = serde_json::from_str(&status).unwrap();
        status["dependencies"][0].clone()
    }

    fn call(&self, path: &str) -> Answer {
        get(self.egress, path)
    }

    /// A call that lasts until the backend releases it.
    fn hold(&self, backend: &Backend) -> thread::JoinHandle<Answer> {
        let egress = self.egress;
        let held = thread::spawn(move || answered(egress, "/hold"));
        backend.wait_for_arrival();
        held
    }

    fn until(&self, otherwise: &str, is: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            assert!(
                begun.elapsed() < PATIENCE,
                "{otherwise}: {:#}",
                self.status()
            );
            thread::park_timeout(Duration::from_millis(10));
        }
    }
}

/// The answer when the store was in time: on a busy machine it may not be, and then nothing passes.
fn answered(egress: SocketAddr, path: &str) -> Answer {
    loop {
        let answer = get(egress, path);
        if reason(&answer).1 != "limit_store_away" {
            return answer;
        }
    }
}

fn reason(answer: &Answer) -> (u16, &str) {
    let reason = answer.header("tidegate-reason");
    (answer.status, reason.unwrap_or(""))
}

#[test]
fn calls_of_all_gateways_count_together() {
    let fleet = Fleet::start("wait = \"0s\"\non_store_loss = \"closed\"\n");
    let [one, other] = &fleet.nodes;
    // The store knows nothing of before, and waits for a lease.
    assert_eq!(reason(&one.call("/")), (503, "limit_store_away"));
    fleet.until_called();
    one.until("a permit does not go back", |it| {
        it.status()["fleet_held"] == 0
    });

    let held = [one.hold(&fleet.backend), other.hold(&fleet.backend)];
    // Longer than a lease: they are renewed.
    let begun = Instant::now();
    let mut seen = [false; 2];
    while begun.elapsed() < LEASE + LEASE / 4 || seen != [true; 2] {
        assert!(begun.elapsed() < PATIENCE, "{seen:?}");
        let (call, request) = (one.call("/"), get(other.tidegate.clients, "/r"));
        for (answer, full) in [(&call, "queue_full"), (&request, "dependency_full")] {
            // A store that did not answer in time lets nothing pass either.
            let reason = reason(answer);
            assert!(
                [(503, full), (503, "limit_store_away")].contains(&reason),
                "{reason:?}"
            );
        }
        seen[0] |= reason(&call).1 == "queue_full";
        seen[1] |= reason(&request).1 == "dependency_full";
        thread::park_timeout(Duration::from_millis(50));
    }
    fleet.backend.release();
    for answer in held {
        assert_eq!(answer.join().unwrap().text(), "released");
    }

    fleet.until_called();
    other.until("the route is not let through", |it| {
        get(it.tidegate.clients, "/r").status == 200
    });
    let metrics = get(one.tidegate.admin, "/metrics").text();
    let unknown = "tidegate_dependency_fleet_unknown{dependency=\"recs\"} 0";
    assert!(metrics.contains(unknown), "{metrics}");
    let renewed = "tidegate_dependency_store_calls_total{dependency=\"recs\",call=\"renew\",outcome=\"answered\"} ";
    let (_, renewed) = metrics.split_once(renewed).unwrap();
    assert!(!renewed.starts_with('0'), "{metrics}");
}

#[test]
fn a_call_waits_a_little_for_one_of_another_gateway_to_end() {
    let fleet = Fleet::start("wait = \"10s\"\non_store_loss = \"closed\"\n");
    let [one, other] = &fleet.nodes;
    fleet.until_called();
    let held = [one.hold(&fleet.backend), one.hold(&fleet.backend)];

    let egress = other.egress;
    let waits = thread::spawn(move || answered(egress, "/"));
    other.until("nobody asks the store", |it| it.status()["in_flight"] == 1);
    fleet.backend.release();

    assert_eq!(waits.join().unwrap().status, 200);
    for answer in held {
        assert_eq!(answer.join().unwrap().text(), "released");
    }
}

#[test]
fn while_the_store_is_away_each_gateway_has_its_part_and_tells_the_store_afterwards() {
    let mut fleet = Fleet::start("wait = \"0s\"\n");
    // Its part at first, as the store knows nothing of before.
    fleet.until_called();
    fleet.redis.kill().unwrap();

    let [one, other] = &fleet.nodes;
    let held = one.hold(&fleet.backend);
    assert_eq!(reason(&one.call("/")), (503, "queue_full"));
    assert_eq!(other.call("/").status, 200);
    assert_eq!(one.status()["fleet_unknown"], 1);

    fleet.redis.restart().unwrap();
    let [one, other] = &fleet.nodes;
    one.until("the store is not told", |it| {
        it.status()["fleet_unknown"] == 0
    });
    // One is held still, and the other is to be had by anybody.
    other.until("it is not to be had", |it| {
        it.call("/").status == 200 && it.status()["store_lost"]["passed"].as_u64() > Some(0)
    });
    fleet.backend.release();
    assert_eq!(held.join().unwrap().text(), "released");
}

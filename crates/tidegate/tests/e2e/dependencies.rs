//! Dependencies, through the real binary: what is called through it, and what is not.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::backend::Backend;
use crate::client::{Answer, ask, ask_socket, get};
use crate::process::{PATIENCE, TempDir, Tidegate};

/// A gateway before `backend` whose application may call the same backend as `recs`.
struct Site {
    tidegate: Tidegate,
    egress: SocketAddr,
    _directory: TempDir,
}

impl Site {
    fn start(dependency: &Backend, keys: &str) -> Self {
        Self::before(dependency.address, dependency.address, keys)
    }

    fn before(app: SocketAddr, dependency: SocketAddr, keys: &str) -> Self {
        let directory = TempDir::new();
        let configuration = format!(
            "[[app]]\nname = \"shop\"\nupstream = \"http://{app}\"\nworkers = 8\n\
             [[dependency]]\nname = \"recs\"\nurl = \"http://{dependency}\"\nlisten = \"127.0.0.1:0\"\n{keys}"
        );
        let tidegate = Tidegate::start(&directory, &configuration);
        let mut site = Self {
            egress: tidegate.clients,
            tidegate,
            _directory: directory,
        };
        let listens = site.status().pointer("/listens").cloned().unwrap();
        site.egress = listens.as_str().unwrap().parse().unwrap();
        site
    }

    /// What `/status.json` says of the dependency.
    fn status(&self) -> Value {
        let status = get(self.tidegate.admin, "/status.json").text();
        let status: Value = serde_json::from_str(&status).unwrap();
        status["dependencies"][0].clone()
    }

    fn number(&self, path: &str) -> u64 {
        self.status()
            .pointer(path)
            .and_then(Value::as_u64)
            .unwrap_or(0)
    }

    /// Waits until `is` holds of what `/status.json` says.
    fn until(&self, is: impl Fn(&Value) -> bool) {
        let begun = Instant::now();
        while !is(&self.status()) {
            assert!(begun.elapsed() < PATIENCE, "{:#}", self.status());
            thread::park_timeout(Duration::from_millis(2));
        }
    }

    fn call(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        ask(self.egress, "GET", path, headers, b"")
    }
}

fn reason(answer: &Answer) -> (u16, &str) {
    (
        answer.status,
        answer.header("tidegate-reason").unwrap_or(""),
    )
}

#[test]
fn a_call_comes_through_as_it_was_made() {
    let backend = Backend::start();
    let site = Site::start(&backend, "concurrency = 4\n");

    let answer = site.call(
        "/for/you?n=3",
        &[
            ("x-own", "kept"),
            ("tidegate-timeout-ms", "500"),
            ("tidegate-session", "k7ma.secret"),
            ("te", "gzip"),
        ],
    );

    assert_eq!(answer.status, 200, "{}", answer.text());
    let head = answer.text();
    assert!(head.starts_with("GET /for/you?n=3 HTTP/1.1"), "{head}");
    let host = format!("host: {}", backend.address);
    assert!(
        head.contains(&host) && head.contains("x-own: kept"),
        "{head}"
    );
    for absent in [
        "app.test",
        "tidegate-session",
        "x-forwarded-for",
        "te: gzip",
    ] {
        assert!(!head.contains(absent), "{absent}: {head}");
    }
    let (_, left) = head.split_once("tidegate-timeout-ms: ").unwrap();
    let left: u64 = left.lines().next().unwrap().parse().unwrap();
    assert!((1..=500).contains(&left), "{left}");

    let body = vec![b'x'; 300_000];
    let sunk = ask(site.egress, "POST", "/sink", &[], &body).text();
    assert!(sunk.starts_with("300000 "), "{sunk}");
    let flood = site.call("/flood/1000000", &[]);
    assert_eq!(flood.body.len(), 1_000_000);
    site.until(|status| status["calls"]["in_time"] == 3);
}

#[test]
fn as_many_as_may_are_under_way_and_the_next_is_refused_after_a_short_wait() {
    let backend = Backend::start();
    let site = Site::start(
        &backend,
        "concurrency = 2\nwait = \"20ms\"\ntimeout = \"1m\"\n",
    );
    let egress = site.egress;
    let held: Vec<_> = (0..2)
        .map(|_| thread::spawn(move || get(egress, "/hold")))
        .collect();
    for _ in 0..2 {
        backend.wait_for_arrival();
    }

    let begun = Instant::now();
    let refused = site.call("/", &[]);

    assert_eq!(reason(&refused), (503, "queue_time"), "{refused:?}");
    assert!(refused.header("retry-after").is_some());
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(site.number("/in_flight"), 2);
    backend.release();
    for answer in held {
        assert_eq!(answer.join().unwrap().text(), "released");
    }
    assert_eq!(site.call("/", &[]).status, 200);
    let metrics = get(site.tidegate.admin, "/metrics").text();
    for line in [
        "tidegate_dependency_concurrency{dependency=\"recs\"} 2",
        "tidegate_dependency_refused_total{dependency=\"recs\",class=\"anonymous\",reason=\"queue_time\"} 1",
        "tidegate_dependency_calls_total{dependency=\"recs\",outcome=\"in_time\"} 3",
        "tidegate_breaker_lets{dependency=\"recs\",lets=\"calls\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    // The application's own metrics know nothing of it.
    assert!(!metrics.contains("app=\"recs\""), "{metrics}");
}

#[test]
fn a_reserve_is_for_its_class_alone() {
    let backend = Backend::start();
    let site = Site::start(
        &backend,
        "concurrency = 2\nwait = \"0s\"\ntimeout = \"1m\"\n[dependency.reserve.critical]\nslots = 1\n",
    );
    let egress = site.egress;
    let held = thread::spawn(move || get(egress, "/hold"));
    backend.wait_for_arrival();

    assert_eq!(reason(&site.call("/", &[])), (503, "queue_full"));
    let critical = site.call("/", &[("tidegate-class", "CRITICAL_PLUS")]);

    assert_eq!(critical.status, 200);
    backend.release();
    held.join().unwrap();
}

#[test]
fn a_rate_lets_its_burst_through_and_says_when_there_is_more() {
    let backend = Backend::start();
    let site = Site::start(&backend, "concurrency = 4\nrate = \"5/day\"\n");

    let answers: Vec<Answer> = (0..8).map(|_| site.call("/", &[])).collect();

    let passed = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(passed, 5);
    assert_eq!(reason(&answers[7]), (429, "rate_limited"));
    let wait: u64 = answers[7].header("retry-after").unwrap().parse().unwrap();
    assert!((17_000..=17_280).contains(&wait), "{wait}");
}

#[test]
fn what_is_refused_costs_no_token() {
    let backend = Backend::start();
    let site = Site::start(
        &backend,
        "concurrency = 1\nwait = \"0s\"\nrate = \"3/day\"\ntimeout = \"1m\"\n",
    );
    let egress = site.egress;
    let held = thread::spawn(move || get(egress, "/hold"));
    backend.wait_for_arrival();

    for _ in 0..9 {
        assert_eq!(reason(&site.call("/", &[])), (503, "queue_full"));
    }
    backend.release();
    held.join().unwrap();

    let statuses: Vec<u16> = (0..3).map(|_| site.call("/", &[]).status).collect();
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn a_deadline_that_is_past_is_refused_and_one_that_passes_ends_the_wait() {
    let backend = Backend::start();
    let site = Site::start(&backend, "concurrency = 4\ntimeout = \"1m\"\n");

    let late = site.call("/", &[("tidegate-timeout-ms", "0")]);
    assert_eq!(reason(&late), (503, "expired"));

    let cut = site.call("/hold", &[("tidegate-timeout-ms", "50")]);
    assert_eq!(reason(&cut), (504, "upstream_timeout"));
    // Whoever works on it goes on, and is counted as long as they do.
    assert_eq!(site.number("/in_flight"), 1);
    backend.release();
    site.until(|status| status["in_flight"] == 0);
}

#[test]
fn a_dependency_that_does_not_answer_is_not_called_until_it_does() {
    let backend = Backend::start();
    let site = Site::start(
        &backend,
        "concurrency = 8\ntimeout = \"100ms\"\nbreaker_failures = 3\nbreaker_pause = \"200ms\"\n\
         breaker_pause_max = \"200ms\"\n",
    );

    for _ in 0..3 {
        assert_eq!(reason(&site.call("/hold", &[])), (504, "upstream_timeout"));
    }
    let begun = Instant::now();
    let refused = site.call("/hold", &[]);

    assert_eq!(reason(&refused), (503, "breaker"), "{refused:?}");
    assert!(refused.header("retry-after").is_some());
    assert!(
        begun.elapsed() < Duration::from_millis(100),
        "no call was made"
    );
    assert_eq!(site.status()["breaker_lets"], "nothing");
    let metrics = get(site.tidegate.admin, "/metrics").text();
    let trips = "tidegate_breaker_trips_total{dependency=\"recs\",by=\"in-a-row\"} 1";
    assert!(metrics.contains(trips), "{metrics}");

    backend.release();
    let begun = Instant::now();
    while site.call("/", &[]).status != 200 {
        assert!(begun.elapsed() < PATIENCE);
        thread::park_timeout(Duration::from_millis(10));
    }
    while site.status()["breaker_lets"] != "calls" {
        assert!(begun.elapsed() < PATIENCE);
        site.call("/", &[]);
    }
}

#[test]
fn with_nobody_there_calls_fail_at_once_and_then_are_not_made() {
    let backend = Backend::start();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let site = Site::before(
        backend.address,
        address,
        "concurrency = 4\nrate = \"100/day\"\n",
    );

    for _ in 0..5 {
        assert_eq!(reason(&site.call("/", &[])), (502, "upstream_connect"));
    }

    assert_eq!(reason(&site.call("/", &[])), (503, "breaker"));
    // And the application behind the same gateway is as it was.
    assert_eq!(get(site.tidegate.clients, "/").status, 200);
}

#[test]
fn a_dependency_is_called_over_a_socket_too() {
    use std::io::{BufReader, Write};
    use std::os::unix::net::UnixStream;

    let (directory, backend) = (TempDir::new(), Backend::start());
    let address = backend.address;
    let socket = directory.path().join("recs.sock");
    let configuration = format!(
        "[[app]]\nupstream = \"http://{address}\"\nworkers = 2\n\
         [[dependency]]\nname = \"recs\"\nurl = \"http://{address}\"\nconcurrency = 1\nlisten = \"unix:{}\"\n",
        socket.display()
    );
    let tidegate = Tidegate::start(&directory, &configuration);

    let mut stream = UnixStream::connect(&socket).unwrap();
    stream
        .write_all(b"GET /over HTTP/1.1\r\nhost: recs\r\nconnection: close\r\n\r\n")
        .unwrap();
    let answer = crate::client::read_answer(&mut BufReader::new(stream), "GET");

    assert!(answer.text().starts_with("GET /over"), "{answer:?}");
    tidegate.terminate();
    assert!(tidegate.wait().success());
    assert!(!socket.exists());
}

#[test]
fn an_application_that_does_not_answer_is_left_alone_where_that_is_asked_for() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let address = backend.address;
    let configuration = format!(
        "[[app]]\nname = \"shop\"\nupstream = \"http://{address}\"\nworkers = 8\nbreaker = true\n\
         response_timeout = \"50ms\"\n"
    );
    let tidegate = Tidegate::start(&directory, &configuration);

    for _ in 0..5 {
        let hung = get(tidegate.clients, "/hold");
        assert_eq!(reason(&hung), (504, "upstream_timeout"));
    }
    let refused = get(tidegate.clients, "/");
    assert_eq!(reason(&refused), (503, "breaker"));

    backend.release();
    let begun = Instant::now();
    while get(tidegate.clients, "/").status != 200 {
        assert!(begun.elapsed() < PATIENCE);
        thread::park_timeout(Duration::from_millis(20));
    }
}

/// A gateway with a sidecar at a socket, and no sessions.
struct Beside {
    tidegate: Tidegate,
    directory: TempDir,
}

impl Beside {
    fn start(keys: &str) -> Self {
        let (directory, backend) = (TempDir::new(), Backend::start());
        let socket = directory.path().join("side.sock");
        let configuration = format!(
            "[[app]]\nupstream = \"http://{}\"\nworkers = 2\n[sidecar]\nlisten = \"unix:{}\"\n\
             [[dependency]]\nname = \"db\"\n{keys}",
            backend.address,
            socket.display()
        );
        let tidegate = Tidegate::start(&directory, &configuration);
        Self {
            tidegate,
            directory,
        }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let socket = self.directory.path().join("side.sock");
        ask_socket(&socket, method, path, body)
    }

    /// A permit's answer, and what is in it.
    fn acquire(&self, more: &str) -> (u16, Value) {
        let answer = self.ask(
            "POST",
            "/v1/permits",
            &format!("{{\"dependency\": \"db\"{more}}}"),
        );
        // The gateway opens the door a moment after the sidecar is there.
        if answer.status == 503 && answer.text().contains("starting") {
            return self.acquire(more);
        }
        (answer.status, serde_json::from_str(&answer.text()).unwrap())
    }

    fn release(&self, permit: &Value, outcome: &str) -> u16 {
        let permit = permit["permit"].as_str().unwrap();
        self.ask("DELETE", &format!("/v1/permits/{permit}{outcome}"), "")
            .status
    }

    fn status(&self) -> Value {
        let status = get(self.tidegate.admin, "/status.json").text();
        let status: Value = serde_json::from_str(&status).unwrap();
        status["dependencies"][0].clone()
    }
}

#[test]
fn permits_are_given_while_there_are_some_and_back_when_they_are_released() {
    let site = Beside::start("concurrency = 2\nwait = \"0s\"\n");

    let (status, first) = site.acquire("");
    assert_eq!(status, 201, "{first}");
    assert_eq!(
        (&first["lease_ms"], &first["hold_ms"]),
        (&5000.into(), &60_000.into())
    );
    let (_, second) = site.acquire(", \"class\": \"critical\"");
    assert!(second["fence"].as_u64() > first["fence"].as_u64());
    let (status, refused) = site.acquire("");
    assert_eq!((status, &refused["reason"]), (503, &"queue_full".into()));
    assert_eq!(site.status()["permits"], 2);
    let name = first["permit"].as_str().unwrap();
    let other = Value::from(name.replace('-', "-0"));
    assert_eq!(
        site.release(&serde_json::json!({ "permit": other }), ""),
        404
    );

    assert_eq!(site.release(&first, "?outcome=ok"), 204);
    assert_eq!(
        site.release(&first, "?outcome=ok"),
        404,
        "it is back already"
    );
    assert_eq!(site.acquire("").0, 201);
    assert_eq!(site.status()["calls"]["in_time"], 1);
}

#[test]
fn weights_are_given_whole_and_never_more_than_there_are() {
    let site = Beside::start("concurrency = 5\n");

    let (status, three) = site.acquire(", \"weight\": 3");
    assert_eq!(status, 201);
    assert_eq!(site.status()["in_flight"], 3);
    let (status, refused) = site.acquire(", \"weight\": 3");
    assert_eq!((status, &refused["reason"]), (503, &"queue_full".into()));
    assert_eq!(site.status()["in_flight"], 3);
    assert_eq!(site.acquire(", \"weight\": 2").0, 201);
    let (status, never) = site.acquire(", \"weight\": 6");
    assert_eq!((status, &never["field"]), (400, &"weight".into()));

    assert_eq!(site.release(&three, ""), 204);
    assert_eq!(site.status()["in_flight"], 2);
    assert_eq!(site.acquire(", \"weight\": 3").0, 201);
}

#[test]
fn a_weight_that_a_class_can_never_have_is_answered_with_the_most_that_it_can() {
    let site = Beside::start("concurrency = 5\n[dependency.reserve.critical]\nslots = 2\n");

    for (class, most) in [("anonymous", 3), ("critical", 5)] {
        let weighing = |weight| format!(", \"class\": \"{class}\", \"weight\": {weight}");
        let (status, never) = site.acquire(&weighing(most + 1));
        assert_eq!(
            (status, &never["field"]),
            (400, &"weight".into()),
            "{never}"
        );
        let detail = never["detail"].as_str().unwrap();
        let says = format!("class {class} never get more than {most}");
        assert!(detail.contains(&says), "{detail}");

        let (status, held) = site.acquire(&weighing(most));
        assert_eq!(status, 201, "{held}");
        assert_eq!(site.release(&held, ""), 204);
    }
}

#[test]
fn a_permit_of_a_dead_holder_is_back_after_its_lease_and_a_renewed_one_is_kept() {
    let site = Beside::start("concurrency = 2\nwait = \"0s\"\nlease = \"300ms\"\n");
    let begun = Instant::now();
    let (_, kept) = site.acquire("");
    let (_, dead) = site.acquire("");
    let renew = format!("/v1/permits/{}/renew", kept["permit"].as_str().unwrap());

    // One is renewed for four leases, the other is left to itself.
    let mut back = None;
    while begun.elapsed() < Duration::from_millis(1200) {
        let renewed = site.ask("POST", &renew, "");
        assert_eq!(renewed.status, 200, "{}", renewed.text());
        if back.is_none() && site.status()["permits"] == 1 {
            back = Some(begun.elapsed());
        }
        thread::park_timeout(Duration::from_millis(20));
    }

    assert!(
        back.is_some_and(|back| back >= Duration::from_millis(300)),
        "{back:?}"
    );
    assert_eq!(site.status()["permits_lapsed"], 1);
    assert_eq!(site.release(&dead, "?outcome=ok"), 404);
    assert_eq!(site.acquire("").0, 201);
    assert_eq!(site.release(&kept, "?outcome=ok"), 204);
}

#[test]
fn what_became_of_calls_trips_the_breaker() {
    let site = Beside::start(
        "concurrency = 9\nbreaker_failures = 3\nbreaker_pause = \"30s\"\nbreaker_pause_max = \"30s\"\n",
    );

    for outcome in ["failed", "timeout", "failed"] {
        let (_, permit) = site.acquire("");
        assert_eq!(site.release(&permit, &format!("?outcome={outcome}")), 204);
    }
    let (status, refused) = site.acquire("");

    assert_eq!((status, &refused["reason"]), (503, &"breaker".into()));
    assert_eq!(site.status()["breaker_lets"], "nothing");
}

#[test]
fn what_makes_no_sense_is_said_with_its_field() {
    let site = Beside::start("concurrency = 2\n");
    site.acquire("");

    for (body, field) in [
        ("{}", "dependency"),
        ("{\"dependency\": \"db\", \"weight\": 0}", "weight"),
        ("{\"dependency\": \"db\", \"class\": \"best\"}", "class"),
        ("{\"dependency\": \"db\", \"hold_ms\": 0}", "hold_ms"),
        ("{\"dependency\": \"db\", \"wait\": 1}", "wait"),
        (
            "{\"dependency\": \"db\", \"weight\": 1, \"weight\": 2}",
            "weight",
        ),
    ] {
        let answer = site.ask("POST", "/v1/permits", body);
        let said: Value = serde_json::from_str(&answer.text()).unwrap();
        assert_eq!(
            (answer.status, said["field"].as_str()),
            (400, Some(field)),
            "{said}"
        );
    }
    let unknown = site.ask("POST", "/v1/permits", "{\"dependency\": \"nothing\"}");
    assert_eq!(unknown.status, 404);
    let sessions = site.ask("POST", "/v1/sessions", "");
    assert_eq!(sessions.status, 404);
    assert!(
        sessions.text().contains("no_sessions"),
        "{}",
        sessions.text()
    );
    let late = site.ask(
        "POST",
        "/v1/permits",
        "{\"dependency\": \"db\", \"timeout_ms\": 0}",
    );
    assert!(late.text().contains("expired"), "{}", late.text());
}

#[test]
fn a_route_that_calls_a_dependency_holds_some_of_it_and_no_other_route_does() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let configuration = format!(
        "[[app]]\nname = \"shop\"\nupstream = \"http://{}\"\nworkers = 8\n\
         [[app.route]]\nname = \"recommend\"\npath = \"/hold\"\ndependency = [\"recs\"]\n\
         [[dependency]]\nname = \"recs\"\nconcurrency = 1\n",
        backend.address
    );
    let tidegate = Tidegate::start(&directory, &configuration);
    let clients = tidegate.clients;
    let held = thread::spawn(move || get(clients, "/hold"));
    backend.wait_for_arrival();

    let refused = get(tidegate.clients, "/hold");

    assert_eq!(reason(&refused), (503, "dependency_full"));
    assert_eq!(get(tidegate.clients, "/").status, 200);
    backend.release();
    assert_eq!(held.join().unwrap().text(), "released");
    assert_eq!(get(tidegate.clients, "/hold").status, 200);
}

#[test]
fn a_route_spends_of_the_rate_of_what_it_calls() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let configuration = format!(
        "[[app]]\nname = \"shop\"\nupstream = \"http://{}\"\nworkers = 8\n\
         [[app.route]]\nname = \"recommend\"\npath = \"/r\"\ndependency = [\"recs\"]\n\
         [[dependency]]\nname = \"recs\"\nconcurrency = 9\nrate = \"3/day\"\n",
        backend.address
    );
    let tidegate = Tidegate::start(&directory, &configuration);

    let answers: Vec<Answer> = (0..4).map(|_| get(tidegate.clients, "/r")).collect();

    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 200, 503]);
    assert_eq!(reason(&answers[3]), (503, "dependency_rate"));
}

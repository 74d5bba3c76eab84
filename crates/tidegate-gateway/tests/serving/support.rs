//! An application that can be held, a gateway in front of it, and a client that speaks bytes.

#![expect(
    clippy::unwrap_used,
    reason = "what fails here fails the test that asked for it"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use tidegate_core::admission::Config;
use tidegate_core::bulkhead::Bulkheads;
use tidegate_core::facts::GroupId;
use tidegate_core::limit::Kind;
use tidegate_core::queue::Discipline;
use tidegate_gateway::Gateway;
use tidegate_gateway::dependency::{DependencyPlan, EgressPlan, PermitPlan};
use tidegate_gateway::plan::{
    AppPlan, DrainPlan, ListenerPlan, Matcher, Mode, OnClientGone, PathPattern, Plan, ProbePlan,
    RoutePlan, UpstreamPlan,
};
use tidegate_gateway::rate::RatePlan;
use tidegate_http::local::Listen;

/// How long a test waits for what must come; far more than it takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// An application. Requests for `/hold` are answered once it is released, those for `/large` with
/// more than all buffers on the way can take. All heads are kept.
pub(crate) struct App {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    heads: Mutex<Vec<String>>,
    arrived: Condvar,
    released: Mutex<bool>,
    release: Condvar,
}

/// One connection to the gateway.
pub(crate) struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// An answer as it came.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl App {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        // The thread ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.unwrap(), Arc::clone(&shared));
                thread::spawn(move || state.serve(stream));
            }
        });
        Self { address, state }
    }

    /// Lets all requests for `/hold` go on.
    pub(crate) fn release(&self) {
        *self.state.released.lock().unwrap() = true;
        self.state.release.notify_all();
    }

    /// Waits until `count` requests have arrived.
    pub(crate) fn wait_for_requests(&self, count: usize) {
        let heads = self.state.heads.lock().unwrap();
        let (_heads, outcome) = self
            .state
            .arrived
            .wait_timeout_while(heads, PATIENCE, |heads| heads.len() < count)
            .unwrap();
        assert!(!outcome.timed_out(), "no {count} requests came");
    }

    /// The heads of all requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.state.heads.lock().unwrap().clone()
    }
}

impl State {
    fn serve(&self, stream: TcpStream) {
        let mut client = Client {
            stream,
            unread: Vec::new(),
        };
        while let Some(head) = client.read_head() {
            if head
                .to_ascii_lowercase()
                .contains("transfer-encoding: chunked")
            {
                // Bodies in these tests have no empty line before their end.
                client.read_head();
            } else {
                client.read_bytes(length_of(&head));
            }
            let hold = head.starts_with("GET /hold");
            let large = head.starts_with("GET /large");
            self.heads.lock().unwrap().push(head);
            self.arrived.notify_all();
            if hold {
                let released = self.released.lock().unwrap();
                drop(
                    self.release
                        .wait_while(released, |released| !*released)
                        .unwrap(),
                );
            }
            if large {
                client.send_large();
                return;
            }
            if client
                .try_send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
                .is_err()
            {
                return;
            }
        }
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.release();
    }
}

impl Client {
    pub(crate) fn connect(gateway: &Gateway) -> Self {
        Self::connect_to(gateway.address())
    }

    pub(crate) fn connect_to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: &str) {
        self.try_send(bytes).unwrap();
    }

    pub(crate) fn try_send(&mut self, bytes: &str) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_bytes())
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n"));
        self.answer()
    }

    /// The answer, if there is one before the connection ends.
    pub(crate) fn try_get(&mut self, path: &str) -> Option<Answer> {
        self.try_send(&format!("GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n"))
            .ok()?;
        let head = self.read_head()?;
        Some(self.read_answer(head))
    }

    /// The next answer; its length must be stated.
    pub(crate) fn answer(&mut self) -> Answer {
        let head = self.read_head().expect("an answer");
        self.read_answer(head)
    }

    fn read_answer(&mut self, head: String) -> Answer {
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = length_of(&head);
        let body = String::from_utf8(self.read_bytes(length)).unwrap();
        Answer { status, head, body }
    }

    /// Whether the other side ends the connection with nothing more to say.
    pub(crate) fn is_closed(&mut self) -> bool {
        if !self.unread.is_empty() {
            return false;
        }
        match self.stream.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => true,
            Err(error) => panic!("neither closed nor spoken to: {error}"),
        }
    }

    /// Sends an answer of 256 MiB, or as much of it as the other side takes.
    fn send_large(&mut self) {
        let piece = "x".repeat(1024 * 1024);
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
            256 * piece.len()
        );
        let pieces = std::iter::once(head.as_str()).chain(std::iter::repeat_n(piece.as_str(), 256));
        for piece in pieces {
            if self.try_send(piece).is_err() {
                return;
            }
        }
    }

    fn read_head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = self.unread.drain(..end + 4).collect();
                return Some(String::from_utf8(head).unwrap());
            }
            if self.read_more() == 0 {
                return None;
            }
        }
    }

    fn read_bytes(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count {
            assert!(self.read_more() > 0, "the body ends early");
        }
        self.unread.drain(..count).collect()
    }

    fn read_more(&mut self) -> usize {
        let mut buffer = [0; 4096];
        let count = self.stream.read(&mut buffer).unwrap_or(0);
        self.unread.extend_from_slice(&buffer[..count]);
        count
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

fn length_of(head: &str) -> usize {
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(0, |(_, value)| value.trim().parse().unwrap())
}

/// A plan for `app` in which no bound is near.
pub(crate) fn plan(app: &App) -> Plan {
    Plan {
        threads: NonZeroUsize::new(2).unwrap(),
        listener: ListenerPlan {
            address: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            connections_max: count(1_000),
            connections_per_client_max: None,
            head_bytes_max: 16 * 1024,
            headers_max: 100,
            head_timeout: PATIENCE,
            keep_alive_timeout: PATIENCE,
            body_timeout: PATIENCE,
            write_timeout: PATIENCE,
            half_close: false,
        },
        admin: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        trusted: Vec::new(),
        probes: ProbePlan {
            networks: Vec::new(),
            connections_reserved: count(10),
            paths: vec!["/health".to_owned()],
            overflow_connections_max: count(2),
        },
        drain: DrainPlan {
            delay: Duration::ZERO,
            timeout: PATIENCE,
        },
        apps: vec![shop(app.address)],
        dependencies: Vec::new(),
        rooms: Vec::new(),
        rates: RatePlan::default(),
        reports_load: false,
    }
}

/// The same, and `app` is also what it may call as a dependency, through a listener of the gateway.
pub(crate) fn plan_with_egress(app: &App) -> Plan {
    let mut plan = plan(app);
    plan.dependencies.push(DependencyPlan {
        app: AppPlan {
            name: "recs".to_owned(),
            ..shop(app.address)
        },
        egress: Some(EgressPlan {
            listen: Listen::Loopback(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            connections_max: 100,
        }),
        rate: None,
        wait_max: Duration::ZERO,
        permits: PermitPlan {
            lease: PATIENCE,
            hold_max: PATIENCE,
        },
        fleet: None,
        follows: None,
    });
    plan
}

/// Where a gateway with such a plan takes requests of clients, and calls.
pub(crate) fn listeners(gateway: &Gateway) -> [SocketAddr; 2] {
    match gateway.egresses().next() {
        Some((_, &Listen::Loopback(egress))) => [gateway.address(), egress],
        other => panic!("it listens elsewhere: {other:?}"),
    }
}

pub(crate) fn count(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap()
}

fn shop(address: SocketAddr) -> AppPlan {
    AppPlan {
        name: "shop".to_owned(),
        hosts: Vec::new(),
        path_prefix: "/".to_owned(),
        upstream: UpstreamPlan {
            host: address.ip().to_string(),
            port: address.port(),
            connections_max: count(64),
            keep_alive: true,
            idle_timeout: PATIENCE,
            connect_timeout: PATIENCE,
            response_timeout: PATIENCE,
            body_timeout: PATIENCE,
            response_buffer_max: 256 * 1024,
            response_buffers_max: 64 * 1024 * 1024,
        },
        breaker: None,
        mode: Mode::Enforce,
        on_client_gone: OnClientGone::Hold,
        limit: Kind::Static(count(32)),
        journal: None,
        warm_start: None,
        admission: Config {
            hold: Duration::from_secs(10),
            queue_max: 100,
            queue_bytes_max: 1024 * 1024,
            discipline: Discipline::Fifo,
            bulkheads: Bulkheads::default(),
            routes: 1,
            escape: false,
            level: false,
        },
        routes: vec![RoutePlan {
            name: "other".to_owned(),
            matches: Matcher {
                methods: Vec::new(),
                paths: vec![PathPattern::parse("/**").unwrap()],
                headers: Vec::new(),
            },
            class: None,
            group: GroupId(0),
            patience: PATIENCE,
            session: tidegate_gateway::session::RouteSession::default(),
            dependencies: Vec::new(),
            room: None,
        }],
        groups: Vec::new(),
        session_cookies: Vec::new(),
        sessions: None,
        static_extensions: Vec::new(),
    }
}

/// The page at `path` of the gateway's admin listener.
pub(crate) fn admin_page(gateway: &Gateway, path: &str) -> Answer {
    let mut client = Client::connect_to(gateway.admin_address().unwrap());
    client.send(&format!(
        "GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n"
    ));
    client.answer()
}

/// The metric that has this name and these labels, written as on the page.
pub(crate) fn metric(gateway: &Gateway, series: &str) -> f64 {
    let page = admin_page(gateway, "/metrics").body;
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{page}"))
        .parse()
        .unwrap()
}

/// Waits until `series` is at least `value`.
pub(crate) fn wait_for_metric(gateway: &Gateway, series: &str, value: f64) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while metric(gateway, series) < value {
        assert!(
            std::time::Instant::now() < deadline,
            "{series} stays below {value}"
        );
        thread::yield_now();
    }
}

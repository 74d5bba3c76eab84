//! A sidecar with a store of its own, and a client.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::HeaderValue;
use serde_json::Value;
use tidegate_core::session::{SessionId, SlotTag};
use tidegate_fleet::{Listen, Mint, Minted, PermitDoor, Sidecar, SidecarError, SidecarPlan};
use tidegate_lab::peers::RedisServer;
use tidegate_store::desk::{Backend, Desk, DeskPlan};
use tidegate_store::redis::{Address, Arrangement, RedisPlan};

/// Longest wait for anything that is expected to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A running sidecar. Dropping it stops it.
pub(crate) struct Site {
    pub(crate) sidecar: Sidecar,
    pub(crate) socket: PathBuf,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

/// A path in a folder that every test has to itself.
pub(crate) fn socket() -> PathBuf {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("tg-sidecar-{}-{number}.sock", std::process::id());
    std::env::temp_dir().join(name)
}

/// A plan on a socket of its own.
pub(crate) fn plan() -> SidecarPlan {
    SidecarPlan {
        listen: Listen::Socket(socket()),
        connections_max: 64,
        requests_max: 32,
        body_bytes_max: 2 * 1024 * 1024,
        timeout: Duration::from_secs(10),
    }
}

/// Starts `plan` over a fresh store.
pub(crate) fn start(plan: SidecarPlan) -> Result<Sidecar, SidecarError> {
    start_over(plan, DeskPlan::default())
}

fn start_over(plan: SidecarPlan, desk: DeskPlan) -> Result<Sidecar, SidecarError> {
    let desk = Desk::start(desk).unwrap();
    let mint = Mint::new(|tag| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let tag = tag.unwrap_or_else(|| SlotTag::from_bits(u32::try_from(number).unwrap()));
        let hash = format!("{number:022}").into_bytes().try_into().unwrap();
        Minted {
            id: SessionId::new(tag, hash).unwrap(),
            set_cookie: HeaderValue::try_from(format!("tg={number}")).unwrap(),
            successor: number.to_string().into_bytes(),
        }
    });
    Sidecar::start(plan, Some((desk, mint)), PermitDoor::default(), None)
}

impl Site {
    /// A sidecar on a socket.
    pub(crate) fn new() -> Self {
        Self::with(plan())
    }

    /// A sidecar with `plan`, which is about a socket.
    pub(crate) fn with(plan: SidecarPlan) -> Self {
        let Listen::Socket(socket) = plan.listen.clone() else {
            panic!("a socket")
        };
        Self {
            sidecar: start(plan).unwrap(),
            socket,
        }
    }

    /// A sidecar over Redis, with a patience that no machine is too busy for.
    pub(crate) fn on_redis(plan: SidecarPlan, server: &RedisServer) -> Self {
        let Listen::Socket(socket) = plan.listen.clone() else {
            panic!("a socket")
        };
        let address = Address::parse(&server.address().to_string()).unwrap();
        let mut redis = RedisPlan::usual(Arrangement::Standalone(address));
        redis.operation_timeout = PATIENCE;
        let desk = DeskPlan {
            backend: Backend::Redis(redis),
            operation: PATIENCE,
            ..DeskPlan::default()
        };
        let sidecar = start_over(plan, desk).unwrap();
        let site = Self { sidecar, socket };
        wait_until("the store", || {
            let made = site.ask("POST", "/v1/sessions", "");
            made.status == 201 && made.json()["state"] == "ok"
        });
        site
    }

    /// Sends a request with JSON, or without a body.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        self.ask_with(method, path, &[], body)
    }

    /// The same with more headers.
    pub(crate) fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let has_kind = headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if !body.is_empty() && !has_kind {
            request += "Content-Type: application/json\r\n";
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        self.send(request.as_bytes())
    }

    /// Sends bytes and reads the answer to its end.
    pub(crate) fn send(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        read(stream)
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A session of nobody.
    pub(crate) fn session(&self) -> String {
        let made = self.ask("POST", "/v1/sessions", "");
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["session"].as_str().unwrap().to_owned()
    }

    /// A session of `uid`.
    pub(crate) fn session_of(&self, uid: &str) -> String {
        let made = self.ask("POST", "/v1/sessions", &format!("{{\"uid\":\"{uid}\"}}"));
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["session"].as_str().unwrap().to_owned()
    }

    /// Changes a session, which must go well.
    pub(crate) fn patch(&self, session: &str, ops: &str) -> Value {
        let body = format!("{{\"ops\":[{ops}]}}");
        let answer = self.ask("PATCH", &format!("/v1/sessions/{session}"), &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (its, value) = line.split_once(':')?;
            its.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

/// Sends a request to a loopback address, with exactly these headers.
pub(crate) fn ask_loopback(listen: &Listen, request: &str) -> Answer {
    let Listen::Loopback(address) = listen else {
        panic!("an address")
    };
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    read(stream)
}

/// The answer on `stream`.
pub(crate) fn read(mut stream: impl Read) -> Answer {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        // What was answered before it was read to its end is cut off behind the answer.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        ended => drop(ended.unwrap()),
    }
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(&bytes)));
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head,
        body: bytes[end + 4..].to_vec(),
    }
}

/// Waits until `holds`.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

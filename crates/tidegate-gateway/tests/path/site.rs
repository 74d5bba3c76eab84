//! The gateway in front of the application that the test plays.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate_core::admission::{self, Snapshot};
use tidegate_core::bulkhead::Bulkheads;
use tidegate_core::facts::GroupId;
use tidegate_core::limit;
use tidegate_core::queue::Discipline;
use tidegate_gateway::context::{Conn, Shared, Thread};
use tidegate_gateway::framing::Framing;
use tidegate_gateway::plan::{
    AppPlan, DrainPlan, ListenerPlan, Matcher, Mode, OnClientGone, PathPattern, Plan, ProbePlan,
    RoutePlan, UpstreamPlan,
};
use tidegate_gateway::request;
use tidegate_gateway::upstream::Connections;
use tokio::net::TcpListener;

use crate::app::App;
use crate::client::Client;
use crate::eventually;

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A running gateway.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

/// A plan for one application with `workers` slots.
pub(crate) fn plan(app: &App, workers: u32) -> Plan {
    let route = RoutePlan {
        name: "other".into(),
        matches: Matcher {
            methods: Vec::new(),
            paths: vec![PathPattern::parse("/**").unwrap()],
            headers: Vec::new(),
        },
        class: None,
        group: GroupId(0),
        patience: LONG,
    };
    let app = AppPlan {
        name: "shop".into(),
        hosts: Vec::new(),
        path_prefix: "/".into(),
        upstream: UpstreamPlan {
            host: "127.0.0.1".into(),
            port: app.address().port(),
            connections_max: NonZeroU32::new(100).unwrap(),
            keep_alive: true,
            idle_timeout: LONG,
            connect_timeout: LONG,
            response_timeout: LONG,
            body_timeout: LONG,
            response_buffer_max: 256 * 1024,
            response_buffers_max: 1024 * 1024,
        },
        mode: Mode::Enforce,
        on_client_gone: OnClientGone::Hold,
        limit: limit::Kind::Static(NonZeroU32::new(workers).unwrap()),
        admission: admission::Config {
            hold: LONG,
            queue_max: 10,
            queue_bytes_max: 1024 * 1024,
            discipline: Discipline::Fifo,
            bulkheads: Bulkheads::default(),
            routes: 1,
        },
        routes: vec![route],
        groups: Vec::new(),
        session_cookies: Vec::new(),
        static_extensions: Vec::new(),
    };
    Plan {
        threads: NonZeroUsize::MIN,
        listener: ListenerPlan {
            address: "127.0.0.1:0".parse().unwrap(),
            connections_max: NonZeroU32::new(1000).unwrap(),
            connections_per_client_max: None,
            head_bytes_max: 16 * 1024,
            headers_max: 100,
            head_timeout: LONG,
            keep_alive_timeout: LONG,
            body_timeout: LONG,
            write_timeout: LONG,
            half_close: false,
        },
        admin: None,
        trusted: Vec::new(),
        probes: ProbePlan {
            networks: Vec::new(),
            connections_reserved: NonZeroU32::MIN,
            paths: Vec::new(),
            overflow_connections_max: NonZeroU32::MIN,
        },
        drain: DrainPlan {
            delay: Duration::ZERO,
            timeout: Duration::ZERO,
        },
        apps: vec![app],
    }
}

impl Site {
    pub(crate) async fn start(plan: Plan) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::new(plan, 1));
        let runtime = tokio::runtime::Handle::current();
        let thread = Arc::new(Thread::new(0, Arc::clone(&shared), runtime, 1));
        tokio::spawn(async move {
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                let (framing, log) = Framing::new(16 * 1024);
                let framing = Mutex::new(framing);
                let conn = Arc::new(Conn::new(peer, log));
                let thread = Arc::clone(&thread);
                let service = service_fn(move |request| {
                    // One good head for every request; what is bad is tested where it is judged.
                    let head = b"GET / HTTP/1.1\r\nhost: shop\r\n\r\n";
                    framing.lock().unwrap().scan(head);
                    let (thread, conn) = (Arc::clone(&thread), Arc::clone(&conn));
                    async move { Ok::<_, Infallible>(request::handle(&thread, &conn, request).await) }
                });
                let io = TokioIo::new(stream);
                tokio::spawn(http1::Builder::new().serve_connection(io, service));
            }
        });
        Self { address, shared }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    pub(crate) fn gate(&self) -> Snapshot {
        self.shared.apps[0].gate.snapshot()
    }

    pub(crate) fn connections(&self) -> Connections {
        self.shared.apps[0].upstream.connections()
    }

    /// Waits until this many requests are inside the application and in the queue.
    pub(crate) async fn settles_at(&self, in_flight: u32, queued: u32) {
        eventually(|| {
            let gate = self.gate();
            (gate.in_flight, gate.queued) == (in_flight, queued)
        })
        .await;
    }
}

//! The gateway in front of the application that the test plays.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::admission;
use tidegate_core::bulkhead::Bulkheads;
use tidegate_core::facts::GroupId;
use tidegate_core::limit;
use tidegate_core::queue::Discipline;
use tidegate_core::session::Name;
use tidegate_gateway::Gateway;
use tidegate_gateway::plan::{
    AppPlan, DrainPlan, ListenerPlan, Matcher, Mode, OnClientGone, PathPattern, Plan, ProbePlan,
    RoutePlan, UpstreamPlan,
};
use tidegate_gateway::rate::RatePlan;
use tidegate_gateway::room::{RoomPlan, RoomStoreAt};
use tidegate_gateway::session::SessionPlan;
use tidegate_gateway::status::AppStatus;
use tidegate_store::desk::{Desk, DeskPlan};
use tidegate_store::embedded::{Embedded, EmbeddedPlan};
use tidegate_store::rooms::{RoomStore, RoomTable};
use tidegate_store::{Background, Node};

use crate::app::App;
use crate::client::Client;
use crate::eventually;

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A running gateway.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    gateway: Gateway,
    desk: Option<Desk>,
}

/// A plan for one application with `workers` slots.
pub(crate) fn plan(app: &App, workers: u32) -> Plan {
    plan_for(app.address(), workers)
}

/// The same for an application at `address`.
pub(crate) fn plan_for(address: SocketAddr, workers: u32) -> Plan {
    Plan {
        threads: NonZeroUsize::MIN,
        listener: ListenerPlan {
            address: Some("127.0.0.1:0".parse().unwrap()),
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
        apps: vec![app_plan(address, workers)],
        dependencies: Vec::new(),
        rates: RatePlan::default(),
        rooms: Vec::new(),
        reports_load: false,
    }
}

fn app_plan(address: SocketAddr, workers: u32) -> AppPlan {
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
        session: tidegate_gateway::session::RouteSession::default(),
        dependencies: Vec::new(),
        room: None,
    };
    AppPlan {
        name: "shop".into(),
        hosts: Vec::new(),
        path_prefix: "/".into(),
        upstream: UpstreamPlan {
            host: "127.0.0.1".into(),
            port: address.port(),
            connections_max: NonZeroU32::new(100).unwrap(),
            keep_alive: true,
            idle_timeout: LONG,
            connect_timeout: LONG,
            response_timeout: LONG,
            body_timeout: LONG,
            response_buffer_max: 256 * 1024,
            response_buffers_max: 1024 * 1024,
        },
        breaker: None,
        mode: Mode::Enforce,
        on_client_gone: OnClientGone::Hold,
        limit: limit::Kind::Static(NonZeroU32::new(workers).unwrap()),
        journal: None,
        warm_start: None,
        admission: admission::Config {
            hold: LONG,
            queue_max: 10,
            queue_bytes_max: 1024 * 1024,
            discipline: Discipline::Fifo,
            bulkheads: Bulkheads::default(),
            routes: 1,
            escape: false,
            level: false,
        },
        routes: vec![route],
        groups: Vec::new(),
        session_cookies: Vec::new(),
        sessions: None,
        static_extensions: Vec::new(),
    }
}

impl Site {
    pub(crate) fn start(plan: Plan) -> Self {
        Self::of(Gateway::start(plan).unwrap(), None)
    }

    /// The same with sessions, which are kept in this process and nowhere else.
    pub(crate) fn start_with(mut plan: Plan, sessions: SessionPlan) -> Self {
        plan.apps[0].sessions = Some(sessions);
        let desk = Desk::start(DeskPlan::default()).unwrap();
        let gateway = Gateway::start_with(plan, Some(desk.clone()), None, None).unwrap();
        Self::of(gateway, Some(desk))
    }

    /// The same with everything behind a waiting room, which is kept in this process.
    pub(crate) fn start_behind(mut plan: Plan, room: RoomPlan) -> Self {
        plan.apps[0].routes[0].room = Some(0);
        plan.rooms = vec![room];
        let store = Embedded::start(EmbeddedPlan::at(None)).unwrap();
        let at = RoomStoreAt {
            store: RoomStore::Embedded(Arc::new(RoomTable::new(store))),
            background: Background::start().unwrap(),
            node: Node {
                id: Name::new("gw1").unwrap(),
                incarnation: 1,
            },
            leads: true,
        };
        Self::of(
            Gateway::start_with(plan, None, None, Some(at)).unwrap(),
            None,
        )
    }

    fn of(gateway: Gateway, desk: Option<Desk>) -> Self {
        Self {
            address: gateway.address(),
            gateway,
            desk,
        }
    }

    /// How often the store has been asked for a session.
    pub(crate) fn asked(&self) -> u64 {
        let stats = self.desk.as_ref().expect("a site with sessions").stats();
        stats.opened
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    pub(crate) fn status(&self) -> AppStatus {
        self.gateway.status().apps.remove(0)
    }

    /// Waits until this many requests are inside the application and in the queue.
    pub(crate) async fn settles_at(&self, in_flight: u32, queued: u32) {
        eventually(|| {
            let status = self.status();
            (status.in_flight, status.queued) == (in_flight, queued)
        })
        .await;
    }

    /// Waits until the application is idle and checks what its work was worth.
    pub(crate) async fn ends_with(&self, in_time: u64, late: u64, gone: u64) {
        self.settles_at(0, 0).await;
        let status = self.status();
        let count = |outcome| {
            status
                .classes
                .values()
                .map(|class| class.completions[outcome])
                .sum()
        };
        let counts: [u64; 3] = ["in_time", "late", "gone"].map(count);
        assert_eq!(counts, [in_time, late, gone], "in time, late, gone");
    }

    /// How many requests were refused for `reason`.
    pub(crate) fn refused(&self, reason: &str) -> u64 {
        let classes = self.status().classes;
        classes
            .values()
            .filter_map(|class| class.refused.get(reason))
            .sum()
    }
}

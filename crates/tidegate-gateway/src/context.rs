//! What a request finds around it: the process, its thread, its connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tidegate_core::rng::Rng;
use tidegate_core::session::Fields;
use tidegate_core::time::{Mono, Wall};
use tidegate_http::verdict::Board;
use tidegate_store::desk::Desk;
use tokio::runtime::Handle;

use crate::breaker::CallBreaker;
use crate::cohort::Cohorts;
use crate::dependency::fleet::Fleet;
use crate::dependency::{Dependency, Held};
use crate::forward::Origin;
use crate::gate::Gate;
use crate::health::Health;
use crate::heard::Heard;
use crate::metrics::{Place, Recorder};
use crate::plan::{AppPlan, Plan};
use crate::rate::{Rates, Sharing};
use crate::room::Hall;
use crate::upstream::Upstream;
use tidegate_http::framing::FramingLog;

/// What all threads of a gateway share.
pub struct Shared {
    /// What to run.
    pub plan: Plan,
    /// The applications, in the plan's order, and after them the dependencies, which have a door, too.
    pub apps: Vec<App>,
    /// What is more to a dependency than its door, in the plan's order.
    pub dependencies: Vec<Dependency>,
    /// What is held of them by permit.
    pub(crate) permits: Held,
    /// What gateways share of them; none where they do not.
    pub(crate) fleet: Option<Fleet>,
    /// The clock all of them go by.
    pub clock: Clock,
    /// What health probes are told.
    pub health: Health,
    /// Which part of the users somebody belongs to.
    pub cohorts: Cohorts,
    /// Limits on how much may happen.
    pub rates: Rates,
    /// What is said of the fleet.
    pub(crate) heard: Arc<Heard>,
    /// Where sessions are kept, if they are.
    pub desk: Option<Desk>,
    /// The waiting rooms, in the plan's order; none where they are not kept anywhere.
    pub(crate) halls: Vec<Arc<Hall>>,
    /// What balancers are told of this node.
    pub board: Arc<Board>,
    /// Another part of the process that counts.
    pub others: Place,
    draining: AtomicBool,
}

/// One application with its state.
pub struct App {
    /// What is configured for it.
    pub plan: Arc<AppPlan>,
    /// Who may enter it.
    pub gate: Gate,
    /// The connections to it.
    pub upstream: Arc<Upstream>,
    /// By route, what is read of a session when its ticket is renewed on the way.
    pub(crate) ticket_fields: Vec<Fields>,
    /// What stops calling it when it does not answer.
    pub(crate) breaker: Option<Arc<CallBreaker>>,
    /// The waiting rooms that some of its routes are behind, by their places.
    pub(crate) rooms: Vec<usize>,
}

/// One gateway thread.
pub struct Thread {
    /// Its number, below the plan's `threads`.
    pub index: usize,
    /// What it shares with the others.
    pub shared: Arc<Shared>,
    /// Its own counters.
    pub recorder: Recorder,
    /// Its runtime, for guards that are dropped where none is entered.
    pub runtime: Handle,
    rng: Mutex<Rng>,
}

/// What is known of a client connection before its first request.
#[derive(Debug)]
pub struct Conn {
    /// The other end.
    pub peer: SocketAddr,
    /// Whether its forwarding, deadline and class headers are believed.
    pub trusted: bool,
    /// Whether it comes from a probe network, on a slot of its own.
    pub probe: bool,
    /// Whether it is over the cap and may only ask for probe paths.
    pub overflow: bool,
    /// Verdicts on the raw heads of its requests, in their order.
    pub framing: FramingLog,
    origin: Origin,
}

/// Readings of the machine's two clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Shared {
    /// The state of a gateway that runs `plan` by `clock`, with sessions at `desk`, limits of the fleet by `sharing`, and
    /// the plan's waiting rooms, or none; `seed` is for draws that need no secrecy.
    pub(crate) fn new(
        plan: Plan,
        clock: Clock,
        desk: Option<Desk>,
        sharing: Option<Sharing>,
        halls: Vec<Arc<Hall>>,
        seed: u64,
    ) -> Self {
        let in_ticket = desk.as_ref().map_or_else(Vec::new, |desk| {
            desk.plan().attributes.names(|attribute| attribute.ticket)
        });
        let ticket_fields = |app: &AppPlan| {
            let routes = app.routes.iter();
            let fields = routes.map(|route| route.session.exposed.fields_and(&in_ticket));
            fields.collect()
        };
        let breaker = |app: &AppPlan, seed| {
            let plan = app.breaker.as_ref()?;
            Some(Arc::new(CallBreaker::new(&app.name, plan, clock, seed)))
        };
        let doors = plan.dependencies.iter().map(|dependency| &dependency.app);
        let apps = plan
            .apps
            .iter()
            .chain(doors)
            .zip(seed..)
            .map(|(app, seed)| App {
                plan: Arc::new(app.clone()),
                gate: Gate::new(app, clock, seed),
                upstream: Arc::new(Upstream::new(&app.upstream, plan.threads, clock)),
                ticket_fields: ticket_fields(app),
                breaker: breaker(app, seed),
                rooms: rooms_of(app, halls.len()),
            })
            .collect();
        let heard = Arc::new(Heard::new(
            clock,
            plan.dependencies.iter().map(|it| it.name().to_owned()),
        ));
        let permits = Held::new(plan.dependencies.len(), seed);
        let dependencies = plan.dependencies.iter().zip(plan.apps.len()..);
        let dependencies = dependencies
            .map(|(dependency, app)| Dependency::new(dependency, app, clock.now()))
            .collect();
        Self {
            health: Health::new(plan.threads.get(), clock.now()),
            fleet: Fleet::start(&plan.dependencies, sharing.as_ref(), clock),
            rates: Rates::new(&plan, sharing, clock, Arc::clone(&heard)),
            heard,
            plan,
            apps,
            dependencies,
            permits,
            clock,
            cohorts: Cohorts::default(),
            desk,
            halls,
            board: Arc::default(),
            others: Place::default(),
            draining: AtomicBool::new(false),
        }
    }

    /// The applications, without the dependencies.
    pub fn applications(&self) -> &[App] {
        &self.apps[..self.plan.apps.len()]
    }

    /// What gateways share, if the dependency at this place is one that they do.
    pub(crate) fn fleet_of(&self, dependency: usize) -> Option<&Fleet> {
        self.fleet.as_ref().filter(|fleet| fleet.has(dependency))
    }

    /// Readiness fails from now on.
    pub fn begin_draining(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether the process is on its way out.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}

/// The waiting rooms that routes of `app` are behind, of so many that there are.
fn rooms_of(app: &AppPlan, count: usize) -> Vec<usize> {
    let rooms = app.routes.iter().filter_map(|route| route.room);
    let mut rooms: Vec<usize> = rooms.filter(|room| *room < count).collect();
    rooms.sort_unstable();
    rooms.dedup();
    rooms
}

impl Thread {
    /// Thread `index` of the gateway, on the runtime that `runtime` leads to.
    pub fn new(index: usize, shared: Arc<Shared>, runtime: Handle, seed: u64) -> Self {
        let recorder = Recorder::new(&shared.plan);
        Self {
            index,
            shared,
            recorder,
            runtime,
            rng: Mutex::new(Rng::new(seed)),
        }
    }

    /// Something drawn from the thread's generator.
    pub fn draw<T>(&self, with: impl FnOnce(&mut Rng) -> T) -> T {
        // A panic while drawing leaves a generator that is as good as any other.
        with(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Conn {
    /// A connection from `peer` that is nothing special yet; the public fields say otherwise.
    pub fn new(peer: SocketAddr, framing: FramingLog) -> Self {
        let origin = Origin::new(peer);
        Self {
            peer,
            trusted: false,
            probe: false,
            overflow: false,
            framing,
            origin,
        }
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl Clock {
    /// A clock whose monotonic readings begin now.
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// The monotonic time.
    pub fn now(&self) -> Mono {
        Mono::default() + self.origin.elapsed()
    }

    /// The wall clock's time.
    pub fn wall(&self) -> Wall {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Wall::from_micros(u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX))
    }

    /// The runtime's name for `at`; a year from now for what is later than that.
    pub fn instant(&self, at: Mono) -> tokio::time::Instant {
        const YEAR_NANOS: u64 = 365 * 86_400 * 1_000_000_000;
        let latest = self.now().as_nanos().saturating_add(YEAR_NANOS);
        let nanos = at.as_nanos().min(latest);
        tokio::time::Instant::from_std(self.origin + std::time::Duration::from_nanos(nanos))
    }
}

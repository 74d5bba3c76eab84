//! A running gateway: its start and its end.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidegate_http::local::{Listen, ListenError};
use tidegate_http::verdict::Board;
use tidegate_store::Background;
use tidegate_store::desk::Desk;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use crate::admin::Admin;
use crate::connections::Connections;
use crate::context::{Clock, Shared, Thread};
use crate::dependency::{Egress, Permits, take_back};
use crate::drain::Drain;
use crate::heard::FleetWord;
use crate::listener::{self, Listener};
use crate::log::RefusalLog;
use crate::metrics::{Exposition, Measures, Others};
use crate::plan::Plan;
use crate::rate::Sharing;
use crate::room::{self, BadRoom, Hall, Leads, RoomPlan, RoomStoreAt};
use crate::serve::Server;
use crate::status::Status;
use crate::threads::{self, MAILBOX_MAX, Stage};
use crate::warm::Keeper;
use crate::work::WorkMeter;

/// Longest wait for threads to end when a gateway is dropped; they are left to themselves then.
const DROP_WAIT_MAX: Duration = Duration::from_secs(1);

/// How often it is looked whether they have.
const DROP_LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// A running gateway. Dropping it stops it at once; see [`Gateway::drain`] for the gentle way.
pub struct Gateway {
    address: Option<SocketAddr>,
    admin_address: Option<SocketAddr>,
    shared: Arc<Shared>,
    connections: Arc<Connections>,
    threads: Vec<Arc<Thread>>,
    running: Vec<JoinHandle<()>>,
    keeper: Option<Keeper>,
    egresses: Vec<Egress>,
    drain_asked: watch::Sender<bool>,
    stage: watch::Sender<Stage>,
    rooms: Option<Rooms>,
}

/// What keeps the waiting rooms up.
struct Rooms {
    leads: Leads,
    /// It ends with its last clone.
    _background: Background,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The listener's address cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The admin listener's address cannot be had.
    #[error("cannot listen on {address} for administration")]
    ListenAdmin {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The listener for calls to a dependency is not to be had.
    #[error("dependency {dependency} has no listener")]
    Egress {
        /// Its name.
        dependency: String,
        /// What the system says.
        source: ListenError,
    },
    /// A waiting room is not to be had.
    #[error("cannot open room {name}")]
    Room {
        /// Its name.
        name: String,
        /// What is wrong.
        source: BadRoom,
    },
    /// The system gives us no threads or none of what their runtimes need.
    #[error("cannot start threads")]
    Threads(#[source] io::Error),
}

impl Gateway {
    /// Starts a gateway that runs `plan`, without sessions. Once this returns, clients can connect.
    pub fn start(plan: Plan) -> Result<Self, StartError> {
        Self::start_with(plan, None, None, None)
    }

    /// Starts a gateway that runs `plan`. Sessions are kept at `desk`; without one, what the plan
    /// says of them has no effect. Limits of the fleet hold by `sharing`, and without it not at all; the same goes for
    /// waiting rooms and `rooms`. Once this returns, clients can connect.
    pub fn start_with(
        plan: Plan,
        desk: Option<Desk>,
        sharing: Option<Sharing>,
        rooms: Option<RoomStoreAt>,
    ) -> Result<Self, StartError> {
        let clock = Clock::start();
        let halls = halls(&plan, rooms.as_ref(), clock)?;
        let socket = match plan.listener.address {
            None => None,
            Some(address) => {
                Some(listen(address).map_err(|source| StartError::Listen { address, source })?)
            }
        };
        let (socket, address) = socket.unzip();
        let admin_socket = match plan.admin {
            None => None,
            Some(address) => Some(
                listen(address).map_err(|source| StartError::ListenAdmin { address, source })?,
            ),
        };
        let admin_address = admin_socket.as_ref().map(|(_, address)| *address);

        let seed = seed();
        let shared = Arc::new(Shared::new(plan, clock, desk, sharing, halls, seed));
        let egresses = egresses(&shared)?;
        let runtimes: Vec<Runtime> = (0..shared.plan.threads.get())
            .map(|_| threads::runtime())
            .collect::<io::Result<_>>()
            .map_err(StartError::Threads)?;
        let threads = runtimes
            .iter()
            .zip(seed..)
            .enumerate()
            .map(|(index, (runtime, seed))| {
                let handle = runtime.handle().clone();
                Arc::new(Thread::new(index, Arc::clone(&shared), handle, seed))
            });
        let mut gateway = Self {
            address,
            admin_address,
            connections: Arc::new(Connections::new(&shared.plan)),
            threads: threads.collect(),
            shared,
            running: Vec::new(),
            keeper: None,
            egresses,
            drain_asked: watch::channel(false).0,
            stage: watch::channel(Stage::Serving).0,
            rooms: None,
        };
        gateway.rooms = rooms.map(|at| Rooms {
            _background: at.background.clone(),
            leads: room::open(&gateway.shared, at),
        });
        // On an error `gateway` is dropped, and that stops what runs already.
        gateway.run(runtimes, socket).map_err(StartError::Threads)?;
        if let Some((socket, _)) = admin_socket {
            gateway.run_admin(socket).map_err(StartError::Threads)?;
        }
        gateway.keeper = Keeper::start(&gateway.shared).map_err(StartError::Threads)?;
        Ok(gateway)
    }

    /// Shows among the metrics what `others`, another part of the process, have counted.
    pub fn count_for(&self, others: Others) {
        self.shared.others.give(others);
    }

    /// Has `measures` asked whenever metrics are, too.
    pub fn measure_for(&self, measures: Measures) {
        self.shared.others.give_measures(measures);
    }

    /// Tells how the gateway is, as often as it is asked, for as long as anybody asks.
    pub fn teller(&self) -> impl Fn() -> Status + Send + Sync + use<> {
        let (threads, connections) = (self.threads.clone(), Arc::clone(&self.connections));
        move || Status::of(&threads, &connections)
    }

    /// Takes in what is said of the fleet that this gateway is a node of, as often as it is said: once a second is meant.
    pub fn hearing(&self) -> impl Fn(&FleetWord) + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move |word| {
            shared.heard.hear(word);
            for app in shared.applications() {
                app.gate.slow(word.admission, word.lasts);
            }
            for at in 0..shared.dependencies.len() {
                shared.follow_dependency(at, word.lasts);
            }
        }
    }

    /// Where the verdict about this node is put up, for balancers that ask.
    pub fn board(&self) -> Arc<Board> {
        Arc::clone(&self.shared.board)
    }

    /// Where clients connect.
    ///
    /// # Panics
    ///
    /// For a gateway whose plan has no listener.
    pub fn address(&self) -> SocketAddr {
        self.address.expect("its plan has a listener")
    }

    /// Where operators connect.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// The dependencies that have a listener of ours, by name, and where that is.
    pub fn egresses(&self) -> impl Iterator<Item = (&str, &Listen)> {
        let all = self.shared.dependencies.iter();
        all.filter_map(|dependency| Some((dependency.plan.name(), dependency.listens.get()?)))
    }

    /// What gives permits for calls to dependencies.
    pub fn permits(&self) -> Permits {
        let first = self.threads.first().expect("a gateway has a thread");
        Permits::new(Arc::clone(first))
    }

    /// Tells what the data path carries.
    pub fn work(&self) -> WorkMeter {
        WorkMeter::new(self.threads.clone())
    }

    /// The gateway at this moment.
    pub fn status(&self) -> Status {
        Status::of(&self.threads, &self.connections)
    }

    /// Begins the end: readiness fails at once; after the plan's delay the listener's backlog is
    /// accepted and the listener closed; requests in progress have the plan's timeout to finish.
    pub fn drain(&self) {
        self.shared.begin_draining();
        self.drain_asked.send_replace(true);
    }

    /// Waits until all is finished, which takes a [`Gateway::drain`].
    pub fn join(mut self) {
        for thread in self.running.drain(..) {
            // A thread that has panicked has ended as well.
            drop(thread.join());
        }
        self.close_files();
    }

    /// Gives back what others can use, and writes what outlives the process: the ends of the decision logs, and what
    /// limits have learnt. All after everything that they should say.
    fn close_files(&self) {
        if let Some(rooms) = &self.rooms {
            rooms.leads.close();
        }
        self.shared.rates.close();
        if let Some(fleet) = &self.shared.fleet {
            fleet.close();
        }
        if let Some(keeper) = &self.keeper {
            keeper.close();
        }
        for journal in self.shared.apps.iter().filter_map(|app| app.gate.journal()) {
            journal.close();
        }
    }

    fn run(
        &mut self,
        runtimes: Vec<Runtime>,
        socket: Option<std::net::TcpListener>,
    ) -> io::Result<()> {
        for (runtime, thread) in runtimes.iter().zip(&self.threads) {
            for egress in &self.egresses {
                egress.accept_on(runtime, thread)?;
            }
        }
        let mut runtimes = runtimes.into_iter().zip(self.threads.iter().cloned());
        let (first_runtime, first_thread) =
            runtimes.next().expect("a plan has at least one thread");
        let mut mailboxes = Vec::new();
        for (runtime, thread) in runtimes {
            let (mailbox, incoming) = mpsc::channel(MAILBOX_MAX);
            mailboxes.push(mailbox);
            let stage = self.stage.subscribe();
            self.running
                .push(threads::start_other(runtime, thread, incoming, stage)?);
        }

        if !self.shared.dependencies.is_empty() {
            first_runtime.spawn(take_back(Arc::clone(&first_thread)));
        }
        let listener = match socket {
            Some(socket) => {
                let _entered = first_runtime.enter();
                let server = Arc::new(Server::new(Arc::clone(&first_thread)));
                let connections = Arc::clone(&self.connections);
                let clock = self.shared.clock;
                let listener = Listener::new(socket, connections, clock, server, mailboxes)?;
                first_runtime.spawn(listener.run(self.stage.subscribe()))
            }
            // Nobody comes: it has ended already.
            None => first_runtime.spawn(async {}),
        };
        let drain = Drain {
            shared: Arc::clone(&self.shared),
            connections: Arc::clone(&self.connections),
            listener,
            stage: self.stage.clone(),
        };
        let log = RefusalLog::new(self.threads.clone());
        let asked = self.drain_asked.subscribe();
        let first = threads::start_first(first_runtime, first_thread, drain, asked, log)?;
        self.running.push(first);
        Ok(())
    }

    fn run_admin(&mut self, socket: std::net::TcpListener) -> io::Result<()> {
        let admin = Admin {
            threads: self.threads.clone(),
            connections: Arc::clone(&self.connections),
            exposition: Exposition::new(self.threads.clone(), Arc::clone(&self.connections)),
        };
        self.running
            .push(admin.start(socket, self.stage.subscribe())?);
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stage.send_replace(Stage::Stopped);
        let deadline = Instant::now() + DROP_WAIT_MAX;
        while self.running.iter().any(|thread| !thread.is_finished()) && Instant::now() < deadline {
            thread::sleep(DROP_LOOK_INTERVAL);
        }
        self.close_files();
    }
}

/// The waiting rooms of `plan`, where they are kept.
fn halls(
    plan: &Plan,
    at: Option<&RoomStoreAt>,
    clock: Clock,
) -> Result<Vec<Arc<Hall>>, StartError> {
    let Some(at) = at else {
        return Ok(Vec::new());
    };
    let open = |plan: &RoomPlan| {
        let room = at.store.room(&plan.tokens.room, plan.rules);
        let hall = Hall::new(plan.clone(), room, &at.background, clock);
        hall.map(Arc::new).map_err(|source| StartError::Room {
            name: plan.tokens.room.to_string(),
            source,
        })
    };
    plan.rooms.iter().map(open).collect()
}

/// The listeners for calls to dependencies.
fn egresses(shared: &Shared) -> Result<Vec<Egress>, StartError> {
    let all = shared.dependencies.iter().enumerate();
    let plans = all.filter_map(|(at, it)| Some((at, it, it.plan.egress.as_ref()?)));
    plans
        .map(|(at, dependency, plan)| {
            Egress::bind(plan, at, dependency).map_err(|source| StartError::Egress {
                dependency: dependency.plan.name().to_owned(),
                source,
            })
        })
        .collect()
}

fn listen(address: SocketAddr) -> io::Result<(std::net::TcpListener, SocketAddr)> {
    let socket = listener::bind(address)?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

/// A seed for draws that need no secrecy but should differ between gateways.
fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

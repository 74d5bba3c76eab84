//! This node in its fleet: what the gateway says of itself is its beacon, and it may decide for all.

mod said;
mod told;

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tidegate_core::session::Name;
use tidegate_fleet::agent::{self, Agent, Seen};
use tidegate_fleet::control::{DecisionLog, Gauge, Standing, Station, StationPlan, gauges, run};
use tidegate_gateway::metrics::{Counted, Measured};
use tidegate_gateway::status::Status;
use tidegate_gateway::{FleetWord, Gateway};
use tidegate_http::verdict::Board;
use tidegate_store::{Fleet, Node};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use self::said::{Eyes, Reader};
pub(crate) use self::told::Everybody;
use crate::config::{AgentSetup, FleetPlan};

/// Where Linux has the machine's name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";
/// Longest wait for the store, each time it is asked: four times in a second must fit.
pub(crate) const STORE_TIMEOUT: Duration = Duration::from_millis(200);
/// Longest wait at the end until the fleet has been told that the node leaves.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// What runs for it.
pub(crate) struct Control {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    gauges: Arc<Mutex<Vec<Gauge>>>,
    log: Option<DecisionLog>,
}

/// Who in this process is told what holds.
struct Says {
    /// For balancers.
    board: Arc<Board>,
    /// For the data path.
    fleet: Box<dyn Fn(&FleetWord) + Send>,
}

/// Starts what `setup` asks for, if it does, and has `gateway` tell of it among its metrics. What applications post of
/// themselves is on `posted`, whose clock is the one of all readings. `everybody` is kept up to date, where somebody asks it.
pub(crate) fn start(
    setup: Option<(&FleetPlan, Fleet)>,
    agent: Option<&AgentSetup>,
    posted: Option<agent::Board>,
    everybody: Option<Everybody>,
    gateway: &Gateway,
) -> anyhow::Result<Option<Control>> {
    let Some((plan, fleet)) = setup else {
        return Ok(None);
    };
    let posted = posted.unwrap_or_else(|| agent::Board::new(Instant::now()));
    let eyes = match agent {
        Some(agent) => {
            let look = agent.look.plan()?;
            let started = Agent::start(look, posted.clone());
            let agent = started.context("cannot start looking at the node")?;
            gateway.count_for(Box::new(overflows(agent.teller())));
            gateway.count_for(Box::new(failures(agent.failures())));
            Eyes::Agent(agent)
        }
        None => Eyes::Posted(posted.clone()),
    };
    let reader = Reader::new(
        gateway.teller(),
        gateway.work(),
        eyes,
        agent.and_then(|agent| agent.latency_budget),
        plan.sessions_in_heap,
    );
    let says = Says {
        board: gateway.board(),
        fleet: Box::new(gateway.hearing()),
    };
    let control = Control::start(plan, fleet, posted, reader, says, everybody)?;
    gateway.count_for(Box::new(control.counts()));
    gateway.measure_for(Box::new(control.measures()));
    Ok(Some(control))
}

/// Tells the fleet that the node leaves, if it is in any, within reason.
pub(crate) async fn leave(control: Option<Control>) {
    if let Some(control) = control {
        control.leave().await;
    }
}

impl Control {
    /// Starts it in a thread of its own: it goes on while the gateway is busy. Whoever is in `says` is told what holds.
    fn start(
        plan: &FleetPlan,
        fleet: Fleet,
        posted: agent::Board,
        mut reader: Reader<impl Fn() -> Status + Send + 'static>,
        says: Says,
        everybody: Option<Everybody>,
    ) -> anyhow::Result<Self> {
        let log = match &plan.decision_log {
            Some(path) => {
                let log = DecisionLog::open(path);
                Some(log.with_context(|| format!("cannot write decisions to {}", path.display()))?)
            }
            None => None,
        };
        let all = fleet.clone();
        let station = station(plan, fleet, log.clone())?;
        let (stop, stopped) = oneshot::channel();
        let sender = watch::Sender::new(Standing::SILENCE);
        let told = Arc::new(Mutex::new(Vec::new()));
        let (look, reopen) = (Arc::clone(&told), log.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime for the fleet")?;
        let work = async move {
            let clock = move || posted.now();
            // One turn after the other, in this thread: what was read is what is put up.
            let carried = Arc::new(Mutex::new(None));
            let noted = Arc::clone(&carried);
            let read = move |now| {
                let said = reader.read(now);
                *noted.lock().unwrap_or_else(PoisonError::into_inner) = said.load;
                said
            };
            let look = move |station: &Station, now| {
                let load = *carried.lock().unwrap_or_else(PoisonError::into_inner);
                let standing = station.standing(now);
                told::put_up(&says.board, &standing, load, now);
                if let Some(word) = told::of_fleet(&standing, now) {
                    (says.fleet)(&word);
                }
                *look.lock().unwrap_or_else(PoisonError::into_inner) = gauges(station, now);
            };
            tokio::select! {
                () = run(station, clock, read, look, sender, stopped) => {}
                never = reopen_on_hangup(reopen) => match never {},
                never = follow(everybody, all) => match never {},
            }
        };
        let thread = std::thread::Builder::new()
            .name("tidegate-fleet".to_owned())
            .spawn(move || runtime.block_on(work))
            .context("cannot start a thread for the fleet")?;
        Ok(Self {
            stop,
            thread,
            gauges: told,
            log,
        })
    }

    /// What it counts, as often as it is asked.
    fn counts(&self) -> impl Fn() -> Vec<Counted> + Send + Sync + use<> {
        let (gauges, log) = (Arc::clone(&self.gauges), self.log.clone());
        move || {
            let mut all: Vec<Counted> = taken(&gauges, true)
                .into_iter()
                .map(|gauge| Counted {
                    // The exposition adds it again.
                    name: gauge.name.trim_end_matches("_total"),
                    help: gauge.help,
                    rows: (gauge.rows.into_iter())
                        .map(|(labels, value)| (labels, value as u64))
                        .collect(),
                })
                .collect();
            if let Some(log) = &log {
                let row = |result, count| (vec![("result", String::from(result))], count);
                all.push(Counted {
                    name: "tidegate_fleet_decisions",
                    help: "Decisions about nodes, by whether they were written down",
                    rows: vec![row("written", log.written()), row("lost", log.lost())],
                });
            }
            all
        }
    }

    /// What it measures, as often as it is asked.
    fn measures(&self) -> impl Fn() -> Vec<Measured> + Send + Sync + use<> {
        let gauges = Arc::clone(&self.gauges);
        move || {
            let all = taken(&gauges, false).into_iter();
            all.map(|gauge| Measured {
                name: gauge.name,
                help: gauge.help,
                rows: gauge.rows,
            })
            .collect()
        }
    }

    /// Tells the fleet that the node leaves, within reason.
    async fn leave(self) {
        let _ = self.stop.send(());
        let thread = self.thread;
        let left = tokio::task::spawn_blocking(move || thread.join());
        if tokio::time::timeout(LEAVE_WITHIN, left).await.is_err() {
            tracing::warn!("the fleet has not heard that this node leaves: it will notice");
        }
    }
}

/// This life of the node in its fleet.
fn station(plan: &FleetPlan, fleet: Fleet, log: Option<DecisionLog>) -> anyhow::Result<Station> {
    let plan = StationPlan {
        node: node(plan)?,
        may_lead: plan.leads,
        settings: plan.health,
        timeout: STORE_TIMEOUT,
    };
    Ok(Station::new(plan, fleet, log))
}

/// Who the node is, for one part of this process: another one has another life.
pub(crate) fn node(plan: &FleetPlan) -> anyhow::Result<Node> {
    let id = match &plan.node {
        Some(name) => name.clone(),
        None => host_name()?,
    };
    Ok(Node {
        id,
        incarnation: RandomState::new().hash_one(0),
    })
}

/// What the kernel has counted of full accept queues, where it tells.
fn overflows(seen: impl Fn() -> Arc<Seen>) -> impl Fn() -> Vec<Counted> {
    move || {
        let count = seen().host.overflows;
        let counted = count.map(|count| {
            Counted::one(
                "tidegate_listen_overflows",
                "Connections that found an accept queue of this part of the network full, as the kernel counts attempts",
                count,
            )
        });
        counted.into_iter().collect()
    }
}

/// Looks of the agent that a defect has ended.
fn failures(count: impl Fn() -> u64) -> impl Fn() -> Vec<Counted> {
    move || {
        let help = "Looks at the node that a defect of the agent has ended";
        vec![Counted::one("tidegate_agent_looks_failed", help, count())]
    }
}

/// Keeps up to date what balancers are told of all nodes, if any are.
async fn follow(everybody: Option<Everybody>, fleet: Fleet) -> std::convert::Infallible {
    match everybody {
        Some(everybody) => everybody.follow(fleet, STORE_TIMEOUT).await,
        None => std::future::pending().await,
    }
}

/// What the log rotation sends when it has moved a file away.
async fn reopen_on_hangup(log: Option<DecisionLog>) -> std::convert::Infallible {
    let (Some(log), Ok(mut hangups)) = (log, signal(SignalKind::hangup())) else {
        return std::future::pending().await;
    };
    loop {
        hangups.recv().await;
        log.reopen();
    }
}

fn taken(gauges: &Mutex<Vec<Gauge>>, is_counter: bool) -> Vec<Gauge> {
    let all = gauges.lock().unwrap_or_else(PoisonError::into_inner);
    let those = all.iter().filter(|gauge| gauge.is_counter == is_counter);
    those.cloned().collect()
}

fn host_name() -> anyhow::Result<Name> {
    let text = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    match Name::new(text.trim()) {
        Ok(name) => Ok(name),
        Err(_) => bail!("the machine has no name that a node can have: set node in [fleet]"),
    }
}

//! `tidegate run`: starts the gateway, and ends it on a signal.

use std::io::Write;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tidegate_core::limit::Kind;
use tidegate_fleet::{Mint, Minted, PermitDoor, Sidecar, Tally};
use tidegate_gateway::Gateway;
use tidegate_gateway::metrics::Counted;
use tidegate_gateway::plan::{AppPlan, Plan};
use tidegate_gateway::rate::Sharing;
use tidegate_gateway::room::RoomStoreAt;
use tidegate_gateway::session::fresh;
use tidegate_store::desk::{Backend, Desk};
use tidegate_store::embedded::{Embedded, EmbeddedPlan};
use tidegate_store::redis::{Redis, Use};
use tidegate_store::rooms::{RedisRooms, RoomStore, RoomTable};
use tidegate_store::{Background, Fleet};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::balancer::{self, Balancers};
use crate::config::{AgentSetup, BalancerPlan, FleetPlan, Setup, capped};
use crate::control::{self, Control, Everybody};
use crate::loaded::Loaded;
use crate::{permits, rls, secrets};

/// Descriptors beyond connections: listeners, runtimes, standard streams, files.
const DESCRIPTORS_SPARE: u64 = 128;

/// Of these a waiting room: what is kept of it, and the one that takes its place, and what is written down.
const DESCRIPTORS_OF_ROOM: u64 = 3;

/// Connections, of either kind, without which a start is not worth while.
const CONNECTIONS_MIN: u64 = 64;

/// Longest wait at the end for writes that the store has not got yet.
const STORE_CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// Runs `setup` until a signal, and drains. A second signal stops at once.
pub(crate) fn run(mut setup: Setup, loaded: Loaded) -> anyhow::Result<ExitCode> {
    let proxies = setup
        .rls
        .as_ref()
        .map_or(0, |rls| rls.connections_max as u64);
    if let Some(allowed) = raise_descriptor_limit(descriptors(&setup.gateway) + proxies) {
        fit(&mut setup.gateway, allowed.saturating_sub(proxies))?;
    }
    block_on_signals(serve(setup, loaded))
}

/// Runs what waits for signals.
pub(crate) fn block_on_signals(
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime for signals")?;
    let code = runtime.block_on(work)?;
    // After a second signal a thread may still be waiting for the drain; do not wait for it.
    runtime.shutdown_background();
    Ok(code)
}

async fn serve(mut setup: Setup, loaded: Loaded) -> anyhow::Result<ExitCode> {
    // Before the gateway is ready, so that no signal can slip through between.
    let mut signals = Signals::listen(loaded.clone())?;
    let desk = start_desk(&mut setup)?;
    // Before the gateway, so that an application that is ready finds it.
    let door = PermitDoor::default();
    let nodes = start_fleet(&setup)?;
    let fleet = nodes.as_ref().map(|nodes| nodes.fleet.clone());
    let sidecar = start_sidecar(&setup, desk.as_ref(), &door, fleet.clone())?;
    let rls = rls::start(&mut setup)?;
    let sharing = start_sharing(&setup)?;
    if let Some(tokens) = &mut setup.gateway.rates.tokens {
        tokens.keys = secrets::token_keys(&tokens.key_file)?;
    }
    secrets::fill_rooms(&mut setup)?;
    let rooms = start_rooms(&setup)?;
    let gateway = Gateway::start_with(setup.gateway, desk.clone(), sharing, rooms)?;
    door.open(permits::giver(gateway.permits()));
    let (balancers, control) = start_beside(
        &setup.balancer,
        setup.fleet.as_ref().zip(fleet),
        setup.agent.as_ref(),
        sidecar.as_ref(),
        &gateway,
        &loaded,
    )?;
    if let Some(rls) = &rls {
        gateway.count_for(Box::new(rls.teller()));
    }

    announce(&gateway, sidecar.as_ref(), rls.as_ref(), &balancers);

    let name = signals.next().await;
    tracing::info!(signal = name, "draining; a second signal stops at once");
    gateway.drain();
    let finished = tokio::task::spawn_blocking(move || gateway.join());
    // At the same time as the drain: others are to take what would have come here.
    let finished = async { tokio::join!(finished, control::leave(control)).0 };
    // At the same time as the drain: balancers are to hear the last word while requests are finished.
    let finished = async { tokio::join!(finished, balancers.leave()).0 };
    tokio::select! {
        finished = finished => {
            finished.context("a gateway thread has failed")?;
            drop((sidecar, rls));
            if let Some(desk) = desk {
                desk.close(STORE_CLOSE_WITHIN).await;
            }
            tracing::info!("drained");
            Ok(ExitCode::SUCCESS)
        }
        name = signals.next() => {
            tracing::warn!(signal = name, "stopped before the drain was over");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Starts what tells balancers and the fleet of the node of `gateway`, and has it show among its metrics what is beside it.
pub(crate) fn start_beside(
    balancer: &BalancerPlan,
    fleet: Option<(&FleetPlan, Fleet)>,
    agent: Option<&AgentSetup>,
    sidecar: Option<&Sidecar>,
    gateway: &Gateway,
    loaded: &Loaded,
) -> anyhow::Result<(Balancers, Option<Control>)> {
    let everybody = Everybody::default();
    let balancers = balancer::start(balancer, gateway.board(), &everybody)?;
    let everybody = balancers.tells_of_all().then_some(everybody);
    let posted = sidecar.map(Sidecar::board);
    let control = control::start(fleet, agent, posted, everybody, gateway)?;
    if let Some(sidecar) = sidecar {
        let tally = sidecar.teller();
        gateway.count_for(Box::new(move || sidecar_counts(&tally())));
    }
    gateway.count_for(Box::new(balancers.teller()));
    gateway.measure_for(Box::new(loaded.measures()));
    Ok((balancers, control))
}

/// Says where everything listens. Nobody reading is no reason not to serve.
fn announce(
    gateway: &Gateway,
    sidecar: Option<&Sidecar>,
    rls: Option<&rls::Service>,
    balancers: &Balancers,
) {
    let mut stdout = std::io::stdout();
    let _ = writeln!(
        stdout,
        "tidegate: listening on {}, admin {}",
        gateway.address(),
        admin_place(gateway)
    );
    announce_beside(&mut stdout, sidecar, balancers);
    for (dependency, listen) in gateway.egresses() {
        let _ = writeln!(stdout, "tidegate: dependency {dependency} on {listen}");
    }
    if let Some(rls) = rls {
        let _ = writeln!(stdout, "tidegate: rate limit service on {}", rls.address());
    }
    let _ = stdout.flush();
}

/// Where operators connect, in words.
pub(crate) fn admin_place(gateway: &Gateway) -> String {
    let admin = gateway.admin_address();
    admin.map_or_else(|| "off".to_owned(), |address| format!("on {address}"))
}

/// Says where what is beside the data path listens.
pub(crate) fn announce_beside(
    to: &mut impl Write,
    sidecar: Option<&Sidecar>,
    balancers: &Balancers,
) {
    if let Some(sidecar) = sidecar {
        let _ = writeln!(to, "tidegate: sidecar on {}", sidecar.listen());
    }
    if let Some(agent) = &balancers.agent_check {
        let _ = writeln!(to, "tidegate: agent check on {}", agent.address());
    }
}

/// Starts what keeps the sessions, if there are any, and gives the gateway the fleet's keys.
pub(crate) fn start_desk(setup: &mut Setup) -> anyhow::Result<Option<Desk>> {
    let Some(sessions) = &setup.sessions else {
        return Ok(None);
    };
    let keys = secrets::keys(&sessions.key_file)?;
    for app in &mut setup.gateway.apps {
        if let Some(sessions) = &mut app.sessions {
            sessions.keys = keys.clone();
        }
    }
    let mut plan = sessions.desk.clone();
    if let Some(servers) = setup.store.servers(Use::Sessions) {
        plan.backend = Backend::Redis(secrets::with_passwords(servers)?);
    }
    Ok(Some(Desk::start(plan).context("sessions cannot be kept")?))
}

/// Begins to connect to where limits and permits of the fleet are, if there are any.
fn start_sharing(setup: &Setup) -> anyhow::Result<Option<Sharing>> {
    let plan = &setup.gateway;
    let is_needed = plan.rates.limits.iter().any(|limit| limit.fleet.is_some())
        || plan.dependencies.iter().any(|it| it.fleet.is_some());
    let Some(servers) = setup.store.servers(Use::Limits).filter(|_| is_needed) else {
        return Ok(None);
    };
    let plan = secrets::with_passwords(servers)?;
    let background = Background::start().context("limits cannot be shared")?;
    Ok(Some(Sharing {
        redis: Redis::start(&plan, Use::Limits, &background),
        background,
    }))
}

/// Where waiting rooms are kept, if there are any; if that is not this process, begins to connect.
fn start_rooms(setup: &Setup) -> anyhow::Result<Option<RoomStoreAt>> {
    let has_rooms = !setup.gateway.rooms.is_empty();
    let Some(fleet) = setup.fleet.as_ref().filter(|_| has_rooms) else {
        return Ok(None);
    };
    let background = Background::start().context("rooms cannot be kept")?;
    let store = match setup.store.servers(Use::Room) {
        Some(servers) => {
            let mut plan = secrets::with_passwords(servers)?;
            // Who moves a line does so for a thousand people at once, and no request waits for that. Requests ask the room
            // with a bound of their own.
            plan.operation_timeout = plan.operation_timeout.max(control::STORE_TIMEOUT);
            RoomStore::Redis(RedisRooms::new(Redis::start(&plan, Use::Room, &background)))
        }
        None => {
            let store = Embedded::start(EmbeddedPlan::at(None)).context("rooms cannot be kept")?;
            RoomStore::Embedded(Arc::new(RoomTable::new(store)))
        }
    };
    Ok(Some(RoomStoreAt {
        store,
        background,
        node: control::node(fleet)?,
        leads: fleet.leads,
    }))
}

/// Where the nodes of a fleet are known.
pub(crate) struct Nodes {
    pub(crate) fleet: Fleet,
    /// Held for as long as anybody asks.
    _background: Option<Background>,
}

/// Where the nodes of the fleet are known, if this process is one of them or tells of them.
pub(crate) fn start_fleet(setup: &Setup) -> anyhow::Result<Option<Nodes>> {
    if setup.fleet.is_none() {
        return Ok(None);
    }
    if let Some(nodes) = start_nodes(setup)? {
        return Ok(Some(nodes));
    }
    // A fleet of one, and gone with it.
    let store = Embedded::start(EmbeddedPlan::at(None)).context("the fleet cannot be kept")?;
    Ok(Some(Nodes {
        fleet: Fleet::Embedded(store),
        _background: None,
    }))
}

/// Begins to connect to where the nodes of the fleet are known, if that is not this process alone.
pub(crate) fn start_nodes(setup: &Setup) -> anyhow::Result<Option<Nodes>> {
    let Some(servers) = setup.store.servers(Use::Bus) else {
        return Ok(None);
    };
    let mut plan = secrets::with_passwords(servers)?;
    // No request waits for the bus, and a node that has too much to do is late by more than requests wait for the store.
    // Taken for silent it would be taken for healthy.
    plan.connect_timeout = plan.connect_timeout.max(control::STORE_TIMEOUT);
    plan.operation_timeout = plan.operation_timeout.max(control::STORE_TIMEOUT);
    let background = Background::start().context("the fleet cannot be asked")?;
    Ok(Some(Nodes {
        fleet: Fleet::Redis(Redis::start(&plan, Use::Bus, &background)),
        _background: Some(background),
    }))
}

/// Starts what applications on this machine ask, if they may.
pub(crate) fn start_sidecar(
    setup: &Setup,
    desk: Option<&Desk>,
    door: &PermitDoor,
    nodes: Option<Fleet>,
) -> anyhow::Result<Option<Sidecar>> {
    let Some(plan) = &setup.sidecar else {
        return Ok(None);
    };
    let sessions = match desk {
        Some(desk) => Some((desk.clone(), mint(setup, desk)?)),
        None => None,
    };
    let sidecar = Sidecar::start(plan.clone(), sessions, door.clone(), nodes)?;
    Ok(Some(sidecar))
}

/// What draws the ids of new sessions.
fn mint(setup: &Setup, desk: &Desk) -> anyhow::Result<Mint> {
    // With the fleet's keys: those of all applications are the same.
    let sessions = setup
        .gateway
        .apps
        .iter()
        .find_map(|app| app.sessions.clone());
    let sessions = sessions.context("there are no sessions to ask for")?;
    let rest = desk.plan().lives.signed_in.absolute;
    Ok(Mint::new(move |tag| {
        let fresh = fresh(&sessions, tag, rest);
        Minted {
            id: fresh.id,
            set_cookie: fresh.set_cookie,
            successor: fresh.successor,
        }
    }))
}

/// The metrics of a sidecar.
fn sidecar_counts(tally: &Tally) -> Vec<Counted> {
    let count = Counted::one;
    vec![
        count(
            "tidegate_sidecar_requests",
            "Requests of applications on this machine to the sidecar",
            tally.requests,
        ),
        count(
            "tidegate_sidecar_refused",
            "Of these, those that broke a rule and were not read",
            tally.refused,
        ),
        count(
            "tidegate_sidecar_busy",
            "Of these, those that were refused because too many were under way",
            tally.busy,
        ),
        count(
            "tidegate_sidecar_late",
            "Of these, those that were not answered in time",
            tally.late,
        ),
    ]
}

/// The signals that end the process, and the one that has it look at its configuration again.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    loaded: Loaded,
    /// Sent beside the error when a file is as long as the process may write it (`ulimit -f`,
    /// `LimitFSIZE`). Unless somebody listens it ends the process, which a decision log is not worth.
    _file_too_long: Signal,
}

impl Signals {
    /// Listens for them, for what was `loaded`.
    pub(crate) fn listen(loaded: Loaded) -> anyhow::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?,
            loaded,
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?,
            _file_too_long: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))
                .context("cannot listen for SIGXFSZ")?,
        })
    }

    /// Waits for one that ends the process, and says which.
    pub(crate) async fn next(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hangup.recv() => self.loaded.look_again(),
            }
        }
    }
}

/// File descriptors that `plan` may need at once.
fn descriptors(plan: &Plan) -> u64 {
    let clients = plan.listener.connections_max.get()
        + plan.probes.connections_reserved.get()
        + plan.probes.overflow_connections_max.get();
    let upstreams = plan
        .apps
        .iter()
        .map(|app| u64::from(app.upstream.connections_max.get()));
    let dependencies = plan.dependencies.iter().map(|dependency| {
        // One that is not called through us takes none.
        let listened = dependency.egress.as_ref();
        listened.map_or(0, |egress| {
            let callers = egress.connections_max as u64;
            callers + u64::from(dependency.app.upstream.connections_max.get())
        })
    });
    let rooms = plan.rooms.iter().map(|room| {
        // Each receiver is told over one at a time.
        DESCRIPTORS_OF_ROOM + room.webhooks.len() as u64
    });
    // A runtime has three: its selector, its waker and their pair.
    u64::from(clients)
        + upstreams.sum::<u64>()
        + dependencies.sum::<u64>()
        + rooms.sum::<u64>()
        + 4 * plan.threads.get() as u64
        + DESCRIPTORS_SPARE
}

/// Lowers connection caps until `allowed` open files are enough.
///
/// With more, clients would take the files that connections to the application and the admin
/// listener need, and everybody's requests would fail. Applications with `workers` keep what these
/// need; the others have a cap that is a guess anyway.
fn fit(plan: &mut Plan, allowed: u64) -> anyhow::Result<()> {
    let needed = descriptors(plan);
    let clients = plan.listener.connections_max;
    let is_learnt = |app: &AppPlan| !matches!(app.limit, Kind::Static(_));
    let learnt: u64 = (plan.apps.iter().filter(|app| is_learnt(app)))
        .map(|app| u64::from(app.upstream.connections_max.get()))
        .sum();
    let others = needed - u64::from(clients.get()) - learnt;
    let shares = shares(clients.get().into(), learnt, allowed.saturating_sub(others));
    let Some((for_clients, for_learnt)) = shares else {
        anyhow::bail!(
            "the system allows {allowed} open files, and {others} are needed beside those of clients \
             and of applications whose limit is learnt: raise the hard limit (ulimit -Hn, LimitNOFILE \
             in a systemd unit) or lower connections_max in [[app]]"
        );
    };

    plan.listener.connections_max = lowered(clients, for_clients);
    for app in plan.apps.iter_mut().filter(|app| is_learnt(app)) {
        let most = app.upstream.connections_max;
        let most = lowered(most, u64::from(most.get()) * for_learnt / learnt);
        app.upstream.connections_max = most;
        app.limit = capped(app.limit, most);
    }
    tracing::warn!(
        allowed,
        needed,
        connections_max = for_clients,
        learnt_connections_max = for_learnt,
        "fewer open files are allowed than the connection caps need, so fewer connections are made: \
         raise the hard limit (LimitNOFILE in a systemd unit) or lower connections_max"
    );
    Ok(())
}

/// What clients and connections to applications with a learnt limit get of `room` files: a request
/// takes one of each, so half each, or what one of them leaves. `None` when that is not worth while.
fn shares(clients: u64, learnt: u64, room: u64) -> Option<(u64, u64)> {
    let for_learnt = learnt.min((room / 2).max(room.saturating_sub(clients)));
    let for_clients = clients.min(room - for_learnt);
    let enough = |share: u64, asked: u64| share >= CONNECTIONS_MIN.min(asked);
    (enough(for_clients, clients) && enough(for_learnt, learnt))
        .then_some((for_clients, for_learnt))
}

fn lowered(most: NonZeroU32, to: u64) -> NonZeroU32 {
    let to = u32::try_from(to).ok().and_then(NonZeroU32::new);
    most.min(to.unwrap_or(NonZeroU32::MIN))
}

/// Raises the soft limit on open files to what is `needed`, or as far as it goes. Returns the limit
/// if that is not enough.
fn raise_descriptor_limit(needed: u64) -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    // None is no limit.
    let allowed = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
    if limit.current.is_some_and(|current| current < allowed)
        && let Err(error) = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(allowed),
                maximum: limit.maximum,
            },
        )
    {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
    let current = getrlimit(Resource::Nofile).current;
    current.filter(|&current| current < needed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn clients_get_the_files_that_nothing_else_needs() {
        assert_eq!(shares(10_000, 0, 3096), Some((3096, 0)));
        assert_eq!(shares(10_000, 0, 64), Some((64, 0)));
        assert_eq!(shares(10_000, 0, 63), None);
        assert_eq!(shares(1, 0, 1), Some((1, 0)));
    }

    #[test]
    fn clients_and_learnt_limits_share_what_is_not_enough_for_both() {
        assert_eq!(shares(10_000, 10_000, 4000), Some((2000, 2000)));
        assert_eq!(shares(10_000, 500, 4000), Some((3500, 500)));
        assert_eq!(shares(500, 10_000, 4000), Some((500, 3500)));
        assert_eq!(shares(10_000, 10_000, 127), None);
    }

    #[test]
    fn a_dependency_that_is_not_called_through_us_takes_no_files() {
        let files = |more: &str| {
            let text = format!(
                "[[app]]\nupstream = \"http://127.0.0.1:1\"\nworkers = 4\n\
                 [[dependency]]\nname = \"db\"\nconcurrency = 60000\n{more}"
            );
            let setup = config::parse("t.toml", &text, &config::Flags::default()).unwrap();
            descriptors(&setup.gateway)
        };

        let called = files("url = \"http://h:1\"\nlisten = \"127.0.0.1:9101\"\n");

        assert!(files("") < 60_000);
        assert_eq!(called - files(""), 60_000 + 1_024);
    }

    #[test]
    fn a_room_takes_files_and_each_of_its_receivers_a_connection() {
        let files = |more: &str| {
            let text = format!("[[app]]\nupstream = \"http://127.0.0.1:1\"\nworkers = 4\n{more}");
            let setup = config::parse("t.toml", &text, &config::Flags::default()).unwrap();
            descriptors(&setup.gateway)
        };
        let hook = "[[room.webhook]]\nurl = \"http://h:1/\"\nsecret_file = \"s\"\n";
        let room = format!("[[room]]\nname = \"r\"\nkey_file = \"k\"\n{hook}{hook}");

        assert_eq!(files(&room) - files(""), DESCRIPTORS_OF_ROOM + 2);
    }

    #[test]
    fn a_learnt_limit_goes_no_further_than_its_connections() {
        let text = "[[app]]\nupstream = \"http://127.0.0.1:1\"\nhosts = [\"a\"]\nname = \"a\"\n\
                    [[app]]\nupstream = \"http://127.0.0.1:2\"\nworkers = 500\n";
        let mut plan = config::parse("t.toml", text, &config::Flags::default())
            .unwrap()
            .gateway;

        fit(&mut plan, 4096).unwrap();

        assert!(descriptors(&plan) <= 4096);
        let [learnt, stated] = &plan.apps[..] else {
            panic!("two applications");
        };
        assert_eq!(stated.upstream.connections_max.get(), 500);
        let Kind::Adaptive(settings) = learnt.limit else {
            panic!("adaptive by default");
        };
        assert_eq!(settings.bounds.max(), learnt.upstream.connections_max.get());
        assert!(settings.bounds.max() > 1000);
    }
}

//! From one strict TOML file, and flags that override it, to a checked [`Setup`].
//!
//! A configuration is refused as a whole, with every problem found in it; nothing starts on half of
//! one.

mod agent;
mod alone;
mod app;
mod balancer;
mod bulkheads;
mod dependency;
mod durability;
mod fault;
mod file;
mod files;
mod fleet;
mod keys;
mod limit;
mod listener;
mod local;
mod name;
mod problem;
mod rates;
mod rls;
mod room;
mod route;
mod section;
mod sessions;
mod sidecar;
mod store;
mod summary;
mod tree;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use tidegate_fleet::SidecarPlan;
use tidegate_gateway::dependency::DependencyPlan;
use tidegate_gateway::plan::{ListenerPlan, Plan};
use tidegate_http::local::Listen;
use tidegate_rls::RlsPlan;
use tidegate_store::redis::Use;
use toml::de::DeTable;

pub(crate) use agent::AgentSetup;
pub(crate) use balancer::BalancerPlan;
pub(crate) use durability::show as show_durability;
pub(crate) use fault::{Fault, faulty};
pub(crate) use file::read;
pub(crate) use fleet::FleetPlan;
pub(crate) use limit::capped;
use problem::Problems;
pub(crate) use problem::Refused;
use section::Section;
pub(crate) use section::closest;
pub(crate) use sessions::{KeyFile, Sessions};
pub(crate) use store::{Servers, Store, may_be_evicted};
pub(crate) use summary::kept::place;
pub(crate) use summary::rates::Said;
pub(crate) use summary::{Summary, farewell};
use tree::{Node, Origin, Table, Value, graft, subtable};

/// What the command line says; it overrides the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    pub(crate) upstream: Option<String>,
    pub(crate) listen: Option<String>,
    pub(crate) admin: Option<String>,
    pub(crate) workers: Option<u32>,
    pub(crate) threads: Option<u32>,
    pub(crate) mode: Option<String>,
}

/// What a configuration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// `tidegate run`.
    Gateway,
    /// `tidegate agent`, which carries no requests.
    Agent,
}

/// Everything that a file and flags say, checked.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The data path.
    pub(crate) gateway: Plan,
    /// The file that says how each of its waiting rooms looks, if one does.
    pub(crate) themes: Vec<Option<PathBuf>>,
    /// Where shared state is kept.
    pub(crate) store: Store,
    /// Sessions, if there are any.
    pub(crate) sessions: Option<Sessions>,
    /// What applications on this machine may ask, if they may.
    pub(crate) sidecar: Option<SidecarPlan>,
    /// What proxies that speak Envoy's protocol may ask, if they may.
    pub(crate) rls: Option<RlsPlan>,
    /// What this node is in its fleet, if it is in any.
    pub(crate) fleet: Option<FleetPlan>,
    /// What an agent looks at beside what the gateway knows, if it is to.
    pub(crate) agent: Option<AgentSetup>,
    /// What load balancers are told, and which are set.
    pub(crate) balancer: BalancerPlan,
}

/// The setup of a gateway that the file called `file` with content `text` and `flags` make together.
pub(crate) fn parse(file: &str, text: &str, flags: &Flags) -> Result<Setup, Refused> {
    parse_for(Role::Gateway, file, text, flags)
}

/// What the file is for: one without applications is an agent's.
pub(crate) fn role_of(text: &str) -> Role {
    let (document, _) = DeTable::parse_recoverable(text);
    match document.get_ref().contains_key("app") {
        true => Role::Gateway,
        false => Role::Agent,
    }
}

/// The same as [`parse`] for either.
pub(crate) fn parse_for(
    role: Role,
    file: &str,
    text: &str,
    flags: &Flags,
) -> Result<Setup, Refused> {
    let problems = Problems::default();
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in &errors {
            let span = error.span().unwrap_or_default();
            problems.add(
                &Origin::File(span),
                error.message(),
                syntax_help(error.message()),
            );
        }
        // What could be read of a broken file would only raise errors that are none.
        return Err(problems.refused(file, text));
    }
    let mut root = Node::of_document(&document);
    graft_flags(&mut root, flags, &problems);
    if role == Role::Agent {
        alone::prepare(&mut root, &problems);
    }
    let folder = Path::new(file).parent().unwrap_or_else(|| Path::new(""));
    let setup = setup(role, folder, &root, &problems);
    problems.unless_any(file, text, setup)
}

/// The tables of a configuration.
const TABLES: [&str; 18] = [
    "listen",
    "admin",
    "trust",
    "probes",
    "drain",
    "store",
    "sessions",
    "sidecar",
    "dependency",
    "limit",
    "network",
    "tokens",
    "rls",
    "room",
    "fleet",
    "agent",
    "balancer",
    "app",
];

/// What `root` says, whose paths begin in `folder`.
fn setup(role: Role, folder: &Path, root: &Node, problems: &Problems) -> Setup {
    let top = Section::new("the top level", root, keys::ROOT, &TABLES, problems);
    let section = |name, title, keys| section(&top, name, title, keys, problems);
    let (listener, admin) = listeners(role, &section);
    let own: Vec<_> = admin.into_iter().chain(listener.address).collect();
    let store = store::store(&top, app::workers_stated(&top), problems);
    let sessions = sessions::sessions(&top, &store, problems);
    let shares = Shares::of(&top, &store);
    let wanted = sessions.is_some() || top.has("dependency") || shares.in_fleet;
    let sidecar = sidecar::sidecar(&top, &own, wanted, problems);
    let beside = sidecar.as_ref().map(|sidecar| &sidecar.listen);
    let mut taken = own;
    taken.extend(beside.and_then(local::address));
    let dependencies = dependencies(&top, &mut taken, beside, &shares, problems);
    let rls = rls::rls(&top, &taken, &store, problems);
    taken.extend(rls.as_ref().map(|rls| rls.listen));
    let balancer = balancer::balancer(&top, &taken, problems);
    taken.extend(balancer.agent_check.as_ref().map(|agent| agent.listen));
    let trusted = listener::networks(&section("trust", "[trust]", keys::TRUST), "proxies");
    let around = app::Around {
        own: &taken,
        sessions: sessions.as_ref(),
        dependencies: &dependencies,
    };
    let mut apps = match role {
        Role::Gateway => app::apps(&top, &around, problems),
        Role::Agent => Vec::new(),
    };
    let around = room::Around {
        folder,
        sessions: sessions.as_ref(),
        store: &store,
    };
    let rooms = room::rooms(&top, &mut apps, &around, problems);
    let around = rates::Around {
        apps: &apps,
        sessions: sessions.is_some(),
        proxies: !trusted.is_empty(),
        in_fleet: shares.in_fleet,
        shares_limits: shares.limits,
        nodes: shares.nodes,
    };
    let gateway = Plan {
        threads: NonZeroUsize::new(top.count("threads") as usize).unwrap_or(NonZeroUsize::MIN),
        listener,
        admin,
        rates: rates::rates(&top, &around, problems),
        trusted,
        dependencies,
        probes: listener::probes(&section("probes", "[probes]", keys::PROBES)),
        drain: listener::drain(&section("drain", "[drain]", keys::DRAIN)),
        reports_load: balancer.load_reports,
        rooms: rooms.plans,
        apps,
    };
    Setup {
        gateway,
        themes: rooms.themes,
        store,
        sessions,
        sidecar,
        rls,
        fleet: fleet::fleet(&top, problems),
        agent: agent::agent(&top, problems),
        balancer,
    }
}

/// What gateways have in common.
struct Shares {
    /// Whether this one is a node of a fleet.
    in_fleet: bool,
    /// Whether they share a store of limits.
    limits: bool,
    /// How many of them there should be.
    nodes: u32,
}

impl Shares {
    fn of(top: &Section<'_>, store: &Store) -> Self {
        Self {
            in_fleet: fleet::is_in(top),
            limits: store.servers(Use::Limits).is_some(),
            nodes: top.count("limit_nodes"),
        }
    }
}

/// The dependencies, whose listeners are `taken` from then on.
fn dependencies(
    top: &Section<'_>,
    taken: &mut Vec<SocketAddr>,
    sidecar: Option<&Listen>,
    shares: &Shares,
    problems: &Problems,
) -> Vec<DependencyPlan> {
    let around = dependency::Around {
        own: taken,
        sidecar,
        in_fleet: shares.in_fleet,
        shares_limits: shares.limits,
        nodes: shares.nodes,
    };
    let dependencies = dependency::dependencies(top, &around, problems);
    let egresses = dependencies.iter().filter_map(|it| it.egress.as_ref());
    taken.extend(egresses.filter_map(|egress| local::address(&egress.listen)));
    dependencies
}

/// A section that need not be there.
fn section<'t>(
    top: &Section<'t>,
    name: &'static str,
    title: &str,
    keys: &'static [keys::Key],
    problems: &'t Problems,
) -> Section<'t> {
    match top.node(name) {
        Some(node) => Section::new(title, node, keys, &[], problems),
        None => Section::absent(title, keys, problems),
    }
}

/// Where clients and operators connect.
fn listeners<'t>(
    role: Role,
    section: &impl Fn(&'static str, &'static str, &'static [keys::Key]) -> Section<'t>,
) -> (ListenerPlan, Option<SocketAddr>) {
    let listen = section("listen", "[listen]", keys::LISTEN);
    let mut listener = listener::listener(&listen);
    if role == Role::Agent {
        listener.address = None;
    }
    let admin = section("admin", "[admin]", keys::ADMIN);
    let admin = listener::admin(&admin, &listen, listener.address);
    (listener, admin)
}

fn graft_flags(root: &mut Node, flags: &Flags, problems: &Problems) {
    let Some(table) = root.entries_mut() else {
        return;
    };
    if let Some(threads) = flags.threads {
        graft(
            table,
            "threads",
            "--threads",
            Value::Integer(threads.into()),
        );
    }
    for (section, flag, value) in [
        ("listen", "--listen", &flags.listen),
        ("admin", "--admin", &flags.admin),
    ] {
        if let Some(text) = value
            && let Some(section) = subtable(table, section, flag)
        {
            graft(section, "address", flag, Value::Text(text.clone()));
        }
    }
    graft_app_flags(table, flags, problems);
}

/// Flags about the application are about the only one, which they make if need be.
fn graft_app_flags(table: &mut Table, flags: &Flags, problems: &Problems) {
    let text = |text: &Option<String>| text.clone().map(Value::Text);
    let values = [
        ("upstream", "--upstream", text(&flags.upstream)),
        (
            "workers",
            "--workers",
            flags.workers.map(|workers| Value::Integer(workers.into())),
        ),
        ("mode", "--mode", text(&flags.mode)),
    ];
    for (key, flag, value) in values {
        let Some(value) = value else { continue };
        if !table.iter().any(|entry| entry.key == "app") {
            let app = Node {
                origin: Origin::Flag(flag),
                value: Value::Table(Table::new()),
            };
            graft(table, "app", flag, Value::List(vec![app]));
        }
        let apps = table
            .iter_mut()
            .find(|entry| entry.key == "app")
            .map(|entry| &mut entry.node.value);
        match apps {
            Some(Value::List(apps)) if apps.len() == 1 => {
                if let Some(app) = apps[0].entries_mut() {
                    graft(app, key, flag, value);
                }
            }
            Some(Value::List(apps)) => problems.add(
                &Origin::Flag(flag),
                format!(
                    "{flag} is about one application, but the file has {}",
                    apps.len()
                ),
                format!("set {key} in the file, in the [[app]] that it is for"),
            ),
            // Not a list: the reader says so.
            _ => {}
        }
    }
}

fn syntax_help(message: &str) -> &'static str {
    if message.contains("duplicate") {
        "each key and section may appear once: remove one of them"
    } else {
        "this is not TOML: texts stand in quotes, a section begins with [name], a list item with [[name]]"
    }
}

#[cfg(test)]
mod tests;

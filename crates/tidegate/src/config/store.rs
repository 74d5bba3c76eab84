//! Where shared state is kept: `[store]`, and what single uses have otherwise.

use std::path::PathBuf;

use tidegate_store::redis::{Address, Arrangement, Credentials, LanePlan, RedisPlan, Use};

use super::keys::sessions::{STORE, STORE_USE};
use super::problem::Problems;
use super::section::Section;
use super::tree::Origin;

/// Sentinels or members of a cluster that may be named; they name the others themselves.
const SERVERS_MAX: usize = 64;

const PORT: u16 = 6379;
const PORT_OF_SENTINELS: u16 = 26_379;

/// Keys that make sense only where a server is named.
const ABOUT_SERVERS: [&str; 12] = [
    "mode",
    "master",
    "username",
    "password_file",
    "sentinel_username",
    "sentinel_password_file",
    "database",
    "connect_timeout",
    "timeout",
    "connections",
    "durable_connections",
    "in_flight_max",
];

/// Where each use keeps its state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Store {
    /// The directory of what is kept on this machine.
    pub(crate) path: PathBuf,
    /// By position in [`Use::ALL`]; `None` in this process and a file.
    servers: [Option<Servers>; Use::ALL.len()],
    /// The uses that a section of their own is about.
    pub(crate) own: Vec<Use>,
}

/// Redis or Valkey, for one use. Passwords are in their files until somebody connects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Servers {
    pub(crate) plan: RedisPlan,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) sentinel_password_file: Option<PathBuf>,
}

/// Who we are, and where the password is.
type Identity = (Option<String>, Option<PathBuf>);

impl Store {
    /// The servers of `which`.
    pub(crate) const fn servers(&self, which: Use) -> Option<&Servers> {
        self.servers[which as usize].as_ref()
    }
}

/// Whether keys of `which` may go when memory runs short: the counter of a limit starts afresh, but a
/// session that is gone is somebody's cart.
pub(crate) const fn may_be_evicted(which: Use) -> bool {
    matches!(which, Use::Limits)
}

const fn title(which: Use) -> &'static str {
    match which {
        Use::Sessions => "[store.sessions]",
        Use::Limits => "[store.limits]",
        Use::Room => "[store.room]",
        Use::Bus => "[store.bus]",
    }
}

/// The section `[store]` of `root`. `workers` is how many requests the applications say that they
/// work on at once.
pub(crate) fn store(root: &Section<'_>, workers: u32, problems: &Problems) -> Store {
    let names = Use::ALL.map(Use::name);
    let section = match root.node("store") {
        Some(node) => Section::new("[store]", node, STORE, &names, problems),
        None => Section::absent("[store]", STORE, problems),
    };
    let shared = shared_servers(&section, workers);
    let mut store = Store {
        path: path(&section),
        servers: Use::ALL.map(|_| shared.clone()),
        own: Vec::new(),
    };
    for which in Use::ALL {
        if let Some(node) = section.node(which.name()) {
            let section = Section::new(title(which), node, STORE_USE, &[], problems);
            store.servers[which as usize] = own_servers(&section, shared.as_ref(), workers);
            store.own.push(which);
        }
    }
    store
}

fn path(section: &Section<'_>) -> PathBuf {
    let text = section.text_if_set("path");
    if text == Some("") && section.sound(&["path"]) {
        section.refuse(
            "path",
            "`path = \"\"` names no directory",
            "write a path such as \"/var/lib/tidegate\", or remove it",
        );
    }
    match text {
        Some(text) => PathBuf::from(text),
        // What systemd gives a unit with StateDirectory.
        None => std::env::var_os("STATE_DIRECTORY")
            .filter(|path| !path.is_empty())
            .map_or_else(|| PathBuf::from("tidegate-state"), PathBuf::from),
    }
}

fn shared_servers(section: &Section<'_>, workers: u32) -> Option<Servers> {
    let addresses = addresses(section);
    if addresses.is_empty() {
        refuse_what_needs_servers(section);
        return None;
    }
    let usual = usual(addresses[0].clone(), workers);
    Some(with_bounds(
        section,
        placed(section, usual, addresses),
        workers,
    ))
}

/// The servers of a use: its own, or those of `[store]` in another way.
fn own_servers(section: &Section<'_>, shared: Option<&Servers>, workers: u32) -> Option<Servers> {
    let addresses = addresses(section);
    let servers = match (addresses.first(), shared) {
        (Some(first), _) => {
            let usual = shared
                .cloned()
                .unwrap_or_else(|| usual(first.clone(), workers));
            placed(section, usual, addresses)
        }
        (None, Some(shared)) => with_what_differs(section, shared.clone()),
        (None, None) => {
            refuse_what_needs_servers(section);
            return None;
        }
    };
    Some(with_bounds(section, servers, workers))
}

fn usual(address: Address, workers: u32) -> Servers {
    Servers {
        plan: RedisPlan {
            lanes: LanePlan::for_workers(workers),
            ..RedisPlan::usual(Arrangement::Standalone(address))
        },
        password_file: None,
        sentinel_password_file: None,
    }
}

/// `servers` at `addresses` instead: with an arrangement, an identity and a database of their own.
fn placed(section: &Section<'_>, mut servers: Servers, addresses: Vec<Address>) -> Servers {
    let (user, file) = identity(section, "username", "password_file");
    servers.plan.credentials.user = user;
    servers.password_file = file;
    let (user, file) = identity(section, "sentinel_username", "sentinel_password_file");
    servers.sentinel_password_file = file;
    servers.plan.arrangement = arrangement(section, addresses, user);
    servers.plan.database = section.count_if_set("database").unwrap_or(0);
    refuse_database_of_cluster(section, &servers.plan);
    servers
}

/// A use of the servers of `[store]` may have another database and another user there.
fn with_what_differs(section: &Section<'_>, mut servers: Servers) -> Servers {
    for key in [
        "mode",
        "master",
        "sentinel_username",
        "sentinel_password_file",
    ] {
        if section.has(key) && section.sound(&[key]) {
            section.refuse(
                key,
                format!("`{key}` is about servers that are named elsewhere"),
                format!("name servers beside it with url or urls, or set {key} in [store]"),
            );
        }
    }
    if let Some(number) = section.count_if_set("database") {
        servers.plan.database = number;
        refuse_database_of_cluster(section, &servers.plan);
    }
    if section.has("username") || section.has("password_file") {
        let (user, file) = identity(section, "username", "password_file");
        servers.plan.credentials.user = user;
        servers.password_file = file;
    }
    servers
}

fn with_bounds(section: &Section<'_>, mut servers: Servers, workers: u32) -> Servers {
    let plan = &mut servers.plan;
    if let Some(span) = section.span_if_set("connect_timeout") {
        plan.connect_timeout = span;
    }
    if let Some(span) = section.span_if_set("timeout") {
        plan.operation_timeout = span;
    }
    if let Some(count) = section.count_if_set("connections") {
        plan.lanes.fast = u8::try_from(count).unwrap_or(u8::MAX);
    }
    if let Some(count) = section.count_if_set("durable_connections") {
        plan.lanes.durable_max = count;
    }
    if let Some(count) = section.count_if_set("in_flight_max") {
        plan.lanes.fast_in_flight_max = count;
        let in_all = count.saturating_mul(plan.lanes.fast.into());
        if in_all < workers && section.sound(&["in_flight_max", "connections"]) {
            section.refuse(
                "in_flight_max",
                format!(
                    "`in_flight_max = {count}` on {} connections is less than the {workers} workers of the \
                     applications",
                    plan.lanes.fast
                ),
                format!(
                    "each worker may wait for its session: write {workers}, so that one connection takes \
                     them all, or remove it"
                ),
            );
        }
    }
    servers
}

fn arrangement(
    section: &Section<'_>,
    mut addresses: Vec<Address>,
    sentinel_user: Option<String>,
) -> Arrangement {
    let choice = section.choice("mode").unwrap_or("standalone");
    let primary = section.text_if_set("master");
    if choice == "sentinel" {
        return Arrangement::Sentinel {
            sentinels: addresses,
            primary: sentinel_name(section, primary),
            credentials: Credentials {
                user: sentinel_user,
                password: None,
            },
        };
    }
    for key in ["master", "sentinel_username", "sentinel_password_file"] {
        if section.has(key) && section.sound(&[key, "mode"]) {
            section.refuse(
                key,
                format!("`{key}` has no effect: there are no Sentinels"),
                format!(
                    "remove {key}, or write mode = \"sentinel\" and the addresses of the Sentinels"
                ),
            );
        }
    }
    if choice == "cluster" {
        return Arrangement::Cluster(addresses);
    }
    if addresses.len() > 1 && section.sound(&["mode", "urls"]) {
        section.refuse(
            "urls",
            format!("{} servers, but a standalone one is one", addresses.len()),
            "write mode = \"cluster\" for members of a cluster, or mode = \"sentinel\" with master for \
             Sentinels",
        );
    }
    Arrangement::Standalone(addresses.swap_remove(0))
}

fn sentinel_name(section: &Section<'_>, name: Option<&str>) -> String {
    let text = name.unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (text.is_empty() || !text.chars().all(plain)) && section.sound(&["master"]) {
        section.refuse(
            "master",
            match name {
                None => "`mode = \"sentinel\"` needs `master`".to_owned(),
                Some(name) => format!("`master = \"{name}\"` is no name that Sentinels have"),
            },
            "write what the Sentinels call it: master = \"mymaster\", say",
        );
    }
    text.to_owned()
}

fn identity(section: &Section<'_>, user: &'static str, file: &'static str) -> Identity {
    let (name, path) = (section.text_if_set(user), section.text_if_set(file));
    if name == Some("") && section.sound(&[user]) {
        section.refuse(
            user,
            format!("`{user} = \"\"` names nobody"),
            "write the name, or remove it for the default user",
        );
    }
    if path.is_some_and(|path| path.is_empty() || path.ends_with('/')) && section.sound(&[file]) {
        section.refuse(
            file,
            format!("`{file} = \"{}\"` names no file", path.unwrap_or_default()),
            "write a path such as \"/etc/tidegate/store.password\"",
        );
    }
    if name.is_some() && path.is_none() && section.sound(&[user]) {
        section.refuse(
            user,
            format!("`{user}` needs `{file}`"),
            format!(
                "put the password into a file that only Tidegate can read: {file} = \
                 \"/etc/tidegate/store.password\", say"
            ),
        );
    }
    (name.map(str::to_owned), path.map(PathBuf::from))
}

fn refuse_database_of_cluster(section: &Section<'_>, plan: &RedisPlan) {
    let is_cluster = matches!(plan.arrangement, Arrangement::Cluster(_));
    if is_cluster && plan.database != 0 && section.sound(&["database", "mode"]) {
        section.refuse(
            "database",
            format!(
                "`database = {}`, but a cluster has database 0 only",
                plan.database
            ),
            "remove database",
        );
    }
}

fn refuse_what_needs_servers(section: &Section<'_>) {
    if !section.sound(&["url", "urls"]) {
        return;
    }
    for key in ABOUT_SERVERS {
        if section.has(key) && section.sound(&[key]) {
            section.refuse(
                key,
                format!("`{key}` has no effect: no server is named"),
                format!("add url = \"redis://127.0.0.1:6379\", say, or remove {key}"),
            );
        }
    }
}

fn addresses(section: &Section<'_>) -> Vec<Address> {
    let mut texts: Vec<(&'static str, &str, &Origin)> = section
        .texts("urls")
        .into_iter()
        .map(|(text, place)| ("urls", text, place))
        .collect();
    if let Some(text) = section.text_if_set("url") {
        if section.has("urls") {
            section.refuse(
                "url",
                "`url` and `urls` say the same thing twice",
                "put it into urls",
            );
        } else if section.sound(&["url"]) {
            texts.push(("url", text, section.place("url")));
        }
    } else if section.has("urls") && texts.is_empty() && section.sound(&["urls"]) {
        section.refuse(
            "urls",
            "`urls = []` names no server",
            "write urls = [\"redis://10.0.0.1:6379\"], say, or remove it",
        );
    }
    if texts.len() > SERVERS_MAX {
        section.refuse(
            "urls",
            format!("{} servers", texts.len()),
            format!("write at most {SERVERS_MAX}: they name the others themselves"),
        );
        texts.truncate(SERVERS_MAX);
    }
    let default_port = match section.text_if_set("mode") {
        Some("sentinel") => PORT_OF_SENTINELS,
        _ => PORT,
    };
    texts
        .into_iter()
        .filter_map(|(key, text, place)| {
            let refused = match address(text, default_port) {
                Ok(address) => return Some(address),
                Err(refused) => refused,
            };
            section.refuse_item(key, place, format!("`{text}` {}", refused.0), refused.1);
            None
        })
        .collect()
}

/// The server at `text`, or why it is none and what to write.
fn address(text: &str, default_port: u16) -> Result<Address, (&'static str, &'static str)> {
    const EXAMPLE: &str = "write scheme, host and port, such as \"redis://10.0.0.1:6379\"";
    if text.starts_with("rediss://") {
        return Err((
            "asks for TLS to the store, which comes later",
            "write a redis:// address on a network of your own, or of a tunnel's end on this machine",
        ));
    }
    if text.starts_with("unix:") || text.starts_with("redis+unix:") {
        return Err((
            "is a socket, which comes later",
            "let the server listen on this machine: \"redis://127.0.0.1:6379\"",
        ));
    }
    let rest = text
        .strip_prefix("redis://")
        .or_else(|| text.strip_prefix("valkey://"))
        .ok_or(("is no redis:// address", EXAMPLE))?;
    if rest.contains('@') {
        return Err((
            "carries credentials",
            "set username and password_file instead: more people read a configuration than should know \
             a password",
        ));
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#']) {
        return Err((
            "has more than host and port",
            "write scheme, host and port only; the number of a database goes into database",
        ));
    }
    let has_port = rest
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.contains(']'));
    let with_port = if has_port {
        rest.to_owned()
    } else {
        format!("{rest}:{default_port}")
    };
    Address::parse(&with_port).map_err(|_| ("has no usable host and port", EXAMPLE))
}

#[cfg(test)]
mod tests;

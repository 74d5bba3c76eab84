//! Asks servers for what an operator should know before they hold sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redis::{Cmd, Value, cmd};

use super::link::{Greeting, Link, field, text};
use super::plan::{Address, Arrangement, RedisPlan};

/// Settings that are asked for.
const SETTINGS: [&str; 10] = [
    "appendfsync",
    "appendonly",
    "cluster-require-full-coverage",
    "hash-max-listpack-entries",
    "hash-max-listpack-value",
    "maxmemory",
    "maxmemory-policy",
    "min-replicas-max-lag",
    "min-replicas-to-write",
    "repl-backlog-size",
];

/// Servers that are asked at most; an arrangement that has more is alike everywhere.
const SERVERS_MAX: usize = 64;

/// What was learnt of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Where it is.
    pub address: Address,
    /// What it says of itself, or why it says nothing.
    pub found: Result<Found, String>,
}

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// `redis` or `valkey`.
    pub product: String,
    /// Its version as it writes it.
    pub version: String,
    /// `master` or `slave`.
    pub role: String,
    /// Replicas that are connected to it.
    pub replicas: u32,
    /// Keys that went since its start because memory was short.
    pub evicted_keys: u64,
    /// Settings by name; what it does not tell is not there.
    pub settings: BTreeMap<String, String>,
}

/// Asks the servers of `plan`, those that Sentinels or a cluster name included. Waits for each at
/// most `within`.
pub async fn inspect(plan: &RedisPlan, within: Duration) -> Vec<Inspection> {
    let mut inspections = Vec::new();
    let addresses: BTreeSet<Address> = match &plan.arrangement {
        Arrangement::Standalone(address) => [address.clone()].into(),
        Arrangement::Sentinel {
            sentinels,
            primary,
            credentials,
        } => {
            let greeting = Greeting::sentinel(credentials);
            let mut known = BTreeSet::new();
            for sentinel in sentinels {
                match of_sentinel(sentinel, &greeting, primary, within).await {
                    Ok(addresses) => known.extend(addresses),
                    Err(why) => inspections.push(Inspection {
                        address: sentinel.clone(),
                        found: Err(why),
                    }),
                }
            }
            known
        }
        Arrangement::Cluster(members) => {
            let mut known: BTreeSet<Address> = members.iter().cloned().collect();
            for member in members {
                if let Ok(addresses) = of_cluster(member, plan, within).await {
                    known.extend(addresses);
                    break;
                }
            }
            known
        }
    };
    let greeting = Greeting::of(plan);
    for address in addresses.into_iter().take(SERVERS_MAX) {
        let found = ask(&address, &greeting, within).await;
        inspections.push(Inspection { address, found });
    }
    inspections
}

async fn dial(address: &Address, greeting: &Greeting, within: Duration) -> Result<Link, String> {
    Link::dial_any(address, greeting, within)
        .await
        .map_err(|error| error.to_string())
}

async fn send(link: &Link, command: &Cmd, within: Duration) -> Result<Value, String> {
    match tokio::time::timeout(within, link.send(command)).await {
        Err(_) => Err("no answer in time".to_owned()),
        Ok(Err(broken)) => Err(broken),
        Ok(Ok(Value::ServerError(error))) => Err(format!("{error:?}")),
        Ok(Ok(value)) => Ok(value),
    }
}

async fn ask(address: &Address, greeting: &Greeting, within: Duration) -> Result<Found, String> {
    let link = dial(address, greeting, within).await?;
    let info = send(&link, &cmd("INFO"), within).await?;
    let number = |name| field(&info, name).parse().unwrap_or_default();
    let valkey = field(&info, "valkey_version");
    let (product, version) = if valkey.is_empty() {
        ("redis", field(&info, "redis_version"))
    } else {
        ("valkey", valkey)
    };
    let mut settings = BTreeMap::new();
    for name in SETTINGS {
        let mut get = cmd("CONFIG");
        get.arg("GET").arg(name);
        // Where it is forbidden, as in many a hosted service, the others are too.
        let Ok(value) = send(&link, &get, within).await else {
            break;
        };
        if let Some(value) = pairs(&value).remove(name) {
            settings.insert(name.to_owned(), value);
        }
    }
    Ok(Found {
        product: product.to_owned(),
        version,
        role: field(&info, "role"),
        replicas: u32::try_from(number("connected_slaves")).unwrap_or_default(),
        evicted_keys: number("evicted_keys"),
        settings,
    })
}

/// The primary and its replicas, as a Sentinel knows them.
async fn of_sentinel(
    sentinel: &Address,
    greeting: &Greeting,
    primary: &str,
    within: Duration,
) -> Result<Vec<Address>, String> {
    let link = dial(sentinel, greeting, within).await?;
    let mut get = cmd("SENTINEL");
    get.arg("GET-MASTER-ADDR-BY-NAME").arg(primary);
    let said = send(&link, &get, within).await?;
    let [host, port] = texts(&said)
        .try_into()
        .map_err(|_| format!("it knows no master \"{primary}\""))?;
    let mut addresses =
        vec![address(&host, &port).ok_or("it says where the master is, but oddly")?];
    let mut get = cmd("SENTINEL");
    get.arg("REPLICAS").arg(primary);
    if let Value::Array(replicas) = send(&link, &get, within).await? {
        for replica in &replicas {
            let said = pairs(replica);
            let place = said.get("ip").zip(said.get("port"));
            addresses.extend(place.and_then(|(host, port)| address(host, port)));
        }
    }
    Ok(addresses)
}

/// The members of the cluster that `member` is in.
async fn of_cluster(
    member: &Address,
    plan: &RedisPlan,
    within: Duration,
) -> Result<Vec<Address>, String> {
    let link = dial(member, &Greeting::of(plan), within).await?;
    let mut nodes = cmd("CLUSTER");
    nodes.arg("NODES");
    let said = send(&link, &nodes, within).await?;
    let lines = text(&said).unwrap_or_default().lines();
    let addresses = lines.filter_map(|line| {
        // ID HOST:PORT@BUS[,NAME] FLAGS …
        let place = line.split(' ').nth(1)?.split('@').next()?;
        let (host, port) = place.rsplit_once(':')?;
        // A member that does not know its own address is the one that was asked.
        address(if host.is_empty() { &member.host } else { host }, port)
    });
    Ok(addresses.collect())
}

fn address(host: &str, port: &str) -> Option<Address> {
    let port = port.parse().ok().filter(|port| *port != 0)?;
    (!host.is_empty()).then(|| Address {
        host: host.to_owned(),
        port,
    })
}

/// The texts in a list.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(parts) => parts.iter().filter_map(text).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// The names and values of a list in which they take turns.
fn pairs(value: &Value) -> BTreeMap<String, String> {
    let texts = texts(value);
    texts
        .chunks_exact(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect()
}

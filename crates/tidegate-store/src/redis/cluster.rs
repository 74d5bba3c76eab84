//! Which shard of a Cluster has which slot, as its nodes see it.
//!
//! Every node that is known is asked now and then, and at once when a call is sent elsewhere or
//! fails; the answer of the highest epoch counts. A shard stays the same shard, with its breaker,
//! when another of its nodes becomes the primary.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::link::{Link, field, text};
use super::map::{Map, Part};
use super::plan::Address;
use super::redo::Ring;
use super::script::Known;
use super::servers::seed;
use super::shard::{CANARY, Common, Shard};
use super::slot::{SLOTS, slot_of};
use super::supervisor::Supervisor;

/// How often nodes are asked while all is well.
const ASK_INTERVAL: Duration = Duration::from_secs(5);
/// How often they are asked while a shard is away.
const URGENT_INTERVAL: Duration = Duration::from_millis(100);
/// The least time between two rounds, however often calls fail or are sent elsewhere.
const REST: Duration = Duration::from_millis(20);
/// Longest wait for a node.
const TIMEOUT: Duration = Duration::from_millis(200);
/// Most nodes that are asked.
const NODES_MAX: usize = 64;
/// Most shards that are used.
const SHARDS_MAX: usize = 1_000;

/// Keeps the map of a Cluster.
pub(super) struct Mapper {
    common: Arc<Common>,
    map: watch::Sender<Arc<Map>>,
    ring: Arc<Ring>,
    scripts: Arc<Known>,
    seeds: Vec<Address>,
    links: BTreeMap<Address, Link>,
    members: Vec<Member>,
    epoch: u64,
}

/// A shard and its nodes. Dropping it ends its supervisor.
struct Member {
    shard: Arc<Shard>,
    nodes: BTreeSet<Address>,
    supervisor: AbortHandle,
}

/// What a node says.
struct View {
    epoch: u64,
    groups: Vec<Group>,
}

/// The slots of one primary.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    primary: Address,
    nodes: BTreeSet<Address>,
    ranges: Vec<RangeInclusive<u16>>,
}

impl Mapper {
    pub(super) fn new(
        common: Arc<Common>,
        map: watch::Sender<Arc<Map>>,
        ring: Arc<Ring>,
        scripts: Arc<Known>,
        seeds: &[Address],
    ) -> Self {
        Self {
            common,
            map,
            ring,
            scripts,
            seeds: seeds.to_vec(),
            links: BTreeMap::new(),
            members: Vec::new(),
            epoch: 0,
        }
    }

    /// Runs until it is aborted.
    pub(super) async fn run(mut self) {
        loop {
            if let Some(view) = self.ask_all().await
                && view.epoch >= self.epoch
            {
                self.epoch = view.epoch;
                self.take(view.groups);
            }
            let well = |member: &Member| member.shard.passes();
            let all_well = !self.members.is_empty() && self.members.iter().all(well);
            let interval = if all_well {
                ASK_INTERVAL
            } else {
                URGENT_INTERVAL
            };
            let next = Instant::now() + interval;
            sleep(REST).await;
            tokio::select! {
                () = self.common.look_again.notified() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Asks every node that is known; what the one says that knows the latest.
    async fn ask_all(&mut self) -> Option<View> {
        let known = self.members.iter().flat_map(|member| &member.nodes);
        let nodes: BTreeSet<Address> = known.chain(&self.seeds).cloned().collect();
        let mut asking = JoinSet::new();
        for node in nodes.into_iter().take(NODES_MAX) {
            let link = self.links.remove(&node);
            let common = Arc::clone(&self.common);
            asking.spawn(async move { ask(node, link, &common).await });
        }
        // Connections to nodes that are none any more.
        self.links.clear();
        let mut latest: Option<View> = None;
        for (node, asked) in asking.join_all().await {
            let Some((link, view)) = asked else { continue };
            self.links.insert(node, link);
            if latest
                .as_ref()
                .is_none_or(|latest| view.epoch > latest.epoch)
            {
                latest = Some(view);
            }
        }
        latest
    }

    fn take(&mut self, groups: Vec<Group>) {
        let mut before = std::mem::take(&mut self.members);
        let mut parts = Vec::with_capacity(groups.len());
        for group in groups.into_iter().take(SHARDS_MAX) {
            let mut member = match same_shard(&before, &group.primary) {
                Some(position) => before.swap_remove(position),
                None => self.new_member(),
            };
            member.nodes = group.nodes;
            member.shard.try_with(canary(&group.ranges));
            member.shard.point_to(&group.primary);
            parts.push(Part {
                shard: Arc::clone(&member.shard),
                ranges: group.ranges,
            });
            self.members.push(member);
        }
        self.map.send_replace(Arc::new(Map::of(parts)));
    }

    fn new_member(&self) -> Member {
        let shard = Arc::new(Shard::new(Arc::clone(&self.common), seed()));
        let supervisor = Supervisor {
            shard: Arc::clone(&shard),
            map: self.map.subscribe(),
            ring: Arc::clone(&self.ring),
            scripts: Arc::clone(&self.scripts),
        };
        Member {
            shard,
            nodes: BTreeSet::new(),
            supervisor: self.common.runtime.spawn(supervisor.run()).abort_handle(),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

fn same_shard(before: &[Member], primary: &Address) -> Option<usize> {
    let leads = |member: &Member| member.shard.target.borrow().as_ref() == Some(primary);
    let has = |member: &Member| member.nodes.contains(primary);
    let leading = before.iter().position(leads);
    leading.or_else(|| before.iter().position(has))
}

async fn ask(
    node: Address,
    link: Option<Link>,
    common: &Common,
) -> (Address, Option<(Link, View)>) {
    let asking = async {
        let link = match link {
            Some(link) => link,
            None => Link::dial_any(&node, &common.greeting, TIMEOUT)
                .await
                .ok()?,
        };
        let mut both = redis::pipe();
        both.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
        let said = link.send_all(&both).await.ok()?;
        let [info, slots] = said.as_slice() else {
            return None;
        };
        let epoch = field(info, "cluster_current_epoch").parse().ok()?;
        let groups = groups(slots, &node)?;
        (!groups.is_empty()).then_some((link, View { epoch, groups }))
    };
    let asked = timeout(TIMEOUT, asking).await.ok().flatten();
    (node, asked)
}

/// The answer to `CLUSTER SLOTS` of the node at `asked`.
fn groups(slots: &Value, asked: &Address) -> Option<Vec<Group>> {
    let Value::Array(ranges) = slots else {
        return None;
    };
    let mut groups: BTreeMap<Address, Group> = BTreeMap::new();
    for range in ranges {
        let Value::Array(parts) = range else {
            return None;
        };
        let [Value::Int(first), Value::Int(last), nodes @ ..] = parts.as_slice() else {
            return None;
        };
        let range = u16::try_from(*first).ok()?..=u16::try_from(*last).ok()?;
        let nodes: Vec<Address> = nodes
            .iter()
            .map(|node| address(node, asked))
            .collect::<Option<_>>()?;
        let primary = nodes.first()?.clone();
        let group = groups.entry(primary.clone()).or_insert_with(|| Group {
            primary,
            nodes: BTreeSet::new(),
            ranges: Vec::new(),
        });
        group.nodes.extend(nodes);
        group.ranges.push(range);
    }
    Some(groups.into_values().collect())
}

/// A node is its host, its port and more. A node that does not know its own host leaves it out.
fn address(node: &Value, asked: &Address) -> Option<Address> {
    let Value::Array(parts) = node else {
        return None;
    };
    let [host, Value::Int(port), ..] = parts.as_slice() else {
        return None;
    };
    let host = text(host).filter(|host| !host.is_empty() && *host != "?");
    Some(Address {
        host: host.unwrap_or(&asked.host).to_owned(),
        port: u16::try_from(*port).ok()?,
    })
}

/// A key in one of `ranges`.
fn canary(ranges: &[RangeInclusive<u16>]) -> String {
    let fits = |key: &String| {
        let slot = slot_of(key.as_bytes());
        ranges.iter().any(|range| range.contains(&slot))
    };
    // A shard with a single slot takes some twenty thousand looks.
    let keys = (0..u32::from(SLOTS) * 32).map(|number| format!("{CANARY}:{number}"));
    let mut fitting = keys.filter(fits);
    fitting.next().unwrap_or_else(|| CANARY.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: i64) -> Value {
        let host = Value::BulkString(host.as_bytes().to_vec());
        Value::Array(vec![host, Value::Int(port), Value::Nil])
    }

    #[test]
    fn a_shard_has_all_ranges_of_its_primary_and_all_their_nodes() {
        let asked = Address::parse("here:7000").unwrap();
        let range = |first, last, nodes: Vec<Value>| {
            let mut parts = vec![Value::Int(first), Value::Int(last)];
            parts.extend(nodes);
            Value::Array(parts)
        };
        let slots = Value::Array(vec![
            range(0, 99, vec![node("", 7000), node("b", 7001)]),
            range(100, 199, vec![node("b", 7002)]),
            range(200, 16_383, vec![node("here", 7000)]),
        ]);

        let groups = groups(&slots, &asked).unwrap();

        let primaries: Vec<_> = groups.iter().map(|it| it.primary.to_string()).collect();
        assert_eq!(primaries, ["b:7002", "here:7000"]);
        assert_eq!(groups[1].ranges, [0..=99, 200..=16_383]);
        assert_eq!(groups[1].nodes.len(), 2);
    }

    #[test]
    fn the_key_that_is_tried_is_the_shards_own() {
        for range in [0..=5_460, 16_383..=16_383] {
            let slot = slot_of(canary(std::slice::from_ref(&range)).as_bytes());
            assert!(range.contains(&slot));
        }
    }
}

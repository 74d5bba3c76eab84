//! Beacons, what was published about them, and orders.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::cmd;
use tidegate_core::session::Name;
use tidegate_core::time::Wall;

use super::fleet::{FULL, SUPERSEDED};
use super::replies::{self, DONE, Elements};
use super::sessions::millis;
use super::{Lane, Redis, Run, keys, scripts};
use crate::Call;
use crate::beacons::{
    BEACON_LEASE_MAX, BEACONS_MAX, Beacon, Beacons, Decided, Heard, Issue, LEADERSHIP, Mine,
    ODD_NAME_CHARS_MAX, Order, PUBLISHED_KEPT, Posted, Published, Stamp,
};
use crate::error::StoreError;
use crate::lease::Fence;
use crate::members::Node;

/// A later leader is known.
const OUTRANKED: i64 = -1;

/// Before a node's name in the hash of verdicts, where the leader's own fields are too.
const NODE: &str = "n:";

impl Redis {
    pub(crate) async fn post_beacon(
        &self,
        node: &Node,
        said: &[u8],
        lease: Duration,
        is_first: bool,
        call: Call,
    ) -> Result<Posted, StoreError> {
        let run = Run::of(&scripts::BEACON)
            .key(keys::BEACONS)
            .key(keys::VERDICTS)
            .key(leadership())
            .arg(node.id.as_str())
            .number(node.incarnation)
            .number(millis(lease))
            .number(u8::from(is_first))
            .number(BEACONS_MAX)
            .arg(said);
        let reply = self.servers.run(&run, Lane::Fast, call).await?;
        let mut elements = Elements::of("beacon", reply)?;
        match elements.integer()? {
            DONE => Ok(Posted::Heard(Heard {
                now: elements.now()?,
                leader_left: Duration::from_millis(elements.natural()?),
                mine: mine(&mut elements)?,
            })),
            SUPERSEDED => Ok(Posted::Superseded),
            FULL => Ok(Posted::Full),
            _ => Err(elements.odd()),
        }
    }

    pub(crate) async fn beacons(&self, call: Call) -> Result<Beacons, StoreError> {
        let run = Run::of(&scripts::BEACONS)
            .key(keys::BEACONS)
            .key(keys::ORDERS);
        let reply = self.servers.run(&run, Lane::Bulk, call).await?;
        let mut elements = Elements::of("beacons", reply)?;
        let now = elements.now()?;
        let mut living = elements.nested()?;
        let mut ordered = elements.nested()?;
        let (mut beacons, mut orders, mut odd) = (Vec::new(), Vec::new(), Vec::new());
        while !living.is_empty() {
            let entry = Entry::read(&mut living)?;
            match entry.beacon(now) {
                Some(beacon) => beacons.push(beacon),
                None => odd.push(entry.title()),
            }
        }
        beacons.sort_by(|one, other| one.node.cmp(&other.node));
        while !ordered.is_empty() {
            let entry = Entry::read(&mut ordered)?;
            match entry.order() {
                Some(order) => orders.push(order),
                None => odd.push(entry.title()),
            }
        }
        orders.sort_by(|one, other| one.node.cmp(&other.node));
        odd.sort_unstable();
        Ok(Beacons {
            now,
            beacons,
            orders,
            odd,
        })
    }

    pub(crate) async fn publish(
        &self,
        decided: &Decided,
        valid: Duration,
        call: Call,
    ) -> Result<Published, StoreError> {
        let mut run = Run::of(&scripts::PUBLISH)
            .key(keys::VERDICTS)
            .key(leadership())
            .number(decided.fence.0)
            .number(decided.generation)
            .number(millis(valid))
            .number(millis(PUBLISHED_KEPT))
            .arg(decided.fleet.as_slice());
        for (node, verdict) in &decided.verdicts {
            run = run.arg(format!("{NODE}{node}")).arg(verdict.as_slice());
        }
        let reply = self.servers.run(&run, Lane::Bulk, call).await?;
        let mut elements = Elements::of("publish", reply)?;
        match elements.integer()? {
            DONE => Ok(Published::Done {
                now: elements.now()?,
            }),
            OUTRANKED => Ok(Published::Outranked {
                by: Fence(elements.natural()?),
            }),
            _ => Err(elements.odd()),
        }
    }

    pub(crate) async fn published(&self, call: Call) -> Result<Option<Issue>, StoreError> {
        let run = Run::of(&scripts::VERDICTS).key(keys::VERDICTS);
        let reply = self.servers.run(&run, Lane::Bulk, call).await?;
        let mut elements = Elements::of("verdicts", reply)?;
        let now = elements.now()?;
        let mut pairs = elements.nested()?;
        let mut own = BTreeMap::new();
        let mut verdicts = BTreeMap::new();
        while !pairs.is_empty() {
            let (field, value) = (pairs.text()?, pairs.bytes()?);
            match field.strip_prefix(NODE) {
                // What is no node's is nobody's word: the leader takes it out with the next that it publishes.
                Some(node) => {
                    if let Ok(node) = Name::new(node) {
                        verdicts.insert(node, value);
                    }
                }
                None => {
                    own.insert(field, value);
                }
            }
        }
        if own.is_empty() {
            return Ok(None);
        }
        let number = |field: &str| {
            let digits = own.get(field).and_then(|value| str::from_utf8(value).ok());
            let number = digits.and_then(|digits| digits.parse::<u64>().ok());
            number.ok_or_else(|| elements.odd())
        };
        Ok(Some(Issue {
            now,
            stamp: Stamp {
                fence: Fence(number("fence")?),
                generation: number("generation")?,
                at: replies::wall(number("at")?),
                until: replies::wall(number("until")?),
            },
            fleet: own.get("fleet").cloned().unwrap_or_default(),
            verdicts,
        }))
    }

    pub(crate) async fn order(
        &self,
        node: &Name,
        said: &[u8],
        span: Option<Duration>,
        call: Call,
    ) -> Result<bool, StoreError> {
        // Nothing less than a millisecond: 0 would hold for ever.
        let span_ms = span.map_or(0, |span| millis(span).max(1));
        let run = Run::of(&scripts::ORDER)
            .key(keys::ORDERS)
            .arg(node.as_str())
            .number(span_ms)
            .number(BEACONS_MAX)
            .arg(said);
        let reply = self.servers.run(&run, Lane::Fast, call).await?;
        let mut elements = Elements::of("order", reply)?;
        Ok(elements.integer()? == DONE)
    }

    pub(crate) async fn take_order_back(
        &self,
        node: &Name,
        call: Call,
    ) -> Result<bool, StoreError> {
        let mut command = cmd("HDEL");
        command.arg(keys::ORDERS).arg(node.as_str());
        let key = keys::ORDERS.as_bytes();
        let reply = self.servers.command(key, &command, Lane::Fast, call);
        replies::flag("HDEL", &reply.await?)
    }
}

/// An entry of one of the hashes that all nodes read, its four parts told apart. Anybody may write there: one that makes
/// no sense must not keep the others from being read.
struct Entry {
    name: Vec<u8>,
    numbers: [Vec<u8>; 2],
    said: Vec<u8>,
}

impl Entry {
    fn read(elements: &mut Elements) -> Result<Self, StoreError> {
        Ok(Self {
            name: elements.bytes()?,
            numbers: [elements.bytes()?, elements.bytes()?],
            said: elements.bytes()?,
        })
    }

    /// As a beacon: a node, its incarnation, when it came in milliseconds. `None` when it is none, or comes from so far
    /// ahead of `now` that it would count for ever.
    fn beacon(&self, now: Wall) -> Option<Beacon> {
        let [incarnation, at] = &self.numbers;
        let at = replies::wall(natural(at)?);
        (at.since(now) <= BEACON_LEASE_MAX).then_some(Beacon {
            node: Node {
                id: self.node()?,
                incarnation: natural(incarnation)?,
            },
            at,
            said: self.said.clone(),
        })
    }

    /// As an order: a node, since and until when in milliseconds, 0 until it is taken back.
    fn order(&self) -> Option<Order> {
        let [since, until] = &self.numbers;
        Some(Order {
            node: self.node()?,
            since: replies::wall(natural(since)?),
            until: Some(replies::wall(natural(until)?)).filter(|it| *it != Wall::default()),
            said: self.said.clone(),
        })
    }

    fn node(&self) -> Option<Name> {
        Name::new(str::from_utf8(&self.name).ok()?).ok()
    }

    /// What it is called, for people.
    fn title(&self) -> String {
        let name = String::from_utf8_lossy(&self.name);
        name.chars().take(ODD_NAME_CHARS_MAX).collect()
    }
}

fn natural(digits: &[u8]) -> Option<u64> {
    str::from_utf8(digits).ok()?.parse().ok()
}

fn leadership() -> String {
    keys::lead(&Name::new(LEADERSHIP).expect("it is a name"))
}

fn mine(elements: &mut Elements) -> Result<Option<Mine>, StoreError> {
    let Some(fence) = elements.optional_natural()? else {
        return Ok(None);
    };
    Ok(Some(Mine {
        stamp: Stamp {
            fence: Fence(fence),
            generation: elements.natural()?,
            at: elements.time()?,
            until: elements.time()?,
        },
        fleet: elements.bytes()?,
        verdict: elements.optional()?,
    }))
}

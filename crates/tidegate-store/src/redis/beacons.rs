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
    BEACONS_MAX, Beacon, Beacons, Decided, Heard, Issue, LEADERSHIP, Mine, Order, PUBLISHED_KEPT,
    Posted, Published, Stamp,
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
        let mut beacons = Vec::new();
        while !living.is_empty() {
            beacons.push(Beacon {
                node: super::fleet::node_of(&mut living)?,
                at: living.time()?,
                said: living.bytes()?,
            });
        }
        beacons.sort_by(|one, other| one.node.cmp(&other.node));
        let mut orders = Vec::new();
        while !ordered.is_empty() {
            orders.push(Order {
                node: name_of(&ordered.text()?, &elements)?,
                since: ordered.time()?,
                until: Some(ordered.time()?).filter(|until| *until != Wall::default()),
                said: ordered.bytes()?,
            });
        }
        orders.sort_by(|one, other| one.node.cmp(&other.node));
        Ok(Beacons {
            now,
            beacons,
            orders,
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
                Some(node) => verdicts.insert(name_of(node, &elements)?, value),
                None => own.insert(field, value).and(None),
            };
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
                at: Wall::from_micros(number("at")? * 1_000),
                until: Wall::from_micros(number("until")? * 1_000),
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

fn leadership() -> String {
    keys::lead(&Name::new(LEADERSHIP).expect("it is a name"))
}

fn name_of(text: &str, elements: &Elements) -> Result<Name, StoreError> {
    Name::new(text).map_err(|_| elements.odd())
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

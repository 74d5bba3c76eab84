//! Members and leases.

use std::time::Duration;

use redis::cmd;
use tidegate_core::session::Name;

use super::replies::{self, DONE, Elements, TAKEN};
use super::sessions::millis;
use super::{Lane, Redis, Run, keys, scripts};
use crate::Call;
use crate::error::StoreError;
use crate::lease::{Fence, Outcome};
use crate::members::{Enrolled, MEMBERS_MAX, Member, Node};

/// Another life of the node has enrolled since.
pub(super) const SUPERSEDED: i64 = -1;
/// There are too many.
pub(super) const FULL: i64 = -2;

impl Redis {
    pub(crate) async fn enrol(
        &self,
        node: &Node,
        lease: Duration,
        replace: bool,
        call: Call,
    ) -> Result<Enrolled, StoreError> {
        let run = Run::of(&scripts::ENROL)
            .key(keys::MEMBERS)
            .arg(node.id.as_str())
            .number(node.incarnation)
            .number(millis(lease))
            .number(u8::from(replace))
            .number(MEMBERS_MAX);
        let reply = self.servers.run(&run, Lane::Fast, call).await?;
        let mut elements = Elements::of("enrol", reply)?;
        match elements.integer()? {
            DONE => Ok(Enrolled::Member {
                now: elements.now()?,
            }),
            SUPERSEDED => Ok(Enrolled::Superseded),
            FULL => Ok(Enrolled::Full),
            _ => Err(elements.odd()),
        }
    }

    pub(crate) async fn leave(&self, node: &Node, call: Call) -> Result<bool, StoreError> {
        let run = Run::of(&scripts::LEAVE)
            .key(keys::MEMBERS)
            .arg(node.id.as_str())
            .number(node.incarnation);
        let reply = self.servers.run(&run, Lane::Fast, call).await?;
        replies::flag("leave", &reply)
    }

    pub(crate) async fn living(&self, call: Call) -> Result<Vec<Member>, StoreError> {
        let run = Run::of(&scripts::LIVING).key(keys::MEMBERS);
        let reply = self.servers.run(&run, Lane::Bulk, call).await?;
        let mut elements = Elements::of("living", reply)?;
        let mut living = Vec::new();
        while !elements.is_empty() {
            living.push(Member {
                node: node_of(&mut elements)?,
                since: elements.now()?,
                until: elements.time()?,
            });
        }
        living.sort_by(|one, other| one.node.cmp(&other.node));
        Ok(living)
    }

    pub(crate) async fn take_lease(
        &self,
        name: &Name,
        node: &Node,
        span: Duration,
        call: Call,
    ) -> Result<Outcome, StoreError> {
        let run = Run::of(&scripts::LEAD)
            .key(keys::lead(name))
            .arg(node.id.as_str())
            .number(node.incarnation)
            .number(millis(span));
        let reply = self.servers.run(&run, Lane::Fast, call).await?;
        let mut elements = Elements::of("lead", reply)?;
        match elements.integer()? {
            DONE => Ok(Outcome::Held(Fence(elements.natural()?))),
            TAKEN => Ok(Outcome::Others {
                holder: node_of(&mut elements)?,
                left: Duration::from_millis(elements.natural()?),
            }),
            _ => Err(elements.odd()),
        }
    }

    pub(crate) async fn give_lease_back(
        &self,
        name: &Name,
        fence: Fence,
        call: Call,
    ) -> Result<bool, StoreError> {
        let run = Run::of(&scripts::YIELD)
            .key(keys::lead(name))
            .number(fence.0);
        let reply = self.servers.run(&run, Lane::Fast, call).await?;
        replies::flag("yield", &reply)
    }

    pub(crate) async fn is_latest(
        &self,
        name: &Name,
        fence: Fence,
        call: Call,
    ) -> Result<bool, StoreError> {
        let key = keys::lead(name);
        let mut command = cmd("HGET");
        command.arg(&key).arg("fence");
        let servers = &self.servers;
        let reply = servers.command(key.as_bytes(), &command, Lane::Fast, call);
        Ok(replies::natural_or_zero("HGET", reply.await?)? == fence.0)
    }
}

pub(super) fn node_of(elements: &mut Elements) -> Result<Node, StoreError> {
    let (id, incarnation) = (elements.text()?, elements.text()?);
    Ok(Node {
        id: Name::new(&id).map_err(|_| elements.odd())?,
        incarnation: incarnation.parse().map_err(|_| elements.odd())?,
    })
}

//! A Redis Cluster.

use std::net::SocketAddr;
use std::time::Duration;

use super::place::until;
use super::{PeerError, RedisServer, RedisSetup, Reply};

/// Slots of a Cluster.
const SLOTS: u16 = 16_384;
/// Longest time until everybody knows everybody.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Keys moved at once.
const MOVED_MAX: &str = "1000";

/// A Cluster to be started.
#[derive(Clone, Debug)]
pub struct ClusterSetup {
    /// Primaries, each with an equal share of the slots.
    pub primaries: usize,
    /// Replicas, one for each primary in turn.
    pub replicas: usize,
    /// Silence after which the others think that a node is down.
    pub node_timeout: Duration,
    /// What all servers have in common.
    pub server: RedisSetup,
}

/// A running Cluster. Dropping it kills its servers.
pub struct Cluster {
    servers: Vec<RedisServer>,
    ids: Vec<String>,
    primaries: usize,
}

impl Default for ClusterSetup {
    fn default() -> Self {
        Self {
            primaries: 3,
            replicas: 3,
            node_timeout: Duration::from_secs(2),
            server: RedisSetup::default(),
        }
    }
}

impl Cluster {
    /// Starts a Cluster and waits until every node says that all is well and shows every replica.
    ///
    /// # Errors
    ///
    /// When something cannot be started or is not ready within a minute.
    pub fn start(setup: &ClusterSetup) -> Result<Self, PeerError> {
        let mut servers = Vec::new();
        for _ in 0..setup.primaries + setup.replicas {
            let mut each = setup.server.clone();
            each.extra.extend([
                "cluster-enabled yes".to_owned(),
                format!("cluster-node-timeout {}", setup.node_timeout.as_millis()),
                "cluster-require-full-coverage no".to_owned(),
                // Which replica belongs to whom stays as it was set up.
                "cluster-allow-replica-migration no".to_owned(),
                "cluster-announce-ip 127.0.0.1".to_owned(),
            ]);
            servers.push(RedisServer::start(each)?);
        }
        let ids = servers
            .iter()
            .map(|server| Ok(server.ask(&["CLUSTER", "MYID"])?.text().to_owned()))
            .collect::<Result<_, PeerError>>()?;
        let cluster = Self {
            servers,
            ids,
            primaries: setup.primaries,
        };
        cluster.share_slots()?;
        cluster.introduce()?;
        cluster.attach_replicas()?;
        cluster.wait_until_well()?;
        Ok(cluster)
    }

    /// The servers: the first primaries in the order of their slots, then the first replicas, each
    /// of the primary at its place.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The server at `index`, to be killed or restarted.
    pub fn server(&mut self, index: usize) -> &mut RedisServer {
        &mut self.servers[index]
    }

    /// Where all of them listen.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(RedisServer::address).collect()
    }

    /// The slot of `key`.
    ///
    /// # Errors
    ///
    /// When the first server does not answer.
    pub fn slot(&self, key: &str) -> Result<u16, PeerError> {
        let slot = self.servers[0].ask(&["CLUSTER", "KEYSLOT", key])?.int();
        let slot = slot.and_then(|slot| u16::try_from(slot).ok());
        slot.ok_or_else(|| PeerError::Refused("no slot".to_owned()))
    }

    /// The primary that has `slot`, as a server that is up sees it; `None` when nobody has.
    pub fn owner(&self, slot: u16) -> Option<usize> {
        let slots = self.servers.iter().find_map(|server| {
            let slots = server.ask(&["CLUSTER", "SLOTS"]).ok()?;
            Some(slots)
        })?;
        let port = slots.parts().iter().find_map(|range| {
            let [first, last, primary, ..] = range.parts() else {
                return None;
            };
            let has = first.int()? <= i64::from(slot) && i64::from(slot) <= last.int()?;
            has.then(|| primary.parts().get(1)?.int()).flatten()
        })?;
        let ports = || self.servers.iter().map(|server| server.address().port());
        ports().position(|its| i64::from(its) == port)
    }

    /// Marks `slot` as moving from one primary to another: keys that are already there or not yet
    /// anywhere are asked for there.
    ///
    /// # Errors
    ///
    /// When a server does not want to.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) -> Result<(), PeerError> {
        let slot = slot.to_string();
        let (from_id, to_id) = (&self.ids[from], &self.ids[to]);
        self.servers[to].ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", from_id])?;
        self.servers[from].ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", to_id])?;
        Ok(())
    }

    /// Moves the keys of a moving slot.
    ///
    /// # Errors
    ///
    /// When a server does not want to.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize) -> Result<(), PeerError> {
        let slot = slot.to_string();
        let port = self.servers[to].address().port().to_string();
        loop {
            let keys = ["CLUSTER", "GETKEYSINSLOT", &slot, MOVED_MAX];
            let keys = self.servers[from].ask(&keys)?;
            if keys.parts().is_empty() {
                return Ok(());
            }
            let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            command.extend(keys.parts().iter().map(Reply::text));
            self.servers[from].ask(&command)?;
        }
    }

    /// Gives a moving slot, without keys by now, to its new primary.
    ///
    /// # Errors
    ///
    /// When a server does not want to.
    pub fn finish_move(&self, slot: u16, to: usize) -> Result<(), PeerError> {
        let slot = slot.to_string();
        // The new owner first, so that nobody thinks the slot is without one.
        let rest = (0..self.primaries).filter(|&index| index != to);
        for index in std::iter::once(to).chain(rest) {
            self.servers[index].ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &self.ids[to]])?;
        }
        Ok(())
    }

    /// Waits until the primary of `slot` is another than `old`; returns which.
    ///
    /// # Errors
    ///
    /// When that does not come about within `within`.
    pub fn wait_for_failover(
        &self,
        slot: u16,
        old: usize,
        within: Duration,
    ) -> Result<usize, PeerError> {
        until(within, "another primary", || match self.owner(slot) {
            Some(new) if new != old => Ok(new),
            other => Err(format!("it is {other:?}")),
        })
    }

    fn share_slots(&self) -> Result<(), PeerError> {
        let bound = |part: usize| {
            let slot = usize::from(SLOTS) * part / self.primaries;
            slot.to_string()
        };
        for (index, server) in self.servers.iter().enumerate() {
            let epoch = (index + 1).to_string();
            server.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
            if index < self.primaries {
                let last = bound(index + 1).parse::<u16>().unwrap_or(SLOTS) - 1;
                let last = last.to_string();
                server.ask(&["CLUSTER", "ADDSLOTSRANGE", &bound(index), &last])?;
            }
        }
        Ok(())
    }

    fn introduce(&self) -> Result<(), PeerError> {
        for server in &self.servers[1..] {
            let (port, bus) = (server.address().port(), bus_port(server)?);
            let (port, bus) = (port.to_string(), bus.to_string());
            self.servers[0].ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
        }
        let all = self.servers.len().to_string();
        for server in &self.servers {
            until(READY_TIMEOUT, "every node knows the others", || {
                let known = cluster_info(server, "cluster_known_nodes")?;
                // A node that is being met is known under a passing name.
                let nodes = server.ask(&["CLUSTER", "NODES"]);
                let nodes = nodes.map_err(|error| error.to_string())?;
                let met = self.ids.iter().all(|id| nodes.text().contains(id.as_str()));
                if known == all && met {
                    Ok(())
                } else {
                    Err(known)
                }
            })?;
        }
        Ok(())
    }

    fn attach_replicas(&self) -> Result<(), PeerError> {
        for (index, replica) in self.servers[self.primaries..].iter().enumerate() {
            let primary = &self.ids[index % self.primaries];
            replica.ask(&["CLUSTER", "REPLICATE", primary])?;
        }
        Ok(())
    }

    fn wait_until_well(&self) -> Result<(), PeerError> {
        for server in &self.servers {
            until(READY_TIMEOUT, "every node is well", || {
                let state = cluster_info(server, "cluster_state")?;
                if state != "ok" {
                    return Err(state);
                }
                let slots = server.ask(&["CLUSTER", "SLOTS"]);
                let slots = slots.map_err(|error| error.to_string())?;
                // Each range: first, last, then the nodes that have it.
                let nodes: usize = slots.parts().iter().map(|r| r.parts().len() - 2).sum();
                if nodes == self.servers.len() {
                    Ok(())
                } else {
                    Err(format!("{nodes} nodes have slots"))
                }
            })?;
        }
        for replica in &self.servers[self.primaries..] {
            replica.wait_for_info("master_link_status", READY_TIMEOUT, |link| link == "up")?;
        }
        Ok(())
    }
}

fn bus_port(server: &RedisServer) -> Result<u16, PeerError> {
    let reply = server.ask(&["CONFIG", "GET", "cluster-port"])?;
    let port = reply.parts().get(1).and_then(Reply::int);
    let port = port.and_then(|port| u16::try_from(port).ok());
    port.ok_or_else(|| PeerError::Refused("no cluster-port".to_owned()))
}

fn cluster_info(server: &RedisServer, field: &str) -> Result<String, String> {
    let info = server.ask(&["CLUSTER", "INFO"]);
    let info = info.map_err(|error| error.to_string())?;
    let mut lines = info.text().lines().filter_map(|line| line.split_once(':'));
    let value = lines.find(|(name, _)| *name == field);
    Ok(value.map_or_else(String::new, |(_, value)| value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_ready_when_it_is_started_and_slots_move() {
        let cluster = Cluster::start(&ClusterSetup::default()).unwrap();
        let slot = cluster.slot("{a}:1").unwrap();
        let from = cluster.owner(slot).unwrap();
        let to = (from + 1) % 3;
        cluster.servers()[from].ask(&["SET", "{a}:1", "b"]).unwrap();

        cluster.begin_move(slot, from, to).unwrap();
        cluster.move_keys(slot, from, to).unwrap();
        cluster.finish_move(slot, to).unwrap();

        assert_eq!(
            cluster.servers()[to].ask(&["GET", "{a}:1"]).unwrap().text(),
            "b"
        );
        assert_eq!(cluster.owner(slot), Some(to));
    }
}

//! A primary with replicas, watched by Sentinels.

use std::net::SocketAddr;
use std::time::Duration;

use super::place::until;
use super::{FaultProxy, PeerError, RedisServer, RedisSetup, Reply};

/// What the Sentinels call the primary.
const NAME: &str = "tide";
/// Longest time until everybody knows everybody.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Servers and Sentinels to be started.
#[derive(Clone, Debug)]
pub struct SentinelSetup {
    /// Replicas.
    pub replicas: usize,
    /// Sentinels; more than half of them must agree.
    pub sentinels: usize,
    /// Silence after which a Sentinel thinks that a server is down.
    pub down_after: Duration,
    /// How long a failover may take before another is tried (after twice that), and how long a
    /// replica may follow somebody else than the Sentinels want.
    pub failover_timeout: Duration,
    /// Whether the replicas reach the first primary through a proxy each.
    pub proxied: bool,
    /// What all servers have in common.
    pub server: RedisSetup,
}

/// A running primary with its replicas and Sentinels. Dropping it kills them all.
pub struct Sentinels {
    servers: Vec<RedisServer>,
    proxies: Vec<FaultProxy>,
    sentinels: Vec<RedisServer>,
}

impl Default for SentinelSetup {
    fn default() -> Self {
        Self {
            replicas: 2,
            sentinels: 3,
            down_after: Duration::from_secs(1),
            failover_timeout: Duration::from_secs(5),
            proxied: false,
            server: RedisSetup::default(),
        }
    }
}

impl SentinelSetup {
    /// The usual one, with a proxy between the primary and each replica. The Sentinels leave the
    /// replicas alone for a minute, though these follow a proxy.
    pub fn proxied() -> Self {
        Self {
            proxied: true,
            failover_timeout: Duration::from_secs(60),
            ..Self::default()
        }
    }
}

impl Sentinels {
    /// What the Sentinels call the primary.
    pub const NAME: &'static str = NAME;

    /// Starts everything and waits until the replicas are linked and every Sentinel knows the
    /// replicas and the other Sentinels.
    ///
    /// # Errors
    ///
    /// When something cannot be started or is not ready within a minute.
    pub fn start(setup: &SentinelSetup) -> Result<Self, PeerError> {
        let primary = RedisServer::start(setup.server.clone())?;
        let mut all = Self {
            servers: vec![primary],
            proxies: Vec::new(),
            sentinels: Vec::new(),
        };
        for _ in 0..setup.replicas {
            all.start_replica(setup)?;
        }
        for replica in &all.servers[1..] {
            replica.wait_for_info("master_link_status", READY_TIMEOUT, |link| link == "up")?;
        }
        for _ in 0..setup.sentinels {
            all.start_sentinel(setup)?;
        }
        all.wait_for_acquaintance(setup)?;
        Ok(all)
    }

    /// What the Sentinels call the primary.
    pub const fn name(&self) -> &'static str {
        NAME
    }

    /// Where the Sentinels listen.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(RedisServer::address).collect()
    }

    /// The servers: the first primary, then the first replicas.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The server at `index`, to be killed or restarted.
    pub fn server(&mut self, index: usize) -> &mut RedisServer {
        &mut self.servers[index]
    }

    /// The Sentinel at `index`, to be killed or restarted.
    pub fn sentinel(&mut self, index: usize) -> &mut RedisServer {
        &mut self.sentinels[index]
    }

    /// The proxies between the first primary and each of the first replicas; empty when there are
    /// none. What goes to the replica goes toward the client.
    pub fn proxies(&self) -> &[FaultProxy] {
        &self.proxies
    }

    /// The server that most Sentinels take for the primary; `None` when it is none of ours.
    pub fn primary(&self) -> Option<usize> {
        let named = |address: &SocketAddr| {
            let votes = self.sentinels.iter().filter(|sentinel| {
                let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME];
                let answer = sentinel.ask(&ask);
                answer.is_ok_and(|answer| names(&answer, address))
            });
            votes.count()
        };
        let mut servers = self.servers.iter().map(RedisServer::address);
        servers.position(|address| named(&address) * 2 > self.sentinels.len())
    }

    /// Waits until most Sentinels take another server than `old` for the primary, and it does so
    /// itself; returns which.
    ///
    /// # Errors
    ///
    /// When that does not come about within `within`.
    pub fn wait_for_failover(&self, old: usize, within: Duration) -> Result<usize, PeerError> {
        until(within, "another primary", || match self.primary() {
            Some(new) if new != old => match self.servers[new].info("role") {
                Ok(role) if role == "master" => Ok(new),
                Ok(role) => Err(format!("server {new} is a {role}")),
                Err(error) => Err(error.to_string()),
            },
            other => Err(format!("it is {other:?}")),
        })
    }

    /// Makes the Sentinels promote a replica though the primary is well.
    ///
    /// # Errors
    ///
    /// When the Sentinel does not want to.
    pub fn fail_over(&self) -> Result<(), PeerError> {
        self.sentinels[0].ask(&["SENTINEL", "FAILOVER", NAME])?;
        Ok(())
    }

    fn start_replica(&mut self, setup: &SentinelSetup) -> Result<(), PeerError> {
        let mut primary = self.servers[0].address();
        if setup.proxied {
            let proxy = FaultProxy::start(primary)?;
            primary = proxy.address();
            self.proxies.push(proxy);
        }
        self.servers.push(RedisServer::start(RedisSetup {
            replica_of: Some(primary),
            ..setup.server.clone()
        })?);
        Ok(())
    }

    fn start_sentinel(&mut self, setup: &SentinelSetup) -> Result<(), PeerError> {
        let port = self.servers[0].address().port();
        let quorum = setup.sentinels / 2 + 1;
        let down_after_ms = setup.down_after.as_millis();
        let failover_ms = setup.failover_timeout.as_millis();
        let mut extra = vec![
            "sentinel announce-ip 127.0.0.1".to_owned(),
            format!("sentinel monitor {NAME} 127.0.0.1 {port} {quorum}"),
            format!("sentinel down-after-milliseconds {NAME} {down_after_ms}"),
            format!("sentinel failover-timeout {NAME} {failover_ms}"),
            format!("sentinel parallel-syncs {NAME} 2"),
        ];
        if let Some(password) = &setup.server.password {
            extra.push(format!("sentinel auth-pass {NAME} {password}"));
        }
        let setup = RedisSetup {
            extra,
            ..RedisSetup::default()
        };
        self.sentinels.push(RedisServer::start_as(setup, true)?);
        Ok(())
    }

    fn wait_for_acquaintance(&self, setup: &SentinelSetup) -> Result<(), PeerError> {
        let wanted = [
            ("flags", "master".to_owned()),
            ("num-slaves", setup.replicas.to_string()),
            ("num-other-sentinels", (setup.sentinels - 1).to_string()),
        ];
        for sentinel in &self.sentinels {
            until(READY_TIMEOUT, "a Sentinel knows everybody", || {
                let known = sentinel.ask(&["SENTINEL", "MASTER", NAME]);
                let known = known.map_err(|error| error.to_string())?;
                for (field, value) in &wanted {
                    let is = pair(&known, field);
                    if is != value {
                        return Err(format!("{field} is {is}"));
                    }
                }
                self.replicas_are_fit(sentinel)
            })?;
        }
        Ok(())
    }

    /// A Sentinel promotes only a replica whose link it has seen up.
    fn replicas_are_fit(&self, sentinel: &RedisServer) -> Result<(), String> {
        let replicas = sentinel.ask(&["SENTINEL", "REPLICAS", NAME]);
        let replicas = replicas.map_err(|error| error.to_string())?;
        for replica in replicas.parts() {
            let (flags, link) = (pair(replica, "flags"), pair(replica, "master-link-status"));
            if (flags, link) != ("slave", "ok") {
                return Err(format!("a replica is {flags}, its link {link}"));
            }
        }
        Ok(())
    }
}

/// Whether `answer` is the host and port of `address`.
fn names(answer: &Reply, address: &SocketAddr) -> bool {
    let [host, port] = answer.parts() else {
        return false;
    };
    host.text() == address.ip().to_string() && port.text() == address.port().to_string()
}

/// The value of `field` in a list of names and values.
fn pair<'a>(list: &'a Reply, field: &str) -> &'a str {
    let mut pairs = list.parts().chunks_exact(2);
    let found = pairs.find(|pair| pair[0].text() == field);
    found.map_or("", |pair| pair[1].text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_server_becomes_primary_when_the_first_is_killed() {
        let mut all = Sentinels::start(&SentinelSetup::default()).unwrap();
        assert_eq!(all.primary(), Some(0));

        all.server(0).kill().unwrap();

        let new = all.wait_for_failover(0, Duration::from_secs(60)).unwrap();
        assert_ne!(new, 0);
        all.servers()[new].ask(&["SET", "a", "b"]).unwrap();
    }
}

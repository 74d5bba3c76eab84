//! Where Redis or Valkey is and how it is to be talked to.

use std::fmt;
use std::time::Duration;

/// One use of a store: each has connections and breakers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Sessions.
    Sessions,
    /// Limits that the fleet shares.
    Limits,
    /// The waiting room.
    Room,
    /// Beacons, verdicts, membership and leases.
    Bus,
}

/// A server's host name or IP address, and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// A name or an IP address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address is HOST:PORT")]
pub struct BadAddress;

/// Who we are to a server. Nothing of it is ever printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user; `None` for the default one.
    pub user: Option<String>,
    /// The password; `None` for a server that asks for none.
    pub password: Option<String>,
}

/// How the servers are arranged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// One server.
    Standalone(Address),
    /// A primary with replicas, of which Sentinels say who is which.
    Sentinel {
        /// The Sentinels.
        sentinels: Vec<Address>,
        /// What the Sentinels call the primary.
        primary: String,
        /// Who we are to the Sentinels.
        credentials: Credentials,
    },
    /// A Cluster, of which these are some.
    Cluster(Vec<Address>),
}

/// Where Redis or Valkey is and how it is to be talked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisPlan {
    /// How the servers are arranged, and where.
    pub arrangement: Arrangement,
    /// Who we are to them.
    pub credentials: Credentials,
    /// The numbered database; a Cluster only has 0.
    pub database: u32,
    /// Longest wait for a connection on the lanes that ordinary requests use.
    pub connect_timeout: Duration,
    /// Longest wait for an answer there; callers may ask for less.
    pub operation_timeout: Duration,
    /// The lanes to every shard.
    pub lanes: LanePlan,
}

/// The connections to one shard and how much may be under way on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanePlan {
    /// Connections for ordinary operations, 1 and more.
    pub fast: u8,
    /// Operations under way on each of those. All of them together are to be no fewer than the
    /// application has workers.
    pub fast_in_flight_max: u32,
    /// Operations under way on the connection for large values and housekeeping.
    pub bulk_in_flight_max: u32,
    /// Connections for writes that wait for replicas; each serves one write at a time.
    pub durable_max: u32,
}

impl Use {
    /// Every use.
    pub const ALL: [Self; 4] = [Self::Sessions, Self::Limits, Self::Room, Self::Bus];

    /// The name in configuration and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::Limits => "limits",
            Self::Room => "room",
            Self::Bus => "bus",
        }
    }
}

impl Address {
    /// The address written as `HOST:PORT`; an IPv6 address is in brackets.
    pub fn parse(text: &str) -> Result<Self, BadAddress> {
        let (host, port) = text.rsplit_once(':').ok_or(BadAddress)?;
        let port = port.parse().map_err(|_| BadAddress)?;
        let host = match host.strip_prefix('[').map(|host| host.strip_suffix(']')) {
            Some(bracketed) => bracketed.ok_or(BadAddress)?,
            None if host.contains(':') => return Err(BadAddress),
            None => host,
        };
        let plain = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
        if plain && port > 0 {
            Ok(Self {
                host: host.to_owned(),
                port,
            })
        } else {
            Err(BadAddress)
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

impl RedisPlan {
    /// Longest wait for a connection when nothing is configured.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_millis(9);
    /// Longest wait for an answer when nothing is configured.
    pub const OPERATION_TIMEOUT: Duration = Duration::from_millis(8);

    /// The usual plan for servers that are so arranged.
    pub fn usual(arrangement: Arrangement) -> Self {
        Self {
            arrangement,
            credentials: Credentials::default(),
            database: 0,
            connect_timeout: Self::CONNECT_TIMEOUT,
            operation_timeout: Self::OPERATION_TIMEOUT,
            lanes: LanePlan::default(),
        }
    }
}

impl LanePlan {
    /// The usual lanes for an application with `workers` workers: no worker's request finds the
    /// lanes full because of the others'.
    pub fn for_workers(workers: u32) -> Self {
        let usual = Self::default();
        Self {
            // One lane must take them all: their sessions may happen to be of the same one.
            fast_in_flight_max: usual.fast_in_flight_max.max(workers),
            ..usual
        }
    }
}

impl Default for LanePlan {
    fn default() -> Self {
        Self {
            fast: 2,
            fast_in_flight_max: 256,
            bulk_in_flight_max: 16,
            durable_max: 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back() {
        for text in ["localhost:6379", "127.0.0.1:1", "[::1]:6379"] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "host",
            ":1",
            "host:0",
            "host:x",
            "::1:6379",
            "a b:1",
            "redis://h:1",
        ] {
            assert_eq!(Address::parse(text), Err(BadAddress), "{text}");
        }
    }

    #[test]
    fn a_plan_does_not_print_its_password() {
        let mut plan = RedisPlan::usual(Arrangement::Cluster(Vec::new()));
        plan.credentials.password = Some("sesame".to_owned());

        assert!(!format!("{plan:?}").contains("sesame"));
    }
}

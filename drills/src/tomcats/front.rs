//! Debian's HAProxy before the nodes, in the ways that these drills compare.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_lab::peers::Haproxy;

use super::POLL;
use super::fleet::{Fleet, Node};
use crate::harness::{HEALTH, free_port, loopback, wait_for};

/// A running HAProxy, with a frontend for each of its backends.
pub(crate) struct Front {
    /// The process.
    pub(crate) haproxy: Arc<Haproxy>,
    addresses: Vec<SocketAddr>,
}

/// A backend with all nodes in it.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    /// What it is called.
    pub(crate) backend: &'static str,
    /// `balance …`.
    pub(crate) balance: &'static str,
    /// How it hears of each node, in the order of nodes.
    pub(crate) way: Way,
}

/// What a backend goes by, and where it sends requests.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// To the Tidegate of each node, with the checks of `deploy/haproxy.cfg`.
    Tidegate,
    /// To each Tomcat, whose health page is asked for, and Tidegate beside it for its weight.
    Beside,
    /// To each Tomcat, whose health page is asked for, and nobody else.
    HealthPage,
    /// To each Tomcat, which is there if the one who looks after it is.
    Monitoring,
    /// To each Tomcat, whose health page is asked for, and these agents.
    Agents(Vec<SocketAddr>),
}

impl Servers {
    /// A backend called so.
    pub(crate) const fn new(backend: &'static str, balance: &'static str, way: Way) -> Self {
        Self {
            backend,
            balance,
            way,
        }
    }

    fn section(&self, front: SocketAddr, fleet: &Fleet) -> anyhow::Result<String> {
        let Self {
            backend, balance, ..
        } = self;
        let checks = match self.way {
            Way::Tidegate => format!(" option httpchk GET {HEALTH}\n"),
            Way::Monitoring => String::new(),
            Way::Beside | Way::HealthPage | Way::Agents(_) => {
                " option httpchk GET /health.html\n".to_owned()
            }
        };
        let expected = match self.way {
            Way::Monitoring => "",
            _ => " http-check expect status 200\n",
        };
        let mut section = format!(
            "frontend to-{backend}\n bind {front}\n timeout client 60s\n default_backend {backend}\n\
             backend {backend}\n timeout server 60s\n balance {balance}\n option redispatch 1\n{checks}{expected}\
             \x20retry-on conn-failure empty-response\n http-request disable-l7-retry unless METH_GET\n\
             \x20default-server check inter 1s fall 3 rise 2 weight 100\n"
        );
        for (at, node) in fleet.nodes.iter().enumerate() {
            // Writing to a String does not fail.
            let _ = writeln!(section, " server {} {}", node.name, self.server(at, node)?);
        }
        Ok(section)
    }

    /// Where a node is, and who is asked about it.
    fn server(&self, at: usize, node: &Node) -> anyhow::Result<String> {
        let agent = |at: SocketAddr| {
            format!(
                "agent-check agent-port {} agent-inter {}s",
                at.port(),
                POLL.as_secs()
            )
        };
        let shop = node.shop.address();
        let page = format!("{shop} port {}", node.shop.probe().port());
        Ok(match &self.way {
            Way::Tidegate => format!("{} {}", node.tidegate()?.address(), agent(node.agent)),
            Way::Beside => format!("{page} {}", agent(node.agent)),
            Way::HealthPage => page,
            Way::Monitoring => format!("{shop} port {}", node.agent.port()),
            Way::Agents(agents) => format!("{page} {}", agent(agents[at])),
        })
    }
}

impl Front {
    /// Starts one with these backends before `fleet`, and waits until it takes all nodes for well.
    pub(crate) fn start(fleet: &Fleet, backends: &[Servers]) -> anyhow::Result<Self> {
        let mut sections = String::new();
        let mut addresses = Vec::new();
        for servers in backends {
            let front = loopback(free_port()?);
            sections.push_str(&servers.section(front, fleet)?);
            addresses.push(front);
        }
        let haproxy = Haproxy::start(&sections)?;
        for Servers { backend, .. } in backends {
            wait_for("HAProxy takes all nodes for well", || {
                let all = haproxy.stats(backend, ["status", "check_status"])?;
                let is_well = |(_, [status, check]): &(String, [String; 2])| {
                    status == "UP" && check.ends_with("OK")
                };
                Ok(all.iter().all(is_well))
            })?;
        }
        Ok(Self {
            haproxy: Arc::new(haproxy),
            addresses,
        })
    }

    /// Where clients of the backend at `at` connect.
    pub(crate) fn address(&self, at: usize) -> SocketAddr {
        self.addresses[at]
    }
}

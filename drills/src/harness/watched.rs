//! A node whose application is looked at, and what its fleet says of it.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Instant;

use anyhow::Context as _;
use serde::Deserialize;

use super::gateway::binary;
use super::tomcat::{Tomcat, Viewer};
use super::{Gateway, GatewaySetup, Invalid, TempDir, ask, free_port, loopback, wait_for};

/// A node: a gateway that looks at the Tomcat behind it. Dropping it stops the gateway.
pub(crate) struct Watched {
    name: String,
    gateway: Gateway,
    sidecar: SocketAddr,
    agent: SocketAddr,
    _state: TempDir,
}

/// What is said of a node beyond the usual, as TOML.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keys {
    /// Keys of `[[app]]`.
    pub(crate) app: &'static str,
    /// Keys of `[agent]`.
    pub(crate) agent: &'static str,
}

/// The fleet, as `/v1/nodes` has it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Outlook {
    /// What the leader says of it.
    pub(crate) fleet: Option<Word>,
    /// Its nodes.
    pub(crate) nodes: Vec<Seen>,
}

/// What a leader says of its fleet.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Word {
    /// Nodes that are out.
    pub(crate) out: u32,
    /// Part of the usual that admission should let in, 0 to 1.
    pub(crate) admission: f64,
    /// Why weights follow capacity alone.
    pub(crate) freeze: Option<String>,
    /// What many nodes suffer from together.
    pub(crate) shared: Option<Shared>,
}

/// What many nodes suffer from together.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Shared {
    /// The name of the dimension.
    pub(crate) dimension: String,
}

/// What is said of a node.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Seen {
    /// Its name.
    pub(crate) node: String,
    /// The name of its state.
    pub(crate) state: String,
    /// What is left, 0 to 1, smoothed.
    pub(crate) headroom: Option<f64>,
    /// What there is least of.
    pub(crate) dimension: Option<String>,
    /// How much of it is used, in its unit.
    pub(crate) value: Option<f64>,
    /// Of how much.
    pub(crate) limit: Option<f64>,
}

impl Watched {
    /// Starts one called `name` before `tomcat`, which is seen with the eyes of `viewer`. `store` is that of its fleet; without
    /// one it is a fleet of its own.
    pub(crate) fn start(
        name: &str,
        tomcat: &Tomcat,
        viewer: Viewer,
        store: Option<SocketAddr>,
        more: Keys,
    ) -> anyhow::Result<Self> {
        let state = TempDir::new()?;
        let (sidecar, agent) = (loopback(free_port()?), loopback(free_port()?));
        let store = match store {
            Some(store) => format!("url = \"redis://{store}\""),
            None => format!("path = \"{}\"", state.path().display()),
        };
        let sections = format!(
            "workers = {}\n{}[store]\n{store}\n[sidecar]\nlisten = \"{sidecar}\"\n[fleet]\nnode = \"{name}\"\n\
             [balancer]\nagent_listen = \"{agent}\"\nagent_interval = \"1s\"\n[agent]\n{}{}",
            tomcat.threads(),
            more.app,
            tomcat.keys(viewer),
            more.agent,
        );
        Ok(Self {
            name: name.to_owned(),
            gateway: Gateway::start(&GatewaySetup::app(tomcat.address(), &sections))?,
            sidecar,
            agent,
            _state: state,
        })
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// Where balancers ask for its weight.
    pub(crate) const fn agent(&self) -> SocketAddr {
        self.agent
    }

    /// Its gateway.
    pub(crate) const fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// The fleet as it is seen from here.
    pub(crate) fn fleet(&self) -> anyhow::Result<Outlook> {
        Ok(serde_json::from_slice(&ask(self.sidecar, "/v1/nodes")?)?)
    }

    /// What is said of this node now; `None` before anybody has heard of it.
    pub(crate) fn seen(&self) -> anyhow::Result<Option<Seen>> {
        let mut nodes = self.fleet()?.nodes.into_iter();
        Ok(nodes.find(|it| it.node == self.name && it.headroom.is_some()))
    }

    /// How long it takes until this node is healthy, in milliseconds; not a number when what keeps it from that is one of
    /// `blamed`. Anything else is the machine's doing, and the run no result.
    pub(crate) fn healthy_after(&self, blamed: &[&str]) -> anyhow::Result<f64> {
        let since = Instant::now();
        let mut last = None;
        let is_healthy = wait_for("the node is healthy", || {
            last = self.seen()?;
            Ok(last.as_ref().is_some_and(|it| it.state == "healthy"))
        });
        if is_healthy.is_ok() {
            return Ok(since.elapsed().as_secs_f64() * 1_000.0);
        }
        match last {
            Some(seen) if blamed.iter().any(|it| seen.is_bound_by(it)) => Ok(f64::NAN),
            Some(seen) => Err(Invalid(format!("{} stays {}", self.name, seen.text())).into()),
            None => anyhow::bail!("nobody hears of {}", self.name),
        }
    }

    /// What `tidegate node why` says of this node, to an operator.
    pub(crate) fn why(&self) -> anyhow::Result<String> {
        let output = Command::new(binary()?)
            .args(["node", "why", &self.name, "-c"])
            .arg(self.gateway.file())
            .output()?;
        anyhow::ensure!(
            output.status.success(),
            "tidegate node why: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).context("it is no text")
    }
}

impl Seen {
    /// Whether `dimension` is what there is least of.
    pub(crate) fn is_bound_by(&self, dimension: &str) -> bool {
        self.dimension.as_deref() == Some(dimension)
    }

    /// Whether it has less than a healthy node.
    pub(crate) fn is_in_trouble(&self) -> bool {
        matches!(self.state.as_str(), "stressed" | "saturated")
    }

    /// How it is, for people.
    pub(crate) fn text(&self) -> String {
        let number = |it: Option<f64>| it.map_or_else(|| "?".to_owned(), |it| format!("{it:.2}"));
        format!(
            "{}, {} left, least of {} ({} of {})",
            self.state,
            number(self.headroom),
            self.dimension.as_deref().unwrap_or("nothing known"),
            number(self.value),
            number(self.limit)
        )
    }
}

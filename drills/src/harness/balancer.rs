//! Debian's HAProxy in front of several nodes, as a load balancer is set up.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

use super::peer::{Peer, haproxy_program, loopback};
use super::{TempDir, free_port, wait_for};

/// Where a gateway says whether it is well.
pub(crate) const HEALTH: &str = "/.tidegate/readyz";
/// Places for nodes that do not exist yet.
const SPARE_PLACES: usize = 2;
/// How often a node's health is asked for; two answers that are missing take it out, one brings it
/// in.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Longest wait for the balancer's own command line.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// A balancer to be started.
#[derive(Clone, Debug)]
pub(crate) struct BalancerSetup {
    /// Name and address of every node.
    pub(crate) nodes: Vec<(String, SocketAddr)>,
    /// The path that says whether a node is well.
    pub(crate) health_path: String,
    /// Lines of the backend that decide which node a visitor goes to, such as `cookie …`.
    pub(crate) stickiness: Vec<String>,
}

/// A running balancer. Dropping it stops it.
pub(crate) struct Balancer {
    peer: Peer,
    socket: PathBuf,
}

impl BalancerSetup {
    /// Before `nodes`, each of which gets its share of all requests.
    pub(crate) fn new(nodes: Vec<(String, SocketAddr)>, health_path: &str) -> Self {
        Self {
            nodes,
            health_path: health_path.to_owned(),
            stickiness: Vec::new(),
        }
    }

    /// The same, where every visitor gets a cookie that leads to the same node again.
    #[must_use]
    pub(crate) fn sticky(mut self) -> Self {
        self.stickiness
            .push("cookie NODE insert indirect nocache".to_owned());
        self
    }

    /// The same, where a gateway says by a cookie which node a visitor belongs to, as in
    /// `deploy/haproxy.cfg`.
    #[must_use]
    pub(crate) fn guided(mut self) -> Self {
        for (name, _) in &self.nodes {
            let line = format!("use-server {name} if {{ req.cook(tg_a) -m beg {name}. }}");
            self.stickiness.push(line);
        }
        self
    }

    fn cfg(&self, address: SocketAddr, socket: &std::path::Path) -> String {
        let check = format!("check inter {}ms fall 2 rise 1", CHECK_INTERVAL.as_millis());
        let mut servers = String::new();
        for (name, at) in &self.nodes {
            // Writing to a String does not fail.
            let _ = writeln!(servers, "  server {name} {at} {check} cookie {name}");
        }
        for place in 0..SPARE_PLACES {
            let name = spare(place);
            let _ = writeln!(
                servers,
                "  server {name} 127.0.0.1:1 {check} cookie {name} disabled"
            );
        }
        let stickiness: String = self
            .stickiness
            .iter()
            .map(|line| format!("  {line}\n"))
            .collect();
        format!(
            "global
  nbthread 1
  stats socket {socket} mode 600 level admin
defaults
  mode http
  option http-keep-alive
  option redispatch 1
  option forwardfor
  retries 3
  retry-on conn-failure empty-response
  timeout client 75s
  timeout server 30s
  timeout connect 500ms
  timeout check 500ms
  timeout http-request 10s
frontend clients
  bind {address} backlog 65535
  default_backend nodes
backend nodes
  balance roundrobin
  option httpchk GET {health}
  http-check expect status 200
  http-request disable-l7-retry unless METH_GET
{stickiness}{servers}",
            socket = socket.display(),
            health = self.health_path,
        )
    }
}

impl Balancer {
    /// Starts one and waits until every node is known to be well.
    pub(crate) fn start(setup: &BalancerSetup) -> anyhow::Result<Self> {
        let dir = TempDir::new()?;
        let address = loopback(free_port()?);
        let socket = dir.path().join("s");
        let file = dir.path().join("haproxy.cfg");
        fs::write(&file, setup.cfg(address, &socket))?;
        let mut command = vec![haproxy_program()?.display().to_string()];
        command.extend(["-db".to_owned(), "-q".to_owned(), "-f".to_owned()]);
        command.push(file.display().to_string());
        let balancer = Self {
            peer: Peer::start(&command, address, dir, None)?,
            socket,
        };
        for (name, _) in &setup.nodes {
            balancer.wait_until_well(name)?;
        }
        Ok(balancer)
    }

    /// Where visitors connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.peer.address()
    }

    /// Adds a node in the spare place `place`, as an operator does; it gets requests as soon as it
    /// is known to be well. Says what it is called there.
    pub(crate) fn add(&self, place: usize, node: SocketAddr) -> anyhow::Result<String> {
        let name = spare(place);
        for line in [
            format!(
                "set server nodes/{name} addr {} port {}",
                node.ip(),
                node.port()
            ),
            format!("set server nodes/{name} state ready"),
            format!("enable health nodes/{name}"),
        ] {
            self.command(&line)?;
        }
        Ok(name)
    }

    /// Waits until the node called `name` gets requests.
    pub(crate) fn wait_until_well(&self, name: &str) -> anyhow::Result<()> {
        wait_for(&format!("{name} is well"), || self.is_up(name))
    }

    /// Waits until the node called `name` gets no requests any more.
    pub(crate) fn wait_until_out(&self, name: &str) -> anyhow::Result<()> {
        wait_for(&format!("{name} is out"), || Ok(!self.is_up(name)?))
    }

    fn is_up(&self, name: &str) -> anyhow::Result<bool> {
        let stat = self.command("show stat")?;
        let mut lines = stat.lines();
        let head = lines.next().context("no statistics")?;
        let column = head
            .split(',')
            .position(|column| column == "status")
            .context("no column status")?;
        let prefix = format!("nodes,{name},");
        let line = lines
            .find(|line| line.starts_with(&prefix))
            .with_context(|| format!("no node {name}"))?;
        // "UP 1/2" is one that misses checks, and "no check" one that is not asked yet.
        Ok(line.split(',').nth(column) == Some("UP"))
    }

    fn command(&self, line: &str) -> anyhow::Result<String> {
        let mut stream = UnixStream::connect(&self.socket)
            .with_context(|| format!("no command line at {}", self.socket.display()))?;
        stream.set_read_timeout(Some(COMMAND_TIMEOUT))?;
        stream.write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

fn spare(place: usize) -> String {
    format!("spare{place}")
}

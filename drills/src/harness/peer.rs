//! Debian's nginx and HAProxy in front of a server, for figures to stand beside ours.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tidegate_lab::measure::{self, Child};

use super::{TempDir, free_port};

/// Longest time from start to the first connection that is accepted.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// How often that is tried.
const READY_INTERVAL: Duration = Duration::from_millis(20);
/// Where Debian puts servers, which is not on everybody's path.
const DIRECTORIES: [&str; 3] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"];

/// A peer to be started.
#[derive(Clone, Debug)]
pub(crate) struct PeerSetup {
    /// What it passes requests to.
    pub(crate) upstream: SocketAddr,
    /// Its threads (HAProxy) or worker processes (nginx).
    pub(crate) threads: u32,
    /// HAProxy: requests passed on at once, all others queue; `None` for no such limit.
    pub(crate) requests_max: Option<u32>,
    /// HAProxy: longest time in that queue.
    pub(crate) queue_timeout: Duration,
    /// The core it is kept on; `None` for whichever is free.
    pub(crate) core: Option<usize>,
}

/// A running peer. Dropping it stops it.
pub(crate) struct Peer {
    child: Child,
    address: SocketAddr,
    _dir: TempDir,
}

impl PeerSetup {
    /// One thread before `upstream`, without limits.
    pub(crate) const fn new(upstream: SocketAddr) -> Self {
        Self {
            upstream,
            threads: 1,
            requests_max: None,
            queue_timeout: Duration::from_secs(10),
            core: None,
        }
    }
}

impl Peer {
    /// Starts nginx.
    pub(crate) fn nginx(setup: &PeerSetup) -> anyhow::Result<Self> {
        let program = program("nginx", "nginx-light")?;
        let dir = TempDir::new()?;
        let address = loopback(free_port()?);
        let file = dir.path().join("nginx.conf");
        fs::write(&file, nginx_conf(setup, address, dir.path()))?;
        let mut command = vec![program.display().to_string()];
        command.extend(["-e".to_owned(), "stderr".to_owned(), "-c".to_owned()]);
        command.push(file.display().to_string());
        Self::start(&command, address, dir, setup.core)
    }

    /// Starts HAProxy.
    pub(crate) fn haproxy(setup: &PeerSetup) -> anyhow::Result<Self> {
        let program = program("haproxy", "haproxy")?;
        let dir = TempDir::new()?;
        let address = loopback(free_port()?);
        let file = dir.path().join("haproxy.cfg");
        fs::write(&file, haproxy_cfg(setup, address))?;
        let mut command = vec![program.display().to_string()];
        command.extend(["-db".to_owned(), "-q".to_owned(), "-f".to_owned()]);
        command.push(file.display().to_string());
        Self::start(&command, address, dir, setup.core)
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process id of its master; nginx's workers are its children.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The processes that do the work: the children if there are any, else the one started.
    pub(crate) fn workers(&self) -> anyhow::Result<Vec<u32>> {
        let id = self.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        let children: Result<Vec<u32>, _> = children.split_whitespace().map(str::parse).collect();
        let mut workers = children?;
        if workers.is_empty() {
            workers.push(id);
        }
        Ok(workers)
    }

    fn start(
        command: &[String],
        address: SocketAddr,
        dir: TempDir,
        core: Option<usize>,
    ) -> anyhow::Result<Self> {
        // The shell becomes the server; its line stands in for one that neither server prints.
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "ulimit -n 65536 2>/dev/null; echo started; exec \"$@\"",
            "sh",
        ]);
        shell.args(command);
        let mut child = Child::start(shell, "started", READY_TIMEOUT)?;

        let until = Instant::now() + READY_TIMEOUT;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = child.ended()? {
                anyhow::bail!("{} ended before it was ready: {status}", command[0]);
            }
            anyhow::ensure!(
                Instant::now() < until,
                "{} was not ready within {READY_TIMEOUT:?}",
                command[0]
            );
            std::thread::sleep(READY_INTERVAL);
        }
        let peer = Self {
            child,
            address,
            _dir: dir,
        };
        if let Some(core) = core {
            measure::pin_process(peer.id(), core)?;
            for worker in peer.workers()? {
                measure::pin_process(worker, core)?;
            }
        }
        Ok(peer)
    }
}

/// Where `name` is; if it is nowhere, which Debian package has it.
fn program(name: &str, package: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(DIRECTORIES.iter().map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
        .with_context(|| format!("{name} is not installed: it is in Debian's package {package}"))
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn nginx_conf(setup: &PeerSetup, address: SocketAddr, dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "daemon off;
worker_processes {threads};
pid {dir}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 16384; }}
http {{
  access_log off;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  keepalive_requests 1000000000;
  upstream app {{ server {upstream}; keepalive 1024; keepalive_requests 1000000000; }}
  server {{
    listen {address} backlog=65535;
    location / {{
      proxy_pass http://app;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
    }}
  }}
}}
",
        threads = setup.threads,
        upstream = setup.upstream,
    )
}

fn haproxy_cfg(setup: &PeerSetup, address: SocketAddr) -> String {
    let limit = setup
        .requests_max
        .map(|requests| format!(" maxconn {requests}"))
        .unwrap_or_default();
    format!(
        "global
  nbthread {threads}
  maxconn 30000
defaults
  mode http
  option http-keep-alive
  option abortonclose
  option forwardfor
  http-reuse always
  timeout client 75s
  timeout server 60s
  timeout connect 1s
  timeout queue {queue_ms}ms
  timeout http-request 10s
frontend clients
  bind {address} backlog 65535
  default_backend app
backend app
  server app {upstream}{limit}
",
        threads = setup.threads,
        queue_ms = setup.queue_timeout.as_millis(),
        upstream = setup.upstream,
    )
}

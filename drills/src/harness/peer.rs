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
const READY_TIMEOUT: Duration = Duration::from_secs(60);
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
    /// Requests passed on at once; `None` for no such limit.
    pub(crate) requests_max: Option<u32>,
    /// Requests beyond that which may wait, further ones being refused; `None` for all of them.
    /// nginx has no queue: it passes these on as well.
    pub(crate) queue_max: Option<u32>,
    /// HAProxy: longest time in the queue.
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
            queue_max: None,
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
        let (upstream, location) = nginx_proxy(setup);
        let conf = nginx_conf(setup.threads, address, dir.path(), &upstream, &location);
        Self::start_nginx(&program, address, dir, &conf, setup.core)
    }

    /// Starts an nginx that answers by itself, at once, with a body of `bytes` bytes: a backend that
    /// costs next to nothing.
    pub(crate) fn answering(bytes: usize, core: Option<usize>) -> anyhow::Result<Self> {
        let program = program("nginx", "nginx-light")?;
        let dir = TempDir::new()?;
        let address = loopback(free_port()?);
        let body = "n".repeat(bytes);
        let location = format!("default_type text/plain; return 200 \"{body}\";");
        let conf = nginx_conf(1, address, dir.path(), "", &location);
        Self::start_nginx(&program, address, dir, &conf, core)
    }

    /// Starts HAProxy.
    pub(crate) fn haproxy(setup: &PeerSetup) -> anyhow::Result<Self> {
        let program = haproxy_program()?;
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

    fn start_nginx(
        program: &Path,
        address: SocketAddr,
        dir: TempDir,
        conf: &str,
        core: Option<usize>,
    ) -> anyhow::Result<Self> {
        let file = dir.path().join("nginx.conf");
        fs::write(&file, conf)?;
        let mut command = vec![program.display().to_string()];
        command.extend(["-e".to_owned(), "stderr".to_owned(), "-c".to_owned()]);
        command.push(file.display().to_string());
        Self::start(&command, address, dir, core)
    }

    /// Starts `command` and waits until `address` accepts connections.
    pub(crate) fn start(
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

/// Where HAProxy is.
pub(super) fn haproxy_program() -> anyhow::Result<PathBuf> {
    program("haproxy", "haproxy")
}

/// Where `name` is; if it is nowhere, which Debian package has it.
pub(crate) fn program(name: &str, package: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(DIRECTORIES.iter().map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
        .with_context(|| format!("{name} is not installed: it is in Debian's package {package}"))
}

/// `port` of the loopback address.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn nginx_conf(
    threads: u32,
    address: SocketAddr,
    dir: &Path,
    upstream: &str,
    location: &str,
) -> String {
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
  limit_conn_zone $server_port zone=all:1m;
  {upstream}
  server {{
    listen {address} backlog=65535;
    location / {{
      {location}
    }}
  }}
}}
"
    )
}

/// What nginx needs beside the rest to pass requests on: its upstream block, and its location.
fn nginx_proxy(setup: &PeerSetup) -> (String, String) {
    let upstream = format!(
        "upstream app {{ server {}; keepalive 1024; keepalive_requests 1000000000; }}",
        setup.upstream
    );
    let limit = match (setup.requests_max, setup.queue_max) {
        (Some(requests), Some(queue)) => format!(
            "limit_conn all {}; limit_conn_status 503; limit_conn_log_level info;
      add_header Retry-After 1 always;",
            requests + queue
        ),
        _ => String::new(),
    };
    let location = format!(
        "{limit}
      proxy_pass http://app;
      proxy_http_version 1.1;
      proxy_read_timeout 1h;
      proxy_set_header Connection \"\";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Host $http_host;"
    );
    (upstream, location)
}

fn haproxy_cfg(setup: &PeerSetup, address: SocketAddr) -> String {
    let limit = setup
        .requests_max
        .map(|requests| format!(" maxconn {requests}"))
        .unwrap_or_default();
    // Where the server's own queue is full, HAProxy lets requests wait for any server of the
    // backend, so that maxqueue refuses nothing: the rule does.
    let rule = match (setup.requests_max, setup.queue_max) {
        (Some(requests), Some(queue)) => format!(
            "http-request return status 503 content-type text/plain string busy hdr Retry-After 1 \
             if {{ be_conn(app) gt {} }}",
            requests + queue
        ),
        _ => String::new(),
    };
    format!(
        "global
  nbthread {threads}
defaults
  mode http
  option http-keep-alive
  option abortonclose
  option forwardfor
  http-reuse always
  timeout client 75s
  timeout server 1h
  timeout connect 1s
  timeout queue {queue_ms}ms
  timeout http-request 10s
frontend clients
  bind {address} backlog 65535
  http-request set-header X-Forwarded-Proto http
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  default_backend app
backend app
  {rule}
  server app {upstream}{limit}
",
        threads = setup.threads,
        queue_ms = setup.queue_timeout.as_millis(),
        upstream = setup.upstream,
    )
}

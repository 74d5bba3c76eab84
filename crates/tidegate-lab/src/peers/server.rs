//! One Redis server.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use super::place::{Directory, until};
use super::process::Process;
use super::{PeerError, Reply, Wire, free_port};

/// Longest time from start to readiness.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Ports tried before giving up: somebody else may take one between the look and the start.
const STARTS_MAX: usize = 5;
/// How much of the log an error shows, in bytes.
const LOG_SHOWN: usize = 2_000;

/// A server to be started.
#[derive(Clone, Debug, Default)]
pub struct RedisSetup {
    /// What it keeps on disk.
    pub persistence: Persistence,
    /// The primary that it copies, or the proxy before it; `None` for a primary.
    pub replica_of: Option<SocketAddr>,
    /// What it drops when memory is short; `None` for nothing: it refuses writes instead.
    pub maxmemory_policy: Option<String>,
    /// Memory for data; `None` for no limit.
    pub maxmemory_bytes: Option<u64>,
    /// Replicas that it insists on before it takes writes.
    pub min_replicas: Option<MinReplicas>,
    /// The password that it asks for.
    pub password: Option<String>,
    /// Further lines for its configuration file.
    pub extra: Vec<String>,
}

/// What a server keeps on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// Nothing: it restarts empty.
    #[default]
    None,
    /// Every write, flushed once a second: it restarts with all or nearly all of it.
    AppendOnly,
}

/// Replicas that a primary insists on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinReplicas {
    /// How many.
    pub count: u32,
    /// How long ago each may have been heard of, in whole seconds.
    pub lag_s_max: u32,
}

/// A running Redis server. Dropping it kills it and removes what it kept.
pub struct RedisServer {
    setup: RedisSetup,
    port: u16,
    directory: Directory,
    /// `None` while it is down.
    process: Option<Process>,
    sentinel: bool,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    ///
    /// When the program is missing, ends at once, or is not ready within 20 s.
    pub fn start(setup: RedisSetup) -> Result<Self, PeerError> {
        Self::start_as(setup, false)
    }

    /// Starts a primary that keeps nothing on disk.
    ///
    /// # Errors
    ///
    /// As [`RedisServer::start`].
    pub fn plain() -> Result<Self, PeerError> {
        Self::start(RedisSetup::default())
    }

    pub(super) fn start_as(setup: RedisSetup, sentinel: bool) -> Result<Self, PeerError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut server = Self {
                setup: setup.clone(),
                port: free_port()?,
                directory: Directory::new()?,
                process: None,
                sentinel,
            };
            match server.launch() {
                Ok(()) => return Ok(server),
                Err(PeerError::Ended { .. }) if tries < STARTS_MAX => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its process id; `None` while it is down.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// A connection to it, signed in.
    pub fn wire(&self) -> Result<Wire, PeerError> {
        let mut wire = Wire::connect(self.address())?;
        if let Some(password) = &self.setup.password {
            wire.ask(&["AUTH", password])?.granted()?;
        }
        Ok(wire)
    }

    /// Asks it one thing on a connection of its own; a refusal is an error.
    pub fn ask(&self, command: &[&str]) -> Result<Reply, PeerError> {
        self.wire()?.ask(command)?.granted()
    }

    /// The value of `field` in its `INFO`; empty when there is none.
    pub fn info(&self, field: &str) -> Result<String, PeerError> {
        let info = self.ask(&["INFO", "everything"])?;
        let mut lines = info.text().lines().filter_map(|line| line.split_once(':'));
        let value = lines.find(|(name, _)| *name == field);
        Ok(value.map_or_else(String::new, |(_, value)| value.to_owned()))
    }

    /// Calls of each command that it has run so far, as `INFO commandstats` counts them.
    pub fn calls(&self) -> Result<Vec<(String, u64)>, PeerError> {
        let info = self.ask(&["INFO", "commandstats"])?;
        let lines = info.text().lines();
        Ok(lines
            .filter_map(|line| {
                let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
                let calls = rest.split(',').next()?.parse().ok()?;
                Some((name.to_owned(), calls))
            })
            .collect())
    }

    /// Freezes it: it stays connected and answers nothing.
    pub fn pause(&self) -> Result<(), PeerError> {
        Ok(self.running()?.pause()?)
    }

    /// Lets it go on after a pause.
    pub fn resume(&self) -> Result<(), PeerError> {
        Ok(self.running()?.resume()?)
    }

    /// Kills it with SIGKILL. It can be restarted.
    pub fn kill(&mut self) -> Result<(), PeerError> {
        match self.process.take() {
            Some(mut process) => Ok(process.kill()?),
            None => Ok(()),
        }
    }

    /// Starts it again after [`RedisServer::kill`], on the same port and with what it had on disk.
    ///
    /// # Errors
    ///
    /// As [`RedisServer::start`].
    pub fn restart(&mut self) -> Result<(), PeerError> {
        self.kill()?;
        self.launch()
    }

    /// Waits until `look` is satisfied with the value of `field` in its `INFO`.
    ///
    /// # Errors
    ///
    /// When it is not within `within`.
    pub fn wait_for_info(
        &self,
        field: &str,
        within: Duration,
        look: impl Fn(&str) -> bool,
    ) -> Result<(), PeerError> {
        until(within, &format!("{field} of {}", self.address()), || {
            let value = self.info(field).map_err(|error| error.to_string())?;
            if look(&value) { Ok(()) } else { Err(value) }
        })
    }

    fn running(&self) -> Result<&Process, PeerError> {
        let down = || PeerError::Refused(format!("{} is down", self.address()));
        self.process.as_ref().ok_or_else(down)
    }

    fn launch(&mut self) -> Result<(), PeerError> {
        let path = self.directory.path().join("server.conf");
        // Sentinels and servers rewrite their file; what they have learnt holds at a restart.
        if !path.exists() {
            fs::write(&path, self.configuration()?)?;
        }
        let mut command = Command::new("redis-server");
        command.arg(&path).current_dir(self.directory.path());
        if self.sentinel {
            command.arg("--sentinel");
        }
        self.process = Some(Process::start(command)?);

        let what = format!("{} is ready", self.address());
        let mut ended = false;
        let ready = until(READY_TIMEOUT, &what, || {
            let process = self.process.as_mut().expect("it was started above");
            if process.has_ended().map_err(|error| error.to_string())? {
                ended = true;
                return Ok(());
            }
            self.is_ready()
        });
        if ended {
            self.process = None;
            return Err(PeerError::Ended {
                program: "redis-server".to_owned(),
                log: self.log(),
            });
        }
        ready
    }

    /// Whether it is this server that answers on the port, and no other one's.
    fn is_ready(&self) -> Result<(), String> {
        let answered = self.info("process_id").map_err(|error| error.to_string())?;
        let ours = self.pid().map(|pid| pid.to_string());
        if Some(&answered) != ours.as_ref() {
            return Err(format!("process {answered} answers"));
        }
        let pong = self.ask(&["PING"]).map_err(|error| error.to_string())?;
        if pong.text() == "PONG" {
            Ok(())
        } else {
            Err(pong.text().to_owned())
        }
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        let from = log.ceil_char_boundary(log.len().saturating_sub(LOG_SHOWN));
        log[from..].to_owned()
    }

    fn configuration(&self) -> Result<String, PeerError> {
        let mut text = String::new();
        let mut line = |line: String| writeln!(text, "{line}").expect("a string takes everything");
        line(format!("port {}", self.port));
        line("bind 127.0.0.1".to_owned());
        line("logfile log".to_owned());
        if !self.sentinel {
            self.server_lines(&mut line)?;
        }
        for extra in &self.setup.extra {
            line(extra.clone());
        }
        Ok(text)
    }

    fn server_lines(&self, line: &mut impl FnMut(String)) -> Result<(), PeerError> {
        line("save \"\"".to_owned());
        line("replica-announce-ip 127.0.0.1".to_owned());
        line(format!("replica-announce-port {}", self.port));
        // A new replica starts at once, as it does from disk when there is one already.
        line("repl-diskless-sync-delay 0".to_owned());
        if self.setup.persistence == Persistence::AppendOnly {
            line("appendonly yes".to_owned());
        }
        if let Some(primary) = self.setup.replica_of {
            line(format!("replicaof {} {}", primary.ip(), primary.port()));
        }
        if let Some(policy) = &self.setup.maxmemory_policy {
            line(format!("maxmemory-policy {policy}"));
        }
        if let Some(bytes) = self.setup.maxmemory_bytes {
            line(format!("maxmemory {bytes}"));
        }
        if let Some(min) = self.setup.min_replicas {
            line(format!("min-replicas-to-write {}", min.count));
            line(format!("min-replicas-max-lag {}", min.lag_s_max));
        }
        if let Some(password) = &self.setup.password {
            line(format!("requirepass {password}"));
            line(format!("masterauth {password}"));
        }
        if self
            .setup
            .extra
            .iter()
            .any(|line| line == "cluster-enabled yes")
        {
            line(format!("cluster-port {}", free_port()?));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_restarts_on_its_port_with_what_it_keeps() {
        for (persistence, kept) in [(Persistence::None, 0), (Persistence::AppendOnly, 1)] {
            let setup = RedisSetup {
                persistence,
                password: Some("sesame".to_owned()),
                ..RedisSetup::default()
            };
            let mut server = RedisServer::start(setup).unwrap();
            let address = server.address();
            server.ask(&["SET", "a", "b"]).unwrap();

            server.restart().unwrap();

            assert_eq!(server.address(), address);
            assert_eq!(server.ask(&["DBSIZE"]).unwrap(), Reply::Int(kept));
        }
    }

    #[test]
    fn a_paused_server_answers_nothing_until_it_goes_on() {
        let server = RedisServer::plain().unwrap();
        let mut wire = server.wire().unwrap();
        wire.set_timeout(Duration::from_millis(50)).unwrap();

        server.pause().unwrap();
        assert!(wire.ask(&["PING"]).is_err());
        server.resume().unwrap();

        assert_eq!(server.ask(&["PING"]).unwrap().text(), "PONG");
    }

    #[test]
    fn a_replica_follows_its_primary() {
        let primary = RedisServer::plain().unwrap();
        let replica = RedisServer::start(RedisSetup {
            replica_of: Some(primary.address()),
            ..RedisSetup::default()
        })
        .unwrap();
        let within = Duration::from_secs(20);
        replica
            .wait_for_info("master_link_status", within, |status| status == "up")
            .unwrap();

        let mut wire = primary.wire().unwrap();
        wire.ask(&["SET", "a", "b"]).unwrap();

        assert_eq!(wire.ask(&["WAIT", "1", "5000"]).unwrap(), Reply::Int(1));
        assert_eq!(replica.ask(&["GET", "a"]).unwrap().text(), "b");
    }
}

//! The real `tidegate` binary as a process of its own.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_lab::measure::{self, Child};

use super::{Metrics, TempDir, ask};

/// Longest time from start to the line that says it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest time from SIGTERM to its end: what it drains within is shorter.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Lines of its log that are shown when it does not start.
const LOG_LINES_SHOWN: usize = 20;

/// A gateway to be started.
#[derive(Clone, Debug)]
pub(crate) struct GatewaySetup {
    /// Its threads.
    pub(crate) threads: u32,
    /// Keys of `[listen]` beside its address.
    pub(crate) listen: String,
    /// All other sections, as TOML: `[[app]]` and what else is wanted. `[admin]` and `[drain]` are
    /// there already.
    pub(crate) sections: String,
    /// The core it is kept on; `None` for whichever is free.
    pub(crate) core: Option<usize>,
}

/// A running gateway. Dropping it stops it.
pub(crate) struct Gateway {
    child: Child,
    address: SocketAddr,
    admin: SocketAddr,
    dir: TempDir,
}

impl GatewaySetup {
    /// One thread on any core with these sections.
    pub(crate) fn new(sections: impl Into<String>) -> Self {
        Self {
            threads: 1,
            listen: String::new(),
            sections: sections.into(),
            core: None,
        }
    }

    /// One `[[app]]` before `upstream` with these further `keys`, one a line, and the tables that
    /// follow them.
    pub(crate) fn app(upstream: SocketAddr, keys: &str) -> Self {
        Self::new(format!(
            "[[app]]\nname = \"shop\"\nupstream = \"http://{upstream}\"\n{keys}\n"
        ))
    }

    fn file(&self) -> String {
        format!(
            "threads = {}\n\n[listen]\naddress = \"127.0.0.1:0\"\n{}\n\n[admin]\n\
             address = \"127.0.0.1:0\"\n\n[drain]\ndelay = \"0s\"\ntimeout = \"5s\"\n\n{}\n",
            self.threads, self.listen, self.sections
        )
    }
}

impl Gateway {
    /// Starts one and waits until it is ready.
    pub(crate) fn start(setup: &GatewaySetup) -> anyhow::Result<Self> {
        Self::start_in(setup, &[])
    }

    /// The same with these variables in its environment.
    pub(crate) fn start_in(
        setup: &GatewaySetup,
        environment: &[(&str, String)],
    ) -> anyhow::Result<Self> {
        let dir = TempDir::new()?;
        let file = dir.path().join("tidegate.toml");
        fs::write(&file, setup.file())?;
        let log = dir.path().join("log");
        let mut command = Command::new(binary()?);
        command.args(["run", "--config"]).arg(&file);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.stderr(File::create(&log)?);

        let child = Child::start(command, "tidegate: listening on ", READY_TIMEOUT)
            .with_context(|| format!("its log ends with:\n{}", tail(&log)))?;
        if let Some(core) = setup.core {
            measure::pin_process(child.id(), core)?;
        }
        let (address, admin) = addresses(child.ready_line())
            .with_context(|| format!("not a line of readiness: {}", child.ready_line()))?;
        Ok(Self {
            child,
            address,
            admin,
            dir,
        })
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it as an operator does, and waits until it has ended.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        let status = self.child.stop(STOP_TIMEOUT)?;
        anyhow::ensure!(status.success(), "the gateway ended with {status}");
        Ok(())
    }

    /// Ends it at once, as a crash does.
    pub(crate) fn kill(self) -> anyhow::Result<()> {
        self.child.kill()?;
        Ok(())
    }

    /// Stops it where it is: its connections stay, and nothing answers.
    pub(crate) fn pause(&self) -> anyhow::Result<()> {
        Ok(self.child.pause()?)
    }

    /// Lets it go on after a pause.
    pub(crate) fn resume(&self) -> anyhow::Result<()> {
        Ok(self.child.resume()?)
    }

    /// Where it tells of itself.
    pub(crate) const fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Starts one that is told nothing but where `upstream` is, and waits until it is ready.
    pub(crate) fn start_bare(upstream: SocketAddr) -> anyhow::Result<Self> {
        let mut command = Command::new(binary()?);
        command.args(["run", "--upstream", &format!("http://{upstream}")]);
        // Where it listens is no matter of protection, and the usual ports may be taken.
        command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        Self::ready(command, TempDir::new()?)
    }

    fn ready(mut command: Command, dir: TempDir) -> anyhow::Result<Self> {
        let log = dir.path().join("log");
        command.stderr(File::create(&log)?);
        let child = Child::start(command, "tidegate: listening on ", READY_TIMEOUT)
            .with_context(|| format!("its log ends with:\n{}", tail(&log)))?;
        let (address, admin) = addresses(child.ready_line())
            .with_context(|| format!("not a line of readiness: {}", child.ready_line()))?;
        Ok(Self {
            child,
            address,
            admin,
            dir,
        })
    }

    /// What `/metrics` says now. A gateway that has panicked meanwhile is an error, whatever it says.
    pub(crate) fn metrics(&self) -> anyhow::Result<Metrics> {
        let log = self.log();
        if let Some(at) = log.find("panicked at") {
            let told: Vec<&str> = log[at..].lines().take(2).collect();
            anyhow::bail!("the gateway has {}", told.join(" "));
        }
        let text = String::from_utf8(ask(self.admin, "/metrics")?)?;
        Metrics::parse(&text)
    }

    /// What its admin listener answers for `path`.
    pub(crate) fn told(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        ask(self.admin, path)
    }

    /// The configuration that it was started with.
    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("tidegate.toml")
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

/// The binary built with this one, or the one that `TIDEGATE_BIN` names.
pub(crate) fn binary() -> anyhow::Result<PathBuf> {
    let path = match std::env::var_os("TIDEGATE_BIN") {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?.with_file_name("tidegate"),
    };
    anyhow::ensure!(
        path.is_file(),
        "{} is not there: build it with the drills, or name it in TIDEGATE_BIN",
        path.display()
    );
    Ok(path)
}

/// Client and admin address out of `tidegate: listening on A, admin on B`.
fn addresses(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let rest = line.strip_prefix("tidegate: listening on ")?;
    let (address, admin) = rest.split_once(", admin on ")?;
    Some((address.parse().ok()?, admin.trim().parse().ok()?))
}

fn tail(log: &std::path::Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_addresses_are_read_from_the_line_of_readiness() {
        let line = "tidegate: listening on 127.0.0.1:8080, admin on 127.0.0.1:9090";

        let (address, admin) = addresses(line).unwrap();

        assert_eq!((address.port(), admin.port()), (8080, 9090));
        assert!(addresses("tidegate: listening on 127.0.0.1:8080, admin off").is_none());
    }
}

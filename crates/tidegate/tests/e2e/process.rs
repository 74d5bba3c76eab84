//! The binary under test, and a directory for what it needs.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tidegate_lab::measure::Child;

/// Longest wait for anything that is expected to happen: a mark for failing, not for measuring.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running `tidegate run`. Dropping it stops it.
pub(crate) struct Tidegate {
    child: Child,
    pub(crate) clients: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Tidegate {
    /// Runs `configuration`, listening on ports of its own.
    pub(crate) fn start(directory: &TempDir, configuration: &str) -> Self {
        directory.write("tidegate.toml", configuration);
        Self::run(directory, "warn", None)
    }

    /// Runs the configuration that is there, logging everything from `level` on to a file.
    pub(crate) fn start_logging(directory: &TempDir, level: &str, log: &Path) -> Self {
        Self::run(directory, level, Some(log))
    }

    fn run(directory: &TempDir, level: &str, log: Option<&Path>) -> Self {
        let mut command = tidegate();
        let file = directory.path().join("tidegate.toml");
        command.arg("run").arg("--config").arg(file);
        command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        command.args(["--log", level]);
        if let Some(log) = log {
            command.stderr(File::create(log).unwrap());
        }
        let child = Child::start(command, "tidegate: listening on ", PATIENCE).unwrap();
        let (clients, admin) = child
            .ready_line()
            .strip_prefix("tidegate: listening on ")
            .and_then(|line| line.split_once(", admin on "))
            .expect("the ready line names both addresses");
        Self {
            clients: clients.parse().unwrap(),
            admin: admin.trim().parse().unwrap(),
            child,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM and does not wait.
    pub(crate) fn terminate(&self) {
        self.child.terminate().unwrap();
    }

    /// Waits for its end, which something else must have brought about.
    pub(crate) fn wait(mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.ended().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "tidegate does not end");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

/// A command of the binary under test.
pub(crate) fn tidegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env_remove("TIDEGATE_LOG");
    command
}

/// Runs `tidegate` with `args` to its end.
pub(crate) fn output(args: &[&str]) -> Output {
    tidegate().args(args).output().unwrap()
}

/// A directory of its own that goes when it is dropped.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("tidegate-e2e-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and says where it is.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

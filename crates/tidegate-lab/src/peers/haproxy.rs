//! Debian's HAProxy.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::PeerError;
use super::place::{Directory, until};
use super::process::Process;

/// Longest time from start to the first answer.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Longest wait for an answer of its command line.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Where Debian puts servers, which is not on everybody's path.
const DIRECTORIES: [&str; 3] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"];

/// A running HAProxy with a command line. Dropping it kills it.
pub struct Haproxy {
    process: Process,
    socket: PathBuf,
    // Last, so that it is cleared when nobody writes to it any more.
    _directory: Directory,
}

impl Haproxy {
    /// Starts one with these `sections`, and with `global` and `defaults` that suit a test: HTTP, one thread, short times.
    ///
    /// # Errors
    ///
    /// When it is not installed, or does not take the configuration.
    pub fn start(sections: &str) -> Result<Self, PeerError> {
        let directory = Directory::new()?;
        let socket = directory.path().join("s");
        let file = directory.path().join("haproxy.cfg");
        let text = format!(
            "global\n nbthread 1\n maxconn 500\n stats socket {} mode 600 level admin\n\
             defaults\n mode http\n timeout connect 1s\n timeout client 10s\n timeout server 10s\n timeout check 1s\n\
             {sections}\n",
            socket.display()
        );
        std::fs::write(&file, text)?;
        let mut command = Command::new(program());
        command.arg("-db").arg("-f").arg(&file);
        let mut haproxy = Self {
            process: Process::start(command)?,
            socket,
            _directory: directory,
        };
        haproxy.wait_until_ready(&file)?;
        Ok(haproxy)
    }

    /// Its command line.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What it answers to a command.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn command(&self, line: &str) -> Result<String, PeerError> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// What the column `column` of its statistics says of a server.
    ///
    /// # Errors
    ///
    /// When there is no such server or column, or it does not answer.
    pub fn stat(&self, backend: &str, server: &str, column: &str) -> Result<String, PeerError> {
        let rows = self.stats(backend, [column])?;
        let row = rows.into_iter().find(|(name, _)| name == server);
        row.map(|(_, [value])| value)
            .ok_or_else(|| PeerError::Refused(format!("no server {backend}/{server}")))
    }

    /// What its statistics say of each server of a backend: its name, and these columns, all of one moment.
    ///
    /// # Errors
    ///
    /// When there is no such column, or it does not answer.
    pub fn stats<const N: usize>(
        &self,
        backend: &str,
        columns: [&str; N],
    ) -> Result<Vec<(String, [String; N])>, PeerError> {
        let said = self.command(&format!("show stat {backend} 4 -1"))?;
        let mut lines = said.lines();
        let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let mut at = [0; N];
        for (at, column) in at.iter_mut().zip(columns) {
            let place = head.iter().position(|name| *name == column);
            *at = place.ok_or_else(|| PeerError::Refused(format!("no column {column}")))?;
        }
        let prefix = format!("{backend},");
        let rows = lines.filter_map(|line| {
            let (name, _) = line.strip_prefix(&prefix)?.split_once(',')?;
            let values: Vec<&str> = line.split(',').collect();
            let value = |at: usize| values.get(at).copied().unwrap_or_default().to_owned();
            Some((name.to_owned(), at.map(value)))
        });
        Ok(rows.collect())
    }

    fn wait_until_ready(&mut self, file: &Path) -> Result<(), PeerError> {
        let mut has_ended = false;
        let ready = until(READY_WITHIN, "haproxy answers", || {
            has_ended = self
                .process
                .has_ended()
                .map_err(|error| error.to_string())?;
            if has_ended {
                return Ok(());
            }
            let answer = self.command("show info");
            answer.map(drop).map_err(|error| error.to_string())
        });
        if !has_ended {
            return ready;
        }
        // It says why not when it is asked to check.
        let checked = Command::new(program())
            .arg("-c")
            .arg("-f")
            .arg(file)
            .output();
        let log = checked.map(|checked| String::from_utf8_lossy(&checked.stderr).into_owned());
        Err(PeerError::Ended {
            program: "haproxy".to_owned(),
            log: log.unwrap_or_else(|error| error.to_string()),
        })
    }
}

fn program() -> PathBuf {
    let places = DIRECTORIES
        .iter()
        .map(|place| Path::new(place).join("haproxy"));
    let found = places.into_iter().find(|place| place.is_file());
    // If it is nowhere, starting it says so.
    found.unwrap_or_else(|| PathBuf::from("haproxy"))
}

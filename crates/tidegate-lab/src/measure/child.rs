//! A child process that does not outlive whoever started it.

use std::io::{self, BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How often an ending child is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// How long a dropped child has between SIGTERM and SIGKILL.
const DROP_GRACE: Duration = Duration::from_millis(500);
/// Lines of its output kept while waiting for the one that says it is ready.
const LINES_MAX: usize = 10_000;

/// A running child process. Dropping it ends it, gently at first.
pub struct Child {
    process: std::process::Child,
    ready_line: String,
}

/// Why there is no child.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The program could not be started.
    #[error("cannot start {program}: {cause}")]
    Start {
        /// What was to be started.
        program: String,
        /// Why it was not.
        cause: io::Error,
    },
    /// It ended, or closed its output, before it was ready.
    #[error("{program} ended before it was ready: {status}")]
    Ended {
        /// What had been started.
        program: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// It did not get ready in time.
    #[error("{program} was not ready within {timeout:?}")]
    TooLate {
        /// What had been started.
        program: String,
        /// How long it had.
        timeout: Duration,
    },
}

impl Child {
    /// Starts `command` and waits until it prints a line that begins with `ready` on its standard
    /// output. What it prints later is read and dropped, so that it never blocks on it.
    pub fn start(mut command: Command, ready: &str, timeout: Duration) -> Result<Self, ChildError> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let process = command.spawn().map_err(|cause| ChildError::Start {
            program: program.clone(),
            cause,
        })?;
        let mut child = Self {
            process,
            ready_line: String::new(),
        };

        let lines = read_lines(child.process.stdout.take().expect("stdout was piped"));
        let until = Instant::now() + timeout;
        loop {
            match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with(ready) => {
                    child.ready_line = line;
                    return Ok(child);
                }
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(ChildError::TooLate { program, timeout });
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let status = child.end(DROP_GRACE);
                    let status = status.map_err(|cause| ChildError::Start {
                        program: program.clone(),
                        cause,
                    })?;
                    return Err(ChildError::Ended { program, status });
                }
            }
        }
    }

    /// The line by which it said that it is ready.
    pub fn ready_line(&self) -> &str {
        &self.ready_line
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Asks it to end by SIGTERM and returns at once.
    pub fn terminate(&self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Ends it: SIGTERM, and SIGKILL when it is still there after `grace`.
    pub fn stop(mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.end(grace)
    }

    /// Ends it by SIGKILL, as a crash does: it has no chance to tidy up.
    pub fn kill(mut self) -> io::Result<ExitStatus> {
        self.process.kill()?;
        self.process.wait()
    }

    /// Stops it where it is by SIGSTOP: its connections stay, and nothing answers.
    pub fn pause(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on after [`Child::pause`].
    pub fn resume(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    fn end(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        if let Some(status) = self.process.try_wait()? {
            return Ok(status);
        }
        self.signal(Signal::TERM)?;
        // One that is paused would not notice.
        self.signal(Signal::CONT)?;
        let until = Instant::now() + grace;
        while Instant::now() < until {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        self.process.kill()?;
        self.process.wait()
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        // Not waited for yet, so the id is still this child's even if it has ended.
        let pid = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw);
        Ok(kill_process(
            pid.expect("a child has a process id"),
            signal,
        )?)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Nobody is left to be told of a failure.
        let _ = self.end(DROP_GRACE);
    }
}

fn read_lines(output: std::process::ChildStdout) -> mpsc::Receiver<String> {
    let (line_in, lines) = mpsc::sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { return };
            // Full or without a reader: reading goes on, the line is dropped.
            let _ = line_in.try_send(line);
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_child_is_ready_when_it_says_so_and_ends_when_asked() {
        let script = "echo starting; echo 'ready: 1'; exec sleep 600";

        let child = Child::start(shell(script), "ready: ", Duration::from_secs(60)).unwrap();

        assert_eq!(child.ready_line(), "ready: 1");
        assert!(!child.stop(Duration::from_secs(60)).unwrap().success());
    }

    #[test]
    fn a_child_that_ends_instead_is_an_error() {
        let result = Child::start(shell("exit 3"), "ready", Duration::from_secs(60));

        assert!(matches!(
            result,
            Err(ChildError::Ended { status, .. }) if status.code() == Some(3)
        ));
    }

    #[test]
    fn a_paused_child_ends_when_asked() {
        let child = Child::start(
            shell("echo ready; exec sleep 600"),
            "ready",
            Duration::from_secs(60),
        )
        .unwrap();

        child.pause().unwrap();
        let status = child.stop(Duration::from_secs(60)).unwrap();

        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(15)
        );
    }

    #[test]
    fn a_child_that_ignores_sigterm_is_killed() {
        let script = "trap '' TERM; echo ready; while :; do :; done";
        let child = Child::start(shell(script), "ready", Duration::from_secs(60)).unwrap();

        let status = child.stop(Duration::from_millis(50)).unwrap();

        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9)
        );
    }
}

//! One process of a peer.

use std::io;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::PeerError;

/// A process. Dropping it kills it.
pub(super) struct Process(Child);

impl Process {
    pub(super) fn start(mut command: Command) -> Result<Self, PeerError> {
        let program = command.get_program().to_string_lossy().into_owned();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn();
        let child = child.map_err(|cause| PeerError::Start { program, cause })?;
        Ok(Self(child))
    }

    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }

    pub(super) fn kill(&mut self) -> io::Result<()> {
        self.0.kill()?;
        self.0.wait().map(drop)
    }

    pub(super) fn pause(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    pub(super) fn resume(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        // Not waited for yet, so the id is still this child's even if it has ended.
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        Ok(kill_process(
            pid.expect("a child has a process id"),
            signal,
        )?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nobody is left to be told of a failure.
        let _ = self.kill();
    }
}

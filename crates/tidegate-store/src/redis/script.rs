//! Scripts that run on the server, and one run of one.

use std::sync::Mutex;

use redis::{Cmd, Pipeline};

/// A script, known to the server by the SHA-1 of its text: two releases with different scripts get
/// along on one server.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    name: &'static str,
    body: &'static str,
    sha1: String,
}

/// A script with its keys and arguments. The first key says on which shard it runs.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The script.
    pub(crate) script: &'static Script,
    /// All keys that it touches, all of one slot.
    pub(crate) keys: Vec<Vec<u8>>,
    /// Its arguments.
    pub(crate) args: Vec<Vec<u8>>,
}

/// Most scripts that are loaded ahead.
const KNOWN_MAX: usize = 64;

/// The scripts that were run so far, to be loaded ahead on another primary.
#[derive(Default)]
pub(super) struct Known(Mutex<Vec<&'static Script>>);

impl Known {
    /// Notes that `script` is run.
    pub(super) fn note(&self, script: &'static Script) {
        let mut known = self.0.lock().expect("nobody panics while holding it");
        let is_there = known.iter().any(|it| std::ptr::eq(*it, script));
        if !is_there && known.len() < KNOWN_MAX {
            known.push(script);
        }
    }

    /// The commands that load them all.
    pub(super) fn load(&self) -> Pipeline {
        let known = self.0.lock().expect("nobody panics while holding it");
        let mut pipeline = Pipeline::with_capacity(known.len());
        for script in known.iter() {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(script.body);
        }
        pipeline
    }
}

impl Script {
    /// The script `name` with the text `body`.
    pub(crate) fn new(name: &'static str, body: &'static str) -> Self {
        let sha1 = redis::Script::new(body).get_hash().to_owned();
        Self { name, body, sha1 }
    }

    /// Its name, for metrics and messages.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }
}

impl Run {
    /// A run of `script` without keys and arguments yet.
    pub(crate) const fn of(script: &'static Script) -> Self {
        Self {
            script,
            keys: Vec::new(),
            args: Vec::new(),
        }
    }

    /// Adds a key.
    pub(crate) fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.keys.push(key.into());
        self
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, arg: impl Into<Vec<u8>>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds a number as an argument.
    pub(crate) fn number(self, number: impl ToString) -> Self {
        self.arg(number.to_string())
    }

    /// The run by the script's hash: short, but the server has to know the script.
    pub(super) fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", self.script.sha1.as_bytes())
    }

    /// The run by the script's text, which the server then knows.
    pub(super) fn by_text(&self) -> Cmd {
        self.command("EVAL", self.script.body.as_bytes())
    }

    /// What it weighs in memory.
    pub(super) fn bytes(&self) -> usize {
        let parts = self.keys.iter().chain(&self.args);
        parts
            .map(|part| part.len() + size_of::<Vec<u8>>())
            .sum::<usize>()
            + size_of::<Self>()
    }

    fn command(&self, command: &str, script: &[u8]) -> Cmd {
        let mut cmd = redis::cmd(command);
        cmd.arg(script).arg(self.keys.len());
        for part in self.keys.iter().chain(&self.args) {
            cmd.arg(part.as_slice());
        }
        cmd
    }
}

//! The thread that brings changes into the file, several at a time, and takes away what is over.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Shared;
use super::key::Key;
use super::state::Haste;

/// How long changes that somebody would miss are gathered.
const GATHERED: Duration = Duration::from_millis(10);
/// How long changes that nobody would miss are gathered, and how often is swept.
const LAZY: Duration = Duration::from_secs(1);
/// Changes that are put into bytes under one hold of the lock.
const HELD_AT_A_TIME: usize = 128;
/// Things that may be over looked at under one hold of the lock, ...
const SWEPT_AT_A_TIME: usize = 128;
/// ... and in one round.
const SWEPT_MAX: usize = 100_000;
/// A failure to write is logged at most so often.
const COMPLAINED: Duration = Duration::from_secs(10);

/// Starts the thread.
pub(super) fn start(shared: Arc<Shared>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("tidegate-embedded".to_owned())
        .spawn(move || {
            let mut writer = Writer {
                shared,
                complained: None,
            };
            writer.run();
        })
}

struct Writer {
    shared: Arc<Shared>,
    complained: Option<Instant>,
}

impl Writer {
    fn run(&mut self) {
        let mut swept = Instant::now();
        while !self.wait(swept + LAZY) {
            self.write();
            if swept.elapsed() >= LAZY {
                swept = Instant::now();
                self.sweep();
            }
        }
        self.write();
        self.shared.file.close();
    }

    /// Waits until there is something to write or `at` has come; true when it is the end.
    fn wait(&self, at: Instant) -> bool {
        let mut state = self.shared.lock();
        let began = Instant::now();
        loop {
            if state.stopping {
                return true;
            }
            let until = match state.kept.changes.haste() {
                Haste::Idle | Haste::Lazy => at,
                Haste::Soon => at.min(began + GATHERED),
                Haste::Now => return false,
            };
            let now = Instant::now();
            if now >= until {
                return false;
            }
            state = self.shared.wait(state, until - now);
        }
    }

    /// Writes what has changed.
    fn write(&mut self) {
        let (batch, keys) = {
            let mut state = self.shared.lock();
            if state.kept.changes.haste() == Haste::Idle {
                return;
            }
            state.kept.changes.take()
        };
        let keys: Vec<Key> = keys.into_iter().collect();
        let mut entries = Vec::with_capacity(keys.len());
        for keys in keys.chunks(HELD_AT_A_TIME) {
            let state = self.shared.lock();
            entries.extend(keys.iter().map(|key| (key.clone(), state.kept.encode(key))));
        }
        match self.shared.file.write(&entries) {
            Ok(()) => self.written(batch, &keys),
            Err(error) => self.failed(keys, &error),
        }
    }

    fn written(&self, batch: u64, keys: &[Key]) {
        {
            let mut state = self.shared.lock();
            state.stats.commits += 1;
            state.stats.committed += keys.len() as u64;
            state.stats.failing = false;
            for key in keys {
                if let Key::Blob(tag, name) = key {
                    state.kept.settle_blob(*tag, name);
                }
            }
        }
        self.shared.written.send_replace(batch);
    }

    /// What is kept goes on in memory; what waits for the file is told in time that it has not
    /// got there.
    fn failed(&mut self, keys: Vec<Key>, error: &redb::Error) {
        {
            let mut state = self.shared.lock();
            state.stats.failed_commits += 1;
            state.stats.failing = true;
            state.kept.changes.put_back(keys.into_iter().collect());
        }
        let due = self.complained.is_none_or(|at| at.elapsed() >= COMPLAINED);
        if due {
            self.complained = Some(Instant::now());
            tracing::error!(%error, "sessions cannot be written to the disk; they go on in memory");
        }
        if let Err(error) = self.shared.file.reopen()
            && due
        {
            tracing::error!(%error, "the file of sessions cannot be opened again");
        }
    }

    fn sweep(&self) {
        for _ in 0..SWEPT_MAX / SWEPT_AT_A_TIME {
            let now = self.shared.now();
            let mut state = self.shared.lock();
            if state.kept.sweep(now, SWEPT_AT_A_TIME) < SWEPT_AT_A_TIME {
                return;
            }
        }
    }
}

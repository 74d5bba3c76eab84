//! Sessions in this process and a file.
//!
//! All that is kept is in memory and obeys the same rules as in Redis; a thread brings what has
//! changed into one file, several changes at a time. A write is acknowledged when it is in memory;
//! it is in the file within about 10 ms, what nobody would miss within about a second, and a write
//! that waits for replicas waits for the disk instead. A process that dies loses no more than that.
//! When the disk fails, sessions go on in memory, and writes that wait say that they did not get
//! there.

mod beacons;
mod blobs;
mod ends;
mod error;
mod file;
mod fleet;
mod key;
mod pairs;
mod sessions;
mod state;
mod stream;
mod tombstone;
mod users;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_core::session::Replication;
use tidegate_core::time::Wall;
use tokio::sync::watch;

use crate::error::StoreError;
use crate::{Acked, Call};
use file::File;
use state::{Haste, State};

pub use error::EmbeddedError;

/// The embedded store. A clone is the same one; with the last of them it writes what it has left.
#[derive(Clone)]
pub struct Embedded {
    owner: Arc<Owner>,
}

/// What the embedded store is started with.
#[derive(Clone)]
pub struct EmbeddedPlan {
    /// The folder of its file, which is made when it is not there; `None` for no file at all.
    pub folder: Option<PathBuf>,
    /// Bytes that it may take in memory, about. Beyond them whatever adds is refused.
    pub bytes_max: u64,
    /// Tells the time.
    pub clock: Clock,
}

/// Tells the time of the day. May go back; what is kept does not.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Wall + Send + Sync>);

/// What the embedded store counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmbeddedStats {
    /// Sessions, now, including those that ended within the last minutes.
    pub sessions: u64,
    /// Bytes in memory, about, now.
    pub bytes: u64,
    /// Times that changes were written to the file.
    pub commits: u64,
    /// Changes in them.
    pub committed: u64,
    /// Times that this failed.
    pub failed_commits: u64,
    /// Whether it failed the last time.
    pub failing: bool,
    /// Writes refused because the memory was full.
    pub refused_full: u64,
    /// Writes that waited for the disk in vain.
    pub short: u64,
}

/// Ends the thread with the last clone of the store.
struct Owner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<Inside>,
    /// Wakes the writer.
    wake: Condvar,
    file: File,
    /// The last batch that is in the file.
    written: watch::Sender<u64>,
    clock: Clock,
    bytes_max: u64,
}

#[derive(Default)]
struct Inside {
    kept: State,
    stats: EmbeddedStats,
    stopping: bool,
}

impl EmbeddedPlan {
    /// What [`bytes_max`](Self::bytes_max) is when nothing is configured: 1 GiB.
    pub const BYTES_MAX: u64 = 1024 * 1024 * 1024;

    /// A store in `folder`, or without a file, that goes by this machine's clock.
    pub fn at(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            bytes_max: Self::BYTES_MAX,
            clock: Clock::system(),
        }
    }
}

impl Clock {
    /// This machine's.
    pub fn system() -> Self {
        Self::new(|| {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let micros = since.unwrap_or_default().as_micros();
            Wall::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
        })
    }

    /// One that `read` reads.
    pub fn new(read: impl Fn() -> Wall + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }
}

impl Embedded {
    /// Opens the file, reads what is kept, and starts the thread that writes.
    ///
    /// # Errors
    ///
    /// When the file is another process's, damaged, a later release's, or cannot be used.
    pub fn start(plan: EmbeddedPlan) -> Result<Self, EmbeddedError> {
        let (file, kept) = File::open(plan.folder.as_deref())?;
        let shared = Arc::new(Shared {
            state: Mutex::new(Inside {
                kept,
                ..Inside::default()
            }),
            wake: Condvar::new(),
            file,
            written: watch::Sender::new(0),
            clock: plan.clock,
            bytes_max: plan.bytes_max,
        });
        let thread = writer::start(shared.clone()).map_err(|error| EmbeddedError::Unusable {
            path: plan.folder.unwrap_or_default(),
            why: error.to_string(),
        })?;
        Ok(Self {
            owner: Arc::new(Owner {
                shared,
                thread: Mutex::new(Some(thread)),
            }),
        })
    }

    /// Writes what is left and closes the file; waits for that. Later writes are not kept.
    pub fn close(&self) {
        self.owner.end();
    }

    /// What was counted since the start, and how things stand.
    pub fn stats(&self) -> EmbeddedStats {
        let state = self.shared().lock();
        EmbeddedStats {
            sessions: state.kept.sessions() as u64,
            bytes: state.kept.bytes(),
            ..state.stats
        }
    }

    /// The store's now.
    pub(crate) fn now(&self) -> Wall {
        self.shared().now()
    }

    fn shared(&self) -> &Shared {
        &self.owner.shared
    }

    /// Does `what` to all that is kept, at the store's now. It may note changes.
    fn with<T>(&self, what: impl FnOnce(&mut State, Wall) -> T) -> T {
        let shared = self.shared();
        let mut state = shared.lock();
        let before = state.kept.changes.haste();
        let done = what(&mut state.kept, shared.now());
        if state.kept.changes.haste() > before.max(Haste::Lazy) {
            shared.wake.notify_one();
        }
        done
    }

    /// Refuses what would add to a full memory.
    fn check_room(&self) -> Result<(), StoreError> {
        let mut state = self.shared().lock();
        if state.kept.bytes() < self.shared().bytes_max {
            return Ok(());
        }
        state.stats.refused_full += 1;
        let why = "the memory for sessions is full";
        Err(StoreError::Refused(why.to_owned()))
    }

    /// Like [`Embedded::with`], and waits for the disk as far as `call` says so.
    async fn write<T>(
        &self,
        call: Call,
        what: impl FnOnce(&mut State, Wall, Haste) -> T,
    ) -> Acked<T> {
        let (reply, batch) = self.with(|state, now| {
            let reply = what(state, now, haste(call));
            (reply, state.changes.last())
        });
        let Some(wait) = call.wait else {
            return Acked {
                reply,
                replication: Replication::Unasked,
            };
        };
        let mut written = self.shared().written.subscribe();
        let reached = written.wait_for(|&written| written >= batch);
        let reached = matches!(tokio::time::timeout(wait.within, reached).await, Ok(Ok(_)));
        let replication = if reached {
            Replication::Reached(wait.replicas)
        } else {
            self.shared().lock().stats.short += 1;
            Replication::Short(0)
        };
        Acked { reply, replication }
    }
}

/// How soon a write of `call` is to be in the file.
const fn haste(call: Call) -> Haste {
    match call {
        Call { wait: Some(_), .. } => Haste::Now,
        Call { redo: true, .. } => Haste::Soon,
        _ => Haste::Lazy,
    }
}

impl Shared {
    fn now(&self) -> Wall {
        (self.clock.0)()
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        // A panic may have left one change half done; the others are worth going on with.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, Inside>, most: Duration) -> MutexGuard<'a, Inside> {
        let waited = self.wake.wait_timeout(state, most);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Owner {
    fn end(&self) {
        self.shared.lock().stopping = true;
        self.shared.wake.notify_one();
        let thread = {
            let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            thread.take()
        };
        if let Some(thread) = thread {
            // A writer that panicked has written what it could.
            let _ = thread.join();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").finish_non_exhaustive()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl fmt::Debug for EmbeddedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedPlan")
            .field("folder", &self.folder)
            .field("bytes_max", &self.bytes_max)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

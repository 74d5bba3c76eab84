//! The decision log of an application on disk.
//!
//! Events are encoded under the gate's lock, where their order is decided, into chunks of memory. A
//! thread of its own writes these. Nobody waits for it: when the chunks run out, when the file has
//! reached its greatest length or when it cannot be written, the log ends, and the gateway goes on.

mod file;
mod recorder;
mod writer;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tidegate_core::admission::Action;
use tidegate_core::journal::{End, Event, Header, Outcome};
use tidegate_core::time::Mono;
use tracing::warn;

use crate::plan::JournalPlan;
use recorder::Recorder;
use writer::Writer;

/// Longest wait for the rest to be written when the gateway ends: a hanging disk must not keep it.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(5);

/// One application's log.
pub(crate) struct Journal {
    recorder: Arc<Mutex<Recorder>>,
    progress: Arc<Progress>,
    /// Disconnected once the writer has finished.
    written: Mutex<Receiver<()>>,
}

/// How far a log has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    bytes: AtomicU64,
    /// 0, or one more than the place in [`End::ALL`].
    end: AtomicU8,
}

impl Journal {
    /// Begins the log, and a thread that writes it. A log that cannot be begun has ended, with a
    /// warning: it is no reason not to serve.
    pub(crate) fn start(plan: &JournalPlan, header: &Header) -> Self {
        let (recorder, chunks) = Recorder::start(header, plan.bytes_max);
        let progress = Arc::clone(recorder.progress());
        let recorder = Arc::new(Mutex::new(recorder));
        let (alive, written) = mpsc::channel();
        let writer = file::begin(&plan.path).and_then(|file| {
            let writer = Writer {
                file,
                path: plan.path.clone(),
                chunks,
                recorder: Arc::downgrade(&recorder),
                progress: Arc::clone(&progress),
                _alive: alive,
            };
            thread::Builder::new()
                .name("tidegate-journal".to_owned())
                .spawn(|| writer.run())
        });
        if let Err(error) = writer {
            warn!(
                path = %plan.path.display(),
                %error,
                "no decision log is written: the file cannot be begun"
            );
            lock(&recorder).end(End::Failed);
        }
        Self {
            recorder,
            progress,
            written: Mutex::new(written),
        }
    }

    /// Notes an event, what was decided on it and the limit after it. Called in the order of the
    /// decisions.
    pub(crate) fn record(
        &self,
        now: Mono,
        event: &Event,
        outcome: &Outcome,
        actions: &[Action],
        limit: u32,
    ) {
        lock(&self.recorder).record(now, event, outcome, actions, limit);
    }

    /// Ends the log for good and waits until it is written, within reason.
    pub(crate) fn close(&self) {
        lock(&self.recorder).end(End::Finished);
        // Either error says that there is nothing to wait for any more.
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = written.recv_timeout(CLOSE_WAIT_MAX);
    }

    /// How far it has come.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }
}

impl Progress {
    /// Bytes that are in the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Why the log has ended, if it has.
    pub(crate) fn end(&self) -> Option<End> {
        let place = self.end.load(Ordering::Relaxed).checked_sub(1)?;
        End::ALL.get(usize::from(place)).copied()
    }

    fn wrote(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The first reason stays.
    fn ended(&self, end: End) {
        let place = End::ALL.iter().position(|known| *known == end);
        let place = place.map_or(0, |place| place as u8 + 1);
        let _ = self
            .end
            .compare_exchange(0, place, Ordering::Relaxed, Ordering::Relaxed);
    }
}

fn lock(recorder: &Mutex<Recorder>) -> MutexGuard<'_, Recorder> {
    // A panic while encoding leaves a log whose check does not fit, and no other harm.
    recorder.lock().unwrap_or_else(PoisonError::into_inner)
}

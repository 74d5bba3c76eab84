//! Who writes down what happens in a room, and tells others of it: the audit log, and webhooks.
//!
//! Nobody waits for it: what is told goes into a queue of bounded length, a thread of its own writes, and each receiver has a
//! task of its own, so that one which does not answer holds up nobody else. What finds no room is counted and gone.

mod chain;
mod event;
mod file;
mod hook;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tidegate_core::room::Phase;
use tidegate_store::Background;
use tokio::sync::mpsc;
use tracing::{info, warn};

pub use self::chain::{BadAudit, Entry, Whole, verify};
pub use self::event::Said;
pub(crate) use self::event::{BY_BYTES_MAX, RoomEvent, WHY_BYTES_MAX};
use self::file::AuditFile;
use self::hook::{Hook, LETTERS_MAX};
use super::hall::{RoomPlan, WebhookPlan};
use crate::context::Clock;
use crate::session::keys::random;

/// Events that wait to be written down. Another one is lost.
const LINES_MAX: usize = 1_024;
/// How long the end of a gateway waits for what is still to be written.
const END_WITHIN: Duration = Duration::from_secs(1);
/// What changes when a member of what is sent changes its meaning or goes away.
const VERSION: u8 = 1;

/// Who writes down what happens in a room, and tells others of it.
#[derive(Debug)]
pub(crate) struct Herald {
    room: String,
    clock: Clock,
    audit: Option<Audit>,
    hooks: Vec<mpsc::Sender<Arc<str>>>,
    counts: Arc<Counts>,
    set: Mutex<Option<PhaseSet>>,
}

/// The way to the audit log.
#[derive(Debug)]
struct Audit {
    /// `None` at the end.
    lines: Option<SyncSender<(u64, Said)>>,
    /// Says when all is written, by being closed.
    done: Mutex<Receiver<()>>,
}

/// Who writes the audit log.
struct Writer {
    file: AuditFile,
    room: String,
    lines: Receiver<(u64, Said)>,
    counts: Arc<Counts>,
    /// Dropped with this.
    _done: Sender<()>,
}

/// What is counted of it.
#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    lost: AtomicU64,
    sent: AtomicU64,
    failed: AtomicU64,
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeraldCounts {
    /// Lines of the audit log.
    pub(crate) written: u64,
    /// Events that found no room in a queue, or could not be written down.
    pub(crate) lost: u64,
    /// Webhooks that were taken.
    pub(crate) sent: u64,
    /// Webhooks that were not, after all tries.
    pub(crate) failed: u64,
}

/// When the phase was set last, as far as this gateway was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PhaseSet {
    /// To what.
    pub(crate) to: Phase,
    /// By whom.
    pub(crate) by: String,
    /// Why, in their words.
    pub(crate) why: Option<String>,
    /// In milliseconds since 1970.
    pub(crate) at_ms: u64,
}

/// What a receiver gets.
#[derive(Serialize)]
struct Letter<'a> {
    v: u8,
    /// The same at each try, so that a receiver which has it already can say so.
    id: &'a str,
    room: &'a str,
    at_ms: u64,
    #[serde(flatten)]
    said: &'a Said,
}

impl Herald {
    /// Opens what `plan` names. Webhooks are sent on `background`.
    ///
    /// # Errors
    ///
    /// When the audit log cannot be gone on with, or the system has no thread left.
    pub(crate) fn start(plan: &RoomPlan, background: &Background) -> io::Result<Self> {
        let room = plan.tokens.room.as_str();
        Self::open(room, plan.audit.as_deref(), &plan.webhooks, background)
    }

    fn open(
        room: &str,
        audit: Option<&Path>,
        webhooks: &[WebhookPlan],
        background: &Background,
    ) -> io::Result<Self> {
        let counts = Arc::new(Counts::default());
        let opened = match audit {
            Some(path) => Some(Audit::open(path, room, &counts).map_err(|error| {
                let path = path.display();
                io::Error::new(error.kind(), format!("the audit log {path}: {error}"))
            })?),
            None => None,
        };
        let (audit, set) = opened.unzip();
        let hooks = webhooks.iter().map(|plan| {
            let (sender, letters) = mpsc::channel(LETTERS_MAX);
            let hook = Hook::new(plan.clone(), letters, Arc::clone(&counts));
            background.spawn(hook.run());
            sender
        });
        Ok(Self {
            room: room.to_owned(),
            clock: Clock::start(),
            audit,
            hooks: hooks.collect(),
            set: Mutex::new(set.flatten()),
            counts,
        })
    }

    /// Has `event` written down and sent. Never waits.
    pub(crate) fn tell(&self, event: RoomEvent) {
        let at_ms = self.clock.wall().as_micros() / 1_000;
        if let RoomEvent::PhaseSet { to, by, why, .. } = &event {
            let set = PhaseSet {
                to: *to,
                by: by.clone(),
                why: why.clone(),
                at_ms,
            };
            *self.set.lock().unwrap_or_else(PoisonError::into_inner) = Some(set);
        }
        let said = Said::of(event);
        if !self.hooks.is_empty() {
            let letter = self.letter(at_ms, &said);
            for hook in &self.hooks {
                if hook.try_send(Arc::clone(&letter)).is_err() {
                    count(&self.counts.lost);
                }
            }
        }
        let lines = self.audit.as_ref().and_then(|audit| audit.lines.as_ref());
        if let Some(lines) = lines
            && lines.try_send((at_ms, said)).is_err()
        {
            count(&self.counts.lost);
        }
    }

    /// When the phase was set last, as far as this gateway was told, also before it was started anew.
    pub(crate) fn phase_set(&self) -> Option<PhaseSet> {
        let set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        set.clone()
    }

    /// What was counted since the start.
    pub(crate) fn counts(&self) -> HeraldCounts {
        let value = |count: &AtomicU64| count.load(Ordering::Relaxed);
        HeraldCounts {
            written: value(&self.counts.written),
            lost: value(&self.counts.lost),
            sent: value(&self.counts.sent),
            failed: value(&self.counts.failed),
        }
    }

    fn letter(&self, at_ms: u64, said: &Said) -> Arc<str> {
        let letter = Letter {
            v: VERSION,
            id: &chain::hexadecimal(&random::<16>()),
            room: &self.room,
            at_ms,
            said,
        };
        let text = serde_json::to_string(&letter).expect("numbers and texts are JSON");
        text.into()
    }
}

impl Audit {
    /// Opens the log at `path` and starts who writes it; who has set the phase last, as it says.
    fn open(path: &Path, room: &str, counts: &Arc<Counts>) -> io::Result<(Self, Option<PhaseSet>)> {
        let (file, set) = AuditFile::open(path, room)?;
        let (lines, queue) = sync_channel(LINES_MAX);
        let (alive, done) = channel();
        let writer = Writer {
            file,
            room: room.to_owned(),
            lines: queue,
            counts: Arc::clone(counts),
            _done: alive,
        };
        std::thread::Builder::new()
            .name("tidegate-audit".to_owned())
            .spawn(move || writer.run())?;
        let audit = Self {
            lines: Some(lines),
            done: Mutex::new(done),
        };
        Ok((audit, set.and_then(PhaseSet::of)))
    }
}

impl PhaseSet {
    fn of(entry: Entry) -> Option<Self> {
        Some(Self {
            to: Phase::parse(entry.said.to.as_deref()?)?,
            by: entry.said.by?,
            why: entry.said.why,
            at_ms: entry.at_ms,
        })
    }
}

impl Writer {
    /// Until the room is gone.
    fn run(mut self) {
        let room = self.room.as_str();
        // What goes wrong for long is said once.
        let mut is_failing = false;
        while let Ok((at_ms, said)) = self.lines.recv() {
            match self.file.add(at_ms, &said) {
                Ok(()) => {
                    count(&self.counts.written);
                    is_failing = false;
                    let (n, digest) = self.file.last();
                    info!(
                        room,
                        event = said.event,
                        n,
                        digest,
                        "written to the audit log"
                    );
                }
                Err(error) => {
                    count(&self.counts.lost);
                    if !is_failing {
                        warn!(room, event = said.event.as_str(), %error, "the audit log cannot be written");
                    }
                    is_failing = true;
                }
            }
        }
    }
}

/// One more.
fn count(of: &AtomicU64) {
    of.fetch_add(1, Ordering::Relaxed);
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.lines = None;
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        if done.recv_timeout(END_WITHIN) == Err(RecvTimeoutError::Timeout) {
            warn!("the audit log is not written to its end: its disk does not answer");
        }
    }
}

#[cfg(test)]
pub(super) mod tests;

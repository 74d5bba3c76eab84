//! What a connection and the rest of the gateway know of each other.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use tidegate_core::time::Mono;

use crate::connections::Kind;
use crate::context::Clock;

/// Stands for "no head is on its way".
const NO_HEAD: u64 = u64::MAX;

/// Shared by a connection's task and those who may want it to end.
#[derive(Debug)]
pub(crate) struct Link {
    kind: Kind,
    opened_at: Mono,
    /// Its place in the list of all links; changed under that list's lock.
    place: AtomicUsize,
    /// Requests whose answer is not finished.
    exchanges: AtomicU32,
    /// When the last exchange ended, or the connection began.
    idle_since: AtomicU64,
    /// When the head that is being read began, if it came in pieces.
    head_since: AtomicU64,
    /// Whether the client has yet to take what was written before more can be.
    write_waits: AtomicBool,
    close_asked: AtomicBool,
    evicted: AtomicBool,
    /// The task's waker; it stays the same for the life of the task.
    waker: Mutex<Option<Waker>>,
}

/// One request and its answer. The connection is busy until it is dropped.
#[derive(Debug)]
pub(crate) struct Exchange {
    link: Arc<Link>,
    clock: Clock,
}

impl Link {
    pub(crate) fn new(place: usize, kind: Kind, now: Mono) -> Self {
        Self {
            kind,
            opened_at: now,
            place: AtomicUsize::new(place),
            exchanges: AtomicU32::new(0),
            idle_since: AtomicU64::new(now.as_nanos()),
            head_since: AtomicU64::new(NO_HEAD),
            write_waits: AtomicBool::new(false),
            close_asked: AtomicBool::new(false),
            evicted: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn opened_at(&self) -> Mono {
        self.opened_at
    }

    pub(crate) fn place(&self) -> usize {
        self.place.load(Ordering::Relaxed)
    }

    pub(crate) fn move_to(&self, place: usize) {
        self.place.store(place, Ordering::Relaxed);
    }

    /// A request has been read.
    pub(crate) fn begin(self: &Arc<Self>, clock: Clock) -> Exchange {
        self.exchanges.fetch_add(1, Ordering::Relaxed);
        Exchange {
            link: Arc::clone(self),
            clock,
        }
    }

    /// Since when there has been nothing to answer; `None` while there is.
    pub(crate) fn idle_since(&self) -> Option<Mono> {
        (self.exchanges.load(Ordering::Acquire) == 0)
            .then(|| Mono::from_nanos(self.idle_since.load(Ordering::Relaxed)))
    }

    /// A part of a head has been read.
    pub(crate) fn begin_head(&self, now: Mono) {
        self.head_since.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The head that came in pieces is there, or never will be.
    pub(crate) fn end_head(&self) {
        self.head_since.store(NO_HEAD, Ordering::Relaxed);
    }

    /// Since when a head has been coming that is not there yet.
    pub(crate) fn head_since(&self) -> Option<Mono> {
        match self.head_since.load(Ordering::Relaxed) {
            NO_HEAD => None,
            nanos => Some(Mono::from_nanos(nanos)),
        }
    }

    /// Notes whether a write has to wait for the client.
    pub(crate) fn set_write_waits(&self, waits: bool) {
        self.write_waits.store(waits, Ordering::Relaxed);
    }

    /// Whether all requests are answered, to the last byte.
    pub(crate) fn is_done(&self) -> bool {
        self.idle_since().is_some() && !self.write_waits.load(Ordering::Relaxed)
    }

    /// Notes whom to wake when the connection shall close. One task, one call.
    pub(crate) fn attend(&self, waker: &Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    /// Asks the connection to close as soon as it is idle, when it next does anything.
    pub(crate) fn mark_to_close(&self) {
        self.close_asked.store(true, Ordering::Release);
    }

    /// Asks the connection to close as soon as it is idle, now if it is.
    pub(crate) fn ask_to_close(&self) {
        self.mark_to_close();
        let waker = self
            .waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn is_close_asked(&self) -> bool {
        self.close_asked.load(Ordering::Acquire)
    }

    /// Asks it to close because its place is given to another.
    pub(crate) fn evict(&self) {
        self.evicted.store(true, Ordering::Release);
        self.ask_to_close();
    }

    pub(crate) fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Acquire)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.link
            .idle_since
            .store(self.clock.now().as_nanos(), Ordering::Relaxed);
        self.link.exchanges.fetch_sub(1, Ordering::Release);
    }
}

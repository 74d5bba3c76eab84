//! A connection that many share, and that is replaced when it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::link::Link;

/// A connection is given up after so many operations without an answer, one after the other.
const TIMEOUTS_MAX: u32 = 2;

/// A shared connection with a cap on what is under way.
pub(super) struct Line {
    link: watch::Sender<Option<Arc<Link>>>,
    in_flight: AtomicU32,
    in_flight_max: u32,
    timeouts: AtomicU32,
}

/// The right to one operation.
pub(super) struct Permit<'a>(&'a AtomicU32);

impl Line {
    pub(super) fn new(in_flight_max: u32) -> Self {
        Self {
            link: watch::Sender::new(None),
            in_flight: AtomicU32::new(0),
            in_flight_max,
            timeouts: AtomicU32::new(0),
        }
    }

    /// The right to one operation, unless the cap is reached.
    pub(super) fn admit(&self) -> Option<Permit<'_>> {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        // Taken before the look, so that a refusal gives it back by itself.
        let permit = Permit(&self.in_flight);
        (before < self.in_flight_max).then_some(permit)
    }

    /// Operations under way.
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// The connection, for which a caller waits until `deadline` when there is none.
    pub(super) async fn link(&self, deadline: Instant) -> Option<Arc<Link>> {
        if let Some(link) = self.present() {
            return Some(link);
        }
        let mut links = self.link.subscribe();
        let there = timeout_at(deadline, links.wait_for(Option::is_some));
        there.await.ok()?.ok()?.clone()
    }

    /// The connection, if there is one.
    pub(super) fn present(&self) -> Option<Arc<Link>> {
        self.link.borrow().clone()
    }

    /// Puts a connection in place.
    pub(super) fn install(&self, link: Arc<Link>) {
        self.timeouts.store(0, Ordering::Relaxed);
        self.link.send_replace(Some(link));
    }

    /// An operation was answered.
    pub(super) fn answered(&self) {
        self.timeouts.store(0, Ordering::Relaxed);
    }

    /// An operation on `link` had no answer in time; whether the connection was given up for it.
    pub(super) fn timed_out(&self, link: &Arc<Link>) -> bool {
        let timeouts = self.timeouts.fetch_add(1, Ordering::Relaxed) + 1;
        timeouts >= TIMEOUTS_MAX && self.give_up(link)
    }

    /// Gives `link` up, unless it has been replaced already; whether it was there.
    pub(super) fn give_up(&self, link: &Arc<Link>) -> bool {
        self.link.send_if_modified(|there| {
            let same = there.as_ref().is_some_and(|there| Arc::ptr_eq(there, link));
            if same {
                close(there);
            }
            same
        })
    }

    /// Gives up whatever connection there is.
    pub(super) fn clear(&self) {
        self.link.send_if_modified(|there| {
            let was = there.is_some();
            close(there);
            was
        });
    }
}

/// Callers still hold references; closing must not wait for them.
fn close(there: &mut Option<Arc<Link>>) {
    if let Some(link) = there.take() {
        link.close();
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

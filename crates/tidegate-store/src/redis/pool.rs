//! Connections that serve one operation at a time: waiting for replicas blocks a connection, and
//! with it whatever comes behind.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::link::Link;

/// Connections for writes that wait.
pub(super) struct Pool {
    idle: Mutex<Vec<Link>>,
    open: AtomicU32,
    open_max: u32,
    /// Counts how often all connections were given up.
    age: AtomicU64,
}

/// A place in the pool, with its connection if it has one. Dropping it closes the connection: an
/// answer may still be under way on it.
pub(super) struct Place<'a> {
    pool: &'a Pool,
    age: u64,
    link: Option<Link>,
}

impl Pool {
    pub(super) const fn new(open_max: u32) -> Self {
        Self {
            idle: Mutex::new(Vec::new()),
            open: AtomicU32::new(0),
            open_max,
            age: AtomicU64::new(0),
        }
    }

    /// A place, unless all are taken. It may have to be given a connection.
    pub(super) fn take(&self) -> Option<Place<'_>> {
        let age = self.age.load(Ordering::Acquire);
        // An idle connection has its place already.
        if let Some(link) = self.idle().pop() {
            return Some(self.place(age, Some(link)));
        }
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        let place = self.place(age, None);
        (before < self.open_max).then_some(place)
    }

    /// Closes the idle connections, and those in use when they come back.
    pub(super) fn clear(&self) {
        self.age.fetch_add(1, Ordering::AcqRel);
        let idle = std::mem::take(&mut *self.idle());
        self.open.fetch_sub(idle.len() as u32, Ordering::Relaxed);
    }

    /// Places that are taken, connections that are idle among them.
    pub(super) fn open(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }

    const fn place(&self, age: u64, link: Option<Link>) -> Place<'_> {
        Place {
            pool: self,
            age,
            link,
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Link>> {
        self.idle.lock().expect("nobody panics while holding it")
    }
}

impl Place<'_> {
    /// The connection, if there is one.
    pub(super) const fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    /// Gives the place a connection.
    pub(super) fn fill(&mut self, link: Link) -> &Link {
        self.link.insert(link)
    }

    /// Puts the connection back, on which nothing is under way any more.
    pub(super) fn put_back(mut self) {
        let mut idle = self.pool.idle();
        if self.pool.age.load(Ordering::Acquire) == self.age
            && let Some(link) = self.link.take()
        {
            idle.push(link);
            drop(idle);
            // The place stays taken, by the idle connection.
            std::mem::forget(self);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.pool.open.fetch_sub(1, Ordering::Relaxed);
    }
}

//! The connections to one application, counted over all threads.
//!
//! hyper-util's client is not used: its pool can neither count idle and busy connections over all
//! threads nor hand one over at the cap, and it repeats requests on its own.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tidegate_core::time::Mono;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::connection::Connection;
use super::{Connections, UpstreamFailure};
use crate::body::pipe::Budget;
use crate::context::Clock;
use crate::plan::UpstreamPlan;

/// The connections to one application, idle and busy, over all threads.
pub struct Upstream {
    plan: UpstreamPlan,
    clock: Clock,
    /// Sockets that are open or being opened. May pass `connections_max` never.
    open: AtomicU32,
    /// Idle connections by thread, the oldest first.
    lanes: Vec<Mutex<Lane>>,
    line: Mutex<VecDeque<oneshot::Sender<Offer>>>,
    /// The length of `line`, to be read without its lock.
    in_line: AtomicUsize,
    pub(crate) buffers: Arc<Budget>,
}

/// The right to have one socket open. Dropping it lets the next one in line have it.
pub(crate) struct Permit(Weak<Upstream>);

#[derive(Default)]
struct Lane {
    idle: VecDeque<Idle>,
    /// Whether a task will close what stays idle for too long.
    swept: bool,
}

struct Idle {
    connection: Connection,
    since: Mono,
}

/// What somebody in line gets.
enum Offer {
    Idle(Connection),
    Room(Permit),
}

impl Upstream {
    /// No connection yet.
    pub fn new(plan: &UpstreamPlan, threads: NonZeroUsize, clock: Clock) -> Self {
        Self {
            plan: plan.clone(),
            clock,
            open: AtomicU32::new(0),
            lanes: (0..threads.get()).map(|_| Mutex::default()).collect(),
            line: Mutex::default(),
            in_line: AtomicUsize::new(0),
            buffers: Arc::new(Budget::new(
                plan.response_buffer_max,
                plan.response_buffers_max,
            )),
        }
    }

    /// How many connections there are now.
    pub fn connections(&self) -> Connections {
        let idle: usize = self.lanes.iter().map(|lane| lock(lane).idle.len()).sum();
        let idle = u32::try_from(idle).unwrap_or(u32::MAX);
        let open = self.open.load(Ordering::Relaxed);
        Connections {
            idle: idle.min(open),
            busy: open.saturating_sub(idle),
            response_buffer_bytes: self.buffers.used() as u64,
        }
    }

    /// What is configured for it.
    pub(crate) fn plan(&self) -> &UpstreamPlan {
        &self.plan
    }

    /// An idle connection of thread `lane`, or a new one, or an idle one of another thread, or at
    /// the cap whatever comes free first, in that order, within the time a connection may take.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        lane: usize,
        now: Mono,
    ) -> Result<Connection, UpstreamFailure> {
        if let Some(connection) = self.take_idle(lane, now) {
            return Ok(connection);
        }
        let until = Instant::now() + self.plan.connect_timeout;
        self.acquire_slowly(lane, until).await
    }

    /// A connection on which nothing was sent before.
    pub(crate) async fn acquire_fresh(
        self: &Arc<Self>,
        lane: usize,
    ) -> Result<Connection, UpstreamFailure> {
        let until = Instant::now() + self.plan.connect_timeout;
        match self.reserve() {
            Some(permit) => self.open_until(permit, until).await,
            // At the cap another idle connection is as good as it gets, once this one's socket is
            // counted out.
            None => self.acquire_slowly(lane, until).await,
        }
    }

    /// Keeps a connection for the next request of thread `lane`, or hands it to who waits for one.
    pub(crate) fn release(self: &Arc<Self>, lane: usize, mut connection: Connection, now: Mono) {
        if !self.plan.keep_alive || !connection.rest() {
            return;
        }
        let start_sweeping = {
            // Those the application has closed stay until they are met, or idle for too long.
            let mut lane = lock(&self.lanes[lane]);
            lane.idle.push_back(Idle {
                connection,
                since: now,
            });
            !std::mem::replace(&mut lane.swept, true)
        };
        if start_sweeping {
            tokio::spawn(Arc::clone(self).sweep(lane));
        }
        // Whoever joins the line looks at the lanes once more after that, and whoever fills a lane
        // looks at the line: one of the two sees the other.
        if self.in_line.load(Ordering::SeqCst) > 0 {
            let idle = lock(&self.lanes[lane]).idle.pop_back();
            let unwanted = idle.and_then(|idle| self.offer(Offer::Idle(idle.connection)));
            if let Some(Offer::Idle(connection)) = unwanted {
                let since = now;
                lock(&self.lanes[lane])
                    .idle
                    .push_back(Idle { connection, since });
            }
        }
    }

    async fn acquire_slowly(
        self: &Arc<Self>,
        lane: usize,
        until: Instant,
    ) -> Result<Connection, UpstreamFailure> {
        if let Some(permit) = self.reserve() {
            return self.open_until(permit, until).await;
        }
        if let Some(connection) = self.take_from_others(lane) {
            return Ok(connection);
        }
        let offer = self.join_line();
        // What came free between the last look and joining went past the line.
        if let Some(permit) = self.reserve() {
            return self.open_until(permit, until).await;
        }
        for lane in self.lanes_from(lane) {
            if let Some(connection) = self.take_idle(lane, self.clock.now()) {
                return Ok(connection);
            }
        }
        match timeout_at(until, offer).await {
            Ok(Ok(Offer::Idle(connection))) => Ok(connection),
            Ok(Ok(Offer::Room(permit))) => self.open_until(permit, until).await,
            Ok(Err(_)) | Err(_) => Err(UpstreamFailure::Connections),
        }
    }

    fn take_from_others(&self, lane: usize) -> Option<Connection> {
        let now = self.clock.now();
        self.lanes_from(lane)
            .skip(1)
            .find_map(|other| self.take_idle(other, now))
    }

    fn lanes_from(&self, lane: usize) -> impl Iterator<Item = usize> + use<> {
        let count = self.lanes.len();
        (0..count).map(move |step| (lane + step) % count)
    }

    /// The most recently used idle connection of thread `lane`, if it can take a request.
    fn take_idle(&self, lane: usize, now: Mono) -> Option<Connection> {
        let oldest = now.minus(self.plan.idle_timeout);
        let mut lane = lock(&self.lanes[lane]);
        while let Some(idle) = lane.idle.pop_back() {
            if idle.since >= oldest && !idle.connection.is_closed() {
                return Some(idle.connection);
            }
        }
        None
    }

    fn reserve(self: &Arc<Self>) -> Option<Permit> {
        let max = self.plan.connections_max.get();
        self.open
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |open| {
                (open < max).then_some(open + 1)
            })
            .ok()
            .map(|_| Permit(Arc::downgrade(self)))
    }

    async fn open_until(
        &self,
        permit: Permit,
        until: Instant,
    ) -> Result<Connection, UpstreamFailure> {
        match timeout_at(until, Connection::open(&self.plan, permit)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(_)) | Err(_) => Err(UpstreamFailure::Connect),
        }
    }

    fn join_line(&self) -> oneshot::Receiver<Offer> {
        let (sender, receiver) = oneshot::channel();
        let mut line = lock(&self.line);
        // Those who have left stand in nobody's way, and the line is never longer than the requests
        // that hold slots.
        line.retain(|place| !place.is_closed());
        line.push_back(sender);
        self.in_line.store(line.len(), Ordering::SeqCst);
        receiver
    }

    /// Gives `offer` to the first in line who still wants it. Without any, a connection is closed
    /// and a permit is free.
    fn offer(&self, mut offer: Offer) -> Option<Offer> {
        loop {
            let next = {
                let mut line = lock(&self.line);
                let next = line.pop_front();
                self.in_line.store(line.len(), Ordering::SeqCst);
                next
            };
            let Some(place) = next else {
                return Some(offer);
            };
            match place.send(offer) {
                Ok(()) => return None,
                Err(unwanted) => offer = unwanted,
            }
        }
    }

    /// Closes what stays idle for too long, until nothing is idle any more.
    async fn sweep(self: Arc<Self>, lane: usize) {
        loop {
            let next = {
                let oldest = self.clock.now().minus(self.plan.idle_timeout);
                let mut lane = lock(&self.lanes[lane]);
                while lane.idle.front().is_some_and(|idle| idle.since < oldest) {
                    lane.idle.pop_front();
                }
                match lane.idle.front() {
                    Some(idle) => idle.since + self.plan.idle_timeout,
                    None => {
                        lane.swept = false;
                        return;
                    }
                }
            };
            // One grain of the timer later, so that it is past and not at the bound.
            let next = next + std::time::Duration::from_millis(1);
            tokio::time::sleep_until(self.clock.instant(next)).await;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(upstream) = std::mem::take(&mut self.0).upgrade() else {
            return;
        };
        upstream.open.fetch_sub(1, Ordering::SeqCst);
        while upstream.in_line.load(Ordering::SeqCst) > 0 {
            let Some(permit) = upstream.reserve() else {
                return;
            };
            match upstream.offer(Offer::Room(permit)) {
                // Nobody wants it: counted out here, since dropping it would come back to here.
                Some(Offer::Room(mut permit)) => {
                    permit.0 = Weak::new();
                    upstream.open.fetch_sub(1, Ordering::SeqCst);
                }
                Some(Offer::Idle(_)) | None => return,
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

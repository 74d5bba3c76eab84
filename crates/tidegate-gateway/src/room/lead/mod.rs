//! What goes on in a waiting room beside the data path: a task for each room at each gateway.
//!
//! Once a second a gateway looks at the room in its store, tells the others what it sees of those who are inside, hears the
//! leader's word, and makes the view that requests read. One of them leads, by a lease, and calls people four times a second
//! ([`term`]). While the store is away each goes on by itself ([`away`]).
//!
//! Decisions are the core's. The time comes with each tick; a clock is read only for how long a tick has taken.

mod away;
mod crowd;
mod learner;
mod news;
mod shown;
mod sight;
mod state;
mod term;
mod turn;
mod word;

use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::time::{Duration, Instant};

use tidegate_core::time::Mono;
use tidegate_store::{Background, Call, Node};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use self::turn::Lead;
use crate::context::Clock;
use crate::heard::Heard;
use crate::room::hall::Hall;

/// How often a leader calls people, and everything else is looked at that may be due.
const TICK: Duration = Duration::from_millis(250);
/// Longest wait for one answer of the store.
const CALL: Call = Call::within(Duration::from_millis(200));
/// Longest wait at the end, for a lease to be given back and a state to be written.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// The tasks of all rooms. They end with the background that they run on, or with [`Leads::close`].
pub(crate) struct Leads {
    stop: watch::Sender<bool>,
    /// Disconnected once all tasks have ended.
    ended: Mutex<mpsc::Receiver<()>>,
}

/// When a tick began.
#[derive(Clone, Copy, Debug)]
struct Pulse {
    now: Mono,
    began: Instant,
}

impl Pulse {
    fn at(now: Mono) -> Self {
        Self {
            now,
            began: Instant::now(),
        }
    }

    /// The time by now.
    fn now(&self) -> Mono {
        self.now + self.began.elapsed()
    }
}

/// Starts a task for each of `halls` on `background`, as the gateway `node`, which may lead if it `leads`.
pub(crate) fn start(
    halls: &[Arc<Hall>],
    heard: Arc<Heard>,
    clock: Clock,
    background: &Background,
    node: Node,
    leads: bool,
) -> Leads {
    let (stop, stopped) = watch::channel(false);
    let (alive, ended) = mpsc::channel();
    for hall in halls {
        let lead = Lead::new(hall, node.clone(), leads, Arc::clone(&heard), clock.now());
        let (hall, stopped, alive) = (Arc::downgrade(hall), stopped.clone(), alive.clone());
        background.spawn(async move {
            run(lead, hall, clock, stopped).await;
            drop::<mpsc::Sender<()>>(alive);
        });
    }
    Leads {
        stop,
        ended: Mutex::new(ended),
    }
}

impl Leads {
    /// Ends the tasks and waits within reason until leases are given back and states are written. For a thread that may wait.
    pub(crate) fn close(&self) {
        self.stop.send_replace(true);
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody sends anything: it is over when all have gone.
        let _ = ended.recv_timeout(CLOSE_WITHIN);
    }
}

/// Looks after one room until it is told to stop, or the room is gone. It keeps nothing of the room alive while it waits.
async fn run(mut lead: Lead, hall: Weak<Hall>, clock: Clock, mut stopped: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut is_rung = false;
    while let Some(hall) = hall.upgrade() {
        if *stopped.borrow() {
            lead.end(&hall).await;
            return;
        }
        lead.tick(&hall, Pulse::at(clock.now()), is_rung).await;
        let bell = hall.clerk.bell();
        drop(hall);
        is_rung = tokio::select! {
            _ = ticks.tick() => false,
            () = bell.notified() => true,
            () = told(&mut stopped) => false,
        };
    }
}

/// Ends when it is said that all is over. Whoever drops [`Leads`] will never say so.
async fn told(stopped: &mut watch::Receiver<bool>) {
    if stopped.changed().await.is_err() {
        std::future::pending().await
    }
}

#[cfg(test)]
pub(crate) mod tests;

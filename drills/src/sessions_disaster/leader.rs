//! Two nodes that want to lead: one does, and is lost together with the store that says so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tidegate_core::session::Name;
use tidegate_store::redis::{Address, Arrangement, Redis, RedisPlan, Use};
use tidegate_store::{Background, Call, Fence, Fleet, Held, Node, Taken};

use crate::harness::{runtime, wait_for};

/// For how long one leads without renewing.
const LEASE: Duration = Duration::from_secs(2);
/// How often it is renewed, or asked for.
const EVERY: Duration = Duration::from_millis(200);
/// Longest wait for an answer about it.
const ANSWER: Duration = Duration::from_millis(100);

/// A node that leads whenever it is let.
pub(super) struct Candidate {
    alive: Arc<AtomicBool>,
    has_led: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Vec<Term>>>,
}

/// A time of leading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub(super) fence: Fence,
    pub(super) from: Instant,
    /// Until when its holder took itself for the leader.
    pub(super) until: Instant,
}

impl Candidate {
    /// Starts one called `name`, whose fleet is in the Redis at `store`.
    pub(super) fn start(name: &str, store: SocketAddr) -> anyhow::Result<Self> {
        let node = Node {
            id: Name::new(name)?,
            incarnation: u64::from(std::process::id()),
        };
        let alive = Arc::new(AtomicBool::new(true));
        let has_led = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new()
            .name("candidate".to_owned())
            .spawn({
                let (alive, has_led) = (Arc::clone(&alive), Arc::clone(&has_led));
                move || runtime()?.block_on(lead(&node, store, &alive, &has_led))
            })?;
        Ok(Self {
            alive,
            has_led,
            thread,
        })
    }

    /// Waits until it leads.
    pub(super) fn wait_until_it_leads(&self) -> anyhow::Result<()> {
        wait_for("the first candidate leads", || {
            Ok(self.has_led.load(Ordering::Relaxed))
        })
    }

    /// Ends it without a word to the store, and says when it has led.
    pub(super) fn lose(self) -> anyhow::Result<Vec<Term>> {
        self.alive.store(false, Ordering::Relaxed);
        self.thread.join().ok().context("the candidate panicked")?
    }
}

async fn lead(
    node: &Node,
    store: SocketAddr,
    alive: &AtomicBool,
    has_led: &AtomicBool,
) -> anyhow::Result<Vec<Term>> {
    let background = Background::start()?;
    let address = Address::parse(&store.to_string())?;
    let plan = RedisPlan::usual(Arrangement::Standalone(address));
    let fleet = Fleet::Redis(Redis::start(&plan, Use::Bus, &background));
    let lease = Name::new("leader")?;
    let mut terms: Vec<Term> = Vec::new();
    while alive.load(Ordering::Relaxed) {
        let taken = fleet.take_lease(&lease, node, LEASE, Call::within(ANSWER));
        // Without an answer it leads until the time that it was given, and not longer.
        if let Ok(Taken::Held(held)) = taken.await {
            note(&mut terms, held);
            has_led.store(true, Ordering::Relaxed);
        }
        tokio::time::sleep(EVERY).await;
    }
    Ok(terms)
}

fn note(terms: &mut Vec<Term>, held: Held) {
    match terms.last_mut() {
        Some(term) if term.fence == held.fence => term.until = held.until,
        _ => terms.push(Term {
            fence: held.fence,
            from: Instant::now(),
            until: held.until,
        }),
    }
}

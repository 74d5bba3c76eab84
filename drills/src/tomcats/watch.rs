//! Somebody who looks at a HAProxy all the time, and remembers what it showed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tidegate_lab::peers::Haproxy;

use crate::harness::{ask, wait_for};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);
/// Columns of HAProxy's statistics that are looked at.
const COLUMNS: [&str; 6] = ["status", "weight", "lbtot", "scur", "econ", "eresp"];

/// What a backend showed at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// When.
    pub(crate) at: Instant,
    /// Its servers, in the order of the configuration.
    pub(crate) servers: Vec<Server>,
    /// The word of the first one's verdict, where that is looked at.
    pub(crate) word: Option<String>,
}

/// What HAProxy showed of a server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// `UP`, `DOWN (agent)` and so on.
    pub(crate) status: String,
    /// What it counts for.
    pub(crate) weight: u32,
    /// Requests that it was chosen for so far.
    pub(crate) chosen: u64,
    /// Requests that are with it.
    pub(crate) inside: u64,
    /// Connections to it that failed, and answers that broke off, so far.
    pub(crate) broken: u64,
}

/// Somebody who looks. Dropping it ends it.
pub(crate) struct Watch {
    looks: Arc<Mutex<Vec<Look>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Server {
    fn of([status, weight, chosen, inside, econ, eresp]: [String; 6]) -> anyhow::Result<Self> {
        let number = |text: &str| -> anyhow::Result<u64> {
            text.parse()
                .with_context(|| format!("HAProxy counts {text:?}"))
        };
        Ok(Self {
            status,
            weight: u32::try_from(number(&weight)?)?,
            chosen: number(&chosen)?,
            inside: number(&inside)?,
            broken: number(&econ)? + number(&eresp)?,
        })
    }

    /// Whether it gets new requests.
    pub(crate) fn is_in(&self) -> bool {
        // "UP 1/3" is one that has just failed a check.
        self.status.starts_with("UP") && self.weight > 0
    }
}

impl Look {
    /// Of all requests since `earlier`, those that the server at `at` was chosen for; `None` when there were none.
    pub(crate) fn share_since(&self, earlier: &Self, at: usize) -> Option<f64> {
        let grown = |now: &Server, was: &Server| now.chosen.saturating_sub(was.chosen);
        let both = self.servers.iter().zip(&earlier.servers);
        let all: u64 = both.map(|(now, was)| grown(now, was)).sum();
        let own = grown(&self.servers[at], &earlier.servers[at]);
        (all > 0).then(|| own as f64 / all as f64)
    }
}

impl Watch {
    /// Looks at `backend` from now on, and at the verdict that is told at the admin listener `told`, if any.
    pub(crate) fn start(
        haproxy: Arc<Haproxy>,
        backend: &'static str,
        told: Option<SocketAddr>,
    ) -> anyhow::Result<Self> {
        let looks: Arc<Mutex<Vec<Look>>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let (into, stopped) = (Arc::clone(&looks), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    let look = look(&haproxy, backend, told)?;
                    lock(&into).push(look);
                    std::thread::sleep(EVERY);
                }
                Ok(())
            })?;
        Ok(Self {
            looks,
            stop,
            thread: Some(thread),
        })
    }

    /// Waits until it is as `is_so` says, from now on; since when. `what` is how that reads when it never comes.
    pub(crate) fn wait_until(
        &self,
        what: &str,
        is_so: impl Fn(&Look) -> bool,
    ) -> anyhow::Result<Instant> {
        let mut next = lock(&self.looks).len();
        let mut found = None;
        wait_for(what, || {
            let has_ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
            let looks = lock(&self.looks);
            let first = looks[next..].iter().find(|look| is_so(look));
            found = first.map(|look| look.at);
            next = looks.len();
            anyhow::ensure!(found.is_some() || !has_ended, "nobody looks any more");
            Ok(found.is_some())
        })?;
        found.context("it was found")
    }

    /// Ends it; all that was seen.
    pub(crate) fn finish(mut self) -> anyhow::Result<Vec<Look>> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("it runs until here")?;
        thread.join().ok().context("whoever looked panicked")??;
        Ok(std::mem::take(&mut *lock(&self.looks)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn look(haproxy: &Haproxy, backend: &str, told: Option<SocketAddr>) -> anyhow::Result<Look> {
    let rows = haproxy.stats(backend, COLUMNS)?;
    let servers = rows.into_iter().map(|(_, row)| Server::of(row));
    let servers: Vec<Server> = servers.collect::<anyhow::Result<_>>()?;
    Ok(Look {
        at: Instant::now(),
        servers,
        word: told.map(word).transpose()?,
    })
}

/// The second word of a verdict's first line, which is the state.
fn word(admin: SocketAddr) -> anyhow::Result<String> {
    // For monitors that go by the text a node which is out says so with a 200.
    let said = String::from_utf8(ask(admin, "/verdict?f5=1")?)?;
    let word = said.split_whitespace().nth(1);
    word.map(str::to_owned)
        .with_context(|| format!("no verdict: {said}"))
}

fn lock(looks: &Mutex<Vec<Look>>) -> MutexGuard<'_, Vec<Look>> {
    looks.lock().unwrap_or_else(PoisonError::into_inner)
}

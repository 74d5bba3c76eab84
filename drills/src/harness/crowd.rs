//! Many visitors at a stated rate, however slow the answers are.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_lab::measure::prefer_thread;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::visitor::{Loss, Outcome, Visited, Visitor};

/// What visitors do together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrowdPlan {
    /// Where they go.
    pub(crate) target: SocketAddr,
    /// Steps per second, of all of them together, at equal gaps.
    pub(crate) rate: f64,
    /// For how long.
    pub(crate) length: Duration,
    /// How long each waits for an answer.
    pub(crate) patience: Duration,
}

/// Visitors at work, on a thread of their own.
pub(crate) struct Crowd {
    thread: JoinHandle<anyhow::Result<(Vec<Visitor>, Visits)>>,
    begun: std::time::Instant,
}

/// Every step that was taken.
#[derive(Default)]
pub(crate) struct Visits {
    /// In the order in which they ended.
    pub(crate) all: Vec<Visit>,
    /// Steps that were due while every visitor was busy, and were left out.
    pub(crate) left_out: u64,
    /// How late steps were begun: the 99th percentile.
    pub(crate) lag_p99: Duration,
}

/// One step of one visitor.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    /// Whose.
    pub(crate) visitor: String,
    /// When it was due, since the beginning.
    pub(crate) at: Duration,
    /// What came of it.
    pub(crate) visited: Visited,
}

/// So many strangers, who are called `v0`, `v1` and so on.
pub(crate) fn visitors(count: usize) -> Vec<Visitor> {
    (0..count)
        .map(|number| Visitor::new(format!("v{number}"), number as u64))
        .collect()
}

impl Visit {
    /// Whether the application answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.visited.is_answered()
    }
}

impl Crowd {
    /// Sends `visitors` off.
    pub(crate) fn start(visitors: Vec<Visitor>, plan: CrowdPlan) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("crowd".to_owned())
            .spawn(move || {
                // A rate that is kept makes the servers queue, not the visitors.
                prefer_thread();
                Ok(runtime.block_on(play(visitors, plan)))
            })?;
        Ok(Self {
            thread,
            begun: std::time::Instant::now(),
        })
    }

    /// Waits until the crowd has been at work for `time`.
    pub(crate) fn wait_until(&self, time: Duration) {
        std::thread::sleep(time.saturating_sub(self.begun.elapsed()));
    }

    /// How long it has been at work.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Waits until it is done; the visitors come back as they are then.
    pub(crate) fn join(self) -> anyhow::Result<(Vec<Visitor>, Visits)> {
        self.thread
            .join()
            .ok()
            .context("the crowd's thread panicked")?
    }
}

/// The free visitors, the one that has been free longest first.
type Free = Arc<Mutex<VecDeque<Visitor>>>;

async fn play(visitors: Vec<Visitor>, plan: CrowdPlan) -> (Vec<Visitor>, Visits) {
    let free: Free = Arc::new(Mutex::new(visitors.into()));
    let done: Arc<Mutex<Vec<Visit>>> = Arc::default();
    let mut visits = Visits::default();
    let mut lags = Vec::new();
    let mut busy = JoinSet::new();
    let begun = Instant::now();

    let steps = (plan.rate * plan.length.as_secs_f64()) as u64;
    for number in 0..steps {
        let at = Duration::from_secs_f64(number as f64 / plan.rate);
        sleep_until(begun + at).await;
        lags.push(begun.elapsed().saturating_sub(at));
        while busy.try_join_next().is_some() {}
        let Some(mut visitor) = lock(&free).pop_front() else {
            visits.left_out += 1;
            continue;
        };
        let (free, done) = (Arc::clone(&free), Arc::clone(&done));
        busy.spawn(async move {
            let step = visitor.next_step();
            let visited = visitor.visit(plan.target, step, plan.patience).await;
            lock(&done).push(Visit {
                visitor: visitor.name.clone(),
                at,
                visited,
            });
            lock(&free).push_back(visitor);
        });
    }
    // Each is bounded by its patience.
    while busy.join_next().await.is_some() {}

    lags.sort_unstable();
    visits.lag_p99 = lags.get(lags.len() * 99 / 100).copied().unwrap_or_default();
    visits.all = std::mem::take(&mut *lock(&done));
    let mut visitors: Vec<Visitor> = std::mem::take(&mut *lock(&free)).into();
    for visitor in &mut visitors {
        // Its connections end with the runtime that they were opened on.
        visitor.disconnect();
    }
    (visitors, visits)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Visits {
    /// Different visitors that have lost `what`.
    pub(crate) fn losers(&self, what: Loss) -> usize {
        let lost = self.all.iter();
        let losers: std::collections::BTreeSet<&str> = lost
            .filter(|visit| visit.visited.losses.contains(&what))
            .map(|visit| visit.visitor.as_str())
            .collect();
        losers.len()
    }

    /// Steps that ended in no answer of the application, or none at all.
    pub(crate) fn errors(&self) -> usize {
        self.count(|visit| !visit.is_answered())
    }

    /// Steps for which `is_so`.
    pub(crate) fn count(&self, is_so: impl Fn(&Visit) -> bool) -> usize {
        self.all.iter().filter(|visit| is_so(visit)).count()
    }

    /// The part of the answers between two times that came from the node called `name`.
    pub(crate) fn share_of(&self, name: &str, from: Duration, to: Duration) -> f64 {
        let mut all = 0_u32;
        let mut own = 0_u32;
        for visit in &self.all {
            if let Outcome::Answered(known) = &visit.visited.outcome
                && (from..to).contains(&visit.at)
            {
                all += 1;
                own += u32::from(known.node == name);
            }
        }
        f64::from(own) / f64::from(all)
    }

    /// Quantile `q` of the time that answers took, of steps due between two times.
    pub(crate) fn took(&self, q: f64, from: Duration, to: Duration) -> Duration {
        let visits = self.all.iter();
        let mut took: Vec<Duration> = visits
            .filter(|visit| (from..to).contains(&visit.at))
            .map(|visit| visit.visited.took)
            .collect();
        took.sort_unstable();
        let index = ((took.len() as f64 * q) as usize).min(took.len().saturating_sub(1));
        took.get(index).copied().unwrap_or_default()
    }
}

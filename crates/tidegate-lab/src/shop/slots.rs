//! The slots and the queue in front of them.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::rng::Rng;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::stall::Stall;
use super::{ServiceLaw, ShopPlan, ShopStats};
use crate::load::{Request, raw};

/// Different paths that are counted by name.
const PATHS_MAX: usize = 1_000;
/// Service times kept of each kind of work; later ones are not.
const TIMES_MAX: usize = 1_000_000;
/// Bytes of a page handed over at a time.
const PIECE_BYTES: usize = 16 * 1024;

/// All slots of one shop.
pub(super) struct Slots {
    plan: ShopPlan,
    runtime: Handle,
    state: Mutex<State>,
}

struct State {
    stats: ShopStats,
    waiting: VecDeque<Job>,
    recommend_factor: f64,
    /// Where pages of products get theirs.
    recommendations: Option<SocketAddr>,
    rng: Rng,
    stall: Stall,
    /// How long slots were held for [`Work::Serve`] and [`Work::Recommend`], stalls left out.
    times: [Vec<Duration>; 2],
}

/// What a slot is wanted for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    /// One job of the service time.
    Serve,
    /// One that waits for the recommendation dependency too.
    Recommend,
    /// One that then asks for recommendations itself.
    Product,
    /// One of this length.
    Hang(Duration),
    /// One that uses this much CPU time.
    Burn(Duration),
    /// One that ends in a body of so many bytes.
    Page(usize),
}

/// What a slot answers.
pub(super) enum Product {
    /// An ordinary answer.
    Answer,
    /// The pieces of a page, made as they are taken.
    Page(mpsc::Receiver<Bytes>),
}

struct Job {
    work: Work,
    inside: Inside,
    caller: oneshot::Sender<Product>,
}

/// A request that is inside the shop until this is dropped.
pub(super) struct Inside(Arc<Slots>);

impl Slots {
    pub(super) fn new(plan: ShopPlan, runtime: Handle) -> Self {
        let stats = ShopStats {
            slots: plan.slots,
            ..ShopStats::default()
        };
        let state = State {
            stats,
            waiting: VecDeque::new(),
            recommend_factor: plan.recommend_factor,
            recommendations: None,
            rng: Rng::new(plan.seed),
            stall: Stall::default(),
            times: [Vec::new(), Vec::new()],
        };
        Self {
            plan,
            runtime,
            state: Mutex::new(state),
        }
    }

    pub(super) fn plan(&self) -> &ShopPlan {
        &self.plan
    }

    pub(super) fn stats(&self) -> ShopStats {
        self.lock().stats.clone()
    }

    pub(super) fn restart_maxima(&self) {
        let stats = &mut self.lock().stats;
        stats.inside_max = stats.inside;
        stats.queue_max = stats.queue;
    }

    pub(super) fn set_slots(self: &Arc<Self>, slots: u32) {
        let mut state = self.lock();
        state.stats.slots = slots;
        while let Some(job) = state.next_job() {
            self.runtime.spawn(work_off(Arc::clone(self), job));
        }
    }

    pub(super) fn set_recommend_factor(&self, factor: f64) {
        self.lock().recommend_factor = factor;
    }

    pub(super) fn set_recommendations(&self, at: SocketAddr) {
        self.lock().recommendations = Some(at);
    }

    /// Asks for recommendations, as an application does that has no timeout of its own: without an answer it waits.
    async fn ask_for_recommendations(&self) {
        let Some(at) = self.lock().recommendations else {
            return;
        };
        let answer = raw::ask(at, &Request::get("/recommend/for-you")).await;
        let found = answer.is_ok_and(|answer| answer.status == 200);
        let stats = &mut self.lock().stats;
        match found {
            true => stats.pages_with += 1,
            false => stats.pages_without += 1,
        }
    }

    /// Nothing in a slot moves for `lasts` from now on.
    pub(super) fn stall(&self, lasts: Duration) {
        self.lock().stall.begin(Instant::now(), lasts);
    }

    /// How long slots were held for `work` so far, stalls left out.
    pub(super) fn times(&self, work: Work) -> Vec<Duration> {
        let state = self.lock();
        kind(work).map_or_else(Vec::new, |kind| state.times[kind].clone())
    }

    pub(super) fn connected(&self) {
        self.lock().stats.connections += 1;
    }

    pub(super) fn disconnected(&self) {
        self.lock().stats.connections -= 1;
    }

    /// A request for `path` has been received.
    pub(super) fn enter(self: &Arc<Self>, path: &str) -> Inside {
        let mut state = self.lock();
        let stats = &mut state.stats;
        stats.inside += 1;
        stats.inside_max = stats.inside_max.max(stats.inside);
        count_path(&mut stats.received, path);
        Inside(Arc::clone(self))
    }

    /// Puts a job in line, or into a slot that is free. It ends whatever its caller does.
    pub(super) fn take_on(
        self: &Arc<Self>,
        work: Work,
        inside: Inside,
    ) -> oneshot::Receiver<Product> {
        let (caller, product) = oneshot::channel();
        let mut state = self.lock();
        state.waiting.push_back(Job {
            work,
            inside,
            caller,
        });
        state.stats.queue += 1;
        if let Some(job) = state.next_job() {
            self.runtime.spawn(work_off(Arc::clone(self), job));
        }
        state.stats.queue_max = state.stats.queue_max.max(state.stats.queue);
        product
    }

    fn length(&self, work: Work) -> Duration {
        let mut state = self.lock();
        let mean = match work {
            Work::Serve | Work::Product | Work::Page(_) => self.plan.service,
            Work::Recommend => self.plan.service.mul_f64(state.recommend_factor),
            Work::Hang(length) => return length,
            Work::Burn(_) => return Duration::ZERO,
        };
        let stages = match self.plan.law {
            ServiceLaw::Fixed => return mean,
            ServiceLaw::Erlang4 => 4,
            ServiceLaw::Exponential => 1,
        };
        let sum: f64 = (0..stages).map(|_| -(1.0 - state.rng.unit()).ln()).sum();
        mean.mul_f64(sum / f64::from(stages))
    }

    /// Waits until work of `length` is done, however often it is held up, and notes how long it
    /// took.
    async fn work(&self, work: Work, length: Duration) {
        if length.is_zero() {
            return;
        }
        let begun = Instant::now();
        let (mut end, mut stalled) = self.lock().stall.end(begun, begun + length);
        loop {
            tokio::time::sleep_until(end).await;
            let later = self.lock().stall.end(begun, begun + length);
            if later.0 <= end {
                break;
            }
            (end, stalled) = later;
        }
        if let Some(kind) = kind(work) {
            let times = &mut self.lock().times[kind];
            if self.plan.times_kept && times.len() < TIMES_MAX {
                times.push(begun.elapsed().saturating_sub(stalled));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters are whole between any two statements, so a panic elsewhere does not spoil them.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives the first job in line a slot, if there is a free one.
    fn next_job(&mut self) -> Option<Job> {
        if self.stats.busy >= self.stats.slots {
            return None;
        }
        let job = self.waiting.pop_front()?;
        self.stats.busy += 1;
        self.stats.queue -= 1;
        self.stats.started += 1;
        self.stats.started_dead += u64::from(job.caller.is_closed());
        Some(job)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.lock().stats.inside -= 1;
    }
}

/// A slot at work: `job`, and then whatever is first in line, until nothing is.
async fn work_off(slots: Arc<Slots>, mut job: Job) {
    loop {
        let length = slots.length(job.work);
        slots.work(job.work, length).await;
        match job.work {
            Work::Page(bytes) => hand_over_page(&slots, bytes, job).await,
            Work::Burn(time) => {
                burn(time);
                hand_over(&slots, job);
            }
            Work::Product => {
                slots.ask_for_recommendations().await;
                hand_over(&slots, job);
            }
            Work::Serve | Work::Recommend | Work::Hang(_) => hand_over(&slots, job),
        }

        let mut state = slots.lock();
        state.stats.busy -= 1;
        match state.next_job() {
            Some(next) => job = next,
            None => return,
        }
    }
}

/// Ends a job: first it is outside, then its caller hears of it.
fn hand_over(slots: &Slots, job: Job) {
    let Job { inside, caller, .. } = job;
    drop(inside);
    let heard = caller.send(Product::Answer).is_ok();
    slots.lock().finished(heard);
}

/// As a blocking worker does, keeps the slot while the client takes the page; only for its last
/// piece does nobody have to be there.
async fn hand_over_page(slots: &Slots, bytes: usize, job: Job) {
    let Job { inside, caller, .. } = job;
    let (pieces, page) = mpsc::channel(1);
    let mut heard = caller.send(Product::Page(page)).is_ok();
    let mut left = bytes;
    while heard && left > PIECE_BYTES {
        heard = pieces
            .send(Bytes::from_static(&[b'p'; PIECE_BYTES]))
            .await
            .is_ok();
        left -= PIECE_BYTES;
    }
    if heard {
        // The place in the channel first: what follows must not wait.
        match pieces.reserve().await {
            Ok(place) => {
                drop(inside);
                place.send(Bytes::from_static(&[b'p'; PIECE_BYTES]).slice(..left));
            }
            Err(_) => heard = false,
        }
    }
    slots.lock().finished(heard);
}

impl State {
    fn finished(&mut self, heard: bool) {
        self.stats.finished += 1;
        self.stats.finished_dead += u64::from(!heard);
    }
}

/// Uses `time` of this thread's own CPU time, so that being preempted does not count as work.
fn burn(time: Duration) {
    let until = cpu_time() + time;
    let mut rng = Rng::new(1);
    while cpu_time() < until {
        for _ in 0..2_000 {
            std::hint::black_box(rng.next_u64());
        }
    }
}

/// Where the times of `work` are kept.
const fn kind(work: Work) -> Option<usize> {
    match work {
        Work::Serve => Some(0),
        Work::Recommend => Some(1),
        Work::Product | Work::Hang(_) | Work::Burn(_) | Work::Page(_) => None,
    }
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

fn count_path(received: &mut BTreeMap<String, u64>, path: &str) {
    if let Some(count) = received.get_mut(path) {
        *count += 1;
    } else if received.len() < PATHS_MAX {
        received.insert(path.to_owned(), 1);
    } else {
        *received.entry("(more)".to_owned()).or_default() += 1;
    }
}

//! One shard: a primary, the connections to it, and the breaker before them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redis::Cmd;
use tidegate_core::breaker::{Breaker, BreakerPlan, BreakerState, Change};
use tidegate_core::rng::Rng;
use tidegate_core::session::{OnShort, Replication, Wait};
use tidegate_core::time::Mono;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, timeout_at};

use super::answer::Answer;
use super::conversation::{Failure, converse, write_and_wait};
use super::counts::Counts;
use super::failover::Watch;
use super::line::Line;
use super::link::{Greeting, Identity, Link};
use super::plan::{Address, RedisPlan, Use};
use super::pool::{Place, Pool};
use super::said::Said;
use super::script::Run;
use super::servers::Lane;
use crate::error::StoreError;

/// For so long after a write found no replica, those that may go without do not wait for one.
const ALONE_FOR: Duration = Duration::from_secs(1);

/// What all shards of one use have in common.
pub(super) struct Common {
    pub(super) plan: RedisPlan,
    pub(super) purpose: Use,
    pub(super) greeting: Greeting,
    pub(super) runtime: Handle,
    /// Where [`Mono`] begins.
    pub(super) origin: Instant,
    /// Whoever knows where primaries are is asked to look again.
    pub(super) look_again: Notify,
}

/// One shard.
pub(super) struct Shard {
    pub(super) common: Arc<Common>,
    /// Where the primary is, as far as is known.
    pub(super) target: watch::Sender<Option<Address>>,
    pub(super) fast: Vec<Line>,
    pub(super) bulk: Line,
    /// Room on the connection of bulk operations, which wait for it.
    room: Semaphore,
    pub(super) durable: Pool,
    pub(super) counts: Counts,
    /// The supervisor has something to do.
    pub(super) wake: Notify,
    passing: AtomicBool,
    /// Since when calls have had no answer, in nanoseconds; 0 when the last one had.
    silent_since: AtomicU64,
    /// When a write last found no replica; 0 for never.
    alone_at_ms: AtomicU64,
    guarded: Mutex<Guarded>,
}

/// What is behind the shard's lock, which is never held over an await.
struct Guarded {
    breaker: Breaker,
    rng: Rng,
    identity: Option<Identity>,
    /// Some key of the shard's slots, to try whether it takes writes.
    canary: String,
    watch: Watch,
    /// Why it is away, or soon will be.
    said: Said,
}

/// What is sent.
#[derive(Clone, Copy)]
pub(super) enum Request<'a> {
    /// A script.
    Run(&'a Run),
    /// A command.
    Command(&'a Cmd),
}

impl Common {
    /// Now.
    pub(super) fn now(&self) -> Mono {
        self.at(Instant::now())
    }

    fn at(&self, instant: Instant) -> Mono {
        let nanos = instant.saturating_duration_since(self.origin).as_nanos();
        Mono::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Shard {
    pub(super) fn new(common: Arc<Common>, seed: u64) -> Self {
        let lanes = common.plan.lanes;
        let breaker = BreakerPlan {
            probe_within: common.plan.operation_timeout,
            ..BreakerPlan::STORE
        };
        Self {
            target: watch::Sender::new(None),
            fast: (0..lanes.fast.max(1))
                .map(|_| Line::new(lanes.fast_in_flight_max))
                .collect(),
            bulk: Line::new(lanes.bulk_in_flight_max),
            room: Semaphore::new(lanes.bulk_in_flight_max as usize),
            durable: Pool::new(lanes.durable_max),
            counts: Counts::default(),
            wake: Notify::new(),
            passing: AtomicBool::new(true),
            silent_since: AtomicU64::new(0),
            alone_at_ms: AtomicU64::new(0),
            guarded: Mutex::new(Guarded {
                breaker: Breaker::new(breaker),
                rng: Rng::new(seed),
                identity: None,
                canary: CANARY.to_owned(),
                watch: Watch::default(),
                said: Said::default(),
            }),
            common,
        }
    }

    /// Whether calls pass.
    pub(super) fn passes(&self) -> bool {
        self.passing.load(Ordering::Relaxed)
    }

    /// Whether no call has been answered since one failed more than `longer_than` ago, or none is let pass any more.
    pub(super) fn is_silent(&self, longer_than: Duration) -> bool {
        if !self.passes() {
            return true;
        }
        match self.silent_since.load(Ordering::Relaxed) {
            0 => false,
            since => self.common.now().since(Mono::from_nanos(since)) > longer_than,
        }
    }

    fn fell_silent(&self, now: Mono) {
        let first = now.as_nanos().max(1);
        // Only the first of several failures counts.
        let _ = self
            .silent_since
            .compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn spoke(&self) {
        self.silent_since.store(0, Ordering::Relaxed);
    }

    /// Sends `request` on the connection that `slot` takes, after `ASKING` if `asking`. Everything
    /// that is no answer of the server is an error by now.
    pub(super) async fn exchange(
        &self,
        lane: Lane,
        slot: u16,
        request: Request<'_>,
        asking: bool,
        deadline: Instant,
    ) -> Result<Answer, StoreError> {
        let line = match lane {
            Lane::Fast => &self.fast[usize::from(slot) % self.fast.len()],
            Lane::Bulk => &self.bulk,
        };
        let _room = self.room(lane, deadline).await?;
        self.admit()?;
        let Some(_permit) = line.admit() else {
            self.counts.busy.one();
            return Err(StoreError::Busy);
        };
        let Some(link) = line.link(deadline).await else {
            // Nothing was sent, but it was waited for all the same.
            self.counts.unconnected.one();
            self.failed();
            return Err(StoreError::Away);
        };
        let begun = Instant::now();
        match converse(&link, request, asking, deadline).await {
            Ok(answer) => {
                line.answered();
                self.heard(&answer, begun);
                Ok(answer)
            }
            Err(Failure::Timeout) => {
                if line.timed_out(&link) {
                    self.counts.given_up.one();
                    self.wake.notify_one();
                }
                self.counts.timeouts.one();
                self.hear(NO_ANSWER);
                self.failed();
                Err(StoreError::Timeout)
            }
            Err(Failure::Broken(why)) => {
                if line.give_up(&link) {
                    self.wake.notify_one();
                }
                self.counts.broken.one();
                self.hear(&why);
                self.failed();
                Err(StoreError::Broken(why))
            }
        }
    }

    /// Room among the bulk operations. They wait for it until `deadline`: many come at once, and
    /// few have somebody who waits for them. A small one is told at once that there is none.
    async fn room(
        &self,
        lane: Lane,
        deadline: Instant,
    ) -> Result<Option<SemaphorePermit<'_>>, StoreError> {
        if lane == Lane::Fast {
            return Ok(None);
        }
        match timeout_at(deadline, self.room.acquire()).await {
            Ok(room) => Ok(room.ok()),
            Err(_) => {
                self.counts.busy.one();
                Err(StoreError::Busy)
            }
        }
    }

    /// Runs a script and waits for replicas, on a connection of its own. `None`, and nothing done:
    /// all of those are in use, or there are no replicas to wait for.
    pub(super) async fn exchange_durable(
        &self,
        run: &Run,
        asking: bool,
        wait: Wait,
        deadline: Instant,
    ) -> Result<Option<(Answer, Replication)>, StoreError> {
        self.admit()?;
        if wait.on_short == OnShort::Degrade && self.is_alone() {
            return Ok(None);
        }
        let Some(mut place) = self.durable.take() else {
            return Ok(None);
        };
        let begun = Instant::now();
        if let Err(error) = self.connect(&mut place).await {
            self.counts.unconnected.one();
            self.failed();
            return Err(error);
        }
        // A first write on a connection has the time for connecting on top.
        let deadline = deadline + begun.elapsed();
        let link = place.link().expect("it was connected above");
        let begun = Instant::now();
        match write_and_wait(link, run, asking, wait, deadline).await {
            Ok((answer, replicas)) => {
                place.put_back();
                self.heard(&answer, begun);
                if replicas == 0 {
                    let now_ms = self.common.now().as_nanos() / 1_000_000;
                    self.alone_at_ms.store(now_ms.max(1), Ordering::Relaxed);
                }
                let replication = if replicas >= wait.replicas {
                    Replication::Reached(replicas)
                } else {
                    self.counts.short.one();
                    Replication::Short(replicas)
                };
                Ok(Some((answer, replication)))
            }
            Err(Failure::Timeout) => {
                self.counts.timeouts.one();
                self.hear(NO_ANSWER);
                self.failed();
                Err(StoreError::Timeout)
            }
            Err(Failure::Broken(why)) => {
                self.counts.broken.one();
                self.hear(&why);
                self.failed();
                Err(StoreError::Broken(why))
            }
        }
    }

    /// Whether a write has just found no replica at all: then not every write has to wait in vain
    /// to learn the same.
    fn is_alone(&self) -> bool {
        let alone = self.alone_at_ms.load(Ordering::Relaxed);
        let at = Mono::from_millis(alone);
        alone > 0 && self.common.now().since(at) < ALONE_FOR
    }

    async fn connect(&self, place: &mut Place<'_>) -> Result<(), StoreError> {
        if place.link().is_some() {
            return Ok(());
        }
        let target = self.target.borrow().clone().ok_or(StoreError::Away)?;
        let within = self.common.plan.connect_timeout;
        self.counts.dials.one();
        let greeting = self.common.greeting.clone();
        // There, so that the connection is driven there.
        let dialling = self
            .common
            .runtime
            .spawn(async move { Link::dial(&target, &greeting, within).await });
        let dialled = dialling.await.map_err(|_| StoreError::Away)?;
        if let Err(error) = &dialled {
            self.hear(&error.to_string());
        }
        let link = dialled.ok().filter(|link| self.knows(link.identity()));
        let Some(link) = link else {
            self.counts.dials_failed.one();
            return Err(StoreError::Away);
        };
        place.fill(link);
        Ok(())
    }

    fn admit(&self) -> Result<(), StoreError> {
        if self.passes() {
            Ok(())
        } else {
            self.counts.away.one();
            Err(StoreError::Away)
        }
    }

    fn heard(&self, answer: &Answer, begun: Instant) {
        if let Answer::Unfit(said) = answer {
            self.counts.unfit.one();
            let now = self.common.now();
            self.fell_silent(now);
            let mut guarded = self.guarded();
            guarded.said.hear(said);
            let Guarded { breaker, rng, .. } = &mut *guarded;
            let change = breaker.refused(now, rng);
            self.changed(&mut guarded, change);
            drop(guarded);
            // It may have a successor.
            self.wake.notify_one();
            self.common.look_again.notify_one();
            return;
        }
        self.counts.answered.one();
        self.spoke();
        let now = self.common.now();
        let mut guarded = self.guarded();
        guarded.breaker.answered(now);
        guarded.watch.answered(now, begun.elapsed());
    }

    /// Notes why something went wrong, for people to read if calls stop for it.
    pub(super) fn hear(&self, why: &str) {
        self.guarded().said.hear(why);
    }

    /// A call or a dial had no answer.
    pub(super) fn failed(&self) {
        let now = self.common.now();
        self.fell_silent(now);
        let mut guarded = self.guarded();
        let Guarded { breaker, rng, .. } = &mut *guarded;
        let change = breaker.failed(now, rng);
        self.changed(&mut guarded, change);
    }

    /// It is known that calls would fail, or find other data than they left.
    pub(super) fn told(&self) {
        let now = self.common.now();
        let mut guarded = self.guarded();
        let Guarded { breaker, rng, .. } = &mut *guarded;
        let change = breaker.told(now, rng);
        self.changed(&mut guarded, change);
    }

    /// When the supervisor is to probe; `None` while calls pass.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        let at = self.guarded().breaker.probe_at()?;
        Some(self.common.origin + Duration::from_nanos(at.as_nanos()))
    }

    /// Begins to probe if it is time; whether there is anything to probe.
    pub(super) fn probe(&self) -> bool {
        let now = self.common.now();
        let mut guarded = self.guarded();
        let change = guarded.breaker.probe(now);
        self.changed(&mut guarded, change);
        matches!(guarded.breaker.state(), BreakerState::Probing { .. })
    }

    /// A probe was answered after `took`, or failed.
    pub(super) fn probed(&self, took: Option<Duration>) {
        let now = self.common.now();
        let mut guarded = self.guarded();
        let Guarded { breaker, rng, .. } = &mut *guarded;
        let change = breaker.probed(now, took, rng);
        self.changed(&mut guarded, change);
    }

    /// Good probes that are missing; `None` when it does not probe.
    pub(super) fn probes_missing(&self) -> Option<u32> {
        match self.guarded().breaker.state() {
            BreakerState::Probing { good } => Some(BreakerPlan::STORE.probes - good),
            _ => None,
        }
    }

    /// The primary is elsewhere: calls stop, and the supervisor probes there at once.
    pub(super) fn point_to(&self, address: &Address) {
        let moved = self.target.send_if_modified(|target| {
            let moved = target.as_ref() != Some(address);
            if moved {
                *target = Some(address.clone());
            }
            moved
        });
        if !moved {
            return;
        }
        if self.guarded().identity.is_some() {
            self.hear("the primary is elsewhere now");
            self.told();
        }
        let now = self.common.now();
        let mut guarded = self.guarded();
        guarded.breaker.hurry(now);
        guarded.watch.pointed();
        drop(guarded);
        self.wake.notify_one();
    }

    /// Whether `identity` is the primary that the data was last known to be on. The first one is.
    pub(super) fn knows(&self, identity: &Identity) -> bool {
        let mut guarded = self.guarded();
        guarded.identity.get_or_insert_with(|| identity.clone()) == identity
    }

    /// From now on the data is on `identity`.
    pub(super) fn adopt(&self, identity: &Identity) {
        self.guarded().identity = Some(identity.clone());
    }

    /// A primary answered while calls are stopped.
    pub(super) fn found(&self) {
        let now = self.common.now();
        self.guarded().watch.found(now);
    }

    /// A primary that was asked how it is answered after `took`.
    pub(super) fn checked(&self, took: Duration) {
        self.spoke();
        let now = self.common.now();
        let mut guarded = self.guarded();
        guarded.breaker.answered(now);
        guarded.watch.answered(now, took);
    }

    /// An opening of a session fetched it whole, or found that the copy here is right.
    pub(super) fn fetched(&self, whole: bool) {
        self.guarded().watch.fetched(whole);
    }

    /// Tries writes with this key from now on.
    pub(super) fn try_with(&self, canary: String) {
        self.guarded().canary = canary;
    }

    /// The key that writes are tried with.
    pub(super) fn canary(&self) -> String {
        self.guarded().canary.clone()
    }

    /// Reads what is behind the lock: the breaker's state and the watch.
    pub(super) fn observe<T>(&self, read: impl FnOnce(BreakerState, &Watch) -> T) -> T {
        let guarded = self.guarded();
        read(guarded.breaker.state(), &guarded.watch)
    }

    fn changed(&self, guarded: &mut Guarded, change: Option<Change>) {
        let Some(change) = change else { return };
        let now = self.common.now();
        let purpose = self.common.purpose.name();
        match change {
            Change::Tripped(why) => {
                self.passing.store(false, Ordering::Relaxed);
                self.counts.trips[why.index()].one();
                let (is_new, is_news) = (guarded.watch.tripped(now), guarded.said.is_news());
                let address = self.target.borrow().as_ref().map(ToString::to_string);
                let (reason, said) = (why.name(), guarded.said.last());
                if is_new {
                    tracing::warn!(purpose, address, reason, said, "a store is away");
                } else if is_news {
                    tracing::warn!(purpose, address, reason, said, "a store is still away");
                } else {
                    tracing::debug!(purpose, address, reason, said, "a store is still away");
                }
                self.give_everything_up();
                self.wake.notify_one();
                self.common.look_again.notify_one();
            }
            Change::Probing => {}
            Change::Passing => {
                self.spoke();
                self.passing.store(true, Ordering::Relaxed);
                self.counts.passes.one();
                guarded.said.forget();
                let away_ms = guarded
                    .watch
                    .passes(now)
                    .map(|away| away.as_millis() as u64);
                tracing::info!(purpose, away_ms, "a store is back");
            }
        }
    }

    /// Whatever is under way fails now rather than at its timeout.
    fn give_everything_up(&self) {
        self.fast.iter().for_each(Line::clear);
        self.bulk.clear();
        self.durable.clear();
    }

    fn guarded(&self) -> MutexGuard<'_, Guarded> {
        self.guarded.lock().expect("nobody panics while holding it")
    }
}

/// What is said of a server that said nothing.
pub(super) const NO_ANSWER: &str = "no answer in time";

/// The key that writes are tried with where every key is on one shard.
pub(super) const CANARY: &str = "tg:canary";

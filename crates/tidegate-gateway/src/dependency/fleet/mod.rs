//! Permits of dependencies that hold over all gateways which share a store.
//!
//! A call that has passed the door of this gateway asks the store for a permit, once, and gives it back when it ends. What
//! goes back and what is renewed meanwhile is sent by a task beside the data path (`courier`, one for each dependency), a batch
//! in a call. What is promised is the core's ([`tidegate_core::rate::permits`]); what becomes of a call whose store is away, the
//! configuration's.

mod counts;
mod courier;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use tidegate_core::facts::Class;
use tidegate_core::rate::Tick;
use tidegate_core::rate::permits::{
    Afterwards, Answer, HELD_MAX, Holder, Outcome, PermitId, Terms,
};
use tidegate_core::rate::share::{Life, OnLoss};
use tidegate_core::session::Name;
use tidegate_store::permits::{PermitStore, RedisPermits};
use tidegate_store::{Background, Call};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use self::counts::{Called, Counts, Without};
use super::plan::{DependencyPlan, FleetDependency};
use crate::context::Clock;
use crate::rate::{Sharing, tick};

/// Longest wait of one call for the store.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(8);
/// A call holds its permit for as long as it lasts.
const HOLD_US: u64 = u64::MAX / 2;
/// Longest wait at the end for what goes back.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// This gateway's side of all dependencies of the fleet. Dropping it ends what goes on beside the data path.
pub(crate) struct Fleet {
    inner: Arc<Inner>,
    background: Background,
    couriers: Vec<AbortHandle>,
}

/// What couriers and calls share.
struct Inner {
    store: PermitStore,
    clock: Clock,
    /// By their places in the plan; none for those of this gateway alone.
    things: Vec<Option<Thing>>,
}

/// One dependency of the fleet.
struct Thing {
    name: Name,
    plan: FleetDependency,
    /// What this gateway gives by itself while the store is away.
    part: Terms,
    state: Mutex<State>,
    counts: Counts,
    /// Rung when something goes back, or something is due earlier than before.
    bell: Notify,
    /// When its courier comes round by itself, in ticks.
    wakes: AtomicU64,
}

struct State {
    holder: Holder,
    /// The last fence that was seen.
    fence: u64,
    /// What the store is to be told that it is held no more.
    back: VecDeque<Back>,
    /// After a call in vain nothing goes back before that.
    rests: Tick,
}

/// A permit that goes back.
#[derive(Clone, Copy)]
struct Back {
    id: PermitId,
    /// By then it is back anyway.
    until: Tick,
}

/// A permit of the fleet that is held. Dropped, it goes back.
pub(crate) struct Share {
    inner: Arc<Inner>,
    at: usize,
    id: PermitId,
    fence: u64,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoShare {
    /// As many are held as there are.
    Full,
    /// The store is away, or does not know yet who holds what. It may in so long.
    Away(Duration),
}

/// How a dependency of the fleet is at this moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct FleetTally {
    /// What this gateway holds.
    pub(crate) held: u64,
    /// Of that, what the store does not know of.
    pub(crate) unknown: u64,
    /// Permits whose lease passed because the store could not be reached, or that it gave to somebody else.
    pub(crate) lost: u64,
    /// Permits that the store could not be told were given back: they go when their lease is over.
    pub(crate) unreturned: u64,
    /// Calls to the store, by what for and whether they were answered.
    pub(crate) store_calls: Vec<(&'static str, &'static str, u64)>,
    /// Calls that were decided on without the store, by what became of them.
    pub(crate) without: Vec<(&'static str, u64)>,
}

impl Fleet {
    /// Starts on those of `plans` that are of the fleet; nothing where none is.
    pub(crate) fn start(
        plans: &[DependencyPlan],
        sharing: Option<&Sharing>,
        clock: Clock,
    ) -> Option<Self> {
        let Sharing { redis, background } = sharing?;
        let mut drawn = [0; 8];
        getrandom::fill(&mut drawn).expect("the system has random bytes once it is up");
        let life = Life(u64::from_le_bytes(drawn));
        let thing = |plan: &DependencyPlan| Some(Thing::new(plan.name(), plan.fleet?, life));
        let things: Vec<Option<Thing>> = plans.iter().map(thing).collect();
        if things.iter().all(Option::is_none) {
            return None;
        }
        let inner = Arc::new(Inner {
            store: PermitStore::Redis(RedisPermits::new(redis.clone())),
            clock,
            things,
        });
        let courier = |at| {
            let courier = background.spawn(courier::deliver(Arc::clone(&inner), at));
            courier.abort_handle()
        };
        let couriers = inner.places().map(courier).collect();
        Some(Self {
            background: background.clone(),
            couriers,
            inner,
        })
    }

    /// Whether the dependency at this place is of the fleet.
    pub(crate) fn has(&self, at: usize) -> bool {
        self.inner.things[at].is_some()
    }

    /// A permit for a call of `class` that counts as `weight` to the dependency at `at`, which is of the fleet. The store is
    /// not waited for beyond `deadline`.
    ///
    /// May be given up at any time.
    pub(crate) async fn enter(
        &self,
        at: usize,
        class: Class,
        weight: u64,
        deadline: Instant,
    ) -> Result<Share, NoShare> {
        let inner = &self.inner;
        let thing = inner.thing(at);
        let asked = inner.now();
        let asking = thing.lock().holder.acquire(asked, weight, class, HOLD_US);
        let Some(asking) = asking else {
            return Err(NoShare::Full);
        };
        // From here on it goes back, given or not, unless it turns out that it was refused.
        let mut share = Share {
            inner: Arc::clone(inner),
            at,
            id: asking.id,
            fence: 0,
        };
        let call = Call::within(deadline.saturating_duration_since(Instant::now()));
        let terms = &thing.plan.terms;
        let said = inner.store.acquire(&thing.name, terms, &asking, call).await;
        thing.counts.called(Called::Acquire, said.is_ok());
        let mut state = thing.lock();
        let left = match said {
            Ok(answer) => match state.holder.answered(asked, inner.now(), asking.id, answer) {
                Outcome::Held { fence } => {
                    state.fence = state.fence.max(fence);
                    let due = state.holder.due_at();
                    drop(state);
                    thing.expect(due);
                    share.fence = fence;
                    return Ok(share);
                }
                Outcome::Refused(Answer::Settling { left_us }) => Duration::from_micros(left_us),
                Outcome::Refused(_) => {
                    drop(state);
                    return Err(NoShare::Full);
                }
                Outcome::Lost | Outcome::Over => Duration::ZERO,
            },
            Err(error) => {
                if !error.is_unknown() {
                    // Nothing happened there, so nothing goes back.
                    state.holder.release(asking.id);
                }
                Duration::ZERO
            }
        };
        drop(state);
        drop(share);
        self.without(at, class, weight, left)
    }

    /// Gives back what can be, once nothing is under way any more. Waits for a moment at most.
    pub(crate) fn close(&self) {
        self.couriers.iter().for_each(AbortHandle::abort);
        let (done, finished) = mpsc::channel();
        for at in self.inner.places() {
            let (inner, done) = (Arc::clone(&self.inner), done.clone());
            self.background.spawn(async move {
                inner.round(inner.thing(at)).await;
                // Nobody waits any more if this took too long.
                let _ = done.send(());
            });
        }
        let deadline = std::time::Instant::now() + CLOSE_WITHIN;
        for _ in self.inner.places() {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if finished.recv_timeout(left).is_err() {
                tracing::warn!("permits of dependencies could not all be given back");
                return;
            }
        }
    }

    /// How the dependency at this place is now; nothing if it is not of the fleet.
    pub(crate) fn tally(&self, at: usize) -> Option<FleetTally> {
        let thing = self.inner.things[at].as_ref()?;
        let (held, unknown) = {
            let state = thing.lock();
            (state.holder.used().iter().sum(), state.holder.unknown())
        };
        Some(FleetTally {
            held,
            unknown,
            lost: thing.counts.lost.load(Ordering::Relaxed),
            unreturned: thing.counts.unreturned.load(Ordering::Relaxed),
            store_calls: thing.counts.calls().collect(),
            without: thing.counts.without().collect(),
        })
    }

    /// Decides without the store.
    fn without(
        &self,
        at: usize,
        class: Class,
        weight: u64,
        left: Duration,
    ) -> Result<Share, NoShare> {
        let inner = &self.inner;
        let thing = inner.thing(at);
        let now = inner.now();
        let wall_us = inner.clock.wall().as_micros();
        let mut state = thing.lock();
        let has_room = match thing.plan.on_loss {
            OnLoss::Closed => {
                thing.counts.decided(Without::Closed);
                return Err(NoShare::Away(left));
            }
            OnLoss::Open => true,
            OnLoss::Local => weight <= thing.part.room(state.holder.used(), class),
        };
        let fence = (state.fence + 1).max(wall_us);
        let taken = has_room.then(|| {
            let holder = &mut state.holder;
            holder.take_anyway(now, weight, class, HOLD_US, fence)
        });
        let Some(id) = taken.flatten() else {
            thing.counts.decided(Without::Refused);
            // What this gateway may do alone is used up; while the store settles that is not all that there is.
            return Err(match left.is_zero() {
                true => NoShare::Full,
                false => NoShare::Away(left),
            });
        };
        thing.counts.decided(Without::Passed);
        state.fence = fence;
        let due = state.holder.due_at();
        drop(state);
        thing.expect(due);
        Ok(Share {
            inner: Arc::clone(inner),
            at,
            id,
            fence,
        })
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.couriers.iter().for_each(AbortHandle::abort);
    }
}

impl Share {
    /// Greater with each permit of its dependency.
    pub(crate) const fn fence(&self) -> u64 {
        self.fence
    }

    /// Whether it may still be acted on: somebody else may have it otherwise.
    pub(crate) fn is_held(&self) -> bool {
        let thing = self.inner.thing(self.at);
        thing.lock().holder.holds(self.inner.now(), self.id)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let thing = self.inner.thing(self.at);
        let until = self.inner.now().plus(thing.plan.terms.lease_us);
        let mut state = thing.lock();
        if !state.holder.release(self.id) {
            return;
        }
        if state.back.len() >= HELD_MAX {
            thing.counts.unreturned.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.back.push_back(Back { id: self.id, until });
        drop(state);
        thing.bell.notify_one();
    }
}

impl Thing {
    fn new(name: &str, plan: FleetDependency, life: Life) -> Self {
        let after = match plan.on_loss {
            OnLoss::Closed => Afterwards::Lost,
            OnLoss::Local | OnLoss::Open => Afterwards::Held,
        };
        Self {
            name: Name::new(name).expect("names of dependencies are checked"),
            plan,
            part: plan.terms.part(plan.nodes),
            state: Mutex::new(State {
                holder: Holder::new(life, plan.terms.lease_us, after),
                fence: 0,
                back: VecDeque::new(),
                rests: Tick(0),
            }),
            counts: Counts::default(),
            bell: Notify::new(),
            wakes: AtomicU64::new(u64::MAX),
        }
    }

    /// Sees to it that the courier is there when something is due.
    fn expect(&self, due: Option<Tick>) {
        if due.is_some_and(|due| due.0 < self.wakes.load(Ordering::Acquire)) {
            self.bell.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn now(&self) -> Tick {
        tick(self.clock.now())
    }

    fn thing(&self, at: usize) -> &Thing {
        let thing = self.things[at].as_ref();
        thing.expect("only those of the fleet are asked for")
    }

    /// Where those of the fleet are.
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.things.len()).filter(|&at| self.things[at].is_some())
    }
}

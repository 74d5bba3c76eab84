//! Limits that hold over all gateways which share a store.
//!
//! A key of such a limit has a `seat` at this node, in a bounded `table`. Requests are decided on in `decide`: first
//! by what the seats know, then, where they do not, with one call to the store. What seats have to say goes by `post`, which
//! a task beside the data path (`courier`) delivers; another one keeps this node among the others (`parts`).
//!
//! What is decided, and what is promised of it, is the core's (`tidegate_core::rate::share`).

mod counts;
mod courier;
mod decide;
mod look;
mod parts;
mod plan;
mod post;
mod seat;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tidegate_core::rate::share::Life;
use tidegate_core::rate::{Price, Tick};
use tidegate_core::session::SlotTag;
use tidegate_store::Background;
use tidegate_store::limits::RedisLimits;
use tidegate_store::redis::Redis;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use self::counts::Counts;
pub(crate) use self::decide::{Denied, Held, Wants};
pub(crate) use self::look::Stands;
use self::parts::{Keys, Parts};
pub use self::plan::{FLEET_KEYS_MAX, FleetMode, FleetPlan};
use self::post::{Letter, Post};
use self::seat::{Limit, Seat};
use self::table::{SHARDS, Table};
use super::{LimitPlan, RatePlan, shadow_name, tick};
use crate::context::Clock;

/// Keys are spread over so many parts of a Cluster; those of one part are sent together.
const TAGS: usize = 256;
/// Batches that are on their way at once.
const FLIGHTS_MAX: usize = 8;
/// After a message without an answer nothing is sent to that part of the store for so long.
const REST_US: u64 = 100_000;
/// Longest wait at the end for what goes back.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// What gateways share limits and permits of dependencies by.
#[derive(Clone)]
pub struct Sharing {
    /// Where they are, started for [`Use::Limits`](tidegate_store::redis::Use::Limits).
    pub redis: Redis,
    /// What goes on without a request runs there.
    pub background: Background,
}

/// This node's side of all limits of the fleet. Dropping it ends what goes on beside the data path.
pub(crate) struct Fleet {
    inner: Arc<Inner>,
    background: Background,
    tasks: Vec<AbortHandle>,
}

/// What tasks and requests share.
struct Inner {
    /// By their places in the plan; none for those of this node alone.
    limits: Vec<Option<Limit>>,
    /// What a token takes of each at the rate that is written.
    units: Vec<Price>,
    /// What each is called for its keys: enforced, and in the shadow.
    names: Vec<[String; 2]>,
    store: RedisLimits,
    clock: Clock,
    parts: Parts,
    table: Table,
    post: Post,
    counts: Counts,
    /// Drawn once and counted up: each seat is a life of its own for the store.
    lives: AtomicU64,
    /// By tag, until when nothing is sent, in ticks.
    resting: Box<[AtomicU64]>,
    flights: Arc<Semaphore>,
}

/// How limits over the fleet are at this moment.
#[derive(Debug)]
pub(crate) struct FleetTally {
    /// This node's part: one in so many, 0 for none.
    pub(crate) part: u32,
    /// Calls to the store, by what for and whether they were answered.
    pub(crate) calls: Vec<(&'static str, &'static str, u64)>,
    /// Seats that were dropped for want of room.
    pub(crate) evicted: u64,
    /// Requests whose tokens did not go back.
    pub(crate) give_backs_lost: u64,
    /// By limit.
    pub(crate) limits: Vec<LimitTally>,
}

/// One of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitTally {
    /// Whether it is of the fleet at all.
    pub(crate) is_of_fleet: bool,
    /// Keys that this node has a seat of.
    pub(crate) seats: u64,
    /// Those that are asked for so often that they are leased.
    pub(crate) hot: u64,
    /// Tokens that this node has ahead.
    pub(crate) ahead: u64,
    /// Tokens that it has spent and not had an answer about.
    pub(crate) unreported: u64,
    /// Requests that were decided on without the store, by what became of them.
    pub(crate) without: Vec<(&'static str, u64)>,
}

impl Fleet {
    /// Starts on `plan`'s limits of the fleet; nothing where it has none.
    pub(crate) fn start(plan: &RatePlan, sharing: Sharing, clock: Clock) -> Option<Self> {
        let limits: Vec<Option<Limit>> = plan
            .limits
            .iter()
            .map(|limit| {
                let spec = limit.counted().unwrap_or(limit.spec);
                Some(Limit::new(spec, limit.fleet?, plan.nodes))
            })
            .collect();
        if limits.iter().all(Option::is_none) {
            return None;
        }
        let units = plan.limits.iter().map(LimitPlan::unit).collect();
        let names: Vec<[String; 2]> = plan
            .limits
            .iter()
            .map(|limit| [limit.name.clone(), shadow_name(&limit.name)])
            .collect();
        let mut drawn = [0; 32];
        getrandom::fill(&mut drawn).expect("the system has random bytes once it is up");
        let [life, lives] = [0, 8].map(|at| {
            let bytes = drawn[at..at + 8].try_into().expect("there are 32 of them");
            u64::from_le_bytes(bytes)
        });
        let secret = drawn[16..].try_into().expect("there are 32 of them");
        let inner = Arc::new(Inner {
            parts: Parts::new(Life(life), secret, &names),
            names,
            units,
            store: RedisLimits::new(sharing.redis),
            clock,
            table: Table::new(plan.keys_max.min(FLEET_KEYS_MAX), lives),
            post: Post::default(),
            counts: Counts::new(limits.len()),
            limits,
            lives: AtomicU64::new(lives),
            resting: (0..TAGS).map(|_| AtomicU64::new(0)).collect(),
            flights: Arc::new(Semaphore::new(FLIGHTS_MAX)),
        });
        let background = sharing.background;
        let tasks = vec![
            background
                .spawn(courier::deliver_all(Arc::clone(&inner)))
                .abort_handle(),
            background
                .spawn(courier::keep_part(Arc::clone(&inner)))
                .abort_handle(),
            background
                .spawn(courier::sweep(Arc::clone(&inner)))
                .abort_handle(),
        ];
        Some(Self {
            inner,
            background,
            tasks,
        })
    }

    /// Gives back what this node has ahead, reports what it has spent, and says goodbye. Waits for a moment at most.
    pub(crate) fn close(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        let (inner, (done, finished)) = (Arc::clone(&self.inner), mpsc::channel());
        self.background.spawn(async move {
            inner.close().await;
            // Nobody waits any more if this took too long.
            let _ = done.send(());
        });
        if finished.recv_timeout(CLOSE_WITHIN).is_err() {
            tracing::warn!(
                "tokens of limits that this gateway had ahead could not all be given back"
            );
        }
    }

    /// How it is now. Looks at every seat.
    pub(crate) fn tally(&self) -> FleetTally {
        let inner = &self.inner;
        let now = inner.now();
        let mut limits: Vec<LimitTally> = (0..inner.limits.len())
            .map(|at| LimitTally {
                is_of_fleet: inner.limits[at].is_some(),
                without: inner.counts.decided_without(at).to_vec(),
                ..LimitTally::default()
            })
            .collect();
        for at in 0..SHARDS {
            for seat in inner.table.nth(at).seats.values() {
                let tally = &mut limits[usize::from(seat.limit)];
                tally.seats += 1;
                tally.hot += u64::from(seat.is_hot());
                tally.ahead += seat.ahead(now);
                tally.unreported += seat.unreported();
            }
        }
        for (tally, unit) in limits.iter_mut().zip(&inner.units) {
            tally.ahead = unit.tokens(tally.ahead);
            tally.unreported = unit.tokens(tally.unreported);
        }
        FleetTally {
            part: inner.parts.part(now),
            calls: inner.counts.calls().collect(),
            evicted: inner.counts.evicted.load(Ordering::Relaxed),
            give_backs_lost: inner.counts.give_backs_lost.load(Ordering::Relaxed),
            limits,
        }
    }

    fn keys(&self) -> Arc<Keys> {
        self.inner.parts.keys()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Inner {
    fn now(&self) -> Tick {
        tick(self.clock.now())
    }

    fn limit(&self, at: u16) -> &Limit {
        self.limits[usize::from(at)]
            .as_ref()
            .expect("seats are of limits of the fleet")
    }

    fn next_life(&self) -> Life {
        Life(self.lives.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether the part of the store that has `key` was silent a moment ago.
    fn is_resting(&self, key: u128, now: Tick) -> bool {
        now.0 < self.resting[place_of(key)].load(Ordering::Relaxed)
    }

    fn rest(&self, key: u128, until: Tick) {
        self.resting[place_of(key)].store(until.0, Ordering::Relaxed);
    }

    /// Sends what `seat` has to say, and sees to it that somebody comes back when it has more.
    fn speak(&self, key: u128, seat: &mut Seat, rng: &mut tidegate_core::rng::Rng, now: Tick) {
        if !self.is_resting(key, now)
            && let Some(message) = seat.message(now, rng)
        {
            let limit = seat.limit;
            let letter = Letter {
                key,
                limit,
                message,
            };
            if let Err(letter) = self.post.send(letter) {
                seat.unanswered(&letter.message, now);
            }
        }
        if !seat.has_timer
            && let Some(due) = seat.due_at()
        {
            seat.has_timer = true;
            self.post.remind(key, due.max(now.plus(1_000)));
        }
    }

    /// Has the last message of seats that were dropped sent.
    fn part_with(&self, gone: Vec<(u128, Seat)>, rng: &mut tidegate_core::rng::Rng, now: Tick) {
        for (key, mut seat) in gone {
            let Some(message) = seat.close(now, rng) else {
                continue;
            };
            let limit = seat.limit;
            let letter = Letter {
                key,
                limit,
                message,
            };
            if self.post.send(letter).is_err() {
                self.counts.lost(1);
            }
        }
    }
}

fn place_of(key: u128) -> usize {
    key as usize % TAGS
}

/// In which part of a Cluster a key is.
fn tag_of(key: u128) -> SlotTag {
    SlotTag::from_bits(place_of(key) as u32)
}

//! The servers of one use: which shard has a key, and what is run there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::{Cmd, Value};
use tidegate_core::session::{OnShort, Replication, Wait};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::answer::Answer;
use super::cluster::Mapper;
use super::link::Greeting;
use super::map::Map;
use super::plan::{Address, Arrangement, RedisPlan, Use};
use super::redo::{Kept, Ring, Write};
use super::script::{Known, Run};
use super::sentinel::Follower;
use super::shard::{Common, Request, Shard};
use super::slot::slot_of;
use super::stats::StoreStats;
use super::supervisor::{Supervisor, outcome};
use crate::background::Background;
use crate::error::StoreError;
use crate::{Acked, Call};

/// Most redirects that one call follows.
const REDIRECTS_MAX: u32 = 4;
/// How soon keys of a slot that is moving are asked for again.
const TRY_AGAIN_INTERVAL: Duration = Duration::from_millis(1);

/// The connections to all servers of one use. A clone is the same connections.
#[derive(Clone)]
pub(crate) struct Servers(Arc<Inner>);

struct Inner {
    common: Arc<Common>,
    map: watch::Sender<Arc<Map>>,
    ring: Arc<Ring>,
    scripts: Arc<Known>,
    /// Whether one call may only name keys of one slot.
    slots_apart: AtomicBool,
    /// What goes on without a request; it ends with this.
    tasks: Vec<AbortHandle>,
}

/// Which of a shard's connections an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// For the small operations of ordinary requests. All operations on one slot take the same
    /// connection, so they reach the server in the order in which they are first polled.
    Fast,
    /// For large values and housekeeping, which must not stand before the small ones.
    Bulk,
}

impl Servers {
    /// Begins to connect and returns at once: whether there is a server shows at the first call.
    pub(crate) fn start(plan: &RedisPlan, purpose: Use, background: &Background) -> Self {
        let common = Arc::new(Common {
            plan: plan.clone(),
            purpose,
            greeting: Greeting::of(plan),
            runtime: background.runtime().clone(),
            origin: Instant::now(),
            look_again: Notify::new(),
        });
        let (ring, scripts) = (Arc::new(Ring::default()), Arc::new(Known::default()));
        let mut tasks = Vec::new();
        let map = watch::Sender::new(Arc::new(Map::default()));
        let mut start_one = || {
            let shard = Arc::new(Shard::new(Arc::clone(&common), seed()));
            map.send_replace(Arc::new(Map::of_one(Arc::clone(&shard))));
            let supervisor = Supervisor {
                shard: Arc::clone(&shard),
                map: map.subscribe(),
                ring: Arc::clone(&ring),
                scripts: Arc::clone(&scripts),
            };
            tasks.push(background.spawn(supervisor.run()).abort_handle());
            shard
        };
        match &plan.arrangement {
            Arrangement::Standalone(address) => start_one().point_to(address),
            Arrangement::Sentinel {
                sentinels,
                primary,
                credentials,
            } => {
                let follower = Follower::new(start_one(), sentinels, primary, credentials);
                tasks.push(background.spawn(follower.run()).abort_handle());
            }
            Arrangement::Cluster(seeds) => {
                let (common, ring) = (Arc::clone(&common), Arc::clone(&ring));
                let scripts = Arc::clone(&scripts);
                let mapper = Mapper::new(common, map.clone(), ring, scripts, seeds);
                tasks.push(background.spawn(mapper.run()).abort_handle());
            }
        }
        let slots_apart = matches!(plan.arrangement, Arrangement::Cluster(_));
        Self(Arc::new(Inner {
            common,
            map,
            ring,
            scripts,
            slots_apart: AtomicBool::new(slots_apart),
            tasks,
        }))
    }

    /// Runs a script. Never takes longer than `call.timeout` or, on the fast lane, the plan's
    /// operation timeout, whichever is shorter.
    pub(crate) async fn run(&self, run: &Run, lane: Lane, call: Call) -> Result<Value, StoreError> {
        self.0.scripts.note(run.script);
        let slot = run.keys.first().map_or(0, |key| slot_of(key));
        self.send(slot, lane, Request::Run(run), self.deadline(lane, call))
            .await
    }

    /// Runs a script that writes, with the durability that `call` asks for: waits for replicas on a
    /// connection of its own when `call.wait` is set, and keeps `run` to do it again after a
    /// failover when `call.redo` is set. Such a run must be harmless when done twice, and its reply
    /// must begin with a number below 0 when it wrote nothing.
    pub(crate) async fn write(
        &self,
        run: Run,
        lane: Lane,
        call: Call,
    ) -> Result<Acked<Value>, StoreError> {
        self.write_then(run, lane, call, |_, _| None).await
    }

    /// The same; what is kept is what `redo` makes of the run and its reply, if it makes something of
    /// them.
    pub(crate) async fn write_then(
        &self,
        run: Run,
        lane: Lane,
        call: Call,
        redo: impl FnOnce(&Run, &Value) -> Option<Run>,
    ) -> Result<Acked<Value>, StoreError> {
        self.0.scripts.note(run.script);
        let slot = run.keys.first().map_or(0, |key| slot_of(key));
        let run = Arc::new(run);
        let kept = call
            .redo
            .then(|| self.keep(slot, Write::Run(Arc::clone(&run))));
        let deadline = self.deadline(lane, call);
        let written = match call.wait {
            Some(wait) => self.send_and_wait(slot, lane, &run, wait, deadline).await,
            None => {
                let said = self.send(slot, lane, Request::Run(&run), deadline).await;
                said.map(|said| (said, Replication::Unasked))
            }
        };
        match (kept, &written) {
            (Some(kept), Ok((said, _))) if outcome(said).is_some_and(|code| code < 0) => {
                kept.forget();
            }
            (Some(kept), Ok((said, _))) => {
                if let Some(run) = redo(&run, said) {
                    kept.replace(run);
                }
            }
            (Some(kept), Err(error)) if !error.is_unknown() => kept.forget(),
            _ => {}
        }
        let (reply, replication) = written?;
        Ok(Acked { reply, replication })
    }

    /// Keeps `run`, which has not been run, to do it after a failover: for a write that cannot
    /// itself be done twice and has a harmless equivalent.
    pub(crate) fn remember(&self, run: Run) {
        self.0.scripts.note(run.script);
        let slot = run.keys.first().map_or(0, |key| slot_of(key));
        self.keep(slot, Write::Run(Arc::new(run)));
    }

    /// Runs one command on the shard that has `key`. When `call.redo` is set it is kept as a script
    /// is, and must be harmless when done twice.
    pub(crate) async fn command(
        &self,
        key: &[u8],
        command: &Cmd,
        lane: Lane,
        call: Call,
    ) -> Result<Value, StoreError> {
        let (slot, deadline) = (slot_of(key), self.deadline(lane, call));
        let write = || Write::Command(Arc::new(command.clone()));
        let kept = call.redo.then(|| self.keep(slot, write()));
        let request = Request::Command(command);
        let said = self.send(slot, lane, request, deadline).await;
        match (kept, &said) {
            (Some(kept), Err(error)) if !error.is_unknown() => kept.forget(),
            _ => {}
        }
        said
    }

    fn keep(&self, slot: u16, write: Write) -> Kept<'_> {
        self.0.ring.keep(self.0.common.now(), slot, write)
    }

    /// Whether the shard that has `key` is away, so that a call would fail at once.
    pub(crate) fn is_away(&self, key: &[u8]) -> bool {
        let map = self.map();
        map.shard(slot_of(key)).is_none_or(|shard| !shard.passes())
    }

    /// Whether the shard that has `key` is away, or has answered nothing since a call failed more than `longer_than` ago.
    pub(crate) fn is_silent(&self, key: &[u8], longer_than: Duration) -> bool {
        let map = self.map();
        let shard = map.shard(slot_of(key));
        shard.is_none_or(|shard| shard.is_silent(longer_than))
    }

    /// Whether one call may only name keys of one slot: in a Cluster, whether or not it is known
    /// to be one.
    pub(crate) fn names_slots_apart(&self) -> bool {
        self.0.slots_apart.load(Ordering::Relaxed)
    }

    /// Notes that it is so: a server said that it is part of a Cluster.
    pub(crate) fn name_slots_apart(&self) {
        self.0.slots_apart.store(true, Ordering::Relaxed);
    }

    /// How the servers are.
    pub(crate) fn stats(&self) -> StoreStats {
        StoreStats::of(&self.map(), &self.0.ring, self.0.common.now())
    }

    /// An opening of the session under `key` fetched it whole, or found that the copy here is right.
    pub(crate) fn fetched(&self, key: &[u8], whole: bool) {
        if let Some(shard) = self.map().shard(slot_of(key)) {
            shard.fetched(whole);
        }
    }

    async fn send(
        &self,
        slot: u16,
        lane: Lane,
        request: Request<'_>,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let mut way = Way::to(self.shard(slot, deadline).await?);
        for _ in 0..=REDIRECTS_MAX {
            let (shard, asking) = (&way.shard, way.asking);
            let answer = shard
                .exchange(lane, slot, request, asking, deadline)
                .await?;
            if let Some(said) = self.follow(slot, answer, &mut way, deadline).await? {
                return Ok(said);
            }
        }
        Err(StoreError::Busy)
    }

    async fn send_and_wait(
        &self,
        slot: u16,
        lane: Lane,
        run: &Run,
        wait: Wait,
        deadline: Instant,
    ) -> Result<(Value, Replication), StoreError> {
        let mut way = Way::to(self.shard(slot, deadline).await?);
        for _ in 0..=REDIRECTS_MAX {
            let (shard, asking) = (&way.shard, way.asking);
            let spoken = shard.exchange_durable(run, asking, wait, deadline).await?;
            let Some((answer, replication)) = spoken else {
                // Everybody waits, or would wait in vain: replicas are slow or gone.
                return match wait.on_short {
                    OnShort::Fail => {
                        way.shard.counts.busy.one();
                        Err(StoreError::Busy)
                    }
                    OnShort::Degrade => {
                        way.shard.counts.unwaited.one();
                        let said = self.send(slot, lane, Request::Run(run), deadline).await?;
                        Ok((said, Replication::Short(0)))
                    }
                };
            };
            if let Some(said) = self.follow(slot, answer, &mut way, deadline).await? {
                return Ok((said, replication));
            }
        }
        Err(StoreError::Busy)
    }

    /// What was said, or the way to whoever may say it.
    async fn follow(
        &self,
        slot: u16,
        answer: Answer,
        way: &mut Way,
        deadline: Instant,
    ) -> Result<Option<Value>, StoreError> {
        let counts = &way.shard.counts;
        match answer {
            Answer::Said(said) => return Ok(Some(said)),
            Answer::Unfit(said) => return Err(StoreError::Refused(said)),
            Answer::Refused(error) => {
                counts.refused.one();
                return Err(error);
            }
            Answer::UnknownScript => {
                // It was sent as a text just before.
                return Err(StoreError::Odd("a script is not known".to_owned()));
            }
            Answer::TryAgain => {
                counts.tried_again.one();
                if Instant::now() + TRY_AGAIN_INTERVAL >= deadline {
                    return Err(StoreError::Busy);
                }
                sleep(TRY_AGAIN_INTERVAL).await;
            }
            Answer::Moved(to) => {
                counts.moved.one();
                self.note_move(slot, &to);
                *way = Way::to(self.shard_at(&to)?);
            }
            Answer::Ask(to) => {
                counts.asked.one();
                let shard = self.shard_at(&to)?;
                *way = Way {
                    shard,
                    asking: true,
                };
            }
        }
        Ok(None)
    }

    fn note_move(&self, slot: u16, to: &Address) {
        self.0
            .map
            .send_if_modified(|map| match map.with_moved(slot, to) {
                Some(moved) => {
                    *map = Arc::new(moved);
                    true
                }
                None => false,
            });
        self.0.common.look_again.notify_one();
    }

    fn shard_at(&self, address: &Address) -> Result<Arc<Shard>, StoreError> {
        match self.map().at(address) {
            Some(shard) => Ok(Arc::clone(shard)),
            None => {
                // A server that is new to us.
                self.0.common.look_again.notify_one();
                Err(StoreError::Busy)
            }
        }
    }

    /// The shard that has `slot`; waits until anything is known at all.
    async fn shard(&self, slot: u16, deadline: Instant) -> Result<Arc<Shard>, StoreError> {
        let mut map = self.map();
        if map.is_empty() {
            let mut maps = self.0.map.subscribe();
            let known = timeout_at(deadline, maps.wait_for(|map| !map.is_empty()));
            map = match known.await {
                Ok(Ok(known)) => Arc::clone(&known),
                _ => return Err(StoreError::Away),
            };
        }
        map.shard(slot).map(Arc::clone).ok_or(StoreError::Away)
    }

    fn map(&self) -> Arc<Map> {
        Arc::clone(&self.0.map.borrow())
    }

    fn deadline(&self, lane: Lane, call: Call) -> Instant {
        let within = match lane {
            Lane::Fast => call.timeout.min(self.0.common.plan.operation_timeout),
            Lane::Bulk => call.timeout,
        };
        Instant::now() + within
    }
}

/// Where a call goes.
struct Way {
    shard: Arc<Shard>,
    asking: bool,
}

impl Way {
    const fn to(shard: Arc<Shard>) -> Self {
        Self {
            shard,
            asking: false,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// A seed for jitter: gateways that lose a store together are not to come back together.
pub(super) fn seed() -> u64 {
    let mut bytes = [0; 8];
    // Without entropy they come back together; that is all.
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

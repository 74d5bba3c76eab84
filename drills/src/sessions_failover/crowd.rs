//! Gateways that write through desks of their own, and what they know of a loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate_core::session::{
    Durability, Name, Op, Replication, SessionId, SlotTag, Wait, WriteClass,
};
use tidegate_lab::peers::Sentinels;
use tidegate_store::desk::{Backend, Desk, DeskPatched, DeskPlan, Patch};
use tidegate_store::redis::{Address, Arrangement, Credentials, Passing, Recovery, RedisPlan};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// Gateways, each with a desk of its own.
pub(super) const DESKS: usize = 3;
/// Sessions of each, every one written to by its gateway alone.
pub(super) const SESSIONS: usize = 16;
/// Between two writes to one session.
pub(super) const PACE: Duration = Duration::from_millis(50);
/// Writes go on at least so long after calls pass again.
const AFTER: Duration = Duration::from_secs(2);
/// Longest wait until all is as before.
const REWARM_WITHIN: Duration = Duration::from_secs(20);
/// Longest wait for anything to come about.
pub(super) const WITHIN: Duration = Duration::from_secs(60);
/// What a request may spend on a write, besides waiting for replicas.
pub(super) const BUDGET: Duration = Duration::from_millis(100);
/// A promotion takes longer than this; a shorter loss was a busy machine.
const PROMOTE_MIN: Duration = Duration::from_millis(500);

/// The gateways' desks and who writes through them.
pub(super) struct Crowd {
    desks: Vec<Desk>,
    writers: Vec<JoinHandle<Tally>>,
    stopping: Arc<AtomicBool>,
}

/// What became of the writes to one session.
pub(super) struct Tally {
    pub(super) id: SessionId,
    /// Those that the store made, one after the other.
    pub(super) made: Vec<Made>,
    pub(super) accepted_away: u64,
    pub(super) failed: u64,
}

/// A write that the store made.
pub(super) struct Made {
    pub(super) at: Instant,
    /// Whether as many replicas as wanted have it. Otherwise it stands, but nothing was promised.
    pub(super) as_wanted: bool,
}

impl Crowd {
    pub(super) async fn start(servers: &Sentinels, durability: Durability) -> anyhow::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        let mut crowd = Self {
            desks: Vec::new(),
            writers: Vec::new(),
            stopping,
        };
        for number in 0..DESKS {
            let desk = Desk::start(plan(servers, durability))?;
            for place in 0..SESSIONS {
                let id = id_of(number * SESSIONS + place)?;
                create(&desk, id).await?;
                let stopping = Arc::clone(&crowd.stopping);
                let writing = write_on(desk.clone(), id, durability.wait, stopping);
                crowd.writers.push(tokio::spawn(writing));
            }
            crowd.desks.push(desk);
        }
        Ok(crowd)
    }

    /// Waits until every gateway has lost the store and has it again; how that went for each.
    pub(super) async fn wait_until_back(&self) -> anyhow::Result<Vec<Recovery>> {
        let end = Instant::now() + WITHIN;
        // Once told is told: a busy machine may look like another, short loss a moment later.
        let mut back = vec![None; self.desks.len()];
        loop {
            for (back, desk) in back.iter_mut().zip(&self.desks) {
                *back = back.or_else(|| back_since(desk));
            }
            if let Some(back) = back.iter().copied().collect() {
                return Ok(back);
            }
            anyhow::ensure!(Instant::now() < end, "the store does not come back");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(super) fn repaired(&self) -> u64 {
        let redone = self.desks.iter().map(|desk| desk.servers().redo.repaired);
        redone.sum()
    }

    /// Goes on writing until it is known of each gateway how long it took until all was as before;
    /// the longest of all for each part. `back` is what was told when calls passed again.
    pub(super) async fn wait_until_warm(&self, mut back: Vec<Recovery>) -> Option<Recovery> {
        let begun = Instant::now();
        loop {
            for (back, desk) in back.iter_mut().zip(&self.desks) {
                // After another, short loss (a busy machine) the last one is not this one.
                let same = last_recovery(desk).filter(|last| last.promote == back.promote);
                back.rewarm = back.rewarm.or_else(|| same.and_then(|last| last.rewarm));
            }
            let warm = back.iter().all(|back| back.rewarm.is_some());
            if begun.elapsed() >= REWARM_WITHIN || (warm && begun.elapsed() >= AFTER) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        back.into_iter().reduce(|one, other| Recovery {
            detect: one.detect.max(other.detect),
            promote: one.promote.max(other.promote),
            reconnect: one.reconnect.max(other.reconnect),
            rewarm: one.rewarm.max(other.rewarm),
        })
    }

    /// Ends the writing, and waits until the gateways have brought to the store what they accepted
    /// while it was away.
    pub(super) async fn stop(&mut self) -> anyhow::Result<Vec<Tally>> {
        self.stopping.store(true, Ordering::Relaxed);
        let mut tallies = Vec::new();
        for writer in self.writers.drain(..) {
            tallies.push(writer.await?);
        }
        let end = Instant::now() + WITHIN;
        while self.desks.iter().any(|desk| desk.stats().away_sessions > 0) {
            anyhow::ensure!(Instant::now() < end, "the gateways do not heal");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(tallies)
    }
}

/// How the loss of the primary went, once calls pass again. A loss without a promotion was a machine
/// that was busy for a moment.
fn back_since(desk: &Desk) -> Option<Recovery> {
    let servers = desk.servers();
    let shard = servers.shards.first()?;
    let recovery = shard.recovery?;
    let back = shard.passing == Passing::Calls && recovery.promote >= PROMOTE_MIN;
    back.then_some(recovery)
}

fn last_recovery(desk: &Desk) -> Option<Recovery> {
    desk.servers().shards.first()?.recovery
}

/// Writes to one session until it is told to stop.
async fn write_on(
    desk: Desk,
    id: SessionId,
    wait: Option<Wait>,
    stopping: Arc<AtomicBool>,
) -> Tally {
    let budget = BUDGET + wait.map_or(Duration::ZERO, |wait| wait.within);
    let mut tally = Tally {
        id,
        made: Vec::new(),
        accepted_away: 0,
        failed: 0,
    };
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stopping.load(Ordering::Relaxed) {
        pace.tick().await;
        match desk.patch(&id, None, hit(), budget).await {
            Ok(DeskPatched::Applied { standing, .. }) if standing.is_degraded() => {
                tally.accepted_away += 1;
            }
            Ok(DeskPatched::Applied { replication, .. }) => tally.made.push(Made {
                at: Instant::now(),
                as_wanted: !matches!(replication, Replication::Short(_)),
            }),
            Ok(_) | Err(_) => tally.failed += 1,
        }
    }
    tally
}

pub(super) async fn create(desk: &Desk, id: SessionId) -> anyhow::Result<()> {
    let end = Instant::now() + WITHIN;
    // A desk starts without waiting for its store.
    while let Err(error) = desk.create(id, Vec::new(), Vec::new(), BUDGET).await {
        anyhow::ensure!(Instant::now() < end, "no session can be created: {error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

pub(super) fn hit() -> Patch {
    Patch::of(vec![Op::Increment {
        name: Name::new("hits").expect("it is a name"),
        by: 1,
    }])
}

pub(super) fn id_of(number: usize) -> anyhow::Result<SessionId> {
    let hash = format!("{number:022}");
    let hash = hash.as_bytes().try_into()?;
    let tag = SlotTag::from_bits(u32::try_from(number)?.wrapping_mul(7_919));
    SessionId::new(tag, hash).map_err(|_| anyhow::anyhow!("no id"))
}

pub(super) fn plan(servers: &Sentinels, durability: Durability) -> DeskPlan {
    let mut plan = DeskPlan {
        backend: Backend::Redis(RedisPlan::usual(arrangement(servers))),
        ..DeskPlan::default()
    };
    plan.durability[WriteClass::Work.index()] = durability;
    plan
}

pub(super) fn arrangement(servers: &Sentinels) -> Arrangement {
    let address = |address: std::net::SocketAddr| Address {
        host: address.ip().to_string(),
        port: address.port(),
    };
    Arrangement::Sentinel {
        sentinels: servers.addresses().into_iter().map(address).collect(),
        primary: Sentinels::NAME.to_owned(),
        credentials: Credentials::default(),
    }
}

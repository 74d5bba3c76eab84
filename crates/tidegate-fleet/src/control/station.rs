//! One node's part in it: a beacon a second, what holds for the node, and the plane while it leads.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tidegate_core::health::{Headroom, Local, Readings, Scales, Settings, State, VERDICT_LEASE};
use tidegate_core::session::Name;
use tidegate_core::time::Mono;
use tidegate_store::{
    Call, Fence, Fleet, Heard, Held, LEADERSHIP, Node, Posted, Published, StoreError, Taken,
};
use tokio::sync::{oneshot, watch};
use tokio::time::MissedTickBehavior;
use tracing::{info, warn};

use super::beacon::Said;
use super::decision_log::DecisionLog;
use super::follower::{Follower, Standing};
use super::plane::{Judged, Plane, VALID};

/// How often a node speaks and a leader decides.
pub const TICK: Duration = Duration::from_secs(1);
/// Entries of the store that make no sense which are named in the log.
const ODD_NAMED_MAX: usize = 64;

/// What a station is started with.
#[derive(Clone, Debug)]
pub struct StationPlan {
    /// Whose it is.
    pub node: Node,
    /// Whether it may lead.
    pub may_lead: bool,
    /// How nodes are judged.
    pub settings: Settings,
    /// Longest wait for the store, each time it is asked. Four times of it should fit into a tick, and five into one in
    /// which a node begins to lead.
    pub timeout: Duration,
}

/// One node in its fleet. It reads no clock but for its lease: time comes with each turn.
pub struct Station {
    plan: StationPlan,
    fleet: Fleet,
    scales: [Scales; 2],
    follower: Follower,
    plane: Plane,
    lease: Name,
    held: Option<Held>,
    sequence: u64,
    is_new: bool,
    log: Option<DecisionLog>,
    judged: Option<(Mono, Judged)>,
    posts: [u64; 4],
    last: Option<Post>,
    /// What the store said when it last refused a beacon, which is told once.
    refusal: Option<String>,
    failures: u64,
    /// How often an entry was passed over that makes no sense, and those that people know of.
    odd: u64,
    odd_named: BTreeSet<String>,
}

/// What became of a beacon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    /// It is in the store.
    Heard,
    /// Another life of the node, or another node of its name, speaks.
    Superseded,
    /// There are too many nodes.
    Full,
    /// The store did not answer.
    Away,
}

impl Post {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Heard, Self::Superseded, Self::Full, Self::Away];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Heard => "heard",
            Self::Superseded => "superseded",
            Self::Full => "full",
            Self::Away => "away",
        }
    }
}

impl Station {
    /// A station of the fleet, which has said nothing yet.
    pub fn new(plan: StationPlan, fleet: Fleet, log: Option<DecisionLog>) -> Self {
        Self {
            follower: Follower::new(plan.settings, Local::default()),
            plane: Plane::new(plan.node.id.clone(), plan.settings),
            lease: Name::new(LEADERSHIP).expect("it is a name"),
            scales: [Scales::default(), Scales::in_container()],
            plan,
            fleet,
            held: None,
            sequence: 0,
            is_new: true,
            log,
            judged: None,
            posts: [0; 4],
            last: None,
            refusal: None,
            failures: 0,
            odd: 0,
            odd_named: BTreeSet::new(),
        }
    }

    /// One tick: takes in what the node reads, says it, hears what was decided, and decides when it leads.
    ///
    /// Never waits longer than five times the plan's `timeout`; what the node holds itself for does not depend on it.
    pub async fn turn(&mut self, now: Mono, said: Said) -> Standing {
        self.follower.observe(now, &self.headroom(now, &said));
        let before = self.follower.standing(now).drain;
        let post = match self.post(now, said).await {
            Ok(Posted::Heard(heard)) => {
                self.is_new = false;
                if let Some(mine) = &heard.mine {
                    self.follower.hear(now, heard.now, mine);
                }
                if self.plan.may_lead {
                    // When that fails the lease runs out by itself, and everybody goes by their own evidence until
                    // somebody leads.
                    self.failures += u64::from(self.lead(now, &heard).await.is_err());
                }
                Post::Heard
            }
            Ok(Posted::Superseded) => Post::Superseded,
            Ok(Posted::Full) => Post::Full,
            Err(error) => {
                self.note_refusal(&error);
                Post::Away
            }
        };
        self.note(post);
        let standing = self.follower.standing(now);
        if let Some(drain) = before.filter(|_| standing.drain.is_none()) {
            // A store that has lost an order looks from here like one from which it was taken.
            let node = &self.plan.node.id;
            info!(%node, by = ?drain.by, "drained no more: that was taken back, no other node is left, or the store lost the order");
        }
        standing
    }

    /// Counts, and tells people when it is another than before.
    fn note(&mut self, post: Post) {
        self.posts[post as usize] += 1;
        let node = &self.plan.node.id;
        match post {
            before if self.last == Some(before) => {}
            Post::Heard => info!(%node, "the fleet hears of this node"),
            Post::Superseded => warn!(%node, "another process speaks for the node of this name"),
            Post::Full => warn!(%node, "the fleet is full, and does not hear of this node"),
            Post::Away => warn!(%node, "the store is away: this node goes by what it reads itself"),
        }
        self.last = Some(post);
        if post != Post::Away {
            self.refusal = None;
        }
    }

    /// Tells people what a store says that does answer, but not what it should: once for each that it says.
    fn note_refusal(&mut self, error: &StoreError) {
        let (StoreError::Refused(said) | StoreError::Odd(said)) = error else {
            return;
        };
        if self.refusal.as_ref() == Some(said) {
            return;
        }
        let node = &self.plan.node.id;
        warn!(%node, said = ?said, "the store does not take what this node says");
        self.refusal = Some(said.clone());
    }

    /// Counts entries that make no sense, and tells people of each once.
    fn note_odd(&mut self, odd: &[String]) {
        self.odd += odd.len() as u64;
        for name in odd {
            if self.odd_named.len() < ODD_NAMED_MAX && self.odd_named.insert(name.clone()) {
                // Its name may hold anything, and is written with escapes.
                warn!(entry = ?name, "an entry in the store makes no sense and is passed over");
            }
        }
    }

    /// What holds for the node at `now`.
    pub fn standing(&self, now: Mono) -> Standing {
        self.follower.standing(now)
    }

    /// Says that the node leaves, and gives back what it holds.
    pub async fn leave(&mut self, now: Mono) {
        let bye = Said {
            is_leaving: true,
            ..Said::nothing()
        };
        // Whoever does not hear it hears nothing, which comes to the same a little later.
        let _ = self.post(now, bye).await;
        if let Some(held) = self.held.take() {
            let call = self.call();
            let _ = self
                .fleet
                .give_lease_back(&self.lease, held.fence, call)
                .await;
        }
    }

    /// What was decided last, if this node leads.
    pub fn judged(&self, now: Mono) -> Option<&Judged> {
        let (at, judged) = self.judged.as_ref()?;
        (now.since(*at) < VERDICT_LEASE).then_some(judged)
    }

    /// The plane, which has decided something only while this node leads.
    pub const fn plane(&self) -> &Plane {
        &self.plane
    }

    /// How often a beacon ended like this.
    pub const fn posts(&self, post: Post) -> u64 {
        self.posts[post as usize]
    }

    /// How often this node led and the store did not take part.
    pub const fn failures(&self) -> u64 {
        self.failures
    }

    /// How often an entry of the store was passed over that makes no sense, while this node led: each once a second.
    pub const fn odd(&self) -> u64 {
        self.odd
    }

    const fn call(&self) -> Call {
        Call::within(self.plan.timeout)
    }

    fn headroom(&self, now: Mono, said: &Said) -> Headroom {
        let scales = &self.scales[usize::from(said.in_container)];
        Readings::of(scales, &said.signals, now).headroom(now)
    }

    async fn post(&mut self, now: Mono, mut said: Said) -> Result<Posted, StoreError> {
        self.sequence += 1;
        said.sequence = self.sequence;
        said.state = self.follower.own().map_or(State::Unknown, |own| own.state);
        let bytes = said.encode(now);
        let (node, call) = (&self.plan.node, self.call());
        let posting = self
            .fleet
            .post_beacon(node, &bytes, VALID, self.is_new, call);
        posting.await
    }

    /// Leads for this tick, when nobody else does.
    async fn lead(&mut self, now: Mono, heard: &Heard) -> Result<(), StoreError> {
        // Who does not lead asks for the lease only when nobody has it: that costs the store nothing while all is well.
        if self.held.is_none() && heard.leader_left > Duration::ZERO {
            return Ok(());
        }
        let Some(held) = self.take_lease().await? else {
            return Ok(());
        };
        if self.plane.is_new(now) {
            let issue = self.fleet.published(self.call()).await?;
            self.plane.resume(now, issue.as_ref());
        }
        let read = self.fleet.beacons(self.call()).await?;
        self.note_odd(&read.odd);
        let judged = self.plane.tick(now, held.fence, &read);
        if !held.is_valid(Instant::now()) {
            // Paused meanwhile; somebody else may lead by now.
            self.held = None;
            return Ok(());
        }
        let published = self.fleet.publish(&judged.decided, VALID, self.call());
        if let Published::Outranked { by } = published.await? {
            self.outranked(held.fence, by);
            return Ok(());
        }
        if let Some(log) = &self.log {
            let ts = read.now.as_micros() / 1_000;
            for (node, decision) in &judged.decisions {
                let settings = &self.plan.settings;
                log.note(ts, held.fence.0, node.as_str(), decision, settings);
            }
        }
        self.judged = Some((now, judged));
        Ok(())
    }

    async fn take_lease(&mut self) -> Result<Option<Held>, StoreError> {
        let taking = self
            .fleet
            .take_lease(&self.lease, &self.plan.node, VALID, self.call());
        match taking.await? {
            Taken::Held(held) => {
                if self.held.is_none_or(|before| before.fence != held.fence) {
                    info!(node = %self.plan.node.id, fence = held.fence.0, "this node leads");
                }
                self.held = Some(held);
                Ok(Some(held))
            }
            Taken::Others { .. } => {
                self.held = None;
                Ok(None)
            }
        }
    }

    fn outranked(&mut self, ours: Fence, by: Fence) {
        info!(
            ours = ours.0,
            by = by.0,
            "a later leader is known: this node leads no more"
        );
        self.held = None;
    }
}

/// Gives `station` its turns, a [`TICK`] apart, until `stop` is sent or dropped; then it leaves. What the node reads
/// comes from `read`, by the times of `clock`, and what holds goes to `standing`. `look` sees the station after each turn.
pub async fn run(
    mut station: Station,
    clock: impl Fn() -> Mono,
    mut read: impl FnMut(Mono) -> Said,
    mut look: impl FnMut(&Station, Mono),
    standing: watch::Sender<Standing>,
    stop: oneshot::Receiver<()>,
) {
    let mut ticks = tokio::time::interval(TICK);
    // A turn that was late is no reason to say the same twice.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    tokio::pin!(stop);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let now = clock();
                let said = read(now);
                let holds = station.turn(now, said).await;
                standing.send_replace(holds);
                // The turn took its time, and what it has heard counts from its beginning: whoever tells others for how
                // long goes by what is left.
                look(&station, clock());
            }
            _ = &mut stop => break,
        }
    }
    station.leave(clock()).await;
}

#[cfg(test)]
#[path = "station/tests.rs"]
mod tests;

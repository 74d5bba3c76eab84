//! What the leader of a room does: it calls people, takes back what nobody came for, and takes out who is silent.
//!
//! It acts by a lease, and stops by its own clock before that is over. Whatever it does shows its fence, so that one that was
//! paused meanwhile changes nothing. Calls are numbered: one whose answer was lost is made again with its number, and
//! calls nobody again.

use std::time::Duration;

use tidegate_core::room::{
    self, Bounds, Calling, Census, Denied, Epoch, Load, Look, Order, Overshoot, Place, Plan,
    RELEASE_MAX, Release,
};
use tidegate_core::time::{Mono, Wall};
use tidegate_store::rooms::RoomError;
use tidegate_store::{Call, Fence, Held, STORE_GRAIN};

use super::crowd::Crowd;
use super::word::{Figures, Slept};
use super::{CALL, Pulse};
use crate::heard::FleetSpare;
use crate::room::hall::{Hall, claim_ms};

/// How long a lease is, and how often it is renewed.
pub(super) const LEASE: Duration = Duration::from_secs(3);
pub(super) const RENEW_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked for calls that nobody came for, and for who is silent.
const SETTLE_EVERY: Duration = Duration::from_secs(1);
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Rounds of a thousand at once: to call, to take back, to take out. What is left is done at the next tick.
const CALL_ROUNDS: usize = 32;
const ROUNDS: usize = 4;
/// Longer than that nothing is done at a tick, so that the next is not late.
const TICK_WITHIN: Duration = Duration::from_millis(200);

/// A time of leading.
pub(super) struct Term {
    pub(super) fence: Fence,
    /// Until when it lasts unless the lease is renewed.
    until: Mono,
    pub(super) crowd: Crowd,
    /// What was known when it began.
    before: Figures,
    release: Release,
    plan: Plan,
    /// The number of the last call.
    tick: u64,
    /// What may have been done, and has to be made again.
    pending: Option<Calling>,
    counted: Counted,
    /// How many were called since that was counted.
    called: u64,
    settles: Mono,
    sweeps: Mono,
    pub(super) slept: Slept,
    overshoot: Overshoot,
    /// The number of the last word.
    pub(super) words: u64,
}

/// What a store has counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    ready: u64,
    claimed: u64,
    returned: u64,
}

/// What a leader goes by at a tick.
#[derive(Clone, Copy)]
pub(super) struct Scene {
    pub(super) epoch: Epoch,
    pub(super) order: Order,
    pub(super) bounds: Bounds,
    /// Whether people are called in this phase.
    pub(super) releases: bool,
    pub(super) grace: Duration,
    /// Who stands before this has waited for long.
    pub(super) aged: Place,
    pub(super) enough: u64,
    pub(super) fleet: Option<FleetSpare>,
}

/// How a tick ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// As it should.
    Well,
    /// Somebody else leads.
    Deposed,
    /// The room is in another epoch.
    Epoch(Epoch),
    /// The store has not answered, or calls nobody now.
    Early,
}

impl Term {
    /// One that begins with a lease that was `asked` for then, when the store's clock was about `there`, after what is known of the
    /// time before. One that begins again with the same fence goes on with higher numbers.
    pub(super) fn begin(
        held: Held,
        (asked, there): (Mono, Wall),
        bounds: Bounds,
        before: &Figures,
    ) -> Self {
        Self {
            fence: held.fence,
            until: lasts_until(asked),
            crowd: Crowd::default(),
            before: before.clone(),
            release: Release::new(bounds, Load::new(before.load_each)),
            plan: Plan {
                count: 0,
                rate: before.rate,
                brake: before.brake,
            },
            tick: there.as_micros() / 1_000,
            pending: None,
            counted: Counted::default(),
            called: 0,
            settles: asked,
            sweeps: asked,
            slept: Slept::default(),
            overshoot: Overshoot::default(),
            words: there.as_micros() / 1_000,
        }
    }

    /// The lease was renewed, which was `asked` for then.
    pub(super) const fn renew(&mut self, asked: Mono) {
        self.until = lasts_until(asked);
    }

    /// Whether it may still act.
    pub(super) fn lasts(&self, now: Mono) -> bool {
        now < self.until
    }

    /// Takes in what the store has counted. All that was called by then is in it.
    pub(super) fn count(&mut self, now: Mono, census: &Census) {
        let tallies = census.tallies;
        self.counted = Counted {
            ready: census.ready,
            claimed: tallies.claimed,
            returned: tallies.returned,
        };
        self.called = 0;
        let came = tallies.claimed.saturating_add(self.crowd.let_in());
        self.overshoot.see(now, self.plan.rate, came);
    }

    /// What it says for all, with what it has `learnt` of the line.
    pub(super) fn figures(&self, learnt: Figures) -> Figures {
        let (gateways, nodes) = self.crowd.names();
        let knows = !self.crowd.is_empty();
        Figures {
            rate: self.plan.rate,
            brake: self.plan.brake,
            load_each: self.release.load().each(),
            no_shows: self.release.no_shows(),
            active: self.active(),
            gateways: if knows {
                gateways
            } else {
                self.before.gateways
            },
            nodes: if knows {
                nodes
            } else {
                self.before.nodes.clone()
            },
            overshoot: self.overshoot.part(),
            slept: self.slept,
            ..learnt
        }
    }

    /// A tick, four in a second.
    pub(super) async fn tick(&mut self, hall: &Hall, pulse: Pulse, scene: &Scene) -> Ended {
        let ended = self.call(hall, pulse, scene).await;
        if ended != Ended::Well {
            return ended;
        }
        if self.settles <= pulse.now {
            self.settles = pulse.now + SETTLE_EVERY;
            let ended = self.settle(hall, pulse, scene.epoch).await;
            if ended != Ended::Well {
                return ended;
            }
        }
        if self.sweeps <= pulse.now {
            self.sweeps = pulse.now + SWEEP_EVERY;
            return self.sweep(hall, pulse, scene).await;
        }
        Ended::Well
    }

    /// Who is inside; as was known before where nobody has said it since.
    fn active(&self) -> u64 {
        if self.crowd.is_empty() {
            self.before.active
        } else {
            self.crowd.active()
        }
    }

    fn look(&self, scene: &Scene) -> Look {
        let Counted {
            ready,
            claimed,
            returned,
        } = self.counted;
        let ready = ready + self.called;
        let each = self.release.load().each();
        let active = self.active();
        let fleet = scene.fleet;
        let spare = room::spare(
            fleet.and_then(|fleet| fleet.spare_rps),
            fleet.and_then(|fleet| fleet.utilisation),
            &scene.bounds,
            each,
            ready,
        );
        Look {
            spare_rps: spare,
            admitted_rps: if self.crowd.is_empty() {
                active as f64 * each
            } else {
                self.crowd.rps()
            },
            active,
            ready,
            // Who went in without having been called has used up as much.
            claimed: claimed.saturating_add(self.crowd.let_in()),
            returned,
        }
    }

    async fn call(&mut self, hall: &Hall, pulse: Pulse, scene: &Scene) -> Ended {
        // Also while nobody is called: the rate is told, and visitors go in by it where nobody waits.
        self.plan = self.release.tick(pulse.now, &self.look(scene));
        if !scene.releases {
            return Ended::Well;
        }
        let mut left = self.plan.count;
        if let Some(calling) = self.pending {
            match self.make(hall, scene, calling).await {
                // It was not in what the plan goes by.
                Ok(called) => left = left.saturating_sub(called),
                Err(ended) => return ended,
            }
        }
        for _ in 0..CALL_ROUNDS {
            if left == 0 || !self.has_time(pulse) {
                break;
            }
            let count = left.min(RELEASE_MAX);
            let calling = Calling {
                order: scene.order,
                tick: self.tick + 1,
                count,
                claim_ms: claim_ms(&hall.plan),
                grace_ms: millis(scene.grace),
                enough: scene.enough,
            };
            match self.make(hall, scene, calling).await {
                Ok(called) if called < count => break,
                Ok(called) => left -= called,
                Err(ended) => return ended,
            }
        }
        Ended::Well
    }

    /// Makes a call, for the first time or again; how many were called.
    async fn make(&mut self, hall: &Hall, scene: &Scene, calling: Calling) -> Result<u64, Ended> {
        let room = hall.clerk.room();
        let by = (scene.epoch, self.fence);
        match hall.clerk.ask(room.release(by, &calling, CALL)).await {
            Ok(released) => {
                (self.tick, self.pending) = (calling.tick, None);
                self.called += released.count;
                hall.counts.called.add(released.count);
                hall.counts.slept.add(released.slept);
                Ok(released.count)
            }
            Err(RoomError::Store(error)) if error.is_unknown() => {
                (self.tick, self.pending) = (calling.tick, Some(calling));
                hall.counts.unanswered.add(1);
                Err(Ended::Early)
            }
            Err(why) => {
                // What is denied was not done before either. Where there is no answer at all, one that may have been done is
                // still to be made again.
                if matches!(why, RoomError::Denied(_)) {
                    self.pending = None;
                }
                Err(ended(hall, &why))
            }
        }
    }

    async fn settle(&mut self, hall: &Hall, pulse: Pulse, epoch: Epoch) -> Ended {
        let room = hall.clerk.room();
        for _ in 0..ROUNDS {
            let by = (epoch, self.fence);
            match hall.clerk.ask(room.settle(by, RELEASE_MAX, CALL)).await {
                Ok(returned) => {
                    hall.counts.returned.add(returned);
                    if returned < RELEASE_MAX || !self.has_time(pulse) {
                        break;
                    }
                }
                Err(why) => return ended(hall, &why),
            }
        }
        Ended::Well
    }

    async fn sweep(&mut self, hall: &Hall, pulse: Pulse, scene: &Scene) -> Ended {
        let room = hall.clerk.room();
        let by = (scene.epoch, self.fence);
        for _ in 0..ROUNDS {
            let swept = room.sweep(by, scene.grace, scene.aged, RELEASE_MAX, CALL);
            match hall.clerk.ask(swept).await {
                Ok(swept) => {
                    for (sum, slept) in self.slept.tiers.iter_mut().zip(swept.slept) {
                        *sum += slept;
                        hall.counts.slept.add(slept);
                    }
                    self.slept.aged += swept.aged;
                    if !swept.is_more {
                        return Ended::Well;
                    }
                }
                Err(why) => return ended(hall, &why),
            }
            if !self.has_time(pulse) {
                break;
            }
        }
        // There are more, so the next tick goes on.
        self.sweeps = pulse.now;
        Ended::Well
    }

    /// Whether it may act, and there is time left in this tick.
    fn has_time(&self, pulse: Pulse) -> bool {
        let now = pulse.now();
        self.lasts(now) && now.since(pulse.now) < TICK_WITHIN
    }
}

/// Asks for the lease of `hall`'s room to be given back.
pub(super) async fn resign(hall: &Hall, fence: Fence, within: Duration) {
    // If that is not heard it is over by itself soon.
    let _ = hall.clerk.room().resign(fence, Call::within(within)).await;
}

const fn lasts_until(asked: Mono) -> Mono {
    let span = LEASE.saturating_sub(STORE_GRAIN);
    Mono::from_nanos(asked.as_nanos().saturating_add(span.as_nanos() as u64))
}

fn ended(hall: &Hall, why: &RoomError) -> Ended {
    match why {
        RoomError::Denied(Denied::Deposed { .. } | Denied::Stale) => {
            hall.counts.deposed.add(1);
            Ended::Deposed
        }
        RoomError::Denied(Denied::Epoch(epoch)) => Ended::Epoch(*epoch),
        RoomError::Denied(Denied::Settling { .. } | Denied::Phase(_)) => Ended::Early,
        RoomError::Store(_) => {
            hall.counts.unanswered.add(1);
            Ended::Early
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

//! A gateway's own line while the store is away: those who are heard of here, in the order of their places.
//!
//! It is a ledger like the store's, with the places from tickets. When the store is back, those who wait here are put into its
//! line where they came, and it is told of those who went in. Who was called keeps that turn.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};

use tidegate_core::room::{
    Alone, Apart, Beat, Beaten, Calling, Census, Claim, Epoch, Extended, Found, Ledger, Order,
    Place, RELEASE_MAX, Rules, Tier, Whereabouts,
};
use tidegate_core::time::{Mono, Wall};

use super::super::plan::RoomPlan;
use super::claim_ms;

/// Who went in here and of whom the store is not told yet; beyond so many it is not told of the first.
const PASSED_MAX: usize = 100_000;
/// Nobody else moves it.
const FENCE: u64 = 1;
/// Rounds of a thousand in which the silent are taken out at once.
const ROUNDS: usize = 4;

/// A gateway's own line.
pub(crate) struct Own {
    rules: Rules,
    order: Order,
    claim_ms: u64,
    extensions_max: u8,
    /// Of which epoch it is; `None` while there is nobody in it.
    epoch: Option<Epoch>,
    ledger: Ledger,
    apart: Apart,
    alone: Alone,
    tick: u64,
    /// Who waits here and is not in the store's line, as far as is known.
    waiting: BTreeMap<Place, Tier>,
    passed: VecDeque<Place>,
    let_in: u64,
}

impl Own {
    /// Nobody is in it.
    pub(super) fn new(plan: &RoomPlan) -> Self {
        Self {
            rules: Rules {
                // It has nothing to be put together from but those who are heard of.
                settle_ms: 0,
                ..plan.rules
            },
            order: plan.order,
            claim_ms: claim_ms(plan),
            extensions_max: plan.extensions_max,
            epoch: None,
            ledger: Ledger::default(),
            // Drawn, so that others hardly have the same before all know which of them they are.
            apart: Apart::drawn(RandomState::new().build_hasher().finish()),
            alone: Alone::default(),
            tick: 0,
            waiting: BTreeMap::new(),
            passed: VecDeque::new(),
            let_in: 0,
        }
    }

    /// This gateway is number `index` of so many.
    pub(crate) fn reseat(&mut self, index: u32, gateways: u32) {
        self.apart.reseat(index, gateways);
    }

    /// A place that no store gives.
    pub(super) fn join(&mut self, now: Wall, epoch: Epoch) -> Place {
        self.apart.place(epoch, now)
    }

    /// Somebody is heard of. Their ticket says that they have the place, so they may take it.
    pub(super) fn beat(&mut self, now: Wall, epoch: Epoch, beat: &Beat) -> Beaten {
        if !self.is_at(epoch) {
            return Beaten::Ghost;
        }
        let beat = Beat {
            may_enter: true,
            ..*beat
        };
        let heard = (self.ledger).beat(now, &self.rules, epoch, beat.place, &[beat]);
        let heard = heard.ok().and_then(|heard| heard.first().copied());
        let heard = heard.unwrap_or(Beaten::Ghost);
        if let Beaten::Waiting(tier) = heard {
            self.waiting.insert(beat.place, tier);
        }
        heard
    }

    /// Where somebody is.
    pub(super) fn find(&mut self, now: Wall, epoch: Epoch, tier: Tier, place: Place) -> Found {
        const ABSENT: Found = Found {
            whereabouts: Whereabouts::Absent,
            ahead: 0,
        };
        if !self.is_at(epoch) {
            return ABSENT;
        }
        let whose = (tier, place);
        let found = (self.ledger).find(now, &self.rules, epoch, &self.order, whose);
        found.unwrap_or(ABSENT)
    }

    /// Until when somebody may go in who was called here.
    pub(super) fn called(&mut self, now: Wall, epoch: Epoch, place: Place) -> Option<u64> {
        // Nearly always nobody was.
        if self.tick == 0 || self.epoch != Some(epoch) {
            return None;
        }
        match self.find(now, epoch, Tier::Anonymous, place).whereabouts {
            Whereabouts::Ready(until_ms) if now.as_micros() / 1_000 < until_ms => Some(until_ms),
            _ => None,
        }
    }

    /// Lets in somebody who was called here.
    pub(super) fn claim(&mut self, now: Wall, epoch: Epoch, place: Place) -> Claim {
        if !self.is_at(epoch) {
            return Claim::Early;
        }
        let claim = self.ledger.claim(now, &self.rules, epoch, place);
        let claim = claim.unwrap_or(Claim::Early);
        if let Claim::Passed { is_first: true, .. } = claim {
            self.waiting.remove(&place);
            self.let_in += 1;
            if self.passed.len() == PASSED_MAX {
                self.passed.pop_front();
            }
            self.passed.push_back(place);
        }
        claim
    }

    /// Takes somebody out; whether they were there.
    pub(super) fn leave(&mut self, now: Wall, epoch: Epoch, place: Place) -> bool {
        if self.epoch != Some(epoch) {
            return false;
        }
        self.waiting.remove(&place);
        let left = self.ledger.leave(now, &self.rules, epoch, place);
        left.unwrap_or(false)
    }

    /// Gives somebody who was called here more time.
    pub(super) fn extend(&mut self, now: Wall, epoch: Epoch, place: Place) -> Option<Extended> {
        if !self.is_at(epoch) {
            return None;
        }
        let (claim_ms, most) = (self.claim_ms, self.extensions_max);
        let extended = (self.ledger).extend(now, &self.rules, epoch, place, claim_ms, most);
        extended.ok().flatten()
    }

    /// Calls the next ones, at `rate` per second, when `others` have gone in without waiting since the last time; how many.
    pub(crate) fn call(
        &mut self,
        (now, there): (Mono, Wall),
        epoch: Epoch,
        rate: f64,
        others: u64,
        grace_ms: u64,
    ) -> u64 {
        let count = self.alone.tick(now, rate, others).min(RELEASE_MAX);
        if count == 0 || !self.is_at(epoch) {
            return 0;
        }
        self.tick += 1;
        let calling = Calling {
            order: self.order,
            tick: self.tick,
            count,
            claim_ms: self.claim_ms,
            grace_ms,
            enough: 0,
        };
        let by = (epoch, FENCE);
        let called = self.ledger.release(there, &self.rules, by, &calling);
        called.map_or(0, |called| called.count)
    }

    /// Takes back calls that nobody came for, and takes out who is silent.
    pub(crate) fn tidy(&mut self, now: Wall, epoch: Epoch, grace_ms: u64) {
        if self.epoch != Some(epoch) {
            return;
        }
        let (rules, by) = (&self.rules, (epoch, FENCE));
        for _ in 0..ROUNDS {
            let settled = self.ledger.settle(now, rules, by, RELEASE_MAX);
            let swept = (self.ledger).sweep(now, rules, by, grace_ms, Place(0), RELEASE_MAX);
            let is_more = swept.is_ok_and(|swept| swept.is_more);
            if !is_more && settled.unwrap_or(0) < RELEASE_MAX {
                break;
            }
        }
    }

    /// How it is.
    pub(crate) fn census(&mut self, now: Wall, epoch: Epoch, aged: Place) -> Census {
        if !self.is_at(epoch) {
            return Census::default();
        }
        let census = self.ledger.census(now, &self.rules, epoch, aged);
        census.unwrap_or_default()
    }

    /// How many have gone in here.
    pub(crate) const fn let_in(&self) -> u64 {
        self.let_in
    }

    /// Takes out up to `most` of those who wait here, to be put into the line of the store.
    pub(crate) fn take_waiting(&mut self, now: Wall, most: usize) -> Vec<Beat> {
        let Some(epoch) = self.epoch else {
            return Vec::new();
        };
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some((place, tier)) = self.waiting.pop_first() else {
                break;
            };
            // Whoever was silent for too long has to say themselves that they are there.
            let there = self.find(now, epoch, tier, place).whereabouts;
            if matches!(there, Whereabouts::Waiting(_) | Whereabouts::Ready(_)) {
                taken.push(Beat {
                    place,
                    tier,
                    may_enter: true,
                });
            }
        }
        taken
    }

    /// These could not be put there.
    pub(crate) fn keep_waiting(&mut self, beats: &[Beat]) {
        let kept = beats.iter().map(|beat| (beat.place, beat.tier));
        self.waiting.extend(kept);
    }

    /// Takes the next one who went in here, so that the store may be told.
    pub(crate) fn take_passed(&mut self) -> Option<Place> {
        self.passed.pop_front()
    }

    /// Whether the store knows of everybody who waits here or went in.
    pub(crate) fn is_put_back(&self) -> bool {
        self.waiting.is_empty() && self.passed.is_empty()
    }

    /// Nobody is in it any more.
    pub(crate) fn clear(&mut self) {
        self.epoch = None;
        self.ledger = Ledger::default();
        self.alone = Alone::default();
        self.tick = 0;
        self.waiting.clear();
        self.passed.clear();
    }

    /// Whether it is of `epoch`; from now on if that is later than what it was of.
    fn is_at(&mut self, epoch: Epoch) -> bool {
        if self.epoch < Some(epoch) {
            self.clear();
            self.epoch = Some(epoch);
        }
        self.epoch == Some(epoch)
    }
}

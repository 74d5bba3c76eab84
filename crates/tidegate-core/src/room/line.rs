//! The line of one epoch.

use std::collections::BTreeMap;

use super::calls::{Calls, Extended};
use super::order::Order;
use super::place::millis;
use super::ranked::Ranked;
use super::scored::Scored;
use super::{Epoch, Place, Stage, Tier};
use crate::time::Wall;

/// Heads of each tier that a release looks at beyond those it may take, because some may be silent.
pub const SLACK: usize = 200;
/// Most marks of each tier in a census.
pub const MARKS_MAX: u64 = 85;
/// A mark stands for no fewer than so many.
pub const MARK_STEP_MIN: u64 = 50;

/// What holds for every place of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Places that may wait at the same time.
    pub waiting_max: u64,
    /// So often somebody is called and does not come, and then no more; 1 to 9.
    pub misses_max: u8,
    /// Milliseconds that a line is not moved after its store has forgotten it, so that those who stand in it can say so.
    pub settle_ms: u64,
    /// Milliseconds for which a ticket is good: what is remembered of a place is not remembered for longer.
    pub ticket_ms: u64,
}

/// Somebody is heard of. What is said of them comes from their ticket, which only we can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Their place.
    pub place: Place,
    /// Their tier.
    pub tier: Tier,
    /// Whether they may take the place if they are not in the line: they were in it before, or have just joined.
    pub may_enter: bool,
}

/// What becomes of somebody who is heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beaten {
    /// They wait, in this tier.
    Waiting(Tier),
    /// They may go in.
    Ready {
        /// Until then, in milliseconds since 1970.
        until_ms: u64,
    },
    /// They went in.
    Passed {
        /// When, in milliseconds since 1970.
        at_ms: u64,
    },
    /// They never came back with the place in time, and have to take another.
    Ghost,
    /// They were called too often.
    Spent,
    /// So many wait that nobody else can.
    Full,
}

/// What becomes of somebody who wants to go in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// They go in, at that time in milliseconds since 1970. Whoever asks again is told the same.
    Passed {
        /// When they went in first.
        at_ms: u64,
        /// Whether that is now.
        is_first: bool,
    },
    /// They were ready, and came too late.
    Late,
    /// Their turn has not come.
    Early,
}

/// What a sweep took out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many fell asleep, by tier.
    pub slept: [u64; Tier::COUNT],
    /// How many of them stood before the place that was asked about.
    pub aged: u64,
    /// Whether there may be more.
    pub is_more: bool,
}

/// What was counted since the epoch began, or since a store forgot it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Places given.
    pub joined: u64,
    /// Places taken in the line, by whoever came back with one or woke up.
    pub entered: u64,
    /// Of those, fell asleep.
    pub slept: u64,
    /// Called.
    pub released: u64,
    /// Of those, went in.
    pub claimed: u64,
    /// Of those, did not come in time.
    pub returned: u64,
}

/// How a line is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// How many wait, by tier.
    pub waiting: [u64; Tier::COUNT],
    /// How many of all of them stand before the place that was asked about.
    pub aged: u64,
    /// How many were called and have not come yet.
    pub ready: u64,
    /// What was counted.
    pub tallies: Tallies,
    /// For how long, in milliseconds, the line is not moved because its store had forgotten it.
    pub settles_ms: u64,
    /// By tier, the place of every so many, the first one first.
    pub marks: [Vec<Place>; Tier::COUNT],
}

/// Where somebody is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// Waits.
    Waiting(Tier),
    /// May go in until then, in milliseconds since 1970.
    Ready(u64),
    /// Went in.
    Passed,
    /// Neither: asleep, or never there.
    Absent,
}

/// Where somebody is, and who is before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where.
    pub whereabouts: Whereabouts,
    /// How many wait before them.
    pub ahead: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) epoch: Epoch,
    /// The last place that was given.
    last: Place,
    /// Nobody is called before this.
    settles_ms: u64,
    waiting: [Ranked; Tier::COUNT],
    /// When somebody who waits was heard of last.
    alive: Scored,
    /// Until when somebody may go in.
    ready: Calls,
    /// When somebody went in.
    passed: Scored,
    misses: BTreeMap<Place, u8>,
    tallies: Tallies,
}

/// Of one release.
pub(super) struct Called {
    pub(super) released: u64,
    pub(super) slept: u64,
}

impl Line {
    /// One that nobody stands in.
    pub(super) fn new(epoch: Epoch, settles_ms: u64) -> Self {
        Self {
            epoch,
            last: Place(0),
            settles_ms,
            waiting: Default::default(),
            alive: Scored::default(),
            ready: Calls::default(),
            passed: Scored::default(),
            misses: BTreeMap::new(),
            tallies: Tallies::default(),
        }
    }

    pub(super) fn join(&mut self, now: Wall, count: u64) -> Place {
        let first = self.epoch.place(now).max(self.last.plus(1));
        self.last = first.plus(count.saturating_sub(1));
        self.tallies.joined += count;
        first
    }

    /// Whoever joins from now on stands behind `last`.
    pub(super) fn not_before(&mut self, last: Place) {
        self.last = self.last.max(last);
    }

    pub(super) fn beat(&mut self, now: Wall, rules: &Rules, beat: &Beat) -> Beaten {
        let Beat { place, tier, .. } = *beat;
        if let Some(at_ms) = self.passed.score(place) {
            return Beaten::Passed { at_ms };
        }
        if let Some(until_ms) = self.ready.until_ms(place) {
            if millis(now) < until_ms {
                return Beaten::Ready { until_ms };
            }
            self.miss(place, rules);
        }
        let there = self.tier(place);
        if there.is_none() {
            if let Some(refused) = self.keeps_out(rules, beat) {
                return refused;
            }
            self.waiting[tier.index()].insert(place);
            self.tallies.entered += 1;
        } else {
            // A ticket of a better tier than what is known: it was promoted, and that is not here yet.
            self.promote(place, tier);
        }
        self.alive.put(place, millis(now));
        Beaten::Waiting(there.map_or(tier, |there| there.min(tier)))
    }

    fn keeps_out(&self, rules: &Rules, beat: &Beat) -> Option<Beaten> {
        let misses = self.misses.get(&beat.place).copied().unwrap_or_default();
        if misses >= rules.misses_max {
            Some(Beaten::Spent)
        } else if !beat.may_enter {
            Some(Beaten::Ghost)
        } else if self.count() >= rules.waiting_max {
            Some(Beaten::Full)
        } else {
            None
        }
    }

    /// Moves `place` to `tier`, if it waits further back. It keeps its arrival.
    pub(super) fn promote(&mut self, place: Place, tier: Tier) -> bool {
        match self.tier(place) {
            Some(there) if tier < there => {
                self.waiting[there.index()].remove(place);
                self.waiting[tier.index()].insert(place)
            }
            _ => false,
        }
    }

    pub(super) fn sweep(&mut self, silent_since_ms: u64, aged: Place, most: usize) -> Swept {
        let silent = self.alive.upto(silent_since_ms, most);
        let mut swept = Swept {
            is_more: silent.len() == most,
            ..Swept::default()
        };
        for place in silent {
            let Some(tier) = self.sleep(place) else {
                continue;
            };
            swept.slept[tier.index()] += 1;
            swept.aged += u64::from(place < aged);
        }
        swept
    }

    /// For how long, in milliseconds, nobody is called.
    pub(super) fn settles(&self, now: Wall) -> u64 {
        self.settles_ms.saturating_sub(millis(now))
    }

    /// How many of those who wait were heard of at all; they are the living.
    pub(super) fn alive(&self) -> u64 {
        self.alive.len() as u64
    }

    /// Calls `count` of those who were heard of after `silent_since_ms`, who may go in until `until_ms`.
    pub(super) fn release(
        &mut self,
        order: &Order,
        count: u64,
        silent_since_ms: u64,
        until_ms: u64,
    ) -> Called {
        let look = count as usize + SLACK;
        let heads = [0, 1, 2].map(|index: usize| self.waiting[index].first(look));
        let mut at = [0; Tier::COUNT];
        let mut called = Called {
            released: 0,
            slept: 0,
        };
        while called.released < count {
            let Some(tier) = order.next(&heads, &at, look) else {
                break;
            };
            let place = heads[tier.index()][at[tier.index()]];
            at[tier.index()] += 1;
            // Who is silent is not called: the call would be for nobody.
            let heard = self.alive.score(place);
            if heard.is_none_or(|heard| heard <= silent_since_ms) {
                self.sleep(place);
                called.slept += 1;
                continue;
            }
            self.waiting[tier.index()].remove(place);
            self.alive.remove(place);
            self.ready.put(place, until_ms);
            called.released += 1;
        }
        self.tallies.released += called.released;
        called
    }

    pub(super) fn claim(&mut self, now: Wall, rules: &Rules, place: Place) -> Claim {
        if let Some(at_ms) = self.passed.score(place) {
            return Claim::Passed {
                at_ms,
                is_first: false,
            };
        }
        let at_ms = millis(now);
        match self.ready.until_ms(place) {
            Some(until_ms) if at_ms < until_ms => {
                self.ready.remove(place);
                self.passed.put(place, at_ms);
                self.tallies.claimed += 1;
                Claim::Passed {
                    at_ms,
                    is_first: true,
                }
            }
            Some(_) => {
                self.miss(place, rules);
                Claim::Late
            }
            None => Claim::Early,
        }
    }

    /// Gives somebody who may go in `claim_ms` from now on, `most` times at most.
    pub(super) fn extend(
        &mut self,
        now: Wall,
        place: Place,
        claim_ms: u64,
        most: u8,
    ) -> Option<Extended> {
        self.ready.extend(now, place, claim_ms, most)
    }

    /// Takes `place` out at once, as if its owner had been silent, or had not come; whether it was there.
    pub(super) fn leave(&mut self, rules: &Rules, place: Place) -> bool {
        if self.ready.until_ms(place).is_some() {
            self.miss(place, rules);
            return true;
        }
        self.sleep(place).is_some()
    }

    /// Takes back calls that nobody came for; how many. Forgets what no ticket can ask for any more.
    pub(super) fn settle(&mut self, now: Wall, rules: &Rules, most: usize) -> u64 {
        let overdue = self.ready.overdue(now, most);
        for place in &overdue {
            self.miss(*place, rules);
        }
        let horizon_ms = millis(now).saturating_sub(rules.ticket_ms);
        for place in self.passed.upto(horizon_ms, most) {
            self.passed.remove(place);
        }
        let horizon = self.epoch.place_ms(horizon_ms);
        let old = self.misses.range(..horizon).take(most);
        let old: Vec<_> = old.map(|(place, _)| *place).collect();
        for place in old {
            self.misses.remove(&place);
        }
        overdue.len() as u64
    }

    pub(super) fn census(&self, now: Wall, aged: Place) -> Census {
        let marks = |tier: &Ranked| tier.marks(mark_step(tier.len() as u64) as usize);
        let older = self.waiting.iter().map(|tier| tier.below(aged));
        Census {
            waiting: [0, 1, 2].map(|index: usize| self.waiting[index].len() as u64),
            aged: older.sum(),
            ready: self.ready.len() as u64,
            tallies: self.tallies,
            settles_ms: self.settles(now),
            marks: [0, 1, 2].map(|index: usize| marks(&self.waiting[index])),
        }
    }

    pub(super) fn find(&self, order: &Order, tier: Tier, place: Place) -> Found {
        let absent = |whereabouts| Found {
            whereabouts,
            ahead: 0,
        };
        if self.passed.score(place).is_some() {
            return absent(Whereabouts::Passed);
        }
        if let Some(until_ms) = self.ready.until_ms(place) {
            return absent(Whereabouts::Ready(until_ms));
        }
        let there = self.tier(place);
        let bounds = order.bounds(there.unwrap_or(tier), place);
        let before = bounds.iter().zip(&self.waiting);
        let ahead = before.map(|(bound, tier)| tier.below(*bound));
        Found {
            whereabouts: there.map_or(Whereabouts::Absent, Whereabouts::Waiting),
            ahead: ahead.sum(),
        }
    }

    /// Whether nothing is remembered of anybody.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let remembered = self.alive.len() + self.ready.len() + self.passed.len();
        self.count() == 0 && remembered == 0 && self.misses.is_empty()
    }

    fn tier(&self, place: Place) -> Option<Tier> {
        let mut all = Tier::ALL.into_iter();
        all.find(|tier| self.waiting[tier.index()].contains(place))
    }

    fn count(&self) -> u64 {
        self.waiting.iter().map(|tier| tier.len() as u64).sum()
    }

    fn sleep(&mut self, place: Place) -> Option<Tier> {
        self.alive.remove(place);
        let tier = self.tier(place)?;
        self.waiting[tier.index()].remove(place);
        self.tallies.slept += 1;
        Some(tier)
    }

    fn miss(&mut self, place: Place, rules: &Rules) {
        self.ready.remove(place);
        let misses = self.misses.entry(place).or_default();
        *misses = rules.misses_max.min(misses.saturating_add(1));
        self.tallies.returned += 1;
    }
}

/// Every so many of `waiting` are marked.
pub(super) fn mark_step(waiting: u64) -> u64 {
    waiting.div_ceil(MARKS_MAX).max(MARK_STEP_MIN)
}

impl Beaten {
    /// Where that leaves them.
    pub const fn stage(self) -> Stage {
        match self {
            Self::Waiting(_) => Stage::Waiting,
            Self::Ready { .. } => Stage::Ready,
            Self::Passed { .. } => Stage::Passed,
            Self::Ghost | Self::Spent => Stage::Ghost,
            Self::Full => Stage::Provisional,
        }
    }
}

//! The node's side of permits.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Tick;
use super::super::share::Life;
use super::terms::ByClass;
use super::{Answer, Asking, HELD_MAX, PermitId, Renewal};
use crate::facts::Class;

/// A lease is over for its holder this part of it early, so that clocks need not run alike.
const DRIFT_PARTS: u64 = 32;
/// Renewals begin after this part of a lease, and are tried again after this part of it.
const RENEW_PARTS: u64 = 3;
const RETRY_PARTS: u64 = 12;

/// What a node holds.
#[derive(Clone, Debug)]
pub struct Holder {
    life: Life,
    lease_us: u64,
    after: Afterwards,
    number: u64,
    /// By class, what it has of permits that it holds, valid or not.
    used: ByClass,
    holds: BTreeMap<u64, Hold>,
    /// When something is to be done about which.
    dues: BTreeSet<(Tick, u64)>,
}

/// What becomes of a permit that the store does not know of any more, or cannot be told that it is still held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// It is held no more.
    Lost,
    /// It is held all the same, and the store is told of it as soon as it can be.
    Held,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    weight: u64,
    class: Class,
    /// Asked for at this time, or renewed as of then.
    as_of: Tick,
    /// Not to be renewed after this.
    ends: Tick,
    /// When the permit is held.
    fence: Option<u64>,
    /// Whether the store has said so, and has no reason to have forgotten it.
    is_known: bool,
    due: Tick,
}

/// What became of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is held. Release it, or it is renewed until it may be held no longer.
    Held {
        /// What to show for it.
        fence: u64,
    },
    /// It is not held: there is no room, or never.
    Refused(Answer),
    /// It was lost: its lease has passed, or the store does not know of it.
    Lost,
    /// Nobody asks any more.
    Over,
}

impl Holder {
    /// A node that holds nothing, and will hold what it is given for `lease_us` from each renewal, and `after` that.
    pub const fn new(life: Life, lease_us: u64, after: Afterwards) -> Self {
        Self {
            life,
            lease_us,
            after,
            number: 0,
            used: [0; Class::COUNT],
            holds: BTreeMap::new(),
            dues: BTreeSet::new(),
        }
    }

    /// Asks for a permit for `weight` calls of a class, to be held for no longer than `hold_us`, plus what is left of its
    /// lease then. `None` if the node holds [`HELD_MAX`] already.
    pub fn acquire(
        &mut self,
        now: Tick,
        weight: u64,
        class: Class,
        hold_us: u64,
    ) -> Option<Asking> {
        let hold = Hold {
            weight,
            class,
            as_of: now,
            ends: now.plus(hold_us),
            fence: None,
            is_known: false,
            due: self.over(now),
        };
        let id = self.add(hold)?;
        Some(Asking { id, weight, class })
    }

    /// Takes a permit without the store, which is to be told of it as soon as it can be. `fence` is what to show for it.
    /// `None` if the node holds [`HELD_MAX`] already, or may hold nothing that the store does not know of.
    pub fn take_anyway(
        &mut self,
        now: Tick,
        weight: u64,
        class: Class,
        hold_us: u64,
        fence: u64,
    ) -> Option<PermitId> {
        if self.after == Afterwards::Lost {
            return None;
        }
        let id = self.add(Hold {
            weight,
            class,
            as_of: now,
            ends: now.plus(hold_us),
            fence: Some(fence),
            is_known: false,
            due: self.again(now),
        })?;
        self.used[class.index()] += weight;
        Some(id)
    }

    /// The store's answer to what was sent at `asked`.
    pub fn answered(&mut self, asked: Tick, now: Tick, id: PermitId, answer: Answer) -> Outcome {
        let Some(hold) = self.find(id).copied() else {
            return Outcome::Over;
        };
        // Answers may come in another order than they were asked for.
        let as_of = match hold.fence {
            Some(_) => asked.max(hold.as_of),
            None => asked,
        };
        // Once its lease is over it is not taken up again: a store that has forgotten since may have given it to somebody.
        let has_passed = hold.fence.is_some() && !self.is_valid(now, &hold);
        match (answer, hold.fence) {
            (Answer::Held { fence }, _) if now < self.over(as_of) && !has_passed => {
                if hold.fence.is_none() {
                    self.used[hold.class.index()] += hold.weight;
                }
                let fence = hold.fence.unwrap_or(fence);
                let renew = as_of.plus(self.lease_us / RENEW_PARTS);
                let due = if renew < hold.ends {
                    renew.max(now)
                } else {
                    self.over(as_of)
                };
                let hold = Hold {
                    as_of,
                    fence: Some(fence),
                    is_known: true,
                    due,
                    ..hold
                };
                self.plan(id.number, hold);
                Outcome::Held { fence }
            }
            (Answer::Full { .. } | Answer::Never | Answer::Settling { .. }, None) => {
                self.forget(id.number);
                Outcome::Refused(answer)
            }
            (_, Some(fence)) if self.after == Afterwards::Held => {
                let due = self.again(now);
                let hold = Hold {
                    is_known: false,
                    due,
                    ..hold
                };
                self.plan(id.number, hold);
                Outcome::Held { fence }
            }
            _ => {
                self.forget(id.number);
                Outcome::Lost
            }
        }
    }

    /// The permit is not needed any more, or its answer did not come in time. Whether to tell the store: also of one
    /// that it may not have given.
    pub fn release(&mut self, id: PermitId) -> bool {
        id.life == self.life && self.forget(id.number)
    }

    /// Whether the permit may still be acted on.
    pub fn holds(&self, now: Tick, id: PermitId) -> bool {
        self.find(id).is_some_and(|hold| self.is_valid(now, hold))
    }

    /// What it holds, all together.
    pub fn weight(&self, now: Tick) -> u64 {
        let valid = self.holds.values().filter(|hold| self.is_valid(now, hold));
        valid.map(|hold| hold.weight).fold(0, u64::saturating_add)
    }

    /// What it has, by class: also what it may not act on any more, until the next [`Self::tick`].
    pub const fn used(&self) -> &ByClass {
        &self.used
    }

    /// What it holds though the store does not know of it.
    pub fn unknown(&self) -> u64 {
        let unknown = self
            .holds
            .values()
            .filter(|hold| hold.fence.is_some() && !hold.is_known);
        unknown.map(|hold| hold.weight).fold(0, u64::saturating_add)
    }

    /// Renews what is due, `most` at a time, and says what was lost. To be called at [`Self::due_at`].
    pub fn tick(
        &mut self,
        now: Tick,
        most: usize,
        renew: &mut Vec<Renewal>,
        lost: &mut Vec<PermitId>,
    ) {
        while let Some(&(due, number)) = self.dues.first()
            && due <= now
            && renew.len() < most
        {
            let Some(hold) = self.holds.get(&number).copied() else {
                self.dues.pop_first();
                continue;
            };
            let over = self.over(hold.as_of);
            let is_late = over <= now;
            let Some(fence) = hold
                .fence
                .filter(|_| !is_late || self.after == Afterwards::Held)
            else {
                self.forget(number);
                lost.push(self.id(number));
                continue;
            };
            if now >= hold.ends {
                // Once more when its lease is over, and then it is forgotten.
                if is_late {
                    self.forget(number);
                    lost.push(self.id(number));
                } else {
                    self.plan(number, Hold { due: over, ..hold });
                }
                continue;
            }
            let is_known = hold.is_known && !is_late;
            renew.push(Renewal {
                id: self.id(number),
                weight: hold.weight,
                class: hold.class,
                fence,
                is_known,
            });
            let mut due = self.again(now);
            if !is_late {
                due = due.min(over);
            }
            let hold = Hold {
                is_known,
                due,
                ..hold
            };
            self.plan(number, hold);
        }
    }

    /// When there is something to do.
    pub fn due_at(&self) -> Option<Tick> {
        self.dues.first().map(|&(due, _)| due)
    }

    /// What is known of a permit of this life. An answer may have been meant for the life before, which
    /// counted from one, too.
    fn find(&self, id: PermitId) -> Option<&Hold> {
        let hold = self.holds.get(&id.number);
        hold.filter(|_| id.life == self.life)
    }

    const fn id(&self, number: u64) -> PermitId {
        PermitId {
            life: self.life,
            number,
        }
    }

    /// When a lease that was asked for at `asked` is over for this node.
    const fn over(&self, asked: Tick) -> Tick {
        asked.plus(self.lease_us - self.lease_us / DRIFT_PARTS)
    }

    /// When to try once more what was not answered.
    fn again(&self, now: Tick) -> Tick {
        now.plus((self.lease_us / RETRY_PARTS).max(1))
    }

    fn is_valid(&self, now: Tick, hold: &Hold) -> bool {
        let in_time = now < self.over(hold.as_of) || self.after == Afterwards::Held;
        hold.fence.is_some() && in_time
    }

    fn add(&mut self, hold: Hold) -> Option<PermitId> {
        if self.holds.len() >= HELD_MAX {
            return None;
        }
        self.number += 1;
        self.dues.insert((hold.due, self.number));
        self.holds.insert(self.number, hold);
        Some(self.id(self.number))
    }

    fn plan(&mut self, number: u64, hold: Hold) {
        if let Some(before) = self.holds.insert(number, hold) {
            self.dues.remove(&(before.due, number));
        }
        self.dues.insert((hold.due, number));
    }

    fn forget(&mut self, number: u64) -> bool {
        let hold = self.holds.remove(&number);
        if let Some(hold) = hold {
            self.dues.remove(&(hold.due, number));
            if hold.fence.is_some() {
                self.used[hold.class.index()] -= hold.weight;
            }
        }
        hold.is_some()
    }
}

//! The node's side of permits.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Tick;
use super::super::share::Life;
use super::{Answer, HELD_MAX, Message, PermitId};

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
    number: u64,
    holds: BTreeMap<u64, Hold>,
    /// When something is to be done about which.
    dues: BTreeSet<(Tick, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    weight: u64,
    /// Asked for at this time, or renewed as of then.
    as_of: Tick,
    /// Not to be renewed after this.
    ends: Tick,
    /// When the permit is held.
    fence: Option<u64>,
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
    /// A node that holds nothing, and will hold what it is given for `lease_us` from each renewal.
    pub const fn new(life: Life, lease_us: u64) -> Self {
        Self {
            life,
            lease_us,
            number: 0,
            holds: BTreeMap::new(),
            dues: BTreeSet::new(),
        }
    }

    /// Asks for a permit for `weight`, to be held for no longer than `hold_us`, plus what is left of its lease then.
    /// `None` if the node holds [`HELD_MAX`] already.
    pub fn acquire(&mut self, now: Tick, weight: u64, hold_us: u64) -> Option<Message> {
        if self.holds.len() >= HELD_MAX {
            return None;
        }
        self.number += 1;
        let hold = Hold {
            weight,
            as_of: now,
            ends: now.plus(hold_us),
            fence: None,
            due: self.over(now),
        };
        self.dues.insert((hold.due, self.number));
        self.holds.insert(self.number, hold);
        Some(Message::Acquire {
            id: self.id(self.number),
            weight,
            lease_us: self.lease_us,
        })
    }

    /// The store's answer to a message that was sent at `asked`.
    pub fn answered(&mut self, asked: Tick, now: Tick, id: PermitId, answer: Answer) -> Outcome {
        let Some(hold) = self.find(id).copied() else {
            return Outcome::Over;
        };
        // Answers may come in another order than they were asked for.
        let as_of = match hold.fence {
            Some(_) => asked.max(hold.as_of),
            None => asked,
        };
        match answer {
            Answer::Held { fence } if now < self.over(as_of) => {
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
                    due,
                    ..hold
                };
                self.plan(id.number, hold);
                Outcome::Held { fence }
            }
            Answer::Full { .. } | Answer::Never if hold.fence.is_none() => {
                self.forget(id.number);
                Outcome::Refused(answer)
            }
            _ => {
                self.forget(id.number);
                Outcome::Lost
            }
        }
    }

    /// The permit is not needed any more, or its answer did not come in time. What to tell the store: also of one
    /// that it may not have given.
    pub fn release(&mut self, id: PermitId) -> Option<Message> {
        (id.life == self.life && self.forget(id.number)).then_some(Message::Release { id })
    }

    /// Whether the permit may still be acted on.
    pub fn holds(&self, now: Tick, id: PermitId) -> bool {
        let hold = self.find(id);
        hold.is_some_and(|hold| hold.fence.is_some() && now < self.over(hold.as_of))
    }

    /// What it holds, all together.
    pub fn weight(&self, now: Tick) -> u64 {
        let valid = |hold: &&Hold| hold.fence.is_some() && now < self.over(hold.as_of);
        let held = self.holds.values().filter(valid);
        held.map(|hold| hold.weight).fold(0, u64::saturating_add)
    }

    /// Renews what is due, and says what was lost. To be called at [`Self::due_at`].
    pub fn tick(&mut self, now: Tick, renew: &mut Vec<Message>, lost: &mut Vec<PermitId>) {
        while let Some(&(due, number)) = self.dues.first()
            && due <= now
        {
            let Some(hold) = self.holds.get(&number).copied() else {
                self.dues.pop_first();
                continue;
            };
            let (id, over) = (self.id(number), self.over(hold.as_of));
            let Some(fence) = hold.fence.filter(|_| now < over) else {
                self.forget(number);
                lost.push(id);
                continue;
            };
            let again = now.plus((self.lease_us / RETRY_PARTS).max(1)).min(over);
            if now < hold.ends {
                renew.push(Message::Renew {
                    id,
                    weight: hold.weight,
                    fence,
                    lease_us: self.lease_us,
                });
                self.plan(number, Hold { due: again, ..hold });
            } else {
                self.plan(number, Hold { due: over, ..hold });
            }
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
        }
        hold.is_some()
    }
}

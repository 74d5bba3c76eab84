//! The store's side of permits.

use std::collections::BTreeMap;

use super::super::Tick;
use super::super::share::Life;
use super::{Answer, HELD_MAX, Message, PermitId};

/// Who is in.
#[derive(Clone, Debug)]
pub struct Permits {
    all: u64,
    used: u64,
    fence: u64,
    held: BTreeMap<PermitId, Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    weight: u64,
    fence: u64,
    until: Tick,
}

impl Permits {
    /// So many permits, and nobody holds one.
    pub const fn new(all: u64) -> Self {
        Self {
            all,
            used: 0,
            fence: 0,
            held: BTreeMap::new(),
        }
    }

    /// Changes how many there are. Who holds one keeps it; when there are too many nobody is let in.
    pub const fn resize(&mut self, all: u64) {
        self.all = all;
    }

    /// Does as it is told.
    pub fn handle(&mut self, now: Tick, message: &Message) -> Answer {
        self.prune(now);
        match *message {
            Message::Acquire {
                id,
                weight,
                lease_us,
            } => {
                self.fence = (self.fence + 1).max(now.0);
                self.hold(id, weight, self.fence, now.plus(lease_us))
            }
            // The store may have lost its memory since the permit was given; it then learns of it again. What
            // others were given in the meantime stays theirs.
            Message::Renew {
                id,
                weight,
                fence,
                lease_us,
            } => match self.hold(id, weight, fence, now.plus(lease_us)) {
                Answer::Held { fence } => Answer::Held { fence },
                _ => Answer::Gone,
            },
            Message::Release { id } => {
                self.remove(id);
                Answer::Gone
            }
        }
    }

    /// Takes in that a life is over: all that it held is free.
    pub fn bury(&mut self, life: Life) {
        let first = PermitId { life, number: 0 };
        let last = PermitId {
            life,
            number: u64::MAX,
        };
        let dead: Vec<_> = self.held.range(first..=last).map(|(&id, _)| id).collect();
        for id in dead {
            self.remove(id);
        }
    }

    /// How many are held.
    pub fn used(&mut self, now: Tick) -> u64 {
        self.prune(now);
        self.used
    }

    fn hold(&mut self, id: PermitId, weight: u64, fence: u64, until: Tick) -> Answer {
        if let Some(held) = self.held.get_mut(&id) {
            held.until = until.max(held.until);
            return Answer::Held { fence: held.fence };
        }
        let weight = weight.max(1);
        if weight > self.all {
            return Answer::Never;
        }
        let free = self.all.saturating_sub(self.used);
        if weight > free || self.held.len() >= HELD_MAX {
            return Answer::Full { free };
        }
        self.used += weight;
        let held = Held {
            weight,
            fence,
            until,
        };
        self.held.insert(id, held);
        Answer::Held { fence }
    }

    fn remove(&mut self, id: PermitId) {
        if let Some(held) = self.held.remove(&id) {
            self.used -= held.weight;
        }
    }

    fn prune(&mut self, now: Tick) {
        let used = &mut self.used;
        self.held.retain(|_, held| {
            let lives = now < held.until;
            if !lives {
                *used -= held.weight;
            }
            lives
        });
    }
}

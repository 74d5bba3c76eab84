//! The store's side of permits.

use std::collections::BTreeMap;

use super::super::Tick;
use super::terms::{ByClass, Terms};
use super::{Answer, Asking, HELD_MAX, Message, PermitId, Renewal};
use crate::facts::Class;

/// Who is in.
///
/// One that begins without memory cannot know who is in already. It gives nothing for the time of a lease, in which
/// those who are in renew, or their leases pass.
#[derive(Clone, Debug, Default)]
pub struct Permits {
    used: ByClass,
    fence: u64,
    /// Since when nothing was forgotten; `None` before the first message.
    began: Option<Tick>,
    /// Nothing is given before that.
    settles: Tick,
    held: BTreeMap<PermitId, Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    weight: u64,
    class: Class,
    fence: u64,
    until: Tick,
}

impl Permits {
    /// One without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// One of which nobody can hold anything yet, as its holders end with it.
    pub fn unused() -> Self {
        Self {
            began: Some(Tick(0)),
            ..Self::default()
        }
    }

    /// Does as it is told.
    pub fn handle(&mut self, now: Tick, terms: &Terms, message: &Message) -> Answer {
        self.prune(now);
        match message {
            Message::Acquire(asking) => self.acquire(now, terms, asking),
            Message::Renew(renewal) => self.renew(now, terms, renewal),
            Message::Release(id) => {
                self.remove(*id);
                Answer::Gone
            }
        }
    }

    /// How many are held, by class.
    pub fn used(&mut self, now: Tick) -> ByClass {
        self.prune(now);
        self.used
    }

    fn acquire(&mut self, now: Tick, terms: &Terms, asking: &Asking) -> Answer {
        self.begin(now, terms);
        let until = now.plus(terms.lease_us);
        if let Some(fence) = self.extend(asking.id, until) {
            return Answer::Held { fence };
        }
        let weight = asking.weight.max(1);
        if weight > terms.all {
            return Answer::Never;
        }
        if now < self.settles {
            let left_us = self.settles.since(now);
            return Answer::Settling { left_us };
        }
        let free = terms.room(&self.used, asking.class);
        if weight > free || self.held.len() >= HELD_MAX {
            return Answer::Full { free };
        }
        self.fence = (self.fence + 1).max(now.0);
        let held = Held {
            weight,
            class: asking.class,
            fence: self.fence,
            until,
        };
        self.insert(asking.id, held);
        Answer::Held { fence: self.fence }
    }

    fn renew(&mut self, now: Tick, terms: &Terms, renewal: &Renewal) -> Answer {
        self.begin(now, terms);
        let until = now.plus(terms.lease_us);
        if let Some(fence) = self.extend(renewal.id, until) {
            return Answer::Held { fence };
        }
        let fence = renewal.fence;
        self.fence = self.fence.max(fence);
        // It was here, and its lease cannot have passed: something was forgotten, and perhaps more than this.
        if renewal.is_known {
            self.began = Some(now);
            self.settles = self.settles.max(until);
        }
        let weight = renewal.weight.max(1);
        let free = terms.all.saturating_sub(self.used.iter().sum());
        if weight > free || self.held.len() >= HELD_MAX {
            return Answer::Gone;
        }
        let held = Held {
            weight,
            class: renewal.class,
            fence,
            until,
        };
        self.insert(renewal.id, held);
        Answer::Held { fence }
    }

    /// Whoever has a longer lease may hold something for longer.
    fn begin(&mut self, now: Tick, terms: &Terms) {
        let is_new = self.began.is_none();
        let began = *self.began.get_or_insert(now);
        if is_new || now < self.settles {
            self.settles = self.settles.max(began.plus(terms.lease_us));
        }
    }

    fn extend(&mut self, id: PermitId, until: Tick) -> Option<u64> {
        let held = self.held.get_mut(&id)?;
        held.until = until.max(held.until);
        Some(held.fence)
    }

    fn insert(&mut self, id: PermitId, held: Held) {
        self.used[held.class.index()] += held.weight;
        self.held.insert(id, held);
    }

    fn remove(&mut self, id: PermitId) {
        if let Some(held) = self.held.remove(&id) {
            self.used[held.class.index()] -= held.weight;
        }
    }

    fn prune(&mut self, now: Tick) {
        let used = &mut self.used;
        self.held.retain(|_, held| {
            let lives = now < held.until;
            if !lives {
                used[held.class.index()] -= held.weight;
            }
            lives
        });
    }
}

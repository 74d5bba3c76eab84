//! The attempts that are under way.

use tidegate_core::admission::Ticket;
use tidegate_core::time::Mono;

/// What a client asks for, the same in each of its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    /// Which traffic it belongs to.
    pub(super) traffic: u16,
    /// Which route of the application serves it.
    pub(super) route: u16,
    /// Whose it is.
    pub(super) user: u32,
    /// Which attempt this is; the first is 1.
    pub(super) attempt: u32,
}

/// Where an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the queue of its gateway.
    Queued(Ticket),
    /// In the application, with a slot of its gateway.
    Inside(Ticket),
    /// In the application, and its gateway has forgotten it.
    Orphaned,
}

/// One attempt, from its arrival to the end of the work for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) call: Call,
    /// Which gateway it came to.
    pub(super) gateway: u16,
    /// Whether its client is gone; what it was told is recorded then.
    pub(super) left: bool,
    pub(super) place: Place,
    pub(super) arrived: Mono,
}

/// An attempt, for as long as it is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    attempt: Option<Attempt>,
}

/// All of them. Grows with the attempts under way at once, as slots are used again.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Attempts {
    pub(super) fn begin(&mut self, attempt: Attempt) -> Id {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.attempt = Some(attempt);
            return Id {
                index,
                generation: slot.generation,
            };
        }
        let index = self.slots.len() as u32;
        self.slots.push(Slot {
            generation: 0,
            attempt: Some(attempt),
        });
        Id {
            index,
            generation: 0,
        }
    }

    pub(super) fn end(&mut self, index: u32) -> Attempt {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        slot.attempt.take().expect("an attempt ends once")
    }

    pub(super) fn at(&mut self, index: u32) -> &mut Attempt {
        let slot = &mut self.slots[index as usize];
        slot.attempt.as_mut().expect("the attempt is under way")
    }

    /// The attempt that `id` was given for, unless it has ended.
    pub(super) fn living(&self, id: Id) -> Option<&Attempt> {
        let slot = &self.slots[id.index as usize];
        slot.attempt
            .as_ref()
            .filter(|_| slot.generation == id.generation)
    }

    /// Those under way, in the order of their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Attempt)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| Some((index as u32, slot.attempt.as_ref()?)))
    }
}

impl Id {
    pub(super) const fn index(self) -> u32 {
        self.index
    }
}

//! The requests that admission knows of: one slot each, marked with a generation so that a ticket
//! that has ended is never taken for the next one in its place.

use std::fmt;

use crate::facts::Facts;
use crate::queue::Key;
use crate::time::Mono;

/// One request known to an [`Admission`](super::Admission), from its arrival to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    index: u32,
    generation: u32,
}

impl Ticket {
    /// What it is made of, for a log.
    pub(crate) const fn parts(self) -> (u32, u32) {
        (self.index, self.generation)
    }

    /// A ticket as it was before.
    pub(crate) const fn from_parts(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }

    /// A small number that no other living request of the same application has; for a table beside.
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// Its place and how often that was taken before, as in `17.3`.
impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) key: Key,
    /// Whether it is the deadline that ends the wait, rather than the longest wait.
    pub(super) expires: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) started: Mono,
    pub(super) first_byte: Option<Mono>,
    pub(super) tag: u32,
    /// Nobody waits for its answer any more.
    pub(super) abandoned: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Void,
    Waiting(Waiting),
    Running(Running),
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    facts: Facts,
    state: State,
}

/// All of them. Grows with the requests known at once, which the limit and the queue bound.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    slots: Vec<Slot>,
    void: Vec<u32>,
}

impl Tickets {
    /// A place for `facts` whose state is set next.
    pub(super) fn reserve(&mut self, facts: Facts) -> u32 {
        if let Some(index) = self.void.pop() {
            self.slots[index as usize].facts = facts;
            index
        } else {
            self.slots.push(Slot {
                generation: 0,
                facts,
                state: State::Void,
            });
            self.slots.len() as u32 - 1
        }
    }

    pub(super) fn set(&mut self, index: u32, state: State) -> Ticket {
        self.slots[index as usize].state = state;
        self.ticket(index)
    }

    pub(super) fn issue(&mut self, facts: Facts, state: State) -> Ticket {
        let index = self.reserve(facts);
        self.set(index, state)
    }

    /// Ends `ticket`: from now on it is nobody's.
    pub(super) fn void(&mut self, ticket: Ticket) {
        let slot = &mut self.slots[ticket.index()];
        debug_assert_eq!(slot.generation, ticket.generation, "a ticket ends once");
        slot.generation = slot.generation.wrapping_add(1);
        slot.state = State::Void;
        self.void.push(ticket.index);
    }

    pub(super) fn ticket(&self, index: u32) -> Ticket {
        Ticket {
            index,
            generation: self.slots[index as usize].generation,
        }
    }

    pub(super) fn facts(&self, index: u32) -> Facts {
        self.slots[index as usize].facts
    }

    pub(super) fn state_mut(&mut self, ticket: Ticket) -> Option<&mut State> {
        let slot = self.slots.get_mut(ticket.index())?;
        (slot.generation == ticket.generation).then_some(&mut slot.state)
    }

    pub(super) fn waiting(&self, ticket: Ticket) -> Option<Waiting> {
        match self.living(ticket)?.state {
            State::Waiting(waiting) => Some(waiting),
            State::Running(_) | State::Void => None,
        }
    }

    pub(super) fn running(&self, ticket: Ticket) -> Option<(Facts, Running)> {
        let slot = self.living(ticket)?;
        match slot.state {
            State::Running(running) => Some((slot.facts, running)),
            State::Waiting(_) | State::Void => None,
        }
    }

    fn living(&self, ticket: Ticket) -> Option<&Slot> {
        self.slots
            .get(ticket.index())
            .filter(|slot| slot.generation == ticket.generation)
    }
}

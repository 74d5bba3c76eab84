//! The requests that admission knows of: one slot each, marked with a generation so that a ticket
//! that has ended is never taken for the next one in its place.

use std::fmt;

use crate::facts::Facts;
use crate::queue::{Key, growth};
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
    pub(super) facts: Facts,
    pub(super) started: Mono,
    pub(super) first_byte: Option<Mono>,
    pub(super) tag: u32,
    /// Nobody waits for its answer any more.
    pub(super) abandoned: bool,
}

/// What a ticket stands for. Kept small: thousands may wait, and what there is to know of those
/// stands in the queue.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Nobody's; the next such place.
    Void(u32),
    Waiting(Waiting),
    /// Where in `Tickets::running`.
    Running(u32),
}

#[derive(Debug)]
struct Place {
    generation: u32,
    state: State,
}

const NONE: u32 = u32::MAX;

/// All of them. Grows with the requests known at once, which the limit and the queue bound.
#[derive(Debug)]
pub(super) struct Tickets {
    places: Vec<Place>,
    void: u32,
    running: Vec<Running>,
    /// Places in `running` that are free.
    idle: Vec<u32>,
}

impl Tickets {
    pub(super) const fn new() -> Self {
        Self {
            places: Vec::new(),
            void: NONE,
            running: Vec::new(),
            idle: Vec::new(),
        }
    }

    /// A place for a request that is to wait; [`Tickets::wait`] follows.
    pub(super) fn reserve(&mut self) -> u32 {
        let index = self.void;
        if let Some(place) = self.places.get(index as usize) {
            if let State::Void(next) = place.state {
                self.void = next;
            }
            return index;
        }
        if self.places.len() == self.places.capacity() {
            // Twice as many would be too many to have for nothing.
            self.places.reserve_exact(growth(self.places.len()));
        }
        self.places.push(Place {
            generation: 0,
            state: State::Void(NONE),
        });
        self.places.len() as u32 - 1
    }

    pub(super) fn wait(&mut self, index: u32, waiting: Waiting) -> Ticket {
        self.places[index as usize].state = State::Waiting(waiting);
        self.ticket(index)
    }

    /// A ticket for a request that starts at once.
    pub(super) fn admit(&mut self, running: Running) -> Ticket {
        let index = self.reserve();
        self.start(index, running)
    }

    /// The request at `index` starts.
    pub(super) fn start(&mut self, index: u32, running: Running) -> Ticket {
        let at = if let Some(at) = self.idle.pop() {
            self.running[at as usize] = running;
            at
        } else {
            self.running.push(running);
            self.running.len() as u32 - 1
        };
        self.places[index as usize].state = State::Running(at);
        self.ticket(index)
    }

    /// The request is done: its ticket is nobody's from now on.
    pub(super) fn finish(&mut self, ticket: Ticket) -> Option<Running> {
        let at = self.running_at(ticket)?;
        self.idle.push(at);
        self.void(ticket);
        Some(self.running[at as usize])
    }

    /// Ends the ticket of a request that waited.
    pub(super) fn void(&mut self, ticket: Ticket) {
        let place = &mut self.places[ticket.index()];
        debug_assert_eq!(place.generation, ticket.generation, "a ticket ends once");
        place.generation = place.generation.wrapping_add(1);
        place.state = State::Void(self.void);
        self.void = ticket.index;
    }

    pub(super) fn ticket(&self, index: u32) -> Ticket {
        Ticket {
            index,
            generation: self.places[index as usize].generation,
        }
    }

    pub(super) fn waiting(&self, ticket: Ticket) -> Option<Waiting> {
        match self.living(ticket)?.state {
            State::Waiting(waiting) => Some(waiting),
            State::Running(_) | State::Void(_) => None,
        }
    }

    pub(super) fn is_running(&self, ticket: Ticket) -> bool {
        self.running_at(ticket).is_some()
    }

    pub(super) fn running_mut(&mut self, ticket: Ticket) -> Option<&mut Running> {
        let at = self.running_at(ticket)?;
        Some(&mut self.running[at as usize])
    }

    fn running_at(&self, ticket: Ticket) -> Option<u32> {
        match self.living(ticket)?.state {
            State::Running(at) => Some(at),
            State::Waiting(_) | State::Void(_) => None,
        }
    }

    fn living(&self, ticket: Ticket) -> Option<&Place> {
        self.places
            .get(ticket.index())
            .filter(|place| place.generation == ticket.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_small() {
        assert_eq!(size_of::<Place>(), 12);
    }
}

//! A fixed pool of workers, first come first served.

use std::collections::VecDeque;

use tidegate_core::time::Mono;

use super::agenda::Agenda;
use super::{Done, Entry, Work};

/// The workers and the line in front of them.
///
/// The line is the one place without a bound in the whole simulator, unless the scenario gives
/// one: an accept queue without a bound is what half of the scenarios are about. A run is finite.
#[derive(Debug)]
pub(super) struct Slots {
    slots: u32,
    waiting_max: u32,
    waiting: VecDeque<Entry>,
    running: Agenda,
}

impl Slots {
    pub(super) fn new(slots: u32, waiting_max: Option<u32>) -> Self {
        Self {
            slots,
            waiting_max: waiting_max.unwrap_or(u32::MAX),
            waiting: VecDeque::new(),
            running: Agenda::default(),
        }
    }

    /// Another number of workers. What is running goes on, also where it is too many now.
    pub(super) const fn resize(&mut self, slots: u32) {
        self.slots = slots;
    }

    /// Whether there is room for `entry`.
    pub(super) fn offer(&mut self, entry: Entry) -> bool {
        let room = self.working() < self.slots || self.waiting() < self.waiting_max;
        if room {
            self.push(entry);
        }
        room
    }

    /// Puts `entry` at the end of the line, bound or not.
    pub(super) fn push(&mut self, entry: Entry) {
        self.waiting.push_back(entry);
    }

    /// The head of the line, when a worker is free for it.
    pub(super) fn next(&mut self) -> Option<Entry> {
        if self.working() < self.slots {
            self.waiting.pop_front()
        } else {
            None
        }
    }

    pub(super) fn begin(&mut self, app_now: Mono, began: Mono, entry: Entry, work: Work) {
        let end = app_now + work.time;
        self.running
            .add(end.as_nanos(), Done { entry, work, began });
    }

    pub(super) fn next_done(&self) -> Option<Mono> {
        self.running.next_end().map(Mono::from_nanos)
    }

    pub(super) fn complete(&mut self) -> Option<Done> {
        self.running.pop()
    }

    pub(super) fn waiting(&self) -> u32 {
        u32::try_from(self.waiting.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn working(&self) -> u32 {
        self.running.len()
    }
}

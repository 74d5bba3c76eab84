//! Work in progress, by when it is done.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::Done;

/// What is in progress; what began first is done first among equals.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Running>,
    begun: u64,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    end: u64,
    order: u64,
    done: Done,
}

impl Agenda {
    pub(super) fn add(&mut self, end: u64, done: Done) {
        self.begun += 1;
        self.heap.push(Running {
            end,
            order: self.begun,
            done,
        });
    }

    pub(super) fn next_end(&self) -> Option<u64> {
        self.heap.peek().map(|running| running.end)
    }

    pub(super) fn pop(&mut self) -> Option<Done> {
        self.heap.pop().map(|running| running.done)
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.heap.len()).unwrap_or(u32::MAX)
    }
}

impl Ord for Running {
    /// The greatest is the one that is done first: a heap gives its greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.end, other.order).cmp(&(self.end, self.order))
    }
}

impl PartialOrd for Running {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Running {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Running {}

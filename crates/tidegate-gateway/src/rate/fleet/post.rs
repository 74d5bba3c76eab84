//! What is on its way from this node to the store: messages of seats, tokens that go back, and when to come back to a
//! seat by the clock. All bounded, and sent in batches by a task beside the data path.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::rate::{Spec, Tick};
use tokio::sync::Notify;

use super::seat::Message;

/// Messages that wait to be sent.
pub(super) const LETTERS_MAX: usize = 4_096;
/// Tokens of so many requests wait to go back.
pub(super) const RETURNS_MAX: usize = 4_096;
/// Messages in one call.
pub(super) const BATCH_MAX: usize = 32;

/// A message, and of which key it is.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) key: u128,
    pub(super) limit: u16,
    pub(super) message: Message,
}

/// Tokens that were taken in the store, of which fewer or more were used.
#[derive(Clone, Debug)]
pub(super) struct Return {
    pub(super) key: u128,
    pub(super) spec: Arc<Spec>,
    pub(super) at: Tick,
    pub(super) taken: u64,
    pub(super) used: u64,
}

/// What is to be sent together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) letters: Vec<Letter>,
    pub(super) returns: Vec<Return>,
    /// Seats that something is due for.
    pub(super) due: Vec<u128>,
}

/// The post.
#[derive(Default)]
pub(super) struct Post {
    queues: Mutex<Queues>,
    pub(super) bell: Notify,
}

#[derive(Default)]
struct Queues {
    letters: VecDeque<Letter>,
    returns: VecDeque<Return>,
    /// No more than one for each seat.
    timers: BinaryHeap<Reverse<(Tick, u128)>>,
}

impl Post {
    /// Takes a letter; gives it back when there are too many.
    pub(super) fn send(&self, letter: Letter) -> Result<(), Letter> {
        let mut queues = self.lock();
        if queues.letters.len() >= LETTERS_MAX {
            return Err(letter);
        }
        queues.letters.push_back(letter);
        drop(queues);
        self.bell.notify_one();
        Ok(())
    }

    /// Takes tokens that go back, or are charged; false when there are too many.
    pub(super) fn give_back(&self, it: Return) -> bool {
        let mut queues = self.lock();
        if queues.returns.len() >= RETURNS_MAX {
            return false;
        }
        queues.returns.push_back(it);
        drop(queues);
        self.bell.notify_one();
        true
    }

    /// Comes back to the seat of `key` at `due`. Once for each seat at a time.
    pub(super) fn remind(&self, key: u128, due: Tick) {
        let mut queues = self.lock();
        let first = queues
            .timers
            .peek()
            .is_none_or(|Reverse((it, _))| due < *it);
        queues.timers.push(Reverse((due, key)));
        drop(queues);
        if first {
            self.bell.notify_one();
        }
    }

    /// What there is to do at `now`, not more than one batch of each; and how many microseconds to wait if that is
    /// nothing, as far as is known.
    pub(super) fn collect(&self, now: Tick) -> Result<Batch, Option<u64>> {
        let mut queues = self.lock();
        let mut batch = Batch::default();
        let letters = queues.letters.len().min(BATCH_MAX);
        batch.letters.extend(queues.letters.drain(..letters));
        let returns = queues.returns.len().min(BATCH_MAX);
        batch.returns.extend(queues.returns.drain(..returns));
        while batch.due.len() < BATCH_MAX
            && let Some(Reverse((due, key))) = queues.timers.peek().copied()
            && due <= now
        {
            queues.timers.pop();
            batch.due.push(key);
        }
        if batch.letters.is_empty() && batch.returns.is_empty() && batch.due.is_empty() {
            return Err(queues.timers.peek().map(|Reverse((due, _))| due.since(now)));
        }
        Ok(batch)
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::rate::share::Life;
    use tidegate_core::rate::share::aggregate::Report;

    use super::*;

    fn letter(key: u128) -> Letter {
        let report = Report {
            life: Life(1),
            seq: 1,
            spent: 1,
            returned: 0,
        };
        Letter {
            key,
            limit: 0,
            message: Message::Report(report),
        }
    }

    #[test]
    fn letters_go_in_batches_in_order_and_are_refused_when_there_are_too_many() {
        let post = Post::default();
        for key in 0..LETTERS_MAX as u128 {
            post.send(letter(key)).unwrap();
        }

        assert!(post.send(letter(0)).is_err());
        for first in 0..3 {
            let batch = post.collect(Tick(0)).unwrap();
            let keys: Vec<_> = batch.letters.iter().map(|it| it.key).collect();
            assert_eq!(keys.len(), BATCH_MAX);
            assert_eq!(keys[0], first * BATCH_MAX as u128);
        }
        assert!(post.send(letter(0)).is_ok());
    }

    #[test]
    fn seats_come_up_when_they_are_due() {
        let post = Post::default();
        post.remind(7, Tick(300));
        post.remind(8, Tick(100));

        assert_eq!(post.collect(Tick(50)).unwrap_err(), Some(50));
        assert_eq!(post.collect(Tick(100)).unwrap().due, [8]);
        assert_eq!(post.collect(Tick(400)).unwrap().due, [7]);
        assert_eq!(post.collect(Tick(400)).unwrap_err(), None);
    }
}

//! The order of the writes to one session.
//!
//! A few may be under way at a time: the connection keeps their order. While one is sent again,
//! because its reply did not come, those behind it wait.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::session::SessionId;
use tokio::sync::oneshot;

/// Writes to one session that may be under way. Fewer than the numbers that a session remembers of
/// a writer, so that one that is sent again is still known.
const UNDER_WAY_MAX: usize = 8;
/// Writes to one session that may wait.
const WAITING_MAX: usize = 64;

/// The writes that are under way or wait.
#[derive(Clone, Default)]
pub(super) struct Order(Arc<Mutex<HashMap<SessionId, Line>>>);

#[derive(Default)]
struct Line {
    under_way: usize,
    repeating: usize,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// The right to write to a session. Dropping it hands the right on.
pub(super) struct Turn {
    /// `None` when the right has been given back.
    order: Option<Order>,
    id: SessionId,
    is_repeating: bool,
}

/// Too many wait already.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Crowded;

impl Order {
    /// Waits until it is the caller's turn to write to `id`.
    pub(super) async fn turn(&self, id: SessionId) -> Result<Turn, Crowded> {
        let waiting = {
            let mut lines = self.lock();
            let line = lines.entry(id).or_default();
            if line.is_open() && line.waiting.is_empty() {
                line.under_way += 1;
                return Ok(self.give(id));
            }
            if line.waiting.len() >= WAITING_MAX {
                return Err(Crowded);
            }
            let (turn, waiting) = oneshot::channel();
            line.waiting.push_back(turn);
            waiting
        };
        waiting.await.map_err(|_| Crowded)
    }

    fn give(&self, id: SessionId) -> Turn {
        Turn {
            order: Some(self.clone()),
            id,
            is_repeating: false,
        }
    }

    fn give_back(&self, turn: &Turn) {
        // One lock for all steps: who came between them would wait beside a free place.
        let mut lines = self.lock();
        let Some(line) = lines.get_mut(&turn.id) else {
            return;
        };
        line.under_way -= 1;
        line.repeating -= usize::from(turn.is_repeating);
        while line.is_open() {
            let Some(next) = line.waiting.pop_front() else {
                break;
            };
            line.under_way += 1;
            if let Err(mut unclaimed) = next.send(self.give(turn.id)) {
                // It does not wait any more. Defuse the turn, or its drop would lock again.
                unclaimed.order = None;
                line.under_way -= 1;
            }
        }
        if line.under_way == 0 {
            lines.remove(&turn.id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Line>> {
        self.0.lock().expect("no holder panics")
    }
}

impl Line {
    const fn is_open(&self) -> bool {
        self.under_way < UNDER_WAY_MAX && self.repeating == 0
    }
}

impl Turn {
    /// Says that the write is sent again: those behind it wait until it is over.
    pub(super) fn repeat(&mut self) {
        if let Some(order) = &self.order
            && !self.is_repeating
        {
            self.is_repeating = true;
            let mut lines = order.lock();
            lines.entry(self.id).or_default().repeating += 1;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(order) = self.order.take() {
            order.give_back(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use tidegate_core::session::SlotTag;

    use super::*;

    fn id() -> SessionId {
        SessionId::new(SlotTag::from_bits(7), *b"ABCDEFGHIJKLMNOPQRSTUV").unwrap()
    }

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn now(order: &Order) -> Turn {
        match poll(pin!(order.turn(id()))) {
            Poll::Ready(Ok(turn)) => turn,
            _ => panic!("it has to wait"),
        }
    }

    #[test]
    fn a_few_are_under_way_and_the_others_have_their_turns_in_the_order_of_asking() {
        let order = Order::default();
        let mut turns: Vec<_> = (0..UNDER_WAY_MAX).map(|_| now(&order)).collect();
        let (mut ninth, mut tenth) = (pin!(order.turn(id())), pin!(order.turn(id())));
        assert!(poll(ninth.as_mut()).is_pending());
        assert!(poll(tenth.as_mut()).is_pending());

        turns.pop();

        assert!(poll(tenth.as_mut()).is_pending());
        let Poll::Ready(Ok(_ninth)) = poll(ninth.as_mut()) else {
            panic!("it is its turn");
        };
    }

    #[test]
    fn nobody_overtakes_a_write_that_is_sent_again() {
        let order = Order::default();
        let mut first = now(&order);
        let second = now(&order);
        first.repeat();
        let mut third = pin!(order.turn(id()));
        assert!(poll(third.as_mut()).is_pending());

        drop(second);
        assert!(poll(third.as_mut()).is_pending());
        drop(first);

        assert!(poll(third.as_mut()).is_ready());
    }

    #[test]
    fn a_turn_that_nobody_takes_up_is_handed_on_and_nothing_is_left() {
        let order = Order::default();
        let turns: Vec<_> = (0..UNDER_WAY_MAX).map(|_| now(&order)).collect();
        {
            let mut gone = pin!(order.turn(id()));
            assert!(poll(gone.as_mut()).is_pending());
        }
        let mut stays = Box::pin(order.turn(id()));
        assert!(poll(stays.as_mut()).is_pending());

        drop(turns);

        assert!(matches!(poll(stays.as_mut()), Poll::Ready(Ok(_))));
        drop(stays);
        assert!(order.lock().is_empty());
    }

    #[test]
    fn too_many_that_wait_are_told_so() {
        let order = Order::default();
        let _turns: Vec<_> = (0..UNDER_WAY_MAX).map(|_| now(&order)).collect();
        let mut waiting: Vec<_> = (0..WAITING_MAX)
            .map(|_| Box::pin(order.turn(id())))
            .collect();
        for turn in &mut waiting {
            assert!(poll(turn.as_mut()).is_pending());
        }

        let refused = poll(pin!(order.turn(id())));

        assert!(matches!(refused, Poll::Ready(Err(Crowded))));
    }
}

//! So many at the same time, over all nodes: permits with a weight, in a store that keeps them for a while only.
//!
//! A permit is held until it is released, or until its lease has passed because its holder died. A holder renews at a
//! third of the lease. It counts its lease from when it asked, the store from when it was asked, so what a
//! holder still holds the store still counts. So the weights that are held never add up to more than there
//! are, as long as the store remembers; one that has lost its memory learns of what is held with the next renewals.
//!
//! For a node to be let in by the store costs a round trip. Where there are twice as many permits as nodes,
//! each node had better have its own ([`per_node`]).
//!
//! Messages may be lost, come twice, and come late. Each permit has a name of its own, so that a
//! second [`Message::Acquire`] is the same permit and a second [`Message::Release`] nothing. One that comes after its release
//! holds a permit for nobody, until the lease has passed.

mod holder;
mod store;

use super::share::Life;

pub use holder::{Holder, Outcome};
pub use store::Permits;

/// Most permits that a store keeps for one thing, and that a node holds at the same time.
pub const HELD_MAX: usize = 65_536;

/// A permit's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId {
    /// Who holds it.
    pub life: Life,
    /// Counts up with the permits of a life.
    pub number: u64,
}

/// What a node tells the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// To be let in.
    Acquire {
        /// Under which name.
        id: PermitId,
        /// For how many.
        weight: u64,
        /// For how long, in microseconds.
        lease_us: u64,
    },
    /// To stay in.
    Renew {
        /// Which permit.
        id: PermitId,
        /// For how many.
        weight: u64,
        /// The fence it came with.
        fence: u64,
        /// For how long from now on, in microseconds.
        lease_us: u64,
    },
    /// It is out.
    Release {
        /// Which permit.
        id: PermitId,
    },
}

/// What the store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The permit is held until its lease has passed.
    Held {
        /// Greater with each permit that is given, though the store lose its memory: whoever is called can tell the
        /// later holder by it.
        fence: u64,
    },
    /// There is no room.
    Full {
        /// How much is free.
        free: u64,
    },
    /// There is never so much.
    Never,
    /// It is held no more, whether it was before or not.
    Gone,
}

/// Permits for each of `nodes` nodes to give by itself; `None` where there are too few of them to divide.
pub const fn per_node(permits: u64, nodes: u32) -> Option<u64> {
    let nodes = if nodes == 0 { 1 } else { nodes as u64 };
    if permits / 2 < nodes {
        return None;
    }
    Some(permits / nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Tick;

    const LEASE: u64 = 9_000;

    fn acquire(life: u64, number: u64, weight: u64) -> Message {
        Message::Acquire {
            id: PermitId {
                life: Life(life),
                number,
            },
            weight,
            lease_us: LEASE,
        }
    }

    fn id_of(message: Message) -> PermitId {
        match message {
            Message::Acquire { id, .. } | Message::Renew { id, .. } | Message::Release { id } => id,
        }
    }

    /// A node that has asked for one permit at 1000, and has it.
    fn holder(store: &mut Permits, hold_us: u64) -> (Holder, PermitId) {
        let mut holder = Holder::new(Life(1), LEASE);
        let message = holder.acquire(Tick(1_000), 2, hold_us).unwrap();
        let answer = store.handle(Tick(1_200), &message);
        let held = holder.answered(Tick(1_000), Tick(1_400), id_of(message), answer);
        assert!(matches!(held, Outcome::Held { .. }));
        (holder, id_of(message))
    }

    fn tick(holder: &mut Holder, now: u64) -> (Vec<Message>, Vec<PermitId>) {
        let (mut renew, mut lost) = (Vec::new(), Vec::new());
        holder.tick(Tick(now), &mut renew, &mut lost);
        (renew, lost)
    }

    #[test]
    fn weights_are_let_in_while_they_fit() {
        let mut store = Permits::new(10);

        assert!(matches!(
            store.handle(Tick(1), &acquire(1, 1, 6)),
            Answer::Held { .. }
        ));
        assert_eq!(
            store.handle(Tick(1), &acquire(2, 1, 5)),
            Answer::Full { free: 4 }
        );
        assert!(matches!(
            store.handle(Tick(1), &acquire(2, 2, 4)),
            Answer::Held { .. }
        ));
        assert_eq!(store.handle(Tick(1), &acquire(2, 3, 11)), Answer::Never);
        assert_eq!(store.used(Tick(1)), 10);
    }

    #[test]
    fn the_same_permit_is_given_once_and_taken_once() {
        let mut store = Permits::new(10);
        let first = store.handle(Tick(1), &acquire(1, 1, 6));

        assert_eq!(store.handle(Tick(2), &acquire(1, 1, 6)), first);
        assert_eq!(store.used(Tick(2)), 6);
        for _ in 0..2 {
            let release = Message::Release {
                id: id_of(acquire(1, 1, 6)),
            };
            assert_eq!(store.handle(Tick(3), &release), Answer::Gone);
            assert_eq!(store.used(Tick(3)), 0);
        }
    }

    #[test]
    fn what_is_said_to_the_life_before_says_nothing_to_this_one() {
        let mut store = Permits::new(10);
        let before = Holder::new(Life(1), LEASE).acquire(Tick(1_000), 2, LEASE);
        let answer = store.handle(Tick(1_200), &before.unwrap());
        let mut now = Holder::new(Life(2), LEASE);
        let asked = id_of(now.acquire(Tick(1_300), 2, LEASE).unwrap());
        let stale = id_of(before.unwrap());

        let outcome = now.answered(Tick(1_000), Tick(1_400), stale, answer);

        assert_eq!(outcome, Outcome::Over);
        assert!(!now.holds(Tick(1_400), asked) && !now.holds(Tick(1_400), stale));
        assert_eq!(now.release(stale), None);
        assert!(now.release(asked).is_some());
    }

    #[test]
    fn what_the_dead_held_is_back_when_its_lease_has_passed_or_they_are_buried() {
        let mut store = Permits::new(10);
        store.handle(Tick(0), &acquire(1, 1, 3));
        store.handle(Tick(0), &acquire(2, 1, 3));
        store.handle(Tick(0), &acquire(2, 2, 3));

        store.bury(Life(2));
        assert_eq!(store.used(Tick(0)), 3);

        assert_eq!(store.used(Tick(LEASE - 1)), 3);
        assert_eq!(store.used(Tick(LEASE)), 0);
    }

    #[test]
    fn with_fewer_permits_nobody_is_thrown_out_and_nobody_let_in() {
        let mut store = Permits::new(10);
        store.handle(Tick(0), &acquire(1, 1, 8));

        store.resize(5);

        assert_eq!(store.used(Tick(0)), 8);
        assert_eq!(
            store.handle(Tick(0), &acquire(1, 2, 1)),
            Answer::Full { free: 0 }
        );
    }

    #[test]
    fn a_later_permit_has_a_higher_fence_though_the_store_lose_its_memory() {
        let fence = |answer| match answer {
            Answer::Held { fence } => fence,
            other => panic!("{other:?}"),
        };
        let mut store = Permits::new(10);
        let first = fence(store.handle(Tick(100), &acquire(1, 1, 1)));
        let second = fence(store.handle(Tick(100), &acquire(1, 2, 1)));

        let mut forgetful = Permits::new(10);
        let third = fence(forgetful.handle(Tick(5_000), &acquire(1, 3, 1)));

        assert!(first < second && second < third);
    }

    #[test]
    fn a_holder_renews_at_a_third_of_its_lease_and_again_when_that_is_not_answered() {
        let mut store = Permits::new(10);
        let (mut holder, id) = holder(&mut store, 100_000);
        assert_eq!(holder.due_at(), Some(Tick(4_000)));

        let (renew, lost) = tick(&mut holder, 4_000);
        assert_eq!((renew.len(), lost.len()), (1, 0));
        assert_eq!(holder.due_at(), Some(Tick(4_750)));
        let (renew, _) = tick(&mut holder, 4_750);

        let answer = store.handle(Tick(4_800), &renew[0]);
        holder.answered(Tick(4_750), Tick(4_900), id, answer);
        assert_eq!(holder.due_at(), Some(Tick(7_750)));
        assert!(holder.holds(Tick(13_000), id));
        assert_eq!(store.used(Tick(13_000)), 2);
    }

    #[test]
    fn what_is_not_renewed_is_lost_before_the_store_gives_it_away() {
        let mut store = Permits::new(10);
        let (mut holder, id) = holder(&mut store, 100_000);
        let over = 1_000 + LEASE - LEASE / 32;

        assert!(holder.holds(Tick(over - 1), id));
        assert!(!holder.holds(Tick(over), id));
        let (renew, lost) = tick(&mut holder, over);

        assert_eq!((renew, lost), (Vec::new(), vec![id]));
        assert_eq!(holder.due_at(), None);
        assert_eq!(store.used(Tick(over)), 2);
    }

    #[test]
    fn what_was_held_for_as_long_as_it_may_is_not_renewed() {
        let mut store = Permits::new(10);
        let (mut holder, id) = holder(&mut store, 2_000);

        let (renew, lost) = tick(&mut holder, 4_000);

        assert_eq!((renew, lost), (Vec::new(), Vec::new()));
        assert!(holder.holds(Tick(4_000), id));
        let over = holder.due_at().unwrap();
        assert_eq!(tick(&mut holder, over.0).1, [id]);
    }

    #[test]
    fn an_answer_that_nobody_waited_for_is_released() {
        let mut store = Permits::new(10);
        let mut holder = Holder::new(Life(1), LEASE);
        let message = holder.acquire(Tick(1_000), 2, 1_000).unwrap();
        let answer = store.handle(Tick(1_200), &message);

        let release = holder.release(id_of(message)).unwrap();
        let late = holder.answered(Tick(1_000), Tick(1_400), id_of(message), answer);

        assert_eq!(late, Outcome::Over);
        store.handle(Tick(1_500), &release);
        assert_eq!(store.used(Tick(1_500)), 0);
    }

    #[test]
    fn a_store_without_memory_learns_of_what_is_held_as_far_as_there_is_room() {
        let mut store = Permits::new(10);
        let (mut holder, id) = holder(&mut store, 100_000);
        let (renew, _) = tick(&mut holder, 4_000);

        let mut forgetful = Permits::new(10);
        let answer = forgetful.handle(Tick(4_100), &renew[0]);
        assert!(matches!(answer, Answer::Held { .. }));
        assert_eq!(forgetful.used(Tick(4_100)), 2);

        let mut full = Permits::new(10);
        full.handle(Tick(4_000), &acquire(2, 1, 9));
        let answer = full.handle(Tick(4_100), &renew[0]);
        assert_eq!(answer, Answer::Gone);
        let lost = holder.answered(Tick(4_000), Tick(4_200), id, answer);
        assert_eq!(lost, Outcome::Lost);
    }

    #[test]
    fn few_permits_are_not_divided() {
        assert_eq!(per_node(100, 10), Some(10));
        assert_eq!(per_node(25, 10), Some(2));
        assert_eq!(per_node(19, 10), None);
        assert_eq!(per_node(1, 1), None);
    }
}

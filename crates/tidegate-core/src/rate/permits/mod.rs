//! So many at the same time, over all nodes: permits with a weight, in a store that keeps them for a while only.
//!
//! A permit is held until it is released, or until its lease has passed because its holder died. A holder renews at a
//! third of the lease. It counts its lease from when it asked, the store from when it was asked, so what a
//! holder still holds the store still counts. So the weights that are held never add up to more than there
//! are.
//!
//! A store that has lost its memory learns of what is held with the next renewals, and gives nothing until a lease is over:
//! by then whatever it has not been told of is held no more. One that has forgotten only a part, as a replica has that took over
//! and lacks the last moments, notices at the first renewal of what it lacks, and waits as long from then on.
//! Until that renewal, a third of a lease at most, it may give as much once more as it has forgotten.
//!
//! What a holder does whose store is away is its own matter ([`Afterwards`]): it may go on with what it has, and with more, and
//! then no sum is promised until the store has been told.
//!
//! For a node to be let in by the store costs a round trip. Where there are twice as many permits as nodes,
//! each node had better have its own ([`per_node`]).
//!
//! Messages may be lost, come twice, and come late. Each permit has a name of its own, so that a
//! second [`Message::Acquire`] is the same permit and a second [`Message::Release`] nothing. One that comes after its release
//! holds a permit for nobody, until the lease has passed.

mod holder;
mod store;
mod terms;

use super::share::Life;
use crate::facts::Class;

pub use holder::{Afterwards, Holder, Outcome};
pub use store::Permits;
pub use terms::{ByClass, Keep, Terms};

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

/// To be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Under which name.
    pub id: PermitId,
    /// For how many.
    pub weight: u64,
    /// Whose they are.
    pub class: Class,
}

/// To stay in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Which permit.
    pub id: PermitId,
    /// For how many.
    pub weight: u64,
    /// Whose they are.
    pub class: Class,
    /// The fence it came with.
    pub fence: u64,
    /// Whether the store has said that it is held, and its lease has not passed since.
    pub is_known: bool,
}

/// What a node tells the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// It wants to be let in.
    Acquire(Asking),
    /// It wants to stay in.
    Renew(Renewal),
    /// It is out.
    Release(PermitId),
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
        /// How much is free for its class.
        free: u64,
    },
    /// There is never so much.
    Never,
    /// The store does not know yet who is in.
    Settling {
        /// It will in so many microseconds.
        left_us: u64,
    },
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
    const TEN: Terms = Terms::of(10, LEASE);
    /// No lease is renewed for longer in these tests.
    const LONG: u64 = 1_000_000;

    fn id(life: u64, number: u64) -> PermitId {
        PermitId {
            life: Life(life),
            number,
        }
    }

    fn ask(store: &mut Permits, now: u64, id: PermitId, weight: u64) -> Answer {
        let asking = Asking {
            id,
            weight,
            class: Class::Anonymous,
        };
        store.handle(Tick(now), &TEN, &Message::Acquire(asking))
    }

    fn fence(answer: Answer) -> u64 {
        match answer {
            Answer::Held { fence } => fence,
            other => panic!("{other:?}"),
        }
    }

    fn used(store: &mut Permits, now: u64) -> u64 {
        store.used(Tick(now)).iter().sum()
    }

    fn holder(life: u64, after: Afterwards) -> Holder {
        Holder::new(Life(life), LEASE, after)
    }

    /// A node that has asked for one permit at 1000, and has it.
    fn holding(store: &mut Permits, after: Afterwards, hold_us: u64) -> (Holder, PermitId) {
        let mut holder = holder(1, after);
        let asking = holder.acquire(Tick(1_000), 2, Class::Anonymous, hold_us);
        let asking = asking.unwrap();
        let answer = store.handle(Tick(1_200), &TEN, &Message::Acquire(asking));
        let held = holder.answered(Tick(1_000), Tick(1_400), asking.id, answer);
        assert!(matches!(held, Outcome::Held { .. }));
        (holder, asking.id)
    }

    fn tick(holder: &mut Holder, now: u64) -> (Vec<Renewal>, Vec<PermitId>) {
        let (mut renew, mut lost) = (Vec::new(), Vec::new());
        holder.tick(Tick(now), HELD_MAX, &mut renew, &mut lost);
        (renew, lost)
    }

    #[test]
    fn weights_are_let_in_while_they_fit() {
        let mut store = Permits::unused();

        assert!(matches!(
            ask(&mut store, 1, id(1, 1), 6),
            Answer::Held { .. }
        ));
        assert_eq!(ask(&mut store, 1, id(2, 1), 5), Answer::Full { free: 4 });
        assert!(matches!(
            ask(&mut store, 1, id(2, 2), 4),
            Answer::Held { .. }
        ));
        assert_eq!(ask(&mut store, 1, id(2, 3), 11), Answer::Never);
        assert_eq!(used(&mut store, 1), 10);
    }

    #[test]
    fn the_same_permit_is_given_once_and_taken_once() {
        let mut store = Permits::unused();
        let first = ask(&mut store, 1, id(1, 1), 6);

        assert_eq!(ask(&mut store, 2, id(1, 1), 6), first);
        assert_eq!(used(&mut store, 2), 6);
        for _ in 0..2 {
            let release = Message::Release(id(1, 1));
            assert_eq!(store.handle(Tick(3), &TEN, &release), Answer::Gone);
            assert_eq!(used(&mut store, 3), 0);
        }
    }

    #[test]
    fn what_is_said_to_the_life_before_says_nothing_to_this_one() {
        let mut store = Permits::unused();
        let mut before = holder(1, Afterwards::Lost);
        let stale = before.acquire(Tick(1_000), 2, Class::Anonymous, LONG);
        let stale = stale.unwrap();
        let answer = store.handle(Tick(1_200), &TEN, &Message::Acquire(stale));
        let mut now = holder(2, Afterwards::Lost);
        let asked = now.acquire(Tick(1_300), 2, Class::Anonymous, LONG);
        let asked = asked.unwrap().id;

        let outcome = now.answered(Tick(1_000), Tick(1_400), stale.id, answer);

        assert_eq!(outcome, Outcome::Over);
        assert!(!now.holds(Tick(1_400), asked) && !now.holds(Tick(1_400), stale.id));
        assert!(!now.release(stale.id));
        assert!(now.release(asked));
    }

    #[test]
    fn what_the_dead_held_is_back_when_its_lease_has_passed() {
        let mut store = Permits::unused();
        ask(&mut store, 0, id(1, 1), 3);

        assert_eq!(used(&mut store, LEASE - 1), 3);
        assert_eq!(used(&mut store, LEASE), 0);
    }

    #[test]
    fn with_fewer_permits_nobody_is_thrown_out_and_nobody_let_in() {
        let mut store = Permits::unused();
        ask(&mut store, 0, id(1, 1), 8);
        let five = Terms::of(5, LEASE);
        let asking = Asking {
            id: id(1, 2),
            weight: 1,
            class: Class::Anonymous,
        };

        let answer = store.handle(Tick(0), &five, &Message::Acquire(asking));

        assert_eq!(answer, Answer::Full { free: 0 });
        assert_eq!(used(&mut store, 0), 8);
    }

    #[test]
    fn a_store_without_memory_gives_nothing_for_a_lease() {
        let mut store = Permits::new();
        let settling = |left_us| Answer::Settling { left_us };

        assert_eq!(ask(&mut store, 500, id(1, 1), 1), settling(LEASE));
        assert_eq!(ask(&mut store, 500 + LEASE - 1, id(1, 2), 1), settling(1));
        assert!(matches!(
            ask(&mut store, 500 + LEASE, id(1, 3), 1),
            Answer::Held { .. }
        ));
    }

    #[test]
    fn what_is_renewed_meanwhile_is_in_and_the_rest_is_given_after_it() {
        let mut store = Permits::unused();
        let (mut holder, permit) = holding(&mut store, Afterwards::Lost, LONG);

        let mut forgetful = Permits::new();
        let (renew, _) = tick(&mut holder, 4_000);
        let answer = forgetful.handle(Tick(4_100), &TEN, &Message::Renew(renew[0]));
        holder.answered(Tick(4_000), Tick(4_200), permit, answer);

        assert!(holder.holds(Tick(4_200), permit));
        let refused = ask(&mut forgetful, 4_300, id(2, 1), 8);
        assert_eq!(
            refused,
            Answer::Settling {
                left_us: LEASE - 200
            }
        );
        let (renew, _) = tick(&mut holder, 7_000);
        forgetful.handle(Tick(7_000), &TEN, &Message::Renew(renew[0]));
        assert_eq!(
            ask(&mut forgetful, 4_100 + LEASE, id(2, 1), 9),
            Answer::Full { free: 8 }
        );
        assert!(matches!(
            ask(&mut forgetful, 4_100 + LEASE, id(2, 2), 8),
            Answer::Held { .. }
        ));
    }

    #[test]
    fn a_store_that_lacks_what_is_renewed_waits_as_if_it_lacked_all() {
        let mut store = Permits::unused();
        let (mut holder, _) = holding(&mut store, Afterwards::Lost, LONG);
        let mut replica = Permits::unused();
        ask(&mut replica, 2_000, id(3, 1), 1);

        let (renew, _) = tick(&mut holder, 4_000);
        replica.handle(Tick(4_000), &TEN, &Message::Renew(renew[0]));

        let answer = ask(&mut replica, 4_100, id(2, 1), 1);
        assert_eq!(
            answer,
            Answer::Settling {
                left_us: LEASE - 100
            }
        );
        assert_eq!(used(&mut replica, 4_100), 3);
    }

    #[test]
    fn a_later_permit_has_a_higher_fence_though_the_store_lose_its_memory() {
        let mut store = Permits::unused();
        let first = fence(ask(&mut store, 100, id(1, 1), 1));
        let second = fence(ask(&mut store, 100, id(1, 2), 1));

        let mut forgetful = Permits::new();
        ask(&mut forgetful, 5_000, id(1, 3), 1);
        let third = fence(ask(&mut forgetful, 5_000 + LEASE, id(1, 3), 1));

        assert!(first < second && second < third);
    }

    #[test]
    fn a_holder_renews_at_a_third_of_its_lease_and_again_when_that_is_not_answered() {
        let mut store = Permits::unused();
        let (mut holder, id) = holding(&mut store, Afterwards::Lost, LONG);
        assert_eq!(holder.due_at(), Some(Tick(4_000)));

        let (renew, lost) = tick(&mut holder, 4_000);
        assert_eq!((renew.len(), lost.len()), (1, 0));
        assert_eq!(holder.due_at(), Some(Tick(4_750)));
        let (renew, _) = tick(&mut holder, 4_750);

        let answer = store.handle(Tick(4_800), &TEN, &Message::Renew(renew[0]));
        holder.answered(Tick(4_750), Tick(4_900), id, answer);
        assert_eq!(holder.due_at(), Some(Tick(7_750)));
        assert!(holder.holds(Tick(13_000), id));
        assert_eq!(used(&mut store, 13_000), 2);
    }

    #[test]
    fn what_is_not_renewed_is_lost_before_the_store_gives_it_away() {
        let mut store = Permits::unused();
        let (mut holder, id) = holding(&mut store, Afterwards::Lost, LONG);
        let over = 1_000 + LEASE - LEASE / 32;

        assert!(holder.holds(Tick(over - 1), id));
        assert!(!holder.holds(Tick(over), id));
        let (renew, lost) = tick(&mut holder, over);

        assert_eq!((renew, lost), (Vec::new(), vec![id]));
        assert_eq!(holder.due_at(), None);
        assert_eq!(holder.used(), &[0; Class::COUNT]);
        assert_eq!(used(&mut store, over), 2);
    }

    #[test]
    fn what_was_given_away_is_not_held_again_by_a_renewal_that_was_long_on_its_way() {
        let mut store = Permits::unused();
        let (mut holder, held) = holding(&mut store, Afterwards::Lost, LONG);
        let (renew, _) = tick(&mut holder, 4_000);
        let later = fence(ask(&mut store, 10_250, id(2, 1), 9));
        // It knows nothing of that any more, and believes what it is told first.
        store = Permits::new();
        let answer = store.handle(Tick(10_300), &TEN, &Message::Renew(renew[0]));
        assert!(fence(answer) < later);

        let outcome = holder.answered(Tick(4_000), Tick(10_300), held, answer);

        assert_eq!(outcome, Outcome::Lost);
        assert!(!holder.holds(Tick(10_300), held));
    }

    #[test]
    fn who_may_hold_it_all_the_same_goes_on_and_tells_the_store_when_it_can() {
        let mut store = Permits::unused();
        let (mut holder, id) = holding(&mut store, Afterwards::Held, LONG);
        let late = 1_000 + 2 * LEASE;

        let (renew, lost) = tick(&mut holder, late);
        assert!(lost.is_empty() && holder.holds(Tick(late), id));
        assert_eq!((renew[0].is_known, holder.unknown()), (false, 2));
        // No room: it is held still, and told of again.
        let mut full = Permits::unused();
        ask(&mut full, late, self::id(2, 1), 9);
        let answer = full.handle(Tick(late), &TEN, &Message::Renew(renew[0]));
        holder.answered(Tick(late), Tick(late), id, answer);
        assert!(holder.holds(Tick(late + 1), id));
        let (renew, _) = tick(&mut holder, late + LEASE / 12);

        let now = late + LEASE / 12;
        let answer = store.handle(Tick(now), &TEN, &Message::Renew(renew[0]));
        holder.answered(Tick(now), Tick(now), id, answer);
        assert_eq!((holder.unknown(), used(&mut store, now)), (0, 2));
        // Nothing was forgotten, so nobody has to wait.
        let asked = ask(&mut store, now, self::id(2, 1), 8);
        assert!(matches!(asked, Answer::Held { .. }));
    }

    #[test]
    fn what_was_taken_without_the_store_is_told_of_at_once() {
        let mut store = Permits::unused();
        let mut holder = holder(1, Afterwards::Held);

        let taken = holder.take_anyway(Tick(1_000), 3, Class::Critical, LONG, 77);
        let (renew, _) = tick(&mut holder, 1_000 + LEASE / 12);

        let permit = taken.unwrap();
        assert!(holder.holds(Tick(1_000), permit));
        assert_eq!((renew[0].id, renew[0].fence), (permit, 77));
        store.handle(Tick(2_000), &TEN, &Message::Renew(renew[0]));
        assert_eq!(used(&mut store, 2_000), 3);
        // A later one has the higher fence, whoever gave the first.
        assert!(fence(ask(&mut store, 50, id(2, 1), 1)) > 77);
        let taken = self::holder(1, Afterwards::Lost);
        let taken = taken
            .clone()
            .take_anyway(Tick(1), 1, Class::Critical, LONG, 1);
        assert_eq!(taken, None);
    }

    #[test]
    fn what_was_held_for_as_long_as_it_may_is_not_renewed() {
        for after in [Afterwards::Lost, Afterwards::Held] {
            let mut store = Permits::unused();
            let (mut holder, id) = holding(&mut store, after, 2_000);

            let (renew, lost) = tick(&mut holder, 4_000);

            assert_eq!((renew, lost), (Vec::new(), Vec::new()));
            assert!(holder.holds(Tick(4_000), id));
            let over = holder.due_at().unwrap();
            assert_eq!(tick(&mut holder, over.0).1, [id]);
        }
    }

    #[test]
    fn so_many_are_renewed_at_a_time() {
        let mut holder = holder(1, Afterwards::Held);
        for number in 0..5 {
            holder.take_anyway(Tick(0), 1, Class::Critical, LONG, number);
        }

        let (mut renew, mut lost) = (Vec::new(), Vec::new());
        holder.tick(Tick(LEASE), 3, &mut renew, &mut lost);

        assert_eq!(renew.len(), 3);
        assert!(holder.due_at() <= Some(Tick(LEASE)));
    }

    #[test]
    fn an_answer_that_nobody_waited_for_is_released() {
        let mut store = Permits::unused();
        let mut holder = holder(1, Afterwards::Lost);
        let asking = holder.acquire(Tick(1_000), 2, Class::Anonymous, LONG);
        let asking = asking.unwrap();
        let answer = store.handle(Tick(1_200), &TEN, &Message::Acquire(asking));

        assert!(holder.release(asking.id));
        let late = holder.answered(Tick(1_000), Tick(1_400), asking.id, answer);

        assert_eq!(late, Outcome::Over);
        store.handle(Tick(1_500), &TEN, &Message::Release(asking.id));
        assert_eq!(used(&mut store, 1_500), 0);
    }

    #[test]
    fn few_permits_are_not_divided() {
        assert_eq!(per_node(100, 10), Some(10));
        assert_eq!(per_node(25, 10), Some(2));
        assert_eq!(per_node(19, 10), None);
        assert_eq!(per_node(1, 1), None);
    }
}

//! The rules.

use std::cell::Cell;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_core::facts::Class;
use tidegate_core::rate::permits::{Answer, Keep, PermitId, Renewal};
use tidegate_lab::patience::until;
use tokio::time::sleep;

use crate::backend::{Backend, Servers, Thing, id};

/// A lease that is not over before its rule is, but for the time that a store without memory waits.
const LONG: Duration = Duration::from_millis(1_500);
/// A lease that is soon over.
const SHORT: Duration = Duration::from_millis(150);

pub(crate) async fn all(backend: &Backend) {
    a_store_that_may_have_forgotten_waits_for_a_lease(backend).await;
    weights_are_let_in_while_they_fit(backend).await;
    the_same_permit_is_given_once_and_taken_once(backend).await;
    nobody_releases_what_is_another_life_s(backend).await;
    what_the_dead_held_is_back_after_their_lease(backend).await;
    what_is_renewed_is_kept(backend).await;
    what_is_told_later_is_held_as_far_as_there_is_room(backend).await;
    a_reserve_is_for_its_class_over_all_holders(backend).await;
    a_crowd_never_holds_more_than_there_is(backend).await;
}

/// A thing with so many permits that are given at once.
async fn settled(backend: &Backend, all: u64, lease: Duration) -> Thing {
    let thing = backend.thing(all, lease);
    let first = id(9, 9);
    until("the store gives something", async || {
        match thing.acquire_as(first, 1, Class::Critical).await {
            Ok(Answer::Held { .. }) => Some(()),
            _ => None,
        }
    })
    .await;
    thing.release(&[first]).await;
    thing
}

fn fence(answer: Answer) -> u64 {
    match answer {
        Answer::Held { fence } => fence,
        other => panic!("{other:?}"),
    }
}

fn renewal(id: PermitId, weight: u64, fence: u64, is_known: bool) -> Renewal {
    Renewal {
        id,
        weight,
        class: Class::Anonymous,
        fence,
        is_known,
    }
}

async fn a_store_that_may_have_forgotten_waits_for_a_lease(on: &Backend) {
    let thing = on.thing(10, SHORT);
    // The servers may still be on their way up.
    let (asked, said) = until("the store answers", async || {
        let asked = Instant::now();
        let said = thing.acquire_as(id(1, 1), 1, Class::Anonymous).await;
        Some((asked, said.ok()?))
    })
    .await;

    if !on.may_have_forgotten {
        fence(said);
        return;
    }
    assert!(matches!(said, Answer::Settling { .. }), "{said:?}");
    let held = until("it gives something", async || {
        match thing.acquire(id(1, 1), 1).await {
            Answer::Held { .. } => Some(Instant::now()),
            _ => None,
        }
    })
    .await;
    assert!(held - asked >= SHORT);
}

async fn weights_are_let_in_while_they_fit(on: &Backend) {
    let thing = settled(on, 10, LONG).await;

    let first = fence(thing.acquire(id(1, 1), 6).await);
    assert_eq!(thing.acquire(id(2, 1), 5).await, Answer::Full { free: 4 });
    let second = fence(thing.acquire(id(2, 2), 4).await);
    assert_eq!(thing.acquire(id(2, 3), 11).await, Answer::Never);
    assert_eq!(thing.acquire(id(2, 4), 1).await, Answer::Full { free: 0 });

    assert!(first < second);
}

async fn the_same_permit_is_given_once_and_taken_once(on: &Backend) {
    let thing = settled(on, 10, LONG).await;
    let first = thing.acquire(id(1, 1), 6).await;
    fence(thing.acquire(id(1, 2), 2).await);

    assert_eq!(thing.acquire(id(1, 1), 6).await, first);
    assert_eq!(thing.acquire(id(2, 1), 3).await, Answer::Full { free: 2 });
    for _ in 0..2 {
        thing.release(&[id(1, 1)]).await;
    }
    assert_eq!(thing.acquire(id(2, 1), 9).await, Answer::Full { free: 8 });
    thing.release(&[id(1, 1), id(1, 2), id(1, 1)]).await;
    fence(thing.acquire(id(2, 1), 10).await);
}

async fn nobody_releases_what_is_another_life_s(on: &Backend) {
    let thing = settled(on, 2, LONG).await;
    fence(thing.acquire(id(1, 1), 2).await);

    thing.release(&[id(2, 1), id(1, 2)]).await;

    assert_eq!(thing.acquire(id(2, 1), 1).await, Answer::Full { free: 0 });
}

async fn what_the_dead_held_is_back_after_their_lease(on: &Backend) {
    let thing = settled(on, 10, SHORT).await;
    let asked = Instant::now();
    fence(thing.acquire(id(1, 1), 7).await);

    let back = until("what the dead held is back", async || {
        match thing.acquire(id(2, 1), 10).await {
            Answer::Held { .. } => Some(Instant::now()),
            _ => None,
        }
    })
    .await;

    assert!(back - asked >= SHORT);
}

async fn what_is_renewed_is_kept(on: &Backend) {
    let thing = settled(on, 10, LONG).await;
    let begun = Instant::now();
    let mut renewed = Instant::now();
    let kept = fence(thing.acquire(id(1, 1), 7).await);

    // Two leases long.
    while begun.elapsed() < 2 * LONG {
        sleep(LONG / 10).await;
        let asked = Instant::now();
        let said = thing.renew(&[renewal(id(1, 1), 7, kept, true)]).await;
        // A machine that stops for longer than a lease has lost it, and that is right.
        if renewed.elapsed() >= LONG {
            return;
        }
        assert_eq!(said, [Answer::Held { fence: kept }]);
        renewed = asked;
        let other = thing.acquire(id(2, 1), 4).await;
        let is_given = matches!(other, Answer::Held { .. });
        assert!(!is_given || renewed.elapsed() >= LONG, "{other:?}");
    }
}

async fn what_is_told_later_is_held_as_far_as_there_is_room(on: &Backend) {
    let thing = settled(on, 10, LONG).await;
    fence(thing.acquire(id(1, 1), 4).await);

    let told = [
        renewal(id(2, 1), 5, 77, false),
        renewal(id(2, 2), 2, 78, false),
        renewal(id(2, 3), 1, 79, false),
    ];
    let said = thing.renew(&told).await;

    let held = |fence| Answer::Held { fence };
    assert_eq!(said, [held(77), Answer::Gone, held(79)]);
    assert_eq!(thing.acquire(id(1, 2), 1).await, Answer::Full { free: 0 });
    // What it ought to know, but does not, it asks after.
    thing.release(&[id(2, 1)]).await;
    let said = thing.renew(&[renewal(id(2, 4), 1, 80, true)]).await;
    assert_eq!(said, [held(80)]);
    let said = thing.acquire(id(1, 3), 1).await;
    assert!(matches!(said, Answer::Settling { .. }), "{said:?}");
}

async fn a_reserve_is_for_its_class_over_all_holders(on: &Backend) {
    let mut thing = settled(on, 10, LONG).await;
    thing.terms.keeps[Class::Critical.index()] = Keep {
        reserve: 4,
        idle: 4,
    };

    fence(thing.acquire(id(1, 1), 3).await);
    fence(thing.acquire(id(2, 1), 3).await);
    assert_eq!(thing.acquire(id(1, 2), 1).await, Answer::Full { free: 0 });
    let critical = thing.acquire_as(id(2, 2), 4, Class::Critical).await;

    fence(critical.unwrap());
    // Its own reserve is in use, so what the others give back is theirs again.
    thing.release(&[id(1, 1)]).await;
    fence(thing.acquire(id(2, 3), 3).await);
}

async fn a_crowd_never_holds_more_than_there_is(on: &Backend) {
    let thing = settled(on, 10, 2 * LONG).await;
    let (inside, most, held) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let one = async |life: u64| {
        for number in 0..40 {
            let weight = 1 + (life + number) % 5;
            let said = thing.acquire(id(100 + life, number), weight).await;
            if let Answer::Held { .. } = said {
                inside.set(inside.get() + weight);
                most.set(most.get().max(inside.get()));
                held.set(held.get() + 1);
                tokio::task::yield_now().await;
                inside.set(inside.get() - weight);
                thing.release(&[id(100 + life, number)]).await;
            }
        }
    };

    join_all((0..16).map(one)).await;

    assert!(most.get() <= 10, "{}", most.get());
    assert!(held.get() >= 40, "{}", held.get());
    fence(thing.acquire(id(1, 1), 10).await);
}

/// A store restarts with nothing while somebody holds something.
pub(crate) async fn a_restart(backend: &mut Backend) {
    let thing = settled(backend, 10, LONG).await;
    fence(thing.acquire(id(1, 1), 6).await);
    let Servers::Standalone(server, _) = &mut backend.servers else {
        unreachable!("it was started so")
    };
    server.kill().unwrap();
    server.restart().unwrap();

    let kept = [renewal(id(1, 1), 6, 5, true)];
    let asked = until("the store is told what is held", async || {
        let asked = Instant::now();
        let said = thing.try_renew(&kept).await.ok()?;
        assert_eq!(said, [Answer::Held { fence: 5 }]);
        Some(asked)
    })
    .await;
    let (given, said) = until("the store gives something", async || {
        let said = thing.try_renew(&kept).await.ok()?;
        assert_eq!(said, [Answer::Held { fence: 5 }]);
        let said = thing.acquire_as(id(2, 1), 5, Class::Anonymous).await;
        match said.ok()? {
            Answer::Settling { .. } => None,
            said => Some((Instant::now(), said)),
        }
    })
    .await;

    assert!(given - asked >= LONG);
    assert_eq!(said, Answer::Full { free: 4 });
}

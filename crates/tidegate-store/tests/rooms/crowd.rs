//! A crowd that comes, waits, gives up, sleeps and goes in while a leader moves the line.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use futures_util::future::join_all;
use tidegate_core::rng::Rng;
use tidegate_core::room::{Beaten, Calling, Claim, Tier};
use tokio::task::yield_now;

use crate::backend::{Backend, CALL, Open};

const VISITORS: u64 = 60;
const TRIES_MAX: u64 = 100_000;

pub(crate) async fn all(backend: &Backend) {
    everybody_goes_in_once_and_every_call_is_accounted_for(backend).await;
}

async fn everybody_goes_in_once_and_every_call_is_accounted_for(on: &Backend) {
    let open = on.open().await;
    let inside = RefCell::new(BTreeSet::new());
    let visitors_left = Cell::new(VISITORS);

    let visitor = async |seed| {
        let place = visit(&open, seed).await;
        if let Some(place) = place {
            assert!(inside.borrow_mut().insert(place), "{place:?} is in twice");
        }
        visitors_left.set(visitors_left.get() - 1);
    };
    let leader = async {
        let mut rng = Rng::new(99);
        while visitors_left.get() > 0 {
            let calling = Calling {
                // Some are called for so short that they cannot come.
                claim_ms: [0, 600_000][rng.below(2) as usize],
                ..open.calling(rng.below(5))
            };
            let before = open.look().await.census.tallies.released;
            let said = open.release_as(open.fence, &calling).await.unwrap();
            let again = open.release_as(open.fence, &calling).await.unwrap();
            assert_eq!(said.count, again.count);
            let after = open.look().await.census.tallies.released;
            assert_eq!(after - before, said.count);
            open.settle().await;
            yield_now().await;
        }
    };
    let (_, ()) = tokio::join!(join_all((0..VISITORS).map(visitor)), leader);

    open.settle().await;
    let census = open.look().await.census;
    let tallies = census.tallies;
    assert_eq!(tallies.claimed, inside.borrow().len() as u64);
    assert_eq!(
        tallies.released,
        tallies.claimed + tallies.returned + census.ready
    );
    let waiting: u64 = census.waiting.iter().sum();
    assert_eq!(waiting, tallies.entered - tallies.slept - tallies.released);
    assert!(inside.borrow().len() as u64 > VISITORS / 4, "{tallies:?}");
}

/// What one visitor does; their place once they are in, or `None` if they were called too often.
async fn visit(open: &Open, seed: u64) -> Option<u64> {
    let mut rng = Rng::new(seed);
    let tier = Tier::ALL[rng.below(3) as usize];
    let place = open.join().await;
    for _ in 0..TRIES_MAX {
        match open.beat(place, tier).await {
            Beaten::Waiting(_) if rng.below(8) == 0 => {
                open.room.leave(open.epoch, place, CALL).await.unwrap();
            }
            Beaten::Waiting(_) => {}
            Beaten::Ready { .. } => {
                // Two tabs at once.
                let (one, other) = tokio::join!(open.claim(place), open.claim(place));
                let first = |claim| matches!(claim, Claim::Passed { is_first: true, .. });
                if let Claim::Passed { .. } = one {
                    assert!(first(one) != first(other), "{one:?} {other:?}");
                    return Some(place.0);
                }
            }
            Beaten::Spent => return None,
            other => panic!("{other:?}"),
        }
        yield_now().await;
    }
    panic!("{place:?} was never called")
}

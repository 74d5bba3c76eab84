//! The rules.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate_core::room::{
    Beat, Beaten, Calling, Claim, Denied, Order, Phase, Place, Positions, Rules, Tier, Whereabouts,
};
use tidegate_lab::patience::until;
use tidegate_store::Fence;
use tidegate_store::rooms::RoomError;

use crate::backend::{Backend, CALL, CLAIM, RULES, Servers, node};

const ANY: Tier = Tier::Anonymous;
/// A lease that is not over before its rule is.
const LONG: Duration = Duration::from_secs(600);

pub(crate) async fn all(backend: &Backend) {
    places_follow_each_other(backend).await;
    who_does_not_come_back_with_the_place_is_nobody(backend).await;
    the_position_is_the_rank_in_the_tier_and_all_in_tiers_ahead(backend).await;
    who_is_promoted_stands_among_the_new_tier_where_they_came(backend).await;
    the_silent_leave_the_line_and_wake_where_they_stood(backend).await;
    who_leaves_is_out_at_once(backend).await;
    credit_lets_those_ahead_go_first_only_so_far(backend).await;
    a_claim_is_made_once_however_many_ask(backend).await;
    what_is_not_claimed_comes_back_but_not_for_ever(backend).await;
    the_same_tick_again_calls_nobody(backend).await;
    who_leads_no_more_moves_nobody(backend).await;
    nobody_is_called_while_the_room_is_held(backend).await;
    in_another_epoch_a_place_is_worth_nothing(backend).await;
    so_many_may_wait_and_no_more(backend).await;
    positions_come_from_one_look(backend).await;
    more_time_is_given_so_often_for_one_call(backend).await;
    who_is_too_late_gets_no_more_time(backend).await;
    crate::notices::all(backend).await;
}

fn denied<T>(denied: Denied) -> Result<T, RoomError> {
    Err(RoomError::Denied(denied))
}

async fn places_follow_each_other(on: &Backend) {
    let open = on.open().await;

    let first = open.room.join(open.epoch, 64, CALL).await.unwrap();
    let next = open.join().await;
    let again = open.room.open(None, CALL).await.unwrap();

    assert!(next >= first.plus(64), "{first:?} {next:?}");
    assert_eq!(again, open.epoch);
    let looked = open.look().await;
    assert_eq!(looked.census.tallies.joined, 65);
    let since = looked.now.as_micros() / 1_000 - open.epoch.0;
    assert!(first.since_ms() <= since && since < 60_000, "{since}");
}

async fn who_does_not_come_back_with_the_place_is_nobody(on: &Backend) {
    let open = on.open().await;
    open.room.join(open.epoch, 50, CALL).await.unwrap();

    assert_eq!(open.look().await.census.waiting, [0; 3]);
    assert_eq!(open.release(10).await, 0);
    let beat = Beat {
        place: open.join().await,
        tier: ANY,
        may_enter: false,
    };
    let said = open.room.beat(open.epoch, &[beat], CALL).await.unwrap();
    assert_eq!(said, [Beaten::Ghost]);
}

async fn the_position_is_the_rank_in_the_tier_and_all_in_tiers_ahead(on: &Backend) {
    let open = on.open().await;
    let anonymous = [open.waits(ANY).await, open.waits(ANY).await];
    let signed_in = open.waits(Tier::SignedIn).await;
    let back = open.waits(Tier::Returning).await;

    assert_eq!(open.find(Tier::Returning, back).await.1, 0);
    assert_eq!(open.find(Tier::SignedIn, signed_in).await.1, 1);
    assert_eq!(open.find(ANY, anonymous[1]).await.1, 3);
    assert_eq!(open.release(3).await, 3);

    let waits = (Whereabouts::Waiting(ANY), 0);
    assert_eq!(open.find(ANY, anonymous[1]).await, waits);
    for place in [back, signed_in, anonymous[0]] {
        let (whereabouts, _) = open.find(ANY, place).await;
        assert!(matches!(whereabouts, Whereabouts::Ready(_)));
    }
}

async fn who_is_promoted_stands_among_the_new_tier_where_they_came(on: &Backend) {
    let open = on.open().await;
    let early = open.waits(ANY).await;
    let signed_in = open.waits(Tier::SignedIn).await;
    let promote = async |tier| open.room.promote(open.epoch, early, tier, CALL).await;

    assert_eq!(promote(Tier::SignedIn).await, Ok(true));
    assert_eq!(promote(Tier::SignedIn).await, Ok(false));
    assert_eq!(promote(ANY).await, Ok(false));

    assert_eq!(open.find(Tier::SignedIn, signed_in).await.1, 1);
    // A tab that has the old ticket moves nobody back.
    let still = Beaten::Waiting(Tier::SignedIn);
    assert_eq!(open.beat(early, ANY).await, still);
    // And a new ticket does what a lost promotion would have done.
    let ahead = Beaten::Waiting(Tier::Returning);
    assert_eq!(open.beat(signed_in, Tier::Returning).await, ahead);
    assert_eq!(open.find(Tier::SignedIn, early).await.1, 1);
}

async fn the_silent_leave_the_line_and_wake_where_they_stood(on: &Backend) {
    let open = on.open().await;
    let (silent, later) = (open.waits(ANY).await, open.waits(ANY).await);
    let led = (open.epoch, open.fence);
    let grace = Duration::from_millis(30);

    let (mut slept, mut aged) = (0, 0);
    until("both are asleep", async || {
        let swept = open.room.sweep(led, grace, later, 10, CALL).await.unwrap();
        assert!(!swept.is_more);
        slept += swept.slept[2];
        aged += swept.aged;
        (slept == 2).then_some(())
    })
    .await;

    assert_eq!(aged, 1);
    assert_eq!(open.find(ANY, silent).await.0, Whereabouts::Absent);
    assert_eq!(open.release(2).await, 0);
    for place in [later, silent] {
        assert_eq!(open.beat(place, ANY).await, Beaten::Waiting(ANY));
    }
    assert_eq!(open.find(ANY, silent).await.1, 0);
    assert_eq!(open.find(ANY, later).await.1, 1);
}

async fn who_leaves_is_out_at_once(on: &Backend) {
    let open = on.open().await;
    let (first, second) = (open.waits(ANY).await, open.waits(ANY).await);
    let leave = async |place| open.room.leave(open.epoch, place, CALL).await.unwrap();

    assert!(leave(first).await && !leave(first).await);
    assert_eq!(open.find(ANY, second).await.1, 0);
    assert_eq!(open.release(1).await, 1);
    assert!(leave(second).await);

    let census = open.look().await.census;
    assert_eq!((census.ready, census.tallies.returned), (0, 1));
    assert_eq!(open.beat(first, ANY).await, Beaten::Waiting(ANY));
}

async fn credit_lets_those_ahead_go_first_only_so_far(on: &Backend) {
    let open = on.open().await;
    let place = |ms: u64| Place(ms * 4_096);
    let (early, soon, late) = (place(0), place(10_000), place(20_001));
    assert_eq!(open.beat(early, ANY).await, Beaten::Waiting(ANY));
    for ahead in [soon, late] {
        open.beat(ahead, Tier::Returning).await;
    }

    let mut called = Vec::new();
    for _ in 0..3 {
        let calling = Calling {
            order: Order::Credit([20_000, 0, 0]),
            ..open.calling(1)
        };
        open.release_as(open.fence, &calling).await.unwrap();
        for place in [early, soon, late] {
            let (whereabouts, _) = open.find(ANY, place).await;
            let is_ready = matches!(whereabouts, Whereabouts::Ready(_));
            if is_ready && !called.contains(&place) {
                called.push(place);
            }
        }
    }

    assert_eq!(called, [soon, early, late]);
}

async fn a_claim_is_made_once_however_many_ask(on: &Backend) {
    let open = on.open().await;
    let place = open.waits(ANY).await;
    assert_eq!(open.claim(place).await, Claim::Early);
    open.release(1).await;
    let Beaten::Ready { until_ms } = open.beat(place, ANY).await else {
        panic!("it was called")
    };
    let now_ms = open.look().await.now.as_micros() / 1_000;
    assert!(until_ms.abs_diff(now_ms + CLAIM.as_millis() as u64) < 60_000);

    let said = join_all((0..16).map(|_| open.claim(place))).await;

    let passed = |claim: &Claim| match *claim {
        Claim::Passed { at_ms, is_first } => (at_ms, is_first),
        other => panic!("{other:?}"),
    };
    let said: Vec<_> = said.iter().map(passed).collect();
    assert_eq!(said.iter().filter(|(_, is_first)| *is_first).count(), 1);
    let at_ms = said[0].0;
    assert!(said.iter().all(|(at, _)| *at == at_ms), "{said:?}");
    assert_eq!(open.beat(place, ANY).await, Beaten::Passed { at_ms });
}

async fn what_is_not_claimed_comes_back_but_not_for_ever(on: &Backend) {
    let open = on.open().await;
    let place = open.waits(ANY).await;
    for miss in 1..=RULES.misses_max {
        let calling = Calling {
            claim_ms: 1,
            ..open.calling(1)
        };
        let called = open.release_as(open.fence, &calling).await.unwrap();
        assert_eq!(called.count, 1);
        until("it was not claimed", async || {
            (open.settle().await == 1).then_some(())
        })
        .await;
        let expected = if miss == RULES.misses_max {
            Beaten::Spent
        } else {
            Beaten::Waiting(ANY)
        };
        assert_eq!(open.beat(place, ANY).await, expected);
    }

    let census = open.look().await.census;
    let max = u64::from(RULES.misses_max);
    assert_eq!((census.ready, census.tallies.returned), (0, max));
    assert_eq!(open.claim(place).await, Claim::Early);
}

async fn the_same_tick_again_calls_nobody(on: &Backend) {
    let open = on.open().await;
    for _ in 0..9 {
        open.waits(ANY).await;
    }
    let calling = open.calling(2);
    let release = async |fence, calling: &Calling| {
        let said = open.release_as(Fence(fence), calling).await;
        said.map(|released| released.count)
    };

    assert_eq!(release(5, &calling).await, Ok(2));
    assert_eq!(release(5, &calling).await, Ok(2));
    let older = Calling { tick: 0, ..calling };
    assert_eq!(release(5, &older).await, denied(Denied::Stale));
    let next = open.calling(2);
    assert_eq!(release(4, &next).await, denied(Denied::Deposed { by: 5 }));
    // A new leader counts its own ticks.
    assert_eq!(release(6, &calling).await, Ok(2));

    let census = open.look().await.census;
    assert_eq!((census.ready, census.waiting), (4, [0, 0, 5]));
}

async fn who_leads_no_more_moves_nobody(on: &Backend) {
    let open = on.open().await;
    for _ in 0..4 {
        open.waits(ANY).await;
    }
    let (a, b) = (node("a"), node("b"));
    let old = open.lead_at_last(&a, LONG).await;
    assert_eq!(open.lead_at_last(&a, LONG).await, old);
    let others = open.room.lead(&b, LONG, CALL).await.unwrap();
    assert!(matches!(others, tidegate_store::Taken::Others { .. }));
    assert_eq!(
        open.release_as(old, &open.calling(1)).await.unwrap().count,
        1
    );

    assert!(open.room.resign(old, CALL).await.unwrap());
    let new = open.lead_at_last(&b, LONG).await;

    // Nothing was done by the new one yet, and still.
    assert!(new > old);
    let deposed = Denied::Deposed { by: new.0 };
    let led = (open.epoch, old);
    let said = open.release_as(old, &open.calling(1)).await;
    assert_eq!(said, denied(deposed));
    assert_eq!(open.room.settle(led, 10, CALL).await, denied(deposed));
    let swept = open.room.sweep(led, Duration::ZERO, Place(0), 10, CALL);
    assert_eq!(swept.await, denied(deposed));
    assert_eq!(
        open.release_as(new, &open.calling(2)).await.unwrap().count,
        2
    );
    assert_eq!(open.look().await.census.tallies.released, 3);
}

async fn nobody_is_called_while_the_room_is_held(on: &Backend) {
    let open = on.open().await;
    let place = open.waits(ANY).await;
    let set = async |phase| open.room.set_phase(open.epoch, phase, CALL).await;

    assert_eq!(set(Some(Phase::Hold)).await, Ok(None));
    assert_eq!(open.look().await.phase, Some(Phase::Hold));
    let said = open.release_as(open.fence, &open.calling(1)).await;
    assert_eq!(said, denied(Denied::Phase(Phase::Hold)));
    assert_eq!(open.claim(place).await, Claim::Early);
    for phase in Phase::ALL {
        set(Some(phase)).await.unwrap();
        assert_eq!(open.look().await.phase, Some(phase));
        let said = open.release_as(open.fence, &open.calling(0)).await;
        assert_eq!(said.is_ok(), phase.releases(), "{phase:?}: {said:?}");
    }
    set(None).await.unwrap();

    assert_eq!(open.look().await.phase, None);
    assert_eq!(open.release(1).await, 1);
}

async fn in_another_epoch_a_place_is_worth_nothing(on: &Backend) {
    let open = on.open().await;
    let place = open.waits(ANY).await;

    let next = open.room.turn(open.epoch, CALL).await.unwrap();

    assert!(next > open.epoch);
    let said = denied(Denied::Epoch(next));
    assert_eq!(open.room.join(open.epoch, 1, CALL).await, said);
    let said = denied(Denied::Epoch(next));
    assert_eq!(open.room.claim(open.epoch, place, CALL).await, said);
    let said = denied(Denied::Epoch(next));
    assert_eq!(open.room.turn(open.epoch, CALL).await, said);
    assert_eq!(open.room.open(Some(open.epoch), CALL).await, Ok(next));
    let looked = open.room.look(next, Place(0), CALL).await.unwrap();
    assert_eq!(looked.census.waiting, [0; 3]);
}

async fn so_many_may_wait_and_no_more(on: &Backend) {
    let open = on
        .open_with(Rules {
            waiting_max: 2,
            ..RULES
        })
        .await;
    for _ in 0..2 {
        open.waits(ANY).await;
    }

    let one_more = open.join().await;

    assert_eq!(open.beat(one_more, ANY).await, Beaten::Full);
    open.release(1).await;
    assert_eq!(open.beat(one_more, ANY).await, Beaten::Waiting(ANY));
}

async fn positions_come_from_one_look(on: &Backend) {
    let open = on.open().await;
    let first = open.room.join(open.epoch, 400, CALL).await.unwrap();
    let beats: Vec<_> = (0..400)
        .map(|number| Beat {
            place: first.plus(number),
            tier: Tier::ALL[(number % 2) as usize + 1],
            may_enter: true,
        })
        .collect();
    for some in beats.chunks(200) {
        open.room.beat(open.epoch, some, CALL).await.unwrap();
    }

    let aged = first.plus(100);
    let looked = open.room.look(open.epoch, aged, CALL).await.unwrap();

    assert_eq!(looked.census.aged, 100);
    assert_eq!(looked.census.waiting, [0, 200, 200]);
    let positions = Positions::of(Order::Strict, &looked.census);
    for beat in beats.iter().step_by(7) {
        let (_, exact) = open.find(beat.tier, beat.place).await;
        let told = positions.ahead(beat.tier, beat.place);
        assert!(told.abs_diff(exact) <= 50, "{told} for {exact}");
    }
}

async fn more_time_is_given_so_often_for_one_call(on: &Backend) {
    let open = on.open().await;
    let place = open.waits(ANY).await;
    let extend = async |most| {
        let extended = open.room.extend(open.epoch, place, 600_000, most, CALL);
        extended.await.unwrap()
    };
    assert_eq!(extend(2).await, None, "it is not their turn");
    assert_eq!(open.release(1).await, 1);

    let first = extend(2).await.unwrap();
    let second = extend(2).await.unwrap();

    assert_eq!((first.left, second.left), (1, 0));
    assert!(first.until_ms <= second.until_ms);
    assert_eq!(extend(2).await, None, "they have had that");
    let ready = Beaten::Ready {
        until_ms: second.until_ms,
    };
    assert_eq!(open.beat(place, ANY).await, ready);
    assert_eq!(
        open.find(ANY, place).await.0,
        Whereabouts::Ready(second.until_ms)
    );
    assert_eq!(open.settle().await, 0);
    assert_eq!(open.look().await.census.ready, 1);

    // Called again they may ask again.
    assert!(open.room.leave(open.epoch, place, CALL).await.unwrap());
    assert_eq!(open.beat(place, ANY).await, Beaten::Waiting(ANY));
    assert_eq!(open.release(1).await, 1);
    assert_eq!(extend(1).await.map(|more| more.left), Some(0));
    let claim = open.claim(place).await;
    assert!(
        matches!(claim, Claim::Passed { is_first: true, .. }),
        "{claim:?}"
    );
    assert_eq!(extend(9).await, None);
}

async fn who_is_too_late_gets_no_more_time(on: &Backend) {
    let open = on.open().await;
    let place = open.waits(ANY).await;
    let calling = Calling {
        claim_ms: 1,
        ..open.calling(1)
    };
    open.release_as(open.fence, &calling).await.unwrap();
    let Whereabouts::Ready(until_ms) = open.find(ANY, place).await.0 else {
        panic!("it was called")
    };
    until("it is over", async || {
        let now_ms = open.look().await.now.as_micros() / 1_000;
        (now_ms >= until_ms).then_some(())
    })
    .await;

    let extended = open.room.extend(open.epoch, place, 600_000, 9, CALL);

    assert_eq!(extended.await, Ok(None));
    assert_eq!(open.claim(place).await, Claim::Late);
}

/// A store restarts with nothing while people wait.
pub(crate) async fn a_restart(backend: &mut Backend) {
    const MANY: u64 = 1_000;
    backend.wait_until_ready().await;
    let open = backend
        .open_with(Rules {
            settle_ms: LONG.as_millis() as u64,
            ..RULES
        })
        .await;
    let mut places = Vec::new();
    for _ in 0..MANY {
        places.push(open.waits(ANY).await);
    }
    let (notes, word) = ([("stock", Some(&b"7"[..]))], Some((open.fence, &b"w"[..])));
    let board = open.says("a", word, &notes).await.unwrap();
    assert_eq!((board.word.is_some(), board.notes.len()), (true, 1));
    let Servers::Standalone(server, _) = &mut backend.servers else {
        unreachable!("it was started so")
    };
    server.kill().unwrap();
    server.restart().unwrap();

    // Somebody new comes first, then those who stood there, the last one first.
    let new = until("the store gives a place", async || {
        open.room.join(open.epoch, 1, CALL).await.ok()
    })
    .await;
    assert_eq!(open.beat(new, ANY).await, Beaten::Waiting(ANY));
    // What was said to all is gone with the line, and that shows.
    let board = open.says("b", None, &[]).await.unwrap();
    assert_eq!((board.word, board.notes.len()), (None, 0));
    assert!(open.look().await.census.settles_ms > 0);
    let calling = Calling {
        enough: MANY + 1,
        ..open.calling(MANY)
    };
    for (back, place) in places.iter().rev().enumerate() {
        if back % 50 == 0 {
            // Nobody is called meanwhile.
            let said = open.release_as(open.fence, &calling).await;
            let Err(RoomError::Denied(Denied::Settling { alive, .. })) = said else {
                panic!("{said:?} with {back} back")
            };
            assert_eq!(alive, back as u64 + 1);
        }
        assert_eq!(open.beat(*place, ANY).await, Beaten::Waiting(ANY));
    }

    for (rank, place) in places.iter().enumerate() {
        let waits = (Whereabouts::Waiting(ANY), rank as u64);
        assert_eq!(open.find(ANY, *place).await, waits);
    }
    let said = open.release_as(open.fence, &calling).await;
    assert_eq!(said.unwrap().count, MANY);
    assert_eq!(open.find(ANY, new).await, (Whereabouts::Waiting(ANY), 0));
}

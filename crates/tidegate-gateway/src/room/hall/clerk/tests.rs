use tidegate_core::room::{Calling, Phase, Whereabouts};
use tidegate_page::Language;
use tidegate_page::document::Reason;
use tidegate_store::embedded::{Embedded, EmbeddedPlan};
use tidegate_store::rooms::{RoomStore, RoomTable};
use tidegate_store::{Call, Fence};

use super::*;
use crate::room::PassId;
use crate::room::hall::RoomOrder;
use crate::room::lead::tests::plan;

/// Longer than anything takes here, however slow the machine.
const PATIENT: Duration = Duration::from_secs(60);
const CALL: Call = Call::within(PATIENT);
const ANY: Tier = Tier::Anonymous;

/// A clerk whose room is open, and what its tasks are asked for.
async fn open() -> (Arc<Clerk>, Asked, Epoch) {
    let store = Embedded::start(EmbeddedPlan::at(None)).unwrap();
    let rooms = RoomStore::Embedded(Arc::new(RoomTable::new(store)));
    let plan = plan();
    let room = rooms.room(&plan.tokens.room, plan.rules);
    let epoch = room.open(None, CALL).await.unwrap();
    let (clerk, asked) = Clerk::new(&plan, room, Clock::start(), PATIENT);
    clerk.learn(epoch);
    (Arc::new(clerk), asked, epoch)
}

/// One whose tasks run.
async fn working() -> (Arc<Clerk>, Epoch) {
    let (clerk, (joins, beats), epoch) = open().await;
    tokio::spawn(batch::give_places(Arc::clone(&clerk.inner), joins));
    tokio::spawn(batch::hear_beats(Arc::clone(&clerk.inner), beats));
    (clerk, epoch)
}

fn beat(place: Place) -> Beat {
    Beat {
        place,
        tier: ANY,
        may_enter: true,
    }
}

#[tokio::test]
async fn whoever_asks_first_stands_first_and_everybody_is_answered() {
    let (clerk, epoch) = working().await;
    let asking: Vec<_> = (0..500)
        .map(|_| {
            let clerk = Arc::clone(&clerk);
            tokio::spawn(async move { clerk.join().await })
        })
        .collect();

    let mut places = Vec::new();
    for joined in asking {
        let joined = joined.await.unwrap().unwrap();
        assert_eq!((joined.epoch, joined.flags), (epoch, TicketFlags(0)));
        assert_eq!(joined.arrived, epoch.arrival(joined.place));
        places.push(joined.place);
    }

    assert!(places.is_sorted_by(|one, next| one < next));
    let looked = clerk.room().look(epoch, Place(0), CALL).await.unwrap();
    assert_eq!(looked.census.tallies.joined, 500);
}

#[tokio::test]
async fn everybody_hears_what_becomes_of_them_and_not_of_others() {
    let (clerk, epoch) = working().await;
    let asking: Vec<_> = (0..600_u64)
        .map(|number| {
            let clerk = Arc::clone(&clerk);
            let beat = Beat {
                may_enter: number % 3 > 0,
                ..beat(Place(10 + number))
            };
            tokio::spawn(async move { clerk.beat(epoch, beat).await })
        })
        .collect();

    for (number, heard) in asking.into_iter().enumerate() {
        let expected = if number % 3 > 0 {
            Beaten::Waiting(ANY)
        } else {
            Beaten::Ghost
        };
        assert_eq!(heard.await.unwrap(), Ok(expected), "{number}");
    }
}

#[tokio::test]
async fn when_too_many_ask_the_next_is_told_so_at_once() {
    // Nobody works here.
    let (clerk, _asked, epoch) = open().await;
    let mut answers = Vec::new();
    for _ in 0..JOINS_WAITING_MAX {
        let (answer, answered) = oneshot::channel();
        clerk.joins.try_send(answer).unwrap();
        answers.push(answered);
    }
    for number in 0..BEATS_WAITING_MAX as u64 {
        let asked = BeatAsked {
            epoch,
            beat: beat(Place(number)),
            answer: oneshot::channel().0,
        };
        assert!(clerk.beats.try_send(asked).is_ok());
    }

    assert_eq!(clerk.join().await, Err(ClerkError::Busy));
    let heard = clerk.beat(epoch, beat(Place(1))).await;
    assert_eq!(heard, Err(ClerkError::Busy));
}

#[tokio::test]
async fn who_comes_while_the_store_does_not_answer_gets_a_place_that_no_store_gives() {
    let (clerk, epoch) = working().await;
    let before = clerk.join().await.unwrap();
    clerk.cut(true);

    let (one, next) = (clerk.join().await.unwrap(), clerk.join().await.unwrap());

    assert!(before.place < one.place && one.place < next.place);
    assert_eq!(one.flags, TicketFlags::PROVISIONAL);
    assert_eq!(one.epoch, epoch);
    let away = Err(ClerkError::Away);
    assert_eq!(clerk.beat(epoch, beat(one.place)).await, away);
    assert_eq!(clerk.claim(epoch, one.place).await.err(), away.err());

    clerk.cut(false);
    let back = clerk.beat(epoch, beat(one.place)).await;
    assert_eq!(back, Ok(Beaten::Waiting(ANY)));
    let later = clerk.join().await.unwrap();
    assert!(one.place < later.place);
    assert_eq!(later.flags, TicketFlags(0));
}

#[tokio::test]
async fn without_the_store_its_own_line_answers_in_the_order_of_places() {
    let (clerk, epoch) = working().await;
    let mut places = Vec::new();
    for _ in 0..5 {
        places.push(clerk.join().await.unwrap().place);
    }
    clerk.cut(true);
    clerk.go(Mode::Alone);
    for place in places.iter().rev() {
        let heard = clerk.beat(epoch, beat(*place)).await;
        assert_eq!(heard, Ok(Beaten::Waiting(ANY)));
    }
    let found = clerk.find(epoch, ANY, places[3]).await.unwrap();
    assert_eq!(
        (found.whereabouts, found.ahead),
        (Whereabouts::Waiting(ANY), 3)
    );

    let there = clerk.now_there();
    let call =
        |ms| clerk.with_own(|own| own.call((Mono::from_millis(ms), there), epoch, 4.0, 0, 600_000));
    assert_eq!((call(0), call(500)), (0, 2));

    let heard = clerk.beat(epoch, beat(places[1])).await.unwrap();
    assert!(matches!(heard, Beaten::Ready { .. }), "{heard:?}");
    for (place, is_called) in [(places[0], true), (places[1], true), (places[2], false)] {
        let claim = clerk.claim(epoch, place).await.unwrap();
        let is_in = matches!(claim, Claim::Passed { is_first: true, .. });
        assert_eq!(is_in, is_called, "{claim:?}");
    }
    let again = clerk.claim(epoch, places[0]).await.unwrap();
    assert!(matches!(
        again,
        Claim::Passed {
            is_first: false,
            ..
        }
    ));
    assert_eq!(clerk.with_own(|own| own.let_in()), 2);
    assert_eq!(clerk.leave(epoch, places[4]).await, Ok(true));
    let left = clerk.with_own(|own| own.take_waiting(there, 10));
    let left: Vec<_> = left.iter().map(|beat| beat.place).collect();
    assert_eq!(left, places[2..4]);
}

#[tokio::test]
async fn where_nobody_is_let_in_without_the_store_nobody_is() {
    let (clerk, epoch) = working().await;
    clerk.cut(true);
    clerk.go(Mode::Held);

    let place = clerk.join().await.unwrap().place;

    let heard = clerk.beat(epoch, beat(place)).await;
    assert_eq!(heard, Ok(Beaten::Waiting(ANY)));
    assert_eq!(clerk.claim(epoch, place).await, Err(ClerkError::Held));
}

#[tokio::test]
async fn who_was_called_without_the_store_keeps_that_turn_when_it_is_back() {
    let (clerk, epoch) = working().await;
    clerk.cut(true);
    clerk.go(Mode::Alone);
    let place = clerk.join().await.unwrap().place;
    clerk.beat(epoch, beat(place)).await.unwrap();
    let there = clerk.now_there();
    for ms in [0, 1_000] {
        let when = (Mono::from_millis(ms), there);
        clerk.with_own(|own| own.call(when, epoch, 1.0, 0, 600_000));
    }

    clerk.cut(false);
    clerk.go(Mode::Stored);

    let heard = clerk.beat(epoch, beat(place)).await.unwrap();
    assert!(matches!(heard, Beaten::Ready { .. }), "{heard:?}");
    let claim = clerk.claim(epoch, place).await.unwrap();
    assert!(matches!(claim, Claim::Passed { is_first: true, .. }));
    assert_eq!(clerk.with_own(|own| own.take_passed()), Some(place));
}

#[tokio::test]
async fn after_a_turn_new_places_are_of_the_new_epoch_and_old_ones_are_void() {
    let (clerk, epoch) = working().await;
    let old = clerk.join().await.unwrap().place;
    let next = clerk.room().turn(epoch, CALL).await.unwrap();

    let joined = clerk.join().await.unwrap();

    assert_eq!((joined.epoch, clerk.epoch()), (next, (Some(next), true)));
    let void = Err(ClerkError::Epoch(next));
    assert_eq!(clerk.beat(epoch, beat(old)).await, void);
    let found = clerk.find(epoch, ANY, old).await;
    assert_eq!(found, Err(ClerkError::Epoch(next)));
}

#[tokio::test]
async fn without_the_store_the_first_ticket_says_which_epoch_it_is() {
    let store = Embedded::start(EmbeddedPlan::at(None)).unwrap();
    let rooms = RoomStore::Embedded(Arc::new(RoomTable::new(store)));
    let plan = plan();
    let room = rooms.room(&plan.tokens.room, plan.rules);
    let (clerk, _asked) = Clerk::new(&plan, room, Clock::start(), PATIENT);
    clerk.go(Mode::Alone);
    assert_eq!(clerk.join().await, Err(ClerkError::Away));

    let heard = clerk.beat(Epoch(7), beat(Place(3))).await;

    assert_eq!(heard, Ok(Beaten::Waiting(ANY)));
    assert_eq!(clerk.epoch(), (Some(Epoch(7)), false));
    assert_eq!(clerk.join().await.unwrap().epoch, Epoch(7));
    let older = clerk.beat(Epoch(6), beat(Place(3))).await;
    assert_eq!(older, Err(ClerkError::Epoch(Epoch(7))));
    clerk.learn(Epoch(5));
    assert_eq!(clerk.epoch(), (Some(Epoch(5)), true), "the store knows");
}

#[tokio::test]
async fn a_place_that_was_called_is_let_in_once_by_the_store() {
    let (clerk, epoch) = working().await;
    let place = clerk.join().await.unwrap().place;
    clerk.beat(epoch, beat(place)).await.unwrap();
    let early = clerk.claim(epoch, place).await;
    assert_eq!(early, Ok(Claim::Early));

    let calling = Calling {
        order: plan().order,
        tick: 1,
        count: 1,
        claim_ms: 60_000,
        grace_ms: 600_000,
        enough: 0,
    };
    let by = (epoch, Fence(1));
    clerk.room().release(by, &calling, CALL).await.unwrap();

    let extended = clerk.extend(epoch, place).await.unwrap();
    assert!(extended.is_some(), "they may ask for more time");
    for is_first in [true, false] {
        let claim = clerk.claim(epoch, place).await.unwrap();
        let is_now = matches!(claim, Claim::Passed { is_first: true, .. });
        assert_eq!(is_now, is_first);
    }
}

#[tokio::test]
async fn an_order_is_carried_out_in_the_store_and_known_here_at_once() {
    let (clerk, epoch) = working().await;
    let order = async |order| clerk.order(order).await;
    let nobody = order(RoomOrder::Stock(Some(5))).await;
    assert_eq!(nobody, Err(ClerkError::Away), "nobody knows who gives it");
    clerk.seat(Name::new("gw1").unwrap());

    order(RoomOrder::Stock(Some(2_500))).await.unwrap();
    order(RoomOrder::Phase(Some(Phase::Hold))).await.unwrap();
    order(RoomOrder::RevokeBefore(1_796_000_000)).await.unwrap();
    order(RoomOrder::RevokeBefore(5)).await.unwrap();
    let id = PassId([7; 16]);
    order(RoomOrder::Revoke(id, u32::MAX)).await.unwrap();

    let notes = clerk.notes();
    assert_eq!(notes.stock, Some(2_500));
    assert_eq!(notes.revoked.issued_from_s, 1_796_000_000);
    assert!(notes.revoked.has(id, 1_796_000_001));
    let looked = clerk.room().look(epoch, Place(0), CALL).await.unwrap();
    assert_eq!(looked.phase, Some(Phase::Hold));

    order(RoomOrder::Close(Reason::SoldOut)).await.unwrap();
    assert_eq!(clerk.notes().reason, Some(Reason::SoldOut));
    order(RoomOrder::Phase(None)).await.unwrap();
    assert_eq!(clerk.notes().reason, None, "it goes on");
    order(RoomOrder::Turn).await.unwrap();
    let (next, is_told) = clerk.epoch();
    assert!(is_told && next > Some(epoch));
    assert_eq!(clerk.notes().stock, Some(2_500), "it outlives an epoch");
}

#[tokio::test]
async fn what_is_too_long_for_all_to_know_is_refused() {
    let (clerk, _) = working().await;
    clerk.seat(Name::new("gw1").unwrap());
    let message = BTreeMap::from([(Language::En, "x".repeat(NOTE_MAX))]);

    let said = clerk.order(RoomOrder::Message(Some(message))).await;

    assert_eq!(said, Err(ClerkError::Busy));
    assert_eq!(clerk.notes().message, None);
}

use std::pin::pin;
use std::task::{Context, Waker};

use tidegate_core::rate::share::aggregate::AggregatePlan;
use tidegate_core::rate::share::following::Roll;
use tidegate_core::rate::share::lease::Lessor;
use tidegate_core::rate::{Algorithm, Rate};

use super::*;

const SECOND: u64 = 1_000_000;
/// Of a node that has never reached the store.
fn nobody() -> Following {
    Following::new(Life(1), 3 * SECOND)
}

/// Of a node that is a member since a moment ago, and the only one.
fn joined_alone(now: u64) -> Following {
    let (mut following, mut roll) = (nobody(), Roll::new(Tick(0)));
    for at in [now - 4 * SECOND, now - 2 * SECOND, now].map(Tick) {
        assert!(roll.renew(at, Life(1), following.follows(), 3 * SECOND));
        following.take(at, at, &roll.membership(at)).unwrap();
    }
    assert_eq!(following.last(), Some(1));
    following
}

fn limit(rate: &str, mode: FleetMode, on_loss: OnLoss) -> Limit {
    let rate: Rate = rate.parse().unwrap();
    let spec = Spec::new(Algorithm::Bucket, rate, None).unwrap();
    Limit::new(spec, FleetPlan { mode, on_loss }, 10)
}

fn take(seat: &mut Seat, limit: &Limit, now: u64) -> Here {
    seat.take(limit, &nobody(), Life(7), Tick(now), 1)
}

fn message(seat: &mut Seat, now: u64) -> Option<Message> {
    seat.message(Tick(now), &mut Rng::new(1))
}

/// Answers what the seat has to ask, at once.
fn answer(seat: &mut Seat, lessor: &mut Lessor, now: u64) {
    let asked = message(seat, now).unwrap();
    let Message::Ask(ask) = asked else {
        panic!("{asked:?}");
    };
    let grant = lessor.ask(Tick(now), &ask);
    seat.answered(&asked, Reply::Granted(grant), Tick(now));
}

#[test]
fn a_leased_key_asks_and_then_spends_by_itself() {
    let mode = FleetMode::Lease(LeasePlan::usual(100));
    let limit = limit("100/s", mode, OnLoss::Closed);
    let whole = limit.bucket.unwrap().whole;
    let mut lessor = Lessor::new(whole, LeasePlan::usual(100), Tick(0));
    let mut seat = Seat::new(0, &limit, Life(1), Tick(0));
    assert!(matches!(take(&mut seat, &limit, 0), Here::Ask(_)));

    answer(&mut seat, &mut lessor, 1);

    assert!(matches!(take(&mut seat, &limit, 2), Here::Passed(By::Seat)));
    assert_eq!(seat.ahead(Tick(2)), 0);
    seat.give_back(&limit, &nobody(), By::Seat, Tick(3), 1);
    assert_eq!(seat.ahead(Tick(3)), 1);
    // What is left goes back at the end.
    let last = seat.close(Tick(4), &mut Rng::new(1));
    assert!(matches!(last, Some(Message::Ask(ask)) if ask.returned == 1 && ask.wanted == 0));
}

#[test]
fn without_an_answer_a_key_is_lost_until_it_is_asked_again_in_a_while() {
    let mode = FleetMode::Lease(LeasePlan::usual(100));
    let limit = limit("100/s", mode, OnLoss::Closed);
    let mut seat = Seat::new(0, &limit, Life(1), Tick(0));
    take(&mut seat, &limit, 0);
    let asked = message(&mut seat, 0).unwrap();

    seat.unanswered(&asked, Tick(8_000));

    assert!(matches!(take(&mut seat, &limit, 9_000), Here::Lost));
    assert_eq!(seat.due_at(), Some(Tick(8_000 + RETRY_US)));
    assert_eq!(message(&mut seat, 9_000), Some(asked));
    assert_eq!(seat.due_at(), None);
}

#[test]
fn a_key_that_is_asked_for_often_is_leased_until_it_has_cooled_down() {
    let limit = limit("100000/s", FleetMode::Shared, OnLoss::Closed);
    let whole = limit.bucket.unwrap().whole;
    let mut lessor = Lessor::new(whole, LeasePlan::usual(whole.burst()), Tick(0));
    let mut seat = Seat::new(0, &limit, Life(1), Tick(0));
    for number in 0..200 {
        let here = take(&mut seat, &limit, number * 1_000);
        assert!(matches!(here, Here::Store), "{here:?}");
    }

    assert!(matches!(take(&mut seat, &limit, 200_000), Here::Ask(_)));
    answer(&mut seat, &mut lessor, 200_000);
    let here = take(&mut seat, &limit, 200_001);
    assert!(matches!(here, Here::Passed(By::Seat)) && seat.is_hot());

    let later = 20 * SECOND;
    for second in 0..14 {
        take(&mut seat, &limit, later + second * SECOND);
        if message(&mut seat, later + second * SECOND).is_some() {
            break;
        }
    }
    let here = take(&mut seat, &limit, later + 14 * SECOND);
    assert!(matches!(here, Here::Store), "{here:?}");
}

#[test]
fn without_the_store_each_limit_does_what_it_says() {
    let apart = |on_loss| {
        let limit = limit("100/s", FleetMode::Shared, on_loss);
        let mut seat = Seat::new(0, &limit, Life(1), Tick(0));
        let passed = (0..50).filter(|_| {
            let here = seat.take_apart(&limit, &nobody(), Tick(0), 1);
            matches!(here, Some(Here::Passed(_)))
        });
        passed.count()
    };

    assert_eq!(apart(OnLoss::Closed), 0);
    assert_eq!(apart(OnLoss::Open), 50);
    // One part in ten, as it has never heard of others.
    assert_eq!(apart(OnLoss::Local), 10);
}

#[test]
fn without_the_store_a_key_begins_with_its_part_and_is_kept_until_that_is_full() {
    let hour = 3_600 * SECOND;
    let modes = [
        FleetMode::Shared,
        FleetMode::Lease(LeasePlan::usual(20)),
        FleetMode::Aggregate(AggregatePlan::usual(100)),
    ];
    for mode in modes {
        let limit = limit("20/h", mode, OnLoss::Local);
        let mut seat = Seat::new(0, &limit, Life(1), Tick(hour));
        let passed = |seat: &mut Seat, parts: &Following, now| {
            let asked = (0..25).filter(|_| {
                let here = seat.take_apart(&limit, parts, Tick(now), 1);
                matches!(here, Some(Here::Passed(By::Apart)))
            });
            asked.count()
        };
        // It has just joined, as the only one, and has all of the limit.
        let parts = joined_alone(hour);

        assert_eq!(passed(&mut seat, &parts, hour), 20, "{mode:?}");
        assert!(seat.is_needed(&limit, &parts, Tick(hour + 60 * SECOND)));
        assert_eq!(passed(&mut seat, &parts, hour + hour / 2), 10, "{mode:?}");
        assert!(!seat.is_needed(&limit, &parts, Tick(3 * hour)));
    }
}

#[test]
fn a_reporting_key_says_what_it_has_spent() {
    let mode = FleetMode::Aggregate(AggregatePlan::usual(100));
    let limit = limit("100/s", mode, OnLoss::Closed);
    let mut seat = Seat::new(0, &limit, Life(1), Tick(0));
    assert!(matches!(take(&mut seat, &limit, 0), Here::Passed(By::Seat)));
    assert_eq!(seat.unreported(), 1);

    let said = message(&mut seat, 0).unwrap();

    assert!(matches!(said, Message::Report(report) if report.spent == 1));
    let credits = limit.bucket.unwrap().whole.credits_when_full();
    seat.answered(&said, Reply::Told(Told { seq: 1, credits }), Tick(1));
    assert_eq!(seat.unreported(), 0);
}

#[test]
fn a_reporting_key_that_is_to_hear_of_the_store_first_asks_it_at_once() {
    let mode = FleetMode::Aggregate(AggregatePlan::usual(100));
    let limit = limit("100/s", mode, OnLoss::Closed);
    let mut seat = Seat::new(0, &limit, Life(1), Tick(0));
    // What it said last was answered a moment ago.
    take(&mut seat, &limit, 0);
    let said = message(&mut seat, 0).unwrap();
    let credits = limit.bucket.unwrap().whole.credits_when_full();
    seat.answered(&said, Reply::Told(Told { seq: 1, credits }), Tick(1));

    assert!(matches!(seat.hear_first(Tick(2)), Here::Ask(_)));

    let said = message(&mut seat, 2).unwrap();
    assert!(matches!(said, Message::Report(report) if report.spent == 0));
    seat.unanswered(&said, Tick(8_000));
    assert!(matches!(seat.hear_first(Tick(9_000)), Here::Ask(_)));
    assert_eq!(message(&mut seat, 9_000), Some(said));
}

#[test]
fn of_a_key_without_tokens_to_spare_one_request_asks_at_a_time() {
    let limit = limit("10/s", FleetMode::Shared, OnLoss::Closed);
    let mut seat = Seat::new(0, &limit, Life(1), Tick(0));
    // Nothing is known: everybody asks.
    assert!(
        seat.take_turn(Standing::Enforced).is_ok() && seat.take_turn(Standing::Enforced).is_ok()
    );

    seat.end_turn(Some(false));
    assert!(seat.take_turn(Standing::Enforced).is_ok());
    assert!(seat.take_turn(Standing::Enforced).is_err());
    // Nobody has answered: the next may ask.
    seat.end_turn(None);
    assert!(seat.take_turn(Standing::Enforced).is_ok());

    seat.end_turn(Some(true));
    assert!(
        seat.take_turn(Standing::Enforced).is_ok() && seat.take_turn(Standing::Enforced).is_ok()
    );
}

#[test]
fn nobody_waits_for_a_turn_at_a_limit_in_the_shadow() {
    let limit = limit("10/s", FleetMode::Shared, OnLoss::Closed);
    let mut seat = Seat::new(0, &limit, Life(1), Tick(0));

    for _ in 0..3 {
        seat.end_turn(Some(false));
        assert!(seat.take_turn(Standing::Shadow).is_ok());
        assert!(seat.take_turn(Standing::Shadow).is_ok());
    }
}

#[test]
fn tokens_that_come_back_once_their_lease_is_over_are_known_to_be_lost() {
    let limit = limit("10/s", FleetMode::Shared, OnLoss::Closed);
    let mut seat = Seat::new(0, &limit, Life(1), Tick(0));

    // As it was leased when they were spent.
    assert!(!seat.give_back(&limit, &nobody(), By::Seat, Tick(1), 1));

    let at_store = By::Store(Tick(0));
    assert!(seat.give_back(&limit, &nobody(), at_store, Tick(1), 1));
}

#[test]
fn who_waits_at_a_seat_that_is_dropped_is_told() {
    let mode = FleetMode::Lease(LeasePlan::usual(100));
    let limit = limit("100/s", mode, OnLoss::Closed);
    let mut seat = Seat::new(0, &limit, Life(1), Tick(0));
    let Here::Ask(bell) = take(&mut seat, &limit, 0) else {
        panic!("it has nothing yet");
    };
    let mut bell = pin!(bell);
    let mut context = Context::from_waker(Waker::noop());
    assert!(bell.as_mut().poll(&mut context).is_pending());

    seat.close(Tick(1), &mut Rng::new(1));

    assert!(bell.as_mut().poll(&mut context).is_ready());
}

#[test]
fn what_is_not_reported_yet_is_not_forgotten_however_idle_its_key() {
    let plan = AggregatePlan::usual(100);
    let limit = limit("100/s", FleetMode::Aggregate(plan), OnLoss::Closed);
    let mut seat = Seat::new(0, &limit, Life(1), Tick(0));
    assert!(!seat.is_needed(&limit, &nobody(), Tick(0)));

    assert!(matches!(take(&mut seat, &limit, 1), Here::Passed(By::Seat)));

    assert!(seat.is_needed(&limit, &nobody(), Tick(3_600 * SECOND)));
}

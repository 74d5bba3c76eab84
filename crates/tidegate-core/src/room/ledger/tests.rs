use super::super::{Stage, Whereabouts};
use super::*;

const RULES: Rules = Rules {
    waiting_max: 1_000,
    misses_max: 3,
    settle_ms: 10_000,
    ticket_ms: 86_400_000,
};
const BEGIN: u64 = 1_790_000_000_000;
const GRACE: u64 = 160_000;
const CLAIM: u64 = 120_000;

/// A room with a clock.
struct Room {
    ledger: Ledger,
    ms: u64,
    epoch: Epoch,
    tick: u64,
}

impl Room {
    fn open() -> Self {
        let mut ledger = Ledger::default();
        let now = Wall::from_micros(BEGIN * 1_000);
        let epoch = ledger.open(now, &RULES, None);
        Self {
            ledger,
            ms: BEGIN,
            epoch,
            tick: 0,
        }
    }

    fn now(&self) -> Wall {
        Wall::from_micros(self.ms * 1_000)
    }

    fn join(&mut self) -> Place {
        let now = self.now();
        self.ledger.join(now, &RULES, self.epoch, 1).unwrap()
    }

    fn beat(&mut self, place: Place, tier: Tier) -> Beaten {
        self.beat_as(place, tier, true)
    }

    fn beat_as(&mut self, place: Place, tier: Tier, may_enter: bool) -> Beaten {
        let beat = Beat {
            place,
            tier,
            may_enter,
        };
        let now = self.now();
        let beaten = self
            .ledger
            .beat(now, &RULES, self.epoch, place, &[beat])
            .unwrap();
        beaten[0]
    }

    /// Somebody of `tier` who waits.
    fn waits(&mut self, tier: Tier) -> Place {
        let place = self.join();
        assert_eq!(self.beat(place, tier), Beaten::Waiting(tier));
        place
    }

    fn calling(&mut self, count: u64) -> Calling {
        self.tick += 1;
        Calling {
            order: Order::Strict,
            tick: self.tick,
            count,
            claim_ms: CLAIM,
            grace_ms: GRACE,
            enough: u64::MAX,
        }
    }

    fn release(&mut self, count: u64) -> u64 {
        let calling = self.calling(count);
        self.release_as(1, &calling).unwrap().count
    }

    fn release_as(&mut self, fence: u64, calling: &Calling) -> Result<Released, Denied> {
        let now = self.now();
        let led = (self.epoch, fence);
        self.ledger.release(now, &RULES, led, calling)
    }

    fn sweep(&mut self) -> Swept {
        let now = self.now();
        let aged = self.epoch.place_ms(self.ms - 240_000);
        let led = (self.epoch, 1);
        let swept = self.ledger.sweep(now, &RULES, led, GRACE, aged, 100);
        swept.unwrap()
    }

    fn settle(&mut self) -> u64 {
        let now = self.now();
        let led = (self.epoch, 1);
        self.ledger.settle(now, &RULES, led, 100).unwrap()
    }

    fn claim(&mut self, place: Place) -> Claim {
        let now = self.now();
        self.ledger.claim(now, &RULES, self.epoch, place).unwrap()
    }

    fn extend(&mut self, place: Place, most: u8) -> Option<Extended> {
        let (now, ledger) = (self.now(), &mut self.ledger);
        let extended = ledger.extend(now, &RULES, self.epoch, place, CLAIM, most);
        extended.unwrap()
    }

    fn find(&mut self, tier: Tier, place: Place) -> (Whereabouts, u64) {
        let (now, order) = (self.now(), Order::Strict);
        let asked = (tier, place);
        let found = self
            .ledger
            .find(now, &RULES, self.epoch, &order, asked)
            .unwrap();
        (found.whereabouts, found.ahead)
    }

    fn census(&mut self) -> Census {
        let now = self.now();
        self.ledger
            .census(now, &RULES, self.epoch, Place(0))
            .unwrap()
    }
}

const ANY: Tier = Tier::Anonymous;

#[test]
fn places_follow_each_other_also_within_a_millisecond_and_when_the_clock_goes_back() {
    let mut room = Room::open();
    room.ms += 5;
    let first = room.join();
    let second = room.join();
    room.ms -= 3;
    let third = room.join();

    assert_eq!(first, Place(5 * 4_096));
    assert_eq!((second, third), (first.plus(1), first.plus(2)));
}

#[test]
fn who_does_not_come_back_with_the_place_is_nobody() {
    let mut room = Room::open();
    for _ in 0..50 {
        room.join();
    }

    let census = room.census();
    assert_eq!((census.waiting, census.tallies.joined), ([0; 3], 50));
    assert_eq!(room.release(10), 0);
    let late = room.join();
    assert_eq!(room.beat_as(late, ANY, false), Beaten::Ghost);
}

#[test]
fn the_position_is_the_rank_in_the_tier_and_all_in_tiers_ahead() {
    let mut room = Room::open();
    let anonymous = [0; 3].map(|_| room.waits(ANY));
    let signed_in = [0; 2].map(|_| room.waits(Tier::SignedIn));
    let back = room.waits(Tier::Returning);

    let ahead = |room: &mut Room, tier, place| room.find(tier, place).1;
    assert_eq!(ahead(&mut room, Tier::Returning, back), 0);
    assert_eq!(ahead(&mut room, Tier::SignedIn, signed_in[1]), 2);
    assert_eq!(ahead(&mut room, ANY, anonymous[2]), 5);
    assert_eq!(room.release(4), 4);
    assert_eq!(ahead(&mut room, ANY, anonymous[2]), 1);
    let called = room.find(ANY, anonymous[0]).0;
    assert_eq!(called, Whereabouts::Ready(room.ms + CLAIM));
}

#[test]
fn who_is_promoted_stands_among_the_new_tier_where_they_came() {
    let mut room = Room::open();
    let early = room.waits(ANY);
    let signed_in = room.waits(Tier::SignedIn);

    let now = room.now();
    let mut promote = |tier| {
        let ledger = &mut room.ledger;
        ledger
            .promote(now, &RULES, room.epoch, early, tier)
            .unwrap()
    };
    assert!(promote(Tier::SignedIn));
    assert!(!promote(Tier::SignedIn) && !promote(ANY));

    assert_eq!(room.find(Tier::SignedIn, signed_in).1, 1);
    // A tab that has the old ticket moves nobody back.
    assert_eq!(room.beat(early, ANY), Beaten::Waiting(Tier::SignedIn));
    // And a new ticket does what a lost promotion would have done.
    assert_eq!(
        room.beat(signed_in, Tier::Returning),
        Beaten::Waiting(Tier::Returning)
    );
    assert_eq!(room.find(Tier::SignedIn, early).1, 1);
}

#[test]
fn the_silent_leave_the_line_and_wake_where_they_stood() {
    let mut room = Room::open();
    let silent = room.waits(ANY);
    room.ms += 300_000;
    let later = room.waits(ANY);
    assert_eq!(room.find(ANY, later).1, 1);

    let swept = room.sweep();

    assert_eq!((swept.slept, swept.aged), ([0, 0, 1], 1));
    assert_eq!(room.find(ANY, silent), (Whereabouts::Absent, 0));
    assert_eq!(room.find(ANY, later).1, 0);
    assert_eq!(room.beat(silent, ANY), Beaten::Waiting(ANY));
    assert_eq!(room.find(ANY, later).1, 1);
}

#[test]
fn nobody_is_called_who_is_silent() {
    let mut room = Room::open();
    let silent = room.waits(ANY);
    room.ms += GRACE + 1;
    let there = room.waits(ANY);

    let calling = room.calling(1);
    let released = room.release_as(1, &calling).unwrap();

    assert_eq!((released.count, released.slept), (1, 1));
    assert!(matches!(room.claim(there), Claim::Passed { .. }));
    assert_eq!(room.claim(silent), Claim::Early);
}

#[test]
fn a_claim_is_made_once_and_told_the_same_again() {
    let mut room = Room::open();
    let place = room.waits(ANY);
    assert_eq!(room.claim(place), Claim::Early);
    room.release(1);
    room.ms += 7;
    let at_ms = room.ms;

    let first = room.claim(place);
    room.ms += 9;
    let again = room.claim(place);

    let passed = |is_first| Claim::Passed { at_ms, is_first };
    assert_eq!((first, again), (passed(true), passed(false)));
    assert_eq!(room.beat(place, ANY), Beaten::Passed { at_ms });
    assert_eq!(room.census().tallies.claimed, 1);
}

#[test]
fn what_is_not_claimed_comes_back_and_its_owner_is_called_again_but_not_for_ever() {
    let mut room = Room::open();
    let place = room.waits(ANY);
    for _ in 0..2 {
        room.release(1);
        room.ms += CLAIM;
        assert_eq!(room.settle(), 1);
        assert_eq!(room.beat(place, ANY), Beaten::Waiting(ANY));
    }
    room.release(1);
    room.ms += CLAIM;

    assert_eq!(room.claim(place), Claim::Late);

    assert_eq!(room.beat(place, ANY), Beaten::Spent);
    assert_eq!(room.beat(place, ANY).stage(), Stage::Ghost);
    let tallies = room.census().tallies;
    assert_eq!((tallies.released, tallies.returned), (3, 3));
}

#[test]
fn who_was_called_may_have_more_time_so_often_and_anew_when_called_again() {
    let mut room = Room::open();
    let place = room.waits(ANY);
    assert_eq!(room.extend(place, 2), None, "it is not their turn");
    room.release(1);
    room.ms += CLAIM - 1;

    let until_ms = room.ms + CLAIM;
    let more = |left| Some(Extended { until_ms, left });
    assert_eq!(room.extend(place, 2), more(1));
    assert_eq!(room.extend(place, 2), more(0));
    assert_eq!(room.extend(place, 2), None);
    assert_eq!(room.beat(place, ANY), Beaten::Ready { until_ms });
    assert_eq!(room.find(ANY, place).0, Whereabouts::Ready(until_ms));
    room.ms += CLAIM - 1;
    assert_eq!(room.settle(), 0);

    // Who is late gets no more, and with the call what it was given is forgotten.
    room.ms += 1;
    assert_eq!(room.extend(place, 9), None);
    assert_eq!(room.settle(), 1);
    assert_eq!(room.beat(place, ANY), Beaten::Waiting(ANY));
    room.release(1);
    assert_eq!(room.extend(place, 2).map(|it| it.left), Some(1));
    assert!(matches!(room.claim(place), Claim::Passed { .. }));
    assert_eq!(room.extend(place, 9), None);
}

#[test]
fn who_gives_a_call_back_gives_back_that_it_was_extended() {
    let mut room = Room::open();
    let place = room.waits(ANY);
    room.release(1);
    assert_eq!(room.extend(place, 1).map(|it| it.left), Some(0));

    let now = room.now();
    let left = room.ledger.leave(now, &RULES, room.epoch, place);

    assert_eq!(left, Ok(true));
    assert_eq!(room.extend(place, 1), None);
    room.beat(place, ANY);
    room.release(1);
    assert_eq!(room.extend(place, 1).map(|it| it.left), Some(0));
}

#[test]
fn after_a_leader_was_obeyed_no_earlier_one_is_whatever_it_was_obeyed_in() {
    let mut room = Room::open();
    room.waits(ANY);
    let calling = room.calling(1);

    assert_eq!(room.ledger.obey(7), Ok(()));

    let deposed = Denied::Deposed { by: 7 };
    assert_eq!(room.release_as(6, &calling), Err(deposed));
    assert_eq!(room.ledger.obey(6), Err(deposed));
    assert_eq!(room.release_as(7, &calling).unwrap().count, 1);
    // The same leader again, and its tick was done.
    assert_eq!(room.ledger.obey(7), Ok(()));
    assert_eq!(room.release_as(7, &calling).unwrap().count, 1);
    assert_eq!(room.census().ready, 1);
}

#[test]
fn a_ledger_that_knows_of_no_epoch_is_in_any_and_begins_none_when_asked() {
    let mut ledger = Ledger::default();
    let now = Wall::from_micros(BEGIN * 1_000);

    assert_eq!(ledger.is_in(Epoch(5)), Ok(()));

    assert_eq!(ledger.open(now, &RULES, Some(Epoch(9))), Epoch(9));
    let denied = Err(Denied::Epoch(Epoch(9)));
    assert_eq!(ledger.is_in(Epoch(5)), denied);
}

#[test]
fn the_same_tick_again_calls_nobody_and_neither_does_a_leader_of_old() {
    let mut room = Room::open();
    for _ in 0..9 {
        room.waits(ANY);
    }
    let calling = room.calling(2);
    let count = |said: Result<Released, Denied>| said.map(|it| it.count);

    assert_eq!(count(room.release_as(5, &calling)), Ok(2));
    assert_eq!(count(room.release_as(5, &calling)), Ok(2));
    let older = Calling { tick: 0, ..calling };
    assert_eq!(room.release_as(5, &older), Err(Denied::Stale));
    assert_eq!(
        room.release_as(4, &Calling { tick: 9, ..calling }),
        Err(Denied::Deposed { by: 5 })
    );
    // A new leader counts its own ticks.
    assert_eq!(count(room.release_as(6, &calling)), Ok(2));

    let census = room.census();
    assert_eq!((census.ready, census.waiting), (4, [0, 0, 5]));
}

#[test]
fn credit_lets_those_ahead_go_first_only_so_far() {
    let mut room = Room::open();
    let early = room.waits(ANY);
    room.ms += 10_000;
    let soon = room.waits(Tier::Returning);
    room.ms += 10_001;
    let late = room.waits(Tier::Returning);
    let order = Order::Credit([20_000, 0, 0]);

    let mut called = Vec::new();
    for _ in 0..3 {
        let calling = Calling {
            order,
            ..room.calling(1)
        };
        room.release_as(1, &calling).unwrap();
        for place in [early, soon, late] {
            let is_called = matches!(room.find(ANY, place).0, Whereabouts::Ready(_));
            if is_called && !called.contains(&place) {
                called.push(place);
            }
        }
    }

    assert_eq!(called, [soon, early, late]);
}

#[test]
fn a_line_that_was_forgotten_is_rebuilt_in_its_old_order_before_anybody_is_called() {
    let mut room = Room::open();
    let places = [0; 5].map(|_| room.waits(ANY));
    let epoch = room.epoch;
    room.ms += 1_000;
    room.ledger = Ledger::default();

    // Somebody new comes first, then those who stood there, the last one first.
    let new = room.join();
    room.beat(new, ANY);
    for place in places.iter().rev() {
        assert_eq!(room.beat(*place, ANY), Beaten::Waiting(ANY));
    }

    let calling = room.calling(1);
    let settling = room.release_as(1, &calling);
    let left_ms = RULES.settle_ms;
    assert_eq!(settling, Err(Denied::Settling { left_ms, alive: 6 }));
    let (now, known) = (room.now(), Some(Epoch(1)));
    assert_eq!(room.ledger.open(now, &RULES, known), epoch);
    let enough = Calling {
        enough: 6,
        ..calling
    };
    assert_eq!(room.release_as(1, &enough).unwrap().count, 1);
    room.ms += RULES.settle_ms;
    assert_eq!(room.release(3), 3);
    assert_eq!(room.find(ANY, places[4]), (Whereabouts::Waiting(ANY), 0));
    assert_eq!(room.find(ANY, new).1, 1);
}

#[test]
fn whoever_joins_stands_behind_all_who_have_been_heard_of() {
    let mut room = Room::open();
    room.ms += 60_000;
    let before = room.waits(ANY);
    // A store that has forgotten, with a clock that is behind.
    room.ledger = Ledger::default();
    room.ms -= 30_000;
    room.beat(before, ANY);

    assert!(room.join() > before);
}

#[test]
fn in_another_epoch_a_place_is_worth_nothing() {
    let mut room = Room::open();
    let place = room.waits(ANY);
    let old = room.epoch;
    let now = room.now();

    let next = room.ledger.turn(now, &RULES, old).unwrap();

    assert!(next > old);
    let denied = Err(Denied::Epoch(next));
    assert_eq!(room.ledger.join(now, &RULES, old, 1), denied);
    assert_eq!(
        room.ledger.claim(now, &RULES, old, place),
        Err(Denied::Epoch(next))
    );
    room.epoch = next;
    assert_eq!(room.census().waiting, [0; 3]);
}

#[test]
fn so_many_may_wait_and_no_more() {
    let mut room = Room::open();
    for _ in 0..RULES.waiting_max {
        room.waits(ANY);
    }

    let one_more = room.join();

    assert_eq!(room.beat(one_more, ANY), Beaten::Full);
    room.release(1);
    assert_eq!(room.beat(one_more, ANY), Beaten::Waiting(ANY));
}

#[test]
fn who_leaves_is_out_at_once_and_may_come_back_to_the_same_place() {
    let mut room = Room::open();
    let (first, second) = (room.waits(ANY), room.waits(ANY));
    let leave = |room: &mut Room, place| {
        let now = room.now();
        room.ledger.leave(now, &RULES, room.epoch, place).unwrap()
    };

    assert!(leave(&mut room, first));
    assert!(!leave(&mut room, first));
    assert_eq!(room.find(ANY, second).1, 0);
    assert_eq!(room.beat(first, ANY), Beaten::Waiting(ANY));
    assert_eq!(room.find(ANY, second).1, 1);

    // Who was called and leaves gives the call back.
    room.release(1);
    assert!(leave(&mut room, first));
    let census = room.census();
    assert_eq!((census.ready, census.tallies.returned), (0, 1));
    assert_eq!(room.claim(first), Claim::Early);
}

#[test]
fn nobody_is_called_while_an_operator_holds_the_room_and_the_epoch_does_not_end_it() {
    let mut room = Room::open();
    let place = room.waits(ANY);
    let set = |room: &mut Room, phase| {
        let now = room.now();
        let ledger = &mut room.ledger;
        ledger.set_phase(now, &RULES, room.epoch, phase).unwrap()
    };

    assert_eq!(set(&mut room, Some(Phase::Hold)), None);
    let calling = room.calling(1);
    let held = Err(Denied::Phase(Phase::Hold));
    assert_eq!(room.release_as(1, &calling), held);
    let now = room.now();
    room.epoch = room.ledger.turn(now, &RULES, room.epoch).unwrap();
    assert_eq!(room.ledger.phase(), Some(Phase::Hold));

    assert_eq!(room.beat(place, ANY), Beaten::Waiting(ANY));
    assert_eq!(set(&mut room, None), Some(Phase::Hold));
    assert_eq!(room.release_as(1, &calling).unwrap().count, 1);
}

#[test]
fn what_no_ticket_can_ask_for_is_forgotten() {
    let mut room = Room::open();
    let (came, missed) = (room.waits(ANY), room.waits(ANY));
    room.release(2);
    room.claim(came);
    room.ms += CLAIM;
    room.settle();
    assert!(matches!(room.claim(came), Claim::Passed { .. }));

    room.ms += RULES.ticket_ms;
    room.settle();

    assert_eq!(room.claim(came), Claim::Early);
    assert_eq!(room.claim(missed), Claim::Early);
    assert!(room.ledger.line.as_ref().is_some_and(Line::is_empty));
}

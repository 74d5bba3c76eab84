use std::num::NonZeroU32;

use super::waiting::BOUND_UNKNOWN;
use super::*;
use crate::bulkhead::{Bulkheads, Loan, Portion, Reserve};
use crate::facts::{GroupId, RouteId};
use crate::limit::Static;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn at(millis: u64) -> Mono {
    Mono::from_millis(millis)
}

fn config() -> Config {
    Config {
        hold: ms(200),
        queue_max: 10_000,
        queue_bytes_max: 1 << 20,
        discipline: Discipline::AdaptiveLifo,
        bulkheads: Bulkheads::default(),
        routes: 4,
        escape: false,
        level: false,
    }
}

fn admission(workers: u32, config: Config) -> Admission {
    Admission::new(
        config,
        Box::new(Static::new(NonZeroU32::new(workers).unwrap())),
    )
}

fn facts(class: Class) -> Facts {
    Facts {
        class,
        route: RouteId(0),
        group: GroupId(0),
        deadline: Mono::MAX,
        bytes: 0,
        cohort: 0,
        retry: false,
    }
}

/// Fills every slot and teaches a service time, so that what comes next has to wait.
fn full(workers: u32, service: Duration, config: Config) -> (Admission, Vec<Ticket>) {
    let mut admission = admission(workers, config);
    let mut out = Vec::new();
    for _ in 0..20 {
        let ticket = admitted(admission.arrive(at(0), &facts(Class::Anonymous), &mut out));
        admission.done(at(0) + service, ticket, Ending::Worked, &mut out);
        admission.latest = at(0);
    }
    let start = at(1000);
    let tickets = (0..workers)
        .map(|_| admitted(admission.arrive(start, &facts(Class::Anonymous), &mut out)))
        .collect();
    assert!(out.is_empty());
    (admission, tickets)
}

fn admitted(arrival: Arrival) -> Ticket {
    match arrival {
        Arrival::Admitted(ticket) => ticket,
        other => panic!("expected a slot, got {other:?}"),
    }
}

fn queued(arrival: Arrival) -> (Ticket, Mono) {
    match arrival {
        Arrival::Queued { ticket, leave_at } => (ticket, leave_at),
        other => panic!("expected to wait, got {other:?}"),
    }
}

fn started(out: &[Action]) -> Vec<Ticket> {
    out.iter()
        .filter_map(|action| match action {
            Action::Start { ticket, .. } => Some(*ticket),
            Action::Evict { .. } => None,
        })
        .collect()
}

fn evicted(out: &[Action]) -> Vec<(Ticket, Reason)> {
    out.iter()
        .filter_map(|action| match action {
            Action::Evict { ticket, reason, .. } => Some((*ticket, *reason)),
            Action::Start { .. } => None,
        })
        .collect()
}

#[test]
fn the_bound_is_workers_times_what_hold_leaves_over_service() {
    let (admission, _) = full(64, ms(64), config());
    assert_eq!(admission.snapshot().queue_bound, 136);

    let (admission, _) = full(100, ms(50), config());
    assert_eq!(admission.snapshot().queue_bound, 300);
    assert_eq!(admission.snapshot().wait_max, ms(150));
}

#[test]
fn a_service_slower_than_hold_keeps_half_of_it_as_patience() {
    let (admission, _) = full(10, ms(500), config());

    let snapshot = admission.snapshot();

    assert_eq!(
        (snapshot.wait_max, snapshot.queue_bound),
        (ms(100), BOUND_MIN)
    );
}

#[test]
fn a_freed_slot_goes_to_the_highest_class_whoever_came_first() {
    let (mut admission, tickets) = full(1, ms(50), config());
    let mut out = Vec::new();
    let (low, _) = queued(admission.arrive(at(1001), &facts(Class::Background), &mut out));
    let (high, _) = queued(admission.arrive(at(1002), &facts(Class::Critical), &mut out));

    admission.done(at(1003), tickets[0], Ending::Worked, &mut out);
    assert_eq!(started(&out), [high]);
    admission.done(at(1004), high, Ending::Worked, &mut out);
    assert_eq!(started(&out), [high, low]);
}

/// Turns one more of `class` away every 10 ms from 1.1 s to 1.8 s, longer than four longest waits.
fn crowd(admission: &mut Admission, class: Class) {
    for millis in (1100..=1800).step_by(10) {
        admission.poll(at(millis), &mut Vec::new());
        while let Arrival::Queued { .. } =
            admission.arrive(at(millis), &facts(class), &mut Vec::new())
        {}
    }
}

#[test]
fn a_class_goes_newest_first_once_there_has_been_too_much_of_it_for_a_while() {
    let (mut admission, mut slots) = full(2, ms(50), config());
    let mut out = Vec::new();
    let wait = |admission: &mut Admission, millis| {
        queued(admission.arrive(at(millis), &facts(Class::SignedIn), &mut Vec::new())).0
    };
    let first = wait(&mut admission, 1010);
    wait(&mut admission, 1020);
    admission.done(at(1030), slots.pop().unwrap(), Ending::Ignored, &mut out);
    assert_eq!(started(&out), [first]);

    crowd(&mut admission, Class::SignedIn);
    admission.poll(at(1960), &mut Vec::new());
    wait(&mut admission, 1961);
    let newest = wait(&mut admission, 1962);
    out.clear();
    admission.done(at(1963), slots.pop().unwrap(), Ending::Ignored, &mut out);

    assert_eq!(started(&out), [newest]);
}

#[test]
fn a_class_goes_in_the_order_it_came_while_a_lower_one_is_served_too() {
    let (mut admission, mut slots) = full(2, ms(50), config());
    let mut out = Vec::new();
    crowd(&mut admission, Class::Background);
    admission.done(at(1801), slots.pop().unwrap(), Ending::Ignored, &mut out);
    let wait = |admission: &mut Admission, millis| {
        queued(admission.arrive(at(millis), &facts(Class::SignedIn), &mut Vec::new())).0
    };

    out.clear();
    let first = wait(&mut admission, 1910);
    wait(&mut admission, 1911);
    admission.done(at(1912), slots.pop().unwrap(), Ending::Ignored, &mut out);

    assert_eq!(started(&out), [first]);
}

#[test]
fn nobody_waits_longer_than_the_longest_wait() {
    let (mut admission, _) = full(1, ms(50), config());
    let mut out = Vec::new();
    let (ticket, leave_at) = queued(admission.arrive(at(1000), &facts(Class::Static), &mut out));
    assert_eq!(leave_at, at(1150));
    assert_eq!(admission.next_deadline(), Some(leave_at));

    admission.poll(at(1149), &mut out);
    assert!(out.is_empty());
    admission.poll(leave_at, &mut out);

    assert_eq!(evicted(&out), [(ticket, Reason::QueueTime)]);
    assert_eq!(admission.next_deadline(), None);
}

#[test]
fn who_cannot_be_served_in_time_is_refused_before_waiting_and_leaves_while_waiting() {
    let (mut admission, _) = full(1, ms(50), config());
    let mut out = Vec::new();
    let due = |millis| Facts {
        deadline: at(millis),
        ..facts(Class::SignedIn)
    };

    assert_eq!(
        admission.arrive(at(1000), &due(1000), &mut out),
        Arrival::Refused(Reason::ExpiredOnArrival)
    );
    assert_eq!(
        admission.arrive(at(1000), &due(1040), &mut out),
        Arrival::Refused(Reason::DeadlineEnqueue)
    );
    let (ticket, leave_at) = queued(admission.arrive(at(1000), &due(1100), &mut out));
    assert!(
        leave_at < at(1050),
        "the service time has to fit in: {leave_at:?}"
    );
    admission.poll(leave_at, &mut out);

    assert_eq!(evicted(&out), [(ticket, Reason::ExpiredInQueue)]);
}

#[test]
fn a_full_queue_makes_room_for_a_higher_class_only() {
    let (mut admission, _) = full(
        1,
        ms(50),
        Config {
            queue_max: 2,
            ..config()
        },
    );
    let mut out = Vec::new();
    let (oldest, _) = queued(admission.arrive(at(1000), &facts(Class::Background), &mut out));
    queued(admission.arrive(at(1001), &facts(Class::Background), &mut out));
    assert_eq!(
        admission.peek(at(1002), &facts(Class::Background)),
        Some(Reason::QueueFull)
    );
    assert_eq!(admission.peek(at(1002), &facts(Class::Static)), None);

    assert_eq!(
        admission.arrive(at(1002), &facts(Class::Background), &mut out),
        Arrival::Refused(Reason::QueueFull)
    );
    queued(admission.arrive(at(1003), &facts(Class::Static), &mut out));

    assert_eq!(evicted(&out), [(oldest, Reason::Displaced)]);
}

#[test]
fn bytes_are_bounded_too_and_lower_classes_give_theirs_up() {
    let (mut admission, _) = full(
        1,
        ms(50),
        Config {
            queue_bytes_max: 100,
            ..config()
        },
    );
    let mut out = Vec::new();
    let heavy = |class, bytes| Facts {
        bytes,
        ..facts(class)
    };
    queued(admission.arrive(at(1000), &heavy(Class::Static, 40), &mut out));
    queued(admission.arrive(at(1000), &heavy(Class::Static, 40), &mut out));

    assert_eq!(
        admission.arrive(at(1001), &heavy(Class::Static, 40), &mut out),
        Arrival::Refused(Reason::QueueBytes)
    );
    assert_eq!(
        admission.arrive(at(1001), &heavy(Class::Critical, 101), &mut out),
        Arrival::Refused(Reason::QueueBytes)
    );
    assert!(
        out.is_empty(),
        "nobody is displaced for a request that does not fit anyway"
    );
    queued(admission.arrive(at(1001), &heavy(Class::Critical, 100), &mut out));

    assert_eq!(evicted(&out).len(), 2);
    assert_eq!(admission.snapshot().queued_bytes, 100);
}

#[test]
fn a_burst_as_large_as_a_strict_reserve_starts_at_once() {
    let mut bulkheads = Bulkheads::default();
    bulkheads.reserves[Class::Critical.index()] = Some(Reserve {
        portion: Portion::Share(0.2),
        loan: Loan::Strict,
    });
    let mut admission = admission(
        10,
        Config {
            bulkheads,
            ..config()
        },
    );
    let mut out = Vec::new();
    for _ in 0..8 {
        let _ = admitted(admission.arrive(at(0), &facts(Class::SignedIn), &mut out));
    }
    queued(admission.arrive(at(0), &facts(Class::SignedIn), &mut out));

    for _ in 0..2 {
        let _ = admitted(admission.arrive(at(1), &facts(Class::Critical), &mut out));
    }
    queued(admission.arrive(at(1), &facts(Class::Critical), &mut out));
    assert!(out.is_empty());
}

#[test]
fn a_lower_class_below_its_reserve_gets_the_next_slot() {
    let mut bulkheads = Bulkheads::default();
    bulkheads.reserves[Class::Static.index()] = Some(Reserve {
        portion: Portion::Slots(1),
        loan: Loan::Lent,
    });
    let (mut admission, slots) = full(
        3,
        ms(50),
        Config {
            bulkheads,
            ..config()
        },
    );
    let mut out = Vec::new();
    queued(admission.arrive(at(1001), &facts(Class::Critical), &mut out));
    let (owed, _) = queued(admission.arrive(at(1002), &facts(Class::Static), &mut out));

    admission.done(at(1003), slots[0], Ending::Worked, &mut out);

    assert_eq!(started(&out), [owed]);
}

#[test]
fn a_slow_group_fills_its_own_share_of_slots_and_queue_and_no_more() {
    let bulkheads = Bulkheads {
        groups: vec![Portion::Share(0.2)],
        ..Bulkheads::default()
    };
    let mut admission = admission(
        10,
        Config {
            bulkheads,
            ..config()
        },
    );
    let mut out = Vec::new();
    let slow = Facts {
        group: GroupId(1),
        ..facts(Class::SignedIn)
    };
    let mut started = 0;
    let mut waiting = 0;
    let refused = loop {
        match admission.arrive(at(0), &slow, &mut out) {
            Arrival::Admitted(_) => started += 1,
            Arrival::Queued { .. } => waiting += 1,
            Arrival::Refused(reason) => break reason,
        }
    };

    assert_eq!((started, refused), (2, Reason::GroupFull));
    assert_eq!(waiting, BOUND_UNKNOWN.div_ceil(5));
    let _ = admitted(admission.arrive(at(0), &facts(Class::Background), &mut out));
}

#[test]
fn a_stale_ticket_is_nobodys() {
    let (mut admission, _) = full(1, ms(50), config());
    let mut out = Vec::new();
    let (gone, _) = queued(admission.arrive(at(1000), &facts(Class::Static), &mut out));
    assert_eq!(admission.cancel(at(1010), gone, &mut out), Some(ms(10)));
    let (next, _) = queued(admission.arrive(at(1020), &facts(Class::Static), &mut out));
    assert_eq!(next.index(), gone.index());

    assert_eq!(admission.cancel(at(1030), gone, &mut out), None);
    admission.first_byte(at(1030), gone);

    assert_eq!(admission.snapshot().queued, 1);
}

#[test]
fn shadow_lets_everybody_in_and_says_what_would_have_been() {
    let mut admission = admission(
        2,
        Config {
            queue_max: 3,
            ..config()
        },
    );
    let arrive = |admission: &mut Admission, class| admission.arrive_shadow(at(0), &facts(class)).1;

    let verdicts: Vec<Verdict> = (0..6)
        .map(|_| arrive(&mut admission, Class::Static))
        .collect();

    assert_eq!(verdicts[..2], [Verdict::Admit, Verdict::Admit]);
    assert_eq!(verdicts[2..5], [Verdict::Wait; 3]);
    assert_eq!(verdicts[5], Verdict::Refuse(Reason::QueueFull));
    assert_eq!(arrive(&mut admission, Class::Critical), Verdict::Wait);
    assert_eq!(admission.snapshot().in_flight, 7);
}

#[test]
fn under_steady_traffic_at_half_of_the_capacity_nobody_is_refused() {
    let mut admission = admission(100, config());
    let mut out = Vec::new();
    let mut running: Vec<(Mono, Ticket)> = Vec::new();

    for millis in 0..10_000 {
        running.retain(|&(end, ticket)| {
            let ends = end <= at(millis);
            if ends {
                admission.done(at(millis), ticket, Ending::Worked, &mut out);
            }
            !ends
        });
        let ticket = admitted(admission.arrive(at(millis), &facts(Class::Anonymous), &mut out));
        running.push((at(millis + 50), ticket));
    }

    assert!(out.is_empty());
    assert!((950.0..1050.0).contains(&admission.snapshot().throughput));
}

#[test]
fn an_escape_takes_out_of_the_queue_what_it_would_not_let_in() {
    let config = Config {
        escape: true,
        hold: ms(60_000),
        ..config()
    };
    let (mut admission, mut inside) = full(2, ms(50), config);
    let mut out = Vec::new();
    let mut wait = |class, retry| {
        let facts = Facts {
            retry,
            ..facts(class)
        };
        queued(admission.arrive(at(1000), &facts, &mut Vec::new())).0
    };
    let low = wait(Class::Background, false);
    let retry = wait(Class::Anonymous, true);
    let stays = wait(Class::Anonymous, false);
    for _ in 0..50 {
        wait(Class::SignedIn, false);
    }

    // Nobody is there any more when it is done.
    for millis in (1100..4000).step_by(100) {
        let ticket = inside.remove(0);
        admission.abandoned(at(millis), ticket);
        admission.done(at(millis), ticket, Ending::Worked, &mut out);
        inside.extend(started(&out));
        out.clear();
        let _ = admission.arrive(at(millis), &facts(Class::SignedIn), &mut out);
        out.clear();
    }

    let recovery = admission.snapshot().recovery;
    assert_eq!(recovery.escaping, Some(Trigger::Waste));
    assert_eq!(recovery.flushed, 2);
    assert_eq!(admission.cancel(at(9000), low, &mut out), None);
    assert_eq!(admission.cancel(at(9000), retry, &mut out), None);
    assert!(admission.cancel(at(9000), stays, &mut out).is_some());
    assert_eq!(
        admission.peek(at(9000), &facts(Class::Background)),
        Some(Reason::Escape)
    );
    let again = Facts {
        retry: true,
        ..facts(Class::SignedIn)
    };
    assert_eq!(
        admission.arrive(at(9000), &again, &mut out),
        Arrival::Refused(Reason::RetryFirst)
    );
}

#[test]
fn margins_learnt_in_a_bad_hour_do_not_shut_the_application_off() {
    let (mut admission, slots) = full(1, ms(50), config());
    let mut out = Vec::new();
    admission.done(at(9000), slots[0], Ending::Worked, &mut out);
    for _ in 0..40 {
        let ticket = admitted(admission.arrive(at(9000), &facts(Class::SignedIn), &mut out));
        admission.done(at(9000) + ms(5000), ticket, Ending::Worked, &mut out);
        admission.latest = at(9000);
    }

    let hurried = Facts {
        deadline: at(10_000),
        ..facts(Class::SignedIn)
    };

    let _ = admitted(admission.arrive(at(9000), &hurried, &mut out));
}

#[test]
fn work_that_nobody_waits_for_is_known_not_to_be_in_time_before_it_ends() {
    let mut admission = admission(3, config());
    let mut out = Vec::new();
    let hurried = Facts {
        deadline: at(1050),
        ..facts(Class::Anonymous)
    };
    assert_eq!(admission.snapshot().in_time, None);
    let tickets = [0; 3].map(|_| admitted(admission.arrive(at(1000), &hurried, &mut out)));

    admission.done(at(1010), tickets[0], Ending::Worked, &mut out);
    assert_eq!(admission.snapshot().in_time, Some(1.0));
    admission.abandoned(at(1020), tickets[1]);
    assert_eq!(admission.snapshot().in_time, Some(0.5));
    admission.done(at(1030), tickets[1], Ending::Overloaded, &mut out);
    assert_eq!(admission.snapshot().in_time, Some(0.5), "counted once");
    admission.done(at(1060), tickets[2], Ending::Worked, &mut out);
    assert_eq!(admission.snapshot().in_time, Some(1.0 / 3.0));
}

#[test]
fn a_cap_holds_until_its_time_and_then_those_who_wait_start() {
    let (mut admission, tickets) = full(4, ms(50), config());
    let mut out = Vec::new();
    admission.cap(at(1_000), 1, at(1_060), &mut out);
    let (waits, _) = queued(admission.arrive(at(1_000), &facts(Class::Anonymous), &mut out));

    for ticket in &tickets[..3] {
        admission.done(at(1_010), *ticket, Ending::Worked, &mut out);
    }
    assert_eq!(admission.limit(), 1);
    assert!(
        started(&out).is_empty(),
        "one is inside, and no more may be"
    );

    admission.poll(at(1_060), &mut out);

    assert_eq!(admission.limit(), 4);
    assert_eq!(started(&out), [waits]);
}

#[test]
fn time_in_slots_is_of_all_who_were_inside_and_does_not_depend_on_when_one_looks() {
    let mut admission = admission(4, config());
    let mut out = Vec::new();
    let mut arrive = |admission: &mut Admission, millis| {
        admitted(admission.arrive(at(millis), &facts(Class::Anonymous), &mut out))
    };
    let first = arrive(&mut admission, 1_000);
    let second = arrive(&mut admission, 1_500);

    assert_eq!(admission.occupied(at(2_000)), ms(1_500));
    admission.done(at(2_500), first, Ending::Worked, &mut Vec::new());
    admission.done(at(3_000), second, Ending::Worked, &mut Vec::new());

    assert_eq!(admission.occupied(at(3_000)), ms(3_000));
    assert_eq!(admission.occupied(at(9_000)), ms(3_000), "nobody is inside");
    // A caller's older reading takes nothing back.
    let third = arrive(&mut admission, 9_000);
    admission.first_byte(at(8_000), third);
    assert_eq!(admission.occupied(at(8_000)), ms(3_000));
    assert_eq!(admission.occupied(at(9_020)), ms(3_020));
}

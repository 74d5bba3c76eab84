//! A change of the leader, compared with a leader that never changed.

use proptest::prelude::*;
use tidegate_core::health::Load;
use tidegate_core::time::Wall;
use tidegate_store::Stamp;

use super::tests::{at, beacons, name, said};
use super::*;

/// What was published by the leader, read so much later.
fn issue(judged: &Judged, later: Duration) -> Issue {
    let published = Wall::from_micros(1_790_000_000_000_000);
    let now = Wall::from_micros(published.as_micros() + later.as_micros() as u64);
    Issue {
        now,
        stamp: Stamp {
            fence: judged.decided.fence,
            generation: judged.decided.generation,
            at: published,
            until: Wall::from_micros(published.as_micros() + 3_000_000),
        },
        fleet: judged.decided.fleet.clone(),
        verdicts: judged.decided.verdicts.clone(),
    }
}

/// Three nodes that have little to do and one that is as full as is said, at a second.
fn read(second: u64, threads: f64) -> Beacons {
    let now = at(second);
    let node = |number: u32, threads: f64| {
        let load = Load {
            // What it can do is 200 a second, and of one node half of that.
            completed_rps: if number == 3 { threads / 2.0 } else { threads },
            offered_rps: threads,
            error_ratio: 0.0,
            utilisation: threads / 200.0,
            at: now,
        };
        let said = Said {
            load: Some(load),
            ..said(second + 1, now, threads)
        };
        (number, 7, said)
    };
    beacons(
        now,
        [
            node(1, 50.0),
            node(2, 60.0),
            node(3, 40.0),
            node(4, threads),
        ],
    )
}

/// State and weight of every node.
fn stands(judged: &Judged) -> Vec<(Name, State, u8)> {
    let nodes = judged.nodes.iter();
    nodes
        .map(|(name, told)| (name.clone(), told.state(), told.weight))
        .collect()
}

fn assert_alike(stays: &Judged, comes: &Judged) -> Result<(), TestCaseError> {
    for (stays, comes) in stands(stays).into_iter().zip(stands(comes)) {
        prop_assert_eq!((&stays.0, stays.1), (&comes.0, comes.1));
        prop_assert!(
            stays.2.abs_diff(comes.2) <= 2,
            "{:?} and {:?}",
            stays,
            comes
        );
    }
    // Who comes rests once more before anything rises.
    let later = stays.word.admission - comes.word.admission;
    prop_assert!((-0.01..0.3).contains(&later), "{later}");
    Ok(())
}

proptest! {
    #[test]
    fn a_change_of_the_leader_changes_nothing_else(
        before in prop::collection::vec(0.0..200.0_f64, 4..40),
        after in prop::collection::vec(0.0..200.0_f64, 1..30),
    ) {
        let mut stays = Plane::new(name(1), Settings::default());
        let mut last = None;
        for (second, &threads) in before.iter().enumerate() {
            last = Some(stays.tick(at(second as u64), Fence(1), &read(second as u64, threads)));
        }
        let mut comes = Plane::new(name(2), Settings::default());
        let published = issue(&last.unwrap(), Duration::from_secs(1));
        comes.resume(at(before.len() as u64), Some(&published));

        for (second, &threads) in (before.len() as u64..).zip(&after) {
            let read = read(second, threads);
            let stays = stays.tick(at(second), Fence(1), &read);
            let comes = comes.tick(at(second), Fence(2), &read);
            assert_alike(&stays, &comes)?;
        }
    }

    #[test]
    fn the_time_without_a_leader_turns_nobody(
        threads in 0.0..200.0_f64,
        gap in 1..=5_u64,
        settled in 12..40_u64,
    ) {
        let mut before = Plane::new(name(1), Settings::default());
        let mut last = None;
        for second in 0..settled {
            last = Some(before.tick(at(second), Fence(1), &read(second, threads)));
        }
        let last = last.unwrap();
        let again = settled - 1 + gap;
        let mut comes = Plane::new(name(2), Settings::default());
        comes.resume(at(again), Some(&issue(&last, Duration::from_secs(gap))));

        let first = comes.tick(at(again), Fence(2), &read(again, threads));

        assert_alike(&last, &first)?;
        prop_assert_eq!(comes.transitions().count(), 0);
    }
}

#[test]
fn what_is_too_old_or_from_tomorrow_is_not_gone_on_from() {
    let mut before = Plane::new(name(1), Settings::default());
    let mut last = None;
    for second in 0..10 {
        last = Some(before.tick(at(second), Fence(1), &read(second, 200.0)));
    }
    let last = last.unwrap();
    assert_eq!(last.nodes[&name(4)].state(), State::Saturated);
    let state = |later: Duration, jump: Option<Duration>| {
        let mut issue = issue(&last, later);
        if let Some(jump) = jump {
            issue.stamp.at = Wall::from_micros(issue.now.as_micros() + jump.as_micros() as u64);
        }
        let mut comes = Plane::new(name(2), Settings::default());
        comes.resume(at(20), Some(&issue));
        let judged = comes.tick(at(20), Fence(2), &read(20, 200.0));
        judged.nodes[&name(4)].state()
    };

    assert_eq!(state(Duration::from_secs(4), None), State::Saturated);
    assert_eq!(state(Duration::from_secs(11), None), State::Stressed);
    let hour = Some(Duration::from_secs(3_600));
    assert_eq!(state(Duration::from_secs(4), hour), State::Stressed);
}

#[test]
fn who_was_silent_is_still_counted_and_who_was_started_again_begins_anew() {
    let mut before = Plane::new(name(1), Settings::default());
    let mut last = None;
    for second in 0..12 {
        let mut read = read(second, 100.0);
        if second > 9 {
            read.beacons.retain(|beacon| beacon.node.id != name(4));
        }
        last = Some(before.tick(at(second), Fence(1), &read));
    }
    let mut comes = Plane::new(name(2), Settings::default());
    comes.resume(at(12), Some(&issue(&last.unwrap(), Duration::from_secs(1))));
    let mut read = read(13, 100.0);
    read.beacons.retain(|beacon| beacon.node.id != name(4));
    read.beacons[1].node.incarnation = 8;

    let judged = comes.tick(at(13), Fence(2), &read);

    assert_eq!(judged.word.nodes, 4);
    assert_eq!(judged.word.heard, 3);
    assert_eq!(judged.nodes[&name(4)].state(), State::Unknown);
    assert!(judged.nodes[&name(2)].for_ms < judged.nodes[&name(1)].for_ms);
}

#[test]
fn a_fleet_of_which_nothing_is_known_is_not_slowed_down_for_what_was() {
    let mut before = Plane::new(name(1), Settings::default());
    let full = |second: u64| {
        let node = |number| (number, 7, said(second + 1, at(second), 200.0));
        beacons(at(second), [node(1), node(2), node(3)])
    };
    let mut last = None;
    for second in 0..10 {
        last = Some(before.tick(at(second), Fence(1), &full(second)));
    }
    let last = last.unwrap();
    assert!(last.word.admission < 0.7, "{}", last.word.admission);
    let mut comes = Plane::new(name(2), Settings::default());
    comes.resume(at(11), Some(&issue(&last, Duration::from_secs(2))));

    // All were killed, and those that came in their places have read nothing yet.
    let mut admission = Vec::new();
    for second in 11..21 {
        let node = |number| {
            let said = Said {
                sequence: second,
                ..Said::nothing()
            };
            (number, 8, said)
        };
        let read = beacons(at(second), [node(1), node(2), node(3)]);
        admission.push(comes.tick(at(second), Fence(2), &read).word.admission);
    }

    let tenth = admission[0] - last.word.admission;
    assert!((tenth - 0.1).abs() < 0.002, "{tenth}");
    assert_eq!(admission.last(), Some(&1.0), "{admission:?}");
}

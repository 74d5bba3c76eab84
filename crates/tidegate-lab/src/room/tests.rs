use tidegate_core::room::Order;

use super::*;

/// All stories once; `room-estimate` plays each with twenty seeds.
#[test]
fn waits_are_told_rightly_and_most_end_within_their_band() {
    for story in &Story::ALL {
        let record = run(story, 1);

        let ours = record.accuracy(Formula::Tidegate);
        println!("{}: {ours:?}", story.name);
        assert!(ours.count > 1_000, "{}: {ours:?}", story.name);
        assert!(ours.off <= 0.2, "{}: {ours:?}", story.name);
        assert!(
            (0.6..=0.97).contains(&ours.inside),
            "{}: {ours:?}",
            story.name
        );
        let plain = record.accuracy(Formula::Ticket);
        assert!(ours.off < plain.off, "{}: {plain:?}", story.name);
    }
}

#[test]
fn the_same_seed_plays_the_same_room() {
    let short = Story {
        told: (300, 900),
        ends: 2_000,
        ..Story::WAVE
    };
    let played = |seed| {
        let record = run(&short, seed);
        (
            record.joined,
            record.claimed,
            record.returned,
            record.told.len(),
        )
    };

    assert_eq!(played(3), played(3));
    assert_ne!(played(3), played(4));
}

#[test]
fn turns_are_used_or_come_back_and_none_is_lost_on_those_who_left() {
    let record = run(&Story::STEADY, 2);

    let Record {
        released,
        claimed,
        returned,
        ready,
        ..
    } = record;
    assert_eq!(released, claimed + returned + ready);
    assert!(returned > 100, "{returned}");
    let minutes = &record.claimed_by_minute[20..80];
    let went_in = minutes.iter().sum::<u64>() as f64 / 60.0 / 60.0;
    assert!((3.88..=4.08).contains(&went_in), "{went_in} a second of 4");
}

#[test]
fn whoever_came_before_waits_no_longer_with_credit_than_its_difference_more() {
    let story = |order| Story {
        order,
        crowd: Crowd {
            tiers: [0.9, 0.0, 0.1],
            ..Crowd::PATIENT
        },
        first: 1_200.0,
        coming: 4.0,
        told: (0, 1_500),
        ..Story::STEADY
    };
    let delay = |order| {
        let record = run(&story(order), 5);
        let mut delays = vec![None; record.joined as usize];
        for it in record.passed.iter().filter(|it| it.tier == 3) {
            delays[it.who as usize] = Some(it.called - it.came);
        }
        delays
    };

    let fifo = delay(Order::Credit([0; 3]));
    let credit = delay(Order::Credit([300_000, 0, 0]));

    let both = credit.iter().zip(&fifo).filter_map(|it| (*it.0).zip(*it.1));
    let more: Vec<_> = both
        .map(|(credit, fifo)| credit as i64 - fifo as i64)
        .collect();
    assert!(more.len() > 100, "{}", more.len());
    let most = more.iter().max().unwrap();
    assert!((100..=302).contains(most), "{most} s");
}

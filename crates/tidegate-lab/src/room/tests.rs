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
        // In a line that slows down for long, two faults of the plain formula make up for each other.
        let plain = record.accuracy(Formula::Ticket);
        let is_slowing = story.name == Story::RAMP_DOWN.name;
        assert!(
            is_slowing || ours.off < plain.off,
            "{}: {plain:?}",
            story.name
        );
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

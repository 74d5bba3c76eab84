//! What steering a fleet comes to: weights by capacity keep still, and three states do what two cannot.

mod health_model;

use health_model::{
    HALF_GONE_AT, Law, Loop, Moment, SWINGING, Tells, all_hot, capacity_swings, changes, half_gone,
    settled, two_fifths_gone,
};
use tidegate_core::health::State;

/// Once and a half of the noise.
const BAND: f64 = 0.15;

#[test]
fn weights_by_capacity_keep_still_whatever_the_load_the_smoothing_and_the_delay() {
    let most = capacity_swings();

    println!("{most:.5}");
    assert!(most < 0.01, "{most}");
}

#[test]
fn weights_by_headroom_swing_over_more_than_a_whole_node() {
    for (utilisation, alpha, delay) in SWINGING {
        let law = Law::Headroom;
        let plan = Loop {
            law,
            utilisation,
            alpha,
            delay,
        };

        let spread = plan.tail_spread();

        println!("{plan:?}: {spread:.2}");
        assert!(spread >= 1.2, "{plan:?}: {spread}");
    }
}

#[test]
fn a_node_that_halves_has_its_new_part_within_six_ticks_in_spite_of_noise_and_delay() {
    for tenths in 5..=9_u8 {
        let utilisation = f64::from(tenths) / 10.0;
        for seed in 0..20 {
            let story = half_gone(utilisation, seed);
            let settled = |moments: &[Moment]| settled(moments, HALF_GONE_AT, utilisation, BAND);

            let ours = settled(&story.with_tidegate(Tells::Calm));
            let by_headroom = settled(&story.with_headroom());

            println!("{utilisation} with seed {seed}: {ours}, by headroom {by_headroom}");
            assert!(ours <= 6, "{utilisation} with seed {seed}: {ours}");
            assert!(
                by_headroom > 6,
                "{utilisation} with seed {seed}: {by_headroom}"
            );
        }
    }
}

#[test]
fn who_loses_two_fifths_is_slowed_and_never_out_where_two_states_lose_both_nodes() {
    for delay in 1..=3 {
        let story = two_fifths_gone(delay);
        let ours = story.with_tidegate(Tells::Workers);
        let two = story.with_two_states();

        let of_the_node: Vec<State> = ours.iter().map(|it| it.states[1]).collect();
        assert!(of_the_node.contains(&State::Stressed));
        assert!(!of_the_node.contains(&State::Saturated));
        let turns = of_the_node.windows(2).filter(|it| it[0] != it[1]).count();
        assert_eq!(turns, 2, "there and back");
        assert_eq!(of_the_node.last(), Some(&State::Healthy));
        assert!(ours[100].share(1) < 0.4, "{}", ours[100].share(1));
        assert!(ours[259].share(1) > 0.49, "{}", ours[259].share(1));
        assert!(ours.iter().all(|it| it.good() > 0.999));

        let gone = two.iter().map(Moment::out).max();
        assert_eq!(gone, Some(2), "and then nobody is in");
        assert!(two.iter().any(|it| it.good() == 0.0));
    }
}

#[test]
fn a_fleet_that_is_hot_as_a_whole_does_not_flap() {
    for utilisation in [0.6, 0.7, 0.75, 0.8, 0.85, 0.9] {
        for delay in [1, 3] {
            let moments = all_hot(utilisation, delay).with_tidegate(Tells::Workers);

            let good: f64 = moments.iter().map(Moment::good).sum::<f64>() / 600.0;
            let each = changes(&moments) as f64 / 12.0;

            println!("{utilisation} {delay}: {each:.2} changes of a node, {good:.4} good");
            assert!(
                each <= 2.0 && good > 0.999,
                "{utilisation} {delay}: {each} {good}"
            );
        }
    }
}

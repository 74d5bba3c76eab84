//! What a fleet decides, second by second.

use tidegate_core::health::{
    Decision, Dimension, Fleet, Freeze, Hold, Load, NodeId, Outcome, Pulse, Readings, Reason,
    Report, Scales, Settings, Signal, State,
};
use tidegate_core::time::Mono;

/// Nodes that can do 100 a second each and do 20, and say how much they use of something.
struct World {
    fleet: Fleet,
    tick: u64,
    decisions: Vec<Decision>,
    keep_sessions: bool,
    /// Whether somebody counts requests: an agent alone does not.
    is_measured: bool,
    /// What each node does, in requests per second.
    rps: f64,
    /// Whether a node that is full completes nothing, so that nobody can tell what comes to it.
    is_stuck_when_full: bool,
}

impl World {
    fn new() -> Self {
        Self {
            fleet: Fleet::new(Settings::default()),
            tick: 0,
            decisions: Vec::new(),
            keep_sessions: false,
            is_measured: true,
            rps: 20.0,
            is_stuck_when_full: false,
        }
    }

    /// A second in which each node says how much of `dimension` it uses, or nothing.
    fn tick(&mut self, dimension: Dimension, used: &[Option<f64>]) -> Pulse {
        self.tick += 1;
        let now = Mono::from_millis(self.tick * 1000);
        for (node, used) in (0..).zip(used) {
            let Some(used) = *used else {
                continue;
            };
            let signals = [Signal::read(dimension, used, 1.0, now)];
            let is_stuck = self.is_stuck_when_full && used >= 1.0;
            let report = Report {
                readings: Readings::of(&Scales::default(), &signals, now),
                load: (self.is_measured && !is_stuck).then_some(Load {
                    offered_rps: self.rps,
                    completed_rps: self.rps,
                    error_ratio: 0.0,
                    utilisation: self.rps / 100.0,
                    at: now,
                }),
                keeps_sessions: self.keep_sessions,
            };
            (self.fleet.report(now, NodeId(node), report)).expect("few nodes");
        }
        self.fleet.tick(now, &mut self.decisions)
    }

    fn ticks(&mut self, ticks: usize, dimension: Dimension, used: &[Option<f64>]) -> Pulse {
        let mut pulse = Pulse::default();
        for _ in 0..ticks {
            pulse = self.tick(dimension, used);
        }
        pulse
    }

    fn outcome(&self, node: usize) -> Outcome {
        self.decisions[node].outcome
    }

    fn weights(&self) -> Vec<u8> {
        self.decisions.iter().map(|it| it.outcome.weight).collect()
    }
}

const CALM: Option<f64> = Some(0.2);
const FULL: Option<f64> = Some(1.0);

#[test]
fn a_node_that_fills_is_stressed_then_out_and_comes_back_from_a_tenth() {
    let mut world = World::new();
    world.ticks(10, Dimension::Threads, &[CALM; 3]);

    world.tick(Dimension::Threads, &[FULL, CALM, CALM]);
    assert_eq!(world.outcome(0).to, State::Stressed);
    assert_eq!(
        world.outcome(0).reason,
        Some(Reason::Low(Dimension::Threads))
    );
    assert_eq!(world.weights(), [70, 100, 100]);
    world.ticks(2, Dimension::Threads, &[FULL, CALM, CALM]);
    assert_eq!(world.outcome(0).to, State::Saturated);
    assert_eq!(world.weights(), [0, 100, 100]);

    let mut story = Vec::new();
    for _ in 0..16 {
        world.tick(Dimension::Threads, &[CALM; 3]);
        story.push((world.outcome(0).to, world.outcome(0).weight));
    }
    assert_eq!(story[3], (State::Saturated, 0));
    assert_eq!(story[4], (State::Stressed, 10), "after five seconds");
    assert_eq!(story[6], (State::Stressed, 20));
    assert_eq!(story[15], (State::Healthy, 100));
}

#[test]
fn where_nobody_counts_requests_a_full_node_goes_if_the_others_have_room() {
    for (others, weights) in [(0.45, [0, 100]), (0.5, [100, 100])] {
        let mut world = World::new();
        world.is_measured = false;
        world.ticks(10, Dimension::Threads, &[Some(others); 2]);

        world.ticks(20, Dimension::Threads, &[FULL, Some(others)]);

        assert_eq!(
            world.weights(),
            weights,
            "beside a node that is {others} used"
        );
    }
    let mut world = World::new();
    world.is_measured = false;
    world.ticks(10, Dimension::Threads, &[Some(0.5); 3]);
    world.ticks(20, Dimension::Threads, &[FULL, Some(0.5), Some(0.5)]);
    assert_eq!(world.weights(), [0, 100, 100]);

    // It stays out while it is full, also when the others carry what came to it.
    world.ticks(20, Dimension::Threads, &[FULL, Some(0.75), Some(0.75)]);
    assert_eq!(world.weights()[0], 0);
}

#[test]
fn what_comes_to_a_node_that_cannot_tell_is_not_nothing() {
    // Two of three can carry what comes to all of them at 60 a second each, and cannot at 80.
    for (rps, state, guard) in [
        (60.0, State::Saturated, None),
        (80.0, State::Stressed, Some(Hold::Capacity)),
    ] {
        let mut world = World::new();
        world.rps = rps;
        world.is_stuck_when_full = true;
        world.ticks(10, Dimension::Threads, &[CALM; 3]);

        world.ticks(20, Dimension::Threads, &[FULL, CALM, CALM]);

        assert_eq!(world.outcome(0).to, state, "at {rps}");
        assert_eq!(world.outcome(0).guard, guard, "at {rps}");
    }
}

#[test]
fn of_two_that_fill_one_goes_and_one_has_the_least_weight() {
    let mut world = World::new();
    world.ticks(10, Dimension::Gc, &[CALM; 3]);
    world.ticks(10, Dimension::Gc, &[FULL, CALM, CALM]);

    let pulse = world.ticks(10, Dimension::Gc, &[FULL, FULL, CALM]);

    assert_eq!(world.weights(), [0, 5, 100]);
    assert_eq!(world.outcome(1).to, State::Stressed);
    assert_eq!(world.outcome(1).guard, Some(Hold::Fraction));
    assert_eq!(pulse.out, 1);
    assert_eq!(pulse.freeze, Some(Freeze::Guard(Hold::Fraction)));
}

#[test]
fn what_many_suffer_from_together_takes_nobody_out_and_slows_admission() {
    let mut world = World::new();
    world.ticks(10, Dimension::Pool, &[CALM; 5]);
    let mut pulse = Pulse::default();

    for tick in 0..60 {
        let late = if tick < 2 { CALM } else { FULL };
        pulse = world.tick(Dimension::Pool, &[FULL, FULL, FULL, late, late]);
        assert_eq!(pulse.out, 0);
    }

    assert_eq!(pulse.shared.unwrap().dimension, Dimension::Pool);
    assert_eq!(pulse.freeze, Some(Freeze::Dependency));
    assert!(pulse.admission < 0.51, "{}", pulse.admission);
    assert_eq!(pulse.spare.rps, Some(0.0));
    assert_eq!(world.weights(), [100; 5]);
    assert_eq!(world.outcome(4).guard, Some(Hold::Dependency));

    let pulse = world.ticks(20, Dimension::Pool, &[CALM; 5]);
    assert_eq!((pulse.shared, pulse.admission), (None, 1.0));
}

#[test]
fn who_recovers_last_from_what_all_suffered_from_is_not_taken_out_for_it() {
    let mut world = World::new();
    world.ticks(10, Dimension::Pool, &[CALM; 3]);
    let pulse = world.ticks(20, Dimension::Pool, &[FULL; 3]);
    assert!(pulse.shared.is_some());

    for _ in 0..9 {
        let pulse = world.tick(Dimension::Pool, &[CALM, CALM, FULL]);
        assert_eq!((pulse.shared, pulse.out), (None, 0));
    }
    let pulse = world.ticks(3, Dimension::Pool, &[CALM, CALM, FULL]);

    assert_eq!(pulse.out, 1, "by now it is its own fault");
}

#[test]
fn of_two_that_are_left_the_stressed_one_still_has_less() {
    let mut world = World::new();
    world.ticks(10, Dimension::Threads, &[CALM; 3]);
    world.ticks(10, Dimension::Threads, &[Some(0.58), CALM, CALM]);

    let pulse = world.ticks(10, Dimension::Threads, &[Some(0.58), FULL, CALM]);

    assert_eq!((pulse.out, pulse.freeze), (1, None));
    assert_eq!(world.weights(), [70, 0, 100]);
}

#[test]
fn silence_is_healthy_at_full_weight_and_says_that_nothing_is_known() {
    let mut world = World::new();
    world.ticks(10, Dimension::Gc, &[CALM; 3]);
    world.ticks(10, Dimension::Gc, &[FULL, CALM, CALM]);
    assert_eq!(world.outcome(0).to, State::Saturated);

    world.ticks(3, Dimension::Gc, &[None, CALM, CALM]);
    assert_eq!(
        world.outcome(0).to,
        State::Saturated,
        "what it said still counts"
    );
    let pulse = world.tick(Dimension::Gc, &[None, CALM, CALM]);

    let outcome = world.outcome(0);
    assert_eq!((outcome.to, outcome.weight), (State::Unknown, 100));
    assert_eq!((outcome.left, outcome.reason), (None, Some(Reason::Silent)));
    assert_eq!((pulse.nodes, pulse.heard), (3, 2));

    let pulse = world.ticks(4, Dimension::Gc, &[None; 3]);
    assert_eq!(world.weights(), [100; 3]);
    assert_eq!((pulse.heard, pulse.spare.utilisation), (0, None));
}

#[test]
fn who_is_silent_for_a_minute_is_no_longer_counted() {
    let mut world = World::new();
    world.ticks(2, Dimension::Gc, &[CALM; 3]);

    let pulse = world.ticks(60, Dimension::Gc, &[CALM, CALM, None]);
    assert_eq!(pulse.nodes, 3);
    let pulse = world.tick(Dimension::Gc, &[CALM, CALM, None]);

    assert_eq!(pulse.nodes, 2);
}

#[test]
fn a_node_that_joins_begins_with_a_tenth_and_a_fleet_that_begins_does_not() {
    let mut world = World::new();
    world.tick(Dimension::Threads, &[CALM; 2]);
    assert_eq!(world.weights(), [100, 100]);
    world.ticks(5, Dimension::Threads, &[CALM; 2]);

    let weights: Vec<u8> = (0..8)
        .map(|_| {
            world.tick(Dimension::Threads, &[CALM; 3]);
            world.outcome(2).weight
        })
        .collect();

    assert_eq!(weights, [10, 14, 20, 28, 40, 57, 80, 100]);
}

#[test]
fn sessions_in_a_heap_are_slowed_and_never_removed() {
    let mut world = World::new();
    world.keep_sessions = true;
    world.ticks(10, Dimension::Gc, &[CALM; 4]);

    let pulse = world.ticks(20, Dimension::Gc, &[FULL, CALM, CALM, CALM]);

    assert_eq!(world.weights(), [5, 100, 100, 100]);
    assert_eq!(world.outcome(0).guard, Some(Hold::Sessions));
    assert_eq!(pulse.out, 0);
}

#[test]
fn a_fleet_under_pressure_hands_it_to_admission() {
    let mut world = World::new();
    world.ticks(10, Dimension::Threads, &[CALM; 4]);
    // Too slow for a dependency.
    for hundredths in (20..75).step_by(1) {
        let used = Some(f64::from(hundredths) / 100.0);
        world.tick(Dimension::Threads, &[used; 4]);
    }

    let pulse = world.ticks(10, Dimension::Threads, &[Some(0.75); 4]);

    assert_eq!(pulse.freeze, Some(Freeze::Stressed));
    assert_eq!(
        world.weights(),
        [100; 4],
        "by capacity, and not by who is stressed"
    );
    assert!((pulse.spare.utilisation.unwrap() - 0.75).abs() < 0.02);
    assert!((pulse.admission - 0.667).abs() < 0.02);
    assert_eq!(pulse.spare.capacity_rps.map(f64::round), Some(400.0));
}

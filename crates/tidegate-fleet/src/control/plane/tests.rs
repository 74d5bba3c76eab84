use tidegate_core::health::{Load, Signal};
use tidegate_core::time::Wall;
use tidegate_store::{Order, Stamp};

use super::*;

pub(super) fn name(number: u32) -> Name {
    Name::new(&format!("node-{number}")).unwrap()
}

pub(super) fn said(sequence: u64, now: Mono, threads: f64) -> Said {
    Said {
        sequence,
        signals: vec![Signal::read(Dimension::Threads, threads, 200.0, now)],
        load: Some(Load {
            offered_rps: threads,
            completed_rps: threads,
            error_ratio: 0.0,
            utilisation: threads / 200.0,
            at: now,
        }),
        ..Said::nothing()
    }
}

pub(super) fn beacons(now: Mono, said: impl IntoIterator<Item = (u32, u64, Said)>) -> Beacons {
    Beacons {
        now: Wall::from_micros(1_790_000_000_000_000),
        beacons: said
            .into_iter()
            .map(|(number, incarnation, said)| Beacon {
                node: Node {
                    id: name(number),
                    incarnation,
                },
                at: Wall::default(),
                said: said.encode(now),
            })
            .collect(),
        orders: Vec::new(),
        odd: Vec::new(),
    }
}

fn plane() -> Plane {
    Plane::new(name(0), Settings::default())
}

pub(super) fn at(second: u64) -> Mono {
    Mono::from_millis(1_000_000 + second * 1_000)
}

#[test]
fn a_beacon_counts_once_however_often_it_is_read() {
    let mut plane = plane();
    let full = said(1, at(0), 200.0);
    let read = |full: &Said| beacons(at(0), [(1, 7, full.clone()), (2, 7, said(1, at(0), 20.0))]);

    // Twice too little room would saturate it, if the second time were news.
    let first = plane.tick(at(0), Fence(1), &read(&full));
    let second = plane.tick(at(1), Fence(1), &read(&full));

    assert_eq!(first.nodes[&name(1)].state(), State::Stressed);
    assert_eq!(second.nodes[&name(1)].state(), State::Stressed);
    assert_eq!(second.nodes[&name(1)].age_ms, Some(1_000));
    assert_eq!(second.decided.generation, first.decided.generation + 1);
}

#[test]
fn who_is_silent_is_unknown_then_forgotten_and_who_leaves_is_forgotten_at_once() {
    let mut plane = plane();
    for second in 0..5 {
        let said = |number| (number, 7, said(second, at(second), 20.0));
        plane.tick(
            at(second),
            Fence(1),
            &beacons(at(second), [said(1), said(2), said(3)]),
        );
    }
    let mut bye = said(5, at(5), 20.0);
    bye.is_leaving = true;

    let alone = |second| [(1, 7, said(second, at(second), 20.0))];
    let left = plane.tick(
        at(5),
        Fence(1),
        &beacons(at(5), [(1, 7, said(5, at(5), 20.0)), (3, 7, bye)]),
    );
    assert!(!left.nodes.contains_key(&name(3)));
    for second in 6..=64 {
        let judged = plane.tick(at(second), Fence(1), &beacons(at(second), alone(second)));
        let told = &judged.nodes[&name(2)];
        assert_eq!(
            told.state() == State::Unknown,
            second > 7,
            "second {second}"
        );
        assert!(told.state() != State::Saturated && told.weight > 0);
    }
    let judged = plane.tick(at(65), Fence(1), &beacons(at(65), alone(65)));
    assert!(!judged.nodes.contains_key(&name(2)));
}

#[test]
fn a_process_that_was_started_again_begins_with_a_part_of_the_traffic() {
    let mut plane = plane();
    let mut judged = None;
    for second in 0..10 {
        let life = if second < 8 { 7 } else { 8 };
        let all = [1, 2, 3].map(|number| {
            let life = if number == 2 { life } else { 7 };
            (number, life, said(second, at(second), 80.0))
        });
        judged = Some(plane.tick(at(second), Fence(1), &beacons(at(second), all)));
    }

    let nodes = judged.unwrap().nodes;
    assert_eq!(nodes[&name(1)].weight, 100);
    assert!(nodes[&name(2)].weight < 30, "{:?}", nodes[&name(2)]);
}

#[test]
fn what_cannot_be_read_is_silence() {
    let mut plane = plane();
    let mut read = beacons(at(0), [(1, 7, said(1, at(0), 200.0))]);
    read.beacons[0].said = b"{\"v\":9,\"least\":9,\"seq\":1}".to_vec();

    let judged = plane.tick(at(0), Fence(1), &read);

    assert!(judged.nodes.is_empty());
    assert_eq!(plane.unreadable(), 1);
}

#[test]
fn a_plane_that_rested_knows_nothing_of_before() {
    let mut plane = plane();
    for second in 0..8 {
        let all = [
            (1, 7, said(second, at(second), 200.0)),
            (2, 7, said(second, at(second), 2.0)),
        ];
        plane.tick(at(second), Fence(1), &beacons(at(second), all));
    }

    let later = plane.tick(
        at(60),
        Fence(9),
        &beacons(at(60), [(1, 7, said(60, at(60), 200.0))]),
    );

    assert_eq!(later.nodes.len(), 1);
    assert_eq!(later.nodes[&name(1)].state(), State::Stressed);
}

/// An order to drain node `number`.
fn order(number: u32) -> Order {
    Order {
        node: name(number),
        since: Wall::default(),
        until: None,
        said: Drain::encode("kim", Some("new disk")),
    }
}

#[test]
fn a_drained_node_weighs_nothing_still_says_what_it_reads_and_is_counted_once() {
    let mut plane = plane();
    let mut judged = None;
    for second in 0..3 {
        let all = [1, 2, 3].map(|number| (number, 7, said(second, at(second), 180.0)));
        let mut read = beacons(at(second), all);
        read.orders = vec![order(2)];
        judged = Some(plane.tick(at(second), Fence(1), &read));
    }

    let judged = judged.unwrap();
    let told = &judged.nodes[&name(2)];
    assert!(told.is_drained());
    assert_eq!((told.weight, told.age_ms), (0, Some(0)));
    assert_eq!(told.dimension(), Some(Dimension::Threads));
    assert_eq!(told.left, Some(0.1));
    assert_eq!(told.binding.as_ref().unwrap().for_ms, 2_000);
    let word = &judged.word;
    assert_eq!((word.nodes, word.heard, word.drained), (3, 3, 1));
}

#[test]
fn a_node_that_is_switched_off_while_it_is_drained_stays_drained() {
    let mut plane = plane();
    let mut judged = None;
    for second in 0..70 {
        let first = (1, 7, said(second, at(second), 20.0));
        let second_node = (2, 7, said(second, at(second), 20.0));
        let living = [Some(first), (second < 3).then_some(second_node)];
        let mut read = beacons(at(second), living.into_iter().flatten());
        read.orders = vec![order(2)];
        judged = Some(plane.tick(at(second), Fence(1), &read));
    }

    let judged = judged.unwrap();
    let told = &judged.nodes[&name(2)];
    assert!(told.is_drained());
    assert_eq!((told.weight, told.age_ms), (0, None));
    let word = &judged.word;
    assert_eq!((word.nodes, word.heard, word.drained), (2, 1, 1));
}

#[test]
fn a_new_leader_lists_who_died_with_the_former_one_for_a_minute() {
    let mut former = Plane::new(name(2), Settings::default());
    let all = [1, 2, 3].map(|number| (number, 7, said(1, at(0), 20.0)));
    let last = former.tick(at(0), Fence(1), &beacons(at(0), all));
    let wall = |ms: u64| Wall::from_micros(1_790_000_000_000_000 + ms * 1_000);
    let issue = Issue {
        now: wall(4_000),
        stamp: Stamp {
            fence: Fence(1),
            generation: 1,
            at: wall(0),
            until: wall(3_000),
        },
        fleet: last.decided.fleet,
        verdicts: last.decided.verdicts,
    };
    let mut plane = plane();
    assert!(plane.is_new(at(4)));
    plane.resume(at(4), Some(&issue));

    // Node 3 says goodbye meanwhile, and node 1 goes on.
    let mut bye = said(2, at(4), 20.0);
    bye.is_leaving = true;
    let read = beacons(at(4), [(1, 7, said(2, at(4), 20.0)), (3, 7, bye)]);
    let first = plane.tick(at(4), Fence(2), &read);

    assert!(!plane.is_new(at(5)));
    let names: Vec<String> = first.nodes.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["node-1", "node-2"]);
    let silent = &first.nodes[&name(2)];
    assert_eq!((silent.state(), silent.weight), (State::Unknown, 100));
    assert_eq!(silent.age_ms, Some(4_000));
    assert_eq!((first.word.nodes, first.word.heard), (2, 1));
    for second in 5..=61 {
        let read = beacons(at(second), [(1, 7, said(second, at(second), 20.0))]);
        let judged = plane.tick(at(second), Fence(2), &read);
        assert_eq!(
            judged.nodes.contains_key(&name(2)),
            second <= 60,
            "{second}"
        );
    }
}

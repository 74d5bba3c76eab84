//! Whole fleets of stations over one store, tick by tick: the store's clock and everybody else's are moved by hand.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::health::{Dimension, Signal};
use tidegate_core::rng::Rng;
use tidegate_core::time::Wall;
use tidegate_lab::peers::RedisServer;
use tidegate_store::Background;
use tidegate_store::embedded::{Clock, Embedded, EmbeddedPlan};
use tidegate_store::redis::{Address, Arrangement, Redis, RedisPlan, Use};

use super::*;
use crate::control::decision::{LineKind, replay_line};
use crate::control::follower::Source;
use crate::control::order::Drain;
use crate::control::view::view;

#[path = "odd_tests.rs"]
mod odd_tests;

const CALL: Call = Call::within(Duration::from_secs(5));
const HOUR: i64 = 3_600;

/// A fleet, and the store's clock.
struct World {
    fleet: Fleet,
    micros: Arc<AtomicU64>,
    stations: Vec<Option<Station>>,
    /// How full each node's workers are, and its pool.
    used: Vec<(f64, f64)>,
    now: Mono,
}

impl World {
    fn new(nodes: usize) -> Self {
        let micros = Arc::new(AtomicU64::new(1_790_000_000_000_000));
        let hand = Arc::clone(&micros);
        let store = Embedded::start(EmbeddedPlan {
            clock: Clock::new(move || Wall::from_micros(hand.load(Ordering::Relaxed))),
            ..EmbeddedPlan::at(None)
        });
        Self::over(Fleet::Embedded(store.unwrap()), micros, nodes)
    }

    fn over(fleet: Fleet, micros: Arc<AtomicU64>, nodes: usize) -> Self {
        let station = |number| Some(station(&fleet, number, None));
        Self {
            stations: (0..nodes).map(station).collect(),
            used: vec![(0.3, 0.1); nodes],
            fleet,
            micros,
            now: Mono::from_millis(60_000),
        }
    }

    /// A second passes, and every station that is there has its turn.
    async fn tick(&mut self) -> Vec<Option<Standing>> {
        self.now = self.now + TICK;
        self.micros.fetch_add(1_000_000, Ordering::Relaxed);
        let mut all = Vec::new();
        for (station, (threads, pool)) in self.stations.iter_mut().zip(&self.used) {
            let signals = vec![
                Signal::read(Dimension::Threads, threads * 200.0, 200.0, self.now),
                Signal::read(Dimension::Pool, pool * 20.0, 20.0, self.now),
            ];
            let said = Said {
                signals,
                ..Said::nothing()
            };
            all.push(match station {
                Some(station) => Some(station.turn(self.now, said).await),
                None => None,
            });
        }
        all
    }

    async fn ticks(&mut self, count: usize) -> Vec<Option<Standing>> {
        for _ in 1..count {
            self.tick().await;
        }
        self.tick().await
    }

    /// Moves the store's clock.
    fn jump(&self, seconds: i64) {
        let moved = self.micros.load(Ordering::Relaxed);
        let moved = moved.checked_add_signed(seconds * 1_000_000).unwrap();
        self.micros.store(moved, Ordering::Relaxed);
    }

    fn leaders(&self) -> Vec<usize> {
        let all = self.stations.iter().enumerate();
        all.filter(|(_, station)| {
            let judged = station.as_ref().and_then(|it| it.judged(self.now));
            judged.is_some()
        })
        .map(|(number, _)| number)
        .collect()
    }

    fn told(&self, number: usize) -> (State, u8) {
        let leader = self.leaders()[0];
        let station = self.stations[leader].as_ref().unwrap();
        let told = &station.judged(self.now).unwrap().nodes[&name(number)];
        (told.state(), told.weight)
    }
}

fn name(number: usize) -> Name {
    Name::new(&format!("node-{number}")).unwrap()
}

fn station(fleet: &Fleet, number: usize, log: Option<DecisionLog>) -> Station {
    let plan = StationPlan {
        node: Node {
            id: name(number),
            incarnation: 7,
        },
        may_lead: true,
        settings: Settings::default(),
        timeout: CALL.timeout,
    };
    Station::new(plan, fleet.clone(), log)
}

/// What is so of all of them, in the pool or not there at all.
fn assert_all_in(standings: &[Option<Standing>], what: &str) {
    for (number, standing) in standings.iter().enumerate() {
        let Some(standing) = standing else { continue };
        let verdict = &standing.verdict;
        let is_in = verdict.state != State::Saturated && verdict.weight > 0;
        assert!(is_in, "{what}: node {number}: {standing:?}");
    }
}

#[tokio::test]
async fn a_full_node_is_stressed_then_out_and_comes_back() {
    let mut world = World::new(4);
    world.ticks(3).await;
    assert_eq!(world.leaders(), [0]);
    world.used[2].0 = 1.0;

    let mut states = Vec::new();
    for tick in 0..40 {
        if tick == 10 {
            world.used[2].0 = 0.2;
        }
        let standings = world.tick().await;
        let standing = standings[2].as_ref().unwrap();
        assert_eq!(standing.source, Source::Control);
        if states.last() != Some(&standing.verdict.state) {
            states.push(standing.verdict.state);
        }
        for other in [0, 1, 3] {
            let standing = standings[other].as_ref().unwrap();
            assert_eq!(standing.verdict.state, State::Healthy);
        }
    }

    let episode = [
        State::Healthy,
        State::Stressed,
        State::Saturated,
        State::Stressed,
        State::Healthy,
    ];
    assert_eq!(states, episode);
}

#[tokio::test]
async fn an_agent_that_dies_leaves_its_node_in() {
    let mut world = World::new(4);
    world.used[2].0 = 1.0;
    world.ticks(8).await;
    assert_eq!(world.told(2).0, State::Saturated);

    world.stations[2] = None;
    world.stations[3] = None;
    let standings = world.ticks(5).await;

    assert_all_in(&standings, "two agents are gone");
    assert_eq!(world.told(2), (State::Unknown, 100));
    assert_eq!(world.told(3), (State::Unknown, 100));
}

#[tokio::test]
async fn a_leader_that_dies_takes_nobody_along() {
    let mut world = World::new(4);
    world.used[2].0 = 1.0;
    world.ticks(8).await;
    assert_eq!(world.leaders(), [0]);

    world.stations[0] = None;
    for _ in 0..3 {
        let standings = world.tick().await;
        for healthy in [1, 3] {
            let verdict = standings[healthy].as_ref().unwrap().verdict;
            assert_ne!(verdict.state, State::Saturated);
            assert_eq!(verdict.weight, 100);
        }
    }
    let standings = world.ticks(2).await;

    assert_eq!(world.leaders(), [1]);
    let sources = standings.iter().flatten().map(|standing| standing.source);
    assert!(sources.into_iter().all(|source| source == Source::Control));
}

#[tokio::test]
async fn a_leader_that_dies_leaves_dwell_and_streaks_where_they_were() {
    // One that died and one that lives: what the other nodes are told must be the same, but for when nobody leads.
    let mut states = [Vec::new(), Vec::new()];
    for (dies, states) in [false, true].into_iter().zip(&mut states) {
        let mut world = World::new(4);
        world.ticks(3).await;
        world.used[2].0 = 1.0;
        world.ticks(6).await;
        assert_eq!(world.told(2), (State::Saturated, 0));
        world.used[2].0 = 0.3;
        world.ticks(2).await;
        if dies {
            world.stations[0] = None;
        }
        world.ticks(4).await;
        for _ in 0..20 {
            world.tick().await;
            let told = world.told(2);
            if states.last() != Some(&told) {
                states.push(told);
            }
        }
        assert_eq!(world.leaders(), [usize::from(dies)]);
    }

    // Three seconds without a leader are three in which nobody counted.
    assert_eq!(states[1].last(), Some(&(State::Healthy, 100)));
    let turns = |told: &[(State, u8)]| {
        let mut turns: Vec<State> = told.iter().map(|it| it.0).collect();
        turns.dedup();
        turns
    };
    assert_eq!(turns(&states[1]).last(), turns(&states[0]).last());
    assert!(turns(&states[1]).len() <= 3, "{:?}", states[1]);
    assert!(
        states[1].windows(2).all(|pair| pair[0].1 <= pair[1].1),
        "{:?}",
        states[1]
    );
}

#[tokio::test]
async fn all_that_fall_silent_are_in() {
    let mut world = World::new(3);
    world.used[1].0 = 1.0;
    world.ticks(8).await;
    let before = world.fleet.published(CALL).await.unwrap().unwrap();
    assert!(before.now < before.stamp.until);

    world.stations = vec![None, None, None];
    world.ticks(4).await;

    // Whoever reads what was published, a balancer's side or an operator, finds that it is over.
    let issue = world.fleet.published(CALL).await.unwrap();
    let read = world.fleet.beacons(CALL).await.unwrap();
    let seen = view(issue.as_ref(), &read);
    assert!(seen.fleet.is_none());
    for node in seen.nodes {
        assert_eq!((node.state, node.weight), ("unknown", 100), "{}", node.node);
        assert_eq!(node.beacon_age_ms, None, "{}", node.node);
    }
    // And one that comes back alone is not the last to be taken out.
    world.stations[1] = Some(station(&world.fleet, 1, None));
    for _ in 0..12 {
        let standings = world.tick().await;
        assert_all_in(&standings, "one is back, and full");
    }
}

/// A fleet over `server`, and what it lives by.
async fn over(server: &RedisServer) -> (Fleet, Background) {
    let address = Address::parse(&server.address().to_string()).unwrap();
    let mut plan = RedisPlan::usual(Arrangement::Standalone(address));
    plan.operation_timeout = CALL.timeout;
    let background = Background::start().unwrap();
    let fleet = Fleet::Redis(Redis::start(&plan, Use::Bus, &background));
    tidegate_lab::patience::until("the store answers", async || fleet.beacons(CALL).await.ok())
        .await;
    (fleet, background)
}

#[tokio::test]
async fn a_store_that_is_lost_leaves_everybody_in_at_most_stressed() {
    let server = RedisServer::plain().unwrap();
    let (fleet, _background) = over(&server).await;
    let mut world = World::over(fleet, Arc::default(), 4);
    world.used[2].0 = 1.0;
    world.ticks(8).await;
    assert_eq!(world.told(2).0, State::Saturated);

    drop(server);
    let mut standings = Vec::new();
    for _ in 0..4 {
        standings = world.tick().await;
    }

    assert_all_in(&standings, "the store is lost");
    let full = standings[2].as_ref().unwrap();
    assert_eq!(
        (full.verdict.state, full.source),
        (State::Stressed, Source::Local)
    );
    assert_eq!(full.verdict.binding, Some(Dimension::Threads));
    let idle = standings[1].as_ref().unwrap();
    assert_eq!(
        (idle.verdict.state, idle.verdict.weight),
        (State::Healthy, 100)
    );
    let station = world.stations[1].as_ref().unwrap();
    assert!(station.posts(Post::Away) >= 3);
}

#[tokio::test]
async fn a_clock_that_jumps_takes_nobody_out() {
    for jump in [HOUR, -HOUR] {
        let mut world = World::new(4);
        world.ticks(5).await;

        world.jump(jump);
        for tick in 0..20 {
            let standings = world.tick().await;
            assert_all_in(&standings, &format!("{tick} s after {jump} s"));
            for standing in standings.iter().flatten() {
                assert_eq!(standing.verdict.weight, 100, "{tick} s after {jump} s");
            }
            if tick >= 4 {
                let led = standings.iter().flatten();
                assert!(led.into_iter().all(|it| it.source == Source::Control));
            }
        }
    }
}

#[tokio::test]
async fn a_leader_that_dies_while_the_clock_goes_back_leaves_nobody_out() {
    let mut world = World::new(4);
    world.used[2].0 = 1.0;
    world.ticks(8).await;

    world.stations[0] = None;
    world.jump(-HOUR);
    // Its lease now lasts an hour for the store, and nobody leads.
    let standings = world.ticks(10).await;

    assert!(world.leaders().is_empty());
    assert_all_in(&standings, "nobody leads");
    assert_eq!(
        standings[2].as_ref().unwrap().verdict.state,
        State::Stressed
    );
}

#[tokio::test]
async fn what_all_suffer_from_is_a_dependency_and_takes_nobody_out() {
    let mut world = World::new(5);
    world.ticks(6).await;

    for used in &mut world.used {
        *used = (0.9, 1.0);
    }
    let mut standings = Vec::new();
    for _ in 0..10 {
        standings = world.tick().await;
        assert_all_in(&standings, "the database is slow");
    }

    let word = standings[3].as_ref().unwrap().word.as_ref().unwrap();
    assert_eq!(word.shared.as_ref().unwrap().dimension, "pool");
    assert_eq!(word.freeze.as_deref(), Some("dependency"));
    assert!(word.admission < 1.0, "{word:?}");
}

#[tokio::test]
async fn a_drained_node_hears_of_it_and_the_last_is_never_drained() {
    let mut world = World::new(2);
    world.ticks(4).await;
    let order = Drain::encode("kim", Some("new disk"));
    for node in [0, 1] {
        assert_eq!(
            world.fleet.order(&name(node), &order, None, CALL).await,
            Ok(true)
        );
        world.jump(1);
    }

    let standings = world.ticks(3).await;

    let first = standings[0].as_ref().unwrap();
    let drain = first.drain.as_ref().unwrap();
    assert_eq!(
        (drain.by.as_str(), drain.why.as_deref()),
        ("kim", Some("new disk"))
    );
    assert_eq!(first.word.as_ref().unwrap().drained, 1);
    assert_eq!(standings[1].as_ref().unwrap().drain, None);

    world.fleet.take_order_back(&name(0), CALL).await.unwrap();
    let standings = world.ticks(2).await;
    assert_eq!(standings[0].as_ref().unwrap().drain, None);
    assert!(standings[1].as_ref().unwrap().drain.is_some());
}

#[tokio::test]
async fn what_holds_is_told_by_the_time_after_the_turn() {
    let world = World::new(0);
    // Each look at the clock takes a millisecond, and so does a turn.
    let looks = Cell::new(0);
    let clock = || Mono::from_millis(60_000 + looks.replace(looks.get() + 1));
    let (read, told) = (Cell::new(Mono::MAX), Cell::new(Mono::default()));
    let (stop, stopped) = oneshot::channel();
    let mut stop = Some(stop);

    run(
        station(&world.fleet, 0, None),
        clock,
        |now| {
            read.set(now);
            Said::nothing()
        },
        |_, now| {
            told.set(now);
            drop(stop.take());
        },
        watch::Sender::new(Standing::SILENCE),
        stopped,
    )
    .await;

    assert!(told.get() > read.get(), "{told:?} {read:?}");
}

#[tokio::test]
async fn two_of_one_name_are_noticed() {
    let mut world = World::new(2);
    world.ticks(2).await;
    let mut plan = world.stations[1].as_ref().unwrap().plan.clone();
    plan.node.incarnation = 8;
    let mut second = Station::new(plan, world.fleet.clone(), None);
    second.turn(world.now, Said::nothing()).await;

    world.tick().await;

    let first = world.stations[1].as_ref().unwrap();
    assert_eq!(first.posts(Post::Superseded), 1);
}

/// A file that goes with its owner.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn what_was_decided_is_written_down_and_comes_out_again() {
    let path = std::env::temp_dir().join(format!("tidegate-decisions-{}", std::process::id()));
    let file = Temporary(path);
    let mut world = World::new(0);
    let log = DecisionLog::open(&file.0).unwrap();
    for number in 0..4 {
        let log = (number == 0).then(|| log.clone());
        world
            .stations
            .push(Some(station(&world.fleet, number, log)));
        world.used.push((0.3, 0.1));
    }
    world.ticks(4).await;
    world.used[2].0 = 1.0;
    world.ticks(8).await;
    world.used[2].0 = 0.123_456_789;
    world.ticks(20).await;

    tidegate_lab::patience::until("all is written", async || {
        let turns = std::fs::read_to_string(&file.0).ok()?;
        turns
            .contains("\"reason\":\"recovered\",\"weight\":100")
            .then_some(())
    })
    .await;
    let text = std::fs::read_to_string(&file.0).unwrap();
    let mut turns = 0;
    for line in text.lines() {
        match replay_line(line).unwrap() {
            LineKind::Reproduced { is_turn, .. } => turns += u32::from(is_turn),
            LineKind::Differs { parts, .. } => panic!("{parts:?}: {line}"),
        }
    }
    assert!(turns >= 8, "{turns} in {text}");
    assert_eq!(log.lost(), 0);

    let out = text
        .lines()
        .find(|line| line.contains("\"state_to\":\"saturated\""));
    let out = out.unwrap();
    let changed = out.replace("\"weight\":0", "\"weight\":9");
    let LineKind::Differs { node, parts, .. } = replay_line(&changed).unwrap() else {
        panic!("it came out again")
    };
    assert_eq!(node, "node-2");
    assert_eq!(parts, [("weight", "9".to_owned(), "0".to_owned())]);
    for odd in ["", "{}", "{\"v\":9}", &out.replace("saturated", "sated")] {
        assert!(replay_line(odd).is_err(), "{odd}");
    }
}

#[tokio::test]
async fn a_log_that_was_moved_away_goes_on_under_its_name() {
    let path = std::env::temp_dir().join(format!("tidegate-rotated-{}", std::process::id()));
    let (file, moved) = (Temporary(path.clone()), Temporary(path.with_extension("1")));
    let log = DecisionLog::open(&file.0).unwrap();
    let mut world = World::new(0);
    world
        .stations
        .push(Some(station(&world.fleet, 0, Some(log.clone()))));
    world.used.push((0.3, 0.1));
    world.ticks(2).await;
    tidegate_lab::patience::until("something is written", async || {
        (log.written() > 0).then_some(())
    })
    .await;

    std::fs::rename(&file.0, &moved.0).unwrap();
    log.reopen();
    world.used[0].0 = 0.7;
    world.ticks(3).await;

    tidegate_lab::patience::until("the new file has something", async || {
        let text = std::fs::read_to_string(&file.0).ok()?;
        text.contains("\"state_to\":\"stressed\"").then_some(())
    })
    .await;
}

#[tokio::test]
async fn whatever_dies_fills_or_jumps_no_more_than_the_guard_allows_are_out() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut world = World::new(7);
        world.ticks(3).await;
        for tick in 0..60 {
            let node = rng.below(7) as usize;
            match rng.below(12) {
                0 => world.stations[node] = None,
                1 | 2 => world.stations[node] = Some(station(&world.fleet, node, None)),
                3 | 4 => world.used[node] = (1.0, 0.5),
                5 => world.used[node] = (0.2, 0.1),
                6 => world.jump(HOUR),
                7 => world.jump(-HOUR),
                _ => {}
            }
            let standings = world.tick().await;
            let verdicts = standings.iter().flatten().map(|standing| standing.verdict);
            let out = verdicts.filter(|it| it.state == State::Saturated).count();
            assert!(out <= 2, "seed {seed}, second {tick}: {out} are out");
        }
    }
}

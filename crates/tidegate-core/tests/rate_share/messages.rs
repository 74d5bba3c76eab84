//! Messages between nodes and the store that are lost, come twice, late and in any order, while nodes are killed: no
//! token is given twice, and none is reported twice.

use proptest::prelude::*;
use tidegate_core::rate::share::aggregate::{AggregatePlan, Report, Reporter, Tally, Told};
use tidegate_core::rate::share::lease::{Ask, Grant, LeasePlan, Lessee, Lessor};
use tidegate_core::rate::share::{Life, Verdict};
use tidegate_core::rate::{BucketSpec, Tick};
use tidegate_core::rng::Rng;

use crate::world::SECOND;

const NODES: usize = 3;
const LIMIT: u64 = 1_000;

#[derive(Clone, Debug)]
enum Event {
    Take(usize, u64),
    GiveBack(usize, u64),
    /// The message on its way is given up.
    Lose(usize),
    /// One of the messages arrives, and may do so again.
    Deliver(usize, bool),
    Kill(usize),
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        60 => (0..NODES, 0u64..30).prop_map(|(node, cost)| Event::Take(node, cost)),
        5 => (0..NODES, 1u64..10).prop_map(|(node, tokens)| Event::GiveBack(node, tokens)),
        10 => (0..NODES).prop_map(Event::Lose),
        60 => (any::<usize>(), prop::bool::weighted(0.2))
            .prop_map(|(which, again)| Event::Deliver(which, again)),
        1 => (0..NODES).prop_map(Event::Kill),
        30 => (0u64..300_000).prop_map(Event::Pass),
    ];
    prop::collection::vec(event, 1..600)
}

/// A bucket that gets nothing while a test runs.
fn limit() -> BucketSpec {
    BucketSpec::new(1, 24 * 3_600 * SECOND, LIMIT).expect("coarse enough")
}

/// Takes one of the messages out, or reads it only.
fn pick<T: Copy>(wire: &mut Vec<T>, which: usize, again: bool) -> Option<T> {
    if wire.is_empty() {
        return None;
    }
    let which = which % wire.len();
    Some(if again {
        wire[which]
    } else {
        wire.swap_remove(which)
    })
}

fn lease_plan() -> LeasePlan {
    LeasePlan {
        chunk_max: 50,
        ..LeasePlan::usual(LIMIT)
    }
}

#[derive(Clone, Copy)]
enum Leased {
    Up(usize, Ask),
    Down(usize, Life, Grant),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_token_of_a_lease_is_spent_twice(events in events()) {
        let plan = lease_plan();
        let (mut now, mut lives, mut spent) = (0, NODES as u64, 0);
        let mut lessor = Lessor::new(limit(), plan, Tick(0));
        let node = |life| (Life(life), Lessee::new(&limit(), plan, Life(life)), 0u64, 0u64);
        let mut nodes: Vec<_> = (1..=NODES as u64).map(node).collect();
        let mut wire: Vec<Leased> = Vec::new();

        for event in events {
            match event {
                Event::Take(which, cost) => {
                    let (_, lessee, here, seq) = &mut nodes[which];
                    if lessee.take(Tick(now), cost) == Verdict::Passed {
                        spent += cost;
                        *here += cost;
                    }
                    let ask = lessee.ask(Tick(now));
                    *seq = ask.map_or(*seq, |ask| ask.seq);
                    wire.extend(ask.map(|ask| Leased::Up(which, ask)));
                }
                Event::GiveBack(which, tokens) => {
                    let (_, lessee, here, _) = &mut nodes[which];
                    let tokens = tokens.min(*here);
                    lessee.give_back(Tick(now), tokens);
                    *here -= tokens;
                    spent -= tokens;
                }
                Event::Lose(which) => {
                    let (_, lessee, _, seq) = &mut nodes[which];
                    lessee.lost(*seq);
                    let ask = lessee.ask(Tick(now));
                    *seq = ask.map_or(*seq, |ask| ask.seq);
                    wire.extend(ask.map(|ask| Leased::Up(which, ask)));
                }
                Event::Deliver(which, again) => match pick(&mut wire, which, again) {
                    Some(Leased::Up(which, ask)) => {
                        if let Some(grant) = lessor.ask(Tick(now), &ask) {
                            wire.push(Leased::Down(which, ask.life, grant));
                        }
                    }
                    Some(Leased::Down(which, life, grant)) if nodes[which].0 == life => {
                        nodes[which].1.granted(Tick(now), &grant);
                    }
                    Some(Leased::Down(..)) | None => {}
                },
                Event::Kill(which) => {
                    lives += 1;
                    nodes[which] = node(lives);
                }
                Event::Pass(us) => now += us,
            }

            let held: u64 = nodes.iter().map(|(_, lessee, ..)| lessee.remaining(Tick(now))).sum();
            let there = lessor.remaining(Tick(now));
            prop_assert!(spent + held + there <= LIMIT, "{spent} + {held} + {there}");
            prop_assert!(held <= plan.held_max(NODES as u32), "{held}");
        }
    }
}

#[derive(Clone, Copy)]
enum Reported {
    Up(usize, Report),
    Down(usize, Told),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_was_spent_is_counted_once(events in events()) {
        let plan = AggregatePlan::usual(LIMIT);
        let (mut now, mut spent, mut rng) = (0, 0i64, Rng::new(1));
        let mut tally = Tally::new(limit(), &plan, Tick(0));
        let node = |life| Reporter::new(limit(), plan, Life(life), Tick(0));
        let mut nodes: Vec<_> = (1..=NODES as u64).map(node).collect();
        let mut seqs = [0; NODES];
        let mut wire: Vec<Reported> = Vec::new();

        for event in events {
            match event {
                Event::Take(which, cost) => {
                    let reporter = &mut nodes[which];
                    if reporter.take(Tick(now), cost) == Verdict::Passed {
                        spent += cost as i64;
                    }
                    let report = reporter.report(Tick(now), &mut rng);
                    seqs[which] = report.map_or(seqs[which], |report| report.seq);
                    wire.extend(report.map(|report| Reported::Up(which, report)));
                }
                Event::Lose(which) => {
                    nodes[which].lost(seqs[which]);
                    let report = nodes[which].report(Tick(now), &mut rng);
                    seqs[which] = report.map_or(seqs[which], |report| report.seq);
                    wire.extend(report.map(|report| Reported::Up(which, report)));
                }
                Event::Deliver(which, again) => match pick(&mut wire, which, again) {
                    Some(Reported::Up(which, report)) => {
                        let told = tally.report(Tick(now), &report);
                        wire.push(Reported::Down(which, told));
                    }
                    Some(Reported::Down(which, told)) => nodes[which].told(Tick(now), &told),
                    None => {}
                },
                // What a bucket has too much is lost when it is full, so that sums would say less.
                Event::GiveBack(..) | Event::Kill(_) => {}
                Event::Pass(us) => now += us,
            }
        }

        // In the end everything arrives.
        for which in 0..NODES {
            for _ in 0..3 {
                nodes[which].lost(seqs[which]);
                nodes[which].take(Tick(now), 0);
                now += SECOND;
                if let Some(report) = nodes[which].report(Tick(now), &mut rng) {
                    seqs[which] = report.seq;
                    nodes[which].told(Tick(now), &tally.report(Tick(now), &report));
                }
            }
        }
        let stranger = Report { life: Life(99), seq: 1, spent: 0, returned: 0 };
        let told = tally.report(Tick(now), &stranger);
        let token = limit().credits_per_token() as i64;
        // A little has flown in, less than a token.
        prop_assert_eq!(told.credits.div_euclid(token), LIMIT as i64 - spent);
    }
}

//! What holds of a fleet whatever its nodes say.

use proptest::prelude::*;
use tidegate_core::health::{
    Decision, Dimension, Evidence, Fleet, Load, NodeId, Readings, Report, Ruling, Scales, Settings,
    Signal, State, Validity, WEIGHT_MAX, WEIGHT_MIN, replay,
};
use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;

const TICKS: usize = 80;

/// What a node says for a while.
#[derive(Clone, Debug)]
enum Says {
    Silent,
    Nothing(Validity),
    So {
        used: Vec<(Dimension, f64)>,
        load: Option<(f64, f64, f64)>,
    },
}

fn used() -> impl Strategy<Value = f64> {
    prop_oneof![3 => 0.0..0.5, 2 => 0.5..1.0, 3 => 0.9..1.3]
}

fn says() -> impl Strategy<Value = Says> {
    let dimension = prop::sample::select(Dimension::ALL.to_vec());
    let load = prop::option::weighted(0.8, (0.0..200.0, 0.0..1.2, 0.0..1.0));
    let so = (prop::collection::vec((dimension, used()), 1..4), load);
    prop_oneof![
        1 => Just(Says::Silent),
        1 => prop::sample::select(Validity::ALL[1..].to_vec()).prop_map(Says::Nothing),
        8 => so.prop_map(|(used, load)| Says::So { used, load }),
    ]
}

/// A node's story: what it says, and for how many ticks.
fn story() -> impl Strategy<Value = (bool, Vec<(Says, usize)>)> {
    let told = prop::collection::vec((says(), 1usize..15), 1..8);
    (prop::bool::weighted(0.1), told)
}

fn report(now: Mono, says: &Says, keeps_sessions: bool) -> Option<Report> {
    let (signals, load) = match says {
        Says::Silent => return None,
        Says::Nothing(validity) => (
            vec![Signal::unknown(Dimension::Threads, *validity, now)],
            None,
        ),
        Says::So { used, load } => {
            let read =
                |&(dimension, ratio): &(Dimension, f64)| Signal::read(dimension, ratio, 1.0, now);
            (used.iter().map(read).collect(), *load)
        }
    };
    Some(Report {
        readings: Readings::of(&Scales::default(), &signals, now),
        load: load.map(|(completed_rps, utilisation, error_ratio)| Load {
            offered_rps: completed_rps * 1.1,
            completed_rps,
            error_ratio,
            utilisation,
            at: now,
        }),
        keeps_sessions,
    })
}

fn check(fleet: &Fleet, decisions: &[Decision]) -> Result<(), TestCaseError> {
    let out = decisions
        .iter()
        .filter(|it| it.outcome.to == State::Saturated)
        .count();
    let nodes = decisions.len();
    prop_assert!(out <= (nodes * 3 / 10).max(1), "{} of {} out", out, nodes);
    prop_assert!(nodes == 0 || out < nodes, "the last one is out");
    let (mut offered, mut remaining, mut taken) = (0.0, 0.0, false);
    for decision in decisions {
        let outcome = &decision.outcome;
        prop_assert_eq!(replay(fleet.settings(), decision), *outcome);
        match outcome.to {
            State::Saturated => prop_assert_eq!(outcome.weight, 0),
            _ => prop_assert!((WEIGHT_MIN..=WEIGHT_MAX).contains(&outcome.weight)),
        }
        let headroom = &decision.input.headroom;
        match headroom.binding() {
            None => prop_assert_eq!((outcome.to, outcome.weight), (State::Unknown, WEIGHT_MAX)),
            Some(binding) => {
                let most = headroom
                    .used()
                    .iter()
                    .flatten()
                    .fold(0.0, |a: f64, &b| a.max(b));
                prop_assert_eq!(binding.left, 1.0 - most);
                prop_assert_ne!(outcome.to, State::Unknown);
            }
        }
        prop_assert!(!(decision.input.keeps_sessions && outcome.to == State::Saturated));
        prop_assert_eq!(outcome.reason.is_some(), outcome.from != outcome.to);

        let memory = fleet.memory(decision.node).expect("it was decided on");
        let fresh = decision
            .input
            .load
            .filter(|load| decision.at.since(load.at).as_secs() <= 3);
        offered += fresh.map_or(0.0, |load| load.offered_rps);
        let part = match decision.context.ruling {
            Ruling::Out => 0.0,
            Ruling::Floor(_) => 0.05,
            _ => 1.0,
        };
        taken |= part < 1.0;
        if memory.evidence.state != State::Unknown {
            let capacity = memory.estimate.map(|it| it.rps).or(decision.context.median);
            remaining += part * capacity.unwrap_or(0.0);
        }
    }
    let is_told = decisions
        .first()
        .is_some_and(|it| it.context.median.is_some());
    prop_assert!(
        !(taken && is_told) || remaining >= offered * 1.1 - 1e-6,
        "{} remain for {}",
        remaining,
        offered
    );
    Ok(())
}

proptest! {
    #[test]
    fn whatever_nodes_say_the_fleet_stands(stories in prop::collection::vec(story(), 1..12)) {
        let mut fleet = Fleet::new(Settings::default());
        let mut decisions = Vec::new();
        for tick in 0..TICKS {
            let now = Mono::from_millis(1_000 * (tick as u64 + 1));
            for (node, (keeps_sessions, story)) in (0..).zip(&stories) {
                let length: usize = story.iter().map(|it| it.1).sum();
                let mut at = tick % length;
                let says = story.iter().find(|(_, ticks)| {
                    let here = at < *ticks;
                    at = at.saturating_sub(*ticks);
                    here
                });
                let says = says.map(|it| &it.0).unwrap_or(&Says::Silent);
                if let Some(report) = report(now, says, *keeps_sessions) {
                    fleet.report(now, NodeId(node), report).unwrap();
                }
            }
            let pulse = fleet.tick(now, &mut decisions);
            prop_assert!((0.1..=1.0).contains(&pulse.admission));
            prop_assert!(pulse.spare.rps.is_none_or(|it| it >= 0.0));
            prop_assert!(pulse.spare.utilisation.is_none_or(|it| (0.0..=1.0).contains(&it)));
            check(&fleet, &decisions)?;
        }
    }

    #[test]
    fn what_is_unknown_never_scores(
        known in prop::collection::vec((prop::sample::select(Dimension::ALL.to_vec()), used()), 0..6),
        unknown in prop::collection::vec(
            (prop::sample::select(Dimension::ALL.to_vec()), prop::sample::select(Validity::ALL[1..].to_vec())),
            0..6,
        ),
    ) {
        let now = Mono::from_millis(60_000);
        let mut signals: Vec<Signal> =
            known.iter().map(|&(dimension, ratio)| Signal::read(dimension, ratio, 1.0, now)).collect();
        let scales = Scales::default();
        let before = Readings::of(&scales, &signals, now).headroom(now);
        signals.extend(unknown.iter().map(|&(dimension, why)| Signal::unknown(dimension, why, now)));

        let after = Readings::of(&scales, &signals, now).headroom(now);

        prop_assert_eq!(after.binding(), before.binding());
        prop_assert!(known.is_empty() || after.confidence() <= before.confidence());
    }

    #[test]
    fn an_overload_has_two_changes_on_the_way_down_and_two_on_the_way_up_at_most(
        (low, falls, lasts, rises, seed) in (0.0f64..0.5, 1u32..40, 0u32..60, 1u32..60, any::<u64>()),
    ) {
        let mut rng = Rng::new(seed);
        let mut evidence = Evidence::default();
        let (mut worse, mut better) = (0, 0);
        for tick in 0..(20 + falls + lasts + rises + 40) {
            let way = |done: u32, all: u32| f64::from(done.min(all)) / f64::from(all);
            let down = way(tick.saturating_sub(20), falls);
            let up = way(tick.saturating_sub(20 + falls + lasts), rises);
            let left = 0.9 - (0.9 - low) * (down - up) + 0.03 * (2.0 * rng.unit() - 1.0);
            let now = Mono::from_millis(1_000 * u64::from(tick + 1));
            let signal = Signal::read(Dimension::Threads, 1.0 - left.clamp(0.0, 1.0), 1.0, now);
            let headroom = Readings::of(&Scales::default(), &[signal], now).headroom(now);
            let change = evidence.observe(&Settings::default(), now, &headroom);
            match change.map(|it| (it.from, it.to)) {
                None => {}
                Some((State::Healthy, State::Stressed) | (State::Stressed, State::Saturated)) => worse += 1,
                Some((State::Saturated, State::Stressed) | (State::Stressed, State::Healthy)) => better += 1,
                Some(other) => prop_assert!(false, "{other:?}"),
            }
        }
        prop_assert!(worse <= 2 && better == worse, "{worse} {better}");
        prop_assert_eq!(evidence.state, State::Healthy);
    }
}

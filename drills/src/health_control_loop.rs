//! What steers a fleet, as a flow: weights by what nodes can do, and three states, beside weights by what nodes have left and
//! two states. Nothing is drawn but the noise, and time is counted in ticks of a second, so that every run is the same.

#[path = "../../crates/tidegate-core/tests/health_model/mod.rs"]
mod health_model;

use std::time::Duration;

use tidegate_core::health::State;

use crate::harness::{Args, Drill, Figure, Verdict};
use health_model::{
    HALF_GONE_AT, Law, Loop, Moment, SWINGING, Tells, all_hot, capacity_swings, changes, half_gone,
    settled, two_fifths_gone,
};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "health-control-loop",
    promise: "weights keep still where weights by headroom swing, settle in ≤ 6 ticks, and a node that loses 40 % is never out",
    takes: Duration::from_secs(2),
    run,
};

/// Seeds of the noise that each load is tried with.
const SEEDS: u64 = 20;
/// What counts as settled: once and a half of the noise.
const BAND: f64 = 0.15;
/// Two minutes after the half is gone.
const NEVER: usize = 120;

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    swings(&mut verdict);
    settles(&mut verdict);
    loses(&mut verdict);
    stays_calm(&mut verdict);
    Ok(verdict)
}

/// Four nodes, one half as large.
fn swings(verdict: &mut Verdict) {
    let most = capacity_swings();
    verdict.add(Figure::ratio("most that 56 loops swing, loads 0.3 to 0.9", most).below(0.01));
    for (utilisation, alpha, delay) in SWINGING {
        let spread = |law| {
            let plan = Loop {
                law,
                utilisation,
                alpha,
                delay,
            };
            plan.tail_spread()
        };
        let at = format!("swing at load {utilisation}, α {alpha}, delay {delay}");
        let theirs = spread(Law::Headroom);
        let ours = Figure::ratio(at.clone(), spread(Law::Capacity)).below(0.01);
        verdict.add(ours.beside("by headroom", theirs));
        verdict.add(Figure::ratio(format!("{at}, by headroom"), theirs).at_least(1.2));
    }
}

/// Six nodes, one of which halves.
fn settles(verdict: &mut Verdict) {
    for tenths in 5..=9_u8 {
        let utilisation = f64::from(tenths) / 10.0;
        let (mut ours, mut theirs, mut tail) = (0, 0, 0.0_f64);
        for seed in 0..SEEDS {
            let story = half_gone(utilisation, seed);
            let moments = story.with_tidegate(Tells::Calm);
            ours = ours.max(settled(&moments, HALF_GONE_AT, utilisation, BAND));
            let after = moments.iter().skip(HALF_GONE_AT + 40);
            tail = after.map(|it| it.off(utilisation)).fold(tail, f64::max);
            let moments = story.with_headroom();
            theirs = theirs.max(settled(&moments, HALF_GONE_AT, utilisation, BAND));
        }
        verdict.say(format!(
            "load {utilisation}: a node halves; with 10 % of noise nobody is further off than {:.1} % in the end; by \
             headroom it takes {} ticks",
            tail * 100.0,
            if theirs >= NEVER { "more than 120".to_owned() } else { theirs.to_string() },
        ));
        let what = format!("ticks to settle at load {utilisation}, the slowest of {SEEDS}");
        let ours = Figure::count(what, ours as f64).at_most(6.0);
        verdict.add(ours.beside("by headroom", theirs as f64));
    }
}

/// Two nodes, one of which loses 40 % for two minutes.
fn loses(verdict: &mut Verdict) {
    for delay in 1..=3 {
        let story = two_fifths_gone(delay);
        let (ours, two) = (story.with_tidegate(Tells::Workers), story.with_two_states());
        let good = |moments: &[Moment]| {
            moments.iter().map(Moment::good).sum::<f64>() / moments.len() as f64
        };
        let out = |moments: &[Moment]| moments.iter().map(Moment::out).max().unwrap_or(0) as f64;
        let share = |moments: &[Moment], from: usize, to: usize| {
            let shares = moments[from..to].iter().map(|it| it.share(1));
            shares.sum::<f64>() / (to - from) as f64
        };
        let last = ours.len();
        let stressed = ours.iter().any(|it| it.states[1] == State::Stressed);
        verdict.say(format!(
            "delay {delay}: a node of two loses 40 %; it {} stressed, its share goes from {:.2} to {:.2} and back to {:.2}",
            if stressed { "is" } else { "is not" },
            share(&ours, 0, 30),
            share(&ours, 60, 150),
            share(&ours, last - 10, last),
        ));
        let figure = |what: &str| format!("{what}, delay {delay}");
        verdict.add(
            Figure::count(figure("nodes out at once at most"), out(&ours))
                .exactly(0.0)
                .beside("two states", out(&two)),
        );
        verdict.add(
            Figure::share(figure("answered"), good(&ours))
                .at_least(0.999)
                .beside("two states", good(&two)),
        );
        let less = share(&ours, 60, 150);
        verdict.add(Figure::share(figure("its share meanwhile"), less).at_most(0.4));
        let again = share(&ours, last - 10, last);
        verdict.add(Figure::share(figure("its share in the end"), again).at_least(0.49));
    }
}

/// Twelve nodes that are all nearly full, with noise.
fn stays_calm(verdict: &mut Verdict) {
    let (mut most, mut beside): (f64, f64) = (0.0, 0.0);
    for hundredths in [60_u8, 70, 75, 80, 85, 90] {
        for delay in [1, 3] {
            let story = all_hot(f64::from(hundredths) / 100.0, delay);
            let each = |moments: &[Moment]| changes(moments) as f64 / 12.0;
            most = most.max(each(&story.with_tidegate(Tells::Workers)));
            beside = beside.max(each(&story.with_two_states()));
        }
    }
    verdict.add(
        Figure::ratio("changes of a node in ten minutes at loads 0.6 to 0.9", most)
            .at_most(2.0)
            .beside("two states", beside),
    );
}

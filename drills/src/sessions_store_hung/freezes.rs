//! Twenty freezes in the middle of traffic: who pays for them, and how much.

use std::time::Duration;

use crate::harness::{
    Crowd, CrowdPlan, Figure, Fleet, Loss, SessionSettings, Verdict, Visits, visitors, wait_for,
};

use super::PATIENCE;

const FREEZES: u32 = 20;
const RATE: f64 = 500.0;
const VISITORS: usize = 200;
/// The longest wait for the store, as it is when nothing is set.
const TIMEOUT: Duration = Duration::from_millis(8);
/// What the rule allows beyond rate × timeout: failures in a row until nobody asks any more.
const SPARE: f64 = 5.0;
/// Before the first freeze: everybody has signed in.
const BEFORE: Duration = Duration::from_secs(4);
/// From one freeze to the next.
const EVERY: Duration = Duration::from_millis(3_500);
/// How long one lasts.
const FROZEN: Duration = Duration::from_secs(1);
/// From its end until the store is used again, at most, however many there were before.
const BACK_WITHIN: Duration = Duration::from_secs(1);
/// What an answer takes here without any store, at most: who waited for less than a timeout and so
/// much did not wait for two.
const GRAIN: Duration = Duration::from_micros(500);

pub(super) fn show(verdict: &mut Verdict) -> anyhow::Result<()> {
    let mut fleet = Fleet::start()?;
    let node = fleet.node("node", &SessionSettings::default())?;
    let crowd = Crowd::start(
        visitors(VISITORS),
        CrowdPlan {
            target: node.address(),
            rate: RATE,
            length: BEFORE + EVERY * FREEZES,
            patience: PATIENCE,
        },
    )?;
    let mut spans = Vec::new();
    let mut paid = Vec::new();
    let mut back = Duration::ZERO;
    let mut before = node.metrics()?;
    for number in 0..FREEZES {
        crowd.wait_until(BEFORE + EVERY * number);
        let from = crowd.elapsed();
        fleet.redis().pause()?;
        crowd.wait_until(BEFORE + EVERY * number + FROZEN);
        let to = crowd.elapsed();
        let now = node.metrics()?;
        fleet.redis().resume()?;
        wait_for("the store is used again", || {
            let passing = node.metrics()?;
            Ok(passing.sum(PASSING, &[("lets", "calls")]) == 1.0)
        })?;
        back = back.max(crowd.elapsed() - to);
        spans.push((from, to));
        paid.push(now.since(&before).sum(TIMED_OUT, &[]));
        before = now;
    }
    let (_, visits) = crowd.join()?;
    verdict.add(
        Figure::ms(
            format!("{FREEZES} freezes of a second: after each the store is used again within"),
            back.as_secs_f64() * 1_000.0,
        )
        .at_most(BACK_WITHIN.as_secs_f64() * 1_000.0),
    );
    add(verdict, &visits, &spans, &paid);
    Ok(())
}

/// Requests that paid a timeout, by the gateway's own count.
const TIMED_OUT: &str = "tidegate_session_timed_out_total";
/// What the gateway lets through to the store.
const PASSING: &str = "tidegate_store_passing";

fn add(verdict: &mut Verdict, visits: &Visits, spans: &[(Duration, Duration)], paid: &[f64]) {
    let bar = RATE * TIMEOUT.as_secs_f64() + SPARE;
    let slow = |from: Duration, to: Duration, least: Duration| {
        visits.count(|visit| (from..to).contains(&visit.at) && visit.visited.took >= least) as f64
    };
    let most = |least: Duration| {
        let frozen = spans.iter().map(|(from, to)| slow(*from, *to, least));
        let calm = spans
            .iter()
            .map(|(from, _)| slow(from.saturating_sub(FROZEN), *from, least));
        (frozen.fold(0.0, f64::max), calm.fold(0.0, f64::max))
    };
    let (seen, seen_calm) = most(TIMEOUT - GRAIN);
    let (twice, twice_calm) = most(TIMEOUT * 2 - GRAIN);
    verdict.add(
        Figure::count(
            format!("{FREEZES} freezes: requests that pay a timeout, at most in one"),
            paid.iter().copied().fold(0.0, f64::max),
        )
        .at_most(bar),
    );
    verdict.add(
        Figure::count("of these seen by visitors, at most in one", seen)
            .at_most(bar + seen_calm)
            .beside("as slow in as long a time without", seen_calm),
    );
    verdict.add(
        Figure::count("requests that waited twice as long, at most in one", twice)
            .at_most(twice_calm)
            .beside("in as long a time without", twice_calm),
    );
    verdict.add(Figure::count("requests that failed", visits.errors() as f64).exactly(0.0));
    for (what, loss) in [
        ("logins", Loss::Login),
        ("carts", Loss::Cart),
        ("counts", Loss::Count),
    ] {
        verdict.add(Figure::count(format!("{what} lost"), visits.losers(loss) as f64).exactly(0.0));
    }
}

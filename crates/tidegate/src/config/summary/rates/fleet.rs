//! What a limit over all gateways promises, in numbers.

use std::fmt;
use std::time::Duration;

use tidegate_core::rate::share::aggregate::{self, AggregatePlan};
use tidegate_core::rate::share::{OnLoss, divided, lease};
use tidegate_core::rate::{BucketSpec, Rate, Spec};
use tidegate_gateway::rate::{FleetMode, FleetPlan, LimitPlan};

/// What is asked for, as a multiple of the rate, where a bound depends on it.
const OFFERED: u64 = 10;
/// A wait after a start, in microseconds, that is worth a warning when it is longer.
const START_US_MAX: u64 = 1_000_000;
/// For a report and its answer to arrive, in microseconds.
const DELAY_US: u64 = 8_000;

/// Lines about `limit`, shared by `nodes` gateways.
pub(super) fn show(
    f: &mut fmt::Formatter<'_>,
    limit: &LimitPlan,
    plan: FleetPlan,
    nodes: u32,
) -> fmt::Result {
    // In units of a token where it follows something, as gateways share it.
    let Ok(Spec::Bucket(whole)) = limit.counted() else {
        writeln!(
            f,
            "    over all gateways, mode shared: the store is asked for each request"
        )?;
        return writeln!(f, "    while the store is away {}", in_words(plan.on_loss));
    };
    writeln!(
        f,
        "    over all gateways, mode {}",
        bound(&whole, limit, plan, nodes)
    )?;
    let local = match plan.on_loss {
        OnLoss::Local => {
            let apart = divided::worst_apart(&whole, nodes, limit.rate.period_us);
            // Until it is noticed that the store is silent.
            let unnoticed = match plan.mode {
                FleetMode::Aggregate(plan) => at_once(&whole, &plan, nodes),
                _ => 0,
            };
            let most = apart.saturating_add(unnoticed);
            let most = limit.unit().tokens(most);
            format!(
                "each goes on with its part: {nodes} gateways let at most {most} pass in any {}",
                period(limit.rate)
            )
        }
        other => in_words(other).to_owned(),
    };
    writeln!(f, "    while the store is away {local}")
}

fn bound(whole: &BucketSpec, limit: &LimitPlan, plan: FleetPlan, nodes: u32) -> String {
    let (period_us, words) = (limit.rate.period_us, period(limit.rate));
    let unit = limit.unit();
    match plan.mode {
        FleetMode::Shared => "shared: the store is asked for each request".to_owned(),
        FleetMode::Lease(plan) => {
            let most = unit.tokens(lease::worst_in(whole, &plan, nodes, period_us));
            format!(
                "lease: the same from the first request on, and at most {most} in any {words} with {nodes} gateways, which \
                 may use tokens up to {} after the store gave them",
                span(plan.ttl_us)
            )
        }
        FleetMode::Divided => match divided::one_node(whole, nodes, period_us) {
            Ok(one) => format!(
                "divided: the same together, and at one of {nodes} gateways at most {} in any {words}; {}",
                unit.tokens(one),
                start(limit.rate, nodes)
            ),
            Err(error) => format!("divided: not among {nodes} gateways, {error}"),
        },
        FleetMode::Aggregate(plan) => {
            // Rounded up and at last: of a slow limit there is less than one a second.
            let per_s = u128::from(limit.rate.tokens) * 1_000_000 * u128::from(OFFERED);
            let offered = per_s.div_ceil(period_us.into());
            let offered = u64::try_from(offered).unwrap_or(u64::MAX);
            let offered = unit.of(offered, whole.burst());
            let over = plan.overshoot(nodes, offered, DELAY_US);
            let most = unit.tokens(aggregate::worst_in(whole, over, period_us));
            let over = unit.tokens(over);
            // Before anybody has reported anything.
            let bursts = unit.tokens(at_once(whole, &plan, nodes));
            format!(
                "aggregate, reports every {}: up to {over} more, {most} in any {words}, when {nodes} gateways are asked for \
                 {OFFERED} times the rate, and up to {bursts} more when for a burst each at once; all of it is paid back",
                span(plan.every_us)
            )
        }
    }
}

/// What the others of `nodes` gateways let pass beyond the burst when all are asked for all of it at the same moment.
fn at_once(whole: &BucketSpec, plan: &AggregatePlan, nodes: u32) -> u64 {
    let each = whole.burst().min(plan.unreported_max);
    each.saturating_mul(nodes.saturating_sub(1).into())
}

/// What a start costs where gateways have parts: they begin empty.
fn start(rate: Rate, nodes: u32) -> String {
    let first_us =
        (u128::from(nodes) * u128::from(rate.period_us)).div_ceil(rate.tokens.max(1).into());
    let first_us = u64::try_from(first_us).unwrap_or(u64::MAX);
    // To the millisecond: who waits does not count finer.
    let wait = span(first_us.div_ceil(1_000).saturating_mul(1_000));
    match first_us {
        0..=START_US_MAX => format!("after a start its first token comes {wait} later"),
        _ => format!(
            "warning: parts begin empty, so after each start or roll-out nobody passes for {wait}; mode = \"lease\" has no such wait"
        ),
    }
}

const fn in_words(on_loss: OnLoss) -> &'static str {
    match on_loss {
        OnLoss::Local => "each goes on with its part",
        OnLoss::Open => "everything passes",
        OnLoss::Closed => "nothing passes: 503 limit_store_away",
    }
}

/// `min` of `10/min`.
fn period(rate: Rate) -> String {
    let any = Rate { tokens: 1, ..rate }.to_string();
    any.strip_prefix("1/").unwrap_or(&any).to_owned()
}

fn span(us: u64) -> String {
    humantime::format_duration(Duration::from_micros(us)).to_string()
}

//! How a limit holds over all gateways: `scope`, `mode` and what follows from them.

use tidegate_core::rate::share::OnLoss;
use tidegate_core::rate::share::aggregate::AggregatePlan;
use tidegate_core::rate::share::divided::Divided;
use tidegate_core::rate::share::lease::LeasePlan;
use tidegate_core::rate::{Rate, Spec};
use tidegate_gateway::rate::{FleetMode, FleetPlan};

use super::super::section::Section;
use super::Around;

/// Keys that make sense only for a limit of the fleet.
const ABOUT_FLEET: [&str; 3] = ["mode", "on_store_loss", "report_every"];

/// How the limit holds over all gateways, if it does.
pub(super) fn fleet(
    section: &Section<'_>,
    rate: Option<Rate>,
    spec: Option<Spec>,
    around: &Around<'_>,
) -> Option<FleetPlan> {
    if section.choice("scope") != Some("fleet") {
        for key in ABOUT_FLEET {
            if section.has(key) && section.sound(&["scope"]) {
                section.refuse(
                    key,
                    format!("`{key}` has no effect: the limit holds on each gateway by itself"),
                    format!("write scope = \"fleet\" beside it, or remove {key}"),
                );
            }
        }
        return None;
    }
    if !around.shares_limits {
        refuse_without_store(section, rate, around.nodes);
        return None;
    }
    let mode = section.choice("mode").unwrap_or("lease");
    let on_loss = match section.choice("on_store_loss") {
        Some("open") => OnLoss::Open,
        Some("closed") => OnLoss::Closed,
        _ => OnLoss::Local,
    };
    if section.has("report_every") && mode != "aggregate" && section.sound(&["mode"]) {
        section.refuse(
            "report_every",
            "`report_every` has no effect: only a limit with mode = \"aggregate\" reports",
            "remove it, or write mode = \"aggregate\"",
        );
    }
    let every = section.span_if_set("report_every");
    let Spec::Bucket(whole) = spec? else {
        return of_no_bucket(section, spec?, mode, on_loss);
    };
    let needs_parts = mode == "divided" || on_loss == OnLoss::Local;
    if needs_parts && let Err(error) = Divided::new(whole, around.nodes) {
        section.refuse(
            "rate",
            format!(
                "the limit cannot be divided among {} gateways: {error}",
                around.nodes
            ),
            "write a rate in rounder numbers, a larger burst, or lower limit_nodes at the top level",
        );
    }
    let burst = whole.burst();
    let mode = match mode {
        "shared" => FleetMode::Shared,
        "divided" => FleetMode::Divided,
        "aggregate" => {
            let usual = AggregatePlan::usual(burst);
            let every_us = every.map_or(usual.every_us, |every| every.as_micros() as u64);
            FleetMode::Aggregate(AggregatePlan {
                every_us,
                // Ten reports that nobody answers.
                silence_us: usual.silence_us.max(10 * every_us),
                ..usual
            })
        }
        _ => FleetMode::Lease(LeasePlan::usual(burst)),
    };
    Some(FleetPlan { mode, on_loss })
}

/// Each gateway would let the whole limit pass.
fn refuse_without_store(section: &Section<'_>, rate: Option<Rate>, nodes: u32) {
    let together = rate.map_or_else(String::new, |rate| {
        let whole = Rate {
            tokens: rate.tokens.saturating_mul(u64::from(nodes)),
            ..rate
        };
        format!(", and {nodes} gateways together {whole}")
    });
    section.refuse(
        "scope",
        format!(
            "`scope = \"fleet\"` needs a store that all gateways share, and there is none: each would let the whole \
             limit pass{together}"
        ),
        "name the store, as in [store] with url = \"redis://10.0.0.5:6379\"; or write scope = \"node\" and a rate of the \
         whole divided by the number of gateways",
    );
}

/// A log or a counter is only ever in the store.
fn of_no_bucket(
    section: &Section<'_>,
    spec: Spec,
    mode: &str,
    on_loss: OnLoss,
) -> Option<FleetPlan> {
    let plan = FleetPlan {
        mode: FleetMode::Shared,
        on_loss,
    };
    if spec == Spec::Deny {
        return Some(plan);
    }
    let sound = section.sound(&["algorithm", "mode", "on_store_loss"]);
    if mode != "shared" && sound {
        section.refuse(
            "mode",
            match section.has("mode") {
                true => format!(
                    "mode = \"{mode}\" is for buckets: a log and a window are kept in the store alone"
                ),
                false => format!(
                    "a limit of the fleet has mode = \"{mode}\" unless it says otherwise, which is for buckets: a log and \
                     a window are kept in the store alone"
                ),
            },
            "write mode = \"shared\", or algorithm = \"bucket\"",
        );
    } else if on_loss == OnLoss::Local && sound {
        section.refuse(
            "on_store_loss",
            "while the store is away a log and a window cannot go on by parts, as a bucket can",
            "write on_store_loss = \"closed\" (nothing passes then) or \"open\" (everything does)",
        );
    }
    Some(plan)
}

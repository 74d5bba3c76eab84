//! What cannot be meant about bars.

use crate::scenario::{Bar, Measure, Scenario};
use crate::sim::policy::Policy;
use crate::sim::record::BIN;

use super::{Problems, quoted, shown};

pub(super) fn check(scenario: &Scenario, found: &mut Problems) {
    for (number, bar) in (1..).zip(&scenario.bars) {
        one(scenario, bar, &format!("bar {number}"), found);
    }
}

fn one(scenario: &Scenario, bar: &Bar, name: &str, found: &mut Problems) {
    let field = |field: &str| format!("{name}.{field}");
    found.policy(&field("policy"), &bar.policy);
    found.demand(
        bar.policy == Policy::OURS || scenario.beside.contains(&bar.policy),
        &field("policy"),
        quoted(&bar.policy),
        "add it to `beside` too, so that it is run",
    );
    if let Some(class) = &bar.class {
        found.class(&field("class"), class);
        found.demand(
            by_class(bar.measure),
            &field("class"),
            quoted(class),
            "leave it out: this is not measured by class",
        );
    }
    let (from, to) = (
        bar.from.unwrap_or(scenario.warm_up),
        bar.to.unwrap_or(scenario.length),
    );
    found.span(&field("to"), from, Some(to));
    found.demand(
        to <= scenario.length,
        &field("to"),
        shown(to),
        "write at most the scenario's `length`",
    );
    for (edge, at) in [("from", from), ("to", to)] {
        found.demand(
            at.as_nanos() % BIN.as_nanos() == 0,
            &field(edge),
            shown(at),
            "write a multiple of 100ms",
        );
    }
    for (bound, value) in [("at_least", bar.at_least), ("at_most", bar.at_most)] {
        found.demand(
            value.is_none_or(f64::is_finite),
            &field(bound),
            value.unwrap_or_default(),
            "write a number, or leave it out",
        );
    }
    if let (Some(least), Some(most)) = (bar.at_least, bar.at_most) {
        found.demand(
            least <= most,
            &field("at_most"),
            most,
            "write no less than `at_least`",
        );
    }
    let recovery = bar.measure == Measure::Recovery;
    found.demand(
        bar.recovered.is_some() == recovery,
        &field("recovered"),
        if recovery { "missing" } else { "there" },
        if recovery {
            "write the goodput per second that counts as recovered"
        } else {
            "leave it out: it belongs to \"recovery\""
        },
    );
}

const fn by_class(measure: Measure) -> bool {
    matches!(
        measure,
        Measure::Goodput
            | Measure::Offered
            | Measure::Retries
            | Measure::Refused
            | Measure::Failures
            | Measure::Share
    )
}

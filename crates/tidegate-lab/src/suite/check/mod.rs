//! Values that can be read but cannot be meant.

mod app;
mod bars;
mod traffic;

use std::fmt;
use std::time::Duration;

use tidegate_core::facts::Class;

use crate::scenario::Scenario;
use crate::sim::policy::Policy;
use crate::sim::record::BIN;
use crate::text::{SHOWN_MAX, is_plain, shortened};

/// The longest run: a day. Bins are kept for all of it.
const LENGTH_MAX: Duration = Duration::from_secs(24 * 3600);
const GATEWAYS_MAX: u32 = 256;
/// What comes again and again comes no sooner than this, so that a run has an end.
const EVERY_MIN: Duration = Duration::from_millis(1);
/// Characters of a value that is shown, with its quotes and what has to be written out.
const VALUE_MAX: usize = 2 * SHOWN_MAX;

/// One wrong value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, with what it belongs to.
    pub field: String,
    /// What is written there.
    pub value: String,
    /// What to write.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}; {}", self.field, self.value, self.fix)
    }
}

/// All that is wrong with `scenario`.
pub(super) fn problems(scenario: &Scenario) -> Vec<Problem> {
    let mut found = Problems::default();
    whole(scenario, &mut found);
    traffic::check(scenario, &mut found);
    app::check(scenario, &mut found);
    bars::check(scenario, &mut found);
    found.0
}

/// What has been found so far.
#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    /// `field` has to satisfy `holds`; where it does not, `fix` says what to write.
    fn demand(&mut self, holds: bool, field: &str, value: impl fmt::Display, fix: &str) {
        if !holds {
            self.0.push(Problem {
                field: field.to_owned(),
                value: shortened(&value.to_string(), VALUE_MAX),
                fix: fix.to_owned(),
            });
        }
    }

    fn span(&mut self, field: &str, from: Duration, until: Option<Duration>) {
        if let Some(until) = until {
            self.demand(
                from < until,
                field,
                shown(until),
                &format!("write a time after the beginning, {}", shown(from)),
            );
        }
    }

    fn positive(&mut self, field: &str, value: Duration) {
        self.demand(
            value > Duration::ZERO,
            field,
            shown(value),
            "write a time above 0",
        );
    }

    /// What happens every `value` happens so rarely that a run has an end.
    fn every(&mut self, field: &str, value: Duration) {
        self.demand(
            value >= EVERY_MIN,
            field,
            shown(value),
            "write at least 1ms",
        );
    }

    /// `text` is shown to people as it is.
    fn plain(&mut self, field: &str, text: &str) {
        self.demand(
            is_plain(text),
            field,
            quoted(text),
            "write it in one line, without control characters and marks of the direction of writing",
        );
    }

    fn share(&mut self, field: &str, value: f64) {
        self.demand(
            (0.0..=1.0).contains(&value),
            field,
            value,
            "write a part between 0 and 1",
        );
    }

    /// `value` has to be one of `known`.
    fn one_of<'a>(&mut self, field: &str, value: &str, known: impl Iterator<Item = &'a str>) {
        let known: Vec<&str> = known.collect();
        self.demand(
            known.contains(&value),
            field,
            quoted(value),
            &format!("write one of {}", known.join(", ")),
        );
    }

    fn class(&mut self, field: &str, value: &str) {
        self.one_of(field, value, Class::ALL.into_iter().map(Class::name));
    }

    fn policy(&mut self, field: &str, value: &str) {
        if let Err(error) = Policy::named(value) {
            self.demand(false, field, quoted(value), &error.to_string());
        }
    }

    /// No two of `names` are the same.
    fn distinct<'a>(&mut self, field: &str, names: impl Iterator<Item = &'a str>) {
        let mut seen = Vec::new();
        for name in names {
            self.demand(
                !name.is_empty() && !seen.contains(&name),
                field,
                quoted(name),
                "give each a name of its own",
            );
            seen.push(name);
        }
    }
}

fn whole(scenario: &Scenario, found: &mut Problems) {
    found.demand(
        !scenario.id.is_empty(),
        "id",
        quoted(&scenario.id),
        "write a short name, such as \"S1\"",
    );
    for (field, text) in [("id", &scenario.id), ("title", &scenario.title)] {
        found.plain(field, text);
    }
    found.plain("suite", scenario.suite.as_deref().unwrap_or_default());
    found.demand(
        scenario.length >= BIN && scenario.length <= LENGTH_MAX,
        "length",
        shown(scenario.length),
        "write a time between 100ms and 1day",
    );
    found.demand(
        scenario.warm_up < scenario.length || scenario.warm_up.is_zero(),
        "warm_up",
        shown(scenario.warm_up),
        "write less than `length`, so that something is left to measure",
    );
    let gateways = &scenario.gateways;
    found.demand(
        (1..=GATEWAYS_MAX).contains(&gateways.count),
        "gateways.count",
        gateways.count,
        "write a number between 1 and 256",
    );
    found.every("gateways.refresh", gateways.refresh);
    let protection = &scenario.protection;
    found.positive("protection.hold", protection.hold);
    found.demand(
        protection.workers != Some(0),
        "protection.workers",
        0,
        "write how many there are, or leave it out where that is not known",
    );
    found.demand(
        protection.retry_slots != Some(0),
        "protection.retry_slots",
        0,
        "write how many to each second, or leave it out",
    );
    for policy in &scenario.beside {
        found.policy("beside", policy);
    }
}

fn shown(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(time)
}

fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text, SHOWN_MAX))
}

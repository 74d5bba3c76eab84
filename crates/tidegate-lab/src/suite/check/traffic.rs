//! What cannot be meant about who asks.

use crate::scenario::{Arrivals, Pause, Retry, Scenario, Traffic, Weight};

use super::{Problems, quoted, shown};

/// Arrivals per second that one traffic may have. Above it, a run is a mistake in a unit.
const RATE_MAX: f64 = 10_000_000.0;
/// Arrivals at one instant.
const SIZE_MAX: u32 = 10_000_000;
const RATE: &str = "write first attempts per second, between 0 and 10 million";

pub(super) fn check(scenario: &Scenario, found: &mut Problems) {
    found.demand(
        !scenario.traffic.is_empty(),
        "traffic",
        "empty",
        "write at least one `[[traffic]]`",
    );
    let names = scenario.traffic.iter().map(|traffic| &*traffic.name);
    found.distinct("traffic: name", names);
    for traffic in &scenario.traffic {
        one(scenario, traffic, found);
    }
}

fn one(scenario: &Scenario, traffic: &Traffic, found: &mut Problems) {
    let name = |field: &str| format!("traffic {}: {field}", quoted(&traffic.name));
    found.plain(&name("name"), &traffic.name);
    found.class(&name("class"), traffic.class_name());
    request(traffic, found);
    arrivals(traffic, found);
    weights(scenario, &traffic.routes, &name("routes"), found);
    found.positive(&name("patience"), traffic.patience);
    found.span(&name("until"), traffic.from, traffic.until);
    found.demand(
        traffic.users > 0,
        &name("users"),
        traffic.users,
        "write how many there are, between 1 and 4294967295",
    );
    let mut last = traffic.from;
    for change in &traffic.changes {
        found.demand(
            change.at >= last,
            &name("change.at"),
            shown(change.at),
            "write changes in the order of time, none before the traffic begins",
        );
        last = change.at;
        let rate = change.rate.unwrap_or_default();
        found.demand(
            (0.0..=RATE_MAX).contains(&rate),
            &name("change.rate"),
            rate,
            RATE,
        );
        let routes = change.routes.as_deref().unwrap_or_default();
        weights(scenario, routes, &name("change.routes"), found);
    }
    if let Some(again) = &traffic.retry {
        retry(again, &name("retry"), found);
    }
}

/// A request is either described or classified, not both.
fn request(traffic: &Traffic, found: &mut Problems) {
    let name = |field: &str| format!("traffic {}: {field}", quoted(&traffic.name));
    let Some(path) = &traffic.path else {
        let said = [
            ("method", traffic.method.is_some()),
            ("headers", !traffic.headers.is_empty()),
            ("trusted", traffic.trusted),
        ];
        for (field, there) in said {
            found.demand(
                !there,
                &name(field),
                "there without `path`",
                "write a `path` too, or leave it out",
            );
        }
        return;
    };
    found.demand(
        path.starts_with('/'),
        &name("path"),
        quoted(path),
        "write a path that begins with `/`",
    );
    let routes = traffic.changes.iter().any(|change| change.routes.is_some());
    let said = [
        ("class", traffic.class.is_some()),
        ("routes", !traffic.routes.is_empty()),
        ("labelled", !traffic.labelled),
        ("change.routes", routes),
    ];
    for (field, there) in said {
        found.demand(
            !there,
            &name(field),
            "there beside `path`",
            "leave one of them out: the configuration says what a path is",
        );
    }
}

fn arrivals(traffic: &Traffic, found: &mut Problems) {
    let name = |field: &str| format!("traffic {}: {field}", quoted(&traffic.name));
    found.demand(
        (0.0..=RATE_MAX).contains(&traffic.rate),
        &name("rate"),
        traffic.rate,
        RATE,
    );
    match &traffic.arrivals {
        Arrivals::Poisson {} | Arrivals::Fixed {} => {
            let changes = traffic.changes.iter().any(|change| change.rate.is_some());
            found.demand(
                traffic.rate != 0.0 || changes,
                &name("rate"),
                traffic.rate,
                "write first attempts per second",
            );
        }
        Arrivals::Bursts { size, every } => {
            found.demand(
                (1..=SIZE_MAX).contains(size),
                &name("arrivals.size"),
                size,
                "write how many, between 1 and 10 million",
            );
            if let Some(every) = every {
                found.every(&name("arrivals.every"), *every);
            }
            unused_rate(traffic, found);
        }
        Arrivals::Trace { steps, .. } => {
            let most = steps
                .iter()
                .fold(0.0, |most: f64, step| most.max(step.rate));
            found.demand(most <= RATE_MAX, &name("arrivals.file"), most, RATE);
            unused_rate(traffic, found);
        }
    }
}

fn unused_rate(traffic: &Traffic, found: &mut Problems) {
    found.demand(
        traffic.rate == 0.0,
        &format!("traffic {}: rate", quoted(&traffic.name)),
        traffic.rate,
        "leave it out: `arrivals` says how many come",
    );
}

fn weights(scenario: &Scenario, weights: &[Weight], field: &str, found: &mut Problems) {
    let known = || scenario.app.routes.iter().map(|route| &*route.name);
    for weight in weights {
        found.one_of(field, &weight.route, known());
        found.demand(
            weight.weight.is_finite() && weight.weight >= 0.0,
            field,
            weight.weight,
            "write a weight of 0 or more",
        );
    }
    let sum: f64 = weights.iter().map(|weight| weight.weight).sum();
    found.demand(
        weights.is_empty() || sum > 0.0,
        field,
        quoted("nothing but 0"),
        "give at least one a weight above 0",
    );
    found.demand(
        !sum.is_infinite(),
        field,
        quoted("too much in all"),
        "write smaller weights: only their proportions count",
    );
}

fn retry(retry: &Retry, name: &str, found: &mut Problems) {
    found.demand(
        retry.attempts > 0,
        &format!("{name}.attempts"),
        retry.attempts,
        "write how many in all, the first included",
    );
    if let Pause::Backoff { base, most, .. } = retry.pause {
        found.positive(&format!("{name}.pause.base"), base);
        found.demand(
            base <= most,
            &format!("{name}.pause.most"),
            shown(most),
            "write at least as much as `base`",
        );
    }
    if let Some(grain) = retry.grain {
        found.positive(&format!("{name}.grain"), grain);
    }
    let Some(budget) = &retry.budget else {
        return;
    };
    // A budget counts in thousandths of a retry per first attempt and in whole retries otherwise.
    for (field, value, whole) in [
        ("ratio", budget.ratio * 1000.0, false),
        ("per_second", budget.per_second, true),
        ("most", budget.most, true),
    ] {
        let fits = (0.0..=1e6).contains(&value) && (!whole || value.fract() == 0.0);
        found.demand(
            fits,
            &format!("{name}.budget.{field}"),
            if whole { value } else { value / 1000.0 },
            if whole {
                "write a whole number between 0 and a million"
            } else {
                "write retries per first attempt, between 0 and 1000"
            },
        );
    }
    found.demand(
        budget.growth > 0,
        &format!("{name}.budget.growth"),
        budget.growth,
        "write 1 for retries that all cost the same",
    );
}

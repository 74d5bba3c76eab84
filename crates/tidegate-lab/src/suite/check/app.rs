//! What cannot be meant about what answers, and about its faults.

use crate::scenario::{App, Fault, Scenario, ServiceKind, Style};

use super::{Problems, quoted, shown};

/// Routes one application may have; what is learnt per route is bounded by it.
const ROUTES_MAX: usize = 256;
/// Exponentials in one service time.
const SHAPE_MAX: u32 = 1000;
/// A larger one makes a tail that no run is long enough for.
const SIGMA_MAX: f64 = 5.0;
const ENTRIES_MAX: u32 = 10_000_000;
const JOBS_MAX: u32 = 10_000_000;
const FACTOR_MAX: f64 = 10_000.0;

pub(super) fn check(scenario: &Scenario, found: &mut Problems) {
    let app = &scenario.app;
    found.demand(
        (1..=ROUTES_MAX).contains(&app.routes.len()),
        "app.route",
        format!("there {} times", app.routes.len()),
        "write between 1 and 256",
    );
    found.distinct(
        "app.route: name",
        app.routes.iter().map(|route| &*route.name),
    );
    for route in &app.routes {
        let name = quoted(&route.name);
        found.plain(&format!("app.route {name}: name"), &route.name);
        service(&route.service, &format!("app.route {name}: service"), found);
    }
    if let Some(cache) = &app.cache {
        found.positive("app.cache.hit", cache.hit);
        found.demand(
            (1..=ENTRIES_MAX).contains(&cache.entries),
            "app.cache.entries",
            cache.entries,
            "write between 1 and 10 million",
        );
    }
    found.demand(
        app.backlog_max.is_none() || matches!(app.style, Style::Slots { .. }),
        "app.backlog_max",
        app.backlog_max.unwrap_or_default(),
        "leave it out: only an app of kind \"slots\" lets anybody wait",
    );
    for (number, fault) in (1..).zip(&scenario.faults) {
        one_fault(app, fault, &format!("fault {number}"), found);
    }
}

fn service(of: &ServiceKind, name: &str, found: &mut Problems) {
    let field = |field: &str| format!("{name}.{field}");
    match *of {
        ServiceKind::Constant { mean } => found.positive(&field("mean"), mean),
        ServiceKind::Erlang { mean, shape } => {
            found.positive(&field("mean"), mean);
            found.demand(
                (1..=SHAPE_MAX).contains(&shape),
                &field("shape"),
                shape,
                "write between 1 and 1000",
            );
        }
        ServiceKind::Lognormal { mean, sigma } => {
            found.positive(&field("mean"), mean);
            found.demand(
                (0.0..=SIGMA_MAX).contains(&sigma),
                &field("sigma"),
                sigma,
                "write between 0 and 5",
            );
        }
        ServiceKind::Mixed {
            usual,
            other,
            share,
        } => {
            found.positive(&field("usual"), usual);
            found.positive(&field("other"), other);
            found.share(&field("share"), share);
        }
        // What is in the file was checked when it was read.
        ServiceKind::Recorded(_) => {}
    }
}

fn one_fault(app: &App, fault: &Fault, name: &str, found: &mut Problems) {
    let field = |field: &str| format!("{name}.{field}");
    let fits_quota = matches!(fault, Fault::Capacity { .. } | Fault::FailFast { .. });
    found.demand(
        fits_quota || !matches!(app.style, Style::Quota { .. }),
        &field("kind"),
        "nothing that an app of kind \"quota\" can have",
        "write \"capacity\" or \"fail-fast\", or give the app another kind",
    );
    match *fault {
        Fault::Stall { lasts, every, .. } => {
            found.positive(&field("for"), lasts);
            if let Some(every) = every {
                found.every(&field("every"), every);
                found.demand(
                    every > lasts,
                    &field("every"),
                    shown(every),
                    "write more than `for`, so that it ends before it begins again",
                );
            }
        }
        Fault::Capacity { at, until, .. } => found.span(&field("until"), at, until),
        Fault::Slow {
            at,
            until,
            factor,
            ref route,
        } => {
            found.span(&field("until"), at, until);
            found.demand(
                factor > 0.0 && factor <= FACTOR_MAX,
                &field("factor"),
                factor,
                "write how many times as long, above 0 and at most 10000",
            );
            if let Some(route) = route {
                let known = app.routes.iter().map(|route| &*route.name);
                found.one_of(&field("route"), route, known);
            }
        }
        Fault::FailFast {
            at,
            until,
            share,
            takes,
            refused: _,
        } => {
            found.span(&field("until"), at, until);
            found.share(&field("share"), share);
            found.positive(&field("takes"), takes);
        }
        Fault::Backlog { jobs, .. } => found.demand(
            (1..=JOBS_MAX).contains(&jobs),
            &field("jobs"),
            jobs,
            "write between 1 and 10 million",
        ),
    }
}

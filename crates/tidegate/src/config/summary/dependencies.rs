//! What follows about dependencies.

use std::fmt;
use std::time::Duration;

use tidegate_core::bulkhead::Loan;
use tidegate_core::facts::Class;
use tidegate_core::rate::share::OnLoss;
use tidegate_gateway::dependency::{DependencyPlan, FleetDependency};

use super::super::Setup;
use super::{slots, span};

/// Nothing, where there are none.
pub(super) fn show(f: &mut fmt::Formatter<'_>, setup: &Setup) -> fmt::Result {
    for (place, dependency) in setup.gateway.dependencies.iter().enumerate() {
        writeln!(f, "\ndependency {}", dependency.name())?;
        one(f, dependency)?;
        if !is_called(setup, place, dependency) {
            writeln!(
                f,
                "  warning   nothing is ever counted: it has no listen, no route names it, and no [sidecar] gives permits"
            )?;
        }
    }
    Ok(())
}

/// Whether there is a way to call the dependency at `place`.
fn is_called(setup: &Setup, place: usize, dependency: &DependencyPlan) -> bool {
    let mut routes = setup.gateway.apps.iter().flat_map(|app| &app.routes);
    dependency.egress.is_some()
        || setup.sidecar.is_some()
        || routes.any(|route| route.dependencies.contains(&place))
}

/// What holds over all gateways.
fn over_all(f: &mut fmt::Formatter<'_>, fleet: &FleetDependency, has_rate: bool) -> fmt::Result {
    let rate = if has_rate { ", the rate on each" } else { "" };
    let lease = Duration::from_micros(fleet.terms.lease_us);
    writeln!(f, "; over all gateways{rate}")?;
    writeln!(
        f,
        "  fleet     asks the store for each call; what a gateway held that dies is back after {}, and nothing is \
         given for as long after the store was lost",
        span(lease)
    )?;
    let nodes = u64::from(fleet.nodes);
    let away = match fleet.on_loss {
        OnLoss::Closed => "no calls are made".to_owned(),
        OnLoss::Open => format!("{} calls at once on each gateway", fleet.terms.all),
        OnLoss::Local => {
            let part = fleet.terms.part(fleet.nodes).all;
            // One that holds all of them when the store goes keeps them, and the others go on with their parts.
            let most = fleet.terms.all + part * (nodes - 1);
            format!(
                "{part} calls at once on each of {nodes} gateways, {most} together at most, and {} more where some \
                 still have it",
                fleet.terms.all
            )
        }
    };
    writeln!(f, "  away      while the store does not answer: {away}")
}

fn one(f: &mut fmt::Formatter<'_>, dependency: &DependencyPlan) -> fmt::Result {
    let app = &dependency.app;
    if let Some(egress) = &dependency.egress {
        writeln!(
            f,
            "  egress    {} to http://{}:{}, an answer within {}",
            egress.listen,
            app.upstream.host,
            app.upstream.port,
            span(app.upstream.response_timeout)
        )?;
    }
    write!(f, "  calls     {} at once", dependency.concurrency())?;
    match dependency.wait_max {
        wait if wait.is_zero() => write!(f, ", the next is refused at once")?,
        wait => write!(f, ", the next waits for {} at most", span(wait))?,
    }
    if let Some((rate, bucket)) = &dependency.rate {
        let burst = dependency.unit().tokens(bucket.burst());
        write!(f, "; {rate} with a burst of {burst}")?;
    }
    if let Some(follows) = &dependency.follows {
        write!(
            f,
            "; down to {} % of that as less is left of it",
            follows.floor / 10
        )?;
    }
    match &dependency.fleet {
        None => writeln!(f, "; on each gateway")?,
        Some(fleet) => over_all(f, fleet, dependency.rate.is_some())?,
    }
    for class in Class::ALL {
        if let Some(reserve) = app.admission.bulkheads.reserves[class.index()] {
            let loan = match reserve.loan {
                Loan::Strict => "nobody else uses them",
                Loan::Lent => "idle ones are lent, less a hot spare",
            };
            writeln!(
                f,
                "  reserve   {}: {}; {loan}",
                class.name(),
                slots(reserve.portion, &app.limit)
            )?;
        }
    }
    match &app.breaker {
        None => writeln!(
            f,
            "  breaker   none: it is called whether it answers or not"
        ),
        Some(breaker) => writeln!(
            f,
            "  breaker   after {} failures in a row no calls for {}, up to {} while it does not answer",
            breaker.breaker.failures,
            span(breaker.breaker.tripped_min),
            span(breaker.breaker.tripped_max)
        ),
    }
}

//! What follows about dependencies.

use std::fmt;

use tidegate_core::bulkhead::Loan;
use tidegate_core::facts::Class;
use tidegate_gateway::dependency::DependencyPlan;

use super::{slots, span};

/// Nothing, where there are none.
pub(super) fn show(f: &mut fmt::Formatter<'_>, dependencies: &[DependencyPlan]) -> fmt::Result {
    for dependency in dependencies {
        writeln!(f, "\ndependency {}", dependency.name())?;
        one(f, dependency)?;
    }
    Ok(())
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
        write!(f, "; {rate} with a burst of {}", bucket.burst())?;
    }
    writeln!(f, "; on each gateway")?;
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

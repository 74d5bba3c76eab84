//! What follows from a configuration, for a person to read before it is used.

mod balancer;
mod dependencies;
pub(super) mod kept;
pub(crate) mod rates;
mod rls;
mod rooms;

use std::fmt;
use std::time::Duration;

use tidegate_core::admission::BOUND_MIN;
use tidegate_core::bulkhead::{Loan, Portion};
use tidegate_core::facts::Class;
use tidegate_core::limit::{Bounds, Kind};
use tidegate_core::queue::Discipline;
use tidegate_fleet::balancer::AgentCheckPlan;
use tidegate_gateway::plan::{AppPlan, Mode, RoutePlan};
use tidegate_gateway::session::Need;

use super::{AgentSetup, FleetPlan, Setup, limit};

/// Displays a [`Setup`] in terms of what will happen.
pub(crate) struct Summary<'p>(pub(crate) &'p Setup);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.0.gateway;
        let admin = plan
            .admin
            .map_or_else(|| "off".to_owned(), |address| address.to_string());
        let Some(address) = plan.listener.address else {
            return show_alone(f, self.0, &admin);
        };
        writeln!(
            f,
            "listening on {address}, admin {admin}, threads {}, client connections {} + {} for probes",
            plan.threads,
            plan.listener.connections_max,
            plan.probes.connections_reserved.get() + plan.probes.overflow_connections_max.get(),
        )?;
        writeln!(
            f,
            "on SIGTERM: not ready for {}, then at most {} to finish",
            span(plan.drain.delay),
            span(plan.drain.timeout)
        )?;
        kept::show(f, self.0)?;
        plan.apps.iter().try_for_each(|app| show_app(f, app))?;
        dependencies::show(f, self.0)?;
        rates::show(f, plan)?;
        rls::show(f, self.0.rls.as_ref())?;
        rooms::show(f, self.0)?;
        show_fleet(f, self.0.fleet.as_ref())?;
        show_agent(f, self.0.agent.as_ref())?;
        show_latency(f, self.0.agent.as_ref())?;
        balancer::show(f, &self.0.balancer)
    }
}

/// What an agent alone will do.
fn show_alone(f: &mut fmt::Formatter<'_>, setup: &Setup, admin: &str) -> fmt::Result {
    writeln!(f, "an agent alone: no requests, admin {admin}")?;
    let says = span(farewell(setup));
    writeln!(f, "on SIGTERM: says for {says} that all is well, and ends")?;
    kept::show(f, setup)?;
    show_fleet(f, setup.fleet.as_ref())?;
    show_agent(f, setup.agent.as_ref())?;
    balancer::show(f, &setup.balancer)
}

/// For how long an agent that ends says that the node is all right: until every balancer has asked.
pub(crate) fn farewell(setup: &Setup) -> Duration {
    let check = setup.balancer.agent_check.as_ref();
    let check = check.map_or(Duration::ZERO, AgentCheckPlan::farewell);
    check.max(setup.gateway.drain.delay)
}

fn show_fleet(f: &mut fmt::Formatter<'_>, fleet: Option<&FleetPlan>) -> fmt::Result {
    let Some(fleet) = fleet else {
        return Ok(());
    };
    let node = fleet
        .node
        .as_ref()
        .map_or("the machine's name", |name| name.as_str());
    writeln!(f, "\nfleet")?;
    let leads = if fleet.leads {
        "may lead"
    } else {
        "never leads"
    };
    writeln!(f, "  node      {node}, {leads}")?;
    if fleet.sessions_in_heap {
        writeln!(
            f,
            "  sessions  in the application's memory: slowed when it is full, never taken out"
        )?;
    }
    match &fleet.decision_log {
        Some(path) => writeln!(
            f,
            "  decisions in {}, opened again on SIGHUP",
            path.display()
        ),
        None => Ok(()),
    }
}

fn show_agent(f: &mut fmt::Formatter<'_>, agent: Option<&AgentSetup>) -> fmt::Result {
    let Some(agent) = agent else {
        return Ok(());
    };
    let look = &agent.look;
    writeln!(f, "\nagent")?;
    writeln!(f, "  looks at  {}", look.runtime.name())?;
    for at in &look.listen {
        writeln!(f, "  listener  {at}")?;
    }
    Ok(())
}

/// Whether latency is judged, where answers are seen.
fn show_latency(f: &mut fmt::Formatter<'_>, agent: Option<&AgentSetup>) -> fmt::Result {
    let Some(agent) = agent else {
        return Ok(());
    };
    match agent.latency_budget {
        Some(budget) => writeln!(f, "  latency   99 % within {}", span(budget)),
        None => writeln!(f, "  latency   not judged, without latency_budget"),
    }
}

fn show_app(f: &mut fmt::Formatter<'_>, app: &AppPlan) -> fmt::Result {
    let upstream = &app.upstream;
    writeln!(f, "\napplication {}", app.name)?;
    writeln!(
        f,
        "  upstream  http://{}:{}, at most {} connections{}",
        upstream.host,
        upstream.port,
        upstream.connections_max,
        if upstream.keep_alive {
            ""
        } else {
            ", none kept"
        }
    )?;
    let hosts = if app.hosts.is_empty() {
        "any host".to_owned()
    } else {
        app.hosts.join(" ")
    };
    writeln!(f, "  serves    {hosts}, paths from {}", app.path_prefix)?;
    if app.mode == Mode::Shadow {
        writeln!(
            f,
            "  mode      shadow: every request is let in, refusals are only counted"
        )?;
    }
    match app.limit {
        Kind::Static(workers) => {
            writeln!(
                f,
                "  limit     {workers} at once, as many as there are workers"
            )?;
        }
        Kind::Aimd(bounds) | Kind::Vegas(bounds) | Kind::Gradient2(bounds) => {
            show_learnt(f, app.limit.name(), bounds)?;
        }
        Kind::Adaptive(settings) => {
            show_learnt(f, app.limit.name(), settings.bounds)?;
            if let Some(latency) = settings.latency_healthy_max {
                let latency = span(latency);
                writeln!(
                    f,
                    "            no higher while the mean time to the first byte is above {latency}"
                )?;
            }
            if let Some(path) = &app.warm_start {
                writeln!(f, "            begins where {} left off", path.display())?;
            }
        }
    }
    show_queue(f, app)?;
    show_bulkheads(f, app)?;
    if let Some(journal) = &app.journal {
        writeln!(
            f,
            "  decisions written to {}, at most {}; an earlier log there is kept as {}.old",
            journal.path.display(),
            bytesize::ByteSize(journal.bytes_max),
            journal.path.display(),
        )?;
    }
    show_routes(f, app)?;
    warn_of_short_patience(f, app)
}

fn show_learnt(f: &mut fmt::Formatter<'_>, name: &str, bounds: Bounds) -> fmt::Result {
    let (initial, min, max) = (bounds.initial(), bounds.min(), bounds.max());
    writeln!(
        f,
        "  limit     learnt by {name} from {initial}, between {min} and {max}"
    )
}

fn show_queue(f: &mut fmt::Formatter<'_>, app: &AppPlan) -> fmt::Result {
    let admission = &app.admission;
    let order = match admission.discipline {
        Discipline::AdaptiveLifo => "newest first once the oldest has waited too long",
        Discipline::Fifo => "oldest first",
        Discipline::CoDel => "oldest first, dropped by CoDel",
    };
    let hold = span(admission.hold);
    writeln!(
        f,
        "  queue     limit × ({hold} − S, at least half of {hold}) / S for a mean service time S, at most {}, {} in all; {order}",
        admission.queue_max,
        bytesize::ByteSize(admission.queue_bytes_max),
    )?;
    if let Kind::Static(workers) = app.limit {
        write!(f, "           ")?;
        for part in [10, 4, 2] {
            let service = admission.hold / part;
            let bound = workers
                .get()
                .saturating_mul(part - 1)
                .min(admission.queue_max);
            write!(f, " {bound} when S is {},", span(service))?;
        }
        // From half of `hold` on, half of `hold` is what anybody may wait.
        let bound = (workers.get() / 2).max(BOUND_MIN).min(admission.queue_max);
        writeln!(f, " {bound} when S is {hold}")?;
    }
    Ok(())
}

fn show_bulkheads(f: &mut fmt::Formatter<'_>, app: &AppPlan) -> fmt::Result {
    for class in Class::ALL {
        let Some(reserve) = app.admission.bulkheads.reserves[class.index()] else {
            continue;
        };
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
    for (name, cap) in app.groups.iter().zip(&app.admission.bulkheads.groups) {
        writeln!(f, "  group     {name}: at most {}", slots(*cap, &app.limit))?;
    }
    Ok(())
}

fn show_routes(f: &mut fmt::Formatter<'_>, app: &AppPlan) -> fmt::Result {
    let rows: Vec<[String; 7]> = app.routes.iter().map(|route| row(app, route)).collect();
    let heading = [
        "route", "methods", "paths", "class", "group", "patience", "session",
    ];
    let columns = if app.sessions.is_some() { 7 } else { 6 };
    let heading = heading.map(str::to_owned);
    let mut widths = [0; 7];
    for row in std::iter::once(&heading).chain(&rows) {
        for (width, cell) in widths.iter_mut().zip(row).take(columns) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in std::iter::once(&heading).chain(&rows) {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(widths).take(columns) {
            line += &format!(" {cell:width$} ");
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

/// It may be meant, so it is no error; but then `hold` is not what bounds the wait.
fn warn_of_short_patience(f: &mut fmt::Formatter<'_>, app: &AppPlan) -> fmt::Result {
    let hold = app.admission.hold;
    for route in app.routes.iter().filter(|route| route.patience < hold) {
        writeln!(
            f,
            "  warning   hold = {} is longer than patience = {} of route {}: its requests leave the queue \
             by their deadline (expired_in_queue), before hold is over",
            span(hold),
            span(route.patience),
            route.name
        )?;
    }
    Ok(())
}

fn row(app: &AppPlan, route: &RoutePlan) -> [String; 7] {
    let methods: Vec<&str> = route
        .matches
        .methods
        .iter()
        .map(|method| method.as_str())
        .collect();
    let paths: Vec<String> = route
        .matches
        .paths
        .iter()
        .map(ToString::to_string)
        .collect();
    let group = usize::from(route.group.0)
        .checked_sub(1)
        .map(|at| app.groups[at].clone());
    [
        route.name.clone(),
        if methods.is_empty() {
            "any".to_owned()
        } else {
            methods.join(" ")
        },
        paths.join(" "),
        route.class.map_or("by request", Class::name).to_owned(),
        group.unwrap_or_else(|| "default".to_owned()),
        span(route.patience),
        session(route),
    ]
}

/// What the route has to do with sessions.
pub(super) fn session(route: &RoutePlan) -> String {
    let names: Vec<&str> = route
        .session
        .exposed
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let need = match route.session.need {
        Need::None => return "none".to_owned(),
        Need::Optional => "optional",
        Need::Required => "required",
    };
    if names.is_empty() {
        need.to_owned()
    } else {
        format!("{need}: {}", names.join(" "))
    }
}

fn slots(portion: Portion, limit: &Kind) -> String {
    let of = |limit| portion.slots(limit);
    let (lowest, highest) = (limit::lowest(limit), limit::highest(limit));
    if of(lowest) == of(highest) && lowest != highest {
        format!("{} slots", of(lowest))
    } else if lowest == highest {
        format!("{} of {highest} slots", of(highest))
    } else {
        format!(
            "{} to {} slots, following the limit",
            of(lowest),
            of(highest)
        )
    }
}

fn span(span: Duration) -> String {
    humantime::format_duration(span).to_string()
}

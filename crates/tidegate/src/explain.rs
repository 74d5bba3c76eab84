//! `tidegate explain FILE REQUEST`: what would happen to a request, and why; and how safe what it
//! writes is.

mod room;
mod safety;

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use tidegate_core::facts::Class;
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::share::OnLoss;
use tidegate_core::session::{Name, WriteClass};
use tidegate_core::time::{Mono, Wall};
use tidegate_gateway::classify::{Label, app_of, label};
use tidegate_gateway::plan::{AppPlan, Mode, RoutePlan};
use tidegate_gateway::rate::Stage;
use tidegate_gateway::session::{Need, OnUnstored};
use tidegate_store::redis::Use;

use crate::config::{Said, Sessions, Setup, place};

/// Columns of the headings at the left.
const MARGIN: usize = 13;

/// Explains `text`, a method and a path or URL, under `setup`. `headers` are `NAME: VALUE`.
pub(crate) fn explain(setup: &Setup, text: &str, headers: &[String]) -> anyhow::Result<ExitCode> {
    let request = request(text, headers)?;
    let page = page(setup, &request)?;
    crate::print(page.trim_end())
}

fn request(text: &str, headers: &[String]) -> anyhow::Result<Request<()>> {
    let mut words = text.split_whitespace();
    let (method, target) = match (words.next(), words.next(), words.next()) {
        (Some(path), None, None) => ("GET", path),
        (Some(method), Some(target), None) => (method, target),
        _ => bail!(
            "\"{text}\" is no request: write a method and a path or URL, such as 'POST /checkout'"
        ),
    };
    let is_plain = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let method: Method = match method.parse::<Method>() {
        Ok(parsed) if is_plain && parsed != Method::CONNECT => parsed,
        _ => bail!("\"{method}\" is no method: write GET or POST, say, in capitals"),
    };
    let uri: Uri = match target.parse() {
        Ok(uri) => uri,
        Err(_) => bail!("\"{target}\" is no path or URL: write /checkout, say"),
    };
    if !uri.path().starts_with('/') {
        bail!(
            "\"{target}\" is no path or URL: write /checkout or http://shop.example.com/checkout, say"
        );
    }
    let mut request = Request::builder().method(method).uri(uri.clone());
    for line in headers {
        let (name, value) = line
            .split_once(':')
            .with_context(|| format!("\"{line}\" is no header: write NAME: VALUE"))?;
        let name: HeaderName = (name.trim().parse())
            .with_context(|| format!("\"{}\" is no header name", name.trim()))?;
        let value: HeaderValue = (value.trim().parse())
            .with_context(|| format!("the value of {name} cannot be in a header"))?;
        request = request.header(name, value);
    }
    if let Some(authority) = uri.authority() {
        request = request.header(http::header::HOST, authority.as_str());
    }
    request.body(()).context("the request makes no sense")
}

fn page(setup: &Setup, request: &Request<()>) -> anyhow::Result<String> {
    let apps = &setup.gateway.apps;
    let Some(app) = app_of(request, apps.iter()).map(|at| &apps[at]) else {
        bail!(
            "no application takes {} {}: it would be answered 404",
            request.method(),
            request.uri()
        );
    };
    let label = label(
        request,
        app,
        false,
        Mono::from_nanos(0),
        Wall::default,
        |_| {},
    );
    let route = &app.routes[label.route];
    let mut page = format!("{} {}\n\n", request.method(), request.uri());
    let upstream = &app.upstream;
    line(
        &mut page,
        "application",
        &format!(
            "{}, at http://{}:{}",
            app.name, upstream.host, upstream.port
        ),
    );
    if app.mode == Mode::Shadow {
        line(&mut page, "", "in shadow mode: refusals are only counted");
    }
    line(&mut page, "route", &route_said(app, label.route));
    for (at, said) in class_said(app, route, &label).iter().enumerate() {
        line(&mut page, if at == 0 { "class" } else { "" }, said);
    }
    let group = usize::from(route.group.0).checked_sub(1);
    let group = group.map_or("default", |at| app.groups[at].as_str());
    line(&mut page, "group", group);
    line(
        &mut page,
        "patience",
        &humantime::format_duration(route.patience).to_string(),
    );
    for (at, said) in room::said(setup, app, route, label.class)
        .iter()
        .enumerate()
    {
        line(&mut page, if at == 0 { "room" } else { "" }, said);
    }
    match &setup.sessions {
        None => line(&mut page, "session", "none: there is no section [sessions]"),
        Some(sessions) => explain_session(&mut page, setup, sessions, route, label.class),
    }
    explain_limits(&mut page, setup, app, route);
    explain_dependencies(&mut page, setup, app, route);
    Ok(page)
}

fn route_said(app: &AppPlan, at: usize) -> String {
    let route = &app.routes[at];
    let paths: Vec<String> = route
        .matches
        .paths
        .iter()
        .map(ToString::to_string)
        .collect();
    format!(
        "{}, number {} of {}, takes {}",
        route.name,
        at + 1,
        app.routes.len(),
        paths.join(" ")
    )
}

/// The class, why, and what else it may become.
fn class_said(app: &AppPlan, route: &RoutePlan, label: &Label) -> Vec<String> {
    let name = label.class.name();
    let why = match route.class {
        Some(class) if class == label.class => "because the route says so",
        Some(_) => "lowered from the route's by a header",
        None if label.labelled => "by what the request carries",
        None => "because nothing says otherwise",
    };
    let mut said = vec![format!("{name}, {why}")];
    let learns = route.session.need != Need::None && label.class != Class::Static;
    if let Some(sessions) = app
        .sessions
        .as_ref()
        .filter(|_| route.class.is_none() && learns)
    {
        let tiers: Vec<String> = (sessions.tiers.iter())
            .map(|(tier, class)| format!(", {} in tier {tier}", class.name()))
            .collect();
        let by = if sessions.tickets {
            "by a sealed ticket, or "
        } else {
            ""
        };
        said.push(format!(
            "signed-in with the session of a user{} ({by}once the store has answered)",
            tiers.concat()
        ));
    }
    said
}

/// The rate limits that the request meets, in the order in which they are asked.
fn explain_limits(page: &mut String, setup: &Setup, app: &AppPlan, route: &RoutePlan) {
    let limits = setup.gateway.rates.limits.iter();
    let mut met: Vec<_> = limits
        .filter(|limit| limit.applies_to(app, route))
        .collect();
    met.sort_by_key(|limit| limit.stage as u8);
    if met.is_empty() {
        return line(page, "limits", "none");
    }
    for (at, limit) in met.into_iter().enumerate() {
        let when = match limit.stage {
            Stage::Edge => "before admission",
            Stage::Known => "once it is known whose session it is",
        };
        let shadow = match limit.standing_in(app) {
            Standing::Enforced => "",
            Standing::Shadow => "; it only counts",
        };
        let fleet = limit.fleet.map_or_else(String::new, |fleet| {
            let away = match fleet.on_loss {
                OnLoss::Local => "each goes on with its part",
                OnLoss::Open => "everything passes",
                OnLoss::Closed => "nothing passes",
            };
            let mode = fleet.mode.name();
            format!("; over all gateways, {mode}, and without the store {away}")
        });
        let said = format!("{}; {when}{fleet}{shadow}", Said(limit));
        line(page, if at == 0 { "limits" } else { "" }, &said);
    }
}

/// What the route is said to call by itself. What an application calls through its listeners no request shows.
fn explain_dependencies(page: &mut String, setup: &Setup, app: &AppPlan, route: &RoutePlan) {
    let Some((first, others)) = route.dependencies.split_first() else {
        return;
    };
    for at in std::iter::once(first).chain(others) {
        let dependency = &setup.gateway.dependencies[*at];
        let rate = dependency.rate.as_ref();
        let rate = rate.map_or_else(String::new, |(rate, bucket)| {
            let burst = dependency.unit().tokens(bucket.burst());
            format!(" and {rate} with a burst of {burst}")
        });
        let binds = match app.mode {
            Mode::Enforce => "503 dependency_full or dependency_rate without room",
            Mode::Shadow => "not in shadow mode",
        };
        let said = format!(
            "{}: one of its {} calls at once{rate}, for as long as the request is inside; {binds}",
            dependency.name(),
            dependency.concurrency()
        );
        line(page, if at == first { "calls" } else { "" }, &said);
    }
}

fn explain_session(
    page: &mut String,
    setup: &Setup,
    sessions: &Sessions,
    route: &RoutePlan,
    class: Class,
) {
    let need = route.session.need;
    if need == Need::None || class == Class::Static {
        let why = if need == Need::None {
            "the route says so"
        } else {
            "static requests have none"
        };
        line(
            page,
            "session",
            &format!("none: {why}; the store is not asked"),
        );
        return;
    }
    let cookie = sessions.gateway.cookies.session();
    let (wanted, without) = match need {
        Need::Required => ("required", "refused with 503 store_away and Retry-After"),
        _ => (
            "optional",
            "served with what is known here: a copy, the ticket, or a local session",
        ),
    };
    line(
        page,
        "session",
        &format!("{wanted}, by the cookie {cookie}; begun when the application stores something"),
    );
    line(page, "", &format!("while the store is away: {without}"));
    let servers = setup.store.servers(Use::Sessions);
    line(
        page,
        "store",
        &servers.map_or_else(
            || format!("this process, in {}", setup.store.path.display()),
            |servers| {
                format!(
                    "{}; waited for at most {}",
                    place(&servers.plan),
                    humantime::format_duration(servers.plan.operation_timeout)
                )
            },
        ),
    );
    let fields: Vec<String> = (route.session.exposed.iter())
        .map(|(name, header)| format!("{name} (as {header})"))
        .collect();
    let fields = if fields.is_empty() {
        "none is read for it; the application is told the session, the user and the tier".to_owned()
    } else {
        format!("{}; nothing else is read for it", fields.join(", "))
    };
    line(page, "fields", &fields);
    let on_conflict = match sessions.gateway.on_unstored {
        OnUnstored::Drop => {
            "an answer whose changes are refused goes out all the same, and is counted"
        }
        OnUnstored::Fail => "an answer whose changes are refused is replaced by an error",
    };
    line(page, "conflicts", on_conflict);
    let _ = writeln!(page, "\nwrites");
    for write in WriteClass::ALL {
        explain_write(page, setup, sessions, write);
    }
}

fn explain_write(page: &mut String, setup: &Setup, sessions: &Sessions, class: WriteClass) {
    let durability = sessions.desk.durability(class);
    let what = what(sessions, class);
    let _ = writeln!(page, "  {}: {what}", class.name());
    let mut say = |heading: &str, text: &str| {
        let _ = writeln!(page, "    {heading:<12}{text}");
    };
    say("durability", &crate::config::show_durability(durability));
    let servers = setup
        .store
        .servers(Use::Sessions)
        .map(|servers| &servers.plan);
    for (at, loss) in safety::losses(class, durability, servers)
        .iter()
        .enumerate()
    {
        say(if at == 0 { "loses when" } else { "or when" }, loss);
    }
}

/// What is written in `class`.
fn what(sessions: &Sessions, class: WriteClass) -> String {
    let of = |class: WriteClass| -> Vec<Name> {
        sessions.desk.attributes.names(|row| row.class == class)
    };
    let list = |names: Vec<Name>| {
        let names: Vec<&str> = names.iter().map(Name::as_str).collect();
        names.join(", ")
    };
    match class {
        WriteClass::Touch => "that the session is in use".to_owned(),
        WriteClass::Disposable => match of(class) {
            names if names.is_empty() => "no attribute is of this class".to_owned(),
            names => format!("the attributes {}", list(names)),
        },
        WriteClass::Work => match of(class) {
            names if names.is_empty() => "all attributes and counters".to_owned(),
            names => format!("{}, and all others that have no class", list(names)),
        },
        WriteClass::SignIn => "sign-ins and other changes of id".to_owned(),
        WriteClass::SignOut => "sign-outs, here and everywhere".to_owned(),
        WriteClass::Capsule => "what is kept for the user's next session".to_owned(),
    }
}

fn line(page: &mut String, heading: &str, text: &str) {
    let _ = writeln!(page, "{heading:<MARGIN$}{text}");
}

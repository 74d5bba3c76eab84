//! A scenario as a gateway's configuration sees it: what each traffic's requests are goes through
//! the gateway's own classifier.

use anyhow::{Context as _, bail, ensure};
use http::header::{HOST, HeaderName, HeaderValue};
use http::{Method, Request};
use tidegate_core::facts::RouteId;
use tidegate_core::time::{Mono, Wall};
use tidegate_gateway::classify::{self, app_of};
use tidegate_gateway::plan::{AppPlan, Plan};
use tidegate_lab::scenario::{Label, Scenario, Service, Traffic, Weight};
use tidegate_lab::text::shown;

use crate::config::closest;

/// Requests under this are Tidegate's own.
const OWN: &str = "/.tidegate/";

/// What is said of a route that the scenario does not name.
const OTHER: &str = "other";

/// Labels every traffic of `scenario` as `plan` has it, and gives back the application that all of
/// it is for: the one called `wanted`, or the one that the first traffic asks for.
pub(super) fn resolve<'p>(
    scenario: &mut Scenario,
    plan: &'p Plan,
    wanted: Option<&str>,
) -> anyhow::Result<&'p AppPlan> {
    let mut chosen = wanted.map(|name| named(plan, name)).transpose()?;
    for traffic in &mut scenario.traffic {
        let name = traffic.name.clone();
        let place = place(traffic, plan, chosen)
            .with_context(|| format!("traffic {name:?} cannot be simulated"))?;
        let app = &plan.apps[place];
        let expected = *chosen.get_or_insert(place);
        ensure!(
            place == expected,
            "traffic {name:?} is for the application \"{}\", but \"{}\" is simulated: leave it \
             out, or choose with --app",
            app.name,
            plan.apps[expected].name
        );
    }
    let app = &plan.apps[chosen.context("there is no traffic")?];
    for service in &scenario.app.routes {
        meant(&service.name, app)?;
    }
    for traffic in &mut scenario.traffic {
        let name = traffic.name.clone();
        label(traffic, app, &scenario.app.routes)
            .with_context(|| format!("traffic {name:?} cannot be simulated"))?;
    }
    Ok(app)
}

/// A time for a route that nothing is asked from would silently not count.
fn meant(name: &str, app: &AppPlan) -> anyhow::Result<()> {
    let mut known: Vec<&str> = app.routes.iter().map(|route| &*route.name).collect();
    known.push(OTHER);
    known.dedup();
    if known.contains(&name) {
        return Ok(());
    }
    let nearest = closest(name, known.iter().copied());
    bail!(
        "the application \"{}\" has no route \"{}\" for that [[app.route]]{}; there are {}",
        app.name,
        shown(name),
        nearest.map_or_else(String::new, |nearest| format!(
            " (did you mean \"{nearest}\"?)"
        )),
        known.join(", ")
    );
}

fn named(plan: &Plan, name: &str) -> anyhow::Result<usize> {
    let place = plan.apps.iter().position(|app| app.name == name);
    let names: Vec<&str> = plan.apps.iter().map(|app| &*app.name).collect();
    place.with_context(|| {
        format!(
            "there is no application \"{name}\" in the configuration; there are {}",
            names.join(", ")
        )
    })
}

/// The application that `traffic` is for. Requests that name no host are for the chosen one's, or
/// for that of the first application.
fn place(traffic: &Traffic, plan: &Plan, chosen: Option<usize>) -> anyhow::Result<usize> {
    let request = request(traffic, &plan.apps[chosen.unwrap_or(0)])?;
    let path = request.uri().path();
    ensure!(
        !path.starts_with(OWN) && !plan.probes.paths.iter().any(|probe| probe == path),
        "`{path}` is answered by Tidegate itself, and no application sees it"
    );
    app_of(&request, plan.apps.iter()).with_context(|| {
        format!("no application of the configuration serves `{path}` at that host")
    })
}

fn label(traffic: &mut Traffic, app: &AppPlan, services: &[Service]) -> anyhow::Result<()> {
    let request = request(traffic, app)?;
    let mut senseless = None;
    let now = Mono::default();
    let seen = classify::label(&request, app, traffic.trusted, now, Wall::default, |what| {
        senseless = Some(what)
    });
    if let Some(what) = senseless {
        bail!("a header makes no sense as {}", what.label());
    }
    let route = &app.routes[seen.route].name;
    let known: Vec<&str> = services.iter().map(|service| &*service.name).collect();
    let Some(service) = [route, OTHER].into_iter().find(|name| known.contains(name)) else {
        bail!(
            "its requests are for the route \"{route}\" of the application \"{}\", and nothing \
             says how long those take: add an [[app.route]] with that name, or with \"{OTHER}\"; \
             there are {}",
            app.name,
            known.join(", ")
        );
    };
    traffic.routes = vec![Weight {
        route: service.to_owned(),
        weight: 1.0,
    }];
    traffic.label = Some(Label {
        class: seen.class,
        route: RouteId(u16::try_from(seen.route).unwrap_or(u16::MAX)),
        group: seen.group,
        patience: seen.deadline.since(now),
    });
    Ok(())
}

fn request(traffic: &Traffic, app: &AppPlan) -> anyhow::Result<Request<()>> {
    let path = traffic
        .path
        .as_deref()
        .context("it has no `path`, and a configuration is about paths")?;
    let method = traffic.method.as_deref().unwrap_or("GET");
    let method = Method::from_bytes(method.as_bytes())
        .with_context(|| format!("`{method}` is no method"))?;
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .body(())
        .with_context(|| format!("`{path}` is no path"))?;
    let headers = request.headers_mut();
    for (name, value) in &traffic.headers {
        let field = HeaderName::from_bytes(name.as_bytes())
            .with_context(|| format!("`{name}` is no header's name"))?;
        let value = HeaderValue::from_str(value)
            .with_context(|| format!("`{value}` cannot be the value of {name}"))?;
        headers.append(field, value);
    }
    if let (Some(host), false) = (app.hosts.first(), headers.contains_key(HOST)) {
        headers.insert(HOST, HeaderValue::from_str(host)?);
    }
    Ok(request)
}

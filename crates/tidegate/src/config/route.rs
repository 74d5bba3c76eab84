//! Which requests make up a route, and what holds for them.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use tidegate_core::facts::{Class, GroupId};
use tidegate_gateway::dependency::DependencyPlan;
use tidegate_gateway::plan::{Matcher, PathPattern, RoutePlan};
use tidegate_gateway::session::RouteSession;
use tidegate_http::path;

use super::app::Around;
use super::bulkheads::Groups;
use super::keys::ROUTE;
use super::name::Names;
use super::problem::Problems;
use super::section::{Section, closest};
use super::sessions::{self, Sessions};
use super::tree::{Origin, Value};

/// Route ids are 16 bits wide; far fewer are readable in a metric.
const ROUTES_MAX: usize = 1000;

/// The routes of an application, with the one that takes the rest at the end.
pub(crate) fn routes(
    app: &Section<'_>,
    groups: &Groups<'_>,
    patience: Duration,
    around: &Around<'_>,
    problems: &Problems,
) -> Vec<RoutePlan> {
    let sessions = around.sessions;
    let mut routes: Vec<RoutePlan> = Vec::new();
    let mut names = Names::reserving("other", "route");
    let nodes = app.sections("route", "[[app.route]]");
    if nodes.len() > ROUTES_MAX {
        app.refuse(
            "route",
            format!("{} routes in one application", nodes.len()),
            format!("write at most {ROUTES_MAX}; patterns such as /api/** take many paths at once"),
        );
        // Comparing each with all before it would take its time.
        return vec![other(patience, sessions)];
    }
    // Routes whose conditions were refused match everything in their stand-in.
    let mut sound: Vec<RoutePlan> = Vec::new();
    let mut groups_are_sound = true;
    for node in nodes {
        let section = Section::new("[[app.route]]", node, ROUTE, &[], problems);
        let name = section.text("name");
        names.take(&section, name);
        let route = RoutePlan {
            name: name.to_owned(),
            matches: matcher(&section),
            class: section.choice("class").and_then(Class::from_name),
            group: group(&section, groups),
            patience: section.span_if_set("patience").unwrap_or(patience),
            session: sessions::of_route(&section, sessions),
            dependencies: dependencies(&section, around.dependencies),
            // Rooms are read later, and say which routes they are before.
            room: None,
        };
        groups_are_sound &= section.sound(&["group"]);
        if section.sound(&["path", "paths", "methods", "headers"]) {
            refuse_shadowed(&section, &route, &sound);
            sound.push(route.clone());
        }
        routes.push(route);
    }
    if groups_are_sound {
        refuse_unused_groups(groups, &routes, problems);
    }
    routes.push(other(patience, sessions));
    routes
}

fn other(patience: Duration, sessions: Option<&Sessions>) -> RoutePlan {
    RoutePlan {
        name: "other".to_owned(),
        matches: Matcher {
            methods: Vec::new(),
            paths: vec![everything()],
            headers: Vec::new(),
        },
        class: None,
        group: GroupId(0),
        patience,
        session: sessions.map_or_else(RouteSession::default, Sessions::usual_of_a_route),
        dependencies: Vec::new(),
        room: None,
    }
}

fn everything() -> PathPattern {
    PathPattern::parse("/**").expect("the pattern for everything is one")
}

fn matcher(section: &Section<'_>) -> Matcher {
    Matcher {
        methods: methods(section),
        paths: paths(section),
        headers: headers(section),
    }
}

fn paths(section: &Section<'_>) -> Vec<PathPattern> {
    let mut texts: Vec<(&'static str, &str, &Origin)> = section
        .texts("paths")
        .into_iter()
        .map(|(text, place)| ("paths", text, place))
        .collect();
    if let Some(text) = section.text_if_set("path") {
        if section.has("paths") {
            section.refuse(
                "path",
                "`path` and `paths` say the same thing twice",
                "put it into paths",
            );
        } else if section.sound(&["path"]) {
            texts.push(("path", text, section.place("path")));
        }
    } else if texts.is_empty() && section.sound(&["paths"]) {
        section.refuse(
            "paths",
            "a route without a path",
            "add path = \"/checkout/**\", say; \"/**\" is every path",
        );
    }

    let mut patterns = Vec::new();
    for (key, text, place) in texts {
        match PathPattern::parse(text) {
            // Only where it is more than another spelling: `?` must not become an escape.
            Ok(_) if text.contains(['?', '#', ' ']) => section.refuse_item(
                key,
                place,
                format!("path pattern \"{text}\" can never fit"),
                "paths are matched as sent, without query: remove what follows '?', write %20 for a space",
            ),
            Ok(_) if path::canonical(text) != text => section.refuse_item(
                key,
                place,
                format!("path pattern \"{text}\" can never fit"),
                format!("paths are matched in one spelling: write \"{}\"", path::canonical(text)),
            ),
            Ok(pattern) => patterns.push(pattern),
            Err(error) => section.refuse_item(
                key,
                place,
                format!("`{text}` is no path pattern: {error}"),
                "write /cart, /p/*/reviews or /api/**",
            ),
        }
    }
    if patterns.is_empty() {
        patterns.push(everything());
    }
    patterns
}

fn methods(section: &Section<'_>) -> Vec<Method> {
    let mut methods = Vec::new();
    for (text, place) in section.texts("methods") {
        let upper = text.to_ascii_uppercase();
        match text.parse::<Method>() {
            Ok(method) if text == upper && text != "CONNECT" => methods.push(method),
            Ok(_) if text == upper => {
                section.refuse_item("methods", place, "CONNECT is never forwarded", "remove it")
            }
            Ok(_) => section.refuse_item(
                "methods",
                place,
                format!("methods are written in capitals, not \"{text}\""),
                format!("write \"{upper}\""),
            ),
            Err(_) => section.refuse_item(
                "methods",
                place,
                format!("`{text}` is no method"),
                "write \"GET\" or \"POST\", say",
            ),
        }
    }
    methods
}

fn headers(section: &Section<'_>) -> Vec<(HeaderName, Option<HeaderValue>)> {
    let mut headers: Vec<(HeaderName, Option<HeaderValue>)> = Vec::new();
    for entry in section.table("headers") {
        let Ok(name) = entry.key.parse::<HeaderName>() else {
            section.refuse_item(
                "headers",
                &entry.key_origin,
                format!("`{}` is no header name", entry.key),
                "write letters, digits and '-', such as \"X-Client\"",
            );
            continue;
        };
        if headers.iter().any(|(other, _)| *other == name) {
            section.refuse_item(
                "headers",
                &entry.key_origin,
                format!("header `{name}` is there twice"),
                "capitals make no other header: remove one of them",
            );
        }
        let value = match &entry.node.value {
            Value::Text(text) if text == "*" => Ok(None),
            Value::Text(text) => text
                .parse::<HeaderValue>()
                .map(Some)
                .map_err(|_| text.as_str()),
            _ => Err(""),
        };
        match value {
            Ok(value) => headers.push((name, value)),
            Err(_) => section.refuse_item(
                "headers",
                &entry.node.origin,
                format!("the value of header `{name}` is none that a request can carry"),
                "write a text of visible ASCII, or \"*\" for any value",
            ),
        }
    }
    headers
}

fn group(section: &Section<'_>, groups: &Groups<'_>) -> GroupId {
    let Some(name) = section.text_if_set("group") else {
        return GroupId(0);
    };
    if let Some(at) = groups.names.iter().position(|group| group == name) {
        return GroupId(u16::try_from(at + 1).unwrap_or(u16::MAX));
    }
    if section.sound(&["group"]) {
        let fix = match closest(name, groups.names.iter().map(String::as_str)) {
            Some(group) => format!("did you mean \"{group}\"?"),
            None => format!("add an [[app.group]] with name = \"{name}\", or remove group"),
        };
        section.refuse(
            "group",
            format!("there is no group \"{name}\" in this application"),
            fix,
        );
    }
    GroupId(0)
}

/// The places of the dependencies that the route calls by itself.
fn dependencies(section: &Section<'_>, known: &[DependencyPlan]) -> Vec<usize> {
    let mut places = Vec::new();
    for (name, place) in section.texts("dependency") {
        if let Some(at) = known.iter().position(|it| it.name() == name) {
            places.push(at);
            continue;
        }
        let fix = match closest(name, known.iter().map(DependencyPlan::name)) {
            Some(other) => format!("did you mean \"{other}\"?"),
            None => format!("add a [[dependency]] with name = \"{name}\", or remove it here"),
        };
        let message = format!("there is no dependency called \"{name}\"");
        section.refuse_item("dependency", place, message, fix);
    }
    places
}

/// A route behind one that takes all of its requests would look configured and never be used.
fn refuse_shadowed(section: &Section<'_>, route: &RoutePlan, earlier: &[RoutePlan]) {
    if let Some(first) = earlier
        .iter()
        .find(|first| covers(&first.matches, &route.matches))
    {
        section.refuse(
            if section.has("path") { "path" } else { "paths" },
            format!(
                "route \"{}\" can never match: \"{}\" above takes all of it",
                route.name, first.name
            ),
            format!("put it above \"{}\", or remove it", first.name),
        );
    }
}

fn covers(first: &Matcher, second: &Matcher) -> bool {
    let everything = everything();
    let paths = second.paths.iter().all(|path| {
        first
            .paths
            .iter()
            .any(|wider| wider == path || *wider == everything)
    });
    let methods = first.methods.is_empty()
        || (!second.methods.is_empty()
            && second
                .methods
                .iter()
                .all(|method| first.methods.contains(method)));
    let headers = first.headers.iter().all(|(name, value)| {
        second
            .headers
            .iter()
            .any(|(other, narrower)| other == name && (value.is_none() || value == narrower))
    });
    paths && methods && headers
}

fn refuse_unused_groups(groups: &Groups<'_>, routes: &[RoutePlan], problems: &Problems) {
    for (at, name) in groups.names.iter().enumerate() {
        let id = GroupId(u16::try_from(at + 1).unwrap_or(u16::MAX));
        if !routes.iter().any(|route| route.group == id) {
            problems.add(
                groups.origins[at],
                format!("no route is in group \"{name}\""),
                format!("add group = \"{name}\" to the routes it is for, or remove it"),
            );
        }
    }
}

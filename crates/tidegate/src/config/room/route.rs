//! Which routes a room is before.

use tidegate_core::facts::Class;
use tidegate_gateway::plan::{AppPlan, RoutePlan};
use tidegate_gateway::room::RoomPlan;

use super::super::section::{Section, closest};

/// The places in `app` of the routes that the room is before; `earlier` are the rooms above it.
pub(super) fn covered(section: &Section<'_>, app: &AppPlan, earlier: &[RoomPlan]) -> Vec<usize> {
    match section.has("routes") {
        true => named(section, app, earlier),
        false => every(section, app, earlier),
    }
}

fn named(section: &Section<'_>, app: &AppPlan, earlier: &[RoomPlan]) -> Vec<usize> {
    let mut places = Vec::new();
    for (text, place) in section.texts("routes") {
        let Some(at) = app.routes.iter().position(|route| route.name == text) else {
            let known = app.routes.iter().map(|route| route.name.as_str());
            let fix = match closest(text, known) {
                Some(name) => format!("did you mean \"{name}\"?"),
                None => format!(
                    "write the name of one of its routes; \"{}\" is what no other takes",
                    app.routes.last().map_or("other", |route| &route.name)
                ),
            };
            let message = format!(
                "application \"{}\" has no route called \"{text}\"",
                app.name
            );
            section.refuse_item("routes", place, message, fix);
            continue;
        };
        let route = &app.routes[at];
        if is_critical(route) {
            section.refuse_item(
                "routes",
                place,
                format!(
                    "route \"{text}\" is critical: whoever is in the middle of something never waits"
                ),
                "leave it out, or give the route another class",
            );
        } else if let Some(other) = room_of(route, earlier) {
            section.refuse_item(
                "routes",
                place,
                format!("route \"{text}\" is behind room \"{other}\" already"),
                "name it in one of them",
            );
        } else {
            places.push(at);
        }
    }
    if places.is_empty() && section.sound(&["routes"]) {
        section.refuse(
            "routes",
            "`routes = []`: the room is before nothing",
            "name a route, or remove routes for all but critical ones",
        );
    }
    places
}

/// All but what never waits.
fn every(section: &Section<'_>, app: &AppPlan, earlier: &[RoomPlan]) -> Vec<usize> {
    let routes = app.routes.iter().enumerate();
    let waits = routes.filter(|(_, route)| !is_critical(route));
    let taken = waits
        .clone()
        .find_map(|(_, route)| Some((route, room_of(route, earlier)?)));
    if let Some((route, other)) = taken {
        section.refuse(
            "routes",
            format!(
                "without `routes` the room is before all routes of \"{}\", and \"{}\" is behind room \"{other}\" already",
                app.name, route.name
            ),
            "name the routes of each: routes = [\"other\"], say",
        );
    }
    let free = waits.filter(|(_, route)| route.room.is_none());
    free.map(|(at, _)| at).collect()
}

fn is_critical(route: &RoutePlan) -> bool {
    route.class == Some(Class::Critical)
}

fn room_of<'r>(route: &RoutePlan, earlier: &'r [RoomPlan]) -> Option<&'r str> {
    let room = earlier.get(route.room?)?;
    Some(room.tokens.room.as_str())
}

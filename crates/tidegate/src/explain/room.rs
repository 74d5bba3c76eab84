//! What the waiting room does with a request.

use tidegate_core::facts::Class;
use tidegate_core::room::Phase;
use tidegate_gateway::plan::{AppPlan, Mode, RoutePlan};
use tidegate_gateway::room::RoomPlan;

use crate::config::Setup;

/// What there is to say of a request of `class` for `route`, a line each. Nothing where the application has no room.
pub(super) fn said(setup: &Setup, app: &AppPlan, route: &RoutePlan, class: Class) -> Vec<String> {
    let rooms = &setup.gateway.rooms;
    let Some(room) = route.room.and_then(|at| rooms.get(at)) else {
        let has_rooms = app.routes.iter().any(|route| route.room.is_some());
        let why = match route.class {
            Some(Class::Critical) => "none: who is in the middle of something never waits (tier 0)",
            _ => "none: the route is behind no room (tier 0)",
        };
        return has_rooms.then(|| why.to_owned()).into_iter().collect();
    };
    let name = &room.tokens.room;
    if class == Class::Static {
        return vec![format!(
            "{name}, which it passes: what is static is the first that admission lets go"
        )];
    }
    let mut said = vec![format!("{name}, in phase {}", room.phase.name())];
    if app.mode == Mode::Shadow {
        said.push("in shadow mode it goes on, whatever follows, and is counted".to_owned());
    }
    said.push(with_pass(room));
    said.push(format!("without one: {}", without(room.phase)));
    said.push(tier(setup));
    if let Some(event) = room.event {
        said.push(format!(
            "in the {} before it starts: nobody is let in",
            humantime::format_duration(event.opens_before)
        ));
    }
    let status = room.page_status.as_u16();
    said.push(format!(
        "who waits sees the page ({status}); what is no visit of a browser gets 503 room with Retry-After"
    ));
    said
}

fn with_pass(room: &RoomPlan) -> String {
    let budget = room.tokens.budgets.first();
    let budget = budget.map_or_else(String::new, |budget| {
        format!(
            ", as one of {} at a time and {} a second ({} at once), else 429 pass_budget",
            budget.in_flight, budget.per_second, budget.burst
        )
    });
    format!("with a pass: it goes on{budget}")
}

const fn without(phase: Phase) -> &'static str {
    match phase {
        Phase::Off => "it goes on, and is counted where it would have waited",
        Phase::Auto => {
            "it goes on while nobody waits and there is room, with a pass of its own; else it waits"
        }
        Phase::QueueAll => "it waits until it is called",
        Phase::Hold => "it waits, and nobody is called",
        Phase::Prequeue => "it waits for the beginning, and nobody is called",
        Phase::Drain => "it waits behind those who do, and goes on when nobody is left",
        Phase::Closed => "503 room_closed: it is over",
    }
}

/// What decides about the tier.
fn tier(setup: &Setup) -> String {
    match &setup.sessions {
        None => "in tier 3: there is no section [sessions] that somebody could be known by".to_owned(),
        Some(sessions) if sessions.gateway.tickets => format!(
            "in tier 1 with the cookie of somebody who has something to go on with (tg_resume), in tier 2 with the \
             ticket of a user ({}), else in tier 3",
            sessions.gateway.cookies.ticket()
        ),
        Some(_) => "in tier 1 with the cookie of somebody who has something to go on with (tg_resume), else in tier 3: \
                    without tickets nobody is known to be a user before the store is asked"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::facts::Class;

    use super::*;
    use crate::config::{Flags, parse};

    const ROUTES: &str = "[[app]]\nname = \"shop\"\nupstream = \"http://127.0.0.1:1\"\n\
                          [[app.route]]\nname = \"pay\"\npath = \"/pay/**\"\nclass = \"critical\"\n\
                          [[app.route]]\nname = \"help\"\npath = \"/help/**\"\n";

    /// What is said of a request of the class for the route, in a room with these keys.
    fn page(keys: &str, more: &str, route: &str, class: Class) -> String {
        let text = format!(
            "{more}{ROUTES}[[room]]\nname = \"sale\"\nroutes = [\"other\"]\nkey_file = \"k\"\n{keys}\n"
        );
        let setup = parse("t.toml", &text, &Flags::default());
        let setup = setup.unwrap_or_else(|refused| panic!("{refused}"));
        let app = &setup.gateway.apps[0];
        let route = app.routes.iter().find(|it| it.name == route).unwrap();
        said(&setup, app, route, class).join("\n")
    }

    #[test]
    fn a_request_hears_what_its_phase_makes_of_it() {
        for phase in Phase::ALL {
            let keys = format!("phase = \"{}\"", phase.name());

            let page = page(&keys, "", "other", Class::Anonymous);

            assert!(
                page.starts_with(&format!("sale, in phase {}\n", phase.name())),
                "{page}"
            );
            assert!(page.contains(without(phase)), "{page}");
            assert!(
                page.contains("with a pass: it goes on, as one of 8"),
                "{page}"
            );
            assert!(page.contains("in tier 3: there is no section"), "{page}");
        }
    }

    #[test]
    fn what_is_outside_says_why() {
        let page = |route, class| page("", "", route, class);

        assert!(page("pay", Class::Critical).contains("never waits"));
        assert!(page("help", Class::Anonymous).contains("behind no room"));
        assert!(page("other", Class::Static).contains("which it passes"));
    }

    #[test]
    fn tiers_are_told_by_what_sessions_have() {
        let page = |sessions: &str| page("", sessions, "other", Class::Anonymous);

        let all = page("[sessions]\n");
        assert!(
            all.contains("in tier 2 with the ticket of a user (__Host-tgt)"),
            "{all}"
        );
        let none = page("[sessions]\nticket = false\n");
        assert!(none.contains("without tickets"), "{none}");
    }

    #[test]
    fn an_application_without_a_room_says_nothing_of_one() {
        let setup = parse("t.toml", ROUTES, &Flags::default()).unwrap();
        let app = &setup.gateway.apps[0];

        assert_eq!(said(&setup, app, &app.routes[0], Class::Anonymous), [""; 0]);
    }
}

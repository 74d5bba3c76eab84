//! What follows about waiting rooms.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use tidegate_core::rate::Spec;
use tidegate_core::room::{Order, Phase};
use tidegate_gateway::plan::{AppPlan, Mode};
use tidegate_gateway::room::{OnRoomLoss, RoomPlan};
use tidegate_gateway::session::Transport;
use tidegate_store::redis::Use;

use super::super::{Setup, place};
use super::span;

/// A line whose pages are in the background has been heard of once after so long.
const SETTLE_ENOUGH: Duration = Duration::from_secs(160);

/// Nothing, where there are none.
pub(super) fn show(f: &mut fmt::Formatter<'_>, setup: &Setup) -> fmt::Result {
    let rooms = setup.gateway.rooms.iter().zip(&setup.themes).enumerate();
    for (at, (room, theme)) in rooms {
        writeln!(f, "\nroom {}", room.tokens.room)?;
        show_place(f, setup, at, room)?;
        show_rate(f, room)?;
        show_turn(f, room)?;
        show_pass(f, room)?;
        show_store(f, setup, room)?;
        show_page(f, room, theme.as_ref())?;
        show_others(f, room)?;
        for warning in warnings(setup, room) {
            writeln!(f, "  warning   {warning}")?;
        }
    }
    Ok(())
}

/// The application that room number `at` is before, with the names of the routes.
fn before(setup: &Setup, at: usize) -> Option<(&AppPlan, Vec<&str>)> {
    let behind = |app: &AppPlan| app.routes.iter().any(|route| route.room == Some(at));
    let app = setup.gateway.apps.iter().find(|app| behind(app))?;
    let routes = app.routes.iter().filter(|route| route.room == Some(at));
    Some((app, routes.map(|route| route.name.as_str()).collect()))
}

fn show_place(
    f: &mut fmt::Formatter<'_>,
    setup: &Setup,
    at: usize,
    room: &RoomPlan,
) -> fmt::Result {
    let shadow = match before(setup, at) {
        None => false,
        Some((app, routes)) => {
            writeln!(
                f,
                "  before    application {}, routes {}; what is static passes",
                app.name,
                routes.join(" ")
            )?;
            app.mode == Mode::Shadow
        }
    };
    let does = match room.phase {
        Phase::Off => "everybody passes, and who would have waited is counted",
        Phase::Auto => "a line forms when more come than the fleet can take",
        Phase::QueueAll => "everybody joins the line",
        Phase::Hold => "everybody joins the line, and nobody is let in",
        Phase::Prequeue => "people gather, and nobody is let in",
        Phase::Drain => "the line is worked off, and then everybody passes",
        Phase::Closed => "nobody joins and nobody is let in: it is over",
    };
    writeln!(f, "  phase     {}: {does}", room.phase.name())?;
    if shadow {
        writeln!(
            f,
            "            in shadow mode: everybody passes all the same, and who would have waited is counted"
        )?;
    }
    let order = match room.order {
        Order::Strict => "strict: a tier goes before all that are behind it".to_owned(),
        Order::Credit([returning, signed_in, _]) => format!(
            "credit: who is back counts as if they had come {} earlier, who is signed in {}",
            span(Duration::from_millis(returning)),
            span(Duration::from_millis(signed_in))
        ),
    };
    writeln!(f, "  order     {order}")
}

fn show_rate(f: &mut fmt::Formatter<'_>, room: &RoomPlan) -> fmt::Result {
    let bounds = &room.bounds;
    let inside = match bounds.active_max {
        Some(most) => format!("{most} inside at most"),
        None => "any number inside".to_owned(),
    };
    writeln!(
        f,
        "  rate      {} to {} visitors a second over all gateways, by what the fleet has to spare, filled in {}; {inside}",
        number(bounds.rate_min),
        number(bounds.rate_max),
        span(bounds.fill),
    )?;
    writeln!(
        f,
        "            a visitor is taken to bring {} requests a second until it is learnt",
        number(room.load_each)
    )
}

fn show_turn(f: &mut fmt::Formatter<'_>, room: &RoomPlan) -> fmt::Result {
    writeln!(
        f,
        "  turn      {} to come in, {} times as long again for who asks; called {} times at most; {} can wait",
        span(room.claim_within),
        room.extensions_max,
        room.rules.misses_max,
        room.rules.waiting_max,
    )?;
    let joins = match &room.joins {
        None => "any number of places for one network".to_owned(),
        Some(Spec::Bucket(spec)) => format!(
            "{} places at once for one network (IPv4 /24, IPv6 /48), and {} a minute",
            spec.burst(),
            number(60e6 * spec.credits_per_us() as f64 / spec.credits_per_token() as f64)
        ),
        Some(other) => format!("{} places for one network", other.most()),
    };
    writeln!(
        f,
        "  asks      pages look {} times a second and are heard of {} times, all together, at each gateway; {joins}",
        number(room.asks.polls),
        number(room.asks.beats),
    )
}

fn show_pass(f: &mut fmt::Formatter<'_>, room: &RoomPlan) -> fmt::Result {
    let tokens = &room.tokens;
    writeln!(
        f,
        "  pass      {} by {}, {} without use and {} at most, keys in {}",
        tokens.algorithm.name(),
        tokens.issuer,
        span(tokens.idle),
        span(tokens.absolute),
        room.key_file.display(),
    )?;
    let Some(budget) = tokens.budgets.first() else {
        return Ok(());
    };
    writeln!(
        f,
        "            {} requests with it at a time, {} a second and {} at once, on each gateway",
        budget.in_flight, budget.per_second, budget.burst
    )
}

fn show_store(f: &mut fmt::Formatter<'_>, setup: &Setup, room: &RoomPlan) -> fmt::Result {
    match setup.store.servers(Use::Room) {
        Some(servers) => writeln!(f, "  line      in {}", place(&servers.plan))?,
        None => writeln!(
            f,
            "  line      in this process: another gateway would have a line of its own, and a restart is settled by \
             the tickets of those who wait"
        )?,
    }
    let away = match room.on_store_loss {
        OnRoomLoss::LocalBudget => {
            "each gateway lets in who comes to it, at four fifths of its part of the last rate"
                .to_owned()
        }
        OnRoomLoss::Hold => "nobody is let in".to_owned(),
        OnRoomLoss::Open { after } => {
            format!(
                "nobody is let in for {}, and then everybody passes",
                span(after)
            )
        }
    };
    writeln!(
        f,
        "  away      while the store does not answer {away}; a line that it has lost is only restored for {}",
        span(Duration::from_millis(room.rules.settle_ms))
    )
}

fn show_page(f: &mut fmt::Formatter<'_>, room: &RoomPlan, theme: Option<&PathBuf>) -> fmt::Result {
    let theme = theme.map_or_else(|| "plain".to_owned(), |path| path.display().to_string());
    write!(f, "  page      {}, {theme}", room.page_status.as_u16())?;
    if let Some(message) = &room.message {
        let languages: Vec<&str> = message.keys().map(|language| language.tag()).collect();
        write!(f, ", with a message in {}", languages.join(" "))?;
    }
    writeln!(f)?;
    let Some(event) = room.event else {
        return Ok(());
    };
    let starts = UNIX_EPOCH + Duration::from_millis(event.starts_ms);
    writeln!(
        f,
        "  event     begins at {}; for {} before it people gather, and nobody is let in",
        humantime::format_rfc3339(starts),
        span(event.opens_before)
    )
}

/// Where it is written down and told what happens.
fn show_others(f: &mut fmt::Formatter<'_>, room: &RoomPlan) -> fmt::Result {
    if let Some(path) = &room.state {
        writeln!(f, "  state     kept in {}", path.display())?;
    }
    if let Some(path) = &room.audit {
        writeln!(f, "  audit     in {}", path.display())?;
    }
    for hook in &room.webhooks {
        writeln!(
            f,
            "  tells     http://{}:{}{}, signed with what is in {}",
            hook.host,
            hook.port,
            hook.path,
            hook.secret_file.display()
        )?;
    }
    Ok(())
}

/// What may be meant, so that it is no error.
fn warnings(setup: &Setup, room: &RoomPlan) -> Vec<String> {
    let mut all = Vec::new();
    let (claim, idle) = (room.claim_within, room.tokens.idle);
    if claim > idle {
        all.push(format!(
            "claim_within = {} is longer than pass_idle = {}: a place inside is kept longer for who was called than for \
             who went in",
            span(claim),
            span(idle)
        ));
    }
    if Duration::from_millis(room.rules.settle_ms) < SETTLE_ENOUGH {
        all.push(format!(
            "settle is shorter than {}: after a store has lost the line some of those whose page is in the background are \
             overtaken",
            span(SETTLE_ENOUGH)
        ));
    }
    if room.phase == Phase::Prequeue && room.event.is_some() {
        all.push(
            "phase = prequeue holds after the event has begun, too, until an operator sets another: leave phase out, and \
             it is prequeue for opens_before"
                .to_owned(),
        );
    }
    if setup.store.servers(Use::Room).is_none() && room.state.is_none() {
        all.push("without state nobody knows after a restart what an operator has set".to_owned());
    }
    if room.tokens.transport == Transport::Insecure {
        all.push("insecure: tokens go over lines that others can read".to_owned());
    }
    match &setup.sessions {
        None => all.push(
            "without [sessions] nobody is known to be signed in, or to be back for something: all are in tier 3".to_owned(),
        ),
        Some(sessions) if !sessions.gateway.tickets => all.push(
            "ticket = false in [sessions]: who is signed in is not known before the store is asked, and waits in tier 3"
                .to_owned(),
        ),
        Some(_) => {}
    }
    all
}

/// As few digits as say it.
fn number(value: f64) -> String {
    let rounded = (value * 1e4).round() / 1e4;
    match rounded == 0.0 && value > 0.0 {
        true => format!("{value:.1e}"),
        false => rounded.to_string(),
    }
}

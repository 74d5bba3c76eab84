//! What was seen, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tidegate_core::health::{Dimension, Readings, Scales, Signal, Validity};
use tidegate_fleet::agent::{Runtime, Seen, Sight};
use tidegate_lab::report::Table;
use tidegate_lab::text::{escaped, shortened};

/// Characters of a source that are shown.
const SOURCE_CHARS_MAX: usize = 60;

/// For people.
pub(super) fn page(runtime: Runtime, seen: &Seen, posted: &[Value]) -> String {
    let mut page = machine(runtime, seen);
    let mut table = Table::new(["dimension", "seen", "", "where"]);
    for sight in &seen.sights {
        let signal = &sight.signal;
        let (figures, share) = match ratio(sight) {
            Some(ratio) => (
                format!("{} of {}", figure(signal.value), figure(signal.limit)),
                format!("{:.0} %", ratio * 100.0),
            ),
            None => (signal.validity.name().to_owned(), String::new()),
        };
        let source = escaped(&shortened(&sight.source, SOURCE_CHARS_MAX));
        table.row([signal.dimension.name(), &figures, &share, &source]);
    }
    for it in posted {
        let text = |name: &str| escaped(it[name].as_str().unwrap_or_default());
        let (figures, share) = match (it["value"].as_f64(), it["limit"].as_f64()) {
            (Some(value), Some(limit)) => (
                format!("{} of {}", figure(value), figure(limit)),
                format!("{:.0} %", value / limit * 100.0),
            ),
            _ => (text("validity"), String::new()),
        };
        table.row([
            text("dimension"),
            figures,
            share,
            format!("posted by {}", text("source")),
        ]);
    }
    let _ = write!(page, "\n{table}");
    if let Some(fullest) = fullest(seen, posted) {
        let _ = writeln!(page, "\nfullest: {}", fullest.name());
    }
    let unknown: Vec<&Sight> = seen
        .sights
        .iter()
        .filter(|sight| ratio(sight).is_none())
        .collect();
    if !unknown.is_empty() {
        page.push_str("\nunknown, and why or what to switch on\n");
        for sight in unknown {
            let why = sight.why.as_deref().unwrap_or("it does not say why");
            let _ = writeln!(
                page,
                "  {}: {}{}",
                sight.signal.dimension.name(),
                escaped(why),
                who_may(why)
            );
        }
    }
    let _ = writeln!(page, "\nnobody can see of {}", runtime.name());
    for blind in runtime.blind() {
        let _ = writeln!(page, "  {blind}");
    }
    page
}

/// What to do about an answer that is kept from whoever asks like us.
fn who_may(why: &str) -> &'static str {
    if why.contains("status 401") {
        ": name a user that may read it, by --user and --password-file, or let this address ask without one"
    } else if why.contains("status 403") {
        ": give the user, or the token, the right to read it, or let this address ask"
    } else {
        ""
    }
}

fn machine(runtime: Runtime, seen: &Seen) -> String {
    let mut page = format!("runtime     {}\n", runtime.name());
    let host = &seen.host;
    let cores = match (host.cores, host.cores_online) {
        (Some(cores), Some(online)) if cores < f64::from(online) => {
            format!(
                "{} of the {online} that are online, by quota or set",
                figure(cores)
            )
        }
        (Some(cores), _) => figure(cores),
        _ => "unknown".to_owned(),
    };
    let _ = writeln!(page, "cores       {cores}");
    let container = host
        .container
        .as_deref()
        .map_or_else(|| "no".to_owned(), escaped);
    let _ = writeln!(page, "container   {container}");
    let overflows = match host.overflowed {
        Some(true) => "yes: since the last look a client found no room in some accept queue",
        Some(false) => "no",
        None => "unknown",
    };
    let _ = writeln!(page, "overflows   {overflows}");
    if let Some(depth) = &seen.depth {
        let _ = writeln!(
            page,
            "listeners   {} sockets, {} connections wait; in the fullest queue {}, told to hold {}",
            depth.sockets, depth.pending_all, depth.pending, depth.limit
        );
    }
    page
}

/// For programs.
pub(super) fn json(runtime: Runtime, seen: &Seen, posted: &[Value]) -> Value {
    let signals = seen.sights.iter().map(|sight| {
        let known = ratio(sight);
        json!({
            "dimension": sight.signal.dimension.name(),
            "value": known.map(|_| sight.signal.value),
            "limit": known.map(|_| sight.signal.limit),
            "ratio": known,
            "validity": sight.signal.validity_at(seen.at).name(),
            "source": sight.source,
            "why": sight.why,
        })
    });
    let host = &seen.host;
    json!({
        "runtime": runtime.name(),
        "host": {
            "cores": host.cores,
            "cores_online": host.cores_online,
            "container": host.container,
            "overflowed": host.overflowed,
            "throttled_ms": host.throttled.map(|time| time.as_secs_f64() * 1_000.0),
        },
        "listeners": seen.depth.map(|depth| json!({
            "sockets": depth.sockets,
            "pending_all": depth.pending_all,
            "pending": depth.pending,
            "limit": depth.limit,
        })),
        "signals": signals.collect::<Vec<_>>(),
        "posted": posted,
        "fullest": fullest(seen, posted).map(Dimension::name),
        "blind": runtime.blind(),
    })
}

fn ratio(sight: &Sight) -> Option<f64> {
    // As it was when it was read.
    let signal = &sight.signal;
    (signal.validity == Validity::Ok)
        .then(|| signal.ratio(signal.at))
        .flatten()
}

/// What an agent would decide by: the dimension that there is least left of, by the scales of all dimensions. Of what nobody
/// would decide by, since it says nothing of an application, it is none.
fn fullest(seen: &Seen, posted: &[Value]) -> Option<Dimension> {
    let posted = posted.iter().filter_map(|it| {
        let dimension = Dimension::named(it["dimension"].as_str()?)?;
        let (value, limit) = (it["value"].as_f64()?, it["limit"].as_f64()?);
        Some(Signal::read(dimension, value, limit, seen.at))
    });
    let read = seen.sights.iter().map(|sight| Signal {
        // As it was when it was read.
        at: seen.at,
        ..sight.signal
    });
    let signals: Vec<Signal> = read.chain(posted).collect();
    let scales = match seen.host.container {
        Some(_) => Scales::in_container(),
        None => Scales::default(),
    };
    let headroom = Readings::of(&scales, &signals, seen.at).headroom(seen.at);
    headroom.binding().map(|binding| binding.dimension)
}

/// As many digits as say something.
fn figure(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::time::Mono;

    use super::*;

    fn seen(sights: &[(Dimension, f64, f64)], container: Option<&str>) -> Seen {
        let at = Mono::from_millis(60_000);
        let sight = |&(dimension, value, limit): &(Dimension, f64, f64)| Sight {
            signal: Signal::read(dimension, value, limit, at),
            source: "here".into(),
            why: None,
        };
        let mut seen = Seen {
            at,
            sights: sights.iter().map(sight).collect(),
            ..Seen::default()
        };
        seen.host.container = container.map(str::to_owned);
        seen
    }

    #[test]
    fn the_fullest_is_what_an_agent_decides_by() {
        let of = |sights: &[_]| fullest(&seen(sights, None), &[]);
        let idle = [(Dimension::Threads, 0.0, 8.0), (Dimension::Queue, 0.0, 4.0)];
        let busy = [idle[0], (Dimension::Cpu, 2.0, 2.0), idle[1]];
        // Half of the processor costs nobody anything.
        let easy = [(Dimension::Threads, 1.0, 8.0), (Dimension::Cpu, 1.0, 2.0)];

        assert_eq!(of(&busy), Some(Dimension::Cpu));
        assert_eq!(of(&easy), Some(Dimension::Threads));
        assert_eq!(of(&[(Dimension::Steal, 1.0, 1.0)]), None);
    }

    #[test]
    fn in_a_container_the_host_is_not_it_and_what_is_posted_counts_as_well() {
        let sights = [(Dimension::Cpu, 1.2, 2.0), (Dimension::Steal, 0.3, 1.0)];
        let posted = [json!({ "dimension": "pool", "value": 9.0, "limit": 10.0 })];

        assert_eq!(fullest(&seen(&sights, None), &[]), Some(Dimension::Steal));
        let container = seen(&sights, Some("docker"));
        assert_eq!(fullest(&container, &[]), Some(Dimension::Cpu));
        assert_eq!(fullest(&container, &posted), Some(Dimension::Pool));
    }

    #[test]
    fn who_is_not_let_in_is_told_what_to_do() {
        assert!(who_may("it answers with status 401").contains("--password-file"));
        assert!(who_may("it answers with status 403").contains("the right to read it"));
        assert_eq!(who_may("it answers with status 404"), "");
    }
}

//! `tidegate room status`: how a waiting room is.

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use super::{PATIENCE, path, show};
use crate::admin::{Gateway, Place};

/// What makes a terminal show an empty screen from its beginning on.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";
/// No look at a room is news sooner.
const EVERY_MIN: Duration = Duration::from_secs(1);
/// Who looks less often does not watch.
const EVERY_MAX: Duration = Duration::from_secs(3_600);

/// Show how a waiting room is: phase, who waits, how fast the line moves and what keeps it from moving faster.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The room; without it all of them.
    #[arg(long, value_name = "NAME")]
    room: Option<String>,
    /// Look again and again, until it is interrupted.
    #[arg(short, long)]
    watch: bool,
    /// With --watch, how often.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = every, requires = "watch")]
    every: Duration,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let gateway = args.place.gateway()?;
    if !args.watch {
        return args.place.print(&look(&gateway, args)?, page);
    }
    watch(&gateway, args)
}

/// What the gateway says of the rooms that are meant.
fn look(gateway: &Gateway, args: &Args) -> anyhow::Result<Value> {
    let Some(name) = &args.room else {
        return gateway.ask(PATIENCE, "GET", "/rooms", None);
    };
    let path = path(gateway, Some(name.as_str()))?;
    let room = gateway.ask(PATIENCE, "GET", &path, None)?;
    Ok(json!({ "rooms": [room] }))
}

/// Looks until nobody reads any more, or it is interrupted. A gateway that does not answer may be back at the next look.
fn watch(gateway: &Gateway, args: &Args) -> anyhow::Result<ExitCode> {
    let mut stdout = io::stdout();
    let clear = match stdout.is_terminal() && !args.place.json {
        true => CLEAR,
        false => "",
    };
    loop {
        let page = match look(gateway, args) {
            Ok(answer) if args.place.json => answer.to_string(),
            Ok(answer) => page(&answer),
            Err(error) if args.place.json => json!({ "error": format!("{error:#}") }).to_string(),
            Err(error) => tidegate_lab::text::escaped(&format!("{error:#}")),
        };
        let written = writeln!(stdout, "{clear}{}", page.trim_end());
        match written.and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            written => written.context("cannot write to standard output")?,
        }
        std::thread::sleep(args.every);
    }
}

/// The rooms of an answer, one below the other.
fn page(answer: &Value) -> String {
    let rooms = answer["rooms"].as_array().map_or(&[][..], Vec::as_slice);
    if rooms.is_empty() {
        return "the gateway has no waiting room: its configuration has no [[room]]".to_owned();
    }
    let pages: Vec<String> = rooms.iter().map(show::room).collect();
    pages.join("\n")
}

fn every(text: &str) -> Result<Duration, String> {
    let span = humantime::parse_duration(text)
        .map_err(|_| "it is no duration: write 2s or 1m, say".to_owned())?;
    if (EVERY_MIN..=EVERY_MAX).contains(&span) {
        Ok(span)
    } else {
        Err("once a second is the most, and once an hour the least".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_often_is_looked_is_bounded() {
        assert_eq!(every("2s"), Ok(Duration::from_secs(2)));
        for wrong in ["0s", "999ms", "61m", "x"] {
            assert!(every(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_gateway_without_rooms_says_so() {
        assert!(page(&json!({ "rooms": [] })).contains("no waiting room"));
    }
}

//! `tidegate node`: the nodes of a fleet, why they are as they are, and orders to drain them.

mod show;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Subcommand;
use serde_json::{Value, json};
use tidegate_core::session::Name;

use crate::session::{Consent, Door, Place};

/// What can be done about nodes.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the nodes: state, weight, what each has least of, age of its beacon.
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Say in sentences why a node is as it is.
    Why {
        /// The node.
        node: String,
        #[command(flatten)]
        place: Place,
    },
    /// Give a node nothing new; what is there ends by itself.
    ///
    /// The last node is never drained.
    Drain {
        /// The node.
        node: String,
        /// For how long, such as 30m; without it until `undrain`.
        #[arg(long, value_name = "DURATION", value_parser = span)]
        r#for: Option<Duration>,
        /// Who orders it; without it, who is signed in on this machine.
        #[arg(long, value_name = "NAME", env = "USER")]
        by: String,
        /// Why, for others to read.
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        place: Place,
    },
    /// Take an order to drain a node back.
    Undrain {
        /// The node.
        node: String,
        #[command(flatten)]
        place: Place,
    },
}

/// Does what `command` says.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::List { place } => {
            let answer = Door::to_nodes(&place)?.ask("GET", "/v1/nodes", None)?;
            place.print(&answer, show::list)
        }
        Command::Why { node, place } => {
            let path = path(&node)?;
            let answer = Door::to_nodes(&place)?.ask("GET", &path, None)?;
            place.print(&answer, show::why)
        }
        Command::Drain {
            node,
            r#for,
            by,
            why,
            consent,
            place,
        } => {
            let path = path(&node)?;
            let door = Door::to_nodes(&place)?;
            let lasting = r#for.map_or_else(
                || "until that is taken back".to_owned(),
                |span| format!("for {}", humantime::format_duration(span)),
            );
            consent.ask(&format!("Give node {node} nothing new {lasting}?"))?;
            let mut order = json!({ "by": by });
            if let Some(why) = why {
                order["why"] = Value::from(why);
            }
            if let Some(span) = r#for {
                order["for_ms"] = Value::from(u64::try_from(span.as_millis())?);
            }
            let answer = door.ask("PUT", &format!("{path}/drain"), Some(&order))?;
            place.print(&answer, |_| {
                format!(
                    "node {node} is to be drained {lasting}; tidegate node list says when it is"
                )
            })
        }
        Command::Undrain { node, place } => {
            let path = format!("{}/drain", path(&node)?);
            let answer = Door::to_nodes(&place)?.ask("DELETE", &path, None)?;
            place.print(&answer, |answer| {
                let existed = answer["existed"].as_bool() == Some(true);
                let said = if existed {
                    "gets traffic again"
                } else {
                    "had no order to drain it"
                };
                format!("node {node} {said}")
            })
        }
    }
}

fn path(node: &str) -> anyhow::Result<String> {
    let name = Name::new(node).with_context(|| {
        format!("\"{node}\" is no node: a name has 1 to 64 letters, digits, '-', '_', '.' and '/'")
    })?;
    // As a segment of a path a name with these would be another path.
    ensure!(
        !matches!(name.as_str(), "." | ".."),
        "\"{node}\" cannot be asked for by this command"
    );
    Ok(format!("/v1/nodes/{}", name.as_str().replace('/', "%2F")))
}

fn span(text: &str) -> Result<Duration, String> {
    let span = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if span < Duration::from_secs(1) {
        return Err("less than a second is over before anybody is drained".to_owned());
    }
    Ok(span)
}

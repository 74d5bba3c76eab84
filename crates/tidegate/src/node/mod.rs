//! `tidegate node`: the nodes of a fleet, why they are as they are, and orders to drain them.

mod show;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use clap::Subcommand;
use serde_json::{Value, json};
use tidegate_core::session::Name;
use tidegate_fleet::control::Drain;

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
    /// The last node is never drained, and the last one that has room only with --force.
    Drain {
        /// The node.
        node: String,
        /// For how long, such as 30m; without it until `undrain`.
        #[arg(long, value_name = "DURATION", value_parser = span)]
        r#for: Option<Duration>,
        /// Who orders it; without it, who is signed in on this machine.
        #[arg(long, value_name = "NAME", env = "USER")]
        by: String,
        /// Why, for others to read: one line of 240 bytes at most.
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
        /// Also when nobody has heard of the node, which is not up yet, or when nothing that remains has room.
        #[arg(long)]
        force: bool,
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
        consent: Consent,
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
            force,
            consent,
            place,
        } => {
            let order = Order {
                span: r#for,
                by,
                why,
                force,
            };
            drain(&node, &order, &consent, &place)
        }
        Command::Undrain {
            node,
            consent,
            place,
        } => {
            let path = format!("{}/drain", path(&node)?);
            let door = Door::to_nodes(&place)?;
            consent.ask(&format!("Give node {node} traffic again?"))?;
            let answer = door.ask("DELETE", &path, None)?;
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

/// What is ordered about a node.
struct Order {
    span: Option<Duration>,
    by: String,
    why: Option<String>,
    force: bool,
}

fn drain(node: &str, order: &Order, consent: &Consent, place: &Place) -> anyhow::Result<ExitCode> {
    // Before anybody is asked whether it is meant.
    Drain::check_by(&order.by).map_err(|bad| anyhow!("--by: {bad}"))?;
    if let Some(why) = &order.why {
        Drain::check_why(why).map_err(|bad| anyhow!("--why: {bad}"))?;
    }
    let path = path(node)?;
    let door = Door::to_nodes(place)?;
    let lasting = order.span.map_or_else(
        || "until that is taken back".to_owned(),
        |span| format!("for {}", humantime::format_duration(span)),
    );
    if !consent.is_given() {
        let remains = show::remains(&door.ask("GET", "/v1/nodes", None)?, node);
        consent.ask(&format!(
            "{remains} Give node {node} nothing new {lasting}?"
        ))?;
    }
    let mut said = json!({ "by": order.by, "force": order.force });
    if let Some(why) = &order.why {
        said["why"] = Value::from(why.as_str());
    }
    if let Some(span) = order.span {
        said["for_ms"] = Value::from(u64::try_from(span.as_millis())?);
    }
    let asked = door.ask("PUT", &format!("{path}/drain"), Some(&said));
    let answer = asked.map_err(|error| {
        let text = error.to_string();
        let is = |reason: &str| !order.force && text.contains(&format!("({reason}, "));
        if is("no_such_node") {
            return anyhow!("{text}; --force orders it for one that is not up yet");
        }
        if is("no_room_left") {
            return anyhow!("{text}; --force orders it all the same");
        }
        error
    })?;
    place.print(&answer, |_| {
        format!("node {node} is to be drained {lasting}; tidegate node list says when it is")
    })
}

fn path(node: &str) -> anyhow::Result<String> {
    // The name's own error says no more than this.
    let name = Name::new(node).map_err(|_| {
        anyhow!("\"{node}\" is no node: a name has 1 to 64 letters, digits, '-', '_', '.' and '/'")
    })?;
    // As a segment of a path a name with these would be another path.
    ensure!(
        !matches!(name.as_str(), "." | ".."),
        "\"{node}\" cannot be asked for by this command"
    );
    Ok(format!("/v1/nodes/{}", name.as_str().replace('/', "%2F")))
}

/// The longest time that an order holds by itself, as the sidecar has it.
const SPAN_MAX: Duration = Duration::from_secs(31 * 86_400);

fn span(text: &str) -> Result<Duration, String> {
    // The parser's own error does not say what a duration looks like.
    let span = humantime::parse_duration(text)
        .map_err(|_| "it is no duration: write 30m, 2h or 1day, say".to_owned())?;
    if span < Duration::from_secs(1) {
        return Err("less than a second is over before anybody is drained".to_owned());
    }
    if span > SPAN_MAX {
        return Err(
            "an order holds for 31days at most by itself; without --for it holds until `undrain`"
                .to_owned(),
        );
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_will_not_do_is_refused_in_words() {
        assert_eq!(span("30m"), Ok(Duration::from_secs(1_800)));
        assert_eq!(span("31days"), Ok(SPAN_MAX));
        for (text, said) in [
            ("x", "write 30m"),
            ("", "write 30m"),
            ("99999999999999999999999d", "write 30m"),
            ("10ms", "less than a second"),
            ("31days 1s", "31days at most"),
            ("99999d", "31days at most"),
        ] {
            let refused = span(text).unwrap_err();
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }
}

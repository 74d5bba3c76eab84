//! `tidegate limit`: looks at the rate limits of a running gateway, resets a key of one, and brings limits over from
//! other services.

mod import;
mod show;

use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Args, Subcommand};
use serde_json::Value;
use tidegate_gateway::rate::{KEY_PART_BYTES_MAX, KEY_QUERY_BYTES_MAX, part_bytes, part_written};

use crate::admin::{Place, segment};
use crate::client;
use crate::session::Consent;

/// What can be done about rate limits.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show a limit, and what is used of it by whoever has this key.
    Show {
        #[command(flatten)]
        key: Key,
        #[command(flatten)]
        place: Place,
    },
    /// Show the keys that a limit refuses most, and those that spend most of it.
    Top {
        /// The limit, as its `name` in the configuration.
        name: String,
        /// How many of each.
        #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
        count: usize,
        #[command(flatten)]
        place: Place,
    },
    /// Forget what is used of a limit by whoever has this key.
    Reset {
        #[command(flatten)]
        key: Key,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        place: Place,
    },
    Import(import::Args),
}

/// A limit, and a key of it.
#[derive(Args)]
pub(crate) struct Key {
    /// The limit, as its `name` in the configuration.
    name: String,
    /// The parts of its `key`, in their order and without constants, such as 203.0.113.7 checkout. - is a part that requests
    /// lack, and =- one that is a minus sign (==- is =-, and so on). A backslash is written twice; \xff is a byte and \u{1b} a
    /// character, as `top` shows them.
    parts: Vec<String>,
}

/// Does what `command` says.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Show { key, place } => {
            let answer = ask(&place, "GET", &key.path()?)?;
            place.print(&answer, show::limit)
        }
        Command::Top { name, count, place } => {
            let answer = ask(
                &place,
                "GET",
                &format!("/limits/{}/top", segment(name.as_bytes())),
            )?;
            place.print(&answer, |answer| show::top(answer, count))
        }
        Command::Reset {
            key,
            consent,
            place,
        } => {
            // What is no key of the limit is found out before anybody is asked.
            let found = ask(&place, "GET", &key.path()?)?;
            ensure!(
                !found["key"].is_null(),
                "{} counts by {}: give the key that is to be reset, in these parts",
                key.name,
                names(&found["counted_by"])
            );
            consent.ask(&format!(
                "Forget what {} has used of {}?",
                key.said(),
                key.name
            ))?;
            let answer = ask(&place, "DELETE", &key.path()?)?;
            place.print(&answer, |answer| show::reset(answer, &key.said()))
        }
        Command::Import(args) => import::run(&args),
    }
}

impl Key {
    fn path(&self) -> anyhow::Result<String> {
        let mut query = Vec::with_capacity(self.parts.len());
        for (number, part) in (1..).zip(&self.parts) {
            let Some(part) = part_written(part) else {
                query.push("absent".to_owned());
                continue;
            };
            let part = part_bytes(part).with_context(|| format!("part {number} of the key"))?;
            ensure!(
                part.len() <= KEY_PART_BYTES_MAX,
                "part {number} of the key is too long: it has {} bytes, and {KEY_PART_BYTES_MAX} are the most",
                part.len()
            );
            query.push(format!("key={}", segment(&part)));
        }
        Ok(format!(
            "/limits/{}?{}",
            segment(self.name.as_bytes()),
            query.join("&")
        ))
    }

    fn said(&self) -> String {
        match &self.parts[..] {
            [] => "everybody".to_owned(),
            parts => parts.join(" "),
        }
    }
}

/// The answer of the gateway at `place`, if it is a good one; else an error in its words.
fn ask(place: &Place, method: &str, path: &str) -> anyhow::Result<Value> {
    // The gateway would not read it, and could not say so in its words.
    ensure!(
        path.len() <= KEY_QUERY_BYTES_MAX,
        "the limit's name and the key are too long: they have {} bytes as they are sent, and {KEY_QUERY_BYTES_MAX} \
         are the most",
        path.len()
    );
    place.gateway()?.ask(client::PATIENCE, method, path, None)
}

/// What a limit counts by, in words.
fn names(list: &Value) -> String {
    let names = list.as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(Value::as_str).collect();
    names.join(" and ")
}

//! `tidegate limit`: looks at the rate limits of a running gateway, resets a key of one, and brings limits over from
//! other services.

mod import;
mod show;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::Value;
use tidegate_fleet::Listen;
use tidegate_gateway::rate::{KEY_PART_BYTES_MAX, KEY_QUERY_BYTES_MAX, part_bytes, part_written};

use crate::client;
use crate::config::Flags;
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

/// Whom to ask.
#[derive(Args)]
pub(crate) struct Place {
    /// Configuration file: the gateway on this machine that runs with it is asked, at its admin address.
    #[arg(short, long, value_name = "FILE", required_unless_present = "admin")]
    config: Option<PathBuf>,
    /// The admin listener of a gateway on this machine, such as 127.0.0.1:9090.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    admin: Option<SocketAddr>,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// Does what `command` says.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Show { key, place } => {
            let answer = place.ask("GET", &key.path()?)?;
            place.print(&answer, show::limit)
        }
        Command::Top { name, count, place } => {
            let answer = place.ask("GET", &format!("/limits/{}/top", segment(name.as_bytes())))?;
            place.print(&answer, |answer| show::top(answer, count))
        }
        Command::Reset {
            key,
            consent,
            place,
        } => {
            // What is no key of the limit is found out before anybody is asked.
            let found = place.ask("GET", &key.path()?)?;
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
            let answer = place.ask("DELETE", &key.path()?)?;
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

impl Place {
    /// The answer of the gateway, if it is a good one; else an error in its words.
    fn ask(&self, method: &str, path: &str) -> anyhow::Result<Value> {
        // The gateway would not read it, and could not say so in its words.
        ensure!(
            path.len() <= KEY_QUERY_BYTES_MAX,
            "the limit's name and the key are too long: they have {} bytes as they are sent, and {KEY_QUERY_BYTES_MAX} \
             are the most",
            path.len()
        );
        let to = Listen::Loopback(self.address()?);
        let answer = client::ask(client::PATIENCE, "gateway", &to, method, path, None)?;
        let said: Value = serde_json::from_slice(&answer.body)
            .context("what answers is no gateway: it does not say JSON")?;
        if answer.status < 300 {
            return Ok(said);
        }
        let detail = said["detail"].as_str().unwrap_or("no detail");
        let reason = said["reason"].as_str().unwrap_or("unknown");
        bail!("{detail} ({reason}, {})", answer.status);
    }

    fn address(&self) -> anyhow::Result<SocketAddr> {
        if let Some(address) = self.admin {
            return Ok(address);
        }
        let file = self.config.as_deref();
        let file =
            file.context("name a configuration file with -c, or an admin listener with --admin")?;
        let setup = crate::load(Some(file), &Flags::default())?;
        let Some(mut address) = setup.gateway.admin else {
            bail!(
                "{} has no admin listener: give [admin] an address",
                file.display()
            );
        };
        if address.port() == 0 {
            bail!(
                "{} leaves the port of the admin listener to the system: say with --admin which it is",
                file.display()
            );
        }
        // Where it listens everywhere it does so here, too.
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        Ok(address)
    }

    fn print(
        &self,
        answer: &Value,
        show: impl FnOnce(&Value) -> String,
    ) -> anyhow::Result<ExitCode> {
        if self.json {
            return crate::print(&serde_json::to_string_pretty(answer)?);
        }
        crate::print(show(answer).trim_end())
    }
}

/// What a limit counts by, in words.
fn names(list: &Value) -> String {
    let names = list.as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(Value::as_str).collect();
    names.join(" and ")
}

/// `bytes` as one segment of a path, or one value of a query.
fn segment(bytes: &[u8]) -> String {
    let mut segment = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            segment += &format!("%{byte:02X}");
        }
    }
    segment
}

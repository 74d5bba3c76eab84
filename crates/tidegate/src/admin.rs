//! The way to a gateway on this machine, through its admin listener.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;
use tidegate_fleet::Listen;

use crate::client;
use crate::config::Flags;

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
    pub(crate) json: bool,
}

/// A gateway that can be asked.
pub(crate) struct Gateway(Listen);

impl Place {
    /// The gateway that is meant.
    pub(crate) fn gateway(&self) -> anyhow::Result<Gateway> {
        Ok(Gateway(Listen::Loopback(self.address()?)))
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

    /// Prints `answer` as it was asked for: as JSON, or for people as `show` has it.
    pub(crate) fn print(
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

impl Gateway {
    /// Its answer within `patience`, if it is a good one; else an error in its words.
    pub(crate) fn ask(
        &self,
        patience: Duration,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let body = body.map(ToString::to_string);
        let answer = client::ask(patience, "gateway", &self.0, method, path, body.as_deref())?;
        let said: Value = serde_json::from_slice(&answer.body)
            .context("what answers is no gateway: it does not say JSON")?;
        if answer.status < 300 {
            return Ok(said);
        }
        bail!("{}", refusal(&said, answer.status));
    }
}

/// Why a gateway does not do what it was asked for.
fn refusal(said: &Value, status: u16) -> String {
    let detail = said["detail"].as_str().unwrap_or("no detail");
    let reason = said["reason"].as_str().unwrap_or("unknown");
    let about = match (said["field"].as_str(), said.get("value")) {
        (None, _) => String::new(),
        (Some(field), None) => format!("{field}: "),
        (Some(field), Some(value)) => format!("{field} {value}: "),
    };
    let fix = said["fix"].as_str();
    let fix = fix.map_or_else(String::new, |fix| format!("; {fix}"));
    format!("{about}{detail}{fix} ({reason}, {status})")
}

/// `bytes` as one segment of a path, or one value of a query.
pub(crate) fn segment(bytes: &[u8]) -> String {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_says_what_is_wrong_where_and_what_to_do() {
        let said = json!({ "detail": "there is no such limit", "reason": "no_such_limit" });
        assert_eq!(
            refusal(&said, 404),
            "there is no such limit (no_such_limit, 404)"
        );
        let said = json!({
            "detail": "there is no such phase", "reason": "invalid", "field": "phase", "value": "holt",
            "fix": "off, auto or hold",
        });
        assert_eq!(
            refusal(&said, 400),
            "phase \"holt\": there is no such phase; off, auto or hold (invalid, 400)"
        );
    }
}

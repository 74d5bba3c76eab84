//! `tidegate room hold` and the like: orders for a waiting room.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{anyhow, bail};
use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Map, Value, json};
use tidegate_fleet::control::Drain;

use super::{PATIENCE, path, show};
use crate::admin::{Gateway, Place};
use crate::session::Consent;

/// So far ahead of now all passes are taken back, for what a gateway renews before it has heard of it.
const AHEAD_S: u64 = 5;

/// What can be ordered.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Stop calling people: who comes joins the line, and who is inside goes on.
    Hold(Plain),
    /// Do again what is configured.
    Release(Plain),
    /// Work the line off, newcomers behind it; when nobody is left in it everybody passes.
    Drain(Plain),
    /// Have everybody join the line, which moves as the site can take it.
    QueueAll(Plain),
    /// Let everybody pass, and only count who would have waited.
    Off(Plain),
    /// Have a line form when there is more than the site can take.
    Auto(Plain),
    /// End it: nobody joins, nobody is called, and all who wait are told why. Who is inside goes on.
    Close {
        /// Why.
        #[arg(long, value_name = "REASON", default_value = "ended", value_parser = ["sold-out", "ended"])]
        reason: String,
        #[command(flatten)]
        plain: Plain,
    },
    /// Have somebody who waits go before others. They keep their arrival.
    Vip {
        /// Their place, as their page or their application has it.
        place: u64,
        /// The tier: 1 goes before 2, and 2 before all others.
        #[arg(long, value_name = "1|2", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=2))]
        tier: u64,
        #[command(flatten)]
        plain: Plain,
    },
    /// Tell those who wait how many can still be had.
    Stock {
        /// How many; "unknown" tells nothing of it.
        #[arg(value_name = "NUMBER", value_parser = left)]
        left: Left,
        #[command(flatten)]
        plain: Plain,
    },
    /// Tell something to all who wait, in place of what was told before.
    Message {
        /// A language and a plain text, such as en='Doors open at ten.'; once for each language.
        #[arg(value_name = "LANGUAGE=TEXT", value_parser = text, required_unless_present = "clear")]
        texts: Vec<(String, String)>,
        /// Tell nothing any more but what is configured.
        #[arg(long, conflicts_with = "texts")]
        clear: bool,
        #[command(flatten)]
        plain: Plain,
    },
    /// Begin a new line: every place and every pass of the present one is void.
    Turn(Plain),
    /// Take passes back, so that their owners have to wait again.
    Revoke(Revoke),
}

/// What belongs to every order.
#[derive(Args)]
pub(crate) struct Plain {
    /// The room; it need not be said where there is one.
    #[arg(long, value_name = "NAME")]
    room: Option<String>,
    /// Who orders it; without it, who is signed in on this machine.
    #[arg(long, value_name = "NAME", env = "USER")]
    by: String,
    /// Why, for others to read: one line of 240 bytes at most.
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    place: Place,
}

/// Which passes.
#[derive(Args)]
#[command(group = ArgGroup::new("which").required(true).args(["all", "before", "pass"]))]
pub(crate) struct Revoke {
    /// All that there are.
    #[arg(long)]
    all: bool,
    /// Those that were given or renewed before this time, such as 2026-12-24T10:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = second)]
    before: Option<u64>,
    /// One, by its jti.
    #[arg(long, value_name = "ID")]
    pass: Option<String>,
    #[command(flatten)]
    plain: Plain,
}

/// How many can still be had, if that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left(Option<u64>);

/// An order as it is sent.
struct Sent {
    method: &'static str,
    verb: &'static str,
    body: Map<String, Value>,
    /// For an order that cannot be taken back, what is asked before, of the room as it is.
    question: Option<fn(&Value, &str) -> String>,
    /// What the question is about.
    about: String,
}

/// Does what `command` says.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let (sent, plain) = command.sent()?;
    // Before anybody is asked whether it is meant.
    Drain::check_by(&plain.by).map_err(|bad| anyhow!("--by: {bad}"))?;
    if let Some(why) = &plain.why {
        Drain::check_why(why).map_err(|bad| anyhow!("--why: {bad}"))?;
    }
    let gateway = plain.place.gateway()?;
    let path = path(&gateway, plain.room.as_deref())?;
    consent(&gateway, &path, &sent, &plain.consent)?;
    let Sent {
        method,
        verb,
        mut body,
        ..
    } = sent;
    body.insert("by".to_owned(), plain.by.as_str().into());
    if let Some(why) = &plain.why {
        body.insert("why".to_owned(), why.as_str().into());
    }
    let path = format!("{path}/{verb}");
    let answer = gateway.ask(PATIENCE, method, &path, Some(&Value::Object(body)))?;
    plain.place.print(&answer, show::ordered)
}

/// Asks whether an order that cannot be taken back is meant.
fn consent(gateway: &Gateway, path: &str, sent: &Sent, consent: &Consent) -> anyhow::Result<()> {
    let Some(question) = sent.question.filter(|_| !consent.is_given()) else {
        return Ok(());
    };
    let room = gateway.ask(PATIENCE, "GET", path, None)?;
    consent.ask(&question(&room, &sent.about))
}

impl Command {
    /// The order as it is sent, and what belongs to every order.
    fn sent(self) -> anyhow::Result<(Sent, Plain)> {
        Ok(match self {
            Self::Hold(plain) => (Sent::phase(Some("hold")), plain),
            Self::Release(plain) => (Sent::phase(None), plain),
            Self::Drain(plain) => (Sent::phase(Some("drain")), plain),
            Self::QueueAll(plain) => (Sent::phase(Some("queue-all")), plain),
            Self::Off(plain) => (Sent::phase(Some("off")), plain),
            Self::Auto(plain) => (Sent::phase(Some("auto")), plain),
            Self::Close { reason, plain } => {
                let body = json!({ "reason": reason });
                let sent = Sent::new("POST", "close", body).asks(show::closing, reason);
                (sent, plain)
            }
            Self::Vip { place, tier, plain } => {
                let body = json!({ "place": place, "tier": tier });
                (Sent::new("POST", "promote", body), plain)
            }
            Self::Stock { left, plain } => {
                let body = json!({ "stock": left.0 });
                (Sent::new("PUT", "stock", body), plain)
            }
            Self::Message { texts, plain, .. } => {
                let body = json!({ "message": message(texts)? });
                (Sent::new("PUT", "message", body), plain)
            }
            Self::Turn(plain) => {
                let sent = Sent::new("POST", "turn", json!({}));
                (sent.asks(show::turning, String::new()), plain)
            }
            Self::Revoke(revoke) => revoke.sent()?,
        })
    }
}

impl Revoke {
    fn sent(self) -> anyhow::Result<(Sent, Plain)> {
        let (body, which) = match (self.pass, self.before) {
            (Some(pass), _) => (json!({ "pass": pass }), format!("pass {pass}")),
            (None, Some(second)) => {
                let at = show::time(second.saturating_mul(1_000));
                (
                    json!({ "before_s": second }),
                    format!("all passes from before {at}"),
                )
            }
            (None, None) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
                let body = json!({ "before_s": now + AHEAD_S });
                (body, "all passes that there are".to_owned())
            }
        };
        let sent = Sent::new("POST", "revoke", body).asks(show::revoking, which);
        Ok((sent, self.plain))
    }
}

impl Sent {
    fn new(method: &'static str, verb: &'static str, body: Value) -> Self {
        let Value::Object(body) = body else {
            unreachable!("an order is an object");
        };
        Self {
            method,
            verb,
            body,
            question: None,
            about: String::new(),
        }
    }

    fn phase(phase: Option<&str>) -> Self {
        Self::new("PUT", "phase", json!({ "phase": phase }))
    }

    fn asks(self, question: fn(&Value, &str) -> String, about: String) -> Self {
        Self {
            question: Some(question),
            about,
            ..self
        }
    }
}

/// A message in these languages; null without any.
fn message(texts: Vec<(String, String)>) -> anyhow::Result<Value> {
    if texts.is_empty() {
        return Ok(Value::Null);
    }
    let mut message = Map::new();
    for (language, text) in texts {
        if message.contains_key(&language) {
            bail!("{language} is there twice: write each language once");
        }
        message.insert(language, text.into());
    }
    Ok(Value::Object(message))
}

fn left(text: &str) -> Result<Left, String> {
    match text {
        "unknown" => Ok(Left(None)),
        number => match number.parse() {
            Ok(number) => Ok(Left(Some(number))),
            Err(_) => Err("write a whole number, or unknown".to_owned()),
        },
    }
}

fn text(text: &str) -> Result<(String, String), String> {
    let wrong = || "write a language and a text, such as en='Doors open at ten.'".to_owned();
    let (language, text) = text.split_once('=').ok_or_else(wrong)?;
    if language.is_empty() || text.trim().is_empty() {
        return Err(wrong());
    }
    Ok((language.to_owned(), text.to_owned()))
}

fn second(text: &str) -> Result<u64, String> {
    let time = humantime::parse_rfc3339_weak(text)
        .map_err(|_| "it is no time: write 2026-12-24T10:00:00Z, say".to_owned())?;
    let since = time.duration_since(UNIX_EPOCH);
    since
        .map(|since| since.as_secs())
        .map_err(|_| "it is before 1970".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(subcommand)]
        command: Command,
    }

    /// What is sent for a command, and whether it is asked about before.
    fn sent(args: &[&str]) -> (String, Value, bool) {
        let always = ["--by", "kim", "--admin", "127.0.0.1:9090"];
        let all = ["room"].iter().chain(args).chain(&always);
        let command = Cli::try_parse_from(all).map_err(|error| error.to_string());
        let (sent, plain) = command.unwrap().command.sent().unwrap();
        assert_eq!(plain.by, "kim");
        let to = format!("{} {}", sent.method, sent.verb);
        (to, Value::Object(sent.body), sent.question.is_some())
    }

    fn refused(args: &[&str]) -> String {
        let always = ["--by", "kim", "--admin", "127.0.0.1:9090"];
        let all = ["room"].iter().chain(args).chain(&always);
        let parsed = Cli::try_parse_from(all).map(|cli| cli.command.sent().map(drop));
        match parsed {
            Err(error) => error.to_string(),
            Ok(sent) => sent.unwrap_err().to_string(),
        }
    }

    #[test]
    fn a_phase_is_ordered_by_its_name_and_taken_back_by_release() {
        for phase in ["hold", "drain", "queue-all", "off", "auto"] {
            let expected = ("PUT phase".to_owned(), json!({ "phase": phase }), false);
            assert_eq!(sent(&[phase]), expected);
        }
        let expected = ("PUT phase".to_owned(), json!({ "phase": null }), false);
        assert_eq!(sent(&["release"]), expected);
    }

    #[test]
    fn what_cannot_be_taken_back_is_asked_about() {
        let (to, body, asks) = sent(&["close"]);
        assert_eq!((to.as_str(), asks), ("POST close", true));
        assert_eq!(body, json!({ "reason": "ended" }));
        let (_, body, _) = sent(&["close", "--reason", "sold-out"]);
        assert_eq!(body, json!({ "reason": "sold-out" }));
        let expected = ("POST turn".to_owned(), json!({}), true);
        assert_eq!(sent(&["turn"]), expected);
        assert!(sent(&["revoke", "--all"]).2);
    }

    #[test]
    fn passes_are_taken_back_all_those_before_a_time_or_one() {
        let (to, body, _) = sent(&["revoke", "--before", "2026-12-24T10:00:00Z"]);
        assert_eq!(to, "POST revoke");
        assert_eq!(body, json!({ "before_s": 1_798_106_400_u64 }));
        let (_, body, _) = sent(&["revoke", "--pass", "abc"]);
        assert_eq!(body, json!({ "pass": "abc" }));
        let (_, body, _) = sent(&["revoke", "--all"]);
        assert!(body["before_s"].as_u64().unwrap() > 1_700_000_000);
        for wrong in [
            &["revoke"][..],
            &["revoke", "--all", "--pass", "abc"],
            &["revoke", "--before", "ten"],
        ] {
            assert!(!refused(wrong).is_empty());
        }
    }

    #[test]
    fn stock_message_and_vip_are_sent_as_they_are_written() {
        let stock = |text| sent(&["stock", text]).1;
        assert_eq!(stock("2500"), json!({ "stock": 2_500 }));
        assert_eq!(stock("unknown"), json!({ "stock": null }));
        assert!(refused(&["stock", "many"]).contains("or unknown"));

        let (to, body, _) = sent(&["message", "en=a=b", "de=Hallo"]);
        assert_eq!(to, "PUT message");
        assert_eq!(body, json!({ "message": { "en": "a=b", "de": "Hallo" } }));
        assert_eq!(sent(&["message", "--clear"]).1, json!({ "message": null }));
        for wrong in [
            &["message"][..],
            &["message", "Hello"],
            &["message", "en="],
            &["message", "en=a", "en=b"],
        ] {
            assert!(!refused(wrong).is_empty());
        }

        let (to, body, _) = sent(&["vip", "4096"]);
        assert_eq!(
            (to.as_str(), body),
            ("POST promote", json!({ "place": 4_096, "tier": 1 }))
        );
        assert_eq!(sent(&["vip", "4096", "--tier", "2"]).1["tier"], 2);
        assert!(!refused(&["vip", "4096", "--tier", "3"]).is_empty());
    }
}

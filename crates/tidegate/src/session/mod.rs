//! `tidegate session`: looks at sessions, ends them, and makes keys for them.

mod door;
mod show;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tidegate_core::session::{SessionId, Uid};
use tidegate_gateway::session::draw_line;

pub(crate) use door::Door;

/// Characters that are said of what may be a secret.
const SHOWN_CHARS: usize = 4;

/// What can be done about sessions.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Print a fresh line for a key file.
    ///
    /// Every gateway of a fleet needs the same file: `tidegate session key > session.key` makes one.
    Key,
    /// Show a session: whose it is, how long it lives, what is in it.
    Show {
        /// The session, as the application sees it in Tidegate-Session.
        session: String,
        #[command(flatten)]
        place: Place,
    },
    /// List the sessions of a user, the one used last first.
    List {
        /// The user.
        uid: String,
        #[command(flatten)]
        place: Place,
    },
    /// End all sessions of a user, on every gateway.
    SignOut {
        /// The user.
        uid: String,
        /// A session that stays.
        #[arg(long, value_name = "SESSION")]
        except: Option<String>,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        place: Place,
    },
    /// End a session.
    Destroy {
        /// The session, as the application sees it in Tidegate-Session.
        session: String,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        place: Place,
    },
}

/// Whom to ask.
#[derive(Args)]
pub(crate) struct Place {
    /// Configuration file: its sidecar is asked, or its store where there is no sidecar running.
    #[arg(short, long, value_name = "FILE", required_unless_present = "sidecar")]
    config: Option<PathBuf>,
    /// A sidecar, such as unix:/run/tidegate/sidecar.sock or 127.0.0.1:9091.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    sidecar: Option<String>,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// Whether it is meant.
#[derive(Args)]
pub(crate) struct Consent {
    /// Do it without asking.
    #[arg(short, long)]
    yes: bool,
}

/// Does what `command` says.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Key => crate::print(&draw_line()),
        Command::Show { session, place } => {
            let path = session_path(&session)?;
            let answer = Door::open(&place)?.ask("GET", &format!("{path}?touch=false"), None)?;
            place.print(&answer, show::session)
        }
        Command::List { uid, place } => {
            let path = user_path(&uid)?;
            let answer = Door::open(&place)?.ask("GET", &format!("{path}/sessions"), None)?;
            place.print(&answer, show::list)
        }
        Command::SignOut {
            uid,
            except,
            consent,
            place,
        } => sign_out(&uid, except.as_deref(), &consent, &place),
        Command::Destroy {
            session,
            consent,
            place,
        } => destroy(&session, &consent, &place),
    }
}

fn sign_out(
    uid: &str,
    except: Option<&str>,
    consent: &Consent,
    place: &Place,
) -> anyhow::Result<ExitCode> {
    let path = user_path(uid)?;
    if let Some(session) = except {
        session_path(session)?;
    }
    let door = Door::open(place)?;
    consent.ask(&format!(
        "End every session of user {uid}, on every gateway?"
    ))?;
    let body = except.map_or_else(|| json!({}), |session| json!({ "except": session }));
    let answer = door.ask("POST", &format!("{path}/sign-out"), Some(&body))?;
    place.print(&answer, |answer| show::signed_out(uid, answer))
}

fn destroy(session: &str, consent: &Consent, place: &Place) -> anyhow::Result<ExitCode> {
    let path = session_path(session)?;
    let door = Door::open(place)?;
    if !consent.yes {
        let found = door.ask("GET", &format!("{path}?touch=false&fields="), None)?;
        let whose = found["uid"].as_str();
        let whose = whose.map_or_else(|| "nobody".to_owned(), |uid| format!("user {uid}"));
        consent.ask(&format!("End session {session} of {whose}?"))?;
    }
    let answer = door.ask("DELETE", &path, None)?;
    place.print(&answer, |answer| {
        let existed = answer["existed"].as_bool() == Some(true);
        let said = if existed {
            "is ended"
        } else {
            "was not there, and cannot come back"
        };
        format!("session {session} {said}")
    })
}

fn session_path(session: &str) -> anyhow::Result<String> {
    // Perhaps it is the cookie, and that is a secret.
    let id = SessionId::parse(session).with_context(|| {
        let begin: String = session.chars().take(SHOWN_CHARS).collect();
        format!("\"{begin}…\" is no session: give what the application sees in Tidegate-Session")
    })?;
    Ok(format!("/v1/sessions/{id}"))
}

fn user_path(uid: &str) -> anyhow::Result<String> {
    let uid = Uid::new(uid).with_context(|| format!("\"{uid}\" is no user"))?;
    let mut path = "/v1/users/".to_owned();
    for byte in uid.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path += &format!("%{byte:02X}");
        }
    }
    // As a segment of a path these would be another path.
    ensure!(
        !matches!(uid.as_str(), "." | ".."),
        "\"{uid}\" cannot be asked for by this command"
    );
    Ok(path)
}

impl Place {
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

impl Consent {
    /// Whether it was said already that it is meant.
    pub(crate) const fn is_given(&self) -> bool {
        self.yes
    }

    /// Asks whether `question` is meant, unless that was said already.
    pub(crate) fn ask(&self, question: &str) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        if !std::io::stdin().is_terminal() {
            bail!("nobody can be asked here whether it is meant: add --yes");
        }
        let mut stderr = std::io::stderr();
        write!(stderr, "{} [y/N] ", tidegate_lab::text::escaped(question))?;
        stderr.flush()?;
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        ensure!(
            matches!(line.trim(), "y" | "Y" | "yes"),
            "nothing was changed"
        );
        Ok(())
    }
}

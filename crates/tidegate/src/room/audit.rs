//! `tidegate room audit`: whether an audit log is as it was written, and what is in it.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use serde_json::json;
use tidegate_gateway::room::herald::{BadAudit, Entry, Said, Whole, verify};
use tidegate_lab::text::escaped;

use super::show::{in_one_line, time};
use crate::print;

/// The log could not be read: 1 is for one that was changed.
const EXIT_NOT_READ: u8 = 2;
/// Entries that are shown at most.
const SHOWN_MAX: usize = 100_000;

/// Check that an audit log is as it was written, and show what is in it.
///
/// Each entry has the SHA-256 of the one before, so that one which was changed, taken out or moved is found. That entries at the
/// end are missing is found with --has: the log of the gateway itself has the SHA-256 of each.
///
/// Exits with 1 when the log was changed, and with 2 when it cannot be read.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The log, as `audit` of its room in the configuration names it.
    file: PathBuf,
    /// How many entries to show, the latest ones.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    count: usize,
    /// An entry with this SHA-256 must be in it.
    #[arg(long, value_name = "SHA256")]
    has: Option<String>,
    /// Print as JSON.
    #[arg(long)]
    json: bool,
}

/// What was found in a log.
#[derive(Default)]
struct Found {
    /// The latest entries with the SHA-256 of each.
    latest: VecDeque<(Entry, String)>,
    has_it: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let shown = args.file.display();
    let opened = File::open(&args.file).with_context(|| format!("{shown} cannot be read"));
    let file = match opened {
        Ok(file) => file,
        Err(error) => return Ok(not_read(&error)),
    };
    let (found, verified) = look(BufReader::new(file), args);
    match verified {
        Err(BadAudit::Read(error)) => {
            let error = anyhow!(error).context(format!("{shown} cannot be read"));
            Ok(not_read(&error))
        }
        Err(bad) => {
            // What is before it is as it was written.
            if !args.json && !found.latest.is_empty() {
                print(page(&found.latest).trim_end())?;
            }
            Err(anyhow!(bad).context(format!("{shown} is not as it was written")))
        }
        Ok(_) if !found.has_it => Err(anyhow!(
            "{shown} has no entry of that SHA-256: its end is missing, or it was written anew"
        )),
        Ok(whole) if args.json => print(&whole_json(&found.latest, &whole)?),
        Ok(whole) => print(&(page(&found.latest) + &end(&whole))),
    }
}

/// The latest entries of a log, and whether it is whole.
fn look(log: impl std::io::BufRead, args: &Args) -> (Found, Result<Whole, BadAudit>) {
    let most = args.count.min(SHOWN_MAX);
    let mut found = Found {
        has_it: args.has.is_none(),
        ..Found::default()
    };
    let verified = verify(log, |entry, digest| {
        found.has_it |= args.has.as_deref() == Some(digest);
        found.latest.push_back((entry, digest.to_owned()));
        if found.latest.len() > most {
            found.latest.pop_front();
        }
    });
    (found, verified)
}

fn not_read(error: &anyhow::Error) -> ExitCode {
    crate::tell(error);
    ExitCode::from(EXIT_NOT_READ)
}

fn whole_json(latest: &VecDeque<(Entry, String)>, whole: &Whole) -> anyhow::Result<String> {
    let latest: Vec<_> = latest
        .iter()
        .map(|(entry, digest)| json!({ "entry": entry, "sha256": digest }))
        .collect();
    let said = json!({
        "entries": whole.entries,
        "torn": whole.torn,
        "last": whole.last,
        "latest": latest,
    });
    Ok(serde_json::to_string_pretty(&said)?)
}

/// A line for each entry.
fn page(latest: &VecDeque<(Entry, String)>) -> String {
    let mut page = String::new();
    for (entry, _) in latest {
        let _ = writeln!(
            page,
            "{:>6}  {}  {:<12}  {:<16}{}",
            entry.n,
            time(entry.at_ms),
            escaped(&entry.room),
            escaped(&entry.said.event),
            what(&entry.said)
        );
    }
    page
}

/// What an entry says besides what has happened.
fn what(said: &Said) -> String {
    let mut words = Vec::new();
    let shown = |text: &str| in_one_line(&text.into());
    if let (Some(from), Some(to)) = (&said.from, &said.to) {
        words.push(format!("{} to {}", shown(from), shown(to)));
    }
    words.extend(said.what.as_deref().map(shown));
    for (name, number) in [
        ("seconds", said.seconds),
        ("restored", said.restored),
        ("fence", said.fence),
        ("wait_s", said.wait_s),
    ] {
        words.extend(number.map(|number| format!("{name} {number}")));
    }
    words.extend(said.by.as_deref().map(|by| format!("by {}", shown(by))));
    words.extend(said.why.as_deref().map(|why| format!("({})", shown(why))));
    words.join(" ")
}

/// What is said of a whole log.
fn end(whole: &Whole) -> String {
    let entries = match whole.entries {
        1 => "1 entry".to_owned(),
        many => format!("{many} entries"),
    };
    let torn = match whole.torn {
        0 => String::new(),
        1 => " One line was begun and not finished, as when the machine dies.".to_owned(),
        many => {
            format!(" {many} lines were begun and not finished, as when the machine dies.")
        }
    };
    format!(
        "\n{entries}, as they were written.{torn}\nThe last one has the SHA-256 {}",
        whole.last
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u64, said: Said) -> (Entry, String) {
        let entry = Entry {
            n,
            at_ms: 1_790_000_000_000,
            room: "shop".to_owned(),
            said,
            prev: "0".repeat(64),
        };
        (entry, "f".repeat(64))
    }

    #[test]
    fn entries_are_lines_to_be_read() {
        let said = |event: &str| Said {
            event: event.to_owned(),
            ..Said::default()
        };
        let entries = VecDeque::from([
            entry(
                1,
                Said {
                    from: Some("auto".to_owned()),
                    to: Some("hold".to_owned()),
                    by: Some("kim".to_owned()),
                    why: Some("a\nb\u{1b}[2J".to_owned()),
                    ..said("phase.set")
                },
            ),
            entry(
                2,
                Said {
                    fence: Some(17),
                    ..said("lead.taken")
                },
            ),
        ]);

        let page = page(&entries);

        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(
            lines,
            [
                "     1  2026-09-21T14:13:20Z  shop          phase.set       auto to hold by kim (a\\nb\\u{1b}[2J)",
                "     2  2026-09-21T14:13:20Z  shop          lead.taken      fence 17",
            ]
        );
    }

    #[test]
    fn a_whole_log_is_told_with_what_its_end_is_known_by() {
        let mut whole = Whole {
            entries: 3,
            torn: 0,
            last: "abc".to_owned(),
        };
        assert_eq!(
            end(&whole),
            "\n3 entries, as they were written.\nThe last one has the SHA-256 abc"
        );
        whole.torn = 1;
        assert!(end(&whole).contains("One line was begun and not finished"));
    }

    #[test]
    fn a_log_that_was_changed_is_not_whole_and_an_end_that_is_missing_is_asked_for() {
        let args = |has: Option<&str>| Args {
            file: PathBuf::new(),
            count: 1,
            has: has.map(str::to_owned),
            json: false,
        };

        let (found, verified) = look(&b"{\"n\":1}\n"[..], &args(None));
        assert!(found.has_it);
        assert!(matches!(verified, Err(BadAudit::Changed { line: 1 })));
        let (found, verified) = look(&b""[..], &args(Some("abc")));
        assert!(!found.has_it && verified.is_ok());
    }
}

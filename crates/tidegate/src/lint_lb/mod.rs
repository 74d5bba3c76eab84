//! `tidegate lint-lb`: known traps in the configuration of a load balancer.

mod envoy;
mod finding;
mod haproxy;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::json;

use tidegate_lab::text::escaped;

use finding::{Finding, Unreadable};

/// Nothing can be said about the file; 1 is for a file with findings.
const EXIT_UNREADABLE: u8 = 2;

/// More is no configuration.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Findings that are shown; the others are counted.
const SHOWN_MAX: usize = 200;

/// Find known traps in a configuration of HAProxy or Envoy.
///
/// Prints each with its place, what comes of it, and what to write instead. Exit code 0: none found. 1: some were found. 2: the
/// file cannot be read.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file: HAProxy's configuration, or Envoy's as YAML or JSON.
    file: PathBuf,
    /// Whose it is; without it, what it looks like.
    #[arg(long, value_enum)]
    from: Option<Balancer>,
    /// The nodes' own guard never lets the last of them go, so the balancer need not.
    #[arg(long)]
    guarded: bool,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// A load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Balancer {
    /// HAProxy.
    Haproxy,
    /// Envoy.
    Envoy,
}

/// Looks into the file and says what was found.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let shown = escaped(&args.file.display().to_string());
    let found = read(&args.file).and_then(|text| lint(&text, args.from, args.guarded));
    let page = match (&found, args.json) {
        (Ok((balancer, findings)), true) => json_page(&shown, *balancer, findings),
        (Ok((balancer, findings)), false) => text_page(&shown, *balancer, findings),
        (Err(error), true) => serde_json::to_string_pretty(&json!({
            "file": shown,
            "unreadable": { "line": error.line, "column": error.column, "what": error.what },
        }))?,
        (Err(error), false) => {
            let at = place(&shown, error.line, error.column);
            format!("{at}: cannot be read: {}", error.what)
        }
    };
    crate::print(&page)?;
    Ok(match found {
        Err(_) => ExitCode::from(EXIT_UNREADABLE),
        Ok((_, findings)) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
    })
}

fn read(file: &Path) -> Result<String, Unreadable> {
    let failed = |error: std::io::Error| Unreadable::whole(&error.to_string());
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(failed)?;
    opened
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Unreadable::whole("it is larger than 16 MiB"));
    }
    match String::from_utf8(bytes) {
        Ok(text) if text.contains('\0') => Err(Unreadable::whole("it is no text")),
        Ok(text) => Ok(text),
        Err(_) => Err(Unreadable::whole("it is no text in UTF-8")),
    }
}

/// What is found in `text`, and whose configuration it is.
fn lint(
    text: &str,
    from: Option<Balancer>,
    guarded: bool,
) -> Result<(Balancer, Vec<Finding>), Unreadable> {
    let balancer = from.unwrap_or_else(|| looks_like(text));
    let findings = match balancer {
        Balancer::Haproxy => haproxy::lint(text)?,
        Balancer::Envoy => envoy::lint(text, guarded)?,
    };
    Ok((balancer, findings))
}

/// YAML and JSON begin with a key and a colon, a bracket or dashes; HAProxy's first word is a section.
fn looks_like(text: &str) -> Balancer {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let mut said = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = said.next().unwrap_or_default();
    let word = first.split_whitespace().next().unwrap_or_default();
    if first.starts_with(['{', '[', '-', '%', '"']) || word.ends_with(':') {
        Balancer::Envoy
    } else {
        Balancer::Haproxy
    }
}

fn place(shown: &str, line: usize, column: usize) -> String {
    if line == 0 {
        return shown.to_owned();
    }
    format!("{shown}:{line}:{column}")
}

fn text_page(shown: &str, balancer: Balancer, findings: &[Finding]) -> String {
    let mut page = String::new();
    for finding in findings.iter().take(SHOWN_MAX) {
        let at = place(shown, finding.line, finding.column);
        // Writing to a String does not fail.
        let _ = writeln!(page, "{at}: {} [{}]", finding.what, finding.trap);
        let _ = writeln!(page, "    why: {}", finding.why);
        let _ = writeln!(page, "    fix: {}", finding.fix);
    }
    let name = match balancer {
        Balancer::Haproxy => "HAProxy",
        Balancer::Envoy => "Envoy",
    };
    let _ = match findings.len() {
        0 => write!(page, "{shown}: no known trap of {name} is in it"),
        1 => write!(page, "{shown}: 1 trap"),
        n if n <= SHOWN_MAX => write!(page, "{shown}: {n} traps"),
        n => write!(page, "{shown}: {n} traps, of which {SHOWN_MAX} are shown"),
    };
    page
}

fn json_page(shown: &str, balancer: Balancer, findings: &[Finding]) -> String {
    let balancer = match balancer {
        Balancer::Haproxy => "haproxy",
        Balancer::Envoy => "envoy",
    };
    let page = json!({ "file": shown, "balancer": balancer, "findings": findings });
    format!("{page:#}")
}

#[cfg(test)]
mod tests;

//! `tidegate limit import`: the limits of another rate limit service as sections of our configuration.
//!
//! What is printed counts what was counted before, or nothing is printed: what cannot be carried over is an error that
//! names all of it. What has no equivalent and changes no decision is told in a comment.

mod limitador;
mod page;
mod ratelimit;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use tidegate_core::rate::Rate;
use tidegate_rls::{Entry, Fit};

use crate::config::{self, Flags};

/// More is no file of limits.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Problems that are shown; the others are counted.
const PROBLEMS_SHOWN_MAX: usize = 50;

/// The longest name of a limit.
const NAME_LEN_MAX: usize = 64;

/// Print the limits of another rate limit service as a configuration of ours.
///
/// Reads what envoyproxy/ratelimit (YAML with `domain` and `descriptors`) or limitador (a YAML list of limits) reads, and
/// prints sections `[rls]` and `[[rls.limit]]`. What would count otherwise here is an error.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The files; several of envoyproxy/ratelimit have a domain each.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Whose files they are; without it, what they look like.
    #[arg(long, value_enum)]
    from: Option<Origin>,
}

/// Whose file it is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Origin {
    /// envoyproxy/ratelimit.
    Ratelimit,
    /// Kuadrant's limitador.
    Limitador,
}

/// What was read of some files.
#[derive(Default)]
struct Import {
    domains: Vec<String>,
    limits: Vec<Limit>,
    /// What cannot be carried over, each with its place.
    problems: Vec<String>,
}

/// A limit that is to be printed.
struct Limit {
    domain: String,
    /// What it is called where it comes from, if it has a name.
    named: Option<String>,
    /// What it is called here.
    name: String,
    descriptor: Vec<Entry>,
    fit: Fit,
    /// `None` for no limit.
    rate: Option<Rate>,
    shadow: bool,
    /// By the names where they come from.
    replaces: Vec<String>,
    /// What has no equivalent.
    notes: Vec<String>,
}

/// Reads, and prints all or nothing.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut import = Import::default();
    let mut origins = Vec::new();
    for file in &args.files {
        let text = read(file)?;
        let origin = args.from.unwrap_or_else(|| looks_like(&text));
        let shown = file.display().to_string();
        match origin {
            Origin::Ratelimit => ratelimit::read(&mut import, &shown, &text)?,
            Origin::Limitador => limitador::read(&mut import, &shown, &text)?,
        }
        if !origins.contains(&origin) {
            origins.push(origin);
        }
    }
    import.refuse_problems()?;
    ensure!(!import.limits.is_empty(), "there are no limits to import");
    import.name();
    let page = page::Page {
        import: &import,
        files: &args.files,
        origins: &origins,
    };
    let page = page.to_string();
    check(&page)?;
    crate::print(page.trim_end())
}

fn read(file: &Path) -> anyhow::Result<String> {
    let shown = file.display();
    let opened = File::open(file).with_context(|| format!("cannot read {shown}"))?;
    let mut text = String::new();
    opened
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {shown}"))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        bail!("{shown} is larger than 16 MiB: is it the right file?");
    }
    Ok(text)
}

/// limitador's files are lists, the others' are not.
fn looks_like(text: &str) -> Origin {
    let begins = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#') && *line != "---");
    match begins {
        Some(line) if line.starts_with(['-', '[']) => Origin::Limitador,
        _ => Origin::Ratelimit,
    }
}

/// What we print is to be a configuration of ours.
fn check(page: &str) -> anyhow::Result<()> {
    let whole = format!("[[app]]\nupstream = \"http://127.0.0.1:1\"\n\n{page}");
    config::parse("what was imported", &whole, &Flags::default())
        .context("a limit cannot be kept as it is")?;
    Ok(())
}

impl Import {
    /// Notes what cannot be carried over.
    fn refuse(&mut self, place: &str, what: impl std::fmt::Display) {
        self.problems.push(format!("{place}: {what}"));
    }

    fn refuse_problems(&self) -> anyhow::Result<()> {
        if self.problems.is_empty() {
            return Ok(());
        }
        let shown = &self.problems[..self.problems.len().min(PROBLEMS_SHOWN_MAX)];
        let more = match self.problems.len() - shown.len() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        bail!("cannot be carried over: {}{more}", shown.join("; "))
    }

    fn add_domain(&mut self, domain: &str) {
        if !self.domains.iter().any(|known| known == domain) {
            self.domains.push(domain.to_owned());
        }
    }

    /// Gives each limit a name of its own.
    fn name(&mut self) {
        let mut taken: Vec<String> = Vec::new();
        for limit in &mut self.limits {
            let wish = match &limit.named {
                Some(named) => plain(named),
                None => plain(&wish(limit)),
            };
            let mut name = wish.clone();
            let mut number = 2;
            while taken.contains(&name) {
                let ending = format!("-{number}");
                name = format!(
                    "{}{ending}",
                    &wish[..wish.len().min(NAME_LEN_MAX - ending.len())]
                );
                number += 1;
            }
            taken.push(name.clone());
            limit.name = name;
        }
    }
}

/// What a limit without a name is to be called: what it is about.
fn wish(limit: &Limit) -> String {
    let mut wish = limit.domain.clone();
    for entry in &limit.descriptor {
        wish.push('.');
        wish.push_str(&entry.key);
        if let tidegate_rls::Wanted::Is(value) | tidegate_rls::Wanted::Begins(value) = &entry.value
        {
            wish.push('_');
            wish.push_str(value);
        }
    }
    wish
}

/// The same with nothing but what a name may have.
fn plain(wish: &str) -> String {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => c,
        _ => '-',
    };
    let name: String = wish.chars().take(NAME_LEN_MAX).map(plain).collect();
    match name.as_str() {
        "" => "limit".to_owned(),
        _ => name,
    }
}

#[cfg(test)]
mod tests;

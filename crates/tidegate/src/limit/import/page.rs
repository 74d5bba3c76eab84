//! What was imported, as our configuration.

use std::fmt;
use std::path::PathBuf;

use tidegate_rls::{Entry, Fit, Wanted};

use super::{Import, Limit, Origin};

/// Displays an [`Import`].
pub(super) struct Page<'i> {
    pub(super) import: &'i Import,
    pub(super) files: &'i [PathBuf],
    pub(super) origins: &'i [Origin],
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in self.files {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            writeln!(f, "# From {}.", on_one_line(&name))?;
        }
        for origin in self.origins {
            f.write_str(match origin {
                Origin::Ratelimit => RATELIMIT,
                Origin::Limitador => LIMITADOR,
            })?;
        }
        f.write_str(BOTH)?;
        let domains: Vec<String> = self.import.domains.iter().map(|it| quoted(it)).collect();
        writeln!(f, "\n[rls]")?;
        writeln!(f, "# Where your proxies reach it, and nobody else does.")?;
        writeln!(f, "listen = \"127.0.0.1:8081\"")?;
        writeln!(f, "domains = [{}]", domains.join(", "))?;
        let limits = self.import.limits.iter();
        limits
            .clone()
            .try_for_each(|limit| show(f, limit, &self.import.limits))
    }
}

const RATELIMIT: &str = "\
# envoyproxy/ratelimit goes down its tree of descriptors by the most specific entry and does not come back; here the
# most specific descriptor as a whole is met.
";

const LIMITADOR: &str = "\
# limitador looks at the first descriptor of a request; here each of them is looked at, and counted once.
";

const BOTH: &str = "\
# What were windows are buckets here: as much at once as the whole rate, then as it flows in, at any time. Where that is
# too much at once, write a smaller burst.
";

fn show(f: &mut fmt::Formatter<'_>, limit: &Limit, all: &[Limit]) -> fmt::Result {
    writeln!(f, "\n[[rls.limit]]")?;
    for note in &limit.notes {
        writeln!(f, "# {}", on_one_line(note))?;
    }
    writeln!(f, "name = {}", quoted(&limit.name))?;
    if let Some(named) = &limit.named
        && *named != limit.name
    {
        writeln!(f, "# It was called {}.", on_one_line(&quoted(named)))?;
    }
    writeln!(f, "domain = {}", quoted(&limit.domain))?;
    let entries: Vec<String> = limit.descriptor.iter().map(shown).collect();
    writeln!(f, "descriptor = [{}]", entries.join(", "))?;
    if limit.fit == Fit::Part {
        writeln!(f, "match = \"part\"")?;
    }
    match limit.rate {
        Some(rate) => writeln!(f, "rate = \"{rate}\"")?,
        None => writeln!(f, "unlimited = true")?,
    }
    if limit.shadow {
        writeln!(f, "shadow = true")?;
    }
    let mut replaces = Vec::new();
    for named in &limit.replaces {
        let called = all
            .iter()
            .filter(|other| other.domain == limit.domain && other.named.as_ref() == Some(named));
        let before = replaces.len();
        replaces.extend(called.map(|other| quoted(&other.name)));
        if replaces.len() == before {
            let named = on_one_line(&quoted(named));
            writeln!(f, "# It replaced {named}, which there is not.")?;
        }
    }
    if !replaces.is_empty() {
        writeln!(f, "replaces = [{}]", replaces.join(", "))?;
    }
    Ok(())
}

fn shown(entry: &Entry) -> String {
    let key = quoted(&entry.key);
    let value = match &entry.value {
        Wanted::Any => String::new(),
        Wanted::Is(value) => format!(", value = {}", quoted(value)),
        Wanted::Begins(value) => format!(", prefix = {}", quoted(value)),
        Wanted::Not(value) => format!(", not = {}", quoted(value)),
    };
    let together = if entry.together {
        ", together = true"
    } else {
        ""
    };
    format!("{{ key = {key}{value}{together} }}")
}

/// As TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// For a comment, which ends with its line.
fn on_one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

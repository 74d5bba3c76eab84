//! `tidegate sim replay` of decisions about nodes: lines of JSON, each taken again by itself.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;

use tidegate_fleet::control::{LineKind, replay_line};
use tidegate_lab::text::escaped;

/// Bytes of the longest line that is read. Ours have about a thousand.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// The exit code for a log that is damaged.
const DAMAGED: u8 = 2;

/// What is in a log, in numbers.
#[derive(Default)]
struct Tally {
    decisions: u64,
    /// Changes of state, by where to.
    turns: std::collections::BTreeMap<&'static str, u64>,
    nodes: std::collections::BTreeSet<String>,
}

/// Takes every decision of `log` again, until one comes out differently or cannot be read.
///
/// # Errors
///
/// When `log` cannot be read, or `out` not written.
pub(super) fn replay(
    log: &mut impl BufRead,
    path: &Path,
    show_all: bool,
    out: &mut impl Write,
) -> io::Result<ExitCode> {
    writeln!(out, "{}: decisions about nodes", path.display())?;
    let mut tally = Tally::default();
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        if take(log, &mut line)? == 0 {
            break;
        }
        if !line.ends_with('\n') && line.len() < LINE_BYTES_MAX as usize {
            write!(out, "{tally}")?;
            writeln!(
                out,
                "end       in the middle of line {number}: whoever wrote it was stopped"
            )?;
            writeln!(out, "every decision reproduced")?;
            return Ok(ExitCode::SUCCESS);
        }
        match replay_line(line.trim_end()) {
            Ok(LineKind::Reproduced { node, to, is_turn }) => {
                if show_all {
                    writeln!(out, "{number} {} {}", escaped(&node), to.name())?;
                }
                tally.decisions += 1;
                tally.nodes.insert(node);
                if is_turn {
                    *tally.turns.entry(to.name()).or_default() += 1;
                }
            }
            Ok(LineKind::Differs { node, ts, parts }) => {
                write!(out, "{tally}")?;
                writeln!(
                    out,
                    "not reproduced: line {number}, node {}, at {ts} ms",
                    escaped(&node)
                )?;
                for (part, said, again) in parts {
                    writeln!(out, "  {part}: {} in the log, {again} now", escaped(&said))?;
                }
                return Ok(ExitCode::FAILURE);
            }
            Err(bad) => {
                write!(out, "{tally}")?;
                writeln!(
                    out,
                    "cannot be read from line {number} on: {}",
                    escaped(&bad.to_string())
                )?;
                return Ok(ExitCode::from(DAMAGED));
            }
        }
    }
    write!(out, "{tally}")?;
    writeln!(out, "every decision reproduced")?;
    Ok(ExitCode::SUCCESS)
}

/// The next line, cut off where none of ours would be.
fn take(log: &mut impl BufRead, line: &mut String) -> io::Result<usize> {
    let mut bytes = Vec::new();
    let taken = io::Read::take(log, LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
    line.push_str(&String::from_utf8_lossy(&bytes));
    Ok(taken)
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "decisions {} about {} nodes",
            self.decisions,
            self.nodes.len()
        )?;
        write!(f, "turns     {}", self.turns.values().sum::<u64>())?;
        for (to, count) in &self.turns {
            write!(f, ", to {to} {count}")?;
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that a plane wrote: a full node turns from healthy to stressed.
    const LINE: &str = include_str!("decisions/line.json");

    fn replayed(log: &str) -> (ExitCode, String) {
        let mut out = Vec::new();
        let code = replay(&mut log.as_bytes(), Path::new("log"), false, &mut out).unwrap();
        (code, String::from_utf8(out).unwrap())
    }

    #[test]
    fn decisions_come_out_again_up_to_where_a_log_breaks_off() {
        let (code, page) = replayed(&format!("{LINE}{LINE}{}", &LINE[..100]));

        assert_eq!(code, ExitCode::SUCCESS);
        assert!(page.contains("decisions 2 about 1 nodes"), "{page}");
        assert!(page.contains("turns     2, to stressed 2"), "{page}");
        assert!(page.contains("in the middle of line 3"), "{page}");
    }

    #[test]
    fn the_first_difference_is_shown() {
        let changed = LINE.replace("\"weight\":70", "\"weight\":100");

        let (code, page) = replayed(&format!("{LINE}{changed}{LINE}"));

        assert_eq!(code, ExitCode::FAILURE);
        assert!(
            page.contains("not reproduced: line 2, node shop-2"),
            "{page}"
        );
        assert!(page.contains("  weight: 100 in the log, 70 now"), "{page}");
    }

    #[test]
    fn what_is_no_decision_is_damage() {
        let long = "{".repeat(200_000);
        for odd in ["{}\n", "{\"v\":7}\n", "{\u{1b}[2J}\n", &long] {
            let (code, page) = replayed(&format!("{LINE}{odd}"));

            assert_eq!(code, ExitCode::from(DAMAGED), "{page}");
            assert!(page.contains("cannot be read from line 2 on"), "{page}");
            assert!(!page.contains('\u{1b}'));
        }
    }
}

//! What is wrong with a configuration, said the way a good compiler says it.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

use super::tree::Origin;

/// Problems shown; the rest of them is counted.
const SHOWN_MAX: usize = 50;

/// Characters of a line of the file that are shown, around the place in question.
const LINE_CHARS_MAX: usize = 120;

/// Characters of a message or a fix that are shown: they may hold a value of the file.
const TEXT_CHARS_MAX: usize = 1000;

/// One thing that is wrong, where, and how to put it right.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) origin: Origin,
    pub(crate) message: String,
    pub(crate) fix: String,
}

/// Collects problems, so that one run shows them all.
#[derive(Debug, Default)]
pub(crate) struct Problems(RefCell<Vec<Problem>>);

/// A configuration that was refused, with every reason.
#[derive(Debug)]
pub(crate) struct Refused {
    file: String,
    text: String,
    problems: Vec<Problem>,
}

impl Problems {
    pub(crate) fn add(&self, origin: &Origin, message: impl Into<String>, fix: impl Into<String>) {
        self.0.borrow_mut().push(Problem {
            origin: origin.clone(),
            message: message.into(),
            fix: fix.into(),
        });
    }

    /// `plan` if nothing was wrong, else everything that was.
    pub(crate) fn unless_any<T>(self, file: &str, text: &str, plan: T) -> Result<T, Refused> {
        if self.0.borrow().is_empty() {
            Ok(plan)
        } else {
            Err(self.refused(file, text))
        }
    }

    /// Everything that was wrong, in the order of the file.
    pub(crate) fn refused(self, file: &str, text: &str) -> Refused {
        let mut problems = self.0.into_inner();
        problems.sort_by_key(|problem| match &problem.origin {
            Origin::File(span) => span.start,
            Origin::Flag(_) => usize::MAX,
        });
        Refused {
            file: file.to_owned(),
            text: text.to_owned(),
            problems,
        }
    }
}

impl std::error::Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in self.problems.iter().take(SHOWN_MAX) {
            self.show(f, problem)?;
        }
        if let Some(more @ 1..) = self.problems.len().checked_sub(SHOWN_MAX) {
            writeln!(f, "… and {more} more\n")?;
        }
        match self.problems.len() {
            1 => write!(f, "1 error: the configuration is refused as a whole"),
            n => write!(f, "{n} errors: the configuration is refused as a whole"),
        }
    }
}

impl Refused {
    fn show(&self, f: &mut fmt::Formatter<'_>, problem: &Problem) -> fmt::Result {
        writeln!(f, "error: {}", shown(&problem.message))?;
        let margin = match &problem.origin {
            Origin::Flag(flag) => {
                writeln!(f, " --> {flag} on the command line")?;
                0
            }
            // A key that is missing from an empty file has no line to show.
            Origin::File(_) if self.text.trim().is_empty() => {
                writeln!(f, " --> {}", self.file)?;
                0
            }
            Origin::File(span) => {
                let place = Place::of(span, &self.text);
                let margin = place.line_number.to_string().len();
                writeln!(
                    f,
                    "{:margin$}--> {}:{}:{}",
                    "", self.file, place.line_number, place.column
                )?;
                writeln!(f, "{:margin$} |", "")?;
                let (line, indent, width) = place.excerpt();
                writeln!(f, "{} | {line}", place.line_number)?;
                writeln!(f, "{:margin$} | {:indent$}{}", "", "", "^".repeat(width),)?;
                margin
            }
        };
        writeln!(f, "{:margin$} = help: {}\n", "", shown(&problem.fix))
    }
}

/// A span as people count: lines and columns from 1.
struct Place<'t> {
    line_number: usize,
    column: usize,
    line: &'t str,
    width: usize,
}

impl<'t> Place<'t> {
    fn of(span: &Range<usize>, text: &'t str) -> Self {
        let start = floor(text, span.start.min(text.len()));
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = floor(text, span.end.clamp(start, line_end));
        Self {
            line_number: text[..line_start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            line: text[line_start..line_end].trim_end_matches('\r'),
            width: text[start..end].chars().count().max(1),
        }
    }
}

impl Place<'_> {
    /// What of the line is shown, how far into it the place is, and how wide.
    fn excerpt(&self) -> (String, usize, usize) {
        let before = self.column - 1;
        let skipped = before.saturating_sub(LINE_CHARS_MAX / 4);
        let line: String = self
            .line
            .chars()
            .skip(skipped)
            .take(LINE_CHARS_MAX)
            .map(printable)
            .collect();
        let indent = before - skipped;
        let width = self.width.min(LINE_CHARS_MAX - indent);
        (line, indent, width)
    }
}

/// `text` on one line, of bounded length, and without anything that a terminal would obey.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(TEXT_CHARS_MAX).map(printable).collect();
    if text.chars().nth(TEXT_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        _ if c.is_control() => char::REPLACEMENT_CHARACTER,
        _ => c,
    }
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_its_line_and_marks_its_place() {
        let text = "threads = 1\n\n[listen]\naddress = \"ü:80\"\n";
        let start = text.find('"').unwrap();
        let problems = Problems::default();
        problems.add(
            &Origin::File(start..start + 7),
            "`address` is wrong",
            "write another one",
        );

        let refused = problems.unless_any("tidegate.toml", text, ()).unwrap_err();

        assert_eq!(
            refused.to_string(),
            "error: `address` is wrong\n \
              --> tidegate.toml:4:11\n  \
               |\n\
             4 | address = \"ü:80\"\n  \
               |           ^^^^^^\n  \
               = help: write another one\n\n\
             1 error: the configuration is refused as a whole"
        );
    }

    #[test]
    fn however_much_is_wrong_a_screen_shows_it() {
        let long = format!("mode = \"{}\" \u{1b}[31m", "x".repeat(100_000));
        let problems = Problems::default();
        for _ in 0..1000 {
            problems.add(&Origin::File(7..100_009), format!("`{long}`"), "write less");
        }

        let page = problems
            .unless_any("t.toml", &long, ())
            .unwrap_err()
            .to_string();

        assert!(page.len() < 100_000, "{}", page.len());
        assert!(page.contains("… and 950 more"), "{page}");
        assert!(page.ends_with("1000 errors: the configuration is refused as a whole"));
        assert!(!page.contains('\u{1b}'));
    }

    #[test]
    fn a_problem_with_a_flag_names_the_flag() {
        let problems = Problems::default();
        problems.add(
            &Origin::Flag("--workers"),
            "`workers = 0` is below 1",
            "write 1 or more",
        );

        let refused = problems.unless_any("(no file)", "", ()).unwrap_err();

        assert!(
            refused
                .to_string()
                .contains(" --> --workers on the command line\n")
        );
    }
}

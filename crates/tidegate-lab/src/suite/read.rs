//! From a file to a scenario that can be run.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::scenario::{Arrivals, Scenario, ServiceKind};
use crate::text::{shortened, shown};

use super::check::{self, Problem};
use super::data;

/// The largest scenario; a device or a log given by mistake ends here.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The largest trace or recording.
const DATA_BYTES_MAX: u64 = 256 << 20;
/// Characters of a line of the parser's messages, with room for the names it knows.
const LINE_MAX: usize = 400;

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file, or one that it names, is not there or not readable.
    #[error("cannot read {}: {source}", file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Not TOML, an unknown key, or a value of the wrong kind.
    #[error("{}: {}", file.display(), told(source))]
    Unparsable {
        /// Which file.
        file: PathBuf,
        /// Where in it, and what would be right there.
        source: Box<toml::de::Error>,
    },
    /// Values that cannot be meant.
    #[error("{}:{}", file.display(), listed(problems))]
    Wrong {
        /// Which file.
        file: PathBuf,
        /// All of them.
        problems: Vec<Problem>,
    },
    /// A line of a trace or a recording.
    #[error("{}: line {line} is `{}`; write {wanted}", file.display(), shown(found))]
    Line {
        /// Which file.
        file: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What it says.
        found: String,
        /// What it should say.
        wanted: &'static str,
    },
    /// A trace or a recording with nothing in it.
    #[error("{}: there is nothing in it; write {wanted}", file.display())]
    Empty {
        /// Which file.
        file: PathBuf,
        /// What should be in it.
        wanted: &'static str,
    },
}

/// The scenario in `file`, checked, with the files it names.
pub fn read(file: &Path) -> Result<Scenario, ReadError> {
    let text = text_of(file, FILE_BYTES_MAX)?;
    parse(file, &text)
}

/// The scenario that `text` is, checked; it came from `file`, and the files it names are beside
/// that one.
pub fn parse(file: &Path, text: &str) -> Result<Scenario, ReadError> {
    let mut scenario: Scenario = toml::from_str(text).map_err(|source| ReadError::Unparsable {
        file: file.to_owned(),
        source: Box::new(source),
    })?;
    let folder = file.parent().unwrap_or_else(|| Path::new(""));
    fill_in(&mut scenario, folder)?;
    let problems = check::problems(&scenario);
    if problems.is_empty() {
        Ok(scenario)
    } else {
        Err(ReadError::Wrong {
            file: file.to_owned(),
            problems,
        })
    }
}

/// Reads what the scenario only names.
fn fill_in(scenario: &mut Scenario, folder: &Path) -> Result<(), ReadError> {
    for traffic in &mut scenario.traffic {
        if let Arrivals::Trace { file, steps } = &mut traffic.arrivals {
            let file = folder.join(file);
            *steps = data::steps(&file, &data_of(&file)?)?.into();
        }
    }
    for route in &mut scenario.app.routes {
        if let ServiceKind::Recorded(recorded) = &mut route.service {
            let file = folder.join(&recorded.file);
            recorded.times = data::times(&file, &data_of(&file)?)?.into();
        }
    }
    Ok(())
}

/// A trace or a recording. What is not a regular file might never end, or never begin.
fn data_of(file: &Path) -> Result<String, ReadError> {
    let regular = std::fs::metadata(file).and_then(|metadata| {
        if metadata.is_file() {
            Ok(())
        } else {
            Err(io::Error::other("it is not a regular file"))
        }
    });
    regular.map_err(|source| unreadable(file, source))?;
    text_of(file, DATA_BYTES_MAX)
}

fn text_of(file: &Path, most: u64) -> Result<String, ReadError> {
    let mut text = String::new();
    let opened = File::open(file);
    let read = opened.and_then(|opened| opened.take(most + 1).read_to_string(&mut text));
    read.map_err(|source| unreadable(file, source))?;
    if text.len() as u64 > most {
        let source = io::Error::other(format!("it is larger than {} MiB", most >> 20));
        return Err(unreadable(file, source));
    }
    Ok(text)
}

fn unreadable(file: &Path, source: io::Error) -> ReadError {
    ReadError::Unreadable {
        file: file.to_owned(),
        source,
    }
}

/// What the parser says, in the words of those who write scenarios and in lines of some length.
fn told(error: &toml::de::Error) -> String {
    let error = error
        .to_string()
        .replace(
            "expected u32",
            "expected a whole number from 0 to 4294967295",
        )
        .replace("expected f64", "expected a number");
    let lines = error.trim_end().lines();
    let lines: Vec<String> = lines.map(|line| shortened(line, LINE_MAX)).collect();
    lines.join("\n")
}

fn listed(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(|problem| format!("\n  {problem}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SMALL: &str = r#"
        id = "T1"
        title = "A small one"
        length = "10s"

        [[traffic]]
        name = "people"
        rate = 100.0

        [app]
        kind = "slots"
        slots = 10

        [[app.route]]
        name = "page"
        service = { kind = "constant", mean = "50ms" }

        [[bar]]
        measure = "goodput"
        at_least = 99.0
    "#;

    fn error(text: &str) -> String {
        parse(Path::new("small.toml"), text)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_small_file_is_a_scenario() {
        let scenario = parse(Path::new("small.toml"), SMALL).unwrap();

        assert_eq!(scenario.id, "T1");
        assert_eq!(scenario.bars.len(), 1);
    }

    #[test]
    fn an_unknown_key_is_shown_with_its_line_and_the_known_ones() {
        let error = error(&SMALL.replace("length", "lenght"));

        assert!(error.starts_with("small.toml: "), "{error}");
        assert!(error.contains("line 4"), "{error}");
        assert!(error.contains("`lenght`"), "{error}");
        assert!(error.contains("`length`"), "{error}");
    }

    #[test]
    fn a_wrong_value_is_named_with_its_file_field_and_fix() {
        let error = error(&SMALL.replace("rate = 100.0", "rate = 100.0\nclass = \"vip\""));

        assert_eq!(
            error,
            "small.toml:\n  traffic \"people\": class is \"vip\"; write one of critical, \
             signed-in, anonymous, static, background"
        );
    }

    #[test]
    fn every_wrong_value_is_named_at_once() {
        let wrong = SMALL
            .replace("rate = 100.0", "rate = -1.0")
            .replace("\"10s\"", "\"0s\"");

        let error = error(&wrong);

        assert!(error.contains("length is 0s"), "{error}");
        assert!(error.contains("rate is -1"), "{error}");
    }

    #[test]
    fn a_duration_without_a_unit_is_explained() {
        let error = error(&SMALL.replace("\"10s\"", "\"10\""));

        assert!(error.contains("`10` is no duration"), "{error}");
        assert!(error.contains("\"50ms\""), "{error}");
    }

    #[test]
    fn a_trace_and_a_recording_are_read_beside_the_file() {
        let folder = std::env::temp_dir().join(format!("tidegate-read-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("small.toml");
        fs::write(folder.join("rates.csv"), "0,100\n2.5,300\n").unwrap();
        fs::write(folder.join("times.txt"), "1000\n2000\n").unwrap();
        let text = SMALL
            .replace(
                "rate = 100.0",
                "arrivals = { kind = \"trace\", file = \"rates.csv\" }",
            )
            .replace(
                "{ kind = \"constant\", mean = \"50ms\" }",
                "{ kind = \"recorded\", file = \"times.txt\" }",
            );
        fs::write(&file, text).unwrap();

        let scenario = read(&file).unwrap();

        fs::remove_dir_all(&folder).unwrap();
        let Arrivals::Trace { ref steps, .. } = scenario.traffic[0].arrivals else {
            panic!("{:?}", scenario.traffic);
        };
        assert_eq!(steps.len(), 2);
        let ServiceKind::Recorded(ref recorded) = scenario.app.routes[0].service else {
            panic!("{:?}", scenario.app);
        };
        assert_eq!(recorded.times.len(), 2);
    }

    #[test]
    fn what_would_never_end_is_refused() {
        let bursts = |arrivals| SMALL.replace("rate = 100.0", arrivals);
        let often = bursts("arrivals = { kind = \"bursts\", size = 1, every = \"1us\" }");
        let many = bursts("arrivals = { kind = \"bursts\", size = 4000000000 }");
        let endless = bursts("arrivals = { kind = \"trace\", file = \"/dev/zero\" }");
        let fault = "[[fault]]\nkind = \"stall\"\nat = \"1s\"\nfor = \"1ns\"\nevery = \"2ns\"";
        let refresh = "[gateways]\nrefresh = \"1ns\"";
        for (text, expected) in [
            (often, "arrivals.every is 1us; write at least 1ms"),
            (
                many,
                "arrivals.size is 4000000000; write how many, between 1 and 10 million",
            ),
            (endless, "cannot read /dev/zero: it is not a regular file"),
            (
                format!("{SMALL}\n{fault}"),
                "every is 2ns; write at least 1ms",
            ),
            (
                format!("{SMALL}\n{refresh}"),
                "gateways.refresh is 1ns; write at least 1ms",
            ),
        ] {
            let error = error(&text);
            assert!(error.contains(expected), "{error}");
        }
        let error = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("larger than 4 MiB"), "{error}");
    }

    #[test]
    fn weights_have_a_sum() {
        let weights = "routes = [{ route = \"page\", weight = 1e308 }, \
                       { route = \"page\", weight = 1e308 }]";
        let error = error(&SMALL.replace("rate = 100.0", &format!("rate = 1.0\n{weights}")));

        assert!(error.contains("write smaller weights"), "{error}");
    }

    #[test]
    fn a_number_out_of_range_is_told_the_range() {
        for users in ["-1", "5000000000", "\"many\""] {
            let error =
                error(&SMALL.replace("rate = 100.0", &format!("rate = 1.0\nusers = {users}")));

            assert!(
                error.contains("a whole number from 0 to 4294967295"),
                "{error}"
            );
            assert!(!error.contains("u32"), "{error}");
        }
    }

    #[test]
    fn texts_that_a_terminal_would_obey_are_refused_and_shown_harmless() {
        for mark in ["\\u001b[2J", "\\n", "\\u202e", "\\u0085"] {
            for (field, from) in [
                ("id is", "\"T1"),
                ("title is", "\"A small"),
                ("name is", "\"people"),
                ("name is", "\"page"),
            ] {
                let error = error(&SMALL.replace(from, &format!("{from}{mark}")));
                assert!(error.contains(field), "{error}");
                let lines = error.lines();
                assert!(lines.into_iter().all(crate::text::is_plain), "{error:?}");
            }
        }
    }

    #[test]
    fn long_values_are_cut_in_messages() {
        let long = "x".repeat(100_000);
        for text in [
            SMALL.replace("rate = 100.0", &format!("rate = 1.0\nclass = \"{long}\"")),
            SMALL.replace("rate = 100.0", &format!("rate = \"{long}\"")),
            SMALL.replace("10s", &long),
            SMALL.replace("rate = 100.0", "rate = 1e300"),
        ] {
            let error = error(&text);
            assert!(error.len() < 2000, "{error}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read(Path::new("/nowhere/at/all.toml"))
            .unwrap_err()
            .to_string();

        assert!(error.contains("/nowhere/at/all.toml"), "{error}");
    }
}

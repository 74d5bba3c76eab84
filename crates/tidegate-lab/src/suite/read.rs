//! From a file to a scenario that can be run.

use std::io;
use std::path::{Path, PathBuf};

use crate::scenario::{Arrivals, Scenario, ServiceKind};

use super::check::{self, Problem};
use super::data;

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
    #[error("{}: {}", file.display(), source.to_string().trim_end())]
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
    #[error("{}: line {line} is `{found}`; write {wanted}", file.display())]
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
    let text = text_of(file)?;
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
            *steps = data::steps(&file, &text_of(&file)?)?.into();
        }
    }
    for route in &mut scenario.app.routes {
        if let ServiceKind::Recorded(recorded) = &mut route.service {
            let file = folder.join(&recorded.file);
            recorded.times = data::times(&file, &text_of(&file)?)?.into();
        }
    }
    Ok(())
}

fn text_of(file: &Path) -> Result<String, ReadError> {
    std::fs::read_to_string(file).map_err(|source| ReadError::Unreadable {
        file: file.to_owned(),
        source,
    })
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
    fn a_missing_file_is_named() {
        let error = read(Path::new("/nowhere/at/all.toml"))
            .unwrap_err()
            .to_string();

        assert!(error.contains("/nowhere/at/all.toml"), "{error}");
    }
}

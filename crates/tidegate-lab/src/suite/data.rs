//! The two kinds of file that a scenario can name: traces of rates and recorded times.

use std::path::Path;
use std::time::Duration;

use crate::scenario::Step;

use super::read::ReadError;

const STEP: &str =
    "`seconds,rate`, both 0 or more, such as `12.5,300`, with each line later than the one before";
const TIME: &str = "a number of microseconds above 0, such as `50000`";

/// A trace: lines of `seconds,rate`. Empty lines and those that begin with `#` are skipped.
pub(super) fn steps(file: &Path, text: &str) -> Result<Vec<Step>, ReadError> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, line) in lines(text) {
        let step = step(line).filter(|step| steps.last().is_none_or(|last| last.at < step.at));
        steps.push(step.ok_or_else(|| wrong(file, number, line, STEP))?);
    }
    non_empty(file, steps, STEP)
}

/// A recording: one time per line, in microseconds. Empty lines and those that begin with `#` are
/// skipped.
pub(super) fn times(file: &Path, text: &str) -> Result<Vec<Duration>, ReadError> {
    let mut times = Vec::new();
    for (number, line) in lines(text) {
        let time = line
            .parse::<f64>()
            .ok()
            .filter(|&micros| micros > 0.0)
            .and_then(|micros| Duration::try_from_secs_f64(micros / 1e6).ok());
        times.push(time.ok_or_else(|| wrong(file, number, line, TIME))?);
    }
    non_empty(file, times, TIME)
}

fn step(line: &str) -> Option<Step> {
    let (seconds, rate) = line.split_once(',')?;
    let at = Duration::try_from_secs_f64(seconds.trim().parse().ok()?).ok()?;
    let rate: f64 = rate.trim().parse().ok()?;
    (rate.is_finite() && rate >= 0.0).then_some(Step { at, rate })
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..)
        .zip(text.lines().map(str::trim))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn wrong(file: &Path, line: usize, found: &str, wanted: &'static str) -> ReadError {
    ReadError::Line {
        file: file.to_owned(),
        line,
        found: found.to_owned(),
        wanted,
    }
}

fn non_empty<T>(file: &Path, found: Vec<T>, wanted: &'static str) -> Result<Vec<T>, ReadError> {
    if found.is_empty() {
        return Err(ReadError::Empty {
            file: file.to_owned(),
            wanted,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_past_comments_and_empty_lines() {
        let steps = steps(Path::new("t.csv"), "# seconds, rate\n\n0,100\n 2.5, 0\n").unwrap();

        let seconds = Duration::from_secs_f64;
        assert_eq!(
            steps,
            [
                Step {
                    at: seconds(0.0),
                    rate: 100.0
                },
                Step {
                    at: seconds(2.5),
                    rate: 0.0
                }
            ]
        );
    }

    #[test]
    fn a_line_that_goes_back_in_time_is_refused_by_number() {
        let error = steps(Path::new("t.csv"), "0,1\n5,1\n4,1\n")
            .unwrap_err()
            .to_string();

        assert!(
            error.starts_with("t.csv: line 3 is `4,1`; write"),
            "{error}"
        );
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["0\n", "-5\n", "NaN\n", "inf\n", "fast\n"] {
            assert!(times(Path::new("t"), text).is_err(), "{text}");
        }
        assert_eq!(
            times(Path::new("t"), "1500\n").unwrap(),
            [Duration::from_micros(1500)]
        );
    }

    #[test]
    fn an_empty_file_is_refused() {
        let error = times(Path::new("t"), "# nothing\n")
            .unwrap_err()
            .to_string();

        assert!(error.contains("there is nothing in it"), "{error}");
    }
}

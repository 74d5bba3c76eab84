//! The clock of single processes: Debian's libfaketime moves what a process takes for the time of day. Its monotonic clock goes on
//! as it does when an operator or NTP sets the clock of a machine.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use tidegate_lab::load::{Request, raw};

use crate::harness::{TempDir, runtime};

/// Where Debian has a directory for each kind of machine, and the library there.
const LIBRARIES: &str = "/usr/lib";
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
const DAY: i64 = 86_400;

/// A clock for processes that are started with its environment.
pub(super) struct Clock {
    dir: TempDir,
}

impl Clock {
    /// One that is right.
    pub(super) fn new() -> anyhow::Result<Self> {
        let clock = Self {
            dir: TempDir::new()?,
        };
        clock.set(0)?;
        Ok(clock)
    }

    /// Sets it so many seconds ahead of the machine's, or behind. Processes notice within a second.
    pub(super) fn set(&self, seconds: i64) -> anyhow::Result<()> {
        // Renamed into its place, so that nobody reads half of it.
        let next = self.dir.path().join("next");
        fs::write(&next, format!("{seconds:+}\n"))?;
        Ok(fs::rename(next, self.file())?)
    }

    /// What a process must have in its environment to go by it.
    pub(super) fn environment(&self) -> anyhow::Result<Vec<(&'static str, String)>> {
        Ok(vec![
            ("LD_PRELOAD", library()?.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file().display().to_string()),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            // The name of the same in older versions.
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ])
    }

    /// How far a program that goes by it is ahead of us, in seconds.
    pub(super) fn seconds_ahead(&self) -> anyhow::Result<i64> {
        let mut date = Command::new("date");
        let said = date.arg("+%s").envs(self.environment()?).output()?;
        let said = String::from_utf8(said.stdout)?;
        let theirs: i64 = said.trim().parse()?;
        Ok(theirs - now()?)
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("offset")
    }
}

fn library() -> anyhow::Result<PathBuf> {
    let places = fs::read_dir(LIBRARIES)?.filter_map(Result::ok);
    let found = places.map(|place| place.path().join(LIBRARY));
    found
        .filter(|path| Path::is_file(path))
        .min()
        .context("libfaketime is not installed: it is in Debian's package faketime")
}

/// How far the clock of whoever listens at the admin address `admin` is ahead of ours, by the `Date` of an answer, in seconds.
/// Days do not count.
pub(super) fn seconds_ahead(admin: SocketAddr) -> anyhow::Result<i64> {
    let answer = runtime()?.block_on(raw::ask(admin, &Request::get("/healthz")))?;
    let date = answer.headers.get("date");
    let date = date.context("an answer without a date")?.to_str()?;
    let theirs = second_of_day(date).with_context(|| format!("{date} is no date"))?;
    let ahead = theirs - now()? % DAY;
    // Across midnight the shorter way is meant.
    Ok((ahead + DAY / 2).rem_euclid(DAY) - DAY / 2)
}

/// Seconds since 1970.
fn now() -> anyhow::Result<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(i64::try_from(since.as_secs())?)
}

/// Of `Mon, 30 Nov 2026 17:25:20 GMT`, say.
fn second_of_day(date: &str) -> Option<i64> {
    let mut parts = date.split(' ').nth(4)?.split(':').map(str::parse::<i64>);
    let (hours, minutes, seconds) = (
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    );
    Some((hours * 60 + minutes) * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_says_which_second_of_the_day_it_is() {
        assert_eq!(second_of_day("Mon, 30 Nov 2026 17:25:20 GMT"), Some(62_720));
        assert_eq!(second_of_day("yesterday"), None);
    }
}

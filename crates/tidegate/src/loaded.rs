//! Whether what runs is what the configuration file says.
//!
//! A process takes its configuration over when it starts and no more. SIGHUP has it look again: where the file says something
//! else by now, what runs is older than the file, and that is logged and a metric of its own, which an alert rule goes by.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_gateway::metrics::{Measured, MeasuredRow};

use crate::config::{self, Flags, Role, Setup};

/// A configuration that runs, and what became of the last look at its file. Its copies are one.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    role: Role,
    /// Where it was read, and what stood there; nothing for one of flags alone.
    file: Option<(PathBuf, Arc<str>)>,
    flags: Flags,
    last: Arc<Mutex<Last>>,
}

/// The last look.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Last {
    /// Whether what runs is what the file says.
    is_current: bool,
    /// When that was last so, in seconds of the wall clock since 1970.
    at_s: f64,
}

/// What a look found.
#[derive(Debug, PartialEq)]
enum Found {
    Same,
    /// Something else, which could be taken over.
    Other,
    /// Something that is refused, or nothing that can be read.
    Bad(String),
}

impl Loaded {
    /// Reads the configuration in `file`, or makes one of `flags` alone.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is refused.
    pub(crate) fn load(
        role: Role,
        file: Option<&Path>,
        flags: Flags,
    ) -> anyhow::Result<(Setup, Self)> {
        let (name, text) = match file {
            Some(file) => (file.display().to_string(), config::read(file)?),
            None => ("no file".to_owned(), String::new()),
        };
        let setup = config::parse_for(role, &name, &text, &flags)?;
        let loaded = Self {
            role,
            file: file.map(|file| (file.to_owned(), text.into())),
            flags,
            last: Arc::new(Mutex::new(Last {
                is_current: true,
                at_s: now_s(),
            })),
        };
        Ok((setup, loaded))
    }

    /// Looks at the file again, and says in the log what follows.
    pub(crate) fn look_again(&self) {
        let Some((file, _)) = &self.file else {
            tracing::info!("there is no configuration file to look at again");
            return;
        };
        let found = self.find();
        let file = file.display();
        match &found {
            Found::Same => tracing::info!(%file, "the configuration is the one that runs"),
            Found::Other => tracing::warn!(
                %file,
                "the configuration says something else by now; the one from the start goes on: restart to take it over"
            ),
            Found::Bad(why) => tracing::warn!(
                %file,
                why,
                "the configuration cannot be taken over; the one from the start goes on"
            ),
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_current = found == Found::Same;
        if last.is_current {
            last.at_s = now_s();
        }
    }

    fn find(&self) -> Found {
        let Some((file, text)) = &self.file else {
            return Found::Same;
        };
        let now = match config::read(file) {
            Ok(now) => now,
            Err(error) => return Found::Bad(format!("{error:#}")),
        };
        if now == **text {
            return Found::Same;
        }
        let name = file.display().to_string();
        match config::parse_for(self.role, &name, &now, &self.flags) {
            Ok(_) => Found::Other,
            Err(refused) => Found::Bad(refused.to_string()),
        }
    }

    /// Its metrics, as often as they are asked for.
    pub(crate) fn measures(&self) -> impl Fn() -> Vec<Measured> + Send + Sync + use<> {
        let last = Arc::clone(&self.last);
        move || {
            let last = *last.lock().unwrap_or_else(PoisonError::into_inner);
            let row = |value| -> Vec<MeasuredRow> { vec![(Vec::new(), value)] };
            vec![
                Measured {
                    name: "tidegate_config_last_reload_successful",
                    help: "Whether what runs was what the configuration file says, when that was looked at last: at the start, and on SIGHUP",
                    rows: row(f64::from(u8::from(last.is_current))),
                },
                Measured {
                    name: "tidegate_config_last_reload_success_timestamp_seconds",
                    help: "When that was last so, by the wall clock, in seconds since 1970",
                    rows: row(last.at_s),
                },
            ]
        }
    }
}

fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that goes with its owner.
    struct Temporary(PathBuf);

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn values(loaded: &Loaded) -> [f64; 2] {
        let measures = loaded.measures()();
        [measures[0].rows[0].1, measures[1].rows[0].1]
    }

    #[test]
    fn a_file_that_says_something_else_is_not_what_runs() {
        let path = std::env::temp_dir().join(format!("tidegate-loaded-{}", std::process::id()));
        let file = Temporary(path);
        let write = |text: &str| std::fs::write(&file.0, text).unwrap();
        write("[fleet]\nnode = \"a\"\n");
        let (_, loaded) = Loaded::load(Role::Agent, Some(&file.0), Flags::default()).unwrap();
        let [is_current, at_start] = values(&loaded);
        assert_eq!(is_current, 1.0);

        for other in [
            "[fleet]\nnode = \"b\"\n",
            "[fleet]\nnode = \"b",
            "[fleet]\nnodes = 1\n",
        ] {
            write(other);
            loaded.look_again();
            assert_eq!(values(&loaded), [0.0, at_start], "{other}");
        }
        write("[fleet]\nnode = \"a\"\n");
        loaded.look_again();

        let [is_current, at] = values(&loaded);
        assert!(is_current == 1.0 && at >= at_start);
        std::fs::remove_file(&file.0).unwrap();
        loaded.look_again();
        assert_eq!(values(&loaded)[0], 0.0);
    }

    #[test]
    fn flags_alone_have_no_file_that_could_say_something_else() {
        let flags = Flags {
            upstream: Some("http://127.0.0.1:1".to_owned()),
            ..Flags::default()
        };
        let (_, loaded) = Loaded::load(Role::Gateway, None, flags).unwrap();

        loaded.look_again();

        assert_eq!(values(&loaded)[0], 1.0);
    }
}

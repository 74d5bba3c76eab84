//! The suites that are part of the program.

use std::path::Path;

use crate::scenario::Scenario;

use super::read::{ReadError, parse};

/// Scenarios that are run together.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// What `--suite` calls it.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// File names and contents, in the order they are reported in.
    files: &'static [(&'static str, &'static str)],
}

/// All of them.
pub const SUITES: &[Suite] = &[];

impl Suite {
    /// The suite called `name`.
    pub fn named(name: &str) -> Option<&'static Self> {
        SUITES.iter().find(|suite| suite.name == name)
    }

    /// Its scenarios, read and checked.
    pub fn scenarios(&self) -> Result<Vec<Scenario>, ReadError> {
        self.files
            .iter()
            .map(|(file, text)| parse(Path::new(file), text))
            .collect()
    }
}

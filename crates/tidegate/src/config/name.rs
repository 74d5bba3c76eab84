//! Names of applications, groups and routes: they become metric labels.

use super::section::Section;

pub(crate) const KEY: &str = "name";

const LENGTH_MAX: usize = 64;

/// The names given so far in one place, to keep them apart.
pub(crate) struct Names {
    taken: Vec<String>,
    reserved: &'static str,
    what: &'static str,
}

impl Names {
    /// No names yet; `reserved` may not be given.
    pub(crate) const fn reserving(reserved: &'static str, what: &'static str) -> Self {
        Self {
            taken: Vec::new(),
            reserved,
            what,
        }
    }

    /// Takes `name`, which `section` has, or notes why it may not have it.
    pub(crate) fn take(&mut self, section: &Section<'_>, name: &str) {
        if !section.sound(&[KEY]) {
            return;
        }
        let plain = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if name.is_empty() || name.len() > LENGTH_MAX || !plain {
            section.refuse(
                KEY,
                format!("`name = \"{name}\"` will not do as a metric label"),
                format!(
                    "write 1 to {LENGTH_MAX} of the characters a-z, A-Z, 0-9, '-', '_' and '.'"
                ),
            );
        } else if !self.reserved.is_empty() && name == self.reserved {
            section.refuse(
                KEY,
                format!(
                    "the name \"{name}\" is kept for what no {} takes",
                    self.what
                ),
                "choose another name",
            );
        } else if self.taken.iter().any(|other| other == name) {
            section.refuse(
                KEY,
                format!("a second {} is called \"{name}\"", self.what),
                "give each a name of its own",
            );
        } else {
            self.taken.push(name.to_owned());
        }
    }
}

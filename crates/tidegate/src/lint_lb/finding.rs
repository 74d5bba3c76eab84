//! What is found in a file, and why one cannot be looked into.

use serde::Serialize;

/// Something that would go wrong.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The column, in characters from 1.
    pub(crate) column: usize,
    /// Which trap it is.
    pub(crate) trap: &'static str,
    /// What stands there.
    pub(crate) what: String,
    /// What comes of it.
    pub(crate) why: &'static str,
    /// What to write instead.
    pub(crate) fix: &'static str,
}

/// A kind of finding: what all of one kind have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trap {
    pub(crate) name: &'static str,
    pub(crate) why: &'static str,
    pub(crate) fix: &'static str,
}

/// Why a file cannot be looked into. Line and column are 0 where it is none of its places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) what: String,
}

impl Trap {
    /// The finding that `what` at this place is one of these.
    pub(crate) fn at(self, line: usize, column: usize, what: impl Into<String>) -> Finding {
        Finding {
            line,
            column,
            trap: self.name,
            what: what.into(),
            why: self.why,
            fix: self.fix,
        }
    }
}

impl Unreadable {
    pub(crate) fn at(line: usize, column: usize, what: &str) -> Self {
        Self {
            line,
            column,
            what: what.to_owned(),
        }
    }

    pub(crate) fn whole(what: &str) -> Self {
        Self::at(0, 0, what)
    }
}

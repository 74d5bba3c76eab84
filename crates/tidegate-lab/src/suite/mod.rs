//! Scenario files: reading and checking them, the suites that are part of the program, running
//! them on all cores, and holding the runs against their bars.

mod check;
mod data;
mod embedded;
mod read;

pub use check::Problem;
pub use embedded::{SUITES, Suite};
pub use read::{ReadError, parse, read};

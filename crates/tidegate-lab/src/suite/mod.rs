//! Scenario files: reading and checking them, the suites that are part of the program, running
//! them on all cores, and holding the runs against their bars.

mod check;
mod data;
mod embedded;
mod judge;
mod measure;
mod read;
mod runner;

pub use check::Problem;
pub use embedded::{SUITES, Suite};
pub use judge::{Verdict, judge};
pub use measure::measure;
pub use read::{ReadError, parse, read};
pub use runner::{Case, Progress, run_all, threads};

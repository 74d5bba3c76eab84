//! A run of the generator.
use std::io;

use super::{LoadPlan, Report, SecondReport};

/// A run in progress, on a thread of its own. Dropping it stops it.
pub struct Run(());

impl Run {
    /// Starts playing `plan`.
    pub fn start(_plan: LoadPlan) -> io::Result<Self> {
        todo!()
    }

    /// The seconds so far, the last one still going on.
    pub fn seconds(&self) -> Vec<SecondReport> {
        todo!()
    }

    /// Whether every visit has ended.
    pub fn is_finished(&self) -> bool {
        todo!()
    }

    /// Waits until every visit has ended.
    pub fn join(self) -> io::Result<Report> {
        todo!()
    }
}

/// Plays `plan` to its end.
pub fn run(plan: LoadPlan) -> io::Result<Report> {
    Run::start(plan)?.join()
}

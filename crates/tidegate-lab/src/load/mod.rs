//! Open-loop load: visitors who arrive by a schedule however slow the answers are, have patience
//! and run out of it, and come back when turned away.
//!
//! [`Run::start`] plays a [`LoadPlan`] on a thread of its own and ends in a [`Report`], which says
//! by itself when it is worthless. [`closed_loop`] measures what a server can do at most, and
//! [`raw`] has clients that misbehave.

mod answer;
mod closed_loop;
mod connection;
mod plan;
pub mod raw;
mod recorder;
mod report;
mod run;
mod schedule;
mod visit;

pub use closed_loop::{Capacity, ClosedLoop, closed_loop};
pub use plan::{
    Arrivals, Kind, LoadPlan, Patience, Pause, Phase, Request, Retry, RetryAfter, Reuse,
};
pub use report::{Invalidity, KindReport, Percentiles, PhaseReport, Report, SecondReport, Tally};
pub use run::{Run, run};

//! What every drill can be told.

use std::time::Duration;

/// Settings that all drills share.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of load in each measured run, instead of the drill's own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(3..=3_600))]
    pub(crate) seconds: Option<u64>,
    /// Rounds of a drill that compares costs, instead of its own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: Option<u32>,
    /// Threads of the gateway and of what it is compared with.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: u32,
    /// How often a drill is begun at most when the machine was too busy for its run to count.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=9))]
    pub(crate) attempts: u32,
    /// Write the result as JSON to standard output, and everything else to standard error.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    /// How long a measured run lasts that lasts `usual` seconds if nobody says otherwise.
    pub(crate) fn length(&self, usual: u64) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(usual))
    }
}

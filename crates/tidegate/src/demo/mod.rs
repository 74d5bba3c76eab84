//! `tidegate demo`: the same surge on the same shop, once bare and once behind Tidegate.

use std::path::PathBuf;
use std::process::ExitCode;

mod shop;

pub use shop::{ShopArgs, shop};

/// See what Tidegate does: a shop past its knee, without it and with it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Seconds of load on each of the two shops; the demo takes a little more than twice that.
    #[arg(long, value_name = "N")]
    pub seconds: Option<u32>,
    /// Slow the shop's recommendation dependency down 20 times.
    #[arg(long)]
    pub slow_dependency: bool,
    /// Play a real incident instead: 64 workers of 64 ms, callers who wait 2 s and come twice more,
    /// a fifth above the usual peak.
    #[arg(long)]
    pub incident: bool,
    /// Write the results as JSON to FILE, or to standard output for `-`.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Runs the demo. Exit code 0: protection held; 1: it did not; 3: the machine was too busy for the
/// run to count.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let _ = args;
    anyhow::bail!("the demo is not there yet")
}

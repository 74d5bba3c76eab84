//! `tidegate limit`: what can be done about limits.

mod import;

use std::process::ExitCode;

use clap::Subcommand;

/// What can be done about limits.
#[derive(Subcommand)]
pub(crate) enum Command {
    Import(import::Args),
}

/// Does it.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Import(args) => import::run(&args),
    }
}

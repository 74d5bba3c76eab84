//! `tidegate room`: what can be done about waiting rooms.

mod export;

use std::process::ExitCode;

use clap::Subcommand;

/// What can be done about waiting rooms.
#[derive(Subcommand)]
pub(crate) enum Command {
    Export(export::Args),
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Export(args) => export::run(&args),
    }
}

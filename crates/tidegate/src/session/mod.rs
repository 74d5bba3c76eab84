//! `tidegate session`: looks at sessions, ends them, and makes keys for them.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use tidegate_gateway::session::draw_line;

/// What can be done about sessions.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Print a fresh line for a key file.
    ///
    /// Every gateway of a fleet needs the same file: `tidegate session key > session.key` makes one.
    Key,
}

/// Does what `command` says.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Key => print(&draw_line()),
    }
}

/// Prints a line. Who has read enough, as `head` does, has been told enough.
fn print(line: &str) -> anyhow::Result<ExitCode> {
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

//! `tidegate session`: looks at sessions, ends them, and makes keys for them.

use std::process::ExitCode;

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
        Command::Key => crate::print(&draw_line()),
    }
}

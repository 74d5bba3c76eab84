//! What the process says on standard error.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For machines, one object a line.
    Json,
}

/// What a command that runs for long says, and how.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LogArgs {
    /// How much to log to standard error.
    #[arg(long, value_enum, env = "TIDEGATE_LOG", default_value_t = Level::Info)]
    log: Level,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    log_format: Format,
}

/// Sends log lines to standard error, as `args` say.
pub(crate) fn start(args: LogArgs) {
    let LogArgs {
        log: level,
        log_format: format,
    } = args;
    let level = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        // It would complain on standard error that standard error cannot be written, and panic.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        Format::Text => lines.init(),
        Format::Json => lines.json().init(),
    }
}

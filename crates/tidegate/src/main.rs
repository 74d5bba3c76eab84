//! `tidegate`: overload protection for a web site or API, in front of the application.

mod config;
mod demo;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use config::{Flags, Refused, Summary};
use tidegate_gateway::plan::Plan;

/// Keeps a web site or API useful when demand exceeds what it can serve.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Validate a configuration file and show what follows from it.
    Check {
        /// The file.
        file: PathBuf,
    },
    Demo(demo::Args),
    #[command(hide = true)]
    Shop(demo::ShopArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Check { file } => check(&file),
        Command::Demo(args) => demo::run(args),
        Command::Shop(args) => demo::shop(args),
    };
    outcome.unwrap_or_else(|error| {
        // A refused configuration is a page of its own; anything else is one line with its causes.
        match error.downcast_ref::<Refused>() {
            Some(refused) => eprintln!("{refused}"),
            None => eprintln!("tidegate: {error:#}"),
        }
        ExitCode::FAILURE
    })
}

fn check(file: &Path) -> anyhow::Result<ExitCode> {
    let plan = load(Some(file), &Flags::default())?;
    println!(
        "{}: ok\n\n{}",
        file.display(),
        Summary(&plan).to_string().trim_end()
    );
    Ok(ExitCode::SUCCESS)
}

fn load(file: Option<&Path>, flags: &Flags) -> anyhow::Result<Plan> {
    let Some(file) = file else {
        return Ok(config::parse("no file", "", flags)?);
    };
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the configuration file {}", file.display()))?;
    Ok(config::parse(&file.display().to_string(), &text, flags)?)
}

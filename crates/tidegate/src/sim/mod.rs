//! `tidegate sim`: scenarios in virtual time, over the very code that decides in the gateway.

mod decisions;
mod jobs;
mod outputs;
mod play;
mod replay;
mod shape;

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use tidegate_lab::report::{Results, page, summary};
use tidegate_lab::suite::SUITES;

use jobs::Work;
use outputs::Outputs;

/// Simulate traffic past the knee, in virtual time, with the code that decides in the gateway.
///
/// Exit code 0: every bar holds; 1: one is missed, and named; 2: nothing could be run.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    /// Scenario files.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Suites that are part of the program; "all" for all of them.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    suite: Vec<String>,
    /// Only the scenarios with these ids.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// List the suites with their scenarios, and the policies.
    #[arg(long)]
    list: bool,
    /// Run the limits that others have published, too (at two seeds).
    #[arg(long)]
    peers: bool,
    /// Policies to run instead of Tidegate's own and those that a scenario names.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "peers"
    )]
    policy: Vec<String>,
    /// How many seeds, from 1 on; policies beside Tidegate's own run at two at most.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: u32,
    /// Multiply all rates by this.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    scale: f64,
    /// A configuration of the gateway to simulate, with the traffic of --shape.
    #[arg(long, value_name = "FILE", requires = "shape", conflicts_with_all = ["files", "suite"])]
    config: Option<PathBuf>,
    /// A scenario whose traffic asks for paths, for --config to say what they are.
    #[arg(long, value_name = "FILE", requires = "config")]
    shape: Option<PathBuf>,
    /// Which application of --config, where it is not the one that the traffic asks for first.
    #[arg(long, value_name = "NAME", requires = "config")]
    app: Option<String>,
    /// Write the results as JSON to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write a page with plots over time.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Threads to run on, instead of one per core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// What is done instead of simulating.
#[derive(Clone, Debug, clap::Subcommand)]
enum Other {
    Replay(replay::Args),
}

/// Runs what `args` ask for and says what came of it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(Other::Replay(args)) = &args.other {
        return replay::run(args);
    }
    if args.list {
        print(&listing()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    outputs::ending("--html", args.html.as_deref())?;
    outputs::ending("--json", args.json.as_deref())?;
    let Work { jobs, inputs } = jobs::work(args)?;
    let json = args.json.as_deref().filter(|json| *json != Path::new("-"));
    let outputs = Outputs::open(args.html.as_deref(), json, &inputs)?;
    let results = play::play(
        &jobs,
        args.threads,
        args.html.is_some() || args.json.is_some(),
    )?;
    publish(&results, args, outputs)?;
    let missed = results
        .scenarios
        .iter()
        .flat_map(|scenario| &scenario.bars)
        .any(|bar| !bar.held);
    Ok(if missed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if factor > 0.0 && factor <= 1000.0 => Ok(factor),
        _ => Err("write a number above 0 and up to 1000".to_owned()),
    }
}

fn listing() -> anyhow::Result<String> {
    let mut text = String::new();
    for suite in SUITES {
        text.push_str(&format!("{}: {}\n", suite.name, suite.about));
        for scenario in suite.scenarios()? {
            text.push_str(&format!("  {:<10} {}\n", scenario.id, scenario.title));
        }
        text.push('\n');
    }
    text.push_str(&format!("policies: {}\n", jobs::policies()));
    Ok(text)
}

/// The table comes first: it is there whatever becomes of the files.
fn publish(results: &Results, args: &Args, outputs: Outputs) -> anyhow::Result<()> {
    let text = summary(results);
    if args.json.is_some() && outputs.json.is_none() {
        // Where nobody reads it, the results are still on standard output.
        let _ = std::io::stderr().write_all(text.as_bytes());
        print(&format!("{}\n", serde_json::to_string(results)?))?;
    } else {
        print(&text)?;
    }
    if let Some(mut html) = outputs.html {
        html.write(&page(results))?;
    }
    if let Some(mut json) = outputs.json {
        json.write(&serde_json::to_string(results)?)?;
    }
    Ok(())
}

/// Writes to standard output. Who has read enough, as `head` does, has been told enough.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

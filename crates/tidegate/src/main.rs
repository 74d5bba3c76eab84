//! `tidegate`: overload protection for a web site or API, in front of the application.

mod admin;
mod agent;
mod balancer;
mod client;
mod config;
mod control;
mod demo;
mod explain;
mod here;
mod limit;
mod lint_lb;
mod loaded;
mod log;
mod node;
mod online;
mod permits;
mod rls;
mod room;
mod run;
mod secrets;
mod session;
mod sim;

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{ArgGroup, Args, Parser, Subcommand};

use config::{Flags, Refused, Role, Setup, Summary};
use loaded::Loaded;

/// Nothing could be simulated: 1 is for a simulation that missed a bar.
const EXIT_NOT_RUN: u8 = 2;

/// Keeps a web site or API useful when demand exceeds what it can serve.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway.
    Run(RunArgs),
    /// Validate a configuration file and show what follows from it.
    Check {
        /// The file.
        file: PathBuf,
        /// Connect to the servers of `[store]` too, and say which of their settings to change.
        #[arg(long)]
        online: bool,
        /// It is for `tidegate agent`, without applications.
        #[arg(long)]
        agent: bool,
    },
    /// Say what would happen to a request, and why, and how safe what it writes is.
    Explain {
        /// The configuration file.
        file: PathBuf,
        /// A method and a path or URL, such as 'POST /checkout'.
        request: String,
        /// A header that the request has.
        #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
        headers: Vec<String>,
    },
    /// Say how a node is, whose proxy is something else, to its fleet and to balancers; or look once, with `probe`.
    Agent(agent::AgentArgs),
    /// Look at sessions, end them, and make keys for them.
    #[command(subcommand)]
    Session(session::Command),
    /// Look at the rate limits of a running gateway, reset one for somebody, and bring limits over.
    #[command(subcommand)]
    Limit(limit::Command),
    /// Look at the nodes of a fleet, say why they are as they are, and drain them.
    #[command(subcommand)]
    Node(node::Command),
    /// Look at waiting rooms, hold, release and close them, make keys for them, and write their page for a CDN.
    #[command(subcommand)]
    Room(room::Command),
    LintLb(lint_lb::Args),
    Demo(demo::Args),
    Sim(Box<sim::Args>),
    #[command(hide = true)]
    Shop(demo::ShopArgs),
}

#[derive(Args)]
#[command(group = ArgGroup::new("what to run").required(true).multiple(true).args(["config", "upstream"]))]
struct RunArgs {
    /// Configuration file; without one, --upstream is enough and every default holds.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the application listens, such as http://127.0.0.1:8000.
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// Where to listen for clients.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where to serve /metrics and /status.json, or "off".
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// Requests that the application works on at once.
    #[arg(long, value_name = "N")]
    workers: Option<u32>,
    /// Threads of the gateway itself.
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// "enforce", or "shadow" to decide and count but let everything in.
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    #[command(flatten)]
    log: log::LogArgs,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => run(args),
        Command::Check {
            file,
            online,
            agent,
        } => {
            let role = if agent { Role::Agent } else { Role::Gateway };
            check(&file, online, role)
        }
        Command::Explain {
            file,
            request,
            headers,
        } => load(Some(&file), &Flags::default())
            .and_then(|setup| explain::explain(&setup, &request, &headers)),
        Command::Agent(args) => agent::run(args),
        Command::Session(command) => session::run(command),
        Command::Limit(command) => limit::run(command),
        Command::Node(command) => node::run(command),
        Command::Room(command) => room::run(command),
        Command::LintLb(args) => lint_lb::run(&args),
        Command::Demo(args) => demo::run(args),
        Command::Shop(args) => demo::shop(args),
        Command::Sim(args) => {
            return sim::run(&args).unwrap_or_else(|error| {
                tell(&error);
                ExitCode::from(EXIT_NOT_RUN)
            });
        }
    };
    outcome.unwrap_or_else(|error| {
        tell(&error);
        ExitCode::FAILURE
    })
}

/// A refused configuration is a page of its own; anything else is one line with its causes. Where
/// nobody can be told, the exit code says it.
fn tell(error: &anyhow::Error) {
    let _ = match error.downcast_ref::<Refused>() {
        Some(refused) => writeln!(std::io::stderr(), "{refused}"),
        None => {
            // What went wrong may be told in the words of a file.
            let causes = tidegate_lab::text::escaped(&format!("{error:#}"));
            writeln!(std::io::stderr(), "tidegate: {causes}")
        }
    };
}

fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let flags = Flags {
        upstream: args.upstream,
        listen: args.listen,
        admin: args.admin,
        workers: args.workers,
        threads: args.threads,
        mode: args.mode,
    };
    let (setup, loaded) = Loaded::load(Role::Gateway, args.config.as_deref(), flags)?;
    log::start(args.log);
    run::run(setup, loaded)
}

fn check(file: &Path, online: bool, role: Role) -> anyhow::Result<ExitCode> {
    let shown = file.display().to_string();
    let text = config::read(file)?;
    let setup = config::parse_for(role, &shown, &text, &Flags::default())?;
    let looked = secrets::look(&setup);
    let mut notes = looked.map_err(|faults| config::faulty(&shown, &text, faults))?;
    notes.extend(here::look(&setup));
    let summary = Summary(&setup).to_string();
    let mut page = format!("{shown}: ok\n\n{}", summary.trim_end());
    for note in notes {
        page.push('\n');
        page.push_str(&note);
    }
    let code = print(&page)?;
    if online {
        online::check(&setup)
    } else {
        Ok(code)
    }
}

/// Prints a page. Who has read enough, as `head` does, has been told enough.
fn print(page: &str) -> anyhow::Result<ExitCode> {
    match writeln!(std::io::stdout(), "{page}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The setup of a gateway.
fn load(file: Option<&Path>, flags: &Flags) -> anyhow::Result<Setup> {
    Ok(Loaded::load(Role::Gateway, file, flags.clone())?.0)
}

/// The setup of a gateway or an agent, whichever the file is for.
fn load_any(file: &Path) -> anyhow::Result<Setup> {
    let role = config::role_of(&config::read(file)?);
    Ok(Loaded::load(role, Some(file), Flags::default())?.0)
}

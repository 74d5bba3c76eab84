//! `tidegate agent`: says how a node is whose proxy is something else, or looks at it once.

mod look;
mod run;
mod show;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::Value;
use tidegate_core::time::Mono;
use tidegate_fleet::Listen;
use tidegate_fleet::agent::{At, Roots, Runtime, Sampler, TICK, Terms, Url};

pub(crate) use self::look::{Look, secret};
use crate::client;
use crate::config::{Flags, Role};
use crate::loaded::Loaded;
use crate::log::{self, LogArgs};

/// An agent that runs, or what it can be told to do instead.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    command: Option<Command>,
    /// Configuration file, as for `tidegate run` but without what is about requests.
    #[arg(short, long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
}

/// What an agent can be told to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Say what can be seen of an application and its machine, what cannot, and what to switch on.
    Probe(Box<ProbeArgs>),
}

/// What to look at. Nothing of it needs a configuration file.
#[derive(Args)]
pub(crate) struct ProbeArgs {
    /// What the application runs on: tomcat, spring-boot, php-fpm, gunicorn, puma, apache-prefork, node or
    /// generic-listener.
    #[arg(long, value_name = "RUNTIME", value_parser = runtime, default_value = "generic-listener")]
    profile: Runtime,
    /// Where it listens, such as 127.0.0.1:8080 or unix:/run/app.sock; may be given several times.
    #[arg(long, value_name = "LISTENER")]
    listen: Vec<At>,
    /// Where it tells its state: Tomcat's manager (http://127.0.0.1:8081/manager), a page of metrics (spring-boot, node),
    /// /stats of Puma's control server, Apache's server-status.
    #[arg(long, value_name = "URL")]
    url: Option<Url>,
    /// A page of metrics in Prometheus's format beside that, such as jmx_exporter's.
    #[arg(long, value_name = "URL")]
    metrics: Option<Url>,
    /// Who asks Tomcat's manager.
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,
    /// A file with that user's password.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// A file with the token of Puma's control server.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// php-fpm: where its status is told, best that of pm.status_listen; without it the first listener is asked.
    #[arg(long, value_name = "LISTENER")]
    status: Option<At>,
    /// php-fpm: pm.status_path.
    #[arg(long, value_name = "PATH", default_value = "/status")]
    status_path: String,
    /// gunicorn: the address of --statsd-host, which is listened at.
    #[arg(long, value_name = "ADDRESS")]
    statsd: Option<SocketAddr>,
    /// Workers that it has where it does not tell: pm.max_children, gunicorn's --workers, MaxRequestWorkers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    workers: Option<u32>,
    /// A process of the application, whose cgroup counts instead of our own.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// A sidecar that the application posts signals to, such as unix:/run/tidegate/sidecar.sock.
    #[arg(long, value_name = "LISTENER")]
    sidecar: Option<At>,
    /// In place of /proc.
    #[arg(long, value_name = "DIRECTORY", default_value = "/proc")]
    proc_root: PathBuf,
    /// In place of /sys.
    #[arg(long, value_name = "DIRECTORY", default_value = "/sys")]
    sys_root: PathBuf,
    /// How long to look, once a second; the last look is shown. Differences need two.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
}

/// Does what `args` say.
pub(crate) fn run(args: AgentArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(Command::Probe(args)) => probe(&args),
        None => {
            let file = args.config.as_deref();
            let (setup, loaded) = Loaded::load(Role::Agent, file, Flags::default())?;
            log::start(args.log);
            run::run(setup, loaded)
        }
    }
}

fn runtime(name: &str) -> Result<Runtime, String> {
    Runtime::named(name).ok_or_else(|| {
        let names = Runtime::ALL.map(Runtime::name);
        let nearest = names.into_iter().max_by(|a, b| {
            let likeness = |it| strsim::jaro_winkler(name, it);
            likeness(a).total_cmp(&likeness(b))
        });
        let nearest = nearest.unwrap_or_default();
        format!("did you mean {nearest}? There are {}", names.join(", "))
    })
}

fn probe(args: &ProbeArgs) -> anyhow::Result<ExitCode> {
    let plan = args.look()?.plan()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let seen = runtime.block_on(async {
        let mut sampler =
            Sampler::new(plan, None).context("cannot listen for gunicorn's statsd")?;
        let begun = Instant::now();
        let now =
            || Mono::from_nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let mut ticks = tokio::time::interval(TICK);
        for _ in 0..args.seconds {
            ticks.tick().await;
            sampler.tick(now()).await;
        }
        ticks.tick().await;
        anyhow::Ok(sampler.tick(now()).await.clone())
    })?;
    let posted = args.posted()?;
    let page = match args.json {
        true => format!("{:#}", show::json(args.profile, &seen, &posted)),
        false => show::page(args.profile, &seen, &posted),
    };
    crate::print(page.trim_end())
}

impl ProbeArgs {
    fn look(&self) -> anyhow::Result<Look> {
        let look = Look {
            runtime: self.profile,
            listen: self.listen.clone(),
            url: self.url.clone(),
            metrics: self.metrics.clone(),
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            token_file: self.token_file.clone(),
            status: self.status.clone(),
            status_path: self.status_path.clone(),
            statsd: self.statsd,
            pid: self.pid,
            roots: Roots {
                proc: self.proc_root.clone(),
                sys: self.sys_root.clone(),
            },
            terms: Terms {
                workers: self.workers,
                ..Terms::default()
            },
        };
        match look.idle().first() {
            Some((flag, why)) => bail!("--{} {why}", flag.replace('_', "-")),
            None => Ok(look),
        }
    }

    /// What the application has posted to its sidecar.
    fn posted(&self) -> anyhow::Result<Vec<Value>> {
        let Some(at) = &self.sidecar else {
            return Ok(Vec::new());
        };
        let to = match at {
            At::Tcp(address) => Listen::Loopback(*address),
            At::Unix(path) => Listen::Socket(path.clone()),
        };
        let answer = client::ask(client::PATIENCE, "sidecar", &to, "GET", "/v1/signals", None)?;
        ensure!(
            answer.status == 200,
            "the sidecar on {to} knows no signals: it answers {}",
            answer.status
        );
        let mut said: Value = serde_json::from_slice(&answer.body)
            .context("what answers is no sidecar: it does not say JSON")?;
        match said["signals"].take() {
            Value::Array(signals) => Ok(signals),
            _ => bail!("what answers is no sidecar: it has no signals"),
        }
    }
}

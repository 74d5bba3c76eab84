//! `tidegate run`: starts the gateway, and ends it on a signal.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use tidegate_gateway::Gateway;
use tidegate_gateway::plan::Plan;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Descriptors beyond connections: listeners, runtimes, standard streams, files.
const DESCRIPTORS_SPARE: u64 = 128;

/// Runs `plan` until a signal, and drains. A second signal stops at once.
pub(crate) fn run(plan: Plan) -> anyhow::Result<ExitCode> {
    raise_descriptor_limit(descriptors(&plan));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime for signals")?;
    let code = runtime.block_on(serve(plan))?;
    // After a second signal a thread may still be waiting for the drain; do not wait for it.
    runtime.shutdown_background();
    Ok(code)
}

async fn serve(plan: Plan) -> anyhow::Result<ExitCode> {
    // Before the gateway is ready, so that no signal can slip through between.
    let mut signals = Signals::listen()?;
    let gateway = Gateway::start(plan)?;

    let admin = gateway
        .admin_address()
        .map_or_else(|| "off".to_owned(), |address| format!("on {address}"));
    let mut stdout = std::io::stdout();
    // Nobody reading is no reason not to serve.
    let _ = writeln!(
        stdout,
        "tidegate: listening on {}, admin {admin}",
        gateway.address()
    );
    let _ = stdout.flush();

    let name = signals.next().await;
    tracing::info!(signal = name, "draining; a second signal stops at once");
    gateway.drain();
    let finished = tokio::task::spawn_blocking(move || gateway.join());
    tokio::select! {
        finished = finished => {
            finished.context("a gateway thread has failed")?;
            tracing::info!("drained");
            Ok(ExitCode::SUCCESS)
        }
        name = signals.next() => {
            tracing::warn!(signal = name, "stopped before the drain was over");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The signals that end the process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// File descriptors that `plan` may need at once.
fn descriptors(plan: &Plan) -> u64 {
    let clients = plan.listener.connections_max.get()
        + plan.probes.connections_reserved.get()
        + plan.probes.overflow_connections_max.get();
    let upstreams = plan
        .apps
        .iter()
        .map(|app| u64::from(app.upstream.connections_max.get()));
    // A runtime has three: its selector, its waker and their pair.
    u64::from(clients) + upstreams.sum::<u64>() + 4 * plan.threads.get() as u64 + DESCRIPTORS_SPARE
}

/// Raises the soft limit on open files to what is `needed`, or as far as it goes.
fn raise_descriptor_limit(needed: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    // None is no limit.
    let allowed = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
    if limit.current.is_some_and(|current| current < allowed)
        && let Err(error) = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(allowed),
                maximum: limit.maximum,
            },
        )
    {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
    let current = getrlimit(Resource::Nofile).current;
    if let Some(current) = current.filter(|&current| current < needed) {
        tracing::warn!(
            allowed = current,
            needed,
            "fewer open files are allowed than the connection caps need: raise the hard limit \
             (LimitNOFILE in a systemd unit) or lower connections_max"
        );
    }
}

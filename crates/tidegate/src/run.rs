//! `tidegate run`: starts the gateway, and ends it on a signal.

use std::io::Write;
use std::num::NonZeroU32;
use std::process::ExitCode;

use anyhow::Context;
use tidegate_gateway::Gateway;
use tidegate_gateway::plan::Plan;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Descriptors beyond connections: listeners, runtimes, standard streams, files.
const DESCRIPTORS_SPARE: u64 = 128;

/// Client connections without which a start is not worth while.
const CONNECTIONS_MIN: u64 = 64;

/// Runs `plan` until a signal, and drains. A second signal stops at once.
pub(crate) fn run(mut plan: Plan) -> anyhow::Result<ExitCode> {
    let needed = descriptors(&plan);
    if let Some(allowed) = raise_descriptor_limit(needed) {
        plan.listener.connections_max = fit(plan.listener.connections_max, needed, allowed)?;
    }
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

/// The client connections that there are files for when only `allowed` may be open, not `needed`.
///
/// With more, clients would take the files that connections to the application and the admin
/// listener need, and everybody's requests would fail.
fn fit(connections_max: NonZeroU32, needed: u64, allowed: u64) -> anyhow::Result<NonZeroU32> {
    let others = needed - u64::from(connections_max.get());
    let left = allowed.saturating_sub(others);
    anyhow::ensure!(
        left >= CONNECTIONS_MIN.min(connections_max.get().into()),
        "the system allows {allowed} open files, and {others} are needed beside those of clients: \
         raise the hard limit (ulimit -Hn, LimitNOFILE in a systemd unit) or lower connections_max in \
         [[app]]"
    );
    let fitting = u32::try_from(left)
        .ok()
        .and_then(NonZeroU32::new)
        .map_or(connections_max, |left| left.min(connections_max));
    tracing::warn!(
        allowed,
        needed,
        connections_max = fitting,
        "fewer open files are allowed than the connection caps need, so fewer clients are let in: \
         raise the hard limit (LimitNOFILE in a systemd unit) or lower connections_max"
    );
    Ok(fitting)
}

/// Raises the soft limit on open files to what is `needed`, or as far as it goes. Returns the limit
/// if that is not enough.
fn raise_descriptor_limit(needed: u64) -> Option<u64> {
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
    current.filter(|&current| current < needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_the_files_that_nothing_else_needs() {
        let asked = NonZeroU32::new(10_000).unwrap();

        assert_eq!(fit(asked, 11_000, 4096).unwrap().get(), 3096);
        assert_eq!(fit(asked, 11_000, 1064).unwrap().get(), 64);
        assert!(fit(asked, 11_000, 1063).is_err());
        assert!(fit(asked, 11_000, 64).is_err());
        assert_eq!(fit(NonZeroU32::MIN, 101, 101).unwrap().get(), 1);
    }
}

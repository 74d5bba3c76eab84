//! The gateway's threads: each a runtime of its own, all of them the same but for the first, which
//! also accepts connections and runs what there is only one of.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::context::Thread;
use crate::drain::Drain;
use crate::listener::Handoff;
use crate::log::RefusalLog;
use crate::serve::Server;

/// Connections on their way to a thread.
pub(crate) const MAILBOX_MAX: usize = 1024;

/// How often a loop shows that it comes round.
const BEAT_INTERVAL: Duration = Duration::from_millis(100);

/// How often refusals are logged.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How far the gateway has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Connections are accepted.
    Serving,
    /// Those in the backlog still are.
    Closing,
    /// Everything ends now.
    Stopped,
}

/// A runtime for one thread.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Starts the first thread, whose runtime has the listener's task already.
pub(crate) fn start_first(
    runtime: Runtime,
    thread: Arc<Thread>,
    drain: Drain,
    drain_asked: watch::Receiver<bool>,
    mut log: RefusalLog,
) -> io::Result<JoinHandle<()>> {
    let stage = drain.stage.subscribe();
    start(0, runtime, async move {
        tokio::spawn(beat(Arc::clone(&thread)));
        tokio::spawn(drain.run(drain_asked));
        tokio::spawn(async move {
            loop {
                sleep(REPORT_INTERVAL).await;
                let shedding = log.report();
                thread.shared.health.set_shedding(shedding);
                thread.shared.rates.sweep(thread.shared.clock.now());
            }
        });
        stopped(stage).await;
    })
}

/// Starts another thread, which serves the connections that come to its mailbox.
pub(crate) fn start_other(
    runtime: Runtime,
    thread: Arc<Thread>,
    mut mailbox: mpsc::Receiver<Handoff>,
    stage: watch::Receiver<Stage>,
) -> io::Result<JoinHandle<()>> {
    start(thread.index, runtime, async move {
        let server = Arc::new(Server::new(Arc::clone(&thread)));
        tokio::spawn(beat(thread));
        tokio::spawn(async move {
            while let Some(Handoff {
                stream,
                peer,
                permit,
            }) = mailbox.recv().await
            {
                server.spawn(stream, peer, permit);
            }
        });
        stopped(stage).await;
    })
}

/// Waits for the last stage, or for the end of whoever sets it.
pub(crate) async fn stopped(mut stage: watch::Receiver<Stage>) {
    drop(stage.wait_for(|stage| *stage == Stage::Stopped).await);
}

/// Runs `main` to its end, then drops all tasks of the runtime.
fn start(
    index: usize,
    runtime: Runtime,
    main: impl Future<Output = ()> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let run = move || runtime.block_on(main);
    thread::Builder::new()
        .name(format!("tidegate-{index}"))
        .spawn(run)
}

async fn beat(thread: Arc<Thread>) {
    loop {
        thread
            .shared
            .health
            .beat(thread.index, thread.shared.clock.now());
        sleep(BEAT_INTERVAL).await;
    }
}
